"""Chapter 02's ladder, fixed context against additive attention: on sentences, real words, real captions."""

import torch

from attncourse.data import multi30k_corpus, pronunciation_corpus, translation_corpus
from attncourse.experiments.results import Experiment
from attncourse.experiments.sequences import (
    LETTERS,
    additive_attention,
    alignment_errors,
    bleu_by_group,
    by_length,
    caption_bleu,
    fit,
    fixed_context,
    parameters,
    phoneme_errors,
    sentences_by_length,
)

# Both at equal parameters and equal steps: the same batches, in the same order.
MODELS = {"fixed context": fixed_context, "additive attention": additive_attention}
STEPS, WORD_STEPS, CAPTION_STEPS = 1_500, 3_000, 3_000
SEEDS = (0, 1, 2)


def translation_ladder(system: str, seed: int) -> dict:
    """BLEU by length and alignment error; "-15" and "-30" name the longest training sentence."""
    name, longest = system.rsplit("-", 1)
    corpus = translation_corpus(longest=int(longest))
    torch.manual_seed(seed)
    model = MODELS[name](corpus)
    fit(model, corpus, steps=STEPS, seed=seed)
    numbers = {
        "parameters": parameters(model),
        "bleu": bleu_by_group(model, corpus, sentences_by_length(corpus, 100)),
    }
    if name == "additive attention":
        numbers |= alignment_errors(model, corpus, corpus.test)
    return numbers


def pronunciation_ladder(system: str, seed: int) -> dict:
    """Phoneme and word error rate by length of the word, on the whole test set."""
    corpus = pronunciation_corpus()
    torch.manual_seed(seed)
    model = MODELS[system](corpus)
    fit(model, corpus, steps=WORD_STEPS, seed=seed, size=64)
    return {"parameters": parameters(model), **phoneme_errors(model, corpus, by_length(corpus.test, LETTERS))}


def multi30k_ladder(system: str, seed: int) -> dict:
    """German to English captions: BLEU on test 2016, greedy and with a beam."""
    corpus = multi30k_corpus("de", "en")
    torch.manual_seed(seed)
    hidden = {"fixed context": 320, "additive attention": 256}[system]
    model = MODELS[system](corpus, hidden=hidden, embedding=192)
    fit(model, corpus, steps=CAPTION_STEPS, seed=seed, size=64, evaluations=12, learning_rate=2e-3)
    return {"parameters": parameters(model), **caption_bleu(model, corpus)}


EXPERIMENTS = [
    Experiment(
        "translation_ladder",
        f"Translation corpus, {STEPS:,} steps of 32 pairs; BLEU of greedy translations of 100 new sentences "
        "of each length. The number behind a name is the longest training sentence.",
        tuple(f"{name}-{longest}" for longest in (30, 15) for name in MODELS),
        SEEDS,
        translation_ladder,
    ),
    Experiment(
        "pronunciation_ladder",
        f"CMUdict, letters to phonemes, {WORD_STEPS:,} steps of 64 words; error rates in percent on all test "
        "words, against the nearest accepted pronunciation.",
        tuple(MODELS),
        SEEDS,
        pronunciation_ladder,
    ),
    Experiment(
        "multi30k_ladder",
        f"Multi30k German to English, test 2016, lower-cased and tokenised by the course's tokenizer, "
        f"{CAPTION_STEPS:,} steps of 64 captions.",
        tuple(MODELS),
        SEEDS,
        multi30k_ladder,
    ),
]
