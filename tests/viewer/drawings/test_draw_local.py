"""The drawing of chapter 05: three lanes over one source, whose weights are those of the package."""


import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attncourse.attention import DotScore, LocalAttention
from attncourse.viewer.drawings.local import (
    HALF_WIDTH,
    PREDICTED,
    SCORES,
    SOURCE,
    TARGET,
    TIME,
    global_and_local,
)


@pytest.fixture
def words() -> list:
    """Every text of the drawing with its box in pixels."""
    figure = global_and_local()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return [(text.get_text(), text.get_window_extent(canvas.renderer)) for text in figure.axes[0].texts]


def lane(words, name: str) -> list[float]:
    """The weights written in one lane, from left to right."""
    [middle] = [box.y0 + box.height / 2 for text, box in words if text == name]
    return [float(text) for text, box in words if text.startswith(".") and box.y0 < middle < box.y1]


@pytest.mark.parametrize(("name", "centre", "half_width", "gaussian"), [
    ("global", 0, len(SOURCE), "none"),
    ("local-m", TIME, HALF_WIDTH, "none"),
    ("local-p", PREDICTED, HALF_WIDTH, "outside"),
])
def test_the_weights_are_those_of_the_package(words, name, centre, half_width, gaussian):
    """A sketch whose numbers do not follow from its scores teaches another mechanism."""
    attention = LocalAttention(DotScore(), half_width=half_width, gaussian=gaussian)
    key = torch.tensor(SCORES)[None, :, None]
    weights = attention(torch.ones(1, 1, 1), key, key, lengths=torch.tensor([len(SOURCE)]),
                        time=torch.tensor([centre])).weights[0, 0]
    assert lane(words, name) == pytest.approx([w for w in weights.tolist() if w], abs=0.0051)


def test_the_sum_and_the_time_are_true(words):
    said = [text for text, _ in words]
    assert any("sums to 0.82" in text for text in said), "the row of local-p, as printed, sums to 0.82"
    assert TARGET.split()[TIME] == "maison" and any("maison" in text and "$t = 6$" in text for text in said)
