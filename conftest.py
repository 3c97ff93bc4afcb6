"""For every part of the tests: one thread a process, the longest first, no silent skip where all must run."""

import os
import re

import pytest

from attncourse.notebooks import CELL_SECONDS, ENVIRONMENT

# Why a test may be skipped where everything must run (CI is set): reasons that no installation mends. Any
# other skip fails there, since what is skipped for months is not tested.
FORESEEN = (
    "needs a GPU",
    "Multi30k is not in the cache folder, and tests download nothing",
    "this is not a git checkout",  # but the same files, unpacked
)

# What takes longest, so that no worker begins with it when the others are done. The chapters as they say in
# their opening tables; what is not named follows in the usual order.
LONGEST = (
    "tests/coursework/test_submissions.py",
    "chapters/10_detr.ipynb",
    "chapters/03_hard_attention.ipynb",
    "chapters/04_global_attention.ipynb",
    "chapters/05_local_attention.ipynb",
    "chapters/01_seq2seq.ipynb",
    "chapters/02_soft_attention.ipynb",
    "chapters/08_transformer.ipynb",
    "chapters/09_vision_transformer.ipynb",
)


def pytest_configure(config):
    config.option.loadscopereorder = False  # by the number of tests, which says nothing of their length
    os.environ.setdefault("OMP_NUM_THREADS", ENVIRONMENT["OMP_NUM_THREADS"])
    if getattr(config.option, "nbval", False):
        os.environ.update(ENVIRONMENT)
        config.option.nbval_cell_timeout = CELL_SECONDS


def pytest_collection_modifyitems(items):
    order = {file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: order.get(item.nodeid.partition("::")[0], len(LONGEST)))


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
