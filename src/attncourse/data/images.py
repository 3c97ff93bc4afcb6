"""Images with one label each, their batches, and the real handwritten digits as such a collection."""

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torch.nn import functional as F

from attncourse.data.batches import Batches
from attncourse.data.corpora import ThreeParts, check_counts, check_some
from attncourse.data.scenes import NAMES, digit_splits, handwritten_digits
from attncourse.devices import to_device


class LabelledImages(NamedTuple):
    """Images and the number of each one's class.

    Shapes: images (count, channels, height, width), floating-point numbers, or bytes where many must fit into
    memory; labels (count,).
    """

    images: Float[Tensor, "count channels height width"] | UInt8[Tensor, "count channels height width"]
    labels: Int64[Tensor, " count"]

    to = to_device

    def take(self, rows) -> "LabelledImages":
        """Some of the images: a slice, or a list of rows. Bytes become numbers from -1 to 1."""
        images = self.images[rows]
        if images.dtype == torch.uint8:
            images = images.float() / 127.5 - 1
        return LabelledImages(images, self.labels[rows])


@dataclass(frozen=True, repr=False)
class ImageCorpus(ThreeParts):
    """Images to learn from, to choose settings by, and to report on, and the names of the classes."""

    name: str
    train: LabelledImages
    dev: LabelledImages
    test: LabelledImages
    classes: tuple[str, ...]

    @staticmethod
    def _count(part: LabelledImages) -> int:
        return len(part.labels)

    def _holds(self) -> str:
        channels, height, width = self.train.images.shape[1:]
        return (f"images of {height} x {width} pixels in {channels} channel(s); {len(self.classes)} classes")


def image_batches(
    images: LabelledImages, size: int = 64, seed: int = 0, *, shift: int = 0, mirror: bool = False
) -> Batches:
    """The batches of a training run on images.

    Args:
        images: at least one.
        size: images in a batch.
        seed: a non-negative integer.
        shift: move each image by up to so many pixels in both directions, drawn anew at every step; what
            comes in is 0.
        mirror: turn left and right round in half of the images.

    Raises:
        ValueError: no images, images without labels, a size below 1, or a negative seed or shift.
    """
    check_some(images=images.labels)
    check_counts(0, shift=shift)
    if len(images.images) != len(images.labels):
        raise ValueError(f"images has {len(images.images)} images and {len(images.labels)} labels: it must "
                         "have one label for each image")
    augment = partial(_augmented, shift=shift, mirror=mirror) if shift or mirror else None
    return Batches(range(len(images.labels)), images.take, size, seed, augment=augment)


def _augmented(
    batch: LabelledImages, random: np.random.Generator, shift: int, mirror: bool
) -> LabelledImages:
    images, labels = batch
    if shift:
        images = moved(images, random.integers(-shift, shift + 1, (len(labels), 2)))
    if mirror:
        turned = torch.from_numpy(random.random(len(labels)) < 0.5)
        images = torch.where(turned[:, None, None, None], images.flip(-1), images)
    return LabelledImages(images, labels)


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
