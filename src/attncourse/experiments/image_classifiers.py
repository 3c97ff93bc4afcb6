"""How many images a Vision Transformer needs, beside a CNN and a plain network.

The digits take seconds. CIFAR-10 is a recipe for a machine with a GPU: `attncourse results cifar10`.
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.data import LabelledImages, image_batches
from attncourse.models import VisionTransformer
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


def behind_a_convolution(
    channels: int, features: int, build: Callable[..., nn.Module], **options
) -> nn.Sequential:
    """A model that reads the features of one convolution, not the pixels; `options` are its own."""
    return nn.Sequential(convolution(channels, features), build(channels=features, **options))


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
        shift, mirror: as in `image_batches`.
        options: passed on to `train`.
    """
    batches = image_batches(images, size, seed, shift=shift, mirror=mirror)
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


def vit_with_small_positions(seed: int = 0) -> VisionTransformer:
    """The ViT of the digits, untrained, with positions so small that what is seen of them was learned."""
    return small_positions(image_classifier("ViT", seed=seed))


def small_positions(model: VisionTransformer) -> VisionTransformer:
    """The model with its positions drawn anew, nearly 0."""
    nn.init.normal_(model.positions, std=0.02)  # as in the paper's code
    return model
