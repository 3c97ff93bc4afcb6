"""The steps that every experiment shares: equal sizes, fresh test sentences, scores in the right groups."""

import pytest
import torch

from attncourse.data import pronunciation_corpus, translation_corpus
from attncourse.experiments import sequences


@pytest.fixture(scope="module")
def corpus():
    return translation_corpus(300, dev=20, test=20)


@pytest.mark.parametrize("make", [translation_corpus, pronunciation_corpus])
def test_the_two_models_have_equally_many_parameters(make):
    """Within a tenth, on both corpora: else a better score could be bought by size."""
    data = make()
    fixed, additive = (
        sequences.parameters(build(data)) for build in (sequences.fixed_context, sequences.additive_attention)
    )
    assert 0.9 < fixed / additive < 1.1, f"{fixed:,} against {additive:,} parameters"


def test_test_sentences_are_new_and_of_the_length_they_are_listed_under(corpus):
    seen = {pair.source for pair in corpus.train}
    for name, pairs in sequences.sentences_by_length(corpus, 5).items():
        low, high = map(int, name.split("-"))
        assert len(pairs) == 5
        assert all(low <= len(pair.source) <= high and pair.source not in seen for pair in pairs)


def test_weights_of_the_gold_target_fit_each_pair(corpus):
    """Cut to the words of the pair: no row for END, no column for padding, each row summing to 1."""
    torch.manual_seed(0)
    weights = sequences.teacher_forced_weights(
        sequences.additive_attention(corpus, hidden=8), corpus, corpus.test
    )
    for matrix, pair in zip(weights, corpus.test, strict=True):
        assert matrix.shape == (len(pair.target), len(pair.source))
        torch.testing.assert_close(matrix.sum(-1), torch.ones(len(pair.target)))


def test_fit_keeps_the_best_weights_and_repeats_itself(corpus):
    def run():
        torch.manual_seed(0)
        model = sequences.fixed_context(corpus, hidden=8, embedding=8)
        history = sequences.fit(model, corpus, steps=8, size=8, progress=False)
        return history, model.start.weight.detach()

    (first, weight), (second, again) = run(), run()
    assert first.dev == second.dev and torch.equal(weight, again), "the same seed gave another run"
    assert len(first.loss) == 8 and len(first.dev) == 4
