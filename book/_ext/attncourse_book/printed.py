"""The whole book as one PDF, printed by Chromium from the pages that were built.

    python -m attncourse_book.printed _build/html _build/html/attention_course.pdf

The pages become one page, in the order of the contents: links between them lead to places in the same file,
folded answers are open, and what needs a reader's hand is left out of a view, which keeps what it has
drawn. Only the print says on which page a chapter begins, so the numbers in the list of contents are
printed after it and laid over it. The outline at the side of a PDF is the same list, written from the book's
own headings: what a browser makes of them changes with its version.
"""

import argparse
import functools
import http.server
import os
import shutil
import sys
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader, PdfWriter
from pypdf.generic import Destination, Fit

CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
COVER = "book/intro.html"
CONTENTS = "printed-contents"
DEAD = ".headerlink, .viewcode-link, a.start"
# A view's sliders, choices and buttons to step; the words that can be chosen are its drawing and stay.
CONTROLS = ".controls, .steps, input, select, textarea { display: none !important; }"
# Only the numbers are seen, on a page as clear as glass.
GLASS = """<style>
html, body, main.bd-main { background: transparent !important; }
.printed-contents * { color: transparent !important; }
.printed-contents .number { color: #000 !important; }
</style>"""
FOOTER = (
    '<div style="width: 100%; font: 8px sans-serif; padding: 0 16mm; display: flex; '
    'justify-content: space-between; color: #555"><span>The Attention Course</span>'
    '<span class="pageNumber"></span></div>'
)


def name_of(page: str) -> str:
    """What the names of a page's places begin with: chapters-02_soft_attention, for example."""
    return page.removesuffix(".html").replace("/", "-")


def _within(page: str, address: str) -> tuple[str, str]:
    """The page that a relative address leads to, seen from another page, and the place on it."""
    parts = urlsplit(address)
    target = os.path.normpath(Path(page).parent / unquote(parts.path)) if parts.path else page
    return target, parts.fragment


def read_pages(book: Path, first: str = COVER) -> dict[str, BeautifulSoup]:
    """The pages of the book, each named by the one before it as the next."""
    pages, page = {}, first
    while page and page not in pages:
        pages[page] = BeautifulSoup((book / page).read_text(encoding="utf8"), "html.parser")
        following = pages[page].find("link", rel="next")
        page = following and _within(page, following["href"])[0]
    return pages


def article_of(page: str, soup: BeautifulSoup, printed) -> Tag:
    """What a page says, ready to stand among all that are `printed`."""
    article = soup.select_one("article.bd-article")
    for dead in article.select(DEAD):
        dead.decompose()
    for answer in article.find_all("details"):
        answer["open"] = ""
    for tag in article.find_all(id=True):
        tag["id"] = f"{name_of(page)}--{tag['id']}"
    for tag in article.find_all(["a", "img"]):
        key = "href" if tag.name == "a" else "src"
        if urlsplit(tag.get(key, "")).scheme or not tag.get(key):
            continue
        target, place = _within(page, tag[key])
        if tag.name == "img":
            tag[key] = target
        elif target in printed:
            tag[key] = f"#{name_of(target)}--{place}" if place else f"#{name_of(target)}"
        else:
            tag.unwrap()  # a page that is not printed, such as the source of a function
    article["id"] = name_of(page)
    return article


def headings(articles: list[Tag]) -> list[tuple[int, str, Tag]]:
    """What the contents list, as (level, place, heading): every page, and the sections of a chapter."""
    listed = []
    for article in articles:
        listed.append((1, article["id"], article.find("h1")))
        for heading in article.find_all("h2") if article["id"].startswith("chapters-") else ():
            listed.append((2, heading.find_parent("section")["id"], heading))
    return listed


def contents(articles: list[Tag], numbers: dict[str, int]) -> str:
    """The list of pages and of the chapters' sections, with the number of the page on which each begins."""

    def line(level, place, heading):
        words, number = heading.decode_contents().strip(), numbers.get(place, "")
        return (f'<li class="level-{level}"><a href="#{place}"><span>{words}</span>'
                f'<span class="number">{number}</span></a></li>')

    lines = [line(*listed) for listed in headings(articles)]
    return (f'<nav class="printed-contents"><h1><a href="#{CONTENTS}" id="{CONTENTS}">Contents</a></h1>'
            f'<ol>{"".join(lines)}</ol></nav>')


def head_of(page: str, soup: BeautifulSoup) -> str:
    """Style sheets and mathematics of a page, for a page that lies at the top of the book."""
    kept = soup.head.find_all("link", rel="stylesheet")
    scripts = soup.head.find_all("script")
    kept += [tag for tag in scripts if "mathjax" in f"{tag.text}{tag.get('src', '')}".lower()]
    for tag in kept:
        for key in {"href", "src"} & set(tag.attrs):
            tag[key] = _within(page, tag[key])[0]
    style = Path(__file__).with_name("printed.css").read_text(encoding="utf8")
    return (f'<meta charset="utf-8"><title>The Attention Course</title>{"".join(map(str, kept))}'
            f"<style>{style}</style>")


