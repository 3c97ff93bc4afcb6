"""Tables of translators: sentences, captions of photographs, spelling to sound, strings to be copied.

Each table changes one thing. What is not said is as in `sequences`: states of 128 numbers for the fixed
context, of 96 for the recurrent translators with attention, two layers of width 128 for the Transformer.
"""

from dataclasses import replace
from functools import partial

from torch import nn

from attncourse.data import (
    Corpus,
    copying_corpus,
    multi30k_corpus,
    pronunciation_corpus,
    translation_corpus,
)
from attncourse.experiments.copying import ALPHABET, LONGEST, symbols_right
from attncourse.experiments.declarations import Experiment, Measure, Row, Training
from attncourse.experiments.rates import Cosine, WarmUp
from attncourse.experiments.sequences import (
    LETTERS,
    additive_attention,
    alignment_errors,
    bleu_by_group,
    by_length,
    caption_bleu,
    fit,
    fixed_context,
    global_attention,
    phoneme_errors,
    sentences_by_distance,
    sentences_by_length,
    transformer,
)
from attncourse.training import History


def fit_translator(model: nn.Module, corpus: Corpus, training: Training, seed: int) -> History:
    """`fit` with a declared budget."""
    return fit(model, corpus, seed=seed, size=training.size, evaluations=training.evaluations,
               smoothing=training.smoothing, **training.options())


def spelled_by_length(model: nn.Module, corpus: Corpus, words: list) -> dict:
    """Phoneme and word error rate by length of the word."""
    return phoneme_errors(model, corpus, by_length(words, LETTERS))


def bleu(model: nn.Module, corpus: Corpus, groups: dict) -> dict:
    """BLEU of greedy translations, by group."""
    return {"bleu": bleu_by_group(model, corpus, groups)}


BY_LENGTH = Measure(
    "BLEU of greedy translations", bleu, "100 sentences of each length that are not in the train part",
    new=partial(sentences_by_length, count=100),
)
BY_DISTANCE = Measure(
    "BLEU of greedy translations, by the mean number of places that a sentence's words move", bleu,
    "200 sentences of 7 to 20 words of each distance that are not in the train part",
    new=partial(sentences_by_distance, count=200),
)
ALIGNED = Measure("alignment error rate of the weights, and of the diagonal", alignment_errors)
SPELLED = Measure(
    "error rates in phonemes and in words, in percent, against the nearest accepted pronunciation",
    spelled_by_length,
)
CAPTIONED = Measure("BLEU, greedy and with a beam of 4", caption_bleu)
COPIED = Measure("share of symbols right at each length", symbols_right)

TRANSLATOR = Row(
    "", corpus=translation_corpus, fit=fit_translator, measures=(BY_LENGTH,),
    trainings=(Training(1_500, 32, evaluations=4),),
)
SPELLER = replace(
    TRANSLATOR, corpus=pronunciation_corpus, measures=(SPELLED,),
    trainings=(Training(3_000, 64, evaluations=4),),
)
CAPTIONER = replace(
    TRANSLATOR, corpus=multi30k_corpus, data={"source": "de", "target": "en"}, measures=(CAPTIONED,),
    trainings=(Training(3_000, 64, Cosine(2e-3), evaluations=12),),
)
FIXED = replace(TRANSLATOR, build=fixed_context)
ATTENTIVE = replace(TRANSLATOR, build=additive_attention, measures=(BY_LENGTH, ALIGNED))
LUONG = replace(TRANSLATOR, build=global_attention, measures=(BY_LENGTH, ALIGNED))
# As many steps as RNNsearch has in `translation_ladder`.
ROTARY = replace(
    LUONG, build=transformer, dropout=0.0, trainings=(Training(1_500, 32, Cosine(2e-3), evaluations=4),)
)

# --- What one vector holds ---------------------------------------------------------------------------------

