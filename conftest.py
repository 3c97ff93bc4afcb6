"""One thread for every test process, so that two run side by side; notebooks as they were run for storing."""

import os

from attncourse.notebooks import ENVIRONMENT


def pytest_configure(config):
    os.environ.setdefault("OMP_NUM_THREADS", ENVIRONMENT["OMP_NUM_THREADS"])
    if getattr(config.option, "nbval", False):
        os.environ.update(ENVIRONMENT)
