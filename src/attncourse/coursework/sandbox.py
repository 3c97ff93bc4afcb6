"""A submission's process: what it may see and use, and how it ends.

`Session` starts the driver with one notebook and asks it one thing after another. With bubblewrap the process
sees Python, the installed packages and its own notebook, and nothing else: no network, no other submission,
no check, no environment of the lecturer's. Time, memory, processes and disk are limited; whoever takes more
is ended, with everything it started.
"""

import contextlib
import json
import os
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

import attncourse

MEGABYTE = 2**20
# Addresses that are reserved and never touched: libraries take some gigabytes of them.
RESERVED = 6 * 1024 * MEGABYTE
LOOK_EVERY = 0.02  # seconds
ENVIRONMENT = {
    "ATTNCOURSE_DEVICE": "cpu",
    "ATTNCOURSE_QUIET": "1",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "agg",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",
}


@dataclass(frozen=True)
class Limits:
    """What one submission may take. Times are in seconds of the clock, sizes in bytes."""

    start_seconds: float = 120.0  # to load Python's libraries, which is not the submission's doing
    cell_seconds: float = 20.0
    call_seconds: float = 10.0
    submission_seconds: float = 120.0
    memory: int = 1536 * MEGABYTE
    processes: int = 32
    disk: int = 64 * MEGABYTE
    reply: int = 32 * MEGABYTE


class NoSandbox(RuntimeError):
    """Submissions cannot be shut in on this machine."""


class Ended(Exception):
    """The process of a submission is gone; the message says why, in words for its author."""


def require_sandbox(*private: Path) -> None:
    """See that bubblewrap works here and shows a submission none of the private paths.

    Raises:
        NoSandbox: bubblewrap is missing, the system forbids it, or a private path lies in a folder it shows.
    """
    for path in private:
        inside = [shown for shown in _shown() if path.resolve().is_relative_to(shown)]
        if inside:
            raise NoSandbox(f"{path} lies in {inside[0]}, which every submission can read: move it elsewhere")
    missing = _missing()
    if missing:
        raise NoSandbox(
            f"{missing}. Nothing was graded: without it a submission could read this machine's files and use "
            "its network. Whoever accepts that adds --no-sandbox"
        )
    look = [sys.executable, "-c", "import IPython, numpy, attncourse"]
    tried = subprocess.run([*_walls(Limits()), *look], capture_output=True, text=True)
    if tried.returncode:
        why = tried.stderr.strip() or f"exit status {tried.returncode}"
        raise NoSandbox(f"bubblewrap works on this machine, but {look[0]} does not start in it: {why}")


def _missing() -> str:
    """What this machine lacks for any sandbox at all, whatever is to run in it; "" if nothing."""
    if shutil.which("bwrap") is None:
        return "bubblewrap is not installed (Debian, Ubuntu: apt install bubblewrap; 0.8 or later)"
    smallest = ["bwrap", "--unshare-user", "--disable-userns", "--ro-bind", "/", "/", "true"]
    tried = subprocess.run(smallest, capture_output=True, text=True)
    if not tried.returncode:
        return ""
    return f"this system does not let bubblewrap work ({tried.stderr.strip() or tried.returncode})"


def _shown() -> list[Path]:
    """The folders that a submission can read: the system's programs, Python, and the packages."""
    system = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/sbin", "/etc/ld.so.cache")
    python = (sys.prefix, sys.base_prefix, Path(sys.base_prefix).resolve(), Path(attncourse.__file__).parent)
    return [path for path in map(Path, (*system, *python)) if path.exists()]


