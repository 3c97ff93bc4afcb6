"""Chapter 06's tables: one vector from many, by attention, by the mean, and by the last state."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attncourse.data import (
    Document,
    DocumentBatch,
    DocumentBatches,
    DocumentCorpus,
    collate_documents,
    documents_corpus,
    reviews_corpus,
)
from attncourse.experiments.results import Experiment
from attncourse.experiments.sequences import parameters
from attncourse.models import HierarchicalAttentionNetwork
from attncourse.training import History, train

# Without GRUs nothing but the pooling can choose among words and sentences. With them, a GRU can.
WITHOUT_GRUS = {"embedding": 64, "hidden": None, "width": 16}
SYSTEMS = {
    "attention pooling": {"pooling": "attention", **WITHOUT_GRUS},
    "mean": {"pooling": "mean", **WITHOUT_GRUS},
    "attention pooling, with GRUs": {"pooling": "attention"},
    "mean, with GRUs": {"pooling": "mean"},
    "last state": {"pooling": "last"},
}
EPOCHS = (1, 2, 3, 6)
REVIEW_SIZES = {"embedding": 100, "hidden": 50}


class Reading(NamedTuple):
    """What a model says of one document, and what it read for it.

    Shapes: probabilities (classes,); word_weights (words,) for each sentence; sentence_weights (sentences,).
    The last state has no weights: None.
    """

    probabilities: Float[Tensor, "classes"]
    word_weights: list[Float[Tensor, "words"]] | None
    sentence_weights: Float[Tensor, "sentences"] | None


def document_classifier(
    corpus: DocumentCorpus, system: str, *, seed: int = 0, **sizes
) -> HierarchicalAttentionNetwork:
    """An untrained model, as one of `SYSTEMS`; `sizes` replace that system's own."""
    torch.manual_seed(seed)
    options = {**SYSTEMS[system], **sizes}
    return HierarchicalAttentionNetwork(len(corpus.vocabulary), len(corpus.classes), **options)


def document_loss(model: HierarchicalAttentionNetwork, batch: DocumentBatch) -> Float[Tensor, ""]:
    """Cross-entropy of the class."""
    return F.cross_entropy(model(*batch[:3]).logits, batch.labels)


def fit_documents(
    model: HierarchicalAttentionNetwork,
    corpus: DocumentCorpus,
    *,
    epochs: int,
    seed: int = 0,
    size: int = 5,
    learning_rate: float = 1e-2,
    **options,
) -> History:
    """Train for some epochs; the learning rate falls to 0 at the end of the last.

    Args:
        model: to be trained in place.
        corpus: to learn from.
        epochs: how often every training document is read.
        seed: of the order of the documents.
        size: documents in a batch.
        learning_rate: the first one.
        options: passed on to `train`.
    """
    batches = DocumentBatches(corpus.train, corpus.vocabulary, size, seed)
    return train(model, document_loss, batches, steps=epochs * len(batches), seed=seed,
                 learning_rate=learning_rate, **options)


@torch.no_grad()
def read_documents(
    model: HierarchicalAttentionNetwork, corpus: DocumentCorpus, documents: Sequence[Document]
) -> list[Reading]:
    """What a model says of each document, cut to its real words and sentences."""
    place, found = next(model.parameters()).device, []
    model.eval()
    for start in range(0, len(documents), 100):
        part = documents[start : start + 100]
        read = model(*collate_documents(part, corpus.vocabulary).to(place)[:3])
        for i, document in enumerate(part):
            words = sentences = None
            if read.sentence_weights is not None:
                rows = zip(read.word_weights[i], document.sentences, strict=False)
                words = [row[: len(sentence)].cpu() for row, sentence in rows]
                sentences = read.sentence_weights[i, : len(document.sentences)].cpu()
            found.append(Reading(read.logits[i].softmax(-1).cpu(), words, sentences))
    return found


def accuracy(
    model: HierarchicalAttentionNetwork, corpus: DocumentCorpus, documents: Sequence[Document]
) -> float:
    """Share of the documents whose class is the most probable one."""
    read = read_documents(model, corpus, documents)
    right = [
        int(one.probabilities.argmax()) == document.label
        for one, document in zip(read, documents, strict=True)
    ]
    return sum(right) / len(right)


def finding(
    model: HierarchicalAttentionNetwork, corpus: DocumentCorpus, documents: Sequence[Document]
) -> dict[str, float]:
    """Shares of documents in which the deciding sentence has the most weight, and the deciding word in it."""
    sentence = word = 0
    for read, document in zip(read_documents(model, corpus, documents), documents, strict=True):
        sentence += int(read.sentence_weights.argmax()) == document.deciding_sentence
        most = int(read.word_weights[document.deciding_sentence].argmax())
        word += most in document.deciding_words
    return {"deciding sentence": sentence / len(documents), "deciding word": word / len(documents)}


@torch.no_grad()
def logits_with(
    model: HierarchicalAttentionNetwork,
    batch: DocumentBatch,
    sentence_weights: Float[Tensor, "batch sentences"],
) -> Float[Tensor, "batch classes"]:
    """The logits if the sentences were weighed otherwise, all else as it is (Jain and Wallace 2019)."""
    vectors, _ = model.read_words(*batch[:3])
    states = model.sentences.annotate(vectors, batch.sentences)[0] if model.sentences.recurrent else vectors
    return model.output((sentence_weights[:, None] @ states).squeeze(1))


def documents_pooling(system: str, seed: int) -> dict:
    """Test accuracy after some epochs, each a run of its own, and what the attention found in the third."""
    corpus = documents_corpus()
    numbers: dict = {"accuracy": {}}
    for epochs in EPOCHS:
        model = document_classifier(corpus, system, seed=seed)
        fit_documents(model, corpus, epochs=epochs, seed=seed,
                      learning_rate=5e-3 if model.words.recurrent else 1e-2)
        numbers["accuracy"][str(epochs)] = round(accuracy(model, corpus, corpus.test), 4)
        if epochs == 3 and system.startswith("attention"):
            numbers |= finding(model, corpus, corpus.test)
    return {"parameters": parameters(model), **numbers}


def reviews_pooling(system: str, seed: int) -> dict:
    """Test accuracy on real reviews after three epochs."""
    corpus = reviews_corpus()
    sizes = {} if SYSTEMS[system].get("hidden", 0) is None else REVIEW_SIZES
    model = document_classifier(corpus, system, seed=seed, **sizes)
    fit_documents(model, corpus, epochs=3, seed=seed, size=32, learning_rate=2e-3)
    return {"parameters": parameters(model), "accuracy": round(accuracy(model, corpus, corpus.test), 4)}


EXPERIMENTS = [
    Experiment(
        "documents_pooling",
        "1,500 made reviews in which one sentence decides the class; share of 1,000 test reviews that are "
        "classified rightly after 1, 2, 3 and 6 epochs, and that have most weight on the deciding sentence, "
        "and within it on the deciding word, after 3.",
        tuple(SYSTEMS),
        (0, 1, 2),
        documents_pooling,
    ),
    Experiment(
        "reviews_pooling",
        "IMDB, 22,500 reviews to train on, 3 epochs of batches of 32; share of the 25,000 test reviews that "
        "are classified rightly.",
        tuple(SYSTEMS),
        (0, 1, 2),
        reviews_pooling,
    ),
]
