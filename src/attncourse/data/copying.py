"""Strings to be copied: the simplest task that asks how much passes through a bottleneck.

Nothing can be guessed from context, so what comes out right is what was remembered.
"""

import random

from attncourse.data.corpora import check_counts
from attncourse.data.pairs import Corpus, Pair
from attncourse.data.vocabulary import Vocabulary


def copying_corpus(
    symbols: int = 16, longest: int = 20, *, train: int = 20_000, test: int = 100, seed: int = 0
) -> Corpus:
    """Random strings over an alphabet of `symbols` letters; the target is the source.

    Args:
        symbols: size of the alphabet, 2 to 26.
        longest: training lengths are even from 1 to `longest`; dev and test hold every length alike.
        train: number of training pairs.
        test: number of test strings of each length, and of dev strings in all.
        seed: another seed, other strings.

    Raises:
        ValueError: a number out of range.
    """
    if not 2 <= symbols <= 26:
        raise ValueError(f"symbols is {symbols}: it must be from 2 to 26")
    check_counts(1, longest=longest, train=train, test=test)
    check_counts(0, seed=seed)
    alphabet = [chr(ord("a") + i) for i in range(symbols)]
    draw = random.Random(seed)

    def pair(length: int) -> Pair:
        string = tuple(draw.choices(alphabet, k=length))
        return Pair(string, string)

    vocabulary = Vocabulary(alphabet)
    return Corpus(
        name="copying",
        train=[pair(draw.randint(1, longest)) for _ in range(train)],
        dev=[pair(1 + i % longest) for i in range(test)],
        test=[pair(length) for length in range(1, longest + 1) for _ in range(test)],
        source_vocabulary=vocabulary,
        target_vocabulary=vocabulary,
    )
