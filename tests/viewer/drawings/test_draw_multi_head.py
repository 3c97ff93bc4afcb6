"""One head and several: the steps in their order, the two pictures on one plan, nothing colliding."""

from functools import cache

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attncourse.viewer.drawings.multi_head import one_head, several_heads

ORDER = {
    one_head: ["project", "score", "hide", "context: "],
    several_heads: ["each head", "join", "$W_O$ mixes"],
}


@cache
def drawn(draw) -> tuple[list[tuple[str, object]], object]:
    """Every text of a drawing with its box in pixels, from the top down, and the frame of the picture."""
    figure = draw()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    found = [(text.get_text(), text.get_window_extent(canvas.renderer)) for text in figure.axes[0].texts]
    return sorted(found, key=lambda item: -item[1].y0), figure.bbox


@pytest.mark.parametrize("draw", ORDER)
def test_the_steps_are_listed_in_the_order_in_which_they_are_computed(draw):
    found, _ = drawn(draw)
    steps = [next((t, box) for t, box in found if t.startswith(start)) for start in ORDER[draw]]
    for number, (text, box) in enumerate(steps, start=1):
        beside = [n for n, b in found if b.x1 < box.x0 and b.y0 < box.y1 and b.y1 > box.y0]
        assert beside == [str(number)], f"{text!r} does not stand beside its number, {number}"


@pytest.mark.parametrize("draw", ORDER)
def test_the_numbers_in_the_drawing_rise_with_the_page(draw):
    """The highest text with a number is the one in the drawing; the list stands below it."""
    heights = [next(box.y0 for text, box in drawn(draw)[0] if text == str(number))
               for number in range(1, len(ORDER[draw]) + 1)]
    assert all(low + 20 < high for low, high in zip(heights, heights[1:], strict=False))


def test_keys_and_values_come_from_the_words_that_are_read():
    """In attention between two texts only the query is the reader's own."""
    places = {text: (box.x0 + box.x1) / 2 for text, box in drawn(one_head)[0]}
    assert places["$Q$"] == pytest.approx(places["words that ask"], abs=2)
    assert places["$K$"] < places["words that are read"] < places["$V$"]


def test_the_two_pictures_stand_level():
    """Beside each other they are read across: the words at the same height, and the result too."""
    assert drawn(one_head)[1].bounds == drawn(several_heads)[1].bounds
    for one, other in [("words that ask", "the same words for every head"),
                       ("context of each query", "output for each query")]:
        low, high = (next(box.y0 for text, box in drawn(draw)[0] if text == name)
                     for draw, name in [(one_head, one), (several_heads, other)])
        assert low == pytest.approx(high, abs=3)
