"""A table of results: a real table for eyes, ears and phones, and plain columns in a terminal."""

import pytest
import torch
from bs4 import BeautifulSoup

from attncourse.viewer import show_table

ROWS = [["additive <b>", 94.756, 352_110], ["fixed", torch.tensor(11.9), 356_462]]


def test_heads_rows_and_notes_are_marked_as_what_they_are(published):
    """A reader of screens hears the row's name before each number; markup in a cell stays text."""
    columns = ["model", "BLEU", "parameters"]
    show_table(ROWS, columns=columns, caption="Long ones", notes="Three seeds.", places=1)
    page = BeautifulSoup(published[0]["text/html"], "html.parser")
    assert [th.text for th in page.select("thead th[scope=col]")] == ["model", "BLEU", "parameters"]
    assert [th.text for th in page.select("tbody th[scope=row]")] == ["additive <b>", "fixed"]
    assert [td.text for td in page.select("td.number")] == ["94.8", "352,110", "11.9", "356,462"]
    assert page.caption.text == "Long ones" and page.select_one(".attn-notes").text == "Three seeds."


def test_a_terminal_gets_columns(published):
    show_table(ROWS, columns=["model", "BLEU", "parameters"], places=1)
    assert published[0]["text/plain"].splitlines() == [
        "model         BLEU  parameters", "additive <b>  94.8     352,110", "fixed         11.9     356,462",
    ]


@pytest.mark.parametrize(("rows", "words"), [([], "rows is empty"), ([["a", 1]], "row 1 has 2 cells"),
                                             ([["a", 1, 2], ["b", 1]], "row 2 has 2 cells")])
def test_a_row_has_one_cell_for_each_column(rows, words):
    """zip would drop the last column in silence."""
    with pytest.raises(ValueError, match=words):
        show_table(rows, columns=["model", "BLEU", "parameters"])
