"""The built book, and what a reader's browser meets on each of its pages.

BOOK_HTML names a book that is already built, with warnings as errors, as `make test-book` does; otherwise it
is built once, into a temporary folder.
"""

import functools
import http.server
import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))

PROBE = Path(__file__).with_name("probe.js").read_text(encoding="utf8")
AUDIT = Path(__file__).with_name("audit.js").read_text(encoding="utf8")
ON_A_PHONE = ("book/intro.html", "book/instructors.html", "chapters/02_soft_attention.html")


def pages_of_toc() -> list[str]:
    """Every page that the table of contents names, without reading the built book."""

    def walk(entry):
        for key in ("root", "file"):
            if key in entry:
                yield entry[key]
        for key in ("parts", "chapters", "sections"):
            for inner in entry.get(key, ()):
                yield from walk(inner)

    return list(walk(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf8"))))


def pytest_generate_tests(metafunc):
    """`path` is every page of the book, `chapter` every chapter."""
    pages = pages_of_toc()
    if "path" in metafunc.fixturenames:
        made = ["genindex", "search", "py-modindex"]
        metafunc.parametrize("path", [f"{page}.html" for page in [*pages, *made]])
    if "chapter" in metafunc.fixturenames:
        metafunc.parametrize("chapter", [f"{page}.html" for page in pages if page.startswith("chapters/")])


@pytest.fixture(scope="session")
def toc() -> list[str]:
    """Every page of the book, in order."""
    return pages_of_toc()


@pytest.fixture(scope="session")
def cover(toc) -> str:
    return f"{toc[0]}.html"


@pytest.fixture(scope="session")
def book(tmp_path_factory) -> Path:
    """The folder of the built book."""
    if "BOOK_HTML" in os.environ:
        return Path(os.environ["BOOK_HTML"]).resolve()
    folder = tmp_path_factory.mktemp("book").resolve()
    without = {"BOOK_REPOSITORY", "BOOK_BRANCH", "GITHUB_REPOSITORY"}
    environment = {key: value for key, value in os.environ.items() if key not in without}
    command = [Path(sys.executable).with_name("jupyter-book"), "build", ROOT, "--path-output", folder]
    build = subprocess.run(
        [*command, "-W", "--keep-going", "-n"], env=environment, capture_output=True, text=True, check=False
    )
    assert build.returncode == 0, f"the book does not build without warnings:\n{build.stdout}{build.stderr}"
    return folder / "_build" / "html"


@pytest.fixture(scope="session")
def site(book) -> str:
    """The address of a local server that shows the book."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=book)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class Visit:
    """One page open in the browser; what it asks of other machines is refused and noted."""

    def __init__(self, browser, home: str, *, dark: bool = False, phone: bool = False):
        self.context = browser.new_context(
            viewport={"width": 380, "height": 800} if phone else {"width": 1280, "height": 900},
            color_scheme="dark" if dark else "light",
        )
        self.home, self.refused, self.failed, self.received = home, [], [], {}
        self.complaints, self.errors = [], []  # whatever the console says; and what no script has caught
        self.page = self.context.new_page()
        self.context.route("**/*", self._only_here)
        self.page.on("console", lambda message: message.type in ("error", "warning")
                     and self.complaints.append(message.text))
        self.page.on("pageerror", self._break)
        self.page.on("requestfailed", lambda request: self.failed.append(request.url))
        self.page.on("response", self._receive)

    def _only_here(self, route):
        if route.request.url.startswith((self.home, "data:", "blob:")):
            route.continue_()
        else:
            self.refused.append(route.request.url)
            route.abort()

    def _break(self, error):
        self.complaints.append(str(error))
        self.errors.append(str(error))

    def _receive(self, response):
        if response.status >= 400:
            self.failed.append(f"{response.status} {response.url}")
        elif response.status == 200 and response.url.startswith(self.home):
            self.received[response.url] = len(response.body())

    def open(self, path: str):
        self.page.goto(f"{self.home}/{path}", wait_until="load")
        self.page.evaluate("async () => { await document.fonts.ready; }")
        if self.page.locator(".math").count():
            self.page.wait_for_selector("mjx-container", state="attached", timeout=60_000)
            self.page.evaluate("async () => { await MathJax.startup.promise; await document.fonts.ready; }")
        return self.page

    def probe(self) -> dict:
        """What probe.js reads off the open page."""
        return self.page.evaluate(PROBE)

    def audit(self, *, colours_only: bool = False) -> list[str]:
        """What axe-core finds serious or critical on the open page, which is of no use afterwards."""
        if not self.page.evaluate("() => 'axe' in window"):
            script = files("axe_playwright_python").joinpath("axe.min.js").read_text(encoding="utf8")
            self.page.evaluate(f"{script}; undefined")
        return self.page.evaluate(AUDIT, colours_only)


@pytest.fixture
def visit(browser, site):
    """Open pages of the book: `visit(dark=..., phone=...)` gives a Visit."""
    opened = []

    def start(home=site, **how):
        opened.append(Visit(browser, home, **how))
        return opened[-1]

    yield start
    for one in opened:
        one.context.close()


@dataclass(frozen=True)
class Seen:
    """What one page showed: in the light on a wide screen, and in the dark on a phone."""

    light: Visit
    light_probe: dict
    dark_probe: dict
    audits: dict[str, list[str]]


@pytest.fixture(scope="session")
def seen(browser, site):
    """Each page is opened twice in all, however many tests ask what was seen."""

    @functools.cache
    def look(path: str) -> Seen:
        light, dark = Visit(browser, site), Visit(browser, site, dark=True, phone=True)
        light.open(path)
        dark.open(path)
        probes = light.probe(), dark.probe()
        audits = {"in the light": light.audit()}
        light.page.emulate_media(color_scheme="dark")  # only colours differ then
        audits["in the dark"] = light.audit(colours_only=True)
        if path in ON_A_PHONE:
            audits["on a phone"] = dark.audit()
        light.context.close()
        dark.context.close()
        return Seen(light, *probes, audits)

    return look
