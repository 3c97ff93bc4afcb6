"""One Chromium for every test that opens a page, and which tests those are."""

import os
import shutil
import socket

import pytest

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# An empty profile that looks nothing up in the world.
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_collection_modifyitems(items):
    """A test is of the kind (book, browser) of the things it asks for, so no file has to say so."""
    for item in items:
        for kind in {"book", "browser"} & set(item.fixturenames):
            item.add_marker(kind)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of the system's Chromium; ATTNCOURSE_CHROMIUM names another."""
    path = os.environ.get("ATTNCOURSE_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if not path:
        pytest.skip("the browser tests need Chromium: install it, or name one in ATTNCOURSE_CHROMIUM")
    return path


@pytest.fixture(scope="session")
def browser(chromium):
    """A headless Chromium, driven by Playwright."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def unused_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def pytest_xdist_make_scheduler(config, log):
    """Share the pages out among the workers: the tests of one page stay together, a module need not."""
    if config.getoption("dist") != "loadscope":
        return None
    from xdist.scheduler import LoadScopeScheduling  # there only where several workers are

    class ByPage(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            page = nodeid.partition("[")[2]
            of_a_page = "test_pages.py" in nodeid and page.endswith(".html]")
            return page if of_a_page else super()._split_scope(nodeid)

    return ByPage(config, log)
