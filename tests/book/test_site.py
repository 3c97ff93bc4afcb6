"""The built files, read without a browser: every link leads somewhere, nothing needs a network or kernel."""

import itertools
import json
import os
import re
import sys
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from attncourse_book.address import find_address, find_site
from bs4 import BeautifulSoup

from attncourse.coursework.problems import read_problem_sets


@pytest.fixture(scope="session")
def pages(book) -> dict:
    """Every built page, parsed, by its path."""
    files = [file for file in sorted(book.rglob("*.html")) if "_static" not in file.relative_to(book).parts]
    return {file: BeautifulSoup(file.read_text(encoding="utf8"), "html.parser") for file in files}


@pytest.fixture(scope="session")
def chapters(pages) -> dict:
    return {file: soup for file, soup in pages.items() if file.parent.name == "chapters"}


def ids(soup) -> set[str]:
    named = soup.find_all("a", attrs={"name": True})
    return {tag["id"] for tag in soup.find_all(id=True)} | {tag["name"] for tag in named}


def addresses(soup) -> list[str]:
    """Everything that a page leads to or loads, links inside a drawing among them."""
    found = []
    for tag in soup.find_all(True):
        found += [tag[key] for key in ("href", "src", "xlink:href", "poster", "data") if tag.get(key)]
        found += [part.split()[0] for part in tag.get("srcset", "").split(",") if part.strip()]
    return found


def test_internal_links_resolve(pages, book):
    """A page renamed, a heading reworded, a picture not copied."""
    known = {file: ids(soup) for file, soup in pages.items()}
    broken = []
    for file, soup in pages.items():
        for address in addresses(soup):
            if urlsplit(address).scheme or address.startswith("//") or address == "#":
                continue
            parts = urlsplit(address)
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if not target.exists():
                broken.append(f"{file.relative_to(book)}: {address}")
            elif parts.fragment and target in known and unquote(parts.fragment) not in known[target]:
                broken.append(f"{file.relative_to(book)}: {address} (no such place on the page)")
    assert not broken, "\n".join(broken)


# Where a link may lead. Nothing is fetched here: a form that is known, and lasts, can be checked offline.
LASTING = (
    r"https://arxiv\.org/abs/\d{4}\.\d{4,5}",
    r"https://doi\.org/10\.\d{4,9}/\S+",
    r"https://aclanthology\.org/[A-Z]\d{2}-\d{4}/?",
    r"https://papers\.nips\.cc/paper_files/paper/\d{4}/hash/[0-9a-f]+-Abstract\.html",
    r"https://www\.jstor\.org/stable/\d+",
    r"https://www\.cs\.toronto\.edu/~kriz/[\w.-]+",
    r"https://github\.com/[\w.-]+/[\w.-]+(/\S*)?",
    r"https://colab\.research\.google\.com/github/\S+",
    r"https://creativecommons\.org/licenses/by/4\.0/",
)


def test_links_to_the_world_have_a_form_that_lasts(pages, book):
    """http without s, a space inside, a copy on somebody's page, a PDF of one version."""
    strange = sorted({
        f"{address} ({file.relative_to(book)})"
        for file, soup in pages.items()
        for address in (tag["href"] for tag in soup.find_all("a", href=True))
        if urlsplit(address).scheme and not any(re.fullmatch(form, address) for form in LASTING)
    })
    assert not strange, "mend it, or add its form to LASTING:\n" + "\n".join(strange)


def test_nothing_is_loaded_from_elsewhere(pages, book):
    """Links may lead out; scripts, styles, pictures and frames may not come in."""
    foreign = [
        f"{file.relative_to(book)}: {str(tag)[:120]}"
        for file, soup in pages.items()
        for tag in soup.find_all(["script", "link", "img", "iframe", "source", "video", "audio", "object"])
        if re.match(r"(https?:)?//", tag.get("src") or tag.get("href") or tag.get("data") or "")
        and tag.get("rel") not in (["canonical"], ["license"])
    ]
    assert not foreign, "\n".join(foreign)


def test_style_sheets_load_nothing_from_elsewhere(book):
    for sheet in book.rglob("*.css"):
        text = sheet.read_text(encoding="utf8")
        assert not re.search(r"url\(\s*['\"]?(https?:)?//|@import\s+['\"]?(url\()?['\"]?https?:", text), sheet


def test_no_dead_controls(pages):
    """A slider of a stored widget moves beside a number that does not."""
    for file, soup in pages.items():
        text = str(soup)
        assert "application/vnd.jupyter.widget" not in text, f"{file}: a stored widget"
        assert "require.js" not in text and "thebe" not in text.lower(), f"{file}: scripts for a kernel"


