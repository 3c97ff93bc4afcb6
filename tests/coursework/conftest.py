"""Whether submissions can be shut in on this machine."""

import os
import shutil
import subprocess

import pytest

from attncourse.coursework.sandbox import NoSandbox, require_sandbox


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """Tests that ask for this need bubblewrap; where everything must run, its absence is a failure."""
    try:
        require_sandbox()
    except NoSandbox as reason:
        words = f"the grading tests need bubblewrap: {reason}"
        must_run = os.environ.get("CI") and not _forbidden()
        pytest.fail(words, pytrace=False) if must_run else pytest.skip(words)


def _forbidden() -> bool:
    """Whether the system forbids what bubblewrap does, which no installation mends."""
    smallest = ["bwrap", "--unshare-user", "--ro-bind", "/", "/", "true"]
    return bool(shutil.which("bwrap")) and subprocess.run(smallest, capture_output=True).returncode != 0
