"""One vector from many, by attention, by the mean, and by the last state: classes of documents."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from attncourse.data import (
    Document,
    DocumentBatch,
    DocumentCorpus,
    collate_documents,
    document_batches,
)
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
    return untrained_classifier(corpus, system, **sizes)


def untrained_classifier(corpus: DocumentCorpus, system: str, **sizes) -> HierarchicalAttentionNetwork:
    """`document_classifier` from the random numbers that torch has now."""
    options = {**SYSTEMS[system], **sizes}
    return HierarchicalAttentionNetwork(len(corpus.vocabulary), len(corpus.classes), **options)


def document_loss(model: HierarchicalAttentionNetwork, batch: DocumentBatch) -> Float[Tensor, ""]:
    """Cross-entropy of the class."""
    return F.cross_entropy(model(*batch[:3]).logits, batch.labels)


def fit_documents(
    model: HierarchicalAttentionNetwork,
    corpus: DocumentCorpus,
    *,
    epochs: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    size: int = 5,
    learning_rate: float = 1e-2,
    **options,
) -> History:
    """Train for some epochs; the learning rate falls to 0 at the end of the last.

    Args:
        model: to be trained in place.
        corpus: to learn from.
        epochs: how often every training document is read; or
        steps: updates in all.
        seed: of the order of the documents.
        size: documents in a batch.
        learning_rate: the first one.
        options: passed on to `train`.

    Raises:
        ValueError: epochs and steps, or neither.
    """
    if (epochs is None) == (steps is None):
        raise ValueError(f"epochs is {epochs} and steps is {steps}: give one of them")
    batches = document_batches(corpus.train, corpus.vocabulary, size, seed)
    return train(model, document_loss, batches, steps=steps or epochs * len(batches), seed=seed,
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
