"""Pairs of a source and a target, and how they become padded batches.

A source carries no start or end symbol. A target is wanted twice, shifted by one: `target_in` begins with
START and is what the decoder reads, `target_out` finishes with END and is what it must say.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from attncourse.data.batches import Batches
from attncourse.data.corpora import ThreeParts, check_some
from attncourse.data.vocabulary import END, PAD, START, Vocabulary
from attncourse.devices import to_device


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
class Corpus(ThreeParts):
    """Pairs to learn from, to choose settings by, and to report on, with their vocabularies."""

    name: str
    train: Sequence[Pair]
    dev: Sequence[Pair]
    test: Sequence[Pair]
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary

    def _holds(self) -> str:
        source, target = len(self.source_vocabulary), len(self.target_vocabulary)
        return f"pairs; vocabularies of {source:,} and {target:,} tokens"


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

    to = to_device


def collate(pairs: Sequence[Pair], source_vocabulary: Vocabulary, target_vocabulary: Vocabulary) -> Batch:
    """One batch of these pairs, in this order. Sources and targets may be empty.

    If every source is empty, `source` has no columns.

    Raises:
        ValueError: no pairs.
    """
    check_some(pairs=pairs)
    return _assemble([
        (source_vocabulary.encode(pair.source), target_vocabulary.encode(pair.target)) for pair in pairs
    ])


def pair_batches(
    pairs: Sequence[Pair],
    source_vocabulary: Vocabulary,
    target_vocabulary: Vocabulary,
    size: int = 32,
    seed: int = 0,
) -> Batches:
    """The batches of a training run on pairs, which are encoded once, here.

    Raises:
        ValueError: no pairs, a size below 1, or a negative seed.
    """
    check_some(pairs=pairs)
    sources = [source_vocabulary.encode(pair.source) for pair in pairs]
    targets = [target_vocabulary.encode(pair.target) for pair in pairs]
    lengths = [list(map(len, targets)), list(map(len, sources))]
    return Batches(list(zip(sources, targets, strict=True)), _assemble, size, seed, lengths=lengths)


def _assemble(pairs: list[tuple[list[int], list[int]]]) -> Batch:
    sources, targets = zip(*pairs, strict=True)
    return Batch(*_padded(sources), *shifted(targets))


def shifted(
    targets: Sequence[list[int]],
) -> tuple[Int64[Tensor, "batch target"], Int64[Tensor, "batch target"], Int64[Tensor, " batch"]]:
    """Targets as `target_in`, `target_out` and `target_lengths` of a batch."""
    target_in, _ = _padded([[START, *target] for target in targets])
    return target_in, *_padded([[*target, END] for target in targets])


def _padded(rows: Sequence[list[int]]) -> tuple[Int64[Tensor, "batch length"], Int64[Tensor, " batch"]]:
    lengths = [len(row) for row in rows]
    width = max(lengths)
    filled = [row + [PAD] * (width - len(row)) for row in rows]
    return torch.tensor(filled, dtype=torch.int64), torch.tensor(lengths, dtype=torch.int64)
