"""Tables of image classifiers: how many images a Vision Transformer needs, and what its positions learn."""

from dataclasses import replace
from math import ceil

import torch
from torch import nn

from attncourse.data import ImageCorpus, LabelledImages, cifar10_corpus, digits_corpus
from attncourse.experiments.declarations import Experiment, Measure, Row, Training
from attncourse.experiments.image_classifiers import (
    CIFAR_SYSTEMS,
    DIGIT_SYSTEMS,
    DIGIT_VIT,
    SIZE,
    STEPS,
    drawn,
    fit_images,
    image_accuracy,
    small_positions,
)
from attncourse.experiments.rates import WarmedCosine
from attncourse.models import VisionTransformer, attention_distance, nearest_are_neighbours, position_cosines
from attncourse.training import History

DROPOUT = DIGIT_VIT["dropout"]  # of every Vision Transformer here


def digit_reader(_corpus: ImageCorpus, system: str, **options) -> nn.Module:
    """An untrained model of one of `DIGIT_SYSTEMS`."""
    return DIGIT_SYSTEMS[system](**options)


def photograph_reader(_corpus: ImageCorpus, system: str, **options) -> nn.Module:
    """An untrained model of one of `CIFAR_SYSTEMS`."""
    return CIFAR_SYSTEMS[system](**options)


def digit_vit(_corpus: ImageCorpus, **options) -> VisionTransformer:
    """The ViT of the digits, its positions nearly 0."""
    return small_positions(DIGIT_SYSTEMS["ViT"](**options))


def fit_reader(model: nn.Module, corpus: ImageCorpus, training: Training, seed: int) -> History:
    """`fit_images` with a declared budget; shift and mirror are in its `extra`."""
    return fit_images(model, corpus.train, seed=seed, size=training.size, **training.options(),
                      **training.extra)


def right(model: nn.Module, _corpus: ImageCorpus, images: LabelledImages) -> dict:
    """Share of right classes."""
    return {"accuracy": round(image_accuracy(model, images), 4)}


@torch.no_grad()
def looks(model: VisionTransformer, _corpus: ImageCorpus, images: LabelledImages) -> dict:
    """How many patches have a neighbour's position nearest to theirs, and how far a layer's heads look."""
    model.cpu()
    distances = attention_distance(model.attention_maps(images.images), model.grid, model.patch).mean(-1)
    nearest = nearest_are_neighbours(position_cosines(model.positions, model.grid))
    return {
        "nearest are neighbours": round(nearest, 4),
        "distance": {f"layer {i}": round(far, 3) for i, far in enumerate(distances.tolist(), start=1)},
    }


RIGHT = Measure("share of right classes", right)
LOOKS = Measure(
    "share of the 16 patches whose most similar other position (cosine) is that of a patch above, below, "
    "left or right (by chance 0.2), and the distance in pixels that a layer's heads look", looks,
)
READER = Row("", build=digit_reader, corpus=digits_corpus, fit=fit_reader, measures=(RIGHT,))


def _of_a_vit(system: str) -> float | None:
    return DROPOUT if system.startswith("ViT") else None


VIT_DATA = Experiment(
    "vit_data",
    "Handwritten digits of 8 x 8 pixels, after training on 50, 200, 600 and all 1,197 of them, which each "
    "seed draws anew; a batch holds all images where there are fewer.",
    [replace(READER, name=name, options={"system": name}, dropout=_of_a_vit(name),
             trainings=tuple(Training(STEPS, SIZE, items=count, drawn_by=drawn, label=str(count))
                             for count in (50, 200, 600, 1_197)))
     for name in DIGIT_SYSTEMS],
)
# Pixels by which the training digits are moved, anew at every step.
MOVED = {"in their place": 0, "moved by up to 1 pixel": 1, "moved by up to 2 pixels": 2}
VIT_POSITIONS = Experiment(
    "vit_positions",
    "Handwritten digits of 8 x 8 pixels and the ViT of `vit_data`, its positions nearly 0 at first; the "
    "training digits are moved about, anew at every step, or not.",
    [replace(READER, name=name, build=digit_vit, dropout=DROPOUT, measures=(RIGHT, LOOKS),
             trainings=(Training(800, SIZE, extra={"shift": shift}),))
     for name, shift in MOVED.items()],
)
PHOTOGRAPHS, EPOCHS, CIFAR_SIZE = 50_000, 100, 128
CIFAR_TRAINING = Training(
    EPOCHS * ceil(PHOTOGRAPHS / CIFAR_SIZE), CIFAR_SIZE, WarmedCosine(5e-4, 0.05),
    extra={"shift": 4, "mirror": True},
)
CIFAR10 = Experiment(
    "cifar10",
    f"CIFAR-10, photographs of 32 x 32 pixels in ten classes, {EPOCHS} epochs.",
    [replace(READER, name=name, build=photograph_reader, options={"system": name}, dropout=_of_a_vit(name),
             corpus=cifar10_corpus, data={"dev": 0}, trainings=(CIFAR_TRAINING,))
     for name in CIFAR_SYSTEMS],
)

EXPERIMENTS = [VIT_DATA, VIT_POSITIONS, CIFAR10]
