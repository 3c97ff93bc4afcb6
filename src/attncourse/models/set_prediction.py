"""Detection as the prediction of a set: who answers for which object, and what the answer costs.

A model gives a fixed number of answers in no order; an image shows some objects, also in no order. So the
loss begins by pairing them, as cheaply as possible (Carion et al. 2020, section 3.1).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from attncourse.boxes import Detections, Objects, generalized_box_iou, to_corners


class Detected(NamedTuple):
    """One answer a query: scores of the classes, the last of which is "no object", and a box.

    `earlier` holds the answers after each decoder layer but the last.

    Shapes: logits (batch, queries, classes + 1); boxes (batch, queries, 4), (cx, cy, w, h).
    """

    logits: Float[Tensor, "batch queries outcomes"]
    boxes: Float[Tensor, "batch queries 4"]
    earlier: tuple["Detected", ...] = ()


class Match(NamedTuple):
    """The pairs of one image: query queries[i] answers for object objects[i]; both (pairs)."""

    queries: Int[Tensor, "pairs"]
    objects: Int[Tensor, "pairs"]


class Weights(NamedTuple):
    """How much each part counts, in the matching and in the loss."""

    label: float = 1.0
    distance: float = 5.0
    overlap: float = 2.0


WEIGHTS = Weights()


class SetLoss(NamedTuple):
    """The loss and its parts, each unweighted; those of earlier layers are in the total only."""

    total: Float[Tensor, ""]
    label: Float[Tensor, ""]
    distance: Float[Tensor, ""]
    overlap: Float[Tensor, ""]


def answers(detected: Detected) -> list[Detections]:
    """For each image what its queries say: the likeliest class but "no object", its probability, the box.

    Every query is heard; whoever wants the objects alone asks for those `above` a score. Nothing is
    suppressed.
    """
    scores, labels = detected.logits.softmax(-1)[..., :-1].max(-1)
    return [Detections(*image) for image in zip(labels, scores, detected.boxes, strict=True)]


@torch.no_grad()
def match(detected: Detected, objects: Sequence[Objects], weights: Weights = WEIGHTS) -> list[Match]:
    """Pair queries and objects of each image so that the summed cost is lowest (eq. 1 and 2).

    The cost of a pair is -p(label) + 5 |box - box'|_1 - 2 GIoU(box, box') with the default weights. Each
    object gets one query; the queries left over stand for "no object". Found by the Hungarian method.

    Args:
        detected: the model's answers.
        objects: what each image shows.
        weights: of the three parts.

    Raises:
        ValueError: a prediction that is not finite, a label that is none of the classes, a box that is not
            one, more objects than queries, or another number of images.
        TypeError: labels that are not integers.
    """
    from scipy.optimize import linear_sum_assignment  # takes a third of a second to import

    _check(detected, objects)
    costs = _costs(detected, objects, weights).cpu().numpy()
    pairs, first = [], 0
    for image, shown in enumerate(objects):
        last = first + len(shown.labels)
        found = linear_sum_assignment(costs[image, :, first:last])
        pairs.append(Match(*(torch.as_tensor(index, device=shown.labels.device) for index in found)))
        first = last
    return pairs


def set_loss(
    detected: Detected,
    objects: Sequence[Objects],
    *,
    no_object: float = 0.1,
    weights: Weights = WEIGHTS,
) -> SetLoss:
    """Match, then ask each query for its object's label and box, or for "no object" (eq. 2, appendix A.2).

    Labels: cross-entropy, in which a query that stands for "no object" counts `no_object` times. Boxes of
    matched queries: the L1 distance and 1 - GIoU, summed and divided by the number of objects in the batch.
    The answers of the earlier layers are matched anew, and cost the same.

    Raises:
        ValueError, TypeError: as `match` does.
    """
    last = _one_layer(detected, objects, no_object, weights)
    total = sum(
        (_one_layer(layer, objects, no_object, weights).total for layer in detected.earlier), last.total
    )
    return last._replace(total=total)


def _one_layer(detected: Detected, objects: Sequence[Objects], no_object: float, weights: Weights) -> SetLoss:
    pairs = match(detected, objects, weights)
    image = torch.cat([torch.full_like(pair.queries, i) for i, pair in enumerate(pairs)])
    query = torch.cat([pair.queries for pair in pairs])
    labels, boxes = (
        torch.cat([shown[part][pair.objects] for shown, pair in zip(objects, pairs, strict=True)])
        for part in range(2)
    )
    nothing = detected.logits.shape[-1] - 1
    wanted = torch.full(detected.logits.shape[:2], nothing, device=detected.logits.device)
    wanted[image, query] = labels
    counts = torch.ones_like(detected.logits[0, 0])
    counts[nothing] = no_object
    label = F.cross_entropy(detected.logits.flatten(0, 1), wanted.flatten(), counts)

    answered, objects_in_batch = detected.boxes[image, query], max(len(labels), 1)
    distance = (answered - boxes).abs().sum() / objects_in_batch
    agreement = generalized_box_iou(to_corners(answered), to_corners(boxes)).diagonal()
    overlap = (1 - agreement).sum() / objects_in_batch
    total = weights.label * label + weights.distance * distance + weights.overlap * overlap
    return SetLoss(total, label, distance, overlap)


def _costs(detected: Detected, objects: Sequence[Objects], weights: Weights) -> Tensor:
    """The cost of every query of an image with every object of the batch: (batch, queries, all objects)."""
    labels = torch.cat([shown.labels for shown in objects])
    boxes = torch.cat([shown.boxes for shown in objects]).float()
    answered = detected.boxes.flatten(0, 1).float()
    cost = -weights.label * detected.logits.flatten(0, 1).float().softmax(-1)[:, labels]
    cost = cost + weights.distance * torch.cdist(answered, boxes, p=1)
    cost = cost - weights.overlap * generalized_box_iou(to_corners(answered), to_corners(boxes))
    return cost.unflatten(0, detected.boxes.shape[:2])


def _check(detected: Detected, objects: Sequence[Objects]) -> None:
    batch, queries, outcomes = detected.logits.shape
    if len(objects) != batch:
        raise ValueError(f"objects holds {len(objects)} images and detected {batch}: they must be as many")
    finite = detected.logits.isfinite().flatten(1).all(1) & detected.boxes.isfinite().flatten(1).all(1)
    if not finite.all():
        raise ValueError(f"detected holds a non-finite prediction for image {int((~finite).nonzero()[0])}: "
                         "nothing can be matched; has the training diverged?")
    turned = (detected.boxes[..., 2:] < 0).flatten(1).any(1)
    if turned.any():
        raise ValueError(f"detected holds a box of negative width or height for image "
                         f"{int(turned.nonzero()[0])}: boxes are (cx, cy, w, h); does the model end with a "
                         "sigmoid?")
    for image, (labels, boxes) in enumerate(objects):
        if labels.dtype != torch.int64:
            raise TypeError(f"objects[{image}] has labels of {labels.dtype}: they must be torch.int64, also "
                            "where there are none")
        if labels.dim() != 1 or boxes.shape != (len(labels), 4):
            raise ValueError(f"objects[{image}] has labels of shape {tuple(labels.shape)} and boxes of shape "
                             f"{tuple(boxes.shape)}: they must be (objects) and (objects, 4), one box each")
        if len(labels) > queries:
            raise ValueError(f"objects[{image}] shows {len(labels)} objects and the model has {queries} "
                             "queries: build it with more")
    image = torch.cat([torch.full_like(shown.labels, i) for i, shown in enumerate(objects)])
    labels, boxes = (torch.cat(parts) for parts in zip(*objects, strict=True))
    wrong = (labels < 0) | (labels >= outcomes - 1)
    if wrong.any():
        raise ValueError(f"objects[{int(image[wrong][0])}] has label {int(labels[wrong][0])}, and the model "
                         f"has {outcomes - 1} classes: labels go from 0 to {outcomes - 2}; {outcomes - 1} is "
                         "'no object'")
    broken = ~(boxes.isfinite().all(-1) & (boxes[:, 2:] >= 0).all(-1))
    if broken.any():
        raise ValueError(f"objects[{int(image[broken][0])}] has the box {boxes[broken][0].tolist()}: it must "
                         "be (cx, cy, w, h), finite, with no negative width or height")
