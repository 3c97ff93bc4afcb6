"""Chapter 10: DETR finds handwritten digits in scenes; with more training, and with a part taken away."""

import math
import time
from collections.abc import Sequence
from functools import lru_cache
from itertools import count

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attncourse.boxes import Detections
from attncourse.data import BoxedBatches, BoxedImage, boxed_scenes, collate_boxed
from attncourse.data.detection import BoxedBatch, BoxedCorpus
from attncourse.experiments.results import Experiment
from attncourse.metrics import average_precision, duplicate_share
from attncourse.models import DETR, CellBackbone, answers, set_loss
from attncourse.training import History, train

# How much a query counts that finds nothing. With 0.1, as in the paper, the objects are learned soonest. But
# then a score of 0.5 means a chance of 1 in 11, and two queries can both be sure of one object. With 1, the
# scores are probabilities. So it is 0.1 while the learning rate is constant, and 1 while it falls.
NO_OBJECT = (0.1, 1.0)
SCENES = 8_000
LABEL_STEPS, STEPS, LONGER, SIZE = 1_000, 1_200, 6_000, 32
RATE, CONSTANT, CLIP = 1e-3, 0.6, 0.5  # the learning rate is constant for this share of the steps
SYSTEMS = {
    "as in the chapter": {},
    "without an encoder": {"model": {"encoder_layers": 0}},
    "without auxiliary losses": {"auxiliary": False},
    "CNN not trained before": {"label_steps": 0},
    "'no object' counts 0.1": {"no_object": (0.1, 0.1)},
    "longer": {"scenes": 20_000, "steps": LONGER},
}
SEEDS = (0, 1, 2)


def label_loss(backbone: CellBackbone, batch: BoxedBatch) -> Float[Tensor, ""]:
    """Cross-entropy of the yes-or-no answers: which digits does the image hold? No box, no number."""
    logits = backbone.label(batch.images)
    return F.binary_cross_entropy_with_logits(logits, batch.present(logits.shape[-1]))


def label_backbone(corpus: BoxedCorpus, *, steps: int = LABEL_STEPS, seed: int = 0) -> CellBackbone:
    """A CNN trained on the labels of whole training images; with 0 steps, one that is not trained at all."""
    torch.manual_seed(seed)
    backbone = CellBackbone(labels=len(corpus.names))
    if steps:
        train(backbone, label_loss, BoxedBatches(corpus.train, SIZE, seed), steps=steps, seed=seed)
    return backbone


def detector(corpus: BoxedCorpus, backbone: CellBackbone, *, seed: int = 0, **options) -> DETR:
    """A new model on this backbone, without dropout: at this size and budget the model learns too little."""
    torch.manual_seed(seed)
    return DETR(backbone, backbone.features, len(corpus.names), dropout=0.0, **options)


def fit_detector(
    model: DETR,
    corpus: BoxedCorpus,
    *,
    steps: int = STEPS,
    seed: int = 0,
    no_object: tuple[float, float] = NO_OBJECT,
    auxiliary: bool = True,
) -> History:
    """Train the whole model, backbone included, on the training scenes.

    Args:
        model: from `detector`.
        corpus: to learn from.
        steps: updates in all.
        seed: of the order of the batches.
        no_object: weight of a query that finds nothing, while the learning rate is constant and after it.
        auxiliary: judge the answers after every decoder layer, not only the last.
    """

    done = count()

    def loss(model: DETR, batch: BoxedBatch) -> Tensor:
        detected = model(batch.images)
        if not auxiliary:
            detected = detected._replace(earlier=())
        return set_loss(detected, batch.objects, no_object=no_object[next(done) >= CONSTANT * steps]).total

    def rate(step: int) -> float:
        falling = max(0.0, step / steps - CONSTANT) / (1 - CONSTANT)
        return RATE * (1 + math.cos(math.pi * falling)) / 2

    batches = BoxedBatches(corpus.train, SIZE, seed)
    return train(model, loss, batches, steps=steps, learning_rate=rate, clip=CLIP, seed=seed)


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

    "Found" are the answers surer than 0.5; nothing is suppressed.
    """
    found = find(model, images)
    shown = [boxed.objects for boxed in images]
    surer = [len(each.above(0.5).labels) for each in found]
    counted = [given == len(true.labels) for given, true in zip(surer, shown, strict=True)]
    numbers = average_precision(found, shown)
    numbers |= {"duplicates": duplicate_share(found), "counted": sum(counted) / len(counted)}
    return {name: round(value, 4) for name, value in numbers.items()}


@lru_cache(maxsize=1)
def _scenes(train: int, seed: int) -> BoxedCorpus:
    return boxed_scenes(train, seed=seed)


def detection(system: str, seed: int) -> dict:
    """Train and judge on the test scenes; the processor's seconds are those of all training."""
    options = dict(SYSTEMS[system])
    corpus = _scenes(options.pop("scenes", SCENES), seed)
    started = time.process_time()
    backbone = label_backbone(corpus, steps=options.pop("label_steps", LABEL_STEPS), seed=seed)
    model = detector(corpus, backbone, seed=seed, **options.pop("model", {}))
    fit_detector(model, corpus, seed=seed, **options)
    seconds = round(time.process_time() - started, 1)
    parameters = sum(p.numel() for p in model.parameters())
    return {"parameters": parameters, "processor seconds": seconds, **detection_scores(model, corpus.test)}


EXPERIMENTS = [
    Experiment(
        "detection",
        f"Scenes of 1 to 5 handwritten digits on 48 x 48 pixels, {STEPS:,} steps of {SIZE} ({LONGER:,} "
        f"for 'longer', from 20,000 instead of {SCENES:,} scenes) on a CNN trained for {LABEL_STEPS:,} steps "
        "on image labels; 1,000 test scenes whose digits no training scene holds. AP as COCO measures it; "
        "share of scenes in which a thing is found twice, and in which the number of things found is right, "
        "at a score above 0.5 with no suppression.",
        tuple(SYSTEMS),
        SEEDS,
        detection,
    ),
]
