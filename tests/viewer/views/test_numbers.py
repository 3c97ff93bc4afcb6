"""What a page shows are the numbers that were given: each view's data are read back and compared with them.

The given numbers have many digits on purpose: 0.8 and 0.2 survive any rounding.
"""

import base64
import json
import re

import numpy as np
import pytest
import torch

from attncourse import viewer
from attncourse.attention import DotScore, LocalAttention, attend, masked_softmax
from attncourse.viewer import (
    AttentionView,
    DecodingView,
    DetectionView,
    DocumentView,
    HeadsView,
    ImageAttentionView,
    PatchView,
    WeighView,
    WindowView,
)
from attncourse.viewer.views.packed import DIGITS, packed_weights, rounded
from attncourse.viewer.views.weigh.view import SCORES


def drawn(*shape) -> torch.Tensor:
    """Numbers of both signs, from small to large, the same in every run."""
    return 4 * torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=torch.float64)


def weights(*shape) -> torch.Tensor:
    """Rows of weights, most of them small."""
    return drawn(*shape).softmax(-1)


def names(count: int) -> list[str]:
    return [f"w{i}" for i in range(count)]


def unpacked(text: str) -> torch.Tensor:
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), dtype="<u2").astype("float64")) / 65535


IMAGE = torch.linspace(0, 1, 144).view(12, 12)
SCORE, PARTIAL = drawn(2, 5, 7), 0.7 * weights(5, 7)
WORDS, SENTENCES = weights(3, 4), weights(1, 3)[0]
BOXES = drawn(6, 4).abs().cumsum(-1) + torch.tensor([0.0, 0.0, 20.0, 20.0])
ODDS, CELLS, ENCODER, MAPS = weights(6, 4), weights(6, 9), weights(2, 2, 9, 9), weights(2, 3, 10, 10)
STEPS = weights(3, 5)
PLANE = drawn(3, 5, 2)

VIEWS = {
    "attention": AttentionView(SCORE.softmax(-1), names(5), names(7), scores=SCORE),
    "partial": AttentionView(PARTIAL, names(5), names(7), partial=True),
    "heads": HeadsView({"one": (weights(2, 3, 5, 7), names(5), names(7))}),
    "window": WindowView(SCORE[0, 0], names(7), centre=2.4, half_width=2),
    "image": ImageAttentionView(IMAGE, names(4), {"a": weights(4, 9), "b": weights(4, 16)}),
    "document": DocumentView([names(4)] * 3, WORDS, SENTENCES),
    "decoding": DecodingView(names(7), [
        ([*zip(names(5), odds.tolist(), strict=True)], "w0", weights(1, 7)[0], weights(1, step + 1)[0])
        for step, odds in enumerate(STEPS)
    ]),
    "detection": DetectionView(IMAGE, BOXES, names(3), ODDS, CELLS.view(6, 3, 3), encoder_weights=ENCODER,
                               true_boxes=BOXES[:2], true_labels=[0, 1]),
    "patch": PatchView(IMAGE, MAPS),
    "weigh": WeighView(PLANE[0, 0], PLANE[1], PLANE[2], labels=names(5)),
}


def data_of(name: str) -> dict:
    found = re.search(r'<script type="application/json">(.*?)</script>', VIEWS[name]._repr_html_(), re.S)
    return json.loads(found[1])


def table_of(name: str) -> list[list[str]]:
    """The cells of the table that readers without scripts find."""
    rows = re.findall(r'<tr><th scope="row">.*?</tr>', VIEWS[name]._repr_html_())
    return [re.findall(r"<td>(.*?)</td>", row) for row in rows]


def by_word(candidates: list) -> list[float]:
    return [probability for _, probability in sorted(candidates)]


