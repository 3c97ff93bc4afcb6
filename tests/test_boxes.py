"""Boxes: the hand values, a plain loop, and the cases in which a formula is 0 / 0."""

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncourse.boxes import Detections, Objects, box_iou, from_corners, generalized_box_iou, to_corners

BOTH = pytest.mark.parametrize("agreement", [box_iou, generalized_box_iou])
side = st.floats(0, 1, width=32)
box = st.tuples(side, side, side, side).map(lambda s: [*map(min, s[:2], s[2:]), *map(max, s[:2], s[2:])])


def boxes(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def drawn(count, seed=0):
    """Boxes that overlap, contain each other or lie apart, as corners."""
    random = torch.Generator().manual_seed(seed)
    centre, size = torch.rand(2, count, 2, generator=random, dtype=torch.float64)
    return to_corners(torch.cat([centre, size * 0.6 + 0.05], dim=-1))


def plain_loop(a, b):
    """Intersection, union and hull by their definitions, one pair of boxes at a time."""
    iou, generalized = torch.zeros(2, len(a), len(b), dtype=torch.float64)
    for i, j in itertools.product(range(len(a)), range(len(b))):
        (l1, t1, r1, b1), (l2, t2, r2, b2) = a[i].tolist(), b[j].tolist()
        shared = max(0, min(r1, r2) - max(l1, l2)) * max(0, min(b1, b2) - max(t1, t2))
        union = (r1 - l1) * (b1 - t1) + (r2 - l2) * (b2 - t2) - shared
        hull = (max(r1, r2) - min(l1, l2)) * (max(b1, b2) - min(t1, t2))
        iou[i, j] = shared / union
        generalized[i, j] = shared / union - (hull - union) / hull
    return iou, generalized


# --- Centre and corners ------------------------------------------------------------------------------------


def test_a_box_by_hand():
    """A quarter of the image wide, a half high, its centre right of the middle."""
    assert to_corners(boxes([0.6, 0.5, 0.25, 0.5])).tolist() == [[0.475, 0.25, 0.725, 0.75]]
    assert from_corners(boxes([0.25, 0.0, 0.75, 1.0])).tolist() == [[0.5, 0.5, 0.5, 1.0]]


def test_there_and_back_is_the_same_box():
    """Whatever stands before the last axis, and with no box at all."""
    corners = drawn(12).view(2, 3, 2, 4)
    torch.testing.assert_close(to_corners(from_corners(corners)), corners)
    assert to_corners(torch.zeros(0, 4)).shape == from_corners(torch.zeros(0, 4)).shape == (0, 4)


@settings(deadline=None)  # the first call on a busy machine is slow
@given(st.lists(st.tuples(side, side, side, side), min_size=1, max_size=8))
def test_no_size_however_small_turns_a_box(rows):
    """cx - w/2 and cx + w/2 are rounded: a box of width 0 must not end before it begins."""
    corners = to_corners(torch.tensor(rows, dtype=torch.float32))
    assert (corners[:, 2:] >= corners[:, :2]).all()
    generalized_box_iou(corners, corners)


# --- How well two boxes agree ------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b", "iou", "generalized"), [
    ([0, 0, 2, 2], [0, 0, 2, 2], 1, 1),
    ([0, 0, 2, 2], [1, 1, 3, 3], 1 / 7, 1 / 7 - 2 / 9),
    ([0, 0, 1, 1], [2, 0, 3, 1], 0, -1 / 3),
    ([0, 0, 1, 1], [1, 0, 2, 1], 0, 0),
    ([0, 0, 4, 4], [1, 1, 2, 3], 1 / 8, 1 / 8),
    ([0, 0, 1, 1], [9, 9, 10, 10], 0, -0.98),
    ([0, 0, 1, 1], [1, 1, 2, 2], 0, -1 / 2),
], ids=["the same", "overlapping", "apart", "side by side", "inside", "far apart", "at a corner"])
def test_agreement_by_hand(a, b, iou, generalized):
    """Boxes that do not meet have no IoU, but the generalised one falls as they move apart."""
    a, b = boxes(a), boxes(b)
    assert box_iou(a, b).item() == pytest.approx(iou)
    assert generalized_box_iou(a, b).item() == pytest.approx(generalized), (
        "IoU - (hull - union) / hull: is the hull that of both boxes, and is it divided by the hull?")


def test_agreement_is_that_of_the_definitions():
    a, b = drawn(7), drawn(5, seed=1)
    iou, generalized = plain_loop(a, b)
    assert (iou == 0).any() and (iou > 0.2).any(), "some boxes should meet, and some not"
    torch.testing.assert_close(box_iou(a, b), iou)
    torch.testing.assert_close(generalized_box_iou(a, b), generalized)


@BOTH
def test_a_box_agrees_with_another_as_the_other_with_it(agreement):
    a, b = drawn(6), drawn(4, seed=1)
    assert agreement(a, b).shape == (6, 4)
    torch.testing.assert_close(agreement(a, b), agreement(b, a).T)


@settings(deadline=None)  # the first call on a busy machine is slow
@given(st.lists(box, min_size=1, max_size=5), st.lists(box, min_size=1, max_size=5))
def test_agreement_stays_in_its_range(a, b):
    """IoU from 0 to 1, the generalised one from -1 to 1 and never above it; lines and points too."""
    a, b = boxes(*a), boxes(*b)
    iou, generalized = box_iou(a, b), generalized_box_iou(a, b)
    assert iou.isfinite().all() and generalized.isfinite().all()
    assert (iou >= 0).all() and (iou <= 1 + 1e-9).all()
    assert (generalized >= -1 - 1e-9).all() and (generalized <= iou + 1e-9).all()


