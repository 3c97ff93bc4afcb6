"""Images with one label each, their batches, and the real handwritten digits as such a collection."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torch.nn import functional as F

from attncourse.data.pairs import Epochs
from attncourse.data.scenes import NAMES, digit_splits, handwritten_digits


class LabelledImages(NamedTuple):
    """Images and the number of each one's class.

    Shapes: images (count, channels, height, width), floating-point numbers, or bytes where many must fit into
    memory; labels (count,).
    """

    images: Float[Tensor, "count channels height width"] | UInt8[Tensor, "count channels height width"]
    labels: Int64[Tensor, " count"]

    def to(self, device: torch.device | str) -> "LabelledImages":
        """The same images on another device."""
        return LabelledImages(*(tensor.to(device) for tensor in self))

    def take(self, rows) -> "LabelledImages":
        """Some of the images: a slice, or a list of rows. Bytes become numbers from -1 to 1."""
        images = self.images[rows]
        if images.dtype == torch.uint8:
            images = images.float() / 127.5 - 1
        return LabelledImages(images, self.labels[rows])


@dataclass(frozen=True, repr=False)
class ImageCorpus:
    """Images to learn from, to choose settings by, and to report on, and the names of the classes."""

    name: str
    train: LabelledImages
    dev: LabelledImages
    test: LabelledImages
    classes: tuple[str, ...]

    def __repr__(self) -> str:
        images = ", ".join(f"{len(getattr(self, part).labels):,} {part}" for part in ("train", "dev", "test"))
        channels, height, width = self.train.images.shape[1:]
        return (f"ImageCorpus {self.name!r}: {images} images of {height} x {width} pixels in {channels} "
                f"channel(s); {len(self.classes)} classes")


class ImageBatches:
    """The batches of a training run on images; like `Batches`, they depend on the seed and the step alone.

    Args:
        images: at least one.
        size: images in a batch.
        seed: a non-negative integer.
        shift: move each image by up to so many pixels in both directions, drawn anew at every step; what
            comes in is 0.
        mirror: turn left and right round in half of the images.

    Raises:
        ValueError: no images, a size below 1, or a negative seed or shift.
    """

    def __init__(
        self, images: LabelledImages, size: int = 64, seed: int = 0, *, shift: int = 0, mirror: bool = False
    ):
        if not len(images.labels):
            raise ValueError("images is empty: batches need at least one image")
        if shift < 0:
            raise ValueError(f"shift is {shift}: it may not be negative")
        self.images, self.seed, self.shift, self.mirror = images, seed, shift, mirror
        self._epochs = Epochs([[0] * len(images.labels)], size, seed)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self._epochs)

    def __getitem__(self, step: int) -> LabelledImages:
        images, labels = self.images.take(torch.from_numpy(self._epochs.rows(step)))
        draw = np.random.default_rng((self.seed, step, 1))  # the 1: not the numbers that shuffle the epochs
        if self.shift:
            images = moved(images, draw.integers(-self.shift, self.shift + 1, (len(labels), 2)))
        if self.mirror:
            turned = torch.from_numpy(draw.random(len(labels)) < 0.5)
            images = torch.where(turned[:, None, None, None], images.flip(-1), images)
        return LabelledImages(images, labels)

    def __iter__(self) -> Iterator[LabelledImages]:
        return (self[step] for step in range(len(self)))


def moved(
    images: Float[Tensor, "count channels height width"], by: np.ndarray
) -> Float[Tensor, "count channels height width"]:
    """Each image moved down and to the right by its own number of pixels, (count, 2); what comes in is 0."""
    height, width = images.shape[-2:]
    most = int(np.abs(by).max())
    down, right = torch.from_numpy(most - by).unbind(-1)
    rows = (down[:, None] + torch.arange(height))[:, :, None]
    columns = (right[:, None] + torch.arange(width))[:, None]
    padded = F.pad(images, (most, most, most, most)).permute(0, 2, 3, 1)
    return padded[torch.arange(len(images))[:, None, None], rows, columns].permute(0, 3, 1, 2).contiguous()


def digits_corpus(seed: int = 0) -> ImageCorpus:
    """scikit-learn's 1,797 handwritten digits, 8 x 8 pixels: 1,197 to train on, 200 dev, 400 test.

    Args:
        seed: another seed, another division.
    """
    images, values = handwritten_digits()
    labels = torch.tensor(values)
    parts = {
        part: LabelledImages(images[rows].unsqueeze(1), labels[rows])
        for part, rows in digit_splits(seed).items()
    }
    return ImageCorpus("digits", **parts, classes=NAMES)
