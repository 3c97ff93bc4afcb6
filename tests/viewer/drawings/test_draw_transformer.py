"""Encoder and decoder on one plan: sub-layers in order, the arrow between them level, nothing colliding."""

from functools import cache

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attncourse.viewer.drawings.transformer import decoder, encoder

INSIDE, MASKED = "multi-head attention\ninside the source", "multi-head attention\ninside the target, masked"
BETWEEN, FEED = "multi-head attention\nbetween the two", "feed-forward network"
UPWARD = {
    encoder: ["the   black   cat", r"embedding $\times \sqrt{d}$", INSIDE, FEED, "one vector for each word"],
    decoder: ["<s>   le   chat", r"embedding $\times \sqrt{d}$", MASKED, BETWEEN, FEED, "linear, softmax",
              "le   chat   noir"],
}


@cache
def drawn(draw):
    """Every text with its box in pixels, the frame of the picture, and its patches."""
    figure = draw()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    found = [(text.get_text(), text.get_window_extent(canvas.renderer)) for text in figure.axes[0].texts]
    return found, figure.bbox, [patch.get_window_extent() for patch in figure.axes[0].patches]


def box(draw, name: str):
    return next(box for text, box in drawn(draw)[0] if text == name)


@pytest.mark.parametrize("draw", UPWARD)
def test_the_parts_stand_in_the_order_in_which_the_paper_has_them(draw):
    heights = [box(draw, name).y0 for name in UPWARD[draw]]
    assert heights == sorted(heights)


@pytest.mark.parametrize(("draw", "sublayers"), [(encoder, 2), (decoder, 3)])
def test_a_norm_follows_every_sub_layer(draw, sublayers):
    """Post-norm, as published: add, then normalise, after the sub-layer and not before it."""
    norms = sorted(box.y0 for text, box in drawn(draw)[0] if text == "add, norm")
    parts = [name for name in UPWARD[draw] if name in (INSIDE, MASKED, BETWEEN, FEED)]
    assert len(norms) == len(parts) == sublayers
    order = sorted([*norms, *(box(draw, name).y0 for name in parts)])
    assert order[1::2] == norms


def test_the_arrow_leaves_where_it_enters():
    """Side by side, what the encoder made goes straight into the attention between the two."""
    assert drawn(encoder)[1].bounds == drawn(decoder)[1].bounds
    for name in (r"embedding $\times \sqrt{d}$", "position", "+"):
        assert box(encoder, name).y0 == pytest.approx(box(decoder, name).y0, abs=1), f"{name} moved apart"
    reads, leaves = box(decoder, BETWEEN), box(encoder, FEED)
    assert (reads.y0 + reads.y1) / 2 == pytest.approx((leaves.y0 + leaves.y1) / 2, abs=1)


@pytest.mark.parametrize(("number", "draw", "name", "note"), [
    ("1", encoder, INSIDE, "inside the source: "), ("2", decoder, MASKED, "inside the target: "),
    ("3", decoder, BETWEEN, "between the two: "),
])
def test_each_attention_has_its_number_and_its_note(number, draw, name, note):
    in_drawing, in_notes = sorted((b for text, b in drawn(draw)[0] if text == number), key=lambda b: -b.y0)
    assert abs(in_drawing.y0 - box(draw, name).y1) < 25, "the number is not at the box it names"
    noted = next(b for text, b in drawn(draw)[0] if text.startswith(note))
    assert in_notes.x1 < noted.x0 and in_notes.y0 < noted.y1 and in_notes.y1 > noted.y0


@pytest.mark.parametrize("draw", UPWARD)
def test_the_words_of_a_box_stay_inside_it(draw):
    for name in [*UPWARD[draw][1:-1], "add, norm"]:
        text = box(draw, name)
        around = [p for p in drawn(draw)[2] if p.y0 < text.y0 < text.y1 < p.y1 and p.overlaps(text)]
        own = min(around, key=lambda p: p.width * p.height)  # the layer's bed lies around it too
        assert own.x0 + 2 < text.x0 and text.x1 < own.x1 - 2, f"{name!r} runs over its box"
