"""The batches of a training run, of whatever kind its items are."""

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from operator import index
from typing import Any

import numpy as np

from attncourse.data.corpora import check_counts, check_some

# Pools of this many batches are sorted by length: little padding, and batches still mixed well.
POOL = 50


class Batches:
    """The batches of a training run: `batches[step]` depends on the seed and the step, on nothing else.

    So a run that resumes at step k sees what it would have seen, and drawing a batch leaves torch's own
    random numbers alone. Each epoch of `len(batches)` steps holds every item once, in a new order; items of
    similar length share a batch. The last batch of the items may be smaller. Iterating gives one epoch, the
    first: a pass over every item, for evaluation.

    Args:
        items: at least one.
        collate: makes a batch of a list of items.
        size: items in a batch.
        seed: a non-negative integer.
        lengths: lists with a length for every item, the last matters most; without any, nothing is sorted.
        augment: changes a batch by random numbers of its step: (batch, generator) -> batch.

    Raises:
        ValueError: no items, a size below 1, a negative seed, or lengths of other items.
        TypeError: a size or a seed that is not a whole number.
    """

    def __init__(
        self,
        items: Sequence[Any],
        collate: Callable[[list], Any],
        size: int = 32,
        seed: int = 0,
        *,
        lengths: Sequence[Sequence[int]] = (),
        augment: Callable[[Any, np.random.Generator], Any] | None = None,
    ):
        check_some(items=items)
        check_counts(1, size=size)
        check_counts(0, seed=seed)
        if any(len(each) != len(items) for each in lengths):
            raise ValueError(f"lengths has lists of {[len(each) for each in lengths]} lengths: each needs "
                             f"{len(items)}, one for every item")
        self.items, self.collate, self.size, self.seed, self.augment = items, collate, size, seed, augment
        self._lengths = np.array(lengths).reshape(len(lengths), len(items))
        self._epoch, self._plan = -1, []

    def __len__(self) -> int:
        """Batches in an epoch."""
        return ceil(len(self.items) / self.size)

    def __getitem__(self, step: int) -> Any:
        batch = self.collate([self.items[row] for row in self.rows(step)])
        # The 1: not the numbers that shuffle the epochs.
        return self.augment(batch, np.random.default_rng((self.seed, step, 1))) if self.augment else batch

    def __iter__(self) -> Iterator[Any]:
        return (self[step] for step in range(len(self)))

    def rows(self, step: int) -> np.ndarray:
        """Which items make up the batch of this step."""
        step = index(step)
        if step < 0:
            raise IndexError(f"step is {step}: it must be 0 or more")
        epoch, position = divmod(step, len(self))
        if epoch != self._epoch:
            self._epoch, self._plan = epoch, self._shuffled(epoch)
        return self._plan[position]

    def _shuffled(self, epoch: int) -> list[np.ndarray]:
        """The rows of each batch of an epoch: shuffle, sort the pools by length, cut, shuffle the batches."""
        random = np.random.default_rng((self.seed, epoch))
        order = random.permutation(len(self.items))
        pool = np.arange(len(order)) // (POOL * self.size)
        order = order[np.lexsort((*self._lengths[:, order], pool))]
        return [order[i * self.size : (i + 1) * self.size] for i in random.permutation(len(self))]
