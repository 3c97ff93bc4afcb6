"""DETR finds handwritten digits in scenes; training it, and judging what it finds."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attncourse.boxes import Detections
from attncourse.data import Batches, BoxedImage, boxed_batches, collate_boxed
from attncourse.data.detection import BoxedBatch, BoxedCorpus
from attncourse.devices import to_device
from attncourse.experiments.rates import HeldCosine
from attncourse.metrics import average_precision, duplicate_share
from attncourse.models import DETR, CellBackbone, answers, set_loss
from attncourse.training import History, train

# How much a query counts that finds nothing. With 0.1, as in the paper, the objects are learned soonest. But
# then a score of 0.5 means a chance of 1 in 11, and two queries can both be sure of one object. With 1, the
# scores are probabilities. So it is 0.1 while the learning rate is constant, and 1 while it falls.
NO_OBJECT = (0.1, 1.0)
LABEL_STEPS, STEPS, SIZE = 1_000, 1_200, 32
RATE, CLIP = HeldCosine(1e-3, held=0.6), 0.5


class Weighed(NamedTuple):
    """A batch of scenes, and how much a query counts in it that finds nothing."""

    scenes: BoxedBatch
    no_object: float

    to = to_device


class WeighedBatches:
    """Batches that bring the weight of "no object" along: `batches[step]` has the step's own.

    So the weight hangs on the step alone, also in a run that was interrupted.

    Args:
        batches: of scenes.
        weights: while the learning rate is constant, and after it.
        falls_at: the step, counted from 0, at which the second takes the place of the first.
    """

    def __init__(self, batches: Batches, weights: tuple[float, float], falls_at: float):
        self.batches, self.weights, self.falls_at = batches, weights, falls_at

    def __getitem__(self, step: int) -> Weighed:
        return Weighed(self.batches[step], self.weights[step >= self.falls_at])


def label_loss(backbone: CellBackbone, batch: BoxedBatch) -> Float[Tensor, ""]:
    """Cross-entropy of the yes-or-no answers: which digits does the image hold? No box, no number."""
    logits = backbone.label(batch.images)
    return F.binary_cross_entropy_with_logits(logits, batch.present(logits.shape[-1]))


def label_backbone(
    corpus: BoxedCorpus, *, steps: int = LABEL_STEPS, size: int = SIZE, seed: int = 0
) -> CellBackbone:
    """A CNN trained on the labels of whole training images; with 0 steps, one that is not trained at all."""
    torch.manual_seed(seed)
    backbone = CellBackbone(labels=len(corpus.names))
    if steps:
        train(backbone, label_loss, boxed_batches(corpus.train, size, seed), steps=steps, seed=seed)
    return backbone


def detector(corpus: BoxedCorpus, backbone: CellBackbone, *, seed: int = 0, **options) -> DETR:
    """A new model on this backbone, without dropout: at this size and budget the model learns too little."""
    torch.manual_seed(seed)
    return untrained_detector(corpus, backbone, **options)


def untrained_detector(
    corpus: BoxedCorpus, backbone: CellBackbone, *, dropout: float = 0.0, **options
) -> DETR:
    """`detector` from the random numbers that torch has now."""
    return DETR(backbone, backbone.features, len(corpus.names), dropout=dropout, **options)


def fit_detector(
    model: DETR,
    corpus: BoxedCorpus,
    *,
    steps: int = STEPS,
    seed: int = 0,
    size: int = SIZE,
    rate: HeldCosine = RATE,
    no_object: tuple[float, float] = NO_OBJECT,
    auxiliary: bool = True,
    clip: float = CLIP,
) -> History:
    """Train the whole model, backbone included, on the training scenes.

    Args:
        model: from `detector`.
        corpus: to learn from.
        steps: updates in all.
        seed: of the order of the batches.
        size: scenes in a batch.
        rate: the learning rate.
        no_object: weight of a query that finds nothing, while the learning rate is constant and after it.
        auxiliary: judge the answers after every decoder layer, not only the last.
        clip: longest gradient.
    """

    def loss(model: DETR, batch: Weighed) -> Tensor:
        detected = model(batch.scenes.images)
        if not auxiliary:
            detected = detected._replace(earlier=())
        return set_loss(detected, batch.scenes.objects, no_object=batch.no_object).total

    batches = WeighedBatches(boxed_batches(corpus.train, size, seed), no_object, rate.held * steps)
    return train(model, loss, batches, steps=steps, learning_rate=partial(rate, steps=steps), clip=clip,
                 seed=seed)


def find(model: DETR, images: Sequence[BoxedImage]) -> list[Detections]:
    """What the model's queries say of each image, all of them, in the order of the queries."""
    place, found = next(model.parameters()).device, []
    model.eval()
    for start in range(0, len(images), 100):
        batch = collate_boxed(images[start : start + 100])
        with torch.no_grad():
            found += answers(model(batch.images.to(place)))
    return [Detections(*(part.cpu() for part in each)) for each in found]


def detection_scores(model: DETR, images: Sequence[BoxedImage]) -> dict[str, float]:
    """Average precision, share of images with a thing found twice, and how often the number is right.

    An answer counts where it is surer than 0.5; nothing is suppressed.
    """
    found = find(model, images)
    shown = [boxed.objects for boxed in images]
    surer = [len(each.above(0.5).labels) for each in found]
    counted = [given == len(true.labels) for given, true in zip(surer, shown, strict=True)]
    numbers = average_precision(found, shown)
    numbers |= {"duplicates": duplicate_share(found), "counted": sum(counted) / len(counted)}
    return {name: round(value, 4) for name, value in numbers.items()}
