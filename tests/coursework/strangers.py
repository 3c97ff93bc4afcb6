"""What strangers try. Each cell or function says by a ValueError with "through" in it that it got somewhere.

The cells stand before a notebook in which everything is solved: they cost nothing and gain nothing, and what
they ran into is a remark.
"""

import os
import platform
import socket
from pathlib import Path

from handed_in import NAME, HandedIn

CALLS = {  # numbers of the kernel's calls, on the two kinds of machine that most people have
    "add_key": (248, 217),
    "bpf": (321, 280),
    "io_uring_setup": (425, 425),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "msgget": (68, 186),
    "open_by_handle_at": (304, 265),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "process_vm_readv": (310, 270),
    "ptrace": (101, 117),
    "request_key": (249, 218),
    "shmget": (29, 194),
    "unshare": (272, 97),
    "userfaultfd": (323, 282),
}
CALL = """import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    raise ValueError("through", result)
"""
REFUSED = "not permitted"
ABSENT = "FileNotFoundError"


def _call(name: str, *arguments: object) -> tuple[str, str]:
    number = CALLS[name][platform.machine() == "aarch64"]
    return f"{CALL}call({', '.join(map(str, (number, *arguments)))})", REFUSED


def _read(path: str) -> tuple[str, str]:
    return f"raise ValueError('through', open({path!r}, 'rb').read()[:300])", ABSENT


def _many(make: str) -> tuple[str, str]:
    source = (
        f"import os\nos.makedirs('/tmp/m')\nfor i in range(400_000):\n    name = f'/tmp/m/{{i}}'\n    {make}"
    )
    return f"{source}\nraise ValueError('through')", "made more than 10000 files|MB of memory|No space left"


CELLS = {
    # --- The kernel and the machine
    "writes core_pattern": ("open('/proc/sys/kernel/core_pattern', 'w').write('|/tmp/x')", ABSENT),
    "writes sysrq": ("open('/proc/sysrq-trigger', 'w').write('c')", "Read-only|denied"),
    "writes its oom score": ("open('/proc/self/oom_score_adj', 'w').write('-1000')", ABSENT),
    "looks into sys": ("import os; raise ValueError('through', os.listdir('/sys'))", ABSENT),
    "becomes root": ("import os; os.setuid(0); raise ValueError('through')", f"{REFUSED}|Invalid"),
    "asks sudo": ("import subprocess; subprocess.run(['sudo', '-n', 'id'], check=True)", "Error"),
    "makes a disk": (
        "import os; os.mknod('/tmp/d', 0o60600, os.makedev(8, 0)); raise ValueError('through')",
        REFUSED,
    ),
    "changes its root": ("import os; os.chroot('/tmp'); raise ValueError('through')", REFUSED),
    "remounts its root": (
        f"{CALL}if libc.mount(None, b'/', None, 0x1020, None) < 0: "
        "raise OSError(1, os.strerror(ctypes.get_errno()))\nraise ValueError('through')",
        REFUSED,
    ),
    "mounts a proc": (
        f"{CALL}if libc.mount(b'proc', b'/tmp', b'proc', 0, None) < 0: "
        "raise OSError(1, os.strerror(ctypes.get_errno()))\nraise ValueError('through')",
        REFUSED,
    ),
    "a world of its own": _call("unshare", 0x10000000),
    "programs the kernel": _call("bpf", 0, 0, 0),
    "rings": _call("io_uring_setup", 8, 0),
    "faults": _call("userfaultfd", 0),
    "counts events": _call("perf_event_open", 0, 0, -1, -1, 0),
    "another kernel": _call("kexec_load", 0, 0, 0, 0),
    "moves a mount": _call("move_mount", -1, 0, -1, 0, 0),
    "opens by handle": _call("open_by_handle_at", -1, 0, 0),
    # --- Other processes, and what is the lecturer's
    "reads the first environment": _read("/proc/1/environ"),
    "reads its own environment": _read("/proc/self/environ"),
    "reads the first command": _read("/proc/1/cmdline"),
    "reads the mounts": _read("/proc/self/mountinfo"),
    "reads the parent's memory": _read("/proc/1/mem"),
    "traces its parent": _call("ptrace", 16, 1, 0, 0),
    "reads across": _call("process_vm_readv", 1, 0, 0, 0, 0, 0),
    "takes a file": _call("pidfd_getfd", -1, 0, 0),
    "lists the keys": _read("/proc/keys"),
    "opens the keyring": _call("keyctl", 0, -3, 0),
    "joins a keyring": _call("keyctl", 1, 0),
    "leaves a key": _call("add_key", "b'user'", "b'left'", "b'behind'", 6, -4),
    "asks for a key": _call("request_key", "b'user'", "b'lecturer'", 0, -4),
    "who is the lecturer": (
        "import pwd, os; raise ValueError('through', pwd.getpwuid(os.getuid()))",
        "KeyError",
    ),
    "where is the course": (
        "import glob, sys, attncourse\nraise ValueError(sys.prefix, sys.executable, attncourse.__file__)",
        "/course/attncourse",
    ),
    "calls the machine below": ("import socket; socket.socket(40); raise ValueError('through')", REFUSED),
    "asks the network's tables": (
        "import socket; socket.socket(16, 3); raise ValueError('through')",
        REFUSED,
    ),
    "listens to the wire": ("import socket; socket.socket(17, 3); raise ValueError('through')", REFUSED),
    # --- Memory, files, processes
    "files in the root": ("open('/big', 'wb').write(bytes(2**30)); raise ValueError('through')", "Error"),
    "files beside the course": ("open('/course/big', 'w'); raise ValueError('through')", "Error"),
    "memory without a name": ("import os; os.memfd_create('m'); raise ValueError('through')", REFUSED),
    "shared memory without a file": (
        "import mmap; mmap.mmap(-1, 2**30); raise ValueError('through')",
        REFUSED,
    ),
    "shared zeros": (
        "import mmap; mmap.mmap(open('/dev/zero', 'r+b').fileno(), 2**30); raise ValueError('through')",
        "Error",
    ),
    "a shared segment": _call("shmget", 0, 2**30, 0o1600),
    "a queue of messages": _call("msgget", 0, 0o1600),
    "a queue with a name": _call("mq_open", "b'q'", 0o102, 0o600, 0),
    "fills shared memory": (
        "open('/dev/shm/m', 'wb').write(bytes(2**24)); raise ValueError('through')",
        "No space",
    ),
    "fills the disk": (
        "for i in range(200): open(f'/tmp/{i}', 'wb').write(bytes(10**6))\nraise ValueError('through')",
        "No space left",
    ),
    "empty files": _many("open(name, 'w').close()"),
    "empty folders": _many("os.mkdir(name)"),
    "links to nowhere": _many("os.symlink('x' * 200, name)"),
    "memory of its children": (
        "import os, time\nfor _ in range(4):\n    if not os.fork():\n"
        "        kept = bytearray(b'x' * 600_000_000)\n        time.sleep(60)\n"
        "time.sleep(8)\nraise ValueError('through')",
        "MB of memory",
    ),
    "open files": (
        "kept = [open('/dev/null') for _ in range(5000)]; raise ValueError('through')",
        "Too many open files",
    ),
    # --- What is written where a table, a page or a terminal is expected
    "half a letter": (r"raise ValueError('\ud83d half')", "half"),
    "bells and nulls": (r"raise ValueError('\0\a\x1b[2J rings')", "rings"),
    "a formula": (r"raise ValueError('=1+1')", "=1+1"),
    "an error of many letters": ("raise ValueError('x' * 10**7)", "xxx"),
    "an error that cannot be said": (
        "class E(Exception):\n    def __str__(self): raise E\nraise E",
        "an error that cannot be printed",
    ),
}

