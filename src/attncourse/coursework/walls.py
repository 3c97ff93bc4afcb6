"""The walls around a submission: what its process finds in there, and which requests the kernel refuses it.

Python, the packages and the course lie in there at places of their own, wherever they lie on this machine.
There is no /proc, so no process, no setting of the kernel and no list of mounts can be read or written.
Nothing but two small folders can be written to. The lecturer's environment, keys and paths stay outside.
"""

import ctypes
import errno
import os
import secrets
import shutil
import sys
import sysconfig
from functools import cache
from pathlib import Path

import attncourse

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
SYSTEM = ("/usr", "/bin", "/lib", "/lib32", "/lib64", "/sbin", "/etc/ld.so.cache")
SHARED_MEMORY = 2**20
WRITABLE = ("/tmp", "/dev/shm")
# Users that belong to nobody: systemd lends these to services for as long as they run.
NOBODY_S = range(61184, 65520)
# No notebook asks the kernel for these. Each is a way to somebody else's keys, processes or memory, to memory
# that nothing counts, or to parts of the kernel whose mistakes have let programs out of their walls.
FORBIDDEN = {
    "other people's keys and processes": "add_key keyctl request_key kcmp pidfd_getfd process_madvise"
    " process_vm_readv process_vm_writev ptrace",
    "memory of no process and no file": "memfd_create memfd_secret mq_open msgget semget shmat shmget",
    "file systems and namespaces": "chroot fsconfig fsmount fsopen fspick mount mount_setattr move_mount"
    " open_by_handle_at open_tree open_tree_attr pivot_root quotactl quotactl_fd setns swapoff swapon umount"
    " umount2 unshare",
    "the machine": "acct adjtimex clock_adjtime clock_settime delete_module finit_module init_module ioperm"
    " iopl kexec_file_load kexec_load modify_ldt reboot setdomainname sethostname settimeofday syslog",
    "rare parts of the kernel": "bpf fanotify_init io_uring_enter io_uring_register io_uring_setup"
    " lookup_dcookie perf_event_open personality userfaultfd vm86 vm86old",
}
_NEW_NAMESPACES = 0x7E020080  # CLONE_NEWNS and its kind
_SHARED, _WITHOUT_A_FILE = 0x01, 0x20
_INTERNET_6 = 10


def python_inside() -> str:
    """Python's executable as a submission finds it."""
    return "/venv/bin/python" if _in_venv() else _base_inside()


def shown() -> dict[Path, str]:
    """The folders and files of this machine that a submission can read, and where it finds them."""
    places = {Path(path): path for path in SYSTEM if Path(path).exists()}
    base, executable = Path(sys.base_prefix).resolve(), Path(sys.executable).resolve()
    if not executable.is_relative_to("/usr"):
        places[executable] = _base_inside()
        places |= {base / name: f"/python/{name}" for name in ("lib", "lib64") if (base / name).is_dir()}
    if _in_venv():
        for kind in ("purelib", "platlib"):
            packages = Path(sysconfig.get_path(kind))
            if packages.is_dir() and packages.is_relative_to(sys.prefix):
                places[packages] = f"/venv/{packages.relative_to(sys.prefix)}"
    return {**places, Path(attncourse.__file__).parent: "/course/attncourse"}


def _in_venv() -> bool:
    return sys.prefix != sys.base_prefix


def _base_inside() -> str:
    executable = Path(sys.executable).resolve()
    return str(executable) if executable.is_relative_to("/usr") else f"/python/bin/{executable.name}"


class Walls:
    """One pair of walls: the command that starts a process behind them, and the files it needs to be open.

    Args:
        disk: how many bytes a submission may write to /tmp.
    """

    def __init__(self, disk: int):
        self.user = user_to_become()
        self._open: list[int] = []
        arguments = b"\0".join(os.fsencode(str(word)) for word in self._arguments(disk)) + b"\0"
        # Not as words of a command: those can be read by whoever sees the process.
        self.command = [shutil.which("bwrap"), "--args", str(self._file(arguments))]
        if self.user is not None:
            self.command += [shutil.which("setpriv"), f"--reuid={self.user}", f"--regid={self.user}"]
            self.command += ["--clear-groups", "--inh-caps=-all", "--bounding-set=-all", "--no-new-privs"]

    @property
    def files(self) -> list[int]:
        """The open files that the command is to inherit."""
        return self._open

    def close(self) -> None:
        """Close the files, once the command has started."""
        while self._open:
            os.close(self._open.pop())

    def _file(self, content: bytes) -> int:
        """The number of an open file with this content, of which nothing lies on a disk."""
        number = os.memfd_create("walls")
        self._open.append(number)
        os.write(number, content)
        os.lseek(number, 0, os.SEEK_SET)
        return number

    def _arguments(self, disk: int) -> list[object]:
        words = _namespaces(self.user)
        words += ["--die-with-parent", "--new-session", "--hostname", "grading", "--cap-drop", "ALL"]
        if self.user is not None:  # to become another user, nothing else; gone with the old user
            words += ["--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID", "--cap-add", "CAP_SETPCAP"]
        # A map of /dev/zero would be memory that nobody counts.
        words += ["--dev", "/dev", "--dev-bind", "/dev/null", "/dev/zero"]
        for place, size in zip(WRITABLE, (disk, SHARED_MEMORY), strict=True):
            words += ["--perms", "1777", "--size", size, "--tmpfs", place]
        places = [*shown().values(), python_inside(), "/proc/cpuinfo"]
        folders = {folder for place in places for folder in Path(place).parents} - {Path("/usr/bin")}
        words += [word for folder in sorted(folders) for word in ("--perms", "0755", "--dir", folder)]
        for path, place in shown().items():
            link = path.is_symlink() and len(path.parts) == 2
            words += ["--symlink", os.readlink(path), place] if link else ["--ro-bind", path, place]
        words += self._written_for_it()
        words += ["--dir", "/tmp/empty", "--chmod", "1777", "/tmp/empty", "--chdir", "/tmp/empty"]
        words += ["--remount-ro", "/dev", "--remount-ro", "/", "--seccomp", self._file(_filter())]
        inside = {**ENVIRONMENT, "PYTHONPATH": "/course"}
        if "/python/lib" in shown().values():
            inside["LD_LIBRARY_PATH"] = "/python/lib"
        return [*words, "--clearenv", *(word for pair in inside.items() for word in ("--setenv", *pair))]

    def _written_for_it(self) -> list[object]:
        """Files with a content of their own: what the processor can do, and what else would name a path."""
        contents = {"/proc/cpuinfo": _processor()}
        if _in_venv():
            contents["/venv/pyvenv.cfg"] = _environment_s_settings()
        contents |= dict.fromkeys(_telling_files(), b"")
        words = [
            word
            for place, content in contents.items()
            for word in ("--perms", "0444", "--ro-bind-data", self._file(content), place)
        ]
        return [*words, *(["--symlink", _base_inside(), "/venv/bin/python"] if _in_venv() else [])]


