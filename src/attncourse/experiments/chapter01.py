"""Chapter 01's tables: what a larger state, another context or a reversed source change, and how much is copied."""

import torch

from attncourse.data import copying_corpus, translation_corpus
from attncourse.experiments.results import Experiment
from attncourse.experiments.sequences import (
    bleu_by_length,
    fit,
    fixed_context,
    parameters,
    sentences_by_length,
    translate_pairs,
)

STEPS = 1_200
CONTEXTS = {
    "last state, 64": {"hidden": 64},
    "last state, 128": {"hidden": 128},
    "last state, 256": {"hidden": 256},
    "mapped, 128": {"hidden": 128, "context": "mapped"},
    "mean, 128": {"hidden": 128, "context": "mean"},
    "max, 128": {"hidden": 128, "context": "max"},
    "last state, 128, reversed": {"hidden": 128, "reverse": True},
}
COPY_STEPS, COPY_STATES, ALPHABET, LONGEST = 2_000, (8, 16, 32, 64), 16, 20


def bottleneck(system: str, seed: int) -> dict:
    """BLEU by sentence length for one size and kind of context."""
    corpus = translation_corpus()
    torch.manual_seed(seed)
    model = fixed_context(corpus, **CONTEXTS[system])
    fit(model, corpus, steps=STEPS, seed=seed)
    return {"parameters": parameters(model), "bleu": bleu_by_length(model, corpus, sentences_by_length(corpus, 100))}


def copied(hidden: int, seed: int = 0, *, steps: int = COPY_STEPS, longest: int = LONGEST) -> dict:
    """Train a fixed context of `hidden` numbers to copy random strings; the share of symbols right by length."""
    corpus = copying_corpus(ALPHABET, longest, test=50)
    torch.manual_seed(seed)
    model = fixed_context(corpus, hidden=hidden, embedding=16)
    fit(model, corpus, steps=steps, seed=seed, size=64)
    right = {}
    for length in range(1, longest + 1):
        pairs = [pair for pair in corpus.test if len(pair.source) == length]
        said = translate_pairs(model, corpus, pairs)
        matches = sum(a == b for t, pair in zip(said, pairs, strict=True) for a, b in zip(t.tokens, pair.target))
        right[str(length)] = round(matches / (length * len(pairs)), 4)
    return {"parameters": parameters(model), "symbols right": right}


EXPERIMENTS = [
    Experiment(
        "bottleneck",
        f"Fixed-context translators on the translation corpus, {STEPS} steps of 32 pairs, greedy decoding; BLEU on "
        "100 new sentences of each length.",
        tuple(CONTEXTS), (0, 1, 2), bottleneck,
    ),
    Experiment(
        "copying",
        f"Copying strings of 1 to {LONGEST} symbols out of {ALPHABET} through a fixed context, {COPY_STEPS} steps of "
        "64 strings; share of symbols right at each length, 50 strings each.",
        tuple(f"{size} numbers" for size in COPY_STATES), (0, 1, 2),
        lambda system, seed: copied(int(system.split()[0]), seed),
    ),
]
