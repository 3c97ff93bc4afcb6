"""The two systems on one plan: each in its own order, what is shared in the same place, nothing colliding."""

from functools import cache

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attncourse.viewer.drawings.luong import bahdanau_step, luong_step

ORDER = {
    bahdanau_step: ["score: the old", "softmax", "context", "new state", "word"],
    luong_step: ["new state", "score: the new", "softmax", "context", "attentional state", "word"],
}


@cache
def drawn(draw) -> tuple[list[tuple[str, object]], object]:
    """Every text of a drawing with its box in pixels, from the top down, and the frame of the picture."""
    figure = draw()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    found = [(text.get_text(), text.get_window_extent(canvas.renderer)) for text in figure.axes[0].texts]
    return sorted(found, key=lambda item: -item[1].y0), figure.bbox


def place(draw, name: str):
    """The middle of the highest text that is exactly this."""
    box = next(box for text, box in drawn(draw)[0] if text == name)
    return (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2


@pytest.mark.parametrize("draw", ORDER)
def test_the_steps_are_listed_in_the_order_in_which_they_are_computed(draw):
    """Luong's score reads the new state, so the state comes first; Bahdanau's reads the old one."""
    found, _ = drawn(draw)
    steps = [next((t, box) for t, box in found if t.startswith(start)) for start in ORDER[draw]]
    for number, (text, box) in enumerate(steps, start=1):
        beside = [n for n, b in found if b.x1 < box.x0 and b.y0 < box.y1 and b.y1 > box.y0]
        assert beside == [str(number)], f"{text!r} does not stand beside its number, {number}"


@pytest.mark.parametrize("draw", ORDER)
def test_the_numbers_in_the_drawing_rise_with_the_page(draw):
    heights = [place(draw, str(number))[1] for number in range(1, len(ORDER[draw]) + 1)]
    assert all(low <= high + 1 for low, high in zip(heights, heights[1:], strict=False))


def test_what_both_do_stands_in_the_same_place():
    """Laid beside each other, only what differs may differ, and it stands at the joint."""
    assert drawn(bahdanau_step)[1].bounds == drawn(luong_step)[1].bounds
    for name, twin in [("$c_3$", "$c_3$"), ("noir", "noir"), ("chat", "chat"), ("black", "black"),
                       (r"$\alpha_{32}$", "$a_{32}$"), ("$s_3$", r"$\tilde{h}_3$"), ("$s_2$", "$h_2$")]:
        one, other = place(bahdanau_step, name), place(luong_step, twin)
        assert one == pytest.approx(other, abs=4), f"{name} and {twin} moved apart"