# What each page writes in digits: where it stands in the data, and what was given.
WRITTEN = {
    "attention, weights": ("attention", lambda d: d["weights"], SCORE.softmax(-1)),
    "attention, scores": ("attention", lambda d: d["scores"], SCORE),
    "partial rows": ("partial", lambda d: d["weights"][0], PARTIAL),
    "heads": ("heads", lambda d: d["relations"][0]["weights"], weights(2, 3, 5, 7)),
    "window": ("window", lambda d: d["scores"], SCORE[0, 0]),
    "image": ("image", lambda d: d["systems"][0]["weights"], weights(4, 9)),
    "image, second system": ("image", lambda d: d["systems"][1]["weights"], weights(4, 16)),
    "document, words": ("document", lambda d: d["wordWeights"], WORDS),
    "document, sentences": ("document", lambda d: d["sentenceWeights"], SENTENCES),
    "decoding, candidates": ("decoding", lambda d: [by_word(s["candidates"]) for s in d["steps"]], STEPS),
    "decoding, source": ("decoding", lambda d: [s["source"] for s in d["steps"]], weights(1, 7).expand(3, 7)),
    "decoding, target": ("decoding", lambda d: d["steps"][2]["target"], weights(1, 3)[0]),
    "detection, boxes": ("detection", lambda d: d["boxes"], BOXES),
    "detection, true boxes": ("detection", lambda d: d["trueBoxes"], BOXES[:2]),
    "detection, probabilities": ("detection", lambda d: d["probabilities"], ODDS),
    "weigh, query": ("weigh", lambda d: d["query"], PLANE[0, 0]),
    "weigh, keys": ("weigh", lambda d: d["keys"], PLANE[1]),
    "weigh, values": ("weigh", lambda d: d["values"], PLANE[2]),
}
# And what travels as bytes.
PACKED = {
    "detection, queries": ("detection", lambda d: d["maps"][0]["weights"], CELLS),
    "detection, encoder": ("detection", lambda d: d["encoder"]["weights"], ENCODER),
    "patch": ("patch", lambda d: d["weights"], MAPS),
}


def test_no_view_is_forgotten():
    """A new view joins by its numbers above, or it may round as it likes."""
    known = {name for name in viewer.__all__ if name.endswith("View")}
    assert {type(view).__name__ for view in VIEWS.values()} == known
    assert {place for place, *_ in [*WRITTEN.values(), *PACKED.values()]} == set(VIEWS)


@pytest.mark.parametrize(("view", "find", "given"), WRITTEN.values(), ids=WRITTEN)
def test_what_a_page_writes_are_the_given_numbers(view, find, given):
    """Four significant digits, and above 1 four decimals: with fewer the page shows numbers of its own."""
    found = torch.tensor(find(data_of(view)), dtype=torch.float64)
    assert found.shape == given.shape
    half_a_step = torch.where(given.abs() < 1, 5.01e-4 * given.abs(), torch.full_like(given, 5.01e-5))
    worst = ((found - given).abs() / half_a_step).max().item()
    assert worst <= 1, f"a number is off by {worst:.1f} times half of its fourth digit: who rounded it more?"


@pytest.mark.parametrize(("view", "find", "given"), PACKED.values(), ids=PACKED)
def test_what_a_page_carries_as_bytes_are_the_given_numbers(view, find, given):
    found = unpacked(find(data_of(view))).view_as(given)
    assert (found - given).abs().max() <= 0.51 / 65535, "a weight is off by more than half a step of 16 bits"


# The table for readers without scripts: which cells, and the numbers that they show with two decimals.
NUMBER = re.compile(r"(?<![\w.])-?\d+\.\d+")
TABLES = {
    "attention": [*SCORE.softmax(-1)[0]],
    "partial": [torch.cat([row, row.sum()[None]]) for row in PARTIAL],
    "heads": [*weights(2, 3, 5, 7)[0, 0]],
    "document": [torch.cat([s[None], row]) for s, row in zip(SENTENCES, WORDS, strict=True)],
    "decoding": [torch.stack([odds[0], weights(1, 7).max()]) for odds in STEPS],
    "image": [torch.cat([a.sort(descending=True).values[:3], b.sort(descending=True).values[:3]])
              for a, b in zip(weights(4, 9), weights(4, 16), strict=True)],
    "patch": [row.sort(descending=True).values[:3] for row in MAPS[-1].mean(0)],
}


@pytest.mark.parametrize("view", TABLES)
def test_the_table_shows_the_given_numbers_with_two_decimals(view):
    rows = [NUMBER.findall(" ".join(cells)) for cells in table_of(view)]
    assert len(rows) == len(TABLES[view])
    for shown, given in zip(rows, TABLES[view], strict=True):
        expected = [f"{number:.2f}" for number in given.tolist()]
        if view == "image":  # a cell that was hardly looked at is not named
            expected = [number for number in expected if float(number) > 0]
        assert shown == expected


