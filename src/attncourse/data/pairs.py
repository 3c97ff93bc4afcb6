"""Pairs of a source and a target, and how they become padded batches.

A source carries no start or end symbol. A target is wanted twice, shifted by one: `target_in` begins with
START and is what the decoder reads, `target_out` finishes with END and is what it must say.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil
from operator import index
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from attncourse.data.vocabulary import END, PAD, START, Vocabulary

# Pools of this many batches are sorted by length: little padding, and batches still mixed well.
POOL = 50


class Alignment(NamedTuple):
    """Which source word belongs to which target word: sets of (source index, target index).

    `sure` links must be found; `possible` ones, which include the sure, may be (Och and Ney 2003).
    """

    sure: frozenset[tuple[int, int]]
    possible: frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Pair:
    """A source and its target, as tokens; either may be empty.

    Attributes:
        source: tokens of the source.
        target: tokens of the target that a model is trained on.
        alignment: gold links, where they are known.
        references: every accepted target; the target alone where none are given.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: Alignment | None = None
    references: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self):
        if {type(self.source), type(self.target), type(self.references)} != {tuple}:
            given = [type(value).__name__ for value in (self.source, self.target, self.references)]
            raise TypeError(
                f"source, target and references must be tuples, not {', '.join(given)}: use tuple(...)"
            )
        if not self.references:
            object.__setattr__(self, "references", (self.target,))
        if self.alignment is not None:
            self._check_alignment(self.alignment)

    def _check_alignment(self, alignment: Alignment) -> None:
        if not alignment.sure <= alignment.possible:
            missing = sorted(alignment.sure - alignment.possible)
            raise ValueError(f"alignment: every sure link must also be possible, but {missing} are not")
        sources, targets = len(self.source), len(self.target)
        for i, j in alignment.possible:
            if not (0 <= i < sources and 0 <= j < targets):
                raise ValueError(
                    f"alignment has the link {(i, j)}, outside {sources} source and {targets} target tokens"
                )


@dataclass(frozen=True, repr=False)
class Corpus:
    """Pairs to learn from, to choose settings by, and to report on, with their vocabularies."""

    name: str
    train: Sequence[Pair]
    dev: Sequence[Pair]
    test: Sequence[Pair]
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary

    def __repr__(self) -> str:
        pairs = ", ".join(f"{len(getattr(self, part)):,} {part}" for part in ("train", "dev", "test"))
        source, target = len(self.source_vocabulary), len(self.target_vocabulary)
        return f"Corpus {self.name!r}: {pairs} pairs; vocabularies of {source:,} and {target:,} tokens"


class Batch(NamedTuple):
    """Pairs as padded tensors; row i is the i-th pair, and padding is PAD, always at the right.

    Without padding, a target y1 y2 is `target_in` = START y1 y2 and `target_out` = y1 y2 END, so that
    `target_lengths` counts the END.
    """

    source: Int64[Tensor, "batch source"]
    source_lengths: Int64[Tensor, " batch"]
    target_in: Int64[Tensor, "batch target"]
    target_out: Int64[Tensor, "batch target"]
    target_lengths: Int64[Tensor, " batch"]

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return Batch(*(tensor.to(device) for tensor in self))


def collate(pairs: Sequence[Pair], source_vocabulary: Vocabulary, target_vocabulary: Vocabulary) -> Batch:
    """One batch of these pairs, in this order. Sources and targets may be empty.

    If every source is empty, `source` has no columns.

    Raises:
        ValueError: no pairs.
    """
    if not len(pairs):
        raise ValueError("pairs is empty: a batch needs at least one pair")
    return _assemble(
        [source_vocabulary.encode(pair.source) for pair in pairs],
        [target_vocabulary.encode(pair.target) for pair in pairs],
    )


