"""Scenes of handwritten digits of different sizes, each with a box: the images with boxes of chapter 10.

The digits are divided first, as in `scenes`: no digit of a test scene was ever seen in training. A digit is
enlarged, and its box goes around its ink, so that boxes differ in size and shape.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attncourse.boxes import Objects, from_corners
from attncourse.data.batches import Batches
from attncourse.data.corpora import ThreeParts, check_counts, check_some
from attncourse.data.scenes import digit_splits, handwritten_digits
from attncourse.devices import to_device

SIDE = 48  # pixels of a scene's side
SMALLEST, LARGEST = 8, 16  # pixels of an enlarged digit's side
INK = 0.2  # what is darker belongs to the digit
MOST = 5  # digits in a scene
APART = 2  # pixels of one box that may reach into another
ROUNDING = 1e-4  # by which a share of the image may miss the range from 0 to 1
TRIES = 50  # places tried for a digit before the scene goes without it


@dataclass(frozen=True, eq=False)
class BoxedImage:
    """An image and the objects in it.

    Attributes:
        image: (channels, side, side), from 0 to 1.
        objects: their labels and boxes.

    Raises:
        ValueError: an image without channels, another number of labels than of boxes, a negative label, or a
            box that is not four shares of the image.
    """

    image: Float[Tensor, "channels side side"] = field(repr=False)
    objects: Objects

    def __post_init__(self):
        labels, boxes = self.objects
        if self.image.dim() != 3:
            raise ValueError(f"image has shape {tuple(self.image.shape)}: it must be (channels, side, side)")
        if boxes.shape != (len(labels), 4):
            raise ValueError(f"objects has {len(labels)} labels and boxes of shape {tuple(boxes.shape)}: "
                             "each label needs one box, (cx, cy, w, h)")
        for label, box in zip(labels.tolist(), boxes.tolist(), strict=True):
            if label < 0 or not all(-ROUNDING <= share <= 1 + ROUNDING for share in box):
                raise ValueError(f"objects has the label {label} at {box}: labels are counted from 0, and a "
                                 "box is (cx, cy, w, h) as shares of the image, 0 to 1; is it in pixels?")


class BoxedBatch(NamedTuple):
    """Images as one tensor, and the objects of each."""

    images: Float[Tensor, "batch channels side side"]
    objects: tuple[Objects, ...]

    def present(self, classes: int) -> Float[Tensor, "batch classes"]:
        """1 where an image shows a class, and 0: all that is known of an image which only has labels."""
        present = torch.zeros(len(self.images), classes, device=self.images.device)
        for row, shown in enumerate(self.objects):
            present[row, shown.labels] = 1.0
        return present

    to = to_device


@dataclass(frozen=True, repr=False)
class BoxedCorpus(ThreeParts):
    """Images to learn from, to choose settings by, and to report on, and the names of the labels."""

    train: Sequence[BoxedImage]
    dev: Sequence[BoxedImage]
    test: Sequence[BoxedImage]
    names: tuple[str, ...]

    def _holds(self) -> str:
        return f"images; {len(self.names)} classes"


def collate_boxed(images: Sequence[BoxedImage]) -> BoxedBatch:
    """One batch of these images, in this order.

    Raises:
        ValueError: no images, or images of different sizes.
    """
    check_some(images=images)
    sizes = sorted({tuple(boxed.image.shape) for boxed in images})
    if len(sizes) > 1:
        raise ValueError(f"images has images of sizes {sizes[0]} and {sizes[1]}: a batch needs one size")
    pixels = torch.stack([boxed.image for boxed in images])
    return BoxedBatch(pixels, tuple(boxed.objects for boxed in images))


def boxed_batches(images: Sequence[BoxedImage], size: int = 32, seed: int = 0) -> Batches:
    """The batches of a training run on images with boxes, all of one size.

    Raises:
        ValueError: no images, a size below 1, or a negative seed.
    """
    check_some(images=images)
    return Batches(images, collate_boxed, size, seed)


@cache
def enlarged_digits(side: int) -> tuple[Float[Tensor, "samples side side"], list[tuple[int, int, int, int]]]:
    """Every handwritten digit at this size, and the corners (left, top, right, bottom) of its ink."""
    small, _ = handwritten_digits()
    images = F.interpolate(small[:, None], size=side, mode="bilinear").squeeze(1)
    across, down = ((images > INK).any(dim) for dim in (1, 2))
    ends = [line.int().argmax(-1) for line in (across, down)]
    ends += [side - line.flip(-1).int().argmax(-1) for line in (across, down)]
    return images, list(zip(*(end.tolist() for end in ends), strict=True))


def boxed_scene(samples: Sequence[int], draw: random.Random, most: int = MOST) -> BoxedImage:
    """A scene of 1 to `most` of the digits `samples`, each of a size and at a place of its own."""
    image, corners, labels = torch.zeros(1, SIDE, SIDE), [], []
    for sample in draw.choices(samples, k=draw.randint(1, most)):
        side = draw.randint(SMALLEST, LARGEST)
        digits, ink = enlarged_digits(side)
        for _ in range(TRIES):
            column, row = draw.randint(0, SIDE - side), draw.randint(0, SIDE - side)
            left, top, right, bottom = ink[sample]
            box = (column + left, row + top, column + right, row + bottom)
            if not any(_meet(box, other) for other in corners):
                under = image[0, row : row + side, column : column + side]
                under.copy_(torch.maximum(under, digits[sample]))
                corners.append(box)
                labels.append(handwritten_digits()[1][sample])
                break
    boxes = from_corners(torch.tensor(corners, dtype=torch.float32)) / SIDE
    return BoxedImage(image, Objects(torch.tensor(labels), boxes))


def _meet(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether two boxes, as corners, reach more than `APART` pixels into each other both ways."""
    across = min(a[2], b[2]) - max(a[0], b[0])
    down = min(a[3], b[3]) - max(a[1], b[1])
    return across > APART and down > APART


def boxed_scenes(train: int = 8_000, *, dev: int = 300, test: int = 1_000, seed: int = 0) -> BoxedCorpus:
    """Scenes of 1 to 5 digits with their boxes, 48 x 48 pixels; the three parts share no digit sample.

    Args:
        train: number of training scenes.
        dev: number of dev scenes.
        test: number of test scenes.
        seed: another seed, another division of the digits and other scenes.

    Raises:
        ValueError: a number out of range.
    """
    check_counts(1, train=train)
    check_counts(0, dev=dev, test=test, seed=seed)
    split, parts = digit_splits(seed), {}
    for part, count in {"train": train, "dev": dev, "test": test}.items():
        draw = random.Random(f"{seed} boxed {part}")
        parts[part] = [boxed_scene(split[part], draw) for _ in range(count)]
    return BoxedCorpus(**parts, names=tuple(str(value) for value in range(10)))