def test_the_table_of_a_detector_shows_its_scores_and_boxes():
    scores, order = ODDS[:, :-1].max(-1).values.sort(descending=True)
    sure = [query for score, query in zip(scores.tolist(), order.tolist(), strict=True) if score >= 0.5]
    assert sure, "the example has no query to show"
    expected = [[f"{ODDS[q, :-1].max():.2f}", *[f"{BOXES[q, i]:.1f}" for i in (0, 2, 1, 3)]] for q in sure]
    assert [NUMBER.findall(" ".join(cells)) for cells in table_of("detection")] == expected


# ---- what the page computes from its data, in node ----


def shown(found, expected, most=0.0025):
    """Within a quarter of the second decimal, which is what the views show."""
    found = torch.tensor(found, dtype=torch.float64)
    apart = (found - expected).abs().max().item()
    assert apart <= most, f"the page shows {apart:.2g} beside what the package computes"


@pytest.mark.parametrize("temperature", [0.125, 0.5, 2.0, 8.0])
@pytest.mark.parametrize("view", ["attention", "heads"])
def test_the_temperature_shows_what_torch_computes(in_node, view, temperature):
    """At 1/8 an error in a weight counts eight times."""
    expected = weights(2, 3, 5, 7) if view == "heads" else SCORE.softmax(-1)
    data = data_of(view)
    rows = data["weights"] if view == "attention" else data["relations"][0]["weights"]
    found = in_node("rows.flat(depth).map((row) => attentionMath.atTemperature(row, temperature))",
                    rows=rows, depth=expected.ndim - 2, temperature=temperature)
    shown(found, (expected.log() / temperature).softmax(-1).flatten(0, -2))
    if view == "attention":
        from_scores = in_node("scores.flat().map((row) => attentionMath.softmax(row, temperature))",
                              scores=data["scores"], temperature=temperature)
        shown(from_scores, (SCORE / temperature).softmax(-1).flatten(0, 1))


@pytest.mark.parametrize("gaussian", ["none", "outside", "inside"])
def test_the_window_shows_what_the_package_computes(in_node, gaussian):
    data = data_of("window")
    attention = LocalAttention(DotScore(), half_width=2, gaussian=gaussian)
    key = SCORE[0, 0][None, :, None]
    expected = attention(key.new_ones(1, 1, 1), key, key, lengths=torch.tensor([7]),
                         time=torch.tensor([2.4], dtype=torch.float64)).weights[0, 0]
    shown(in_node("attentionMath.local(data.scores, data.centre, data.halfWidth, gaussian)", data=data,
                  gaussian=gaussian), expected)
    shown(in_node("attentionMath.softmax(data.scores)", data=data), masked_softmax(SCORE[0, 0]))


@pytest.mark.parametrize("kind", SCORES)
def test_the_plane_shows_what_the_package_computes(in_node, kind):
    query, keys, values = PLANE[0, :1], PLANE[1], PLANE[2]
    context, expected = attend(query, keys, values, score=SCORES[kind])
    scores = "data.keys.map((key) => attentionMath.scores[kind](data.query, key))"
    data = data_of("weigh")
    shown(in_node(scores, data=data, kind=kind), SCORES[kind](query, keys)[0])
    shown(in_node(f"attentionMath.softmax({scores})", data=data, kind=kind), expected[0])
    shown(in_node(f"attentionMath.weigh(attentionMath.softmax({scores}), data.values)", data=data, kind=kind),
          context[0])


def test_bytes_are_unpacked_as_they_were_packed(in_node):
    found = in_node("Array.from(unpacked(text))", scripts=("patch/view.js",), text=packed_weights(MAPS))
    shown(found, MAPS.flatten(), most=0.51 / 65535)


# ---- the rounding itself ----


def test_four_digits_below_one_and_four_decimals_above():
    given = torch.tensor([0.123456, 0.00001234567, 123.456789, -7.654321], dtype=torch.float64)
    assert rounded(given) == [0.1235, 1.235e-05, 123.4568, -7.6543] and DIGITS == 4
    assert rounded(0.123456) == 0.1235


def test_whole_numbers_and_hidden_scores_are_written_short():
    text = json.dumps(rounded(torch.tensor([[0.0, 1.0], [-torch.inf, 2.00001]])))
    assert text == "[[0, 1], [null, 2]]"


def test_nothing_that_was_seen_becomes_hidden():
    """A weight that is rounded to 0 counts as hidden, and no temperature brings it back."""
    assert rounded(torch.tensor([1e-30], dtype=torch.float64)) == [1e-30]
