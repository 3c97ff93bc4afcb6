"""AttentionView as HTML: the same bytes every time, nothing escapes, nothing is asked of the network."""

import re

import pytest
import torch

from attncourse.viewer import AttentionView

WEIGHTS = [[0.7, 0.2, 0.1], [0.0, 0.0, 0.0]]
QUERIES, KEYS = ["le", "chat"], ["the", "black", "cat"]


def test_the_same_data_give_the_same_bytes():
    first, second = (AttentionView(WEIGHTS, QUERIES, KEYS)._repr_html_() for _ in range(2))
    assert first == second


def test_other_data_have_another_id():
    views = [AttentionView(WEIGHTS, QUERIES, KEYS, title=title) for title in "ab"]
    assert len({re.search(r'id="(attn-\w+)"', view._repr_html_())[1] for view in views}) == 2


@pytest.mark.parametrize("make", [torch.tensor, lambda w: w, lambda w: torch.tensor(w).half(),
                                  lambda w: torch.tensor(w).requires_grad_()])
def test_lists_and_tensors_of_any_kind_are_taken(data_of, make):
    weights = data_of(AttentionView(make(WEIGHTS), QUERIES, KEYS))["weights"]
    assert torch.tensor(weights) == pytest.approx(torch.tensor([WEIGHTS]), abs=1e-3)


@pytest.mark.parametrize("token", ["<script>alert(1)</script>", "</script><b>", "<!--", '"&', "猫", "\u2028"])
def test_no_token_can_end_the_script_or_become_markup(data_of, token):
    html = AttentionView([[1.0]], [token], [token], title=token)._repr_html_()
    assert data_of(AttentionView([[1.0]], [token], [token]))["queries"] == [token]
    assert html.count("</script>") == 2 and html.count("<script") == 2, "one element of data, one of code"
    assert "<b>" not in html and "<!--" not in html and "\u2028" not in html.split("</script>")[0]


def test_nothing_is_asked_of_the_network():
    html = AttentionView(WEIGHTS, QUERIES, KEYS)._repr_html_()
    addresses = set(re.findall(r"https?://[^\s\"']+", html)) - {"http://www.w3.org/2000/svg"}
    assert not addresses
    assert "@import" not in html and "src=" not in html and "fetch(" not in html


def test_readers_without_scripts_find_a_table():
    html = AttentionView(WEIGHTS, QUERIES, KEYS, title="Le reads the")._repr_html_()
    assert "<caption>Le reads the" in html
    assert '<th scope="row">le</th><td>0.70</td><td>0.20</td><td>0.10</td>' in html


def test_repr_has_no_address():
    assert repr(AttentionView(WEIGHTS, QUERIES, KEYS)) == "AttentionView(1 head, 2 queries, 3 keys)"


def test_scores_keep_their_hidden_places(data_of):
    scores = torch.tensor([[2.0, 1.0, -torch.inf]])
    data = data_of(AttentionView(scores.softmax(-1), ["q"], KEYS, scores=scores))
    assert data["scores"] == [[[2.0, 1.0, None]]]


def test_partial_rows_are_shown_as_such(data_of):
    """Local attention as printed: rows sum to less than 1. To scale them up in silence would hide it."""
    view = AttentionView([[0.5, 0.2, 0.0], [0.0, 0.0, 0.0]], QUERIES, KEYS, partial=True)
    assert data_of(view)["partial"] is True and data_of(view)["weights"] == [[[0.5, 0.2, 0], [0, 0, 0]]]
    html = view._repr_html_()
    assert '<td>0.50</td><td>0.20</td><td>0.00</td><td>0.70</td>' in html, "the table has a column of sums"
    assert data_of(AttentionView(WEIGHTS, QUERIES, KEYS))["partial"] is False


def test_partial_rows_have_their_limits():
    with pytest.raises(ValueError, match=r"'chat' \(1\) sums to 1.2; partial rows sum to at most 1"):
        AttentionView([[0.5, 0.2, 0.0], [0.6, 0.6, 0.0]], QUERIES, KEYS, partial=True)
    with pytest.raises(ValueError, match="scores: with partial=True"):
        AttentionView([[0.5, 0.2, 0.3]], ["le"], KEYS, scores=[[1, 2, 3]], partial=True)


@pytest.mark.parametrize(("arguments", "error", "message"), [
    (([[0.5, 0.5]], QUERIES, KEYS), ValueError, r"shape \(1, 1, 2\), but there are 2 queries and 3 keys"),
    (([0.5, 0.5], ["a"], ["x", "y"]), ValueError, r"it must be \(1, 2\)"),
    (([[0.5, float("nan"), 0.5], [0, 0, 1]], QUERIES, KEYS), ValueError,
     r"nan at query 'le' \(0\), key 'black' \(1\)"),
    (([[1, 0, 0], [0.5, 0.2, 0.2]], QUERIES, KEYS), ValueError, r"'chat' \(1\) sums to 0.9;.*partial=True"),
    (([[1, 0, 0], [1.5, -0.5, 0]], QUERIES, KEYS), ValueError, "a weight is never negative"),
    (([[1.0]], "a", ["x"]), TypeError, "queries must be a list of tokens"),
    (([[1.0]], ["a"], [3]), TypeError, "keys must hold text, given 3"),
    (([[]], ["a"], []), ValueError, "keys is empty"),
])
def test_errors_say_where(arguments, error, message):
    with pytest.raises(error, match=message):
        AttentionView(*arguments)


def test_errors_of_heads_and_scores():
    with pytest.raises(ValueError, match="heads names 1 heads, but weights holds 2"):
        AttentionView(torch.full((2, 1, 2), 0.5), ["a"], ["x", "y"], heads=["only"])
    with pytest.raises(ValueError, match="head 1, query 'a'"):
        AttentionView([[[1.0, 0.0]], [[0.5, 0.1]]], ["a"], ["x", "y"])
    with pytest.raises(ValueError, match="scores: their softmax differs from weights by up to 0.4"):
        AttentionView([[0.9, 0.1]], ["a"], ["x", "y"], scores=[[0.0, 0.0]])
