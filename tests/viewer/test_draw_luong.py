"""The two systems on one plan: each in its own order, what is shared in the same place, nothing colliding."""

from itertools import combinations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attncourse.viewer.draw_luong import bahdanau_step, luong_step
from attncourse.viewer.plots import figure_html

ORDER = {
    bahdanau_step: ["score: the old state $s_2$", "softmax", "context", "new state", "word"],
    luong_step: ["new state", "score: the new state $h_3$", "softmax", "context", "attentional state", "word"],
}


def texts(figure) -> list[tuple[str, object]]:
    """Every text of the drawing with its box in pixels, from the top of the page to the bottom."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    found = [(text.get_text(), text.get_window_extent(canvas.renderer)) for text in figure.axes[0].texts]
    return sorted(found, key=lambda item: -item[1].y0)


def place(figure, name: str):
    """The middle of the highest text that is exactly this."""
    box = next(box for text, box in texts(figure) if text == name)
    return (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2


@pytest.mark.parametrize("draw", ORDER)
def test_the_steps_are_listed_in_the_order_in_which_they_are_computed(draw):
    """Luong's score reads the new state, so the state comes first; Bahdanau's reads the old one."""
    found = texts(draw())
    lines = [(text, box) for text, box in found if any(text.startswith(start) for start in ORDER[draw])]
    lines = [(text, box) for text, box in lines if text != "score"]  # the boxes of the drawing
    assert [text.startswith(start) for (text, _), start in zip(lines, ORDER[draw], strict=True)] == [True] * len(lines)
    for number, (text, box) in enumerate(lines, start=1):
        beside = [n for n, b in found if b.x1 < box.x0 and b.y0 < box.y1 and b.y1 > box.y0]
        assert beside == [str(number)], f"{text!r} does not stand beside its number, {number}"


@pytest.mark.parametrize("draw", ORDER)
def test_the_numbers_in_the_drawing_rise_with_the_page(draw):
    figure = draw()
    heights = [place(figure, str(number))[1] for number in range(1, len(ORDER[draw]) + 1)]
    assert all(low <= high + 1 for low, high in zip(heights, heights[1:], strict=False))


def test_what_both_do_stands_in_the_same_place():
    """Laid beside each other, only what differs may differ: the context, the words, who stands at the join."""
    one, other = bahdanau_step(), luong_step()
    assert (one.get_size_inches() == other.get_size_inches()).all()
    for name, twin in [("$c_3$", "$c_3$"), ("noir", "noir"), ("chat", "chat"), ("black", "black"),
                       (r"$\alpha_{32}$", "$a_{32}$"), ("$s_3$", r"$\tilde{h}_3$"), ("$s_2$", "$h_2$")]:
        assert place(one, name) == pytest.approx(place(other, twin), abs=4), f"{name} and {twin} moved apart"


@pytest.mark.parametrize("draw", ORDER)
def test_nothing_collides_and_nothing_leaves_the_picture(draw):
    figure = draw()
    found, frame = texts(figure), figure.bbox
    for text, box in found:
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1, f"{text!r} is cut off at a side"
        assert frame.y0 <= box.y0 and box.y1 <= frame.y1, f"{text!r} is cut off above or below"
    for (first, a), (second, b) in combinations(found, 2):
        assert not a.overlaps(b), f"{first!r} and {second!r} overlap"


@pytest.mark.parametrize("draw", ORDER)
def test_drawn_twice_the_bytes_are_equal(draw):
    first = figure_html(draw(), "One step")
    assert first == figure_html(draw(), "One step")
    assert len(first) < 250_000
