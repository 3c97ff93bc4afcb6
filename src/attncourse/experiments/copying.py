"""Copying random strings through a fixed context: how many symbols pass."""

from collections.abc import Sequence

import torch
from torch import nn

from attncourse.data import Corpus, Pair, copying_corpus
from attncourse.experiments.sequences import fit, fixed_context, parameters, translate_pairs

ALPHABET, LONGEST = 16, 20


def copied(hidden: int, seed: int = 0, *, steps: int = 2_000, longest: int = LONGEST) -> dict:
    """Train a context of `hidden` numbers to copy random strings; the share of symbols right by length."""
    corpus = copying_corpus(ALPHABET, longest, test=50)
    torch.manual_seed(seed)
    model = fixed_context(corpus, hidden=hidden, embedding=16)
    fit(model, corpus, steps=steps, seed=seed, size=64)
    return {"parameters": parameters(model), **symbols_right(model, corpus, corpus.test)}


def symbols_right(model: nn.Module, corpus: Corpus, pairs: Sequence[Pair]) -> dict[str, dict[str, float]]:
    """The share of symbols that stand where they stood, for each length of string."""
    right = {}
    for length in sorted({len(pair.source) for pair in pairs}):
        strings = [pair for pair in pairs if len(pair.source) == length]
        said = translate_pairs(model, corpus, strings)
        matches = sum(
            a == b
            for t, pair in zip(said, strings, strict=True)
            for a, b in zip(t.tokens, pair.target, strict=False)  # a copy may come out too short, or too long
        )
        right[str(length)] = round(matches / (length * len(strings)), 4)
    return {"symbols right": right}


def passing(right: dict[str, float], share: float = 0.9) -> int:
    """How many symbols pass: the length up to which at least `share` of them come out right; 0 if none."""
    passed = 0
    for length in sorted(right, key=int):
        if right[length] < share:
            break
        passed = int(length)
    return passed