def _walls(limits: Limits) -> list[str]:
    command = ["bwrap", "--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    command += ["--unshare-cgroup-try", "--disable-userns", "--die-with-parent", "--new-session"]
    command += ["--cap-drop", "ALL", "--hostname", "grading"]
    # What is empty comes first: Python may lie below it, and would be covered.
    command += ["--proc", "/proc", "--dev", "/dev", "--size", str(MEGABYTE), "--tmpfs", "/dev/shm"]
    command += ["--size", str(limits.disk), "--tmpfs", "/tmp", "--dir", "/tmp/empty", "--chdir", "/tmp/empty"]
    for path in _shown():
        link = path.is_symlink() and len(path.parts) == 2
        command += ["--symlink", os.readlink(path), path] if link else ["--ro-bind", path, path]
    command += ["--remount-ro", "/dev"]
    # The package is found in there as it was here, installed or not.
    inside = {**ENVIRONMENT, "PYTHONPATH": str(Path(attncourse.__file__).parents[1])}
    command += ["--clearenv", *(word for pair in inside.items() for word in ("--setenv", *pair))]
    return [str(word) for word in command]


class Session:
    """The driver with one submission, to be used in a `with`.

    Args:
        notebook: the submission's file.
        limits: what it may take.
        sandboxed: whether it is shut in; if not, only the limits hold.
    """

    def __init__(self, notebook: Path, limits: Limits, *, sandboxed: bool = True):
        self.limits = limits
        driver = [sys.executable, "-m", "attncourse.coursework.driver"]
        most = 0 if os.geteuid() == 0 else _tasks_of(os.geteuid()) + limits.processes
        numbers = [str(limits.memory + RESERVED), str(limits.disk), str(most)]
        self._group = _Group(limits.processes) if os.geteuid() == 0 else None
        self._folder = None if sandboxed else tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        if sandboxed:
            inside = "/tmp/submission.ipynb"
            command = [*_walls(limits), "--ro-bind", str(notebook), inside, *driver, inside, *numbers]
            place = {}
        else:
            command = [*driver, str(notebook.resolve()), *numbers]
            home = {**ENVIRONMENT, "HOME": self._folder.name}
            place = {"cwd": self._folder.name, "env": {**os.environ, **home}}
        self._process = subprocess.Popen(
            self._group.joined(command) if self._group else command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
            **place,
        )
        for pipe in (self._process.stdin, self._process.stdout):
            os.set_blocking(pipe.fileno(), False)

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exception) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # with bubblewrap, its whole world ends too
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        if self._group:
            self._group.remove()
        if self._folder:
            self._folder.cleanup()

    def ask(self, what: str, seconds: float, **request) -> dict:
        """Send one request and wait for its reply.

        Raises:
            Ended: no reply came in time, or the process took too much, died, or sent something else.
        """
        token = secrets.token_hex(8)
        message = json.dumps({"do": what, "token": token, **request}).encode() + b"\n"
        try:
            reply = json.loads(self._exchange(message, seconds))
        except BrokenPipeError:
            raise Ended(self._last_words()) from None
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict) or reply.pop("token", None) != token:
            raise Ended("the process wrote something of its own where the answers go")
        return reply

    def _exchange(self, message: bytes, seconds: float) -> bytes:
        """Send a line and receive one. A process that neither reads nor writes cannot hold this one up."""
        until, received = time.monotonic() + seconds, bytearray()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            selector.register(self._process.stdin, selectors.EVENT_WRITE)
            while message or not received.endswith(b"\n"):
                if time.monotonic() > until:
                    raise Ended(f"it took longer than {seconds:g} seconds")
                self._look_after()
                ready = {key.fileobj for key, _ in selector.select(LOOK_EVERY)}
                if self._process.stdin in ready:
                    message = message[self._process.stdin.write(message) :]
                    if not message:
                        selector.unregister(self._process.stdin)
                if self._process.stdout in ready:
                    piece = self._process.stdout.read(MEGABYTE)
                    if not piece:
                        raise Ended(self._last_words())
                    received += piece
                if len(received) > self.limits.reply:
                    raise Ended(f"its answer is larger than {self.limits.reply // MEGABYTE} MB")
        return bytes(received)

    def _look_after(self) -> None:
        """End a submission that takes too much, before it hurts others."""
        with contextlib.suppress(psutil.NoSuchProcess):
            first = psutil.Process(self._process.pid)
            family = [first, *first.children(recursive=True)]
            if len(family) > self.limits.processes:
                raise Ended(f"it started more than {self.limits.processes} processes")
            # What processes share is counted once, but only when it matters: counting so is slow.
            if all(sum(map(size, family)) > self.limits.memory for size in (_resident, _proportional)):
                raise Ended(f"it took more than {self.limits.memory // MEGABYTE} MB of memory")

    def _last_words(self) -> str:
        try:
            status = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "its process stopped answering"
        return f"its process ended by itself (exit status {status})"


class _Group:
    """A control group that bounds the number of processes: to root, the usual limit does not apply."""

    def __init__(self, processes: int):
        base = Path("/sys/fs/cgroup")
        base = base / "pids" if (base / "pids").is_dir() else base
        self.path: Path | None = base / f"attncourse-{secrets.token_hex(8)}"
        try:
            self.path.mkdir()
            # Threads count as well.
            (self.path / "pids.max").write_text(str(4 * processes))
        except OSError:  # a container that may not: then only the look every moment protects
            self.remove()

    def joined(self, command: list[str]) -> list[str]:
        """The command, begun inside the group."""
        if self.path is None:
            return command
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.path / "cgroup.procs"), *command]

    def remove(self) -> None:
        """Give the group back, once its last process is gone."""
        for _ in range(100):
            if self.path is None or not self.path.exists():
                break
            with contextlib.suppress(OSError):
                self.path.rmdir()
            time.sleep(LOOK_EVERY)
        self.path = None


def _tasks_of(user: int) -> int:
    """How many tasks a user has already: some kernels count them all against the limit of each process."""
    count = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            count += process.num_threads() if process.uids().real == user else 0
    return count


def _resident(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error):
        return process.memory_info().rss
    return 0


def _proportional(process: psutil.Process) -> int:
    """Bytes of memory, with what several processes share divided among them where the system tells."""
    with contextlib.suppress(psutil.Error):
        return process.memory_full_info().pss
    return _resident(process)
