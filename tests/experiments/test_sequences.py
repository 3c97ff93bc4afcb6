"""The steps that every experiment shares: equal sizes, fresh test sentences, scores in the right groups."""

import pytest
import torch

from attncourse.data import Alignment, Pair, pronunciation_corpus, translation_corpus
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


def test_centres_are_those_that_the_weights_were_read_around(corpus):
    """Each pair gets its own row: no weight may lie further than D from its centre, and local-m's are t."""
    torch.manual_seed(0)
    model = sequences.global_attention(corpus, hidden=8, centre="predicted", gaussian="inside", half_width=2)
    found = sequences.teacher_forced_centres(model, corpus, corpus.test)
    weights = sequences.teacher_forced_weights(model, corpus, corpus.test)
    for centre, matrix, pair in zip(found, weights, corpus.test, strict=True):
        assert centre.shape == (len(pair.target),) and len(set(centre.tolist())) > 1
        away = (torch.arange(len(pair.source)) - centre[:, None]).abs()
        assert torch.equal(matrix > 0, away <= 2), "the centre of another word, or of another pair"
    assert not model.local._forward_pre_hooks, "the hook must not stay"
    walking = sequences.global_attention(corpus, hidden=8, centre="monotonic")
    [first] = sequences.teacher_forced_centres(walking, corpus, corpus.test[:1])
    assert first.tolist() == list(range(len(corpus.test[0].target)))


def test_fit_keeps_the_best_weights_and_repeats_itself(corpus):
    def run():
        torch.manual_seed(0)
        model = sequences.fixed_context(corpus, hidden=8, embedding=8)
        history = sequences.fit(model, corpus, steps=8, size=8, progress=False)
        return history, model.start.weight.detach()

    (first, weight), (second, again) = run(), run()
    assert first.dev == second.dev and torch.equal(weight, again), "the same seed gave another run"
    assert len(first.loss) == 8 and len(first.dev) == 4


def test_sentences_by_distance_move_as_far_as_their_group_says(corpus):
    """A group of the wrong sentences would flatter or wrong local attention."""
    groups = sequences.sentences_by_distance(corpus, 5)
    seen = {pair.source for pair in corpus.train}
    for name, (low, high) in {"0-0.5": (0, 0.5), "0.5-1": (0.5, 1), "1-2": (1, 2), "2+": (2, 30)}.items():
        assert len(groups[name]) == 5
        for pair in groups[name]:
            assert 7 <= len(pair.source) <= 20 and pair.source not in seen
            moves = [abs(i - j) for i, j in pair.alignment.sure]
            assert low <= sum(moves) / len(moves) <= high, f"{pair.source} is not in its group, {name}"


def test_distance_moved_is_the_mean_over_the_sure_links():
    """Two words exchanged move by one each; a word in place moves by none; possible links do not count."""
    links = frozenset({(0, 0), (1, 2), (2, 1), (3, 3)})
    alignment = Alignment(links, possible=links | {(0, 3)})
    pair = Pair(("a", "b", "c", "d"), ("A", "C", "B", "D"), alignment)
    assert sequences.distance_moved(pair) == 0.5


def test_nothing_to_choose_by_is_refused_by_name(corpus):
    """An empty dev set, or no batches: a division by 0 says neither."""
    model = sequences.fixed_context(corpus, hidden=8, embedding=8)
    with pytest.raises(ValueError, match="no dev pairs"):
        sequences.fit(model, translation_corpus(30, dev=0, test=5), steps=2)
    with pytest.raises(ValueError, match="batches is empty"):
        sequences.loss_on(model, [])
