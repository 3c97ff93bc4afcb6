"""Every row of every table is run, small, on data whose parts are marked: it does what it declares.

Reported on the training part, chosen on the test part, trained for twice the steps, at another rate: all of
that leaves a table that looks like any other. Here each of it fails.
"""

import dataclasses
import functools
import math

import marked
import pytest
import torch
from torch import nn

from attncourse.data import (
    cifar10_corpus,
    copying_corpus,
    digits_corpus,
    documents_corpus,
    multi30k_corpus,
    pronunciation_corpus,
    reviews_corpus,
    translation_corpus,
)
from attncourse.experiments import sequences
from attncourse.experiments.image_classifiers import drawn
from attncourse.experiments.lookup import LookUp
from attncourse.experiments.pooling import untrained_classifier
from attncourse.experiments.rates import Cosine, HeldCosine, WarmedCosine, WarmUp
from attncourse.experiments.results import load_results
from attncourse.experiments.tables import EXPERIMENTS
from attncourse.experiments.tables import captioners as captioner_tables
from attncourse.experiments.tables import detection as detection_tables
from attncourse.experiments.tables import images as image_tables

ROWS = [(name, row) for name, experiment in EXPERIMENTS.items() for row in experiment.rows]
TRAINED = [(name, row) for name, row in ROWS if row.trainings]
MARKED = {
    translation_corpus: marked.corpus,
    copying_corpus: marked.corpus,
    pronunciation_corpus: marked.corpus,
    multi30k_corpus: marked.corpus,
    documents_corpus: marked.documents,
    reviews_corpus: marked.documents,
    captioner_tables.scenes: marked.scenes,
    detection_tables.scenes: marked.boxed,
    digits_corpus: marked.images(1, 8),
    cifar10_corpus: marked.images(3, 32),
    None: None,
}
NARROW = {
    sequences.fixed_context: {"hidden": 6, "embedding": 4},
    sequences.additive_attention: {"hidden": 6, "embedding": 4},
    sequences.global_attention: {"hidden": 6, "embedding": 4},
    sequences.transformer: {"width": 48, "inner": 8, "layers": 1},
    captioner_tables.untrained_captioner: {"hidden": 6, "embedding": 4, "width": 4},
    detection_tables.untrained_detector: {"width": 16, "heads": 2, "inner": 8, "decoder_layers": 2},
    untrained_classifier: {"embedding": 4, "width": 4},
}
DRAWN_BY = ("lookup", "linear_lookup", "two_heads", "longer_inputs")  # tables without a corpus


def small_steps(steps: int) -> int:
    """Few steps, so that it is quick; but twice the steps stay twice the steps."""
    return math.ceil(steps / 200) if steps <= 6_000 else 21


def small(row):
    """The row on marked data, narrow, and with few steps and small batches. What else it says stays."""
    trainings = tuple(
        # Batches that are drawn keep their size: with another, other items would be drawn.
        dataclasses.replace(training, steps=small_steps(training.steps),
                            size=3 if row.corpus else training.size,
                            items=training.items and 1 + math.ceil(training.items / 300))
        for training in row.trainings
    )
    before = row.before and dataclasses.replace(row.before, steps=small_steps(row.before.steps), size=3)
    options = {**row.options, **NARROW.get(row.build, {})}
    if row.build is image_tables.photograph_reader and row.dropout is not None:
        options |= {"width": 12, "heads": 2, "layers": 1}
    return dataclasses.replace(row, corpus=MARKED[row.corpus], data={}, options=options, trainings=trainings,
                               before=before)


def expected_rates(rate, steps: int) -> list[float]:
    """The rates of a run by their formulas, written a second time."""
    done = [step / steps for step in range(steps + 1)]
    if isinstance(rate, Cosine):
        return [rate.peak * 0.5 * (1 + math.cos(math.pi * share)) for share in done[:-1]]
    if isinstance(rate, HeldCosine):
        fallen = [max(0.0, (share - rate.held) / (1 - rate.held)) for share in done[1:]]
        return [rate.peak * 0.5 * (1 + math.cos(math.pi * share)) for share in fallen]
    if isinstance(rate, WarmedCosine):
        rise = max(1, int(rate.warm_up * steps))
        return [rate.peak * (step / rise if step <= rise else
                             0.5 * (1 + math.cos(math.pi * (step - rise) / (steps - rise))))
                for step in range(1, steps + 1)]
    assert isinstance(rate, WarmUp), f"write down what {rate} should be"
    return [rate.width**-0.5 * min(step**-0.5, step * rate.warm_up**-1.5) for step in range(1, steps + 1)]


def count(batch) -> int:
    """Items in a batch of any kind."""
    return len(batch) if isinstance(batch, torch.Tensor) else count(batch[0])


def dropout_of(model: nn.Module) -> float:
    """The largest share that a model drops anywhere."""
    found = [module.p if isinstance(module, nn.Dropout) else getattr(module, "dropout", 0.0)
             for module in model.modules()]
    return max([share for share in found if isinstance(share, float)], default=0.0)


