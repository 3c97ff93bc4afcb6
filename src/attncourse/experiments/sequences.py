"""What every experiment with a sequence model does: build it, train it on a corpus, score it by length."""

import statistics
from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn

from attncourse.attention import LearnedPositions, Rotary, SinusoidPositions
from attncourse.data import Batch, Corpus, Pair, collate, pair_batches, sentences
from attncourse.decoding import Translation, translate
from attncourse.metrics import (
    alignment_error_rate,
    corpus_bleu,
    diagonal_links,
    error_rate,
    links_from_weights,
    sequence_error_rate,
)
from attncourse.models import LuongTranslator, RNNSearch, Seq2Seq, Transformer
from attncourse.models.interface import check_choice
from attncourse.training import History, token_loss, train

# English words in the source. The last two groups are longer than anything a model was trained on.
WORDS = ((3, 6), (7, 10), (11, 15), (16, 20), (21, 25), (26, 30), (31, 40), (41, 50))
# How a Transformer is told the order of words.
POSITIONS = {
    "rotary": {"positions": None, "inside": Rotary(), "between": Rotary()},
    "rotary inside": {"positions": None, "inside": Rotary(), "between": None},
    "sinusoid": {"positions": SinusoidPositions, "inside": None, "between": None},
    "learned": {"positions": partial(LearnedPositions, longest=256), "inside": None, "between": None},
    "none": {"positions": None, "inside": None, "between": None},
}
LETTERS = ((1, 4), (5, 6), (7, 8), (9, 10), (11, 12), (13, 40))


def fixed_context(corpus: Corpus, hidden: int = 128, **options) -> Seq2Seq:
    """The model of chapter 01, as large as `additive_attention`: as many parameters within 10%."""
    return Seq2Seq(len(corpus.source_vocabulary), len(corpus.target_vocabulary), hidden=hidden, **options)


def additive_attention(corpus: Corpus, hidden: int = 96, **options) -> RNNSearch:
    """The model of chapter 02."""
    return RNNSearch(len(corpus.source_vocabulary), len(corpus.target_vocabulary), hidden=hidden, **options)


def global_attention(corpus: Corpus, hidden: int = 96, **options) -> LuongTranslator:
    """The model of chapter 04, with the states as wide as those of `additive_attention`."""
    return LuongTranslator(
        len(corpus.source_vocabulary), len(corpus.target_vocabulary), hidden=hidden, **options
    )


def transformer(corpus: Corpus, *, positions: str = "rotary", **options) -> Transformer:
    """The model of chapter 08, with pre-norm, which needs no long warm-up, and one of `POSITIONS`."""
    check_choice("positions", positions, tuple(POSITIONS))
    options = {"norm": "pre", **POSITIONS[positions], "inner": 2 * options.get("width", 128), **options}
    return Transformer(len(corpus.source_vocabulary), len(corpus.target_vocabulary), **options)


def parameters(model: nn.Module) -> int:
    """How many numbers a model learns."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def fit(
    model: nn.Module,
    corpus: Corpus,
    *,
    steps: int,
    seed: int = 0,
    size: int = 32,
    evaluations: int = 4,
    smoothing: float = 0.0,
    **options,
) -> History:
    """Train on a corpus, keeping the weights that are best on its dev set.

    Args:
        model: a sequence model.
        corpus: to learn from.
        steps: updates in all.
        seed: of the order of the batches and of dropout.
        size: pairs in a batch.
        evaluations: how often the dev loss is taken, which is never smoothed.
        smoothing: of the labels in training, see `token_loss`.
        options: passed on to `train`.

    Raises:
        ValueError: no dev pairs to choose by.
    """
    if not len(corpus.dev):
        raise ValueError("corpus has no dev pairs: the best weights cannot be chosen")
    batches = pair_batches(corpus.train, corpus.source_vocabulary, corpus.target_vocabulary, size, seed)
    dev = [
        collate(corpus.dev[start : start + 100], corpus.source_vocabulary, corpus.target_vocabulary)
        for start in range(0, len(corpus.dev), 100)
    ]

    return train(
        model,
        partial(token_loss, smoothing=smoothing),
        batches,
        steps=steps,
        seed=seed,
        evaluate=lambda model: loss_on(model, dev),
        evaluate_every=max(1, steps // evaluations),
        **options,
    )


@torch.no_grad()
def loss_on(model: nn.Module, batches: Sequence[Batch]) -> float:
    """Nats per real target token, of a model in evaluation mode.

    Raises:
        ValueError: no batches.
    """
    if not len(batches):
        raise ValueError("batches is empty: there is no token to take the mean over")
    place, total = next(model.parameters()).device, sum(int(batch.target_lengths.sum()) for batch in batches)
    return sum(
        int(batch.target_lengths.sum()) * token_loss(model, batch.to(place)).item() for batch in batches
    ) / total


def by_length(pairs: Sequence[Pair], groups: Sequence[tuple[int, int]]) -> dict[str, list[Pair]]:
    """The pairs in groups of source length, named "3-6", "7-10", ..."""
    return {
        f"{low}-{high}": [pair for pair in pairs if low <= len(pair.source) <= high] for low, high in groups
    }


def sentences_by_length(corpus: Corpus, count: int) -> dict[str, list[Pair]]:
    """`count` new sentences for each group of lengths, none of them in the training set."""
    seen = {pair.source for pair in corpus.train}
    found = {}
    for low, high in WORDS:
        fresh = sentences(2 * count, low, high, f"test {low}-{high}")
        found[f"{low}-{high}"] = [pair for pair in fresh if pair.source not in seen][:count]
    return found


def distance_moved(pair: Pair) -> float:
    """How far words move: the mean of |i - j| over the sure links of source word i and target word j."""
    return statistics.fmean(abs(i - j) for i, j in pair.alignment.sure)


def sentences_by_distance(corpus: Corpus, count: int) -> dict[str, list[Pair]]:
    """`count` new sentences of 7 to 20 words for each distance: up to half a place, 1, 2, and more than 2."""
    seen = {pair.source for pair in corpus.train}
    names, borders = ("0-0.5", "0.5-1", "1-2", "2+"), (0.5, 1, 2)
    found: dict[str, list[Pair]] = {name: [] for name in names}
    for pair in sentences(12 * count, 7, 20, "test distance"):
        group = found[names[bisect_left(borders, distance_moved(pair))]]
        if pair.source not in seen and len(group) < count:
            group.append(pair)
    return found


def translate_pairs(
    model: nn.Module, corpus: Corpus, pairs: Sequence[Pair], width: int = 1
) -> list[Translation]:
    """The model's own translations of the sources, in order."""
    return translate(
        model,
        [pair.source for pair in pairs],
        corpus.source_vocabulary,
        corpus.target_vocabulary,
        width=width,
    )


