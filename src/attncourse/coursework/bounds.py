"""How much of the machine a submission takes: counted by the kernel, or by looking every moment."""

import contextlib
import os
import secrets
import signal
import time
from pathlib import Path

import psutil

CONTROL_GROUPS = Path("/sys/fs/cgroup")
LOOK_EVERY = 0.02  # seconds


class Group:
    """A control group: the kernel counts all memory in it, also what no process shows, and all processes.

    Only root can make one, and not in every container; without it nothing is bounded here.
    """

    def __init__(self, tasks: int, memory: int):
        name = f"attncourse-{os.getpid()}-{secrets.token_hex(4)}"
        bounds = {"pids.max": tasks}
        if _each_has_its_own():
            bounds |= {"memory.limit_in_bytes": memory, "memory.memsw.limit_in_bytes": memory}
        else:
            bounds |= {"memory.max": memory, "memory.swap.max": 0, "memory.oom.group": 1}
        self.folders = [base / name for base in _bases()] if os.geteuid() == 0 else []
        try:
            for folder in self.folders:
                folder.mkdir()
                for file, bound in bounds.items():
                    if (folder / file).exists():
                        (folder / file).write_text(str(bound))
        except OSError:  # a container that may not: then only the look every moment protects
            self.remove()

    def joined(self, command: list[str]) -> list[str]:
        """The command, begun inside the group."""
        if not self.folders:
            return command
        files = [str(folder / "cgroup.procs") for folder in self.folders]
        join = 'while [ "$1" != -- ]; do echo $$ > "$1" || exit 1; shift; done; shift; exec "$@"'
        return ["/bin/sh", "-c", join, "sh", *files, "--", *command]

    def overran(self) -> bool:
        """Whether the kernel ended a process of the group for want of memory."""
        for folder in self.folders:
            for file in (folder / "memory.events", folder / "memory.oom_control"):
                with contextlib.suppress(OSError):
                    counted = dict(line.split() for line in file.read_text().splitlines())
                    if counted.get("oom_kill", "0") != "0":
                        return True
        return False

    def remove(self) -> None:
        """End what is left in the group, and give it back."""
        for folder in self.folders:
            _remove(folder)
        self.folders = []


def remove_groups_left_behind() -> None:
    """Remove the groups of graders that were killed and could not do so themselves."""
    for base in _bases():
        for folder in base.glob("attncourse-*-*"):
            owner = folder.name.split("-")[1]
            if owner.isdecimal() and not psutil.pid_exists(int(owner)):
                _remove(folder)


def _remove(folder: Path) -> None:
    for _ in range(100):
        try:
            for process in (folder / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(int(process), signal.SIGKILL)
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(LOOK_EVERY)  # its last process is on its way out


def _each_has_its_own() -> bool:
    """Whether memory and processes are counted in trees of their own, as in older systems."""
    return (CONTROL_GROUPS / "memory").is_dir() and (CONTROL_GROUPS / "pids").is_dir()


def _bases() -> list[Path]:
    if not _each_has_its_own():
        return [CONTROL_GROUPS] if (CONTROL_GROUPS / "cgroup.controllers").exists() else []
    mine = {}  # below this process's own groups, so that their bounds hold as well
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        mine |= {name: path.lstrip("/") for name in names.split(",")}
    bases = [CONTROL_GROUPS / name / mine.get(name, "") for name in ("memory", "pids")]
    return [base if base.is_dir() else CONTROL_GROUPS / base.parts[4] for base in bases]


def family(first: int) -> list[psutil.Process]:
    """A process and all that came from it; empty if it is gone."""
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(first)
        return [process, *process.children(recursive=True)]
    return []


def memory_of(processes: list[psutil.Process], most: int) -> int:
    """Bytes that they hold. What they share is counted once, but only beyond `most`: counting so is slow."""
    resident = sum(map(_resident, processes))
    return resident if resident <= most else min(resident, sum(map(_proportional, processes)))


def files_in(process: psutil.Process, folders: dict[str, int]) -> int:
    """How many files, folders and links lie in the file systems of a process that have these sizes."""
    count = 0
    for folder, size in folders.items():
        with contextlib.suppress(OSError):
            system = os.statvfs(f"/proc/{process.pid}/root{folder}")
            if system.f_blocks * system.f_frsize == size:  # before the walls stand, it is the machine's own
                count += system.f_files - system.f_ffree
    return count


def tasks_of(user: int) -> int:
    """How many tasks a user has already: some kernels count them all against the limit of each process."""
    count = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            count += process.num_threads() if process.uids().real == user else 0
    return count


def end_all(first: int) -> None:
    """End what came from a process, and what comes while this goes on; the process itself stays."""
    for _ in range(50):
        children = family(first)[1:]
        if not children:
            return
        for process in children:
            with contextlib.suppress(psutil.Error):
                process.kill()
        time.sleep(0.01)


def _resident(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return process.memory_info().rss
    return 0


def _proportional(process: psutil.Process) -> int:
    """Bytes of memory, with what several processes share divided among them where the system tells."""
    with contextlib.suppress(psutil.Error):
        return process.memory_full_info().pss
    return _resident(process)
