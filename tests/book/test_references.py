"""The bibliography: every work can be found by a number that lasts, and what a chapter cites is in it."""

import json
import re
from pathlib import Path

import pytest
from pybtex.database import parse_file

ROOT = Path(__file__).parents[2]
CHAPTERS = sorted((ROOT / "chapters").glob("[0-9][0-9]_*.ipynb"))
ENTRIES = parse_file(ROOT / "book" / "references.bib").entries

# Works that have neither a DOI nor a number at arXiv; they have an address.
ADDRESS_ONLY = {
    "larochelle2010", "sutton2000",  # NIPS 2010 and 1999
    "watson1964",  # Sankhyā, at JSTOR
    "maas2011",  # ACL 2011, whose papers have no DOI
    "krizhevsky2009",  # a technical report
    "cmudict",  # a dictionary
}


def links(path: Path, pattern: str) -> set[str]:
    """What the pattern finds in the Markdown of a chapter."""
    cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    return {found for cell in cells if cell["cell_type"] == "markdown"
            for found in re.findall(pattern, "".join(cell["source"]))}


def test_every_work_has_a_number_that_lasts():
    """Addresses move; a DOI and a number at arXiv do not."""
    without = {key for key, entry in ENTRIES.items() if not {"doi", "eprint"} & set(entry.fields)}
    assert without == ADDRESS_ONLY, "give a DOI or an arXiv number, or say in ADDRESS_ONLY why there is none"
    for key in ADDRESS_ONLY:
        assert ENTRIES[key].fields["url"].startswith("https://"), key


@pytest.mark.parametrize("key", ENTRIES)
def test_a_number_is_written_as_numbers_are(key):
    fields = ENTRIES[key].fields
    if "doi" in fields:
        assert re.fullmatch(r"10\.\d{4,9}/[^\s{}]+", fields["doi"]), fields["doi"]
    if "eprint" in fields:
        assert re.fullmatch(r"\d{4}\.\d{4,5}", fields["eprint"]), fields["eprint"]
        assert fields.get("archiveprefix") == "arXiv", "the number is shown only with archiveprefix = {arXiv}"
    assert fields["year"].isdigit() and fields["title"]


def test_no_work_is_listed_twice():
    for field in ("doi", "eprint"):
        numbers = [entry.fields[field].lower() for entry in ENTRIES.values() if field in entry.fields]
        assert len(numbers) == len(set(numbers)), f"two entries with one {field}"


@pytest.mark.parametrize("notebook", CHAPTERS, ids=lambda notebook: notebook.stem)
def test_what_a_chapter_cites_is_in_the_bibliography(notebook):
    """Copied from a browser, a link misses the list that the reader takes home."""
    listed = {entry.fields.get("eprint") for entry in ENTRIES.values()}
    missing = links(notebook, r"arxiv\.org/(?:abs|pdf)/(\d{4}\.\d{4,5})") - listed
    dois = {entry.fields.get("doi", "").lower() for entry in ENTRIES.values()}
    missing |= {doi for doi in links(notebook, r"doi\.org/(10\.[^\s)]+)") if doi.lower() not in dois}
    assert not missing, f"add to book/references.bib: {', '.join(sorted(missing))}"
