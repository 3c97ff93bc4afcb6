"""The look-up's answers are right, and one head cannot tell mirror images apart."""


import pytest
import torch

from attncourse.experiments import chapter07
from attncourse.experiments.chapter07 import (
    DOER,
    DONE_TO,
    NOUNS,
    WhoDoesWhat,
    draw_lists,
    draw_sentences,
    fit_lookup,
    fit_roles,
    four_versions,
    role_scores,
)


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
