"""Chapter 09's tables: how many images a Vision Transformer needs, beside a CNN and a plain network.

The digits take seconds. CIFAR-10 is a recipe for a machine with a GPU: `attncourse results cifar10`.
"""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.data import ImageBatches, LabelledImages, cifar10_corpus, digits_corpus
from attncourse.experiments.results import Experiment
from attncourse.experiments.sequences import parameters
from attncourse.models import VisionTransformer, attention_distance, nearest_are_neighbours, position_cosines
from attncourse.training import History, train

# --- The systems -------------------------------------------------------------------------------------------


def small_cnn(classes: int, channels: int, stages: Sequence[tuple[int, int]]) -> nn.Sequential:
    """Convolutions of 3 x 3; the mean over all places; a linear layer.

    Args:
        classes: number of logits.
        channels: of the images.
        stages: (features, stride) of each convolution.
    """
    layers = []
    for features, stride in stages:
        layers.append(convolution(channels, features, stride))
        channels = features
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def plain_network(classes: int, pixels: int, hidden: int) -> nn.Sequential:
    """Two hidden layers over all pixels at once: nothing in it knows which pixels are neighbours.

    Args:
        classes: number of logits.
        pixels: numbers in an image.
        hidden: width of both hidden layers.
    """
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(pixels, hidden), nn.ReLU(),
        nn.Linear(hidden, hidden), nn.ReLU(),
        nn.Linear(hidden, classes),
    )


def convolution(channels: int, features: int, stride: int = 1) -> nn.Sequential:
    """One convolution of 3 x 3 with batch norm and ReLU."""
    return nn.Sequential(
        nn.Conv2d(channels, features, 3, stride, padding=1, bias=False), nn.BatchNorm2d(features), nn.ReLU()
    )


def behind_a_convolution(channels: int, features: int, build: Callable[..., nn.Module]) -> nn.Sequential:
    """A model that reads the features of one convolution, in place of the pixels."""
    return nn.Sequential(convolution(channels, features), build(channels=features))


# 57,000 to 61,000 parameters each.
DIGIT_VIT = {"image": 8, "patch": 2, "width": 48, "heads": 4, "layers": 2, "dropout": 0.1}
DIGIT_SYSTEMS: dict[str, Callable[[], nn.Module]] = {
    "ViT": partial(VisionTransformer, 10, channels=1, **DIGIT_VIT),
    "ViT behind a convolution": partial(
        behind_a_convolution, 1, 16, partial(VisionTransformer, 10, **DIGIT_VIT)
    ),
    "CNN": partial(small_cnn, 10, 1, ((32, 1), (64, 2), (64, 1))),
    "plain network": partial(plain_network, 10, 64, 208),
}
# 4 million parameters each.
CIFAR_SYSTEMS: dict[str, Callable[[], nn.Module]] = {
    "ViT": partial(VisionTransformer, 10, image=32, patch=4, width=192, heads=6, layers=9, dropout=0.1),
    "CNN": partial(
        small_cnn, 10, 3, ((64, 1), (128, 1), (128, 2), (256, 1), (256, 2), (512, 1), (384, 2))
    ),
}


def image_classifier(
    system: str, *, seed: int = 0, systems: dict[str, Callable[[], nn.Module]] = DIGIT_SYSTEMS
) -> nn.Module:
    """An untrained model of one of the systems."""
    torch.manual_seed(seed)
    return systems[system]()


# --- Training and measuring --------------------------------------------------------------------------------

STEPS, SIZE = 400, 64
IMAGES = (50, 200, 600, 1_197)
# Pixels by which the training digits are moved, anew at every step.
MOVED = {"in their place": 0, "moved by up to 1 pixel": 1, "moved by up to 2 pixels": 2}
POSITION_STEPS = 800


def image_loss(model: nn.Module, batch: LabelledImages) -> Float[Tensor, ""]:
    """Cross-entropy of the class."""
    return F.cross_entropy(model(batch.images).float(), batch.labels)


def fit_images(
    model: nn.Module,
    images: LabelledImages,
    *,
    steps: int = STEPS,
    seed: int = 0,
    size: int = SIZE,
    shift: int = 0,
    mirror: bool = False,
    **options,
) -> History:
    """Train for a number of steps, however few the images are.

    Args:
        model: to be trained in place.
        images: to learn from.
        steps: updates in all.
        seed: of the order of the images, of their shifts and of dropout.
        size: images in a batch.
        shift, mirror: as in `ImageBatches`.
        options: passed on to `train`.
    """
    batches = ImageBatches(images, size, seed, shift=shift, mirror=mirror)
    return train(model, image_loss, batches, steps=steps, seed=seed, **options)


@torch.no_grad()
def image_logits(model: nn.Module, images: LabelledImages) -> Float[Tensor, "count classes"]:
    """What a model says of each image, in their order."""
    place = next(model.parameters()).device
    model.eval()
    starts = range(0, len(images.labels), 500)
    parts = [images.take(slice(start, start + 500)).images.to(place) for start in starts]
    return torch.cat([model(part).float().cpu() for part in parts])


