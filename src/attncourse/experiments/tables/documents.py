"""Tables of document classifiers: one vector from many, by attention, by the mean, and by the last state."""

from dataclasses import replace
from math import ceil

from attncourse.data import Document, DocumentCorpus, documents_corpus, reviews_corpus
from attncourse.experiments.declarations import Experiment, Measure, Row, Training
from attncourse.experiments.pooling import SYSTEMS, accuracy, finding, fit_documents, untrained_classifier
from attncourse.experiments.rates import Cosine
from attncourse.models import HierarchicalAttentionNetwork
from attncourse.training import History

DOCUMENTS, REVIEWS = 1_500, 22_500  # to learn from
REVIEW_SIZES = {"embedding": 100, "hidden": 50}


def fit_classifier(
    model: HierarchicalAttentionNetwork, corpus: DocumentCorpus, training: Training, seed: int
) -> History:
    """`fit_documents` with a declared budget."""
    return fit_documents(model, corpus, seed=seed, size=training.size, **training.options())


def right(model: HierarchicalAttentionNetwork, corpus: DocumentCorpus, documents: list[Document]) -> dict:
    """Share of right classes."""
    return {"accuracy": round(accuracy(model, corpus, documents), 4)}


RIGHT = Measure("share of right classes", right)
FOUND = Measure(
    "share with most weight on the deciding sentence, and within it on the deciding word", finding, after="3"
)
CLASSIFIER = Row("", build=untrained_classifier, fit=fit_classifier, measures=(RIGHT,))


def _epochs(count: int, rate: float) -> Training:
    """So many readings of every training document, in batches of 5; each is a run from the start."""
    return Training(count * ceil(DOCUMENTS / 5), 5, Cosine(rate), label=str(count))


def _has_gru(system: str) -> bool:
    return SYSTEMS[system].get("hidden", 0) is not None


DOCUMENTS_POOLING = Experiment(
    "documents_pooling",
    "Made reviews in which one sentence decides the class, read for 1, 2, 3 and 6 epochs, each a run of its "
    "own.",
    [replace(CLASSIFIER, name=name, options={"system": name}, corpus=documents_corpus,
             data={"train": DOCUMENTS},
             trainings=tuple(_epochs(count, 5e-3 if _has_gru(name) else 1e-2) for count in (1, 2, 3, 6)),
             measures=(RIGHT, FOUND) if name.startswith("attention") else (RIGHT,))
     for name in SYSTEMS],
)
REVIEWS_POOLING = Experiment(
    "reviews_pooling",
    "Film reviews (IMDB), praising or damning, read for 3 epochs.",
    [replace(CLASSIFIER, name=name, corpus=reviews_corpus,
             options={"system": name, **(REVIEW_SIZES if _has_gru(name) else {})},
             trainings=(Training(3 * ceil(REVIEWS / 32), 32, Cosine(2e-3)),))
     for name in SYSTEMS],
)

EXPERIMENTS = [DOCUMENTS_POOLING, REVIEWS_POOLING]
