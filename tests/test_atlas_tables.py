"""The tables of the atlas: a line for every row, and links that lead somewhere."""

import re
from pathlib import Path

import pytest

from attncourse.atlas import PAPERS, cost_table, equation_table
from attncourse.attention import ATLAS, Sizes, mechanism

ROOT = Path(__file__).parents[1]
SMALL = Sizes(width=8, heads=2, key_value_heads=1, reach=2, longest=600, objects=5)
EVERY = pytest.mark.parametrize("row", ATLAS, ids=lambda row: row.name)


@EVERY
def test_the_paper_is_in_the_list_of_references(row):
    """The entry has the address, and the text cites its author and its year."""
    entries = (ROOT / "book" / "references.bib").read_text("utf8").split("\n@")
    [entry] = [entry for entry in entries if re.match(rf"@?\w+{{{row.paper},", entry)]
    paper = PAPERS[row.paper]
    address = paper.address.removeprefix("https://arxiv.org/abs/").removeprefix("https://doi.org/")
    assert f"{{{address}}}" in entry, f"{paper.address} is not that of {row.paper}"
    author, year = re.split(r" et al\. | ", paper.cited)[0], paper.cited[-4:]
    assert f"author = {{{author}" in entry and f"year = {{{year}}}" in entry


def test_no_paper_is_listed_for_nothing():
    assert set(PAPERS) == {row.paper for row in ATLAS}


@pytest.mark.parametrize(("table", "columns"), [(equation_table, 7), (cost_table, 7)])
def test_a_table_has_a_line_for_every_row_and_a_cell_for_every_column(table, columns):
    """A bar inside a formula would cut a cell in two."""
    heads, rule, *lines = table().splitlines()
    assert [line.split(" | ")[0].removeprefix("| ") for line in lines] == [row.name for row in ATLAS]
    for line in (heads, rule, *lines):
        assert line.count("|") == columns + 1, line
        assert line.count("$") % 2 == 0 and "||" not in line.replace(" ", "")


def test_a_table_of_some_rows_holds_these():
    linear = mechanism("linear")
    assert equation_table([linear]).splitlines()[2] == (
        r"| linear | $x_i W_Q$, in each head | $x_j W_K$ | $x_j W_V$ | $\phi(q)^\top \phi(k)$ | all "
        "| divide by the sum |"
    )
    assert cost_table([linear]).splitlines()[2] == (
        "| linear | 16,640 | $d^2 / h$ | $n d^2 / h$ | $n d$ | [11](11_atlas.ipynb) "
        "| [Katharopoulos et al. 2020](https://arxiv.org/abs/2006.16236) |"
    )
    assert "| linear | 288 |" in cost_table([linear], SMALL), "counted at other sizes"
