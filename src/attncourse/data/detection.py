"""Scenes of handwritten digits of different sizes, each with a box; and your own images with boxes.

The digits are divided first, as in `scenes`: no digit of a test scene was ever seen in training. A digit is
enlarged, and its box goes around its ink, so that boxes differ in size and shape.
"""

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attncourse.boxes import Objects, from_corners
from attncourse.data.pairs import Epochs
from attncourse.data.scenes import check_counts, digit_splits, handwritten_digits

SIDE = 48  # pixels of a scene's side
SMALLEST, LARGEST = 8, 16  # pixels of an enlarged digit's side
INK = 0.2  # what is darker belongs to the digit
MOST = 5  # digits in a scene
APART = 2  # pixels of one box that may reach into another
TRIES = 50  # places tried for a digit before the scene goes without it


@dataclass(frozen=True, eq=False)
class BoxedImage:
    """An image and the objects in it.

    Attributes:
        image: (channels, side, side), from 0 to 1.
        objects: their labels and boxes.
    """

    image: Float[Tensor, "channels side side"] = field(repr=False)
    objects: Objects


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

    def to(self, device: torch.device | str) -> "BoxedBatch":
        """The same batch on another device."""
        return BoxedBatch(self.images.to(device), tuple(shown.to(device) for shown in self.objects))


@dataclass(frozen=True, repr=False)
class BoxedCorpus:
    """Images to learn from, to choose settings by, and to report on, and the names of the labels."""

    train: Sequence[BoxedImage]
    dev: Sequence[BoxedImage]
    test: Sequence[BoxedImage]
    names: tuple[str, ...]

    def __repr__(self) -> str:
        images = ", ".join(f"{len(getattr(self, part)):,} {part}" for part in ("train", "dev", "test"))
        return f"BoxedCorpus: {images} images; {len(self.names)} classes"


class BoxedBatches:
    """The batches of a training run; they depend on the seed and the step alone.

    Args:
        images: at least one, all of one size.
        size: images in a batch.
        seed: a non-negative integer.
    """

    def __init__(self, images: Sequence[BoxedImage], size: int = 32, seed: int = 0):
        if not len(images):
            raise ValueError("images is empty: batches need at least one image")
        self.images = images
        self._epochs = Epochs([[0] * len(images)], size, seed)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self._epochs)

    def __getitem__(self, step: int) -> BoxedBatch:
        return collate_boxed([self.images[row] for row in self._epochs.rows(step)])

    def __iter__(self) -> Iterator[BoxedBatch]:
        return (self[step] for step in range(len(self)))


def collate_boxed(images: Sequence[BoxedImage]) -> BoxedBatch:
    """One batch of these images, in this order.

    Raises:
        ValueError: no images, or images of different sizes.
    """
    if not len(images):
        raise ValueError("images is empty: a batch needs at least one image")
    sizes = sorted({tuple(boxed.image.shape) for boxed in images})
    if len(sizes) > 1:
        raise ValueError(f"images has images of sizes {sizes[0]} and {sizes[1]}: a batch needs one size")
    pixels = torch.stack([boxed.image for boxed in images])
    return BoxedBatch(pixels, tuple(boxed.objects for boxed in images))


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
    check_counts(train, dev, test)
    split, parts = digit_splits(seed), {}
    for part, count in {"train": train, "dev": dev, "test": test}.items():
        draw = random.Random(f"{seed} boxed {part}")
        parts[part] = [boxed_scene(split[part], draw) for _ in range(count)]
    return BoxedCorpus(**parts, names=tuple(str(value) for value in range(10)))


def coco_images(
    annotations: str | Path, folder: str | Path, *, side: int = SIDE, grey: bool = False
) -> tuple[list[BoxedImage], tuple[str, ...]]:
    """Your own images with boxes, from a file of annotations in COCO's format ("instances").

    Each image is squeezed or stretched to a square; a box, which is a share of the image, stays as it is. A
    box that reaches outside the image is cut off there; what has no area then, and groups marked as crowds,
    are left out. COCO's category ids may have gaps: ours are counted from 0, in the order of theirs.

    Args:
        annotations: a JSON file with "images", "annotations" and "categories".
        folder: where the images lie, under the names that the file gives.
        side: of the squares, in pixels.
        grey: one channel instead of three.

    Returns:
        The images, in the order of the file, and the names of the labels.

    Raises:
        ValueError: not such a file, an annotation of an image or a category that the file does not name, or
            one whose box is not four numbers.
        FileNotFoundError: an image is not in the folder.
    """
    try:
        marks_of, label_of, names = _read_annotations(Path(annotations))
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(f"annotations {annotations} is not a COCO file of instances, a JSON object with "
                         f"images, annotations and categories ({error!r})") from error
    boxed = [_read_image(Path(folder) / name, marks, label_of, side, grey) for name, marks in marks_of]
    return boxed, names


def _read_annotations(path: Path) -> tuple[list[tuple[str, list[dict]]], dict[int, int], tuple[str, ...]]:
    """Each image's file with its annotations, the label of each category id, and the labels' names."""
    parts = json.loads(path.read_text("utf8"))
    images, marks, categories = (parts[name] for name in ("images", "annotations", "categories"))
    categories = sorted(categories, key=lambda category: category["id"])
    label_of = {category["id"]: label for label, category in enumerate(categories)}
    marks_of: dict[int, list[dict]] = {image["id"]: [] for image in images}
    for mark in marks:
        if mark["image_id"] not in marks_of or mark["category_id"] not in label_of:
            raise ValueError(f"annotations {path}: the annotation {mark.get('id')} names image "
                             f"{mark['image_id']} and category {mark['category_id']}; it must list both")
        if len(mark["bbox"]) != 4:
            raise ValueError(f"annotations {path}: the annotation {mark.get('id')} has the bbox "
                             f"{mark['bbox']}; it must be (left, top, width, height)")
        marks_of[mark["image_id"]].append(mark)
    files = [(image["file_name"], marks_of[image["id"]]) for image in images]
    return files, label_of, tuple(category["name"] for category in categories)


def _read_image(path: Path, marks: list[dict], label_of: dict[int, int], side: int, grey: bool) -> BoxedImage:
    from PIL import Image  # only who brings images needs it

    with Image.open(path) as opened:
        width, height = opened.size
        pixels = np.array(opened.convert("L" if grey else "RGB").resize((side, side)), dtype=np.float32) / 255
    left, top, across, down = torch.tensor([mark["bbox"] for mark in marks]).reshape(-1, 4).float().unbind(-1)
    size = torch.tensor([width, height, width, height])
    corners = (torch.stack([left, top, left + across, top + down], dim=-1) / size).clamp(0, 1)
    labels = torch.tensor([label_of[mark["category_id"]] for mark in marks], dtype=torch.long)
    crowds = torch.tensor([bool(mark.get("iscrowd")) for mark in marks], dtype=torch.bool)
    real = (corners[:, 2:] > corners[:, :2]).all(-1) & ~crowds
    image = torch.from_numpy(pixels)[None] if grey else torch.from_numpy(pixels).permute(2, 0, 1)
    return BoxedImage(image, Objects(labels[real], from_corners(corners[real])))
