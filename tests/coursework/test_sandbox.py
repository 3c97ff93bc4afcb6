"""One submission's process, seen from outside: what it can reach, and that it always ends."""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pyseccomp as seccomp
import pytest

import attncourse
from attncourse.coursework import bounds, walls
from attncourse.coursework.sandbox import MEGABYTE, Ended, Limits, NoSandbox, Session, require_sandbox
from attncourse.coursework.wire import encode

pytestmark = pytest.mark.usefixtures("bubblewrap")


@pytest.fixture
def notebook(tmp_path):
    path = tmp_path / "mine.ipynb"
    path.write_text('{"cells": []}')
    return path


def raised(session: Session, source: str) -> str:
    """What a cell reports by raising it."""
    return session.ask("run", 20, source=source).get("error", "")


def test_a_submission_sees_itself_and_python_and_nothing_else(notebook):
    with Session(notebook, Limits()) as session:
        session.ask("begin", 120)
        seen = raised(session, "import os; raise ValueError(sorted(os.listdir('/')))")
        assert not {name for name in ("home", "var", "sys", "mnt", "opt") if f"'{name}'" in seen}, seen
        assert raised(session, "import glob; assert glob.glob('/tmp/*') == ['/tmp/empty']") == ""
        assert "FileNotFound" in raised(session, "open('/etc/passwd')")
        assert "Error" in raised(session, "import attncourse; open(attncourse.__file__, 'a')")
        assert "unreachable" in raised(
            session, "import socket; socket.create_connection(('192.0.2.1', 80), timeout=2)"
        )
        assert "FileNotFound" in raised(session, "open('/proc/1/cmdline')")


def test_the_lecturer_s_environment_stays_outside(notebook, monkeypatch):
    monkeypatch.setenv("API_KEY", "hush")
    with Session(notebook, Limits()) as session:
        session.ask("begin", 120)
        assert not raised(session, "import os; assert 'API_KEY' not in os.environ and 'HOME' in os.environ")


def test_a_process_that_stops_reading_holds_nobody_up(notebook):
    """Requests are larger than a pipe: who writes blindly waits for ever."""
    with Session(notebook, Limits()) as session:
        session.ask("begin", 120)
        with pytest.raises(Ended, match="longer than 0.5 seconds"):
            session.ask("run", 0.5, source="import time; time.sleep(1000)")
        started = time.monotonic()
        with pytest.raises(Ended, match="longer than 1 seconds"):
            session.ask("call", 1, name="f", arguments=encode(["x" * MEGABYTE]), keywords={}, gradient=False)
        assert time.monotonic() - started < 10


def test_an_answer_without_an_end_is_cut(notebook):
    endless = "import os\nfor fd in range(3, 20):\n    try:\n        while True: os.write(fd, b'x' * 2**20)\n"
    with (
        Session(notebook, Limits(reply=4 * MEGABYTE)) as session,
        pytest.raises(Ended, match="larger than 4 MB"),
    ):
        session.ask("begin", 120)
        session.ask("run", 20, source=endless + "    except OSError: pass")


def test_a_forked_copy_does_not_answer(notebook):
    """Two answers to one request would be taken for those to the next."""
    with Session(notebook, Limits()) as session:
        session.ask("begin", 120)
        session.ask("run", 20, source="import os\nfor _ in range(3): os.fork()")
        assert session.ask("run", 20, source="1 / 0")["error"].startswith("ZeroDivisionError")


FORGE = """
import json, os, sys, threading, time
def forge():
    global found
    frame, found = sys._getframe(), {}
    while frame:
        found, frame = {**found, **frame.f_locals}, frame.f_back
    WAY
def write(end=b""):
    line = json.dumps({"forged": True, "token": found["token"]}).encode() + b"\\n" + end
    for fd in range(3, 40):
        try:
            os.write(fd, line)
        except OSError:
            pass
"""
NOTHING = {"arguments": encode([]), "keywords": encode({})}
FORGED = {  # how a reply is forged, and how many requests later it is seen
    "at once": ("write()", 0),
    "long before its own": ("write(); time.sleep(0.5)", 0),
    "fifty times": ("for _ in range(50): write()", 0),
    "with the line that ends a reply": ("write(found['requests'].readline())", 1),
    "so, and long before its own": ("write(found['requests'].readline()); time.sleep(0.5)", 1),
    "by a thread, later": ("threading.Timer(0.3, write).start()", 1),
    "by a process, later": ("if not os.fork(): time.sleep(0.3), write(), os._exit(0)", 1),
}


