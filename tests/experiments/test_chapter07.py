"""Silent heads are silent, shares of weight are shares, and one head cannot tell mirror images apart."""

import itertools

import pytest
import torch

from attncourse.data import collate, translation_corpus
from attncourse.experiments import chapter07
from attncourse.experiments.chapter07 import (
    DOER,
    DONE_TO,
    NOUNS,
    Head,
    WhoDoesWhat,
    attentions,
    damages,
    draw_lists,
    draw_sentences,
    even_reading,
    fit_lookup,
    fit_roles,
    four_versions,
    heads_measured,
    heads_of,
    maps_of,
    pruning_order,
    readings,
    role_scores,
    without,
)
from attncourse.experiments.sequences import transformer
from attncourse.models import Maps

CORPUS = translation_corpus(200, dev=6, test=6)
BATCHES = chapter07.batched(CORPUS, CORPUS.dev, 4)


@pytest.fixture
def model():
    torch.manual_seed(0)
    return transformer(CORPUS, width=16, heads=2, layers=2).eval()


def logits(model):
    batch = collate(CORPUS.test, CORPUS.source_vocabulary, CORPUS.target_vocabulary)
    return model(batch.source, batch.source_lengths, batch.target_in).logits


# --- Look-up and the two questions -------------------------------------------------------------------------


def test_the_answer_is_the_label_of_the_asked_item():
    lists = draw_lists(50, torch.Generator().manual_seed(0))
    for items, labels, asked, answer in zip(*(part.tolist() for part in lists), strict=True):
        assert len(set(items)) == len(items), "an item twice: there would be two answers"
        assert labels[items.index(asked)] == answer


@pytest.mark.parametrize("draw", [draw_lists, draw_sentences])
def test_a_batch_depends_on_seed_and_step_alone(draw):
    """Else a second look at a batch, or another seed's run, would change the training."""
    batches = chapter07.Drawn(draw, 4, 0)
    for first, again, later, other in zip(
        batches[3], batches[3], batches[4], chapter07.Drawn(draw, 4, 1)[3], strict=True
    ):
        assert torch.equal(first, again)
        assert not torch.equal(first, later) and not torch.equal(first, other)


def test_the_scale_decides_whether_a_wide_lookup_learns():
    """Short, so that the test is quick: the scaled score is well ahead before half of the steps."""
    new = draw_lists(500, torch.Generator().manual_seed(1))
    right = {}
    for score in chapter07.SCORES:
        model, _ = fit_lookup(score, 128, steps=120)
        right[score] = (model.cpu()(new)[0].argmax(-1) == new.answer).float().mean().item()
    assert right["scaled dot"] > right["dot"] + 0.2


def test_the_answers_are_the_nouns_with_the_two_roles():
    drawn = draw_sentences(200, torch.Generator().manual_seed(0))
    for role, answer in ((DOER, 0), (DONE_TO, 1)):
        assert ((drawn.roles == role).sum(-1) == 1).all()
        assert torch.equal(drawn.nouns[drawn.roles == role], drawn.answer[:, answer])
    same = (drawn.answer[:, 0] == drawn.answer[:, 1]).float().mean()
    assert 0.35 < same < 0.65, "a noun does it to its like in half of the sentences: the bound rests on that"


def test_four_versions_change_two_nouns_and_nothing_else():
    drawn = draw_sentences(40, torch.Generator().manual_seed(0))
    keep = drawn.answer[:, 0] != drawn.answer[:, 1]
    drawn = chapter07.Sentences(*(part[keep] for part in drawn))
    tried = four_versions(drawn)
    assert torch.equal(tried.answer[1::4], drawn.answer) and torch.equal(tried.nouns[1::4], drawn.nouns)
    assert torch.equal(tried.answer[2::4], drawn.answer.flip(-1)), "the third is the mirror image"
    a, b = drawn.answer.unbind(-1)
    assert torch.equal(tried.answer[0::4], torch.stack([a, a], -1))
    assert torch.equal(tried.answer[3::4], torch.stack([b, b], -1))
    for role, answer in ((DOER, 0), (DONE_TO, 1)):
        assert torch.equal(tried.nouns[tried.roles == role], tried.answer[:, answer])
    others = tried.roles == chapter07.BYSTANDER
    assert torch.equal(tried.nouns * others, (tried.nouns * others)[1::4].repeat_interleave(4, 0))


@pytest.mark.parametrize("seed", range(20))
def test_one_head_gets_at_most_three_of_the_four_versions(seed):
    """The proof of the chapter, tried on weights of any kind: whatever W^O and the answers are."""
    torch.manual_seed(seed)
    model = WhoDoesWhat(1, 16)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4 * torch.rand(()))
        # The best case for one head: an even mixture, decoded by the nouns' own vectors.
        model.attention.query_projection.weight.zero_()
        values = model.attention.output_projection(model.attention.value_projection(model.nouns.weight))
        model.answer.weight.copy_(torch.cat([values, values]))
    assert role_scores(model, 50)["both"] <= 0.75


def test_two_heads_answer_both_and_one_does_not():
    one, two = (role_scores(fit_roles(heads, steps=250, seed=1)[0], 100) for heads in (1, 2))
    assert two["both"] > 0.95 and two["mirrored"] > 0.9, two
    assert one["both"] <= 0.75 and one["mirrored"] == 0.0, one
    sizes = {heads: chapter07.parameters(WhoDoesWhat(heads)) for heads in (1, 2, 4)}
    assert len(set(sizes.values())) == 1, f"more heads bought more parameters: {sizes}"


def test_role_scores_count_what_they_say():
    """Oracles: one gets all, one swaps the roles, one puts the two nouns into the order of the list."""

    class Oracle(torch.nn.Module):
        def __init__(self, order):
            super().__init__()
            self.order, self.unused = order, torch.nn.Parameter(torch.zeros(1))

        def forward(self, sentences):
            said = torch.nn.functional.one_hot(self.order(sentences.answer), len(NOUNS))
            return chapter07.Attended(said.float(), None)

    assert set(role_scores(Oracle(lambda true: true), 30).values()) == {1.0}
    swapped = role_scores(Oracle(lambda true: true.flip(-1)), 30)
    assert swapped == {"doer": 0.5, "done-to": 0.5, "both": 0.5, "mirrored": 0.0}
    sorted_ = role_scores(Oracle(lambda true: true.sort(-1).values), 30)
    assert sorted_["both"] == 0.75 and sorted_["mirrored"] == 0.0, "one of each two mirror images is in order"


# --- Heads of a Transformer --------------------------------------------------------------------------------


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
        before = chapter07.loss_on(model, BATCHES)
    with without(model, [*gone, head]):
        after = chapter07.loss_on(model, BATCHES)
    assert before != after != chapter07.loss_on(model, BATCHES)
    assert damages(model, BATCHES, [head], gone)[head] == pytest.approx(after - before, abs=1e-7)


def test_the_loss_counts_every_token_once(model):
    """However the pairs are put into batches: a mean of the batches' means would weigh short ones more."""
    whole = chapter07.loss_on(model, chapter07.batched(CORPUS, CORPUS.dev, 6))
    one_by_one = chapter07.loss_on(model, chapter07.batched(CORPUS, CORPUS.dev, 1))
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
    monkeypatch.setattr(chapter07, "SENTENCE", " ".join(CORPUS.test[0].source))
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
