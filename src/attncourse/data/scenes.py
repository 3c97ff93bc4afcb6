"""Small scenes of real handwritten digits, with captions that name each digit and say where it lies.

The 1,797 digits of scikit-learn are divided first, and scenes composed afterwards: no digit of a test scene
was ever seen in training. Each scene knows the box of every digit and the word of the caption that
names it, so it can be checked whether a model looks at what it speaks of.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import NamedTuple

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from attncourse.data.batches import Batches
from attncourse.data.corpora import ThreeParts, check_counts, check_some
from attncourse.data.pairs import shifted
from attncourse.data.vocabulary import Vocabulary
from attncourse.devices import to_device

DIGIT = 8  # pixels of a digit's side
SIZE = 32  # pixels of a scene's side
NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
# Nine places in reading order. Each is a square of 10 pixels, in which a digit may move by 2.
PLACES = (
    "at the top left", "at the top", "at the top right",
    "on the left", "in the middle", "on the right",
    "at the bottom left", "at the bottom", "at the bottom right",
)
STARTS, FREEDOM = (0, 11, 22), 2
DEV_DIGITS, TEST_DIGITS = 200, 400


class Box(NamedTuple):
    """A rectangle in pixels; `bottom` and `right` are the first row and column outside it."""

    top: int
    left: int
    bottom: int
    right: int

    def cells(self, size: int, grid: int) -> frozenset[int]:
        """The cells of a grid over the scene that the box covers, in whole or in part, counted by row."""
        side = size / grid
        rows = [i for i in range(grid) if self.top < (i + 1) * side and i * side < self.bottom]
        columns = [i for i in range(grid) if self.left < (i + 1) * side and i * side < self.right]
        return frozenset(row * grid + column for row in rows for column in columns)


class Digit(NamedTuple):
    """A digit in a scene: which one, where, and which sample of scikit-learn's collection it is."""

    value: int
    box: Box
    sample: int


@dataclass(frozen=True, eq=False)
class Scene:
    """An image, its caption, and the truth about both.

    Attributes:
        image: (1, size, size), from 0 for the background to 1 for ink.
        digits: in the order in which the caption names them.
        caption: its words.
        named: for each digit the index of the caption's word that names it.
    """

    image: Float[Tensor, "1 size size"] = field(repr=False)
    digits: tuple[Digit, ...]
    caption: tuple[str, ...]
    named: tuple[int, ...]

    def cells(self, grid: int) -> dict[int, frozenset[int]]:
        """For each word that names a digit, by its index: the cells of a grid that lie on that digit."""
        size = self.image.shape[-1]
        return {
            word: digit.box.cells(size, grid) for word, digit in zip(self.named, self.digits, strict=True)
        }


@dataclass(frozen=True, repr=False)
class SceneCorpus(ThreeParts):
    """Scenes to learn from, to choose settings by, and to report on, and the captions' vocabulary."""

    train: Sequence[Scene]
    dev: Sequence[Scene]
    test: Sequence[Scene]
    vocabulary: Vocabulary
    name: str = "scenes"

    def _holds(self) -> str:
        return f"scenes; a vocabulary of {len(self.vocabulary)} tokens"


class SceneBatch(NamedTuple):
    """Scenes as tensors. Captions are padded and shifted as the targets of a `Batch` are.

    `present` tells for each of the ten digits whether the scene holds it: all that is known of an image
    which only has labels.
    """

    images: Float[Tensor, "batch 1 size size"]
    present: Float[Tensor, "batch 10"]
    target_in: Int64[Tensor, "batch target"]
    target_out: Int64[Tensor, "batch target"]
    target_lengths: Int64[Tensor, " batch"]

    to = to_device


def collate_scenes(scenes: Sequence[Scene], vocabulary: Vocabulary) -> SceneBatch:
    """One batch of these scenes, in this order.

    Raises:
        ValueError: no scenes.
    """
    check_some(scenes=scenes)
    present = torch.zeros(len(scenes), len(NAMES))
    for row, scene in enumerate(scenes):
        present[row, [digit.value for digit in scene.digits]] = 1.0
    images = torch.stack([scene.image for scene in scenes])
    return SceneBatch(images, present, *shifted([vocabulary.encode(scene.caption) for scene in scenes]))