def document(head: str, body: str) -> str:
    """A page of HTML with the book's own frame around what it says."""
    return (f'<!DOCTYPE html><html lang="en" data-theme="light" data-mode="light"><head>{head}</head>'
            f'<body><main class="bd-main bd-content"><div class="bd-article">{body}</div></main></body>'
            "</html>")


@contextmanager
def _served(folder: Path, made: dict[str, str]):
    """A local server of the folder, and of pages that are `made` and lie in no folder; its address.

    What is printed is never written into the built book: who reads the book meanwhile would meet it there.
    """

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def do_GET(self):
            page = made.get(self.path.lstrip("/"))
            if page is None:
                return super().do_GET()
            content = page.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    handler = functools.partial(Quiet, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def print_page(browser, address: str, target: Path, *, footer: str = FOOTER) -> None:
    """Print one page when its formulas are set and its views are drawn."""
    page = browser.new_page()
    page.set_default_timeout(300_000)
    page.emulate_media(media="print", color_scheme="light")
    page.goto(address, wait_until="load")
    if page.locator(".math").count():
        page.wait_for_function("() => window.MathJax?.startup?.promise")
        page.evaluate("async () => { await MathJax.startup.promise; await document.fonts.ready; }")
    page.evaluate(
        """style => {
            for (const host of document.querySelectorAll("[data-attn-view]")) {
                const sheet = Object.assign(document.createElement("style"), { textContent: style });
                host.shadowRoot?.append(sheet);
            }
        }""",
        CONTROLS,
    )
    page.pdf(path=str(target), format="A4", print_background=True, tagged=True,
             display_header_footer=True, header_template="<span></span>", footer_template=footer,
             margin={"top": "16mm", "bottom": "18mm", "left": "16mm", "right": "16mm"})
    page.close()


def places(printed: Path) -> dict[str, Destination]:
    """Each place in the file that something in it leads to, by its name."""
    named = PdfReader(printed).named_destinations
    return {unquote(name).lstrip("/"): place for name, place in named.items()}


def page_numbers(printed: Path) -> dict[str, int]:
    """On which page each place stands that something in the file leads to; the first page is 1."""
    reader = PdfReader(printed)
    return {name: reader.get_destination_page_number(place) + 1 for name, place in places(printed).items()}


def finish(printed: Path, numbers: Path, cover: str, listed: list[tuple[int, str, Tag]]) -> None:
    """Lay the numbers over the contents, and write the outline: cover, contents, and what they list."""
    writer, found, at = PdfWriter(clone_from=printed), page_numbers(printed), places(printed)
    for page, over in zip(writer.pages[found[CONTENTS] - 1 :], PdfReader(numbers).pages, strict=False):
        page.merge_page(over)
    writer.add_outline_item(title=cover, page_number=0)
    writer.add_outline_item(title="Contents", page_number=found[CONTENTS] - 1)
    above = None
    for level, place, heading in listed:
        item = writer.add_outline_item(
            title=" ".join(heading.text.split()), page_number=found[place] - 1, is_open=False,
            parent=above if level > 1 else None, fit=Fit.xyz(at[place].left, at[place].top),
        )
        above = item if level == 1 else above
    writer.write(printed)


def print_book(book: Path, target: Path, browser, pages: dict[str, BeautifulSoup] | None = None) -> None:
    """Print the built book, or some of its pages, to one PDF."""
    pages = pages or read_pages(book)
    head = head_of(*next(iter(pages.items())))
    cover, *others = [article_of(page, soup, pages) for page, soup in pages.items()]
    whole = [cover, contents(others, {}), *others]
    made = {"printed.html": document(head, "".join(map(str, whole)))}
    with _served(book, made) as address, tempfile.TemporaryDirectory() as folder:
        numbers = Path(folder) / "numbers.pdf"
        print_page(browser, f"{address}/printed.html", target)
        made["numbers.html"] = document(head + GLASS, contents(others, page_numbers(target)))
        print_page(browser, f"{address}/numbers.html", numbers, footer="<span></span>")
        finish(target, numbers, cover.find("h1").text, headings(others))


def main() -> None:
    parser = argparse.ArgumentParser(description="Print the built book as one PDF.")
    parser.add_argument("book", type=Path, help="the folder of the built book, such as _build/html")
    parser.add_argument("target", type=Path, help="the PDF to write")
    given = parser.parse_args()
    path = os.environ.get("ATTNCOURSE_CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUM)), None)
    if not path:
        sys.exit("printing the book needs Chromium: install it, or name one in ATTNCOURSE_CHROMIUM")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        print_book(given.book, given.target, browser)
        browser.close()
    print(f"The printed book is at {given.target.resolve()}")


if __name__ == "__main__":
    main()
