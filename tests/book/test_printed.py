"""The printed book: a few pages of it, from the built pages to the PDF."""

import logging
from pathlib import Path

import pytest
from attncourse_book import printed
from bs4 import BeautifulSoup

CHAPTER = "chapters/02_soft_attention.html"
PAGES = (printed.COVER, CHAPTER, "book/notation.html")


def listing(folder: Path) -> set[str]:
    """Every file under a folder, by its path in it."""
    return {str(file.relative_to(folder)) for file in folder.rglob("*")}


@pytest.fixture(scope="module")
def printing(book, browser, tmp_path_factory):
    """Cover, one chapter and the notation, printed: the PDF, and what was new in the book at each print."""
    pytest.importorskip("pypdf")
    logging.getLogger("pypdf").setLevel(logging.ERROR)
    target = tmp_path_factory.mktemp("printed") / "book.pdf"
    pages = {page: BeautifulSoup((book / page).read_text(encoding="utf8"), "html.parser") for page in PAGES}
    before, new, print_page = listing(book), [], printed.print_page

    def watched(*given, **options):
        new.append(listing(book) - before)
        print_page(*given, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(printed, "print_page", watched)
        printed.print_book(book, target, browser, pages)
    return target, [*new, listing(book) - before]


@pytest.fixture(scope="module")
def pdf(printing):
    pypdf = pytest.importorskip("pypdf")
    return pypdf.PdfReader(printing[0])


def test_printing_writes_nothing_into_the_book(printing):
    """Written there for the time of a print, a page was published, or met by whoever read the book."""
    assert len(printing[1]) == 3, "a print was not watched"
    assert not any(printing[1]), f"serve what is printed from memory, instead of writing {printing[1]}"


def test_the_pages_are_printed_in_the_order_of_the_contents(book, toc):
    assert list(printed.read_pages(book)) == [f"{page}.html" for page in toc]


@pytest.fixture(scope="module")
def texts(pdf) -> list[str]:
    """What stands on each page."""
    return [page.extract_text() for page in pdf.pages]


def test_the_contents_say_on_which_page_a_chapter_begins(texts):
    """Laid over the list, the numbers must stand where they belong, and be right."""
    start = next(n for n, text in enumerate(texts, start=1) if "You will be able to" in text)
    listed = next(text for text in texts if text.startswith("Contents"))
    assert f"{start}" in listed.split(), f"chapter 02 begins on page {start}"
    assert texts[start - 1].rstrip().endswith(str(start)), "the foot of a page shows its number"


def test_what_is_printed_is_whole(book, pdf, texts):
    """Open answers, formulas, figures; and no control that paper does not have."""
    text = "\n".join(texts)
    assert "The weight is 1, whatever the score" in text, "a folded answer stayed closed"
    assert "{aligned}" not in text, "a formula was printed before it was set"
    assert "aujourd'hui" in text, "a view is missing"
    assert "Temperature" not in text, "a slider on paper"
    assert "Start with chapter 00" not in text, "a button on paper"
    drawn = [thing.get_object() for page in pdf.pages
             for thing in page["/Resources"].get("/XObject", {}).values()]
    figures = (book / CHAPTER).read_text(encoding="utf8").count('<figure class="attn-figure"')
    assert sum(thing["/Subtype"] == "/Image" for thing in drawn) >= figures > 0, "figures are missing"


def test_links_stay_within_the_book(pdf):
    """A link to a page that is printed too leads to it, and not to an address of this machine."""
    links = [link.get_object() for page in pdf.pages for link in page.get("/Annots") or ()]
    addresses = [link["/A"]["/URI"] for link in links if "/URI" in link.get("/A", {})]
    assert addresses and not [address for address in addresses if not address.startswith("https://")]
    assert f"{printed.name_of(CHAPTER)}--the-idea" in printed.page_numbers(pdf.stream)


def entries_of(outline, level=1):
    """An outline, flat: (level, words, entry)."""
    for entry in outline:
        if isinstance(entry, list):
            yield from entries_of(entry, level + 1)
        else:
            yield level, entry["/Title"], entry


def test_the_outline_says_what_the_headings_say(book, pdf, texts):
    """Left to the browser, one version wrote each title twice, and another left out what stands in a link."""
    outline = list(entries_of(pdf.outline))
    soup = BeautifulSoup((book / CHAPTER).read_text(encoding="utf8"), "html.parser")
    for link in soup.select(".headerlink"):
        link.decompose()
    sections = [" ".join(heading.text.split()) for heading in soup.select("article h2")]
    assert len(sections) > 5
    assert [(level, words) for level, words, _ in outline] == [
        (1, "The Attention Course"), (1, "Contents"), (1, "02 · Soft attention"),
        *((2, words) for words in sections), (1, "Notation")]
    for _, words, entry in outline:
        page = texts[pdf.get_destination_page_number(entry)]
        assert "".join(words.split()) in "".join(page.split()), f"the page of {words!r} is another"