FUNCTIONS = {  # the body of question 02.2's function, and what is said of it
    "an answer of 32 MB": ("return torch.zeros(8_000_000), 0, 0", "larger than 4 MB"),
    "an answer of many things": ("return [0] * 300_000", "more than 200000 things"),
    "an answer of many names": ("return {str(n): 0 for n in range(150_000)}", "more than 200000 things"),
    "a nested answer": (
        "x = []\nfor _ in range(900): x = [x]\nreturn x",
        "number of things|RecursionError",
    ),
    "a long number": ("return 10**4200, 0, 0", "number|raises ValueError"),
    "half a letter returned": (r"return '\ud83d', '\ud83d', 0", "is no number"),
    "an error of its choice": ("raise BufferError", "raises an error"),
    "another error of its choice": ("raise UnicodeDecodeError('x', b'x', 0, 1, 'x')", "raises ValueError"),
    "a warning of its choice": ("raise FutureWarning('x')", "raises an error"),
    "a status of its choice": (
        "import os\nos._exit(int(abs(annotations[0, 0, 0]) * 100))",
        "ended by itself",
    ),
    "a signal of its choice": ("import os\nos.kill(os.getpid(), 10)", "ended by itself"),
}
# Answers in the driver's place, with an array that no machine has room for.
FORGED_ARRAY = r"""
import json, os, sys, time
frame, found = sys._getframe(), {}
while frame:
    found, frame = {**found, **frame.f_locals}, frame.f_back
line = json.dumps({"value": {"array": ["float32", SHAPE, ""]}, "token": found["token"]}).encode() + b"\n"
for fd in range(3, 40):
    try:
        os.write(fd, line)
    except OSError:
        pass
return 0
"""
FORGED = {
    "a shape of its own": FORGED_ARRAY.replace("SHAPE", "[10**30]"),
    "a shape of nothing": FORGED_ARRAY.replace("SHAPE", "[0, 2**62]"),
    # Its own reply comes when the next question might have been asked already.
    "a shape, and a rest": FORGED_ARRAY.replace("SHAPE", "[0]").replace("return", "time.sleep(0.2)\nreturn"),
    # Takes the line that ends the driver's reply, so that the forged one seems to be all.
    "a shape and its end": FORGED_ARRAY.replace("SHAPE", "[0]").replace(
        'b"\\n"', 'b"\\n" + found["requests"].readline()'
    ),
}
FUNCTIONS |= {name: (body, "something of its own") for name, body in FORGED.items()}