CONTEXTS = {
    "last state, 64": {"hidden": 64},
    "last state, 128": {"hidden": 128},
    "last state, 256": {"hidden": 256},
    "mapped, 128": {"hidden": 128, "context": "mapped"},
    "mean, 128": {"hidden": 128, "context": "mean"},
    "max, 128": {"hidden": 128, "context": "max"},
    "last state, 128, reversed": {"hidden": 128, "reverse": True},
}
BOTTLENECK = Experiment(
    "bottleneck",
    "English to French, a made-up corpus, through a context of fixed size.",
    [replace(FIXED, name=name, options=options, trainings=(Training(1_200, 32, evaluations=4),))
     for name, options in CONTEXTS.items()],
)
COPYING = Experiment(
    "copying",
    f"Strings of 1 to {LONGEST} symbols out of {ALPHABET}, copied through a context of fixed size.",
    [replace(FIXED, name=f"{size} numbers", options={"hidden": size, "embedding": 16},
             corpus=copying_corpus, data={"symbols": ALPHABET, "longest": LONGEST, "test": 50},
             trainings=(Training(2_000, 64, evaluations=4),), measures=(COPIED,))
     for size in (8, 16, 32, 64)],
)

# --- Fixed context against additive attention: equal parameters, equal batches in the same order ------------

LADDER = {"fixed context": FIXED, "additive attention": ATTENTIVE}
TRANSLATION_LADDER = Experiment(
    "translation_ladder",
    "English to French, a made-up corpus; the number behind a name is the longest training sentence.",
    [replace(row, name=f"{name}-{longest}", data={"longest": longest})
     for longest in (30, 15) for name, row in LADDER.items()],
)
PRONUNCIATION_LADDER = Experiment(
    "pronunciation_ladder",
    "CMUdict: the letters of English words to their phonemes.",
    [replace(SPELLER, name=name, build=row.build) for name, row in LADDER.items()],
)
MULTI30K_LADDER = Experiment(
    "multi30k_ladder",
    "Multi30k, German to English, lower-cased and tokenised by the course's tokenizer; test 2016.",
    [replace(CAPTIONER, name=name, build=LADDER[name].build, options={"hidden": hidden, "embedding": 192})
     for name, hidden in (("fixed context", 320), ("additive attention", 256))],
)

# --- Luong's translator ------------------------------------------------------------------------------------

MANY_STEPS = 3_500
# One change at a time against "global general".
SCORES = {
    "global general": {},
    "global dot": {"score": "dot"},
    "global concat": {"score": "concat"},
    "global location": {"score": "location"},
    "global general, fed": {"input_feeding": True},
    "global general, read forwards": {"reverse": False},
    "global general, two layers": {"layers": 2},
    "global general, as large": {"hidden": 140},  # as many parameters as additive attention
}
LUONG_SCORES = Experiment(
    "luong_scores",
    "English to French, a made-up corpus. Luong's translator has one layer and reads the source backwards, "
    "unless the name says otherwise.",
    [
        replace(ATTENTIVE, name="additive attention"),
        *(replace(LUONG, name=name, options=options) for name, options in SCORES.items()),
        replace(LUONG, name=f"global general, {MANY_STEPS:,} steps",
                trainings=(Training(MANY_STEPS, 32, evaluations=4),)),
    ],
)

# --- A window against the whole source ---------------------------------------------------------------------

