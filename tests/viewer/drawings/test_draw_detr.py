"""The drawings of chapter 10: the parts in their order, and a matching that is the cheapest one."""


import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg
from scipy.optimize import linear_sum_assignment

from attncourse.viewer.drawings.detr import ANSWERS, COSTS, OBJECTS, PAIRS, QUERIES, bipartite_matching, detr

DRAWINGS = [detr, bipartite_matching]


def texts_of(figure) -> list[tuple]:
    """Every text with its box in pixels, in the order in which it was drawn."""
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    return [(text.get_text(), text.get_window_extent(canvas.renderer)) for text in figure.axes[0].texts]


def test_the_parts_stand_in_the_order_in_which_an_image_passes_them():
    texts = texts_of(detr())
    parts = ("7", "CNN", "+", "encoder", "decoder")
    lefts = [next(b.x0 for text, b in texts if text == name) for name in parts]
    assert lefts == sorted(lefts)
    queries = next(b for text, b in texts if text == "object queries")
    decoder = next(b for text, b in texts if text == "decoder")
    assert queries.y1 < decoder.y0 and queries.x0 < decoder.x1 and queries.x1 > decoder.x0


def test_there_are_as_many_answers_as_queries():
    """An answer for each object would need to know their number beforehand."""
    names = [text for text, _ in texts_of(detr())]
    assert sum(name.startswith("$q_") for name in names) == len(QUERIES) == len(ANSWERS)
    assert sum(name == "no object" for name in names) == 2


@pytest.mark.parametrize(("number", "name"), [
    ("1", "CNN"), ("3", "encoder"), ("4", "decoder"), ("5", "class\n\nbox"),
])
def test_each_part_has_its_number(number, name):
    texts = texts_of(detr())
    badge = max((b for text, b in texts if text == number), key=lambda b: b.y0)
    part = next(b for text, b in texts if text == name)
    assert part.x0 < (badge.x0 + badge.x1) / 2 < part.x1 and badge.y0 > part.y1


def test_the_matching_is_the_cheapest_one():
    """A sketch whose pairs are not the cheapest teaches another loss."""
    queries, objects = linear_sum_assignment(torch.tensor(COSTS).numpy())
    assert dict(zip(queries.tolist(), objects.tolist(), strict=True)) == PAIRS
    total = sum(COSTS[query][column] for query, column in PAIRS.items())
    assert f"{total:.1f}".replace("-", "−") in [text for text, _ in texts_of(bipartite_matching())]


def test_the_thick_lines_join_the_pairs_and_the_dashed_ones_the_rest():
    axes = bipartite_matching().axes[0]
    lines = axes.lines
    assert len(lines) == len(COSTS), "every answer leads somewhere"
    heights = [line.get_ydata()[0] for line in lines]
    ends = [line.get_ydata()[1] for line in lines]
    assert sorted(ends) == sorted(heights), "no two answers lead to the same place"
    for query, line in enumerate(lines):
        assert (line.get_linestyle() == "-") == (query in PAIRS)
        if query in PAIRS:
            assert ends[query] == heights[PAIRS[query]]
        else:
            assert heights.index(ends[query]) >= len(OBJECTS), "what is left over is no object"
