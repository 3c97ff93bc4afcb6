"""WindowView as HTML, and the table it leaves to readers without scripts."""

import re

import pytest
import torch

from attncourse.viewer import WindowView

SCORES, SOURCE = [0.0, 0.0, 0.0, 0.0], ["le", "chat", "noir", "dort"]


def rows_of(view) -> dict[str, list[str]]:
    found = re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', view._repr_html_())
    return {name: re.findall(r"<td>(.*?)</td>", cells) for name, cells in found}


def test_the_same_data_give_the_same_bytes():
    html = [WindowView(SCORES, SOURCE, centre=1, half_width=1)._repr_html_() for _ in range(2)]
    assert html[0] == html[1]


def test_repr_has_no_address():
    view = WindowView(SCORES, SOURCE, centre=1.5, half_width=2)
    assert repr(view) == "WindowView(4 words, centre=1.5, half_width=2)"


def test_the_table_can_be_computed_by_hand():
    """Equal scores, centre 1, D = 1, sigma 1/2: the Gaussian is e^-2, 1, e^-2 = 0.14, 1, 0.14."""
    rows = rows_of(WindowView(SCORES, SOURCE, centre=1, half_width=1))
    assert rows["global"] == ["0.25"] * 4 + ["1.00"]
    assert rows["window only (local-m)"] == ["0.33", "0.33", "0.33", "0.00", "1.00"]
    assert rows["Gaussian outside (local-p, as printed)"] == ["0.05", "0.33", "0.05", "0.00", "0.42"]
    assert rows["Gaussian inside"] == ["0.11", "0.79", "0.11", "0.00", "1.00"]


def test_a_window_off_the_source_reads_nothing():
    rows = rows_of(WindowView(SCORES, SOURCE, centre=5, half_width=1))
    assert rows["Gaussian inside"] == ["0.00"] * 5


def test_a_tensor_with_a_gradient_is_taken():
    assert WindowView(torch.zeros(4, requires_grad=True), SOURCE, centre=0, half_width=1)._repr_html_()


def test_nothing_is_asked_of_the_network_and_no_word_becomes_markup():
    html = WindowView([0.0], ["</script><b>"], centre=0, half_width=1, title="<b>")._repr_html_()
    assert set(re.findall(r"https?://[^\s\"']+", html)) == {"http://www.w3.org/2000/svg"}
    assert "<b>" not in html and html.count("<script") == 2


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"scores": [1.0]}, ValueError, r"scores has shape \(1,\); it must be \(4,\)"),
    ({"scores": [0, 0, 0, float("-inf")]}, ValueError, "scores must all be finite"),
    ({"source": ["word"] * 13}, ValueError, "source holds 13 words, but at most 12"),
    ({"source": "le chat"}, TypeError, "source must be a list of tokens"),
    ({"centre": 5.5}, ValueError, "centre is 5.5; it must lie between 0 and 5"),
    ({"centre": float("nan")}, ValueError, "centre is nan"),
    ({"half_width": 0}, ValueError, "half_width is 0; it must be a whole number from 1 to 4"),
    ({"half_width": 1.5}, ValueError, "half_width is 1.5"),
])
def test_errors_name_the_argument(change, error, message):
    given = {"scores": SCORES, "source": SOURCE, "centre": 1, "half_width": 1, **change}
    with pytest.raises(error, match=message):
        WindowView(given.pop("scores"), given.pop("source"), **given)