class Batches:
    """The batches of a training run: `batches[step]` depends on the seed and the step, on nothing else.

    So a run that resumes at step k sees what it would have seen, and drawing a batch leaves torch's own
    random numbers alone. Each epoch of `len(batches)` steps holds every pair once, in a new order; pairs of
    similar length share a batch. The last batch of the pairs may be smaller. Iterating gives one epoch, the
    first: a pass over every pair, for evaluation.

    Args:
        pairs: at least one pair. They are encoded once, here.
        size: pairs in a batch.
        seed: a non-negative integer.
    """

    def __init__(
        self,
        pairs: Sequence[Pair],
        source_vocabulary: Vocabulary,
        target_vocabulary: Vocabulary,
        size: int = 32,
        seed: int = 0,
    ):
        if not len(pairs):
            raise ValueError("pairs is empty: batches need at least one pair")
        self._sources = [source_vocabulary.encode(pair.source) for pair in pairs]
        self._targets = [target_vocabulary.encode(pair.target) for pair in pairs]
        lengths = [[len(row) for row in rows] for rows in (self._targets, self._sources)]
        self._epochs = Epochs(lengths, size, seed)

    def __len__(self) -> int:
        """Batches in an epoch."""
        return len(self._epochs)

    def __getitem__(self, step: int) -> Batch:
        rows = self._epochs.rows(step)
        return _assemble([self._sources[row] for row in rows], [self._targets[row] for row in rows])

    def __iter__(self) -> Iterator[Batch]:
        return (self[step] for step in range(len(self)))


class Epochs:
    """Which rows make up the batch of each step: every row once an epoch, rows of similar length together.

    Args:
        lengths: one list or several, each with a length for every row; the last one matters most.
        size: rows in a batch.
        seed: a non-negative integer.
    """

    def __init__(self, lengths: Sequence[Sequence[int]], size: int, seed: int):
        if size < 1:
            raise ValueError(f"size must be 1 or more, not {size}")
        if seed < 0:
            raise ValueError(f"seed must be 0 or more, not {seed}")
        self.size, self.seed = size, seed
        self._lengths = np.array(lengths)
        self._epoch, self._plan = -1, []

    def __len__(self) -> int:
        """Batches in an epoch."""
        return ceil(self._lengths.shape[1] / self.size)

    def rows(self, step: int) -> np.ndarray:
        """The rows of the batch of this step."""
        step = index(step)
        if step < 0:
            raise IndexError(f"step must be 0 or more, not {step}")
        epoch, position = divmod(step, len(self))
        if epoch != self._epoch:
            self._epoch, self._plan = epoch, self._shuffled(epoch)
        return self._plan[position]

    def _shuffled(self, epoch: int) -> list[np.ndarray]:
        """The rows of each batch of an epoch: shuffle, sort the pools by length, cut, shuffle the batches."""
        random = np.random.default_rng((self.seed, epoch))
        order = random.permutation(self._lengths.shape[1])
        pool = np.arange(len(order)) // (POOL * self.size)
        order = order[np.lexsort((*self._lengths[:, order], pool))]
        return [order[i * self.size : (i + 1) * self.size] for i in random.permutation(len(self))]


def _assemble(sources: list[list[int]], targets: list[list[int]]) -> Batch:
    return Batch(*_padded(sources), *shifted(targets))


def shifted(
    targets: list[list[int]],
) -> tuple[Int64[Tensor, "batch target"], Int64[Tensor, "batch target"], Int64[Tensor, " batch"]]:
    """Targets as `target_in`, `target_out` and `target_lengths` of a batch."""
    target_in, _ = _padded([[START, *target] for target in targets])
    return target_in, *_padded([[*target, END] for target in targets])


def _padded(rows: list[list[int]]) -> tuple[Int64[Tensor, "batch length"], Int64[Tensor, " batch"]]:
    lengths = [len(row) for row in rows]
    width = max(lengths)
    filled = [row + [PAD] * (width - len(row)) for row in rows]
    return torch.tensor(filled, dtype=torch.int64), torch.tensor(lengths, dtype=torch.int64)