def scene_batches(scenes: Sequence[Scene], vocabulary: Vocabulary, size: int = 32, seed: int = 0) -> Batches:
    """The batches of a training run on scenes; captions of similar length share one.

    Raises:
        ValueError: no scenes, a size below 1, or a negative seed.
    """
    check_some(scenes=scenes)
    lengths = [[len(scene.caption) for scene in scenes]]
    return Batches(scenes, partial(collate_scenes, vocabulary=vocabulary), size, seed, lengths=lengths)


@cache
def handwritten_digits() -> tuple[Float[Tensor, "samples 8 8"], tuple[int, ...]]:
    """scikit-learn's 1,797 digits as images from 0 to 1, and their values (Alpaydin and Kaynak 1998)."""
    from sklearn.datasets import load_digits  # takes a second to import

    found = load_digits()
    return torch.tensor(found.images, dtype=torch.float32) / 16, tuple(found.target.tolist())


def digit_splits(seed: int = 0) -> dict[str, list[int]]:
    """The samples of `handwritten_digits` divided into "train", "dev" (200) and "test" (400).

    Raises:
        ValueError: a negative seed.
    """
    check_counts(0, seed=seed)
    order = list(range(len(handwritten_digits()[1])))
    random.Random(f"{seed} digits").shuffle(order)
    held_out = DEV_DIGITS + TEST_DIGITS
    return {"train": order[held_out:], "dev": order[:DEV_DIGITS], "test": order[DEV_DIGITS:held_out]}


def compose(corners: Sequence[tuple[int, int]], samples: Sequence[int], size: int) -> tuple[Tensor, list]:
    """An image of `size` pixels with each sample's top left corner at its (row, column), and the digits.

    Ink that falls on ink keeps the darker of both.
    """
    images, values = handwritten_digits()
    image, digits = torch.zeros(1, size, size), []
    for (top, left), sample in zip(corners, samples, strict=True):
        box = Box(top, left, top + DIGIT, left + DIGIT)
        under = image[0, box.top : box.bottom, box.left : box.right]
        under.copy_(torch.maximum(under, images[sample]))
        digits.append(Digit(values[sample], box, sample))
    return image, digits


def describe(values: Sequence[int], places: Sequence[str]) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """The caption of digits at named places, and the index of each word that names a digit.

    >>> " ".join(describe([8, 2], ["at the top", "in the middle"])[0])
    'an eight at the top and a two in the middle'
    """
    words, named = [], []
    for position, (value, place) in enumerate(zip(values, places, strict=True)):
        if position:
            words.append("and" if position == len(values) - 1 else ",")
        words.append("an" if NAMES[value] == "eight" else "a")
        named.append(len(words))
        words += [NAMES[value], *place.split()]
    return tuple(words), tuple(named)


def make_scenes(count: int, samples: Sequence[int], seed: int | str, *, most: int = 3) -> list[Scene]:
    """`count` scenes of 1 to `most` digits in different places, captioned in reading order.

    Args:
        samples: the digits to draw from, such as `digit_splits()["test"]`.
        seed: a number or a text; another seed, other scenes.
        most: digits in a scene; 1 to `most` are equally frequent.

    Raises:
        ValueError: a negative count, no samples, or more digits than places.
    """
    check_counts(0, count=count)
    check_some(samples=samples)
    if not 1 <= most <= len(PLACES):
        raise ValueError(f"most is {most}: a scene has 1 to {len(PLACES)} places")
    draw = random.Random(seed)
    return [_scene(draw, samples, draw.randint(1, most)) for _ in range(count)]


def _scene(draw: random.Random, samples: Sequence[int], number: int) -> Scene:
    places = sorted(draw.sample(range(len(PLACES)), number))
    corners = [tuple(STARTS[i] + draw.randint(0, FREEDOM) for i in divmod(place, 3)) for place in places]
    image, digits = compose(corners, draw.choices(samples, k=number), SIZE)
    caption, named = describe([digit.value for digit in digits], [PLACES[place] for place in places])
    return Scene(image, tuple(digits), caption, named)


def scene_corpus(train: int = 8_000, *, dev: int = 300, test: int = 1_000, seed: int = 0) -> SceneCorpus:
    """Captioned scenes of 1 to 3 digits on 32 x 32 pixels; the three parts share no digit sample.

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
    split = digit_splits(seed)
    parts = {
        part: make_scenes(count, split[part], f"{seed} {part}")
        for part, count in {"train": train, "dev": dev, "test": test}.items()
    }
    # Every word of the grammar, however small the corpus.
    words = [["a", "an", "and", ","], NAMES, *(place.split() for place in PLACES)]
    return SceneCorpus(**parts, vocabulary=Vocabulary.from_sentences(words))
