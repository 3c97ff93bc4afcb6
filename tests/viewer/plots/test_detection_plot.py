"""The printed boxes: each at its place with its label, true ones dashed; each query's marks in its panel."""

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attncourse.viewer import BoxedPanel, draw_boxes, query_boxes
from attncourse.viewer.plots.detection import FOUND, KINDS, TRUE
from attncourse.viewer.plots.figure import figure_html
from attncourse.viewer.style import luminance

IMAGE = torch.linspace(0, 1, 200).view(10, 20)
BOXES, TRUE_BOXES = [[2, 1, 6, 8], [0, 15, 3, 21]], [[2, 2, 6, 9]]
PANEL = BoxedPanel(IMAGE, BOXES, ["cat", "dog"], [0.9, 0.553], TRUE_BOXES, "two found")


def one():
    return draw_boxes([PANEL], title="Two are found")


def several():
    return draw_boxes([PANEL] * 5, title="Five times the same, to see how panels are laid out", across=3)


def queries():
    boxes = torch.rand(30, 8, 4, generator=torch.Generator().manual_seed(0))
    return query_boxes(boxes, title="Eight queries", across=5)


def test_a_box_stands_where_it_was_given():
    """Rows taken for columns, or a corner for a size: the box lies elsewhere."""
    true, *found = one().axes[0].patches
    assert true.get_bbox().extents.tolist() == [2, 2, 9, 6], "x is the column: (top, left, bottom, right)"
    assert [box.get_bbox().extents.tolist() for box in found] == [[1, 2, 8, 6], [15, 0, 21, 3]]
    assert one().axes[0].get_ylim() == (10, 0), "row 0 is the top one"


def test_true_boxes_are_dashed_and_found_ones_are_not():
    true, *found = one().axes[0].patches
    assert true.get_linestyle() not in ("-", "solid")
    assert all(box.get_linestyle() in ("-", "solid") for box in found)
    assert all(box.get_path_effects() for box in (true, *found)), "without dark edges they fade on white"
    assert min(luminance(style["color"]) for style in (FOUND, TRUE)) > 0.3, "nor may they fade on black"


def test_each_label_has_class_and_score_and_stays_on_the_sheet():
    figure = one()
    assert [text.get_text() for text in figure.axes[0].texts] == ["cat: 0.90", "dog: 0.55"]
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for text in figure.axes[0].texts:
        label, frame = text.get_window_extent(canvas.renderer), figure.axes[0].bbox
        assert frame.x0 - 1 <= label.x0 and label.x1 <= frame.x1 + 1, f"{text.get_text()} sticks out"
        assert label.y1 <= frame.y1 + 2, f"{text.get_text()} runs into the caption"


@pytest.mark.parametrize(("draw", "panels"), [(one, 1), (several, 5), (queries, 8)])
def test_no_panel_meets_another_and_none_leaves_the_sheet(draw, panels):
    figure = draw()
    assert len(figure.axes) == panels
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    places = [axes.get_tightbbox(canvas.renderer) for axes in figure.axes]
    title, legend = figure.texts[0].get_window_extent(canvas.renderer), figure.legends[0].get_window_extent()
    for i, place in enumerate(places):
        assert figure.bbox.x0 - 1 <= place.x0 and place.x1 <= figure.bbox.x1 + 1
        assert not place.overlaps(title) and not place.overlaps(legend)
        assert not any(place.overlaps(other) for other in places[i + 1 :])
    assert title.x1 <= figure.bbox.x1, "a long title is broken"
    assert legend.y0 >= 0


def test_the_marks_of_a_query_are_its_boxes_by_kind():
    """Images and queries exchanged would show every query everywhere; width for height turns the marks."""
    boxes = torch.tensor([
        [0.1, 0.2, 0.3, 0.1], [0.6, 0.7, 0.2, 0.4], [0.5, 0.5, 0.1, 0.1], [0.9, 0.1, 0.05, 0.1],
    ])
    figure = query_boxes(boxes.expand(3, 4, 4), title="t")
    seen = []
    for axes in figure.axes:
        assert axes.get_xlim() == (0, 1) and axes.get_ylim() == (1, 0), "the image's corners, its top above"
        marks = [(line.get_marker(), line.get_xydata().tolist()) for line in axes.lines]
        seen.append([(mark, len(points), points[0]) for mark, points in marks if points])
    mark = {kind: look[1] for kind, look in KINDS.items()}
    # The median area is that of the third: what is smaller is small.
    expected = [("wide", 0.1, 0.2), ("tall", 0.6, 0.7), ("wide", 0.5, 0.5), ("small", 0.9, 0.1)]
    for [found], (kind, x, y) in zip(seen, expected, strict=True):
        assert found == (mark[kind], 3, pytest.approx([x, y]))
    assert [axes.get_title() for axes in figure.axes] == [f"query {i}" for i in range(1, 5)]


def test_in_grey_the_kinds_are_told_apart_by_their_shape():
    assert len({mark for _, mark in KINDS.values()}) == 3
    greys = sorted(luminance(colour) for colour, _ in KINDS.values())
    assert all(b - a > 0.1 for a, b in zip(greys, greys[1:], strict=False))


@pytest.mark.parametrize("draw", [one, several, queries])
def test_drawn_twice_the_bytes_are_equal(draw):
    first = figure_html(draw(), "alt")
    assert first == figure_html(draw(), "alt") and len(first) < 250_000


@pytest.mark.parametrize(("panels", "error", "message"), [
    ([], ValueError, "panels is empty"),
    ([IMAGE], TypeError, r"panels\[0\] must be a BoxedPanel, given Tensor"),
    ([PANEL, PANEL._replace(image=torch.zeros(3))], ValueError, r"image has shape \(3,\)"),
    ([PANEL, PANEL._replace(scores=[1.0])], ValueError, r"panels\[1\] has 2 boxes, 2 names and 1 scores"),
    ([PANEL._replace(names="cat")], TypeError, "names must be a list of tokens"),
    ([PANEL._replace(boxes=[[3, 0, 1, 9]])], ValueError, r"panels\[0\]: boxes\[0\] is \(3, 0, 1, 9\)"),
    ([PANEL._replace(true_boxes=[[0, 0.1, 0.4, 0.5]])], ValueError, "true_boxes all lie within the first pi"),
])
def test_errors_say_which_panel(panels, error, message):
    with pytest.raises(error, match=message):
        draw_boxes(panels, title="t")


@pytest.mark.parametrize(("boxes", "message"), [
    (torch.rand(3, 4), r"boxes has shape \(3, 4\); it must be \(images, queries, 4\)"),
    (torch.rand(0, 3, 4), r"boxes has shape \(0, 3, 4\)"),
    (torch.full((1, 2, 4), torch.nan), "not finite"),
])
def test_errors_say_what_the_queries_must_be(boxes, message):
    with pytest.raises(ValueError, match=message):
        query_boxes(boxes, title="t")