def image_accuracy(model: nn.Module, images: LabelledImages) -> float:
    """Share of the images whose class is the most probable one."""
    return (image_logits(model, images).argmax(-1) == images.labels).float().mean().item()


def drawn(images: LabelledImages, count: int, seed: int) -> LabelledImages:
    """`count` of the images; with one seed, a larger draw holds the smaller ones."""
    order = torch.randperm(len(images.labels), generator=torch.Generator().manual_seed(seed))
    return images.take(order[:count])


def warmed_cosine(step: int, *, peak: float, steps: int, warm_up: int) -> float:
    """A learning rate that rises evenly over the first steps, then falls along a cosine to 0.

    Args:
        step: from 1.
        peak: the highest rate, at the end of the warm-up.
        steps: in all.
        warm_up: steps of the rise.
    """
    if step <= warm_up:
        return peak * step / warm_up
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up)))


# --- The tables --------------------------------------------------------------------------------------------


def vit_data(system: str, seed: int) -> dict:
    """Test accuracy on the digits, after equally many steps on few and on more of them."""
    corpus, found = digits_corpus(), {}
    started = time.process_time()
    for count in IMAGES:
        model = image_classifier(system, seed=seed)
        fit_images(model, drawn(corpus.train, count, seed), seed=seed)
        found[str(count)] = round(image_accuracy(model, corpus.test), 4)
    seconds = round(time.process_time() - started, 1)
    return {"parameters": parameters(model), "processor seconds": seconds, "accuracy": found}


def vit_positions(system: str, seed: int) -> dict:
    """Do neighbours among the patches come to have like positions? And how far do the heads look?"""
    corpus, model = digits_corpus(), vit_with_small_positions(seed)
    fit_images(model, corpus.train, steps=POSITION_STEPS, seed=seed, shift=MOVED[system])
    model.cpu()
    with torch.no_grad():
        maps = model.attention_maps(corpus.test.images)
        distances = attention_distance(maps, model.grid, model.patch).mean(-1)
        nearest = nearest_are_neighbours(position_cosines(model.positions, model.grid))
    return {
        "parameters": parameters(model),
        "accuracy": round(image_accuracy(model, corpus.test), 4),
        "nearest are neighbours": round(nearest, 4),
        "distance": {f"layer {i}": round(far, 3) for i, far in enumerate(distances.tolist(), start=1)},
    }


def vit_with_small_positions(seed: int = 0) -> VisionTransformer:
    """The ViT of the digits, untrained, with positions so small that what is seen of them was learned."""
    model = image_classifier("ViT", seed=seed)
    nn.init.normal_(model.positions, std=0.02)  # as in the paper's code
    return model


def cifar10(system: str, seed: int, *, epochs: int = 100, size: int = 128) -> dict:
    """Test accuracy on CIFAR-10, trained on all 50,000 images, shifted by up to 4 pixels and mirrored."""
    corpus = cifar10_corpus(dev=0)
    model = image_classifier(system, seed=seed, systems=CIFAR_SYSTEMS)
    steps = epochs * math.ceil(len(corpus.train.labels) / size)
    rate = partial(warmed_cosine, peak=5e-4, steps=steps, warm_up=max(1, steps // 20))
    fit_images(
        model, corpus.train, steps=steps, seed=seed, size=size, shift=4, mirror=True, learning_rate=rate
    )
    return {"parameters": parameters(model), "accuracy": round(image_accuracy(model, corpus.test), 4)}


EXPERIMENTS = [
    Experiment(
        "vit_data",
        f"Handwritten digits of 8 x 8 pixels, {STEPS} steps on batches of {SIZE} (of all images where there "
        "are fewer); share of 400 test digits that are classified rightly after training on "
        f"{', '.join(map(str, IMAGES))} digits, which each seed draws anew.",
        tuple(DIGIT_SYSTEMS),
        (0, 1, 2),
        vit_data,
    ),
    Experiment(
        "vit_positions",
        f"The ViT of `vit_data`, all 1,197 digits, {POSITION_STEPS} steps, its positions nearly 0 at first, "
        "the digits moved about or not; share of the 16 patches whose most similar other position (cosine) "
        "is that of a patch above, below, left or right (by chance 0.2), and the distance in pixels that a "
        "layer's heads look on the test digits.",
        tuple(MOVED),
        (0, 1, 2),
        vit_positions,
    ),
    Experiment(
        "cifar10",
        "CIFAR-10, 50,000 images to train on, 100 epochs of batches of 128, shifted by up to 4 pixels and "
        "mirrored; share of the 10,000 test images that are classified rightly.",
        tuple(CIFAR_SYSTEMS),
        (0, 1, 2),
        cifar10,
    ),
]
