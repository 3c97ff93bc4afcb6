"""Whether submissions can be shut in on this machine."""

import os

import pytest

from attncourse.coursework.sandbox import NoSandbox, require_sandbox


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """Tests that ask for this need bubblewrap; where everything must run, its absence is a failure."""
    try:
        require_sandbox()
    except NoSandbox as reason:
        words = f"the grading tests need bubblewrap: {reason}"
        # Installed and allowed, it works: whatever else is wrong is ours.
        absent = "--no-sandbox" in words
        pytest.skip(words) if absent and not os.environ.get("CI") else pytest.fail(words, pytrace=False)
