"""DecodingView as HTML, the table it leaves to readers without scripts, and what it refuses."""

import re

import pytest
import torch

from attncourse.viewer import DecodingStep, DecodingView

SOURCE = ["the", "cat", "sleeps"]
STEPS = [
    DecodingStep([("le", 0.7), ("un", 0.2)], "le", torch.tensor([0.8, 0.1, 0.1]), torch.tensor([1.0])),
    DecodingStep([("chien", 0.3), ("chat", 0.6)], "chat", [0.1, 0.9, 0.0], [0.4, 0.6]),
    DecodingStep([("</s>", 1.0)], "</s>", [0.0, 0.0, 0.0]),
]
VIEW = DecodingView(SOURCE, STEPS, title="Word by word")


def test_each_chosen_word_goes_in_at_the_next_step(data_of):
    """Shifted by one, the view would say that a word is read before it is written."""
    assert data_of(VIEW)["target"] == ["<s>", "le", "chat", "</s>"]
    assert data_of(DecodingView(SOURCE, STEPS[:1], start="[start]"))["target"] == ["[start]", "le"]


def test_the_candidates_are_ordered_and_the_weights_are_those_given(data_of):
    first, second, third = data_of(VIEW)["steps"]
    assert second["candidates"] == [["chat", 0.6], ["chien", 0.3]]
    assert first["source"] == pytest.approx([0.8, 0.1, 0.1]) and second["target"] == [0.4, 0.6]
    assert third["target"] is None and third["source"] == [0, 0, 0]


def test_plain_tuples_are_steps_too():
    plain = DecodingView(SOURCE, [tuple(step) for step in STEPS], title="Word by word")
    assert plain._repr_html_() == VIEW._repr_html_()


def test_repr_has_no_address():
    assert repr(VIEW) == "DecodingView(3 source words, 3 steps)"


def test_readers_without_scripts_find_a_table():
    html = VIEW._repr_html_()
    assert "<caption>Word by word</caption>" in html
    assert '<th scope="row">2</th><td>chat</td><td>0.60</td><td>cat (0.90)</td>' in html
    assert '<th scope="row">3</th><td>&lt;/s&gt;</td><td>1.00</td><td>nothing</td>' in html


def test_nothing_is_asked_of_the_network_and_no_word_becomes_markup():
    bad = "</script><b>"
    html = DecodingView([bad], [([(bad, 1.0)], bad, [1.0])], start=bad, title=bad)._repr_html_()
    assert set(re.findall(r"https?://[^\s\"'`]+", html)) == {"http://www.w3.org/2000/svg"}
    assert "<b>" not in html and html.count("<script") == 2
    assert "src=" not in html and "fetch(" not in html and "@import" not in html


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"candidates": [("le", 1.5)]}, ValueError, r"steps\[0\]: the probability of 'le' is 1.5"),
    ({"candidates": [("le", float("nan"))]}, ValueError, "the probability of 'le' is nan"),
    ({"candidates": [("le", 0.7), ("un", 0.7)]}, ValueError, r"steps\[0\]: the probabilities sum to 1.4"),
    ({"candidates": []}, ValueError, r"steps\[0\]: candidates is empty"),
    ({"candidates": [(3, 1.0)]}, TypeError, r"steps\[0\]: candidates must hold text, given 3"),
    ({"chosen": "la"}, ValueError, r"chosen is 'la'; it must be one of the candidates, \['le', 'un'\]"),
    ({"source_weights": [0.5, 0.5]}, ValueError, r"steps\[0\]: source_weights: .* 1 queries and 3 keys"),
    ({"source_weights": [2.0, -1.0, 0.0]}, ValueError, r"steps\[0\]: source_weights: .* never negative"),
    ({"target_weights": [0.5, 0.5]}, ValueError, r"steps\[0\]: target_weights: .* 1 queries and 1 keys"),
])
def test_errors_name_the_step_and_the_argument(change, error, message):
    with pytest.raises(error, match=message):
        DecodingView(SOURCE, [STEPS[0]._replace(**change)])


def test_a_view_without_steps_is_refused():
    with pytest.raises(ValueError, match="steps is empty"):
        DecodingView(SOURCE, [])
