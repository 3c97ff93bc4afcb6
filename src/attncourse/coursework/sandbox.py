"""A submission's process: how it is asked, what it may use, and how it ends.

`Session` starts the driver with one notebook and asks it one thing after another. With bubblewrap the process
sees Python, the installed packages and nothing else (see `walls`). Time, memory, processes, files and what it
may answer are limited; whoever takes more is ended, with everything it started.
"""

import contextlib
import json
import os
import re
import secrets
import selectors
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path

import attncourse
from attncourse.coursework import bounds, walls

MEGABYTE = 2**20
# Addresses that are reserved and never touched: libraries take some gigabytes of them.
RESERVED = 6 * 1024 * MEGABYTE
# The sources of a notebook's cells, as `driver` bounds them, with every letter in its longest form.
LARGEST_READ = 16 * MEGABYTE
OF_ITS_OWN = "the process wrote something of its own where the answers go"
_TOKEN = re.compile(rb'"token": "([0-9a-f]{16})"}$', re.MULTILINE)  # as the driver's replies end
# What Python itself needs of this machine's environment where there are no walls.
KEPT = ("DYLD_LIBRARY_PATH", "LD_LIBRARY_PATH", "PATH", "TMPDIR")


@dataclass(frozen=True)
class Limits:
    """What one submission may take. Times are in seconds of the clock, sizes in bytes."""

    start_seconds: float = 120.0  # to load Python's libraries the first time, not the submission's doing
    cell_seconds: float = 20.0
    call_seconds: float = 10.0
    submission_seconds: float = 120.0
    memory: int = 1536 * MEGABYTE
    processes: int = 32
    disk: int = 64 * MEGABYTE
    files: int = 10_000
    reply: int = 4 * MEGABYTE
    things_in_a_reply: int = 200_000  # lists, names and numbers, which take far more than their letters
    notebook: int = 256 * MEGABYTE
    notebooks: int = 20  # of one student


_IN_MEGABYTES = ("memory", "disk", "reply", "notebook")


def limits_from(settings: list[str]) -> Limits:
    """The limits with some of them changed, each as "NAME=NUMBER"; sizes are in megabytes.

    Raises:
        ValueError: there is no such limit, or the number is none.
    """
    changed: dict[str, float] = {}
    for setting in settings:
        name, _, number = setting.partition("=")
        kinds = {field.name: type(field.default) for field in fields(Limits)}
        if name not in kinds:
            raise ValueError(f"there is no limit {name!r}: choose from {', '.join(kinds)}")
        try:
            changed[name] = kinds[name](number) * (MEGABYTE if name in _IN_MEGABYTES else 1)
        except ValueError:
            changed[name] = 0
        if not 0 < changed[name] < float("inf"):
            raise ValueError(f"the limit {name} is {number!r}, and not a number above 0")
    return replace(Limits(), **changed)


class NoSandbox(RuntimeError):
    """Submissions cannot be shut in on this machine."""


class Ended(Exception):
    """The process of a submission is gone; the message says why, in words for its author.

    Args:
        ago: how many requests ago it did what ended it; 0, in the present one.
    """

    def __init__(self, words: str, ago: int = 0):
        super().__init__(words)
        self.ago = ago


def require_sandbox(*private: Path) -> None:
    """See that bubblewrap works here and shows a submission none of the private paths.

    Raises:
        NoSandbox: what it needs is missing or forbidden, or a private path lies in a folder it shows.
    """
    seen = [*walls.shown(), Path(sys.prefix)]
    for path in private:
        inside = [shown for shown in seen if path.resolve().is_relative_to(shown)]
        if inside:
            raise NoSandbox(f"{path} lies in {inside[0]}, which every submission can read: move it elsewhere")
    missing = _missing()
    if missing:
        raise NoSandbox(
            f"{missing}. Nothing was graded: without it a submission could read this machine's files and use "
            "its network. Whoever accepts that adds --no-sandbox"
        )
    if walls.is_this_machine_s_root():
        raise NoSandbox("submissions would run as this machine's root: grade as an ordinary user")
    trial, imports = walls.Walls(Limits().disk), "import IPython, numpy, attncourse.coursework.driver"
    look = [*trial.command, walls.python_inside(), "-c", imports]
    try:
        tried = subprocess.run(look, capture_output=True, text=True, pass_fds=trial.files, env={})
    finally:
        trial.close()
    if tried.returncode:
        why = tried.stderr.strip() or f"exit status {tried.returncode}"
        raise NoSandbox(f"bubblewrap works on this machine, but {sys.executable} does not start in it: {why}")
    bounds.remove_groups_left_behind()


