"""The picture of one decoding step: the order is right, everything is inside, and no words collide."""


import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attncourse.viewer.drawings.rnnsearch import rnnsearch_step


@pytest.fixture
def words() -> dict:
    """Every text of the drawing with its box in pixels."""
    figure = rnnsearch_step()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    found = {text.get_text(): text.get_window_extent(canvas.renderer) for text in figure.axes[0].texts}
    return found | {"": figure.bbox}


def test_the_steps_stand_in_the_order_in_which_they_are_computed(words):
    """The score reads the previous state, so it comes first: the usual slip is to score with the new one."""
    meaning = {"1": "score $s_2$", "2": "softmax", "3": "context", "4": "new state", "5": "word, from"}
    heights = [words[number].y0 for number in meaning]
    assert heights == sorted(heights), "the numbers must rise with the page"
    for number, start in meaning.items():
        label = next(box for text, box in words.items() if text.startswith(start))
        assert label.x0 > words[number].x1 and label.y0 < words[number].y1 and label.y1 > words[number].y0, (
            f"{start!r} does not stand beside its number, {number}"
        )
