"""Figures of a Vision Transformer: every map in its place, every head above its layer."""

import pytest
import torch

from attncourse.viewer import distance_by_layer, position_maps
from attncourse.viewer.plots.figure import figure_html

COSINES = torch.linspace(-1, 1, 36).view(2, 3, 2, 3)
DISTANCES = torch.tensor([[1.0, 4.0], [2.5, 3.0], [0.0, 3.5]])


def maps():
    return position_maps(COSINES, title="Each patch is like its neighbours")


def distances():
    return distance_by_layer(DISTANCES, title="Some heads look near, others far")


def test_the_map_of_a_patch_lies_where_the_patch_does():
    """Rows and columns exchanged put each map, or its mark, in another patch's place."""
    axes = maps().axes[0]
    assert len(axes.images) == len(axes.lines) == 6
    for number, (image, mark) in enumerate(zip(axes.images, axes.lines, strict=True)):
        row, column = divmod(number, 3)
        assert torch.tensor(image.get_array().tolist()) == pytest.approx(COSINES[row, column])
        left, right, bottom, top = image.get_extent()
        assert (left // 1, top // 1) == (column, row)
        assert (right - left, bottom - top) == pytest.approx((1, 1))
        x, y = mark.get_xydata()[0]
        assert ((x - left) * 3 // 1, (y - top) * 2 // 1) == (column, row), "the mark is not on its own patch"
    assert axes.get_ylim()[0] > axes.get_ylim()[1], "row 1 is the top one"
    assert axes.get_xlim()[1] > axes.images[-1].get_extent()[1] - 0.01, "the last map is cut off"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "2", "3"]


def test_all_maps_have_one_scale():
    assert {image.get_clim() for image in maps().axes[0].images} == {(-1, 1)}


def test_every_head_is_a_point_above_its_layer():
    mean, *layers = distances().axes[0].lines
    assert mean.get_xydata().tolist() == [[1, 2.5], [2, 2.75], [3, 1.75]]
    assert [line.get_xydata().tolist() for line in layers] == [
        [[1, 1], [1, 4]], [[2, 2.5], [2, 3]], [[3, 0], [3, 3.5]]]
    axes = distances().axes[0]
    assert axes.get_xlabel() == "layer" and "pixels" in axes.get_ylabel() and axes.get_ylim()[0] == 0


@pytest.mark.parametrize("draw", [maps, distances])
def test_drawn_twice_the_bytes_are_equal(draw):
    first = figure_html(draw(), "alt")
    assert first == figure_html(draw(), "alt") and len(first) < 250_000
    assert draw().get_suptitle()


@pytest.mark.parametrize(("draw", "given", "message"), [
    (position_maps, COSINES[0], r"cosines has shape \(3, 2, 3\); it must be \(rows, columns, rows, col"),
    (position_maps, COSINES.permute(0, 1, 3, 2), r"cosines has shape \(2, 3, 3, 2\)"),
    (position_maps, 2 * COSINES, "cosines runs from -2 to 2: a cosine lies"),
    (position_maps, COSINES * torch.nan, "cosines runs from nan"),
    (distance_by_layer, DISTANCES[0], r"distances has shape \(2,\); it must be \(layers, heads\)"),
    (distance_by_layer, -DISTANCES, "negative or not finite"),
    (distance_by_layer, DISTANCES / 0, "negative or not finite"),
])
def test_errors_say_what_is_needed(draw, given, message):
    with pytest.raises(ValueError, match=message):
        draw(given, title="t")
