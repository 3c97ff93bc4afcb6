"""WeighView as HTML, and the table it leaves to readers without scripts."""

import re

import pytest

from attncourse.viewer import WeighView
from attncourse.viewer.views.component import asset
from attncourse.viewer.views.weigh.view import SCORES

KEYS, VALUES, LABELS = [[1, 0], [0, 1]], [[2, 0], [0, 4]], ["east", "north"]


def test_the_same_data_give_the_same_bytes():
    html = [WeighView([1, 1], KEYS, VALUES, labels=LABELS)._repr_html_() for _ in range(2)]
    assert html[0] == html[1]


def test_repr_has_no_address():
    assert repr(WeighView([1, 1], KEYS, VALUES, labels=LABELS)) == "WeighView(2 keys, score='scaled dot')"


@pytest.mark.parametrize("score", SCORES)
def test_the_table_shows_the_package_s_numbers(score):
    """Equal scores: each weight is one half, and the context is the mean of the values."""
    html = WeighView([1, 1], KEYS, VALUES, labels=LABELS, score=score)._repr_html_()
    assert "the context, (1.00, 2.00)" in html
    assert html.count("<td>0.50</td>") >= 2


def test_the_page_offers_the_scores_that_python_knows():
    formulas = re.search(r"FORMULAS = \{(.*?)\}", asset("weigh/view.js"), re.S)[1]
    assert re.findall(r'"([\w ]+)":', formulas) == list(SCORES)


@pytest.mark.parametrize(("change", "message"), [
    ({"query": [1, 2, 3]}, r"query has shape \(3,\); it must be \(2,\)"),
    ({"keys": [[1, 0]]}, r"keys has shape \(1, 2\); it must be \(2, 2\)"),
    ({"values": [[1], [2]]}, r"values has shape \(2, 1\)"),
    ({"keys": [[1, 0], [0, float("nan")]]}, "keys holds nan"),
    ({"score": "general"}, "score is 'general'; it may be 'dot', 'scaled dot', 'cosine', 'distance'"),
    ({"labels": [str(i) for i in range(9)]}, "labels names 9 keys, but at most 8"),
])
def test_errors_name_the_argument(change, message):
    given = {"query": [1, 1], "keys": KEYS, "values": VALUES, "labels": LABELS, **change}
    with pytest.raises(ValueError, match=message):
        WeighView(given.pop("query"), given.pop("keys"), given.pop("values"), **given)
