"""Chapter 05's tables: a window against the whole source, on sentences and on words."""

import torch

from attncourse.data import pronunciation_corpus, translation_corpus
from attncourse.experiments.results import Experiment
from attncourse.experiments.sequences import (
    LETTERS,
    alignment_errors,
    bleu_by_group,
    by_length,
    fit,
    global_attention,
    parameters,
    phoneme_errors,
    sentences_by_distance,
)

STEPS, WORD_STEPS = 1_500, 2_000
# "local-m" and "local-p" are the paper's; what the other forms change is in their names. Windows of D = 6
# except for local-m, which is at its best, and at its worst, in a narrow one.
SYSTEMS = {
    "global": {},
    "local-m": {"centre": "monotonic", "half_width": 2},
    "local-m, D = 6": {"centre": "monotonic", "half_width": 6},
    "local-p": {"centre": "predicted", "gaussian": "outside", "half_width": 6},
    "local-p, inside": {"centre": "predicted", "gaussian": "inside", "half_width": 6},
    "offset, outside": {"centre": "offset", "gaussian": "outside", "half_width": 6},
    "offset, inside": {"centre": "offset", "gaussian": "inside", "half_width": 6},
}


def local_translation(system: str, seed: int) -> dict:
    """BLEU by how far words move, and alignment error."""
    corpus = translation_corpus()
    torch.manual_seed(seed)
    model = global_attention(corpus, **SYSTEMS[system])
    fit(model, corpus, steps=STEPS, seed=seed)
    return {
        "parameters": parameters(model),
        "bleu": bleu_by_group(model, corpus, sentences_by_distance(corpus, 200)),
        **alignment_errors(model, corpus, corpus.test),
    }


def local_pronunciation(system: str, seed: int) -> dict:
    """Phoneme and word error rate by length of the word, on the whole test set."""
    corpus = pronunciation_corpus()
    torch.manual_seed(seed)
    model = global_attention(corpus, **SYSTEMS[system])
    fit(model, corpus, steps=WORD_STEPS, seed=seed, size=64)
    return {"parameters": parameters(model), **phoneme_errors(model, corpus, by_length(corpus.test, LETTERS))}


EXPERIMENTS = [
    Experiment(
        "local_translation",
        f"Translation corpus, {STEPS:,} steps of 32 pairs; BLEU of greedy translations of 200 new sentences "
        "of 7 to 20 words for each distance, the mean number of places by which a sentence's words move.",
        tuple(SYSTEMS),
        (0, 1, 2),
        local_translation,
    ),
    Experiment(
        "local_pronunciation",
        f"CMUdict, letters to phonemes, {WORD_STEPS:,} steps of 64 words; error rates in percent on all test "
        "words, against the nearest accepted pronunciation.",
        ("global", "local-m", "local-p"),
        (0, 1, 2),
        local_pronunciation,
    ),
]