@pytest.mark.parametrize(("way", "ago"), FORGED.values(), ids=FORGED.keys())
def test_a_forged_reply_is_charged_to_the_request_it_answers(notebook, way, ago):
    """Whichever of two replies comes first, the next question is not the one that has forged."""
    with Session(notebook, Limits(), sandboxed=False) as session:
        session.ask("begin", 120)
        session.ask("run", 20, source=FORGE.replace("WAY", way))
        with pytest.raises(Ended, match="something of its own") as ended:
            session.ask("call", 20, name="forge", **NOTHING, gradient=False)
            session.ask("run", 20, source="import time; time.sleep(1)")
        assert ended.value.ago == ago


@pytest.mark.parametrize("sandboxed", [True, False])
def test_what_was_started_ends_with_the_session(notebook, sandboxed):
    with Session(notebook, Limits(), sandboxed=sandboxed) as session:
        session.ask("begin", 120)
        session.ask("run", 20, source="import subprocess\nsubprocess.Popen(['sleep', '876543'])")
    time.sleep(0.2)
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert "sleep 876543" not in running


def test_a_process_that_dies_says_how(notebook):
    with (
        Session(notebook, Limits()) as session,
        pytest.raises(Ended, match=r"ended by itself \(exit status 7\)"),
    ):
        session.ask("begin", 120)
        session.ask("run", 20, source="import os; os._exit(7)")


def test_a_course_below_the_temporary_folder_is_graded(tmp_path):
    """An empty /tmp that is mounted last covers Python and the package, and nothing can be graded."""
    course = Path(tempfile.mkdtemp(prefix="course-", dir="/tmp"))
    try:
        shutil.copytree(Path(attncourse.__file__).parent, course / "src" / "attncourse")
        look = "from attncourse.coursework.sandbox import require_sandbox; require_sandbox()"
        inherited = {**os.environ, "PYTHONPATH": str(course / "src")}
        tried = subprocess.run([sys.executable, "-c", look], env=inherited, capture_output=True, text=True)
    finally:
        shutil.rmtree(course)
    assert not tried.returncode, tried.stderr


def test_no_message_advises_to_drop_the_sandbox_before_it_has_the_cause(monkeypatch):
    """Whoever reads of --no-sandbox adds it, and what was wrong was Python's place."""
    monkeypatch.setattr("attncourse.coursework.sandbox.sys.executable", "/nowhere/python")
    with pytest.raises(NoSandbox, match="/nowhere/python does not start in it") as refused:
        require_sandbox()
    assert "--no-sandbox" not in str(refused.value)


def test_what_can_be_seen_of_the_process_is_nothing_of_the_lecturer_s(notebook, monkeypatch):
    """Process 1 in there is bubblewrap itself: what it was started with can be read by some way or other."""
    monkeypatch.setenv("API_KEY", "hush")
    with Session(notebook, Limits()) as session:
        session.ask("read", 20)
        for process in bounds.family(session._process.pid):
            seen = f"{process.environ()} {process.cmdline()}"
            private = ("API_KEY", "hush", str(notebook.parent), sys.prefix, sys.base_prefix)
            assert not [words for words in private if words in seen], seen


def test_no_submission_is_this_machine_s_root(notebook):
    """A user namespace whose root is the machine's own may write what only root may."""
    with Session(notebook, Limits()) as session:
        session.ask("begin", 120)
        inner = bounds.family(session._process.pid)[-1]
        assert inner.uids().real == (session._walls.user or os.geteuid()) != 0


def test_keys_of_the_login_stay_with_the_login():
    """A session's keyring is inherited by whatever the login starts."""
    keyctl, add = (seccomp.resolve_syscall(seccomp.Arch.NATIVE, name) for name in ("keyctl", "add_key"))
    search, session_keyring = 10, -3
    kernel = ctypes.CDLL(None, use_errno=True)
    if kernel.syscall(add, b"user", b"attncourse test", b"x", 1, session_keyring) < 0:
        assert ctypes.get_errno(), "this system has no keys that could be carried in"
        return
    assert kernel.syscall(keyctl, search, session_keyring, b"user", b"attncourse test", 0) > 0
    walls.leave_keys_behind()
    assert kernel.syscall(keyctl, search, session_keyring, b"user", b"attncourse test", 0) < 0


