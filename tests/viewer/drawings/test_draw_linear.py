"""The drawing of chapter 11: two orders of one product, to scale, with the right shapes side by side."""


import pytest

from attncourse.viewer.drawings.linear import D, N, matches_first, sums_first

BOTH = pytest.mark.parametrize("draw", [matches_first, sums_first])


def products(figure):
    """The three matrices of each product, from the left: (height, width)."""
    boxes = [(p.get_y() + p.get_height() / 2, p.get_x(), p.get_height(), p.get_width())
             for p in figure.axes[0].patches if hasattr(p, "get_height") and p.get_width() in (N, D)]
    rows = {y: sorted(box[1:] for box in boxes if box[0] == y) for y in sorted({box[0] for box in boxes})}
    return [[(height, width) for _, height, width in row] for row in rows.values()]


@BOTH
def test_the_shapes_can_be_multiplied(draw):
    """(a, b) times (b, c) is (a, c): a drawing that breaks it teaches wrong algebra."""
    for left, right, result in products(draw()):
        assert left[1] == right[0] and result == (left[0], right[1])


def test_what_lies_between_is_a_square_of_n_or_of_d():
    assert (N, N) in [shape for row in products(matches_first()) for shape in row]
    between = [shape for row in products(sums_first()) for shape in row]
    assert (D, D) in between and (N, N) not in between, "nothing on this side grows with the square"


def test_both_end_in_the_same_contexts():
    assert products(matches_first())[0][-1] == products(sums_first())[0][-1] == (N, D)
