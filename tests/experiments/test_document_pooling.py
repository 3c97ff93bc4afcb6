"""Documents: a loss that is the paper's, readings cut to what is real, and weights that can be exchanged."""

import pytest
import torch

from attncourse.data import collate_documents, documents_corpus
from attncourse.experiments import pooling
from attncourse.experiments.pooling import (
    SYSTEMS,
    Reading,
    accuracy,
    document_classifier,
    document_loss,
    finding,
    fit_documents,
    logits_with,
    read_documents,
)

CORPUS = documents_corpus(24, dev=6, test=120)
SYSTEM = "attention pooling, with GRUs"


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_system_trains_and_reads(system):
    """A few steps; weights fit each document, none is left for padding."""
    model = document_classifier(CORPUS, system)
    history = fit_documents(model, CORPUS, epochs=1, device="cpu", progress=False)
    assert len(history.loss) == 5, "24 documents in batches of 5"
    readings = read_documents(model, CORPUS, CORPUS.test)
    assert len(readings) == 120, "more documents than a batch"
    for reading, document in zip(readings, CORPUS.test, strict=True):
        torch.testing.assert_close(reading.probabilities.sum(), torch.tensor(1.0))
        if system == "last state":
            assert reading.word_weights is None and reading.sentence_weights is None
            continue
        assert reading.sentence_weights.shape == (len(document.sentences),)
        torch.testing.assert_close(reading.sentence_weights.sum(), torch.tensor(1.0))
        assert [len(row) for row in reading.word_weights] == [len(s) for s in document.sentences]
        for row in reading.word_weights:
            torch.testing.assert_close(row.sum(), torch.tensor(1.0))


def test_readings_come_back_in_order():
    model = document_classifier(CORPUS, SYSTEM)
    readings = read_documents(model, CORPUS, CORPUS.test)
    [alone] = read_documents(model, CORPUS, CORPUS.test[110:111])
    torch.testing.assert_close(readings[110].probabilities, alone.probabilities)
    torch.testing.assert_close(readings[110].sentence_weights, alone.sentence_weights)


def test_the_loss_is_the_mean_of_minus_log_p():
    model, batch = document_classifier(CORPUS, SYSTEM), collate_documents(CORPUS.dev, CORPUS.vocabulary)
    readings = read_documents(model, CORPUS, CORPUS.dev)
    said = torch.stack([r.probabilities[d.label] for r, d in zip(readings, CORPUS.dev, strict=True)])
    torch.testing.assert_close(document_loss(model, batch), -said.log().mean())


def test_accuracy_and_finding_count_what_they_say(monkeypatch):
    """Half of the classes, a quarter of the sentences, every second word: made up, then counted."""
    documents, readings = CORPUS.test[:8], []
    for i, document in enumerate(documents):
        shown = torch.zeros(3)
        shown[document.label if i % 2 else (document.label + 1) % 3] = 1.0
        sentence = torch.zeros(len(document.sentences))
        sentence[document.deciding_sentence if i < 2 else document.deciding_sentence - 1] = 1.0
        words = [torch.zeros(len(words)) for words in document.sentences]
        [place] = document.deciding_words
        words[document.deciding_sentence][place - i % 2] = 1.0
        readings.append(Reading(shown, words, sentence))
    monkeypatch.setattr(pooling, "read_documents", lambda *given: readings)
    assert accuracy(None, CORPUS, documents) == 0.5
    assert finding(None, CORPUS, documents) == {"deciding sentence": 0.25, "deciding word": 0.5}


@pytest.mark.parametrize("system", ["attention pooling", SYSTEM])
def test_the_model_s_own_weights_give_its_own_logits_and_others_do_not(system):
    """Else the comparison of weights would compare something else, too."""
    model, batch = document_classifier(CORPUS, system), collate_documents(CORPUS.dev, CORPUS.vocabulary)
    own = model(*batch[:3])
    torch.testing.assert_close(logits_with(model, batch, own.sentence_weights), own.logits)
    turned = logits_with(model, batch, own.sentence_weights.roll(1, -1))
    assert not torch.allclose(turned, own.logits, atol=1e-4)


def test_systems_of_one_seed_start_alike():
    one, same, other = (document_classifier(CORPUS, "last state", seed=seed) for seed in (1, 1, 2))
    assert torch.equal(one.output.weight, same.output.weight)
    assert not torch.equal(one.output.weight, other.output.weight)