def test_no_placeholder_is_left(pages):
    for file, soup in pages.items():
        assert not soup.find_all("span", class_="attn-launch"), f"{file}: a launch placeholder was not filled"


def test_buttons_lead_to_the_address_that_is_set_or_there_are_none(pages):
    """A made-up address is worse than none."""
    address = find_address() if "BOOK_HTML" in os.environ else None
    for file, soup in pages.items():
        leaving = [a["href"] for a in soup.select(".article-header-buttons a[href^=http]")]
        leaving += [a["href"] for a in soup.find_all("a", href=True) if "colab.research" in a["href"]]
        launches = [a["href"] for a in soup.select("a.attn-launch")]
        if address is None:
            assert not leaving, f"{file}: a button without an address"
            assert all(link.endswith("how_to_run.html") for link in launches), file
        else:
            assert all(f"github.com/{address.repository}/" in f"{link}/".replace(
                "colab.research.google.com/github", "github.com") for link in leaving), file


def test_a_page_says_what_it_is(pages, book):
    for file, soup in pages.items():
        if file.parent.name not in ("book", "api", "chapters"):
            continue
        name = file.relative_to(book)
        assert soup.html.get("lang"), f"{name}: no language"
        assert soup.title.text.strip(), f"{name}: no title"
        assert len(soup.find("article").find_all("h1")) == 1, f"{name}: not one heading at the top"
        for wanted in ({"name": "description"}, {"property": "og:description"}, {"property": "og:title"}):
            found = soup.find_all("meta", wanted)
            assert len(found) == 1 and len(found[0]["content"]) > 3, f"{name}: {wanted}"
        # Where the book is published is not known here, and a made-up address would be worse than none.
        canonical = [link["href"] for link in soup.find_all("link", rel="canonical")]
        home = find_site() if "BOOK_HTML" in os.environ else ""
        assert canonical == ([f"{home}{name}"] if home else []), f"{name}: {canonical}"


def test_no_two_pages_say_the_same_of_themselves(pages, book):
    """Copied with the page that it was made from, a description misleads whoever searches."""
    said = {}
    for file, soup in pages.items():
        if file.parent.name in ("book", "api", "chapters"):
            said.setdefault(soup.find("meta", {"name": "description"})["content"], []).append(file.name)
    twice = [files for files in said.values() if len(files) > 1]
    assert not twice, twice


def test_pages_follow_one_another(pages, book, toc):
    """From the cover to the last page by "next", and back by "previous", in the order of the contents."""
    order = [(book / f"{page}.html").resolve() for page in toc]
    for rel, run in (("next", order), ("prev", order[::-1])):
        for page, following in itertools.pairwise(run):
            link = pages[page].find("link", rel=rel)
            assert link and (page.parent / link["href"]).resolve() == following, f"{page.name}: {rel}"
            button = pages[page].select_one(f".prev-next-footer a[class$=-{rel}]")
            assert button and (page.parent / button["href"]).resolve() == following, f"{page.name}: {rel}"


def test_search_knows_every_page(book, toc):
    index = (book / "searchindex.js").read_text(encoding="utf8")
    listed = json.loads(index.removeprefix("Search.setIndex(").removesuffix(")"))["docnames"]
    assert set(toc) <= set(listed), "the search misses a page"


def test_headings_go_down_by_one(pages, book):
    for file, soup in pages.items():
        if file.parent.name in ("book", "api", "chapters"):
            levels = [int(tag.name[1]) for tag in soup.find("article").find_all(re.compile("^h[1-6]$"))]
            jumps = [pair for pair in zip(levels, levels[1:], strict=False) if pair[1] > pair[0] + 1]
            assert not jumps, f"{file.relative_to(book)}: {jumps}"


def test_the_map_links_what_is_built_and_marks_what_is_coming(pages, chapters, book):
    soup = pages[book / "book" / "intro.html"]
    for drawing in soup.select("svg.chapter-map"):
        linked = {(book / "book" / a["href"]).resolve() for a in drawing.find_all("a")}
        assert linked == set(chapters), "the map links other chapters than the book has"
        assert len(drawing.select("g.ready")) == len(chapters)
        assert len(drawing.select("g.ready, g.coming")) == 12
        for label in drawing["aria-labelledby"].split():
            assert drawing.find(id=label).text.strip(), f"{label} says nothing"


