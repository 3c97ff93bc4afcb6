"""Whether submissions can be shut in on this machine."""

import os

import pytest

from attncourse.coursework.sandbox import NoSandbox, require_sandbox


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """Where everything must run, a machine on which bubblewrap does not work is a failure."""
    try:
        require_sandbox()
    except NoSandbox as reason:
        words = f"the grading tests need bubblewrap: {reason}"
        pytest.fail(words, pytrace=False) if os.environ.get("CI") else pytest.skip(words)
