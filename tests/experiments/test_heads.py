"""Silent heads are silent, and shares of weight are shares."""

import itertools

import pytest
import torch

from attncourse.data import collate, translation_corpus
from attncourse.experiments import heads
from attncourse.experiments.heads import (
    Head,
    attentions,
    damages,
    even_reading,
    heads_measured,
    heads_of,
    maps_of,
    pruning_order,
    readings,
    without,
)
from attncourse.experiments.sequences import loss_on, transformer
from attncourse.models import Maps

CORPUS = translation_corpus(200, dev=6, test=6)
BATCHES = heads.batched(CORPUS, CORPUS.dev, 4)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return transformer(CORPUS, width=16, heads=2, layers=2).eval()


def logits(model):
    batch = collate(CORPUS.test, CORPUS.source_vocabulary, CORPUS.target_vocabulary)
    return model(batch.source, batch.source_lengths, batch.target_in).logits


def test_every_head_is_listed_once(model):
    heads = heads_of(model)
    assert len(heads) == len(set(heads)) == 3 * 2 * 2
    assert len({id(attention) for attention in attentions(model).values()}) == 6


def test_a_silent_head_says_nothing_and_comes_back(model):
    """Its values may be anything while it is off; afterwards the weights are those from before."""
    head, before = Head("between", 1, 1), logits(model)
    values = attentions(model)["between", 1].value_projection.weight
    kept = values.detach().clone()
    with without(model, [head]):
        silent = logits(model)
        with torch.no_grad():
            values[8:] += 9.0  # the second head's values: rows 8 to 15 of 16
        assert torch.equal(logits(model), silent), "the head is not off, or the wrong columns are"
        with torch.no_grad():
            values[:8] += 1.0
        assert not torch.equal(logits(model), silent), "the other head was switched off too"
        with torch.no_grad():
            values.copy_(kept)
    assert not torch.equal(silent, before) and torch.equal(logits(model), before)


def test_heads_come_back_after_an_error_and_from_one_layer_together(model):
    heads, before = [Head("source", 0, 0), Head("source", 0, 1)], logits(model)
    with pytest.raises(RuntimeError, match="on purpose"), without(model, heads):
        assert (attentions(model)["source", 0].output_projection.weight == 0).all()
        raise RuntimeError("on purpose")
    assert torch.equal(logits(model), before)


def test_damage_is_the_loss_without_one_more_head(model):
    """`already` is off both before and after, so that its own damage is not counted again."""
    gone, head = [Head("source", 0, 1), Head("target", 1, 0)], Head("between", 1, 1)
    with without(model, gone):
        before = loss_on(model, BATCHES)
    with without(model, [*gone, head]):
        after = loss_on(model, BATCHES)
    assert before != after != loss_on(model, BATCHES)
    assert damages(model, BATCHES, [head], gone)[head] == pytest.approx(after - before, abs=1e-7)


def test_the_loss_counts_every_token_once(model):
    """However the pairs are put into batches: a mean of the batches' means would weigh short ones more."""
    whole = loss_on(model, heads.batched(CORPUS, CORPUS.dev, 6))
    one_by_one = loss_on(model, heads.batched(CORPUS, CORPUS.dev, 1))
    assert one_by_one == pytest.approx(whole, rel=1e-5)


def test_the_order_of_pruning_starts_with_the_cheapest_and_holds_every_head(model):
    order = pruning_order(model, BATCHES, at_a_time=5)
    damage = damages(model, BATCHES, heads_of(model))
    assert sorted(order) == sorted(heads_of(model))
    assert order[0] == min(damage, key=damage.get)
    left = [head for head in heads_of(model) if head not in order[:5]]
    anew = damages(model, BATCHES, left, order[:5])
    assert order[5] == min(anew, key=anew.get), "the second round must be measured without the first five"


def by_hand(weights, offset):
    """The mean weight that lies `offset` places from the query."""
    found = [weights[t][t + offset] for t in range(len(weights)) if 0 <= t + offset < len(weights[t])]
    return sum(found) / len(found)


def test_readings_are_the_shares_that_a_loop_finds(model):
    pairs = CORPUS.test[:1]
    [maps], found = maps_of(model, CORPUS, pairs), readings(maps_of(model, CORPUS, pairs), pairs)
    for layer, number in itertools.product(range(2), range(2)):
        for relation, offset, name in (("source", -1, "-1"), ("source", 1, "+1"), ("target", -2, "-2"),
                                       ("target", 0, "0")):
            expected = by_hand(getattr(maps, relation)[layer, number].tolist(), offset)
            assert found[Head(relation, layer, number)][name] == pytest.approx(expected, abs=1e-4)
        weights, gold = maps.between[layer, number].tolist(), pairs[0].alignment.possible
        rows = {j for _, j in gold}
        expected = sum(weights[j][i] for i, j in gold) / len(rows)
        assert found[Head("between", layer, number)]["gold"] == pytest.approx(expected, abs=1e-4)


def test_maps_are_cut_to_the_words_and_their_rows_sum_to_one(model):
    """A row or column of padding would drag every share down."""
    for maps, pair in zip(maps_of(model, CORPUS, CORPUS.test), CORPUS.test, strict=True):
        s, t = len(pair.source), len(pair.target) + 1
        assert [kind.shape[-2:] for kind in maps] == [(s, s), (t, t), (t, s)]
        for kind in maps:
            torch.testing.assert_close(kind.sum(-1), torch.ones(kind.shape[:-1]))


def test_an_even_head_has_even_shares():
    pair = CORPUS.test[0]
    found, s, t = even_reading([pair]), len(pair.source), len(pair.target) + 1
    assert found["source"]["-1"] == pytest.approx(1 / s, abs=1e-4)
    assert found["target"]["0"] == pytest.approx(sum(1 / n for n in range(1, t + 1)) / t, abs=1e-4)


def test_a_head_that_reads_the_word_before_is_found():
    pair = CORPUS.test[0]
    s, t = len(pair.source), len(pair.target) + 1
    before = torch.zeros(1, 1, s, s)
    before[..., range(1, s), range(s - 1)] = 1.0
    maps = Maps(before, torch.eye(t)[None, None], torch.full((1, 1, t, s), 1 / s))
    found = readings([maps], [pair])
    assert found[Head("source", 0, 0)] == {"-1": 1.0, "0": 0.0, "+1": 0.0}
    assert found[Head("target", 0, 0)]["0"] == 1.0


@pytest.mark.filterwarnings("ignore:BLEU is 0")
def test_the_table_s_row_holds_what_the_chapter_reads(monkeypatch):
    monkeypatch.setattr(heads, "SENTENCE", " ".join(CORPUS.test[0].source))
    torch.manual_seed(0)
    small = transformer(CORPUS, width=16, heads=2, layers=1).eval()
    found = heads_measured(small, CORPUS, dev=CORPUS.dev[:3], test=CORPUS.test[:2], seed=0)
    assert list(found["cheapest first"]) == list(found["random order"]) == ["6", "2"]
    assert found["cheapest first"]["6"] == found["random order"]["6"]
    assert sorted(entry["switched off as"] for entry in found["heads"]) == list(range(1, 7))
    source, target = found["sentence"]
    for relation, queries, keys in (("source", source, source), ("between", [*target, "END"], source)):
        weights = torch.tensor(found["maps"][relation])
        assert weights.shape == (1, 2, len(queries), len(keys))
        assert (weights.sum(-1) - 1_000).abs().max() <= len(keys) / 2, "per mille, each rounded"
