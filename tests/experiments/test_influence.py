"""Influence of source words: shares of a gradient, in the source's order."""

import pytest
import torch

from attncourse.data import Corpus, Pair, Vocabulary
from attncourse.experiments.influence import influence
from attncourse.models import RNNSearch, Seq2Seq

WORDS = Vocabulary(["le", "chat", "dort"])
CORPUS = Corpus("tiny", (), (), (), WORDS, WORDS)
PAIR = Pair(("chat", "chat", "dort"), ("le", "chat"))


def seq2seq(**options):
    torch.manual_seed(0)
    return Seq2Seq(len(WORDS), len(WORDS), embedding=4, hidden=6, **options)


def rnnsearch():
    torch.manual_seed(0)
    return RNNSearch(len(WORDS), len(WORDS), embedding=4, hidden=6)


@pytest.mark.parametrize("build", [seq2seq, rnnsearch, lambda: seq2seq(context="mean")])
def test_every_row_shares_out_one(build):
    """A row for each target word and END, a column for each position, also of a word said twice."""
    model = build()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    shares = influence(model, CORPUS, PAIR)
    assert shares.shape == (3, 3) and not shares.requires_grad
    torch.testing.assert_close(shares.sum(1), torch.ones(3))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters()), "gradients were left in the model"


def test_a_word_that_is_not_read_has_no_influence():
    """Columns follow the source's order, also in a model that reads it backwards."""
    for reverse, unread in [(False, 0), (True, 2)]:
        model = seq2seq(reverse=reverse)
        with torch.no_grad():  # update gate shut for the past: h_t depends on x_t alone
            for parameter in (model.encoder.weight_hh_l0, model.encoder.bias_hh_l0, model.encoder.bias_ih_l0):
                parameter.zero_()
            model.encoder.weight_ih_l0[6:12] = 0.0
            model.encoder.bias_ih_l0[6:12] = -200.0
        shares = influence(model, CORPUS, PAIR)
        assert shares[:, unread].max() == 0, "the columns are not in the order of the source"
        assert shares[:, 2 - unread].min() > 0.99


def test_no_source_is_refused():
    with pytest.raises(ValueError, match="no source words"):
        influence(seq2seq(), CORPUS, Pair((), ("le",)))