# "local-m" and "local-p" are the paper's; what the other forms change is in their names. Windows of D = 6
# except for local-m, which is at its best, and at its worst, in a narrow one.
WINDOWS = {
    "global": {},
    "local-m": {"centre": "monotonic", "half_width": 2},
    "local-m, D = 6": {"centre": "monotonic", "half_width": 6},
    "local-p": {"centre": "predicted", "gaussian": "outside", "half_width": 6},
    "local-p, inside": {"centre": "predicted", "gaussian": "inside", "half_width": 6},
    "offset, outside": {"centre": "offset", "gaussian": "outside", "half_width": 6},
    "offset, inside": {"centre": "offset", "gaussian": "inside", "half_width": 6},
}
LOCAL_TRANSLATION = Experiment(
    "local_translation",
    "English to French, a made-up corpus; the scores of Luong's translator, general, in windows.",
    [replace(LUONG, name=name, options=options, measures=(BY_DISTANCE, ALIGNED))
     for name, options in WINDOWS.items()],
)
LOCAL_PRONUNCIATION = Experiment(
    "local_pronunciation",
    "CMUdict: the letters of English words to their phonemes.",
    [replace(SPELLER, name=name, build=global_attention, options=WINDOWS[name],
             trainings=(Training(2_000, 64, evaluations=4),))
     for name in ("global", "local-m", "local-p")],
)

# --- The Transformer ---------------------------------------------------------------------------------------

POSITIONS = {
    "rotary": {},
    "rotary inside": {"positions": "rotary inside"},
    "sinusoid": {"positions": "sinusoid"},
    "learned": {"positions": "learned"},
    "none": {"positions": "none"},
}
TRANSFORMER_POSITIONS = Experiment(
    "transformer_positions",
    "English to French, a made-up corpus. The Transformer has 2 layers of width 128, 4 heads, pre-norm; what "
    "differs is how it knows the order of words.",
    [replace(ROTARY, name=name, options=options) for name, options in POSITIONS.items()],
)


def _rated(name: str, rate, **options) -> Row:
    """The Transformer with another learning rate."""
    return replace(ROTARY, name=name, options=options, trainings=(Training(1_500, 32, rate, evaluations=4),))


TRANSFORMER_CHANGES = Experiment(
    "transformer_changes",
    "As `transformer_positions`: the rotary Transformer with the change that the name says.",
    [
        _rated("rate 1e-3", Cosine(1e-3)),
        _rated("sinusoid, rate 1e-3", Cosine(1e-3), **POSITIONS["sinusoid"]),
        replace(ROTARY, name="post-norm", options={"norm": "post"}),
        _rated("post-norm, warm-up", WarmUp(128, 400), norm="post"),
        replace(ROTARY, name="1 head", options={"heads": 1}),
        replace(ROTARY, name="1 layer", options={"layers": 1}),
        replace(ROTARY, name="width 64", options={"width": 64}),
    ],
)
TRANSFORMER_PRONUNCIATION = Experiment(
    "transformer_pronunciation",
    "CMUdict: the letters of English words to their phonemes, as in `pronunciation_ladder`; a Transformer of "
    "2 layers of width 96.",
    [replace(SPELLER, name="transformer", build=transformer, options={"width": 96}, dropout=0.0,
             trainings=(Training(3_000, 64, Cosine(2e-3), evaluations=4),))],
)
MULTI30K_MODELS = Experiment(
    "multi30k_models",
    "Multi30k, German to English, as in `multi30k_ladder`: a Transformer of 3 layers of width 192 with 6 "
    "heads, and global attention with the general score.",
    [
        replace(CAPTIONER, name="transformer", build=transformer, dropout=0.2,
                options={"width": 192, "heads": 6, "layers": 3},
                trainings=(Training(5_000, 64, Cosine(1e-3), evaluations=12, smoothing=0.1),)),
        replace(CAPTIONER, name="global", build=global_attention, options={"hidden": 320, "embedding": 192}),
    ],
    seeds=(0,),
)

EXPERIMENTS = [
    BOTTLENECK, COPYING, TRANSLATION_LADDER, PRONUNCIATION_LADDER, MULTI30K_LADDER, LUONG_SCORES,
    LOCAL_TRANSLATION, LOCAL_PRONUNCIATION, TRANSFORMER_POSITIONS, TRANSFORMER_CHANGES,
    TRANSFORMER_PRONUNCIATION, MULTI30K_MODELS,
]