@BOTH
def test_where_and_how_large_does_not_matter(agreement):
    a, b = drawn(6), drawn(4, seed=1)
    torch.testing.assert_close(agreement(3 * a + 2, 3 * b + 2), agreement(a, b))


@BOTH
def test_gradients_are_those_of_finite_differences(agreement):
    a, b = drawn(4).requires_grad_(), drawn(3, seed=1).requires_grad_()
    assert torch.autograd.gradcheck(agreement, (a, b))


def test_boxes_that_do_not_meet_are_drawn_together():
    """With the plain IoU there is no gradient to follow: that is what the hull is for."""
    answered, wanted = boxes([0, 0, 1, 1]).requires_grad_(), boxes([3, 0, 4, 1])
    [gradient] = torch.autograd.grad(box_iou(answered, wanted).sum(), answered)
    assert (gradient == 0).all()
    [gradient] = torch.autograd.grad(generalized_box_iou(answered, wanted).sum(), answered)
    assert gradient[0, 2] > 0, "the right side should move to the right"


# --- Boxes without an area ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("a", "b"), [
    ([0.5, 0.5, 0.5, 0.5], [0.5, 0.5, 0.5, 0.5]),
    ([0.5, 0.5, 0.5, 0.5], [0.2, 0.1, 0.2, 0.1]),
    ([0.5, 0.5, 0.5, 0.5], [0.5, 0.1, 0.5, 0.1]),
    ([0.5, 0.2, 0.5, 0.8], [0.5, 0.2, 0.5, 0.8]),
    ([0.5, 0.5, 0.5, 0.5], [0.2, 0.2, 0.8, 0.8]),
    ([0.1, 0.1, 0.1, 0.1], [0.2, 0.2, 0.8, 0.8]),
    ([0.0, 0.0, 1e-30, 1e-30], [0.0, 0.0, 1e-30, 1e-30]),
], ids=["a point twice", "two points", "two points on a line", "a line twice", "a point inside",
        "a point outside", "an area that underflows"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@BOTH
def test_no_area_gives_a_number_and_a_gradient(agreement, dtype, a, b):
    """0 / 0 is NaN, and its gradient is NaN even where a `where` hides it: one such box ends a training."""
    a, b = (torch.tensor([given], dtype=dtype, requires_grad=True) for given in (a, b))
    found = agreement(a, b)
    assert -1 <= found.item() <= 1 + 1e-6
    found.sum().backward()
    assert a.grad.isfinite().all() and b.grad.isfinite().all()


def test_no_area_by_hand():
    point, elsewhere = boxes([0.5, 0.5, 0.5, 0.5]), boxes([0.2, 0.1, 0.2, 0.1])
    assert box_iou(point, point).item() == generalized_box_iou(point, point).item() == 0, "by convention"
    assert generalized_box_iou(point, elsewhere).item() == -1, "all of the hull lies between them"


@BOTH
def test_without_boxes_there_is_an_empty_table(agreement):
    """An image without objects."""
    none, some = torch.zeros(0, 4), torch.rand(3, 4).sort(-1).values
    assert agreement(none, some).shape == (0, 3) and agreement(some, none).shape == (3, 0)
    assert agreement(none, none).shape == (0, 0)


# --- Errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("turned", [[0.6, 0.6, 0.4, 0.4], [0.6, 0.1, 0.4, 0.2], [0.1, 0.6, 0.2, 0.4]])
@pytest.mark.parametrize("name", ["a", "b"])
@BOTH
def test_a_box_that_ends_before_it_begins_is_named(agreement, name, turned):
    """Most often it is (cx, cy, w, h)."""
    right = drawn(3)
    wrong = torch.cat([right[:2], boxes(turned), right[2:]])
    with pytest.raises(ValueError) as caught:
        agreement(wrong, right) if name == "a" else agreement(right, wrong)
    words = [f"{name}[2] is {turned}", "left, top, right, bottom", "to_corners"]
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("shape", [(4,), (2, 5), (1, 2, 4)])
@BOTH
def test_another_shape_is_named(agreement, shape):
    with pytest.raises(ValueError) as caught:
        agreement(drawn(2), torch.ones(shape))
    assert f"b has shape {shape}: it must be (boxes, 4)" in str(caught.value)


# --- What is shown, and what is found ----------------------------------------------------------------------


def test_the_answers_above_a_score_keep_their_labels_and_boxes():
    """Surer than, not as sure as."""
    found = Detections(torch.tensor([3, 1, 2]), torch.tensor([0.2, 0.9, 0.5]), drawn(3))
    sure = found.above(0.5)
    assert isinstance(sure, Detections) and sure.labels.tolist() == [1]
    assert torch.equal(sure.boxes, found.boxes[1:2]) and torch.equal(sure.scores, found.scores[1:2])
    assert len(found.above(0.1).labels) == 3
    none = found.above(1.0)
    assert none.labels.shape == none.scores.shape == (0,) and none.boxes.shape == (0, 4)


def test_objects_move_together():
    moved = Objects(torch.tensor([1, 2]), drawn(2)).to("meta")
    assert isinstance(moved, Objects) and moved.labels.is_meta and moved.boxes.is_meta