def check_fit(fit: dict, training, size: int, row) -> None:
    """One call of `train` against what was declared of it."""
    assert len(fit["rates"]) == training.steps, "another number of updates than the row declares"
    rates = expected_rates(training.rate, training.steps)
    assert fit["rates"] == pytest.approx(rates, abs=1e-9), f"the rate is not {training.rate}"
    assert {count(batch) for batch in fit["batches"]} <= {training.size, size % training.size, size}
    assert max(count(batch) for batch in fit["batches"]) == min(training.size, size), "another batch size"
    assert fit.get("clip", 1.0) == training.clip and fit["smoothing"] == training.smoothing
    assert fit["seed"] == 0, "the seed does not reach the training"
    every = max(1, training.steps // training.evaluations) if training.evaluations else 0
    looks = math.ceil(training.steps / every) if every else 0
    assert len(fit["looks"]) == looks, "the weights are chosen otherwise than the row declares"


@pytest.mark.filterwarnings("ignore:BLEU is 0")
@pytest.mark.parametrize(("table", "row"), TRAINED, ids=[f"{name}: {row.name}" for name, row in TRAINED])
def test_a_row_does_what_it_declares(table, row, monkeypatch):
    """Steps, rates, batches, regularisation; and which part is learned from, chosen by and measured on."""
    tiny = small(row)
    with marked.recorded(monkeypatch) as record:
        numbers = tiny.run(tiny, 0)
    expected = [tiny.before] * bool(tiny.before and tiny.before.steps) + list(tiny.trainings)
    assert len(record.fits) == len(expected), "trained another number of times than declared"
    for fit, training in zip(record.fits, expected, strict=True):
        size = 10**9 if tiny.corpus is None else training.items or length_of(marked_corpus(tiny).train)
        check_fit(fit, training, size, tiny)
        if training is not tiny.before:
            assert dropout_of(fit["model"]) == (row.dropout or 0.0), "another dropout than the row declares"
    assert numbers["parameters"] > 0
    if tiny.corpus is None:
        assert record.drawn["train"] and record.drawn["measure"]
        assert not record.drawn["train"] & record.drawn["measure"], "measured on what was trained on"
        return
    assert record.seen["train"] == {"train"}, "learned from another part than train"
    chosen = any(training.evaluations for training in row.trainings) or row.choices
    assert record.seen["choose"] == ({"dev"} if chosen else set()), "something is not chosen by dev"
    parts = {"new" if measure.new else measure.on for measure in row.measures}
    assert record.seen["measure"] == parts, "measured on other parts than the row declares"
    # The noise of a gradient is one of training; all else that the book reports was never trained on.
    noise = {"train"} if table == "reinforce_variance" and len(row.trainings) == 2 else set()
    assert parts - {"test", "new"} == noise, "reported on a part that was trained on or chosen by"


def marked_corpus(row):
    """What the row learned from."""
    return row.corpus(seed=0)


def length_of(part) -> int:
    """Items in a part of any corpus."""
    return len(getattr(part, "labels", part))


@pytest.mark.parametrize("table", ["detection"])
def test_no_object_counts_more_from_the_declared_step_on(table, monkeypatch):
    """The loss does not count its own calls: the weight comes with the batch of the step."""
    [row] = [row for row in EXPERIMENTS[table].rows if row.name == "as in the chapter"]
    tiny = small(row)
    with marked.recorded(monkeypatch) as record:
        tiny.run(tiny, 0)
    weights = [batch.no_object for batch in record.fits[-1]["batches"]]
    [training] = tiny.trainings
    low, high = training.extra["no_object"]
    held = [step for step in range(training.steps) if step < training.rate.held * training.steps]
    assert weights == [low] * len(held) + [high] * (training.steps - len(held)) and low < high


def test_the_encoder_reads_the_declared_part(monkeypatch):
    [row] = EXPERIMENTS["pretrained_heads"].rows
    with marked.recorded(monkeypatch) as record:
        row.run(dataclasses.replace(row, corpus=marked.corpus), 0)
    assert record.seen["measure"] == {"test"} and not record.fits


def test_rows_are_told_apart_and_say_all_that_differs():
    """Two rows with one name would be one in the file; two that declare the same would be one system."""
    for name, experiment in EXPERIMENTS.items():
        systems = experiment.systems
        assert len(set(systems)) == len(systems), f"{name} has a system twice"
        facts = [tuple(row.facts().items()) for row in experiment.rows if row.trainings]
        assert len(set(facts)) == len(facts), f"{name} has two rows that declare the same"


@pytest.mark.parametrize("name", dict.fromkeys(name for name, _ in TRAINED))
def test_the_words_of_a_table_hold_its_budget(name):
    """`what` cannot leave out steps, batch, rate, regularisation, the choosing part or the measured one."""
    experiment = EXPERIMENTS[name]
    for row in experiment.rows:
        for column in ("steps", "batch", "learning rate", "regularisation", "trained on", "weights"):
            assert row.facts()[column] in experiment.what, f"{column} of {row.name}"
        assert all(str(measure) in experiment.what for measure in row.measures)


loaded = functools.cache(lambda load: load())  # once for all tables of a corpus


# Built on the real corpora, which takes long for some: one table for each kind of model.
@pytest.mark.parametrize("name", ["luong_scores", "transformer_changes", "pronunciation_ladder", "vit_data",
                                  "documents_pooling", "lookup", "two_heads", "longer_inputs"])
def test_the_declared_models_are_those_that_were_measured(name):
    """Other sizes in the definition than in the stored runs: the parameters differ."""
    table = load_results(name)
    for row in EXPERIMENTS[name].rows:
        corpus = row.corpus and loaded(row.corpus)
        assert sequences.parameters(row.model(corpus, 0)) == table.values(row.name, "parameters")[0], row.name


def test_a_larger_draw_of_images_holds_the_smaller():
    """`items` of a row are drawn so that more of them are more, and not others."""
    corpus = digits_corpus()
    for row in EXPERIMENTS["vit_data"].rows:
        few, more, *_ = [training.parts_of(corpus, 3).train.images for training in row.trainings]
        assert torch.equal(more[: len(few)], few) and row.trainings[0].drawn_by is drawn
    assert isinstance(EXPERIMENTS["lookup"].rows[0].model(None, 0), LookUp)
