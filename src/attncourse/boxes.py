"""Boxes around objects, and how well two boxes agree.

A box is (cx, cy, w, h): its centre, width and height, as shares of the image's width and height. A model can
predict these four through a sigmoid; areas are easier with corners, (left, top, right, bottom).
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from attncourse.devices import to_device


class Objects(NamedTuple):
    """What one image shows: a label and a box, (cx, cy, w, h), for each object; there may be none.

    Shapes: labels (objects); boxes (objects, 4).
    """

    labels: Int[Tensor, "objects"]
    boxes: Float[Tensor, "objects 4"]

    to = to_device


class Detections(NamedTuple):
    """What a model says one image shows: a label, how sure it is, and a box, (cx, cy, w, h), for each answer.

    Shapes: labels (answers); scores (answers), from 0 to 1; boxes (answers, 4).
    """

    labels: Int[Tensor, "answers"]
    scores: Float[Tensor, "answers"]
    boxes: Float[Tensor, "answers 4"]

    def above(self, score: float) -> "Detections":
        """The answers that are surer than `score`."""
        return Detections(*(part[self.scores > score] for part in self))


def to_corners(boxes: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 4"]:
    """(cx, cy, w, h) -> (left, top, right, bottom)."""
    centre, half = boxes[..., :2], boxes[..., 2:] / 2
    return torch.cat([centre - half, centre + half], dim=-1)


def from_corners(corners: Float[Tensor, "*batch 4"]) -> Float[Tensor, "*batch 4"]:
    """(left, top, right, bottom) -> (cx, cy, w, h)."""
    first, last = corners[..., :2], corners[..., 2:]
    return torch.cat([(first + last) / 2, last - first], dim=-1)


def box_iou(a: Float[Tensor, "a 4"], b: Float[Tensor, "b 4"]) -> Float[Tensor, "a b"]:
    """Intersection over union of every box of `a` with every one of `b`, as corners; two points give 0.

    Raises:
        ValueError: a box that ends before it begins.
    """
    shared, union, _ = _areas(a, b)
    return _share(shared, union)


def generalized_box_iou(a: Float[Tensor, "a 4"], b: Float[Tensor, "b 4"]) -> Float[Tensor, "a b"]:
    """IoU - (hull - union) / hull, where the hull is the smallest box around both (Rezatofighi et al. 2019).

    From -1 to 1. Boxes that do not meet have an IoU of 0 however far apart they are; here the distance
    counts, so that there is a gradient to follow. Two points at the same place give 0.

    Raises:
        ValueError: a box that ends before it begins.
    """
    shared, union, hull = _areas(a, b)
    return _share(shared, union) - _share(hull - union, hull)


def _areas(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Area of the intersection, of the union, and of the hull, each (a, b)."""
    for name, boxes in {"a": a, "b": b}.items():
        _check_corners(name, boxes)
    a, b = a[:, None], b[None]
    overlap = torch.minimum(a[..., 2:], b[..., 2:]) - torch.maximum(a[..., :2], b[..., :2])
    around = torch.maximum(a[..., 2:], b[..., 2:]) - torch.minimum(a[..., :2], b[..., :2])
    shared = overlap.clamp(min=0).prod(-1)
    union = (a[..., 2:] - a[..., :2]).prod(-1) + (b[..., 2:] - b[..., :2]).prod(-1) - shared
    return shared, union, around.prod(-1)


def _share(part: Tensor, whole: Tensor) -> Tensor:
    """part / whole, and 0 with a gradient of 0 where the whole has no area."""
    empty = whole <= 0
    return (part / whole.masked_fill(empty, 1.0)).masked_fill(empty, 0.0)


def _check_corners(name: str, boxes: Tensor) -> None:
    if boxes.dim() != 2 or boxes.shape[-1] != 4:
        raise ValueError(f"{name} has shape {tuple(boxes.shape)}: it must be (boxes, 4)")
    turned = (boxes[:, 2:] < boxes[:, :2]).any(-1)
    if turned.any():
        row = int(turned.nonzero()[0])
        given = [round(x, 4) for x in boxes[row].tolist()]
        raise ValueError(f"{name}[{row}] is {given}: it must be (left, top, right, bottom), and it ends "
                         "before it begins; is it (cx, cy, w, h)? See to_corners")
