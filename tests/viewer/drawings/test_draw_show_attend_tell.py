"""The pictures of chapter 03: the order is right, everything is inside, and no words collide."""


import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attncourse.viewer.drawings.show_attend_tell import ALPHA, READ, show_attend_tell_step


def boxes_of(figure) -> tuple[list, object]:
    """Every text of the drawing with its box in pixels, and the frame."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return [(t.get_text(), t.get_window_extent(canvas.renderer)) for t in figure.axes[0].texts], figure.bbox


def test_the_steps_stand_in_the_order_in_which_they_are_computed():
    """Where the place is chosen before it is scored, or the word before the state, another model is drawn."""
    words, _ = boxes_of(show_attend_tell_step())
    meaning = {"1": "score $h_{t-1}$", "2": "read", "3": "gate", "4": "LSTM", "5": "word, from"}
    heights = [next(box.y0 for text, box in words if text == number) for number in meaning]
    assert heights == sorted(heights), "the numbers must rise with the page"
    for number, start in meaning.items():
        label = next(box for text, box in words if text.startswith(start))
        mark = next(box for text, box in words if text == number)
        level = label.y0 < mark.y1 and label.y1 > mark.y0
        assert label.x0 > mark.x1 and level, f"{start!r} is not beside {number}"


def test_the_weights_of_the_sketch_are_weights():
    assert sum(ALPHA.values()) == pytest.approx(1) and max(ALPHA, key=ALPHA.get) == READ