def bleu_by_group(model: nn.Module, corpus: Corpus, groups: dict[str, list[Pair]]) -> dict[str, float]:
    """BLEU of greedy translations, for each group."""
    return {
        name: round(
            corpus_bleu(
                [t.tokens for t in translate_pairs(model, corpus, pairs)], [p.target for p in pairs]
            ).score,
            2,
        )
        for name, pairs in groups.items()
    }


def caption_bleu(model: nn.Module, corpus: Corpus, pairs: Sequence[Pair]) -> dict:
    """BLEU of all pairs together, greedy and with a beam of 4, and the signature of the metric."""
    references = [pair.references for pair in pairs]
    scores = {
        name: corpus_bleu([t.tokens for t in translate_pairs(model, corpus, pairs, width)], references)
        for name, width in {"greedy": 1, "beam 4": 4}.items()
    }
    return {
        "bleu": {name: round(score.score, 2) for name, score in scores.items()},
        "signature": scores["greedy"].signature,
    }


def phoneme_errors(
    model: nn.Module, corpus: Corpus, groups: dict[str, list[Pair]]
) -> dict[str, dict[str, float]]:
    """Phoneme and word error rates in percent: of each group, and of all together ("all")."""
    said = {name: [t.tokens for t in translate_pairs(model, corpus, pairs)] for name, pairs in groups.items()}
    accepted = {name: [pair.references for pair in pairs] for name, pairs in groups.items()}
    said["all"], accepted["all"] = sum(said.values(), []), sum(accepted.values(), [])

    def percent(rate: Callable) -> dict[str, float]:
        return {name: round(100 * rate(said[name], accepted[name]), 2) for name in said}

    return {"PER": percent(error_rate), "WER": percent(sequence_error_rate)}


def teacher_forced_weights(model: nn.Module, corpus: Corpus, pairs: Sequence[Pair]) -> list[torch.Tensor]:
    """For each pair the weights (target words, source words) with which the model reads the gold target."""
    place, found = next(model.parameters()).device, []
    model.eval()
    for start in range(0, len(pairs), 100):
        part = pairs[start : start + 100]
        batch = collate(part, corpus.source_vocabulary, corpus.target_vocabulary).to(place)
        with torch.no_grad():
            weights = model(batch.source, batch.source_lengths, batch.target_in).weights.cpu()
        found += [
            row[: len(pair.target), : len(pair.source)] for row, pair in zip(weights, part, strict=True)
        ]
    return found


def teacher_forced_centres(
    model: LuongTranslator, corpus: Corpus, pairs: Sequence[Pair]
) -> list[torch.Tensor]:
    """For each pair the centres p_t (target words,) with which a local model reads the gold target."""
    found = []

    def keep(local, given, named):
        found.extend(local.centres(given[0], named["lengths"], named["time"]).cpu())

    handle = model.local.register_forward_pre_hook(keep, with_kwargs=True)
    try:
        teacher_forced_weights(model, corpus, pairs)
    finally:
        handle.remove()
    return [row[: len(pair.target)] for row, pair in zip(found, pairs, strict=True)]


def alignment_errors(model: nn.Module, corpus: Corpus, pairs: Sequence[Pair]) -> dict[str, float]:
    """Alignment error rate of the model's weights (arg max), and of the diagonal guess, on the same pairs."""
    gold = [pair.alignment for pair in pairs]
    found = [links_from_weights(weights) for weights in teacher_forced_weights(model, corpus, pairs)]
    guess = [diagonal_links(len(pair.source), len(pair.target)) for pair in pairs]
    return {
        "AER": round(alignment_error_rate(found, gold), 4),
        "AER of the diagonal": round(alignment_error_rate(guess, gold), 4),
    }
