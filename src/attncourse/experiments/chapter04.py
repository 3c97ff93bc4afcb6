"""Chapter 04's table: Luong's scores and choices beside chapter 02's translator."""

import time

import torch

from attncourse.data import translation_corpus
from attncourse.experiments.results import Experiment
from attncourse.experiments.sequences import (
    additive_attention,
    alignment_errors,
    bleu_by_group,
    fit,
    global_attention,
    parameters,
    sentences_by_length,
)

STEPS, MANY_STEPS = 1_500, 3_500
# One change at a time against "global general".
SYSTEMS = {
    "global general": {},
    "global dot": {"score": "dot"},
    "global concat": {"score": "concat"},
    "global location": {"score": "location"},
    "global general, fed": {"input_feeding": True},
    "global general, read forwards": {"reverse": False},
    "global general, two layers": {"layers": 2},
    "global general, as large": {"hidden": 140},  # as many parameters as additive attention
    f"global general, {MANY_STEPS:,} steps": {},
}


def luong_scores(system: str, seed: int) -> dict:
    """BLEU by length, alignment error, and the processor's seconds for the training alone."""
    corpus = translation_corpus()
    torch.manual_seed(seed)
    if system == "additive attention":
        model = additive_attention(corpus)
    else:
        model = global_attention(corpus, **SYSTEMS[system])
    started = time.process_time()
    fit(model, corpus, steps=MANY_STEPS if system.endswith("steps") else STEPS, seed=seed)
    return {
        "parameters": parameters(model),
        "processor seconds": round(time.process_time() - started, 1),
        "bleu": bleu_by_group(model, corpus, sentences_by_length(corpus, 100)),
        **alignment_errors(model, corpus, corpus.test),
    }


EXPERIMENTS = [
    Experiment(
        "luong_scores",
        f"Translation corpus, {STEPS:,} steps of 32 pairs unless the name says another number; BLEU of "
        "greedy translations of 100 new sentences of each length. Luong's translator has one layer and reads "
        "the source backwards, unless the name says otherwise.",
        ("additive attention", *SYSTEMS),
        (0, 1, 2),
        luong_scores,
    ),
]