def put_odd_files(folder: Path) -> None:
    """Entries of a folder of submissions that are not what they seem; ODD says what is told of each."""
    solved = HandedIn().solve()
    solved.write(folder / "beside.ipynb")
    (folder / "beside.pdf").write_bytes(b"%PDF")
    solved.write(folder / os.fsdecode(b"caf\xe9.ipynb"))
    solved.write(folder / f"{'l' * 230}.ipynb")
    solved.write(folder / f"{'長' * 80}.ipynb")
    solved.write(folder / "two\nlines.ipynb")
    solved.write(folder / "=1+1.ipynb")
    solved.write(folder / "@x.IPYNB")
    solved.write(folder / "closed.ipynb").chmod(0)
    solved.write(folder / "closed folder" / f"{NAME}.ipynb")
    (folder / "closed folder").chmod(0)
    os.mkfifo(folder / "pipe.ipynb")
    (folder / "pipe inside").mkdir()
    os.mkfifo(folder / "pipe inside" / f"{NAME}.ipynb")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(folder / "socket.ipynb"))
    (folder / "device.ipynb").symlink_to("/dev/zero")
    (folder / "a link").mkdir()
    (folder / "a link" / f"{NAME}.ipynb").symlink_to(folder / "solved" / f"{NAME}.ipynb")
    (folder / "browser.ipynb.txt").write_text("{}")
    (folder / "archive.tar.gz").write_bytes(b"x")
    for number in range(23):
        (folder / "twenty-three" / f"{number:02}.ipynb").parent.mkdir(exist_ok=True)
        (folder / "twenty-three" / f"{number:02}.ipynb").write_text("{}")
    with (folder / "300 MB.ipynb").open("wb") as file:
        file.truncate(300 * 2**20)


ROOT = os.geteuid() == 0
ODD = {  # whether the points are full, and what is said
    "beside": (True, "beside.pdf is no notebook"),
    r"caf\xe9": (True, ""),
    "l" * 230: (True, ""),
    "長" * 80: (True, ""),
    "two\ufffdlines": (True, ""),
    "=1+1": (True, ""),
    "@x": (True, ""),
    "closed": (ROOT, "" if ROOT else "Permission denied"),
    "closed folder": (ROOT, "" if ROOT else "Permission denied"),
    "pipe": (False, "no regular file"),
    "pipe inside": (False, "no regular file"),
    "socket": (False, "no regular file"),
    "device": (False, "is a link"),
    "a link": (False, "is a link to another file"),
    "browser": (False, "browser.ipynb.txt is no notebook"),
    "archive": (False, "archive.tar.gz is no notebook"),
    "twenty-three": (False, "more than 20 notebooks"),
    "300 MB": (False, "larger than 256 MB"),
}


def odd_notebooks() -> dict[str, tuple[HandedIn, bool, str]]:
    """Notebooks with cells too many, too long, or no text; whether points are full, and what is said."""
    many, long, words, failing = (HandedIn().solve() for _ in range(4))
    for notebook, count in ((many, 2500), (failing, 400)):
        source = f"raise ValueError({'y' * 390!r})" if notebook is failing else ""
        own = {"cell_type": "code", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
        notebook.cells += [{**own, "id": f"own-{number}"} for number in range(count)]
    kinds = HandedIn().solve()
    kinds.cells.append({"cell_type": [[]] * 500_000, "id": [[]] * 500_000, "metadata": {}, "source": ""})
    half = HandedIn().solve()
    half.cell("answer-02-4")["source"] += " \ud83d"
    long.insert("answer-02-1", "# " + "z" * 3_000_000)
    words.cell("answer-02-4")["source"] += "w" * 1_000_000
    return {
        "2500 cells": (many, False, "more than 2000 cells"),
        "a kind of many things": (kinds, True, ""),
        "three million letters": (long, False, "2000000 letters"),
        "400 cells that fail": (failing, True, "of this kind"),
        "a million words": (words, True, ""),
        "half a letter in words": (half, True, ""),
    }
