"""For every part of the tests: one thread a process, notebooks as for storing, no silent skip in CI."""

import os
import re

import pytest

from attncourse.notebooks import CELL_SECONDS, ENVIRONMENT

# Why a test may be skipped where everything must run (CI is set): reasons that no installation mends. Any
# other skip fails there, since what is skipped for months is not tested.
FORESEEN = (
    "needs a GPU",
    "Multi30k is not in the cache folder, and tests download nothing",
    "the grading tests need bubblewrap",  # where the system forbids it; a missing one fails
)


def pytest_configure(config):
    os.environ.setdefault("OMP_NUM_THREADS", ENVIRONMENT["OMP_NUM_THREADS"])
    if getattr(config.option, "nbval", False):
        os.environ.update(ENVIRONMENT)
        config.option.nbval_cell_timeout = CELL_SECONDS


def fail_if_unforeseen(report) -> None:
    """Make a failure of a skip that CI did not foresee; a test that is expected to fail is no skip."""
    if not os.environ.get("CI") or not report.skipped or hasattr(report, "wasxfail"):
        return
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if not re.match("|".join(map(re.escape, FORESEEN)), reason.removeprefix("Skipped: ")):
        report.outcome = "failed"
        report.longrepr = (
            f"skipped where everything must run. {reason}\n"
            "Let .ci/run install what is missing, or add the reason to FORESEEN in conftest.py."
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    fail_if_unforeseen(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    report = yield
    fail_if_unforeseen(report)
    return report