def test_a_process_that_leaves_its_parents_ends_all_the_same(notebook):
    """Without walls, only its keeper still knows of it: not its parents, nor its group."""
    leave = "import os, subprocess\nif not os.fork():\n    os.setsid()\n    if not os.fork():\n"
    leave += "        os.execvp('sleep', ['sleep', '765432'])\n    os._exit(0)"
    with Session(notebook, Limits(), sandboxed=False) as session:
        session.ask("begin", 120)
        session.ask("run", 20, source=leave)
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert "sleep 765432" not in running


def test_the_lecturer_s_environment_is_not_needed_without_walls_either(notebook, monkeypatch):
    monkeypatch.setenv("API_KEY", "hush")
    with Session(notebook, Limits(), sandboxed=False) as session:
        session.ask("begin", 120)
        assert not raised(session, "import os; assert 'API_KEY' not in os.environ")


def test_control_groups_are_given_back(notebook):
    """Thousands of them are left otherwise, term after term; also where nothing could be started."""
    with Session(notebook, Limits()) as session:
        session.ask("read", 20)
    with pytest.raises(ValueError, match="larger than 0 MB"):
        Session(notebook, Limits(notebook=1))
    groups = [folder for base in bounds._bases() for folder in base.glob(f"attncourse-{os.getpid()}-*")]
    assert not groups


def test_groups_of_killed_graders_are_removed():
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = [base / f"attncourse-{gone.pid}-0" for base in bounds._bases()]
    try:
        for folder in left:
            folder.mkdir()
    except OSError:
        return  # only root makes them, and not in every container: there are none to remove
    bounds.remove_groups_left_behind()
    assert not [folder for folder in left if folder.exists()]


@pytest.mark.parametrize("counted", [True, False], ids=["with control groups", "without"])
def test_memory_is_bounded_with_and_without_control_groups(notebook, counted, monkeypatch):
    """Memory that comes slowly, by several processes, each below the limit."""
    if not counted:
        monkeypatch.setattr(bounds, "_bases", list)
    grow = (
        "import os, time\nfor _ in range(3):\n    if not os.fork():\n        kept = []\n        while True:\n"
    )
    grow += "            kept.append(bytearray(10**6) + b'x')\n            time.sleep(0.001)\nos.wait()\n"
    grow += "raise ValueError('ended')"
    with Session(notebook, Limits(memory=700 * MEGABYTE)) as session:
        session.ask("begin", 120)
        try:
            said = session.ask("run", 60, source=grow)["error"]  # the kernel ended the largest
        except Ended as end:
            said = str(end)
        assert "700 MB of memory" in said or "ended" in said, said


@pytest.mark.parametrize("make", ["open(name, 'w').close()", "os.mkdir(name)"])
def test_files_are_counted_without_control_groups(notebook, make, monkeypatch):
    monkeypatch.setattr(bounds, "_bases", list)
    many = f"import os\nfor i in range(400_000):\n    name = f'/tmp/{{i}}'\n    {make}"
    with Session(notebook, Limits()) as session, pytest.raises(Ended, match="more than 10000 files"):
        session.ask("begin", 120)
        session.ask("run", 60, source=many)


def test_an_answer_is_measured_before_it_is_read(notebook):
    """Four megabytes of brackets become two hundred of lists."""
    brackets = "def f(): return [[]] * 150_000"
    with Session(notebook, Limits()) as session, pytest.raises(Ended, match="more than 200000 things"):
        session.ask("begin", 120)
        session.ask("run", 20, source=brackets)
        session.ask("call", 20, name="f", arguments=encode([]), keywords=encode({}), gradient=False)


def test_a_notebook_is_measured_before_it_is_opened(tmp_path):
    path = tmp_path / "large.ipynb"
    with path.open("wb") as file:
        file.truncate(300 * MEGABYTE)
    with pytest.raises(ValueError, match="larger than 256 MB"):
        Session(path, Limits())