def _missing() -> str:
    """What this machine lacks for any sandbox at all, whatever is to run in it; "" if nothing."""
    for program, package in {"bwrap": "bubblewrap", "setpriv": "util-linux"}.items():
        if shutil.which(program) is None:
            version = "; 0.8 or later" if program == "bwrap" else ""
            return f"{package} is not installed (Debian, Ubuntu: apt install {package}{version})"
    try:
        import pyseccomp  # noqa: F401
    except (ImportError, RuntimeError):
        return "libseccomp is missing (Debian, Ubuntu: apt install libseccomp2; then pip install pyseccomp)"
    tried = subprocess.run(walls.smallest_trial(), capture_output=True, text=True)
    if not tried.returncode:
        return ""
    return f"this system does not let bubblewrap work ({tried.stderr.strip() or tried.returncode})"


def opened(path: Path, most: int) -> int:
    """The number of the open file of a submission: a regular file, and no link, pipe or device.

    Raises:
        ValueError: it is something else, or too large.
        OSError: it may not be read.
    """
    # A pipe that nobody writes to would hold up whoever opens it.
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no regular file")
        if found.st_size > most:
            raise ValueError(f"it is larger than {most // MEGABYTE} MB")
    except BaseException:
        os.close(number)
        raise
    return number


class Session:
    """The driver with one submission, to be used in a `with`.

    Args:
        notebook: the submission's file, which its process reads and closes; None if it has no need of it.
        limits: what it may take.
        sandboxed: whether it is shut in; if not, only the limits hold.

    Raises:
        ValueError, OSError: the notebook is no regular file, is too large, or may not be read.
    """

    def __init__(self, notebook: Path | None, limits: Limits, *, sandboxed: bool = True):
        self.limits, self.sandboxed = limits, sandboxed
        self._walls = self._folder = None
        self._tokens: list[bytes] = []  # of all requests so far: each says which one a reply belongs to
        file = -1 if notebook is None else opened(notebook, limits.notebook)
        self._group = bounds.Group(4 * limits.processes, limits.memory + limits.disk)
        try:
            self._process = self._started(file)
        except BaseException:
            self._group.remove()
            raise
        finally:
            if file >= 0:
                os.close(file)
            if self._walls:
                self._walls.close()
        for pipe in (self._process.stdin, self._process.stdout):
            os.set_blocking(pipe.fileno(), False)

    def _started(self, file: int) -> subprocess.Popen:
        limits, driver = self.limits, ["-m", "attncourse.coursework.driver"]
        files = [file] if file >= 0 else []
        if self.sandboxed:
            self._walls = walls.Walls(limits.disk)
            walls.leave_keys_behind()
            command = [*self._walls.command, walls.python_inside(), *driver]
            place, files = {"env": {}}, [*files, *self._walls.files]
        else:
            command = [sys.executable, *driver]
            self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            kept = {name: os.environ[name] for name in KEPT if name in os.environ}
            package = {"PYTHONPATH": str(Path(attncourse.__file__).parents[1])}
            environment = {**walls.ENVIRONMENT, **kept, **package, "HOME": self._folder.name}
            place = {"cwd": self._folder.name, "env": environment}
        numbers = [file, limits.memory + RESERVED, limits.disk, self._most_tasks(), int(not self.sandboxed)]
        return subprocess.Popen(
            self._group.joined([*command, *map(str, numbers)]),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,
            pass_fds=files,
            **place,
        )

    def _most_tasks(self) -> int:
        """How many tasks the process's user may have; 0 is no bound."""
        if self._walls and self._walls.user is not None:
            return 4 * self.limits.processes  # a user of its own; threads count as well
        return 0 if os.geteuid() == 0 else bounds.tasks_of(os.geteuid()) + self.limits.processes

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *exception) -> None:
        if not self.sandboxed:
            bounds.end_all(self._process.pid)  # also what left its group of processes
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # with bubblewrap, its whole world ends too
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._group.remove()
        if self._folder:
            self._folder.cleanup()

    def ask(self, what: str, seconds: float, **request) -> dict:
        """Send one request and wait for its reply.

        Raises:
            Ended: no reply came in time, or the process took too much, died, or sent something else.
        """
        token, last = secrets.token_hex(8), f"{secrets.token_hex(8)}\n".encode()
        self._tokens.append(token.encode())
        message = json.dumps({"do": what, "token": token, **request}).encode() + b"\n" + last
        # A whole notebook is read before anything of it runs: only then a reply may be as large as that.
        most = max(self.limits.reply, LARGEST_READ) if what == "read" else self.limits.reply
        received = bytearray()
        try:
            self._exchange(message, last, received, seconds, most)
        except BrokenPipeError:
            self._blame_an_earlier_request(received)
            raise Ended(self._last_words()) from None
        except Ended:
            self._blame_an_earlier_request(received)
            raise
        line = bytes(received.removesuffix(last))
        self._blame_an_earlier_request(line)
        if what != "read" and sum(map(line.count, b"[{,")) > self.limits.things_in_a_reply:
            raise Ended(f"its answer holds more than {self.limits.things_in_a_reply} things")
        try:
            reply = json.loads(line)
        except (ValueError, RecursionError):
            reply = None
        if not isinstance(reply, dict) or reply.pop("token", None) != token:
            raise Ended(OF_ITS_OWN)
        return reply

    def _blame_an_earlier_request(self, received: bytes | bytearray) -> None:
        """Blame a second reply to an earlier request on that one: one of the two was forged."""
        earlier = self._tokens[:-1]
        for token in _TOKEN.findall(received):
            if token in earlier:
                raise Ended(OF_ITS_OWN, ago=len(earlier) - earlier.index(token))

    def _exchange(self, message: bytes, last: bytes, received: bytearray, seconds: float, most: int) -> None:
        """Send lines and receive all up to the last. A process that neither reads nor writes holds nobody up.

        A submission that answers in the driver's place cannot end the exchange: the driver's own reply and
        the last line follow, so that two replies are seen together, whichever was written first.
        """
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            selector.register(self._process.stdin, selectors.EVENT_WRITE)
            while message or not received.endswith(b"\n" + last):
                if time.monotonic() > until:
                    raise Ended(f"it took longer than {seconds:g} seconds")
                self._look_after()
                ready = {key.fileobj for key, _ in selector.select(bounds.LOOK_EVERY)}
                if self._process.stdin in ready:
                    message = message[self._process.stdin.write(message) :]
                    if not message:
                        selector.unregister(self._process.stdin)
                if self._process.stdout in ready:
                    piece = self._process.stdout.read(MEGABYTE)
                    if not piece:
                        raise Ended(self._last_words())
                    received += piece
                if len(received) > most:
                    raise Ended(f"its answer is larger than {most // MEGABYTE} MB")
        self._look_after()  # what this request took too much is not blamed on the next

    def _look_after(self) -> None:
        """End a submission that takes too much, before it hurts others."""
        limits, family = self.limits, bounds.family(self._process.pid)
        if len(family) > limits.processes:
            raise Ended(f"it started more than {limits.processes} processes")
        if bounds.memory_of(family, limits.memory) > limits.memory:
            raise Ended(self._too_much_memory())
        sizes = dict(zip(walls.WRITABLE, (limits.disk, walls.SHARED_MEMORY), strict=True))
        if self.sandboxed and family and bounds.files_in(family[-1], sizes) > limits.files:
            raise Ended(f"it made more than {limits.files} files")

    def _too_much_memory(self) -> str:
        return f"it took more than {self.limits.memory // MEGABYTE} MB of memory"

    def _last_words(self) -> str:
        if self._group.overran():
            return self._too_much_memory()
        try:
            status = self._process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            return "its process stopped answering"
        return f"its process ended by itself (exit status {status})"
