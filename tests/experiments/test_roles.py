"""One head cannot tell mirror images apart, and the sentences are what they say."""


import pytest
import torch

from attncourse.experiments import roles
from attncourse.experiments.roles import (
    DOER,
    DONE_TO,
    NOUNS,
    WhoDoesWhat,
    draw_sentences,
    fit_roles,
    four_versions,
    role_scores,
)
from attncourse.experiments.sequences import parameters


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
    drawn = roles.Sentences(*(part[keep] for part in drawn))
    tried = four_versions(drawn)
    assert torch.equal(tried.answer[1::4], drawn.answer) and torch.equal(tried.nouns[1::4], drawn.nouns)
    assert torch.equal(tried.answer[2::4], drawn.answer.flip(-1)), "the third is the mirror image"
    a, b = drawn.answer.unbind(-1)
    assert torch.equal(tried.answer[0::4], torch.stack([a, a], -1))
    assert torch.equal(tried.answer[3::4], torch.stack([b, b], -1))
    for role, answer in ((DOER, 0), (DONE_TO, 1)):
        assert torch.equal(tried.nouns[tried.roles == role], tried.answer[:, answer])
    others = tried.roles == roles.BYSTANDER
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
    sizes = {heads: parameters(WhoDoesWhat(heads)) for heads in (1, 2, 4)}
    assert len(set(sizes.values())) == 1, f"more heads bought more parameters: {sizes}"


def test_role_scores_count_what_they_say():
    """Oracles: one gets all, one swaps the roles, one puts the two nouns into the order of the list."""

    class Oracle(torch.nn.Module):
        def __init__(self, order):
            super().__init__()
            self.order, self.unused = order, torch.nn.Parameter(torch.zeros(1))

        def forward(self, sentences):
            said = torch.nn.functional.one_hot(self.order(sentences.answer), len(NOUNS))
            return roles.Attended(said.float(), None)

    assert set(role_scores(Oracle(lambda true: true), 30).values()) == {1.0}
    swapped = role_scores(Oracle(lambda true: true.flip(-1)), 30)
    assert swapped == {"doer": 0.5, "done-to": 0.5, "both": 0.5, "mirrored": 0.0}
    sorted_ = role_scores(Oracle(lambda true: true.sort(-1).values), 30)
    assert sorted_["both"] == 0.75 and sorted_["mirrored"] == 0.0, "one of each two mirror images is in order"
