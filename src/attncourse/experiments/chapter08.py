"""Chapter 08's tables: the Transformer beside the recurrent translators, one change at a time."""

import time
from functools import partial

import torch

from attncourse.data import multi30k_corpus, pronunciation_corpus, translation_corpus
from attncourse.experiments.results import Experiment
from attncourse.experiments.sequences import (
    LETTERS,
    POSITIONS,
    alignment_errors,
    bleu_by_group,
    by_length,
    caption_bleu,
    fit,
    global_attention,
    parameters,
    phoneme_errors,
    sentences_by_length,
    transformer,
)
from attncourse.training import warm_up_rate

# As many steps as RNNsearch has in chapter 02, and about as many seconds.
STEPS, RATE = 1_500, 2e-3
WORD_STEPS = 3_000
CAPTION_STEPS = {"transformer": 5_000, "global": 3_000}

# Each system is the rotary one with one change, which its name says.
CHANGES = {
    "rate 1e-3": {"learning_rate": 1e-3},
    "sinusoid, rate 1e-3": {**POSITIONS["sinusoid"], "learning_rate": 1e-3},
    "post-norm": {"norm": "post"},
    "post-norm, warm-up": {"norm": "post", "learning_rate": partial(warm_up_rate, width=128, warm_up=400)},
    "1 head": {"heads": 1},
    "1 layer": {"layers": 1},
    "width 64": {"width": 64},
}


def transformer_translation(system: str, seed: int) -> dict:
    """BLEU by length, alignment error, and the processor's seconds for the training alone."""
    corpus = translation_corpus()
    torch.manual_seed(seed)
    options = {"dropout": 0.0, "learning_rate": RATE, **{**POSITIONS, **CHANGES}[system]}
    rate = options.pop("learning_rate")
    model = transformer(corpus, **options)
    started = time.process_time()
    fit(model, corpus, steps=STEPS, seed=seed, learning_rate=rate)
    return {
        "parameters": parameters(model),
        "processor seconds": round(time.process_time() - started, 1),
        "bleu": bleu_by_group(model, corpus, sentences_by_length(corpus, 100)),
        **alignment_errors(model, corpus, corpus.test),
    }


def transformer_pronunciation(system: str, seed: int) -> dict:
    """Phoneme and word error rate by length of the word, on the whole test set."""
    corpus = pronunciation_corpus()
    torch.manual_seed(seed)
    model = transformer(corpus, dropout=0.0, width=96)
    started = time.process_time()
    fit(model, corpus, steps=WORD_STEPS, seed=seed, size=64, learning_rate=RATE)
    seconds = round(time.process_time() - started, 1)
    errors = phoneme_errors(model, corpus, by_length(corpus.test, LETTERS))
    return {"parameters": parameters(model), "processor seconds": seconds, **errors}


def multi30k_models(system: str, seed: int) -> dict:
    """German to English captions, as in chapter 02's `multi30k_ladder`: BLEU on test 2016."""
    corpus = multi30k_corpus("de", "en")
    torch.manual_seed(seed)
    options = {"steps": CAPTION_STEPS[system], "seed": seed, "size": 64, "evaluations": 12}
    started = time.process_time()
    if system == "global":
        model = global_attention(corpus, hidden=320, embedding=192)
        fit(model, corpus, learning_rate=2e-3, **options)
    else:
        model = transformer(corpus, width=192, heads=6, layers=3, dropout=0.2)
        fit(model, corpus, learning_rate=1e-3, smoothing=0.1, **options)
    seconds = round(time.process_time() - started, 1)
    return {"parameters": parameters(model), "processor seconds": seconds, **caption_bleu(model, corpus)}


EXPERIMENTS = [
    Experiment(
        "transformer_positions",
        f"Translation corpus, {STEPS:,} steps of 32 pairs; BLEU of greedy translations of 100 new sentences "
        "of each length. The Transformer has 2 layers of width 128, 4 heads, pre-norm; what differs is how "
        "it knows the order of words.",
        tuple(POSITIONS),
        (0, 1, 2),
        transformer_translation,
    ),
    Experiment(
        "transformer_changes",
        f"As `transformer_positions`: {STEPS:,} steps of 32 pairs, the rotary Transformer with one change.",
        tuple(CHANGES),
        (0, 1, 2),
        transformer_translation,
    ),
    Experiment(
        "transformer_pronunciation",
        f"CMUdict, letters to phonemes, {WORD_STEPS:,} steps of 64 words, as in `pronunciation_ladder`; "
        "error rates in percent on all test words, against the nearest accepted pronunciation.",
        ("transformer",),
        (0, 1, 2),
        transformer_pronunciation,
    ),
    Experiment(
        "multi30k_models",
        "Multi30k German to English, test 2016, lower-cased and tokenised by the course's tokenizer, batches "
        f"of 64 captions: {CAPTION_STEPS['global']:,} steps for global attention (general score), "
        f"{CAPTION_STEPS['transformer']:,} for the Transformer (3 layers of width 192, 6 heads).",
        tuple(CAPTION_STEPS),
        (0,),
        multi30k_models,
    ),
]
