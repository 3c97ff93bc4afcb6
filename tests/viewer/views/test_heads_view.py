"""HeadsView as HTML: every head arrives in its place, a page stays small, errors name relation and layer."""

import re

import pytest
import torch

from attncourse.viewer import HeadMaps, HeadsView
from attncourse.viewer.views.heads.view import MOST

SOURCE, TARGET = ["the", "black", "cat"], ["<s>", "le"]


def weights(layers=2, heads=3, queries=3, keys=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(layers, heads, queries, keys, generator=generator).softmax(-1)


INSIDE, BETWEEN = weights(), weights(queries=2)
VIEW = HeadsView({
    "inside the source": HeadMaps(INSIDE, SOURCE, SOURCE, {(0, 1): "previous word"}),
    "between the two": (BETWEEN, TARGET, SOURCE),
}, title="Six heads")


def test_every_head_arrives_in_its_place(data_of):
    """Layers and heads exchanged, or one transposed, would show a map under another head's name."""
    inside, between = data_of(VIEW)["relations"]
    assert torch.tensor(inside["weights"]) == pytest.approx(INSIDE, rel=5e-4)
    assert torch.tensor(between["weights"]) == pytest.approx(BETWEEN, rel=5e-4)
    assert (between["queries"], between["keys"]) == (TARGET, SOURCE), "the target asks, the source is read"
    assert inside["names"] == [{"layer": 0, "head": 1, "name": "previous word"}] and between["names"] == []


def test_small_weights_stay_above_zero(data_of):
    """Rounded to 0 a weight would count as hidden, and no temperature could bring it back."""
    small = torch.tensor([1 - 3.14159e-5, 3.14159e-5, 0.0]).expand(1, 1, 1, 3)
    [one] = data_of(HeadsView({"one": (small, ["a"], SOURCE)}))["relations"]
    assert one["weights"] == [[[[1, 3.142e-5, 0]]]]


def test_one_relation_alone_is_enough(data_of):
    view = HeadsView({"inside the sentence": (INSIDE, SOURCE, SOURCE)})
    assert len(data_of(view)["relations"]) == 1
    assert repr(view) == "HeadsView(inside the sentence: 2 layers of 3 heads)"


@pytest.mark.parametrize("make", [torch.Tensor.tolist, torch.Tensor.half, torch.Tensor.requires_grad_])
def test_lists_and_tensors_of_any_kind_are_taken(data_of, make):
    found = data_of(HeadsView({"one": (make(weights()), SOURCE, SOURCE)}))["relations"][0]["weights"]
    assert torch.tensor(found) == pytest.approx(INSIDE, abs=1e-3)


def test_the_same_data_give_the_same_bytes():
    again = HeadsView({name: tuple(given) for name, given in VIEW.maps.items()}, title=VIEW.title)
    assert VIEW._repr_html_() == again._repr_html_()


def test_the_attention_view_comes_along_and_stays_what_it_is():
    """The chosen head is shown by the script of AttentionView; a copy of it would drift away."""
    html = VIEW._repr_html_()
    assert html.count("function attentionView(data)") == 1 and html.count("function headsView(data)") == 1
    assert 'start("heads_view",' in html and 'start("attention_view",' not in html


def test_the_largest_view_stays_below_a_megabyte_and_a_half():
    """12 layers of 12 heads over 31 words, and every number as long as four digits can be."""
    words = ["word"] * 31
    many = torch.full((12, 12, 31, 31), 1.234e-5)
    many[..., 0] = 1 - many[..., 1:].sum(-1)
    assert 0.95 * MOST < many.numel() <= MOST
    assert len(HeadsView({"one": (many, words, words)})._repr_html_().encode()) < 1_500_000
    with pytest.raises(ValueError, match="maps holds 276,768 weights, but a page carries at most 140,000"):
        HeadsView({"one": (many, words, words), "two": (many, words, words)})


def test_readers_without_scripts_find_the_first_head_and_a_sentence():
    html = VIEW._repr_html_()
    assert "<caption>Six heads (inside the source: layer 1, head 1)" in html
    row = "".join(f"<td>{weight:.2f}</td>" for weight in INSIDE[0, 0, 1].tolist())
    assert f'<th scope="row">black</th>{row}' in html
    assert "<p>One of 6 heads, 3 in each of 2 layers." in html


def test_nothing_is_asked_of_the_network_and_nothing_becomes_markup():
    bad = "</script><b>"
    one = weights(1, 1, 1, 1)
    html = HeadsView({bad: HeadMaps(one, [bad], [bad], {(0, 0): bad})}, title=bad)._repr_html_()
    assert set(re.findall(r"https?://[^\s\"'`]+", html)) == {"http://www.w3.org/2000/svg"}
    assert "<b>" not in html and html.count("<script") == 2
    assert "src=" not in html and "fetch(" not in html and "@import" not in html


@pytest.mark.parametrize(("maps", "error", "message"), [
    ((INSIDE, SOURCE, SOURCE), TypeError, "maps must name each relation"),
    ({}, ValueError, "maps is empty"),
    ({"one": INSIDE}, TypeError, r"maps\['one'\] must be HeadMaps, or .* given Tensor"),
    ({"one": (INSIDE[0], SOURCE, SOURCE)}, ValueError,
     r"maps\['one'\]: weights has shape \(3, 3, 3\); it must be \(layers, heads, queries, keys\)"),
    ({"one": (INSIDE, TARGET, SOURCE)}, ValueError, r"maps\['one'\], layer 0: .* 2 queries and 3 keys"),
    ({"one": (INSIDE.log(), SOURCE, SOURCE)}, ValueError, r"maps\['one'\], layer 0: .* before the softmax"),
    ({"one": (INSIDE, "the", SOURCE)}, TypeError, "queries must be a list of tokens"),
    ({"one": (INSIDE, SOURCE, SOURCE, {(2, 0): "x"})}, ValueError,
     r"maps\['one'\]: names holds \(2, 0\), but there are 2 layers of 3 heads"),
])
def test_errors_say_where(maps, error, message):
    with pytest.raises(error, match=message):
        HeadsView(maps)