def _namespaces(user: int | None) -> list[object]:
    alone = ["--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try"]
    if user is not None:  # root builds the walls, and another user lives in them
        return alone
    return ["--unshare-user", "--disable-userns", "--uid", NOBODY_S[0], "--gid", NOBODY_S[0], *alone]


def smallest_trial() -> list[str]:
    """The command that any walls need to work, whatever they hold."""
    return [str(word) for word in ("bwrap", *_namespaces(user_to_become()), "--ro-bind", "/", "/", "true")]


def user_to_become() -> int | None:
    """A user of nobody's for a submission that root starts; None for everybody else's."""
    if os.geteuid() != 0 or not all(map(_has_nobody_s, ("/proc/self/uid_map", "/proc/self/gid_map"))):
        return None
    return secrets.choice(NOBODY_S)


def is_this_machine_s_root() -> bool:
    """Whether submissions would run as the user who may do everything, for want of another one."""
    first = Path("/proc/self/uid_map").read_text().split()[:2]
    return os.geteuid() == 0 and first == ["0", "0"] and user_to_become() is None


def _has_nobody_s(path: str) -> bool:
    lines = (list(map(int, line.split())) for line in Path(path).read_text().splitlines())
    return any(first <= NOBODY_S[0] and NOBODY_S[-1] < first + count for first, _, count in lines)


def _processor() -> bytes:
    """What torch reads to choose its fastest functions; without it, it computes otherwise than elsewhere."""
    path = Path("/proc/cpuinfo")
    return path.read_bytes() if path.exists() else b""


def _environment_s_settings() -> bytes:
    settings = Path(sys.prefix) / "pyvenv.cfg"
    system = settings.exists() and "include-system-site-packages = true" in settings.read_text().lower()
    home = Path(_base_inside()).parent
    return f"home = {home}\ninclude-system-site-packages = {str(system).lower()}\n".encode()


@cache
def _telling_files() -> list[str]:
    """The files among the packages, as a submission finds them, that say where a checkout lies."""
    found = []
    for path, place in shown().items():
        if path.name in ("site-packages", "dist-packages") and place.startswith("/venv"):
            telling = [*path.glob("*.dist-info/direct_url.json"), *path.glob("__editable__*")]
            telling += [file for file in path.glob("*.pth") if b"\n/" in b"\n" + file.read_bytes()]
            found += [f"{place}/{file.relative_to(path)}" for file in telling if file.is_file()]
    return found


@cache
def _filter() -> bytes:
    """The program with which the kernel looks at each of a submission's requests."""
    import pyseccomp as seccomp

    refuse = seccomp.ERRNO(errno.EPERM)
    rules = seccomp.SyscallFilter(seccomp.ALLOW)
    for name in " ".join(FORBIDDEN.values()).split():
        if seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) > 0:  # some are unknown to older libraries
            rules.add_rule(refuse, name)
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")  # its flags cannot be seen; clone is tried next
    for flag in (1 << bit for bit in range(32) if _NEW_NAMESPACES >> bit & 1):
        rules.add_rule(refuse, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, flag, flag))
    # Shared and without a file: it stays when nobody has it mapped, and counts for nobody.
    without = _SHARED | _WITHOUT_A_FILE
    rules.add_rule(refuse, "mmap", seccomp.Arg(3, seccomp.MASKED_EQ, without, without))
    # Of the kinds of sockets, those of files and of the internet: others lead past a network of one's own.
    rules.add_rule(refuse, "socket", seccomp.Arg(0, seccomp.GT, _INTERNET_6))
    for kind in range(3, _INTERNET_6):
        rules.add_rule(refuse, "socket", seccomp.Arg(0, seccomp.EQ, kind))
    number = os.memfd_create("filter")
    with os.fdopen(number, "w+b") as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def leave_keys_behind() -> None:
    """Give this thread, and what it starts, a keyring of its own: the login's keys stay with the login."""
    import pyseccomp as seccomp

    number = seccomp.resolve_syscall(seccomp.Arch.NATIVE, "keyctl")
    join_session_keyring = 1
    # Where the system knows no keys there are none to leave; and in there nobody may ask for any.
    ctypes.CDLL(None, use_errno=True).syscall(number, join_session_keyring, None)