def test_the_glossary_speaks_two_languages(pages, book):
    soup = pages[book / "book" / "glossary.html"]
    terms = soup.select("dl.glossary > dt")
    assert len(terms) >= 90
    for english, chinese in zip(terms[::2], terms[1::2], strict=True):
        assert "lang" not in english.attrs, english.text
        assert chinese.get("lang") == "zh-Hans", f"{english.text}: no Chinese term beside it"
        meaning = chinese.find_next_sibling("dd")
        assert "chapters/" in meaning.find("a")["href"], f"{english.text}: not said where it is introduced"
        texts = [term.text.removesuffix("#").strip() for term in (english, chinese)]
        assert re.search(r"[\u4e00-\u9fff]", texts[1]) and not re.search(r"[\u4e00-\u9fff]", texts[0]), texts
        assert len(meaning.text.split()) >= 5, f"{english.text}: no meaning"
    names = [term.text.removesuffix("#").casefold() for term in terms[::2]]
    assert names == sorted(names)


def test_a_chapter_s_terms_lead_to_the_glossary(pages, chapters, book):
    """Once a page, in running text, with its meaning at hand; that the place exists is tested above."""
    everywhere = set()
    for file, soup in chapters.items():
        links = soup.select("article a.glossary-term")
        places = [link["href"].split("#")[1] for link in links]
        assert len(places) == len(set(places)), f"{file.name}: a term is linked twice"
        assert len(places) >= 10, f"{file.name}: only {len(places)} links to the glossary"
        everywhere |= set(places)
        for link in links:
            assert not link.find_parent(["h1", "h2", "h3", "pre", "code", "table", "figure"]), link
            assert not link.find_parent("a"), link
            assert len(link["title"]) > 10, f"{link.text}: no meaning at hand"
    terms = {term["id"] for term in pages[book / "book" / "glossary.html"].select("dl.glossary > dt")[::2]}
    assert len(everywhere & terms) >= len(terms) / 2, "half of the glossary is never linked to"


def test_the_cover_shows_a_view_that_a_chapter_has_stored(pages, book):
    """What the cover shows was measured, and is what chapter 02 shows."""
    cover = pages[book / "book" / "intro.html"]
    views = cover.select("[data-attn-view]")
    assert len(views) == 1
    chapter = pages[book / "chapters" / "02_soft_attention.html"]
    assert views[0]["id"] in {view["id"] for view in chapter.select("[data-attn-view]")}
    assert views[0].find("table").find("caption"), "nothing to read where scripts do not run"


def test_a_question_leads_to_a_section(pages, book):
    """Each answer of the guide names a place inside a chapter, or for a paper the chapter."""
    soup = pages[book / "book" / "which_chapter.html"]
    questions = soup.select("article section ul > li")
    assert len(questions) >= 25
    for question in questions:
        assert question.find("strong") and question.find("a", href=True), question.text
    linked = {link["href"].split("/")[-1].split("#")[0] for link in soup.select("article a.internal")}
    silent = {file.name for file in (book / "chapters").glob("*.html")} - linked
    assert not silent, f"no question of book/which_chapter.md leads to {', '.join(sorted(silent))}"


def test_every_reference_can_be_found(pages, book):
    soup = pages[book / "book" / "references.html"]
    entries = soup.select("div.citation")
    assert len(entries) >= 27
    for entry in entries:
        assert entry.select_one('a[href*="doi.org"], a[href*="arxiv.org"], a[href^=http]'), entry.text


def test_mathjax_is_small(book):
    """Only what formulas of this book can ask for: one packed script, fonts, a few extensions."""
    folder = book / "_static" / "mathjax"
    assert (folder / "mathjax.js").stat().st_size < 300_000
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 700_000


def test_unused_icons_are_gone(book):
    static = book / "_static"
    assert not list(static.rglob("fontawesome*.js")) and not list(static.rglob("*.map"))
    assert all(font.stat().st_size < 40_000 for font in static.rglob("fa-*.ttf"))


def test_no_line_of_a_solution_is_in_the_built_problem_sets(book):
    """The theme copies sources into the site; those of the problem sets hold the answers."""
    root = Path(__file__).parents[2]
    sys.path.insert(0, str(root / "tests" / "coursework"))
    from handed_in import secret_lines

    for name, problem_set in read_problem_sets(root / "chapters" / "problems").items():
        lines = secret_lines(problem_set)
        files = [file for file in book.rglob(f"{name}*") if "problems" in file.relative_to(book).parts]
        assert {file.suffix for file in files} >= {".html", ".ipynb"}
        for file in files:
            text = file.read_text(encoding="utf8", errors="ignore")
            shown = BeautifulSoup(text, "html.parser").get_text() if file.suffix == ".html" else text
            found = [line for line in lines if line in shown or json.dumps(line)[1:-1] in text]
            assert not found, f"{file.relative_to(book)}: {found}"
    assert not list(book.rglob("chapters/problems"))
