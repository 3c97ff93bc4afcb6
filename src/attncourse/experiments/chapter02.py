"""Chapter 02's ladder, fixed context against additive attention: made sentences, real words, real captions."""

import torch

from attncourse.data import multi30k_corpus, pronunciation_corpus, translation_corpus
from attncourse.experiments.results import Experiment
from attncourse.experiments.sequences import (
    LETTERS,
    additive_attention,
    alignment_errors,
    bleu_by_length,
    by_length,
    fit,
    fixed_context,
    parameters,
    phoneme_errors,
    sentences_by_length,
    translate_pairs,
)
from attncourse.metrics import corpus_bleu

# Both at equal parameters. The fixed context's step is faster, so it gets more of them: about equal time.
STEPS = {"fixed context": 2_600, "additive attention": 1_700}
MODELS = {"fixed context": fixed_context, "additive attention": additive_attention}
WORD_STEPS = {"fixed context": 6_000, "additive attention": 4_000}
CAPTION_STEPS = {"fixed context": 6_000, "additive attention": 6_000}
SEEDS = (0, 1, 2)


def translation_ladder(system: str, seed: int) -> dict:
    """BLEU by length and alignment error; "-15" and "-30" name the longest training sentence."""
    name, longest = system.rsplit("-", 1)
    corpus = translation_corpus(longest=int(longest))
    torch.manual_seed(seed)
    model = MODELS[name](corpus)
    fit(model, corpus, steps=STEPS[name], seed=seed)
    numbers = {"parameters": parameters(model), "bleu": bleu_by_length(model, corpus, sentences_by_length(corpus, 100))}
    if name == "additive attention":
        numbers |= alignment_errors(model, corpus, corpus.test)
    return numbers


def pronunciation_ladder(system: str, seed: int) -> dict:
    """Phoneme and word error rate by length of the word, on the whole test set."""
    corpus = pronunciation_corpus()
    torch.manual_seed(seed)
    model = MODELS[system](corpus)
    fit(model, corpus, steps=WORD_STEPS[system], seed=seed, size=64)
    return {"parameters": parameters(model), **phoneme_errors(model, corpus, by_length(corpus.test, LETTERS))}


def multi30k_ladder(system: str, seed: int) -> dict:
    """German to English captions: BLEU on test 2016, greedy and with a beam."""
    corpus = multi30k_corpus("de", "en")
    torch.manual_seed(seed)
    hidden = {"fixed context": 320, "additive attention": 256}[system]
    model = MODELS[system](corpus, hidden=hidden, embedding=192)
    fit(model, corpus, steps=CAPTION_STEPS[system], seed=seed, size=64, evaluations=12, learning_rate=1e-3)
    references = [pair.references for pair in corpus.test]
    scores = {
        name: corpus_bleu([t.tokens for t in translate_pairs(model, corpus, corpus.test, width)], references)
        for name, width in {"greedy": 1, "beam 4": 4}.items()
    }
    return {
        "parameters": parameters(model),
        "bleu": {name: round(score.score, 2) for name, score in scores.items()},
        "signature": scores["greedy"].signature,
    }


EXPERIMENTS = [
    Experiment(
        "translation_ladder",
        "Translation corpus, batches of 32, "
        + ", ".join(f"{name} {steps:,} steps" for name, steps in STEPS.items())
        + "; BLEU of greedy translations of 100 new sentences of each length.",
        tuple(f"{name}-{longest}" for longest in (30, 15) for name in STEPS), SEEDS, translation_ladder,
    ),
    Experiment(
        "pronunciation_ladder",
        "CMUdict, letters to phonemes, batches of 64, "
        + ", ".join(f"{name} {steps:,} steps" for name, steps in WORD_STEPS.items())
        + "; error rates in percent on all test words, best of the accepted pronunciations.",
        tuple(WORD_STEPS), SEEDS, pronunciation_ladder,
    ),
    Experiment(
        "multi30k_ladder",
        "Multi30k German to English, test 2016, lower-cased and tokenised by the course's tokenizer, batches of 64, "
        + ", ".join(f"{name} {steps:,} steps" for name, steps in CAPTION_STEPS.items()) + ".",
        tuple(CAPTION_STEPS), SEEDS, multi30k_ladder,
    ),
]
