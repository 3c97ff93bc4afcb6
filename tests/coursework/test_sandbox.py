"""One submission's process, seen from outside: what it can reach, and that it always ends."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import attncourse
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
