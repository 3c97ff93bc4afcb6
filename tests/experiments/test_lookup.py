"""The look-up's answers are right, and its scores differ in what the book says they do."""

import pytest
import torch

from attncourse.experiments import lookup
from attncourse.experiments.lookup import LOOKED_UP_BY, draw_lists, fit_linear_lookup, fit_lookup, found_again
from attncourse.experiments.roles import draw_sentences


def test_the_answer_is_the_label_of_the_asked_item():
    lists = draw_lists(50, torch.Generator().manual_seed(0))
    for items, labels, asked, answer in zip(*(part.tolist() for part in lists), strict=True):
        assert len(set(items)) == len(items), "an item twice: there would be two answers"
        assert labels[items.index(asked)] == answer


@pytest.mark.parametrize("draw", [draw_lists, draw_sentences])
def test_a_batch_depends_on_seed_and_step_alone(draw):
    """Else a second look at a batch, or another seed's run, would change the training."""
    batches = lookup.Drawn(draw, 4, 0)
    for first, again, later, other in zip(
        batches[3], batches[3], batches[4], lookup.Drawn(draw, 4, 1)[3], strict=True
    ):
        assert torch.equal(first, again)
        assert not torch.equal(first, later) and not torch.equal(first, other)


def test_the_scale_decides_whether_a_wide_lookup_learns():
    """Short, so that the test is quick: the scaled score is well ahead before half of the steps."""
    new = draw_lists(500, torch.Generator().manual_seed(1))
    right = {}
    for score in lookup.SCORES:
        model, _ = fit_lookup(score, 128, steps=120)
        right[score] = (model.cpu()(new)[0].argmax(-1) == new.answer).float().mean().item()
    assert right["scaled dot"] > right["dot"] + 0.2


@pytest.mark.parametrize("kind", LOOKED_UP_BY)
def test_a_looker_up_trains_with_either_score(kind):
    model, history = fit_linear_lookup(kind, 8, steps=3, device="cpu", progress=False)
    assert len(history.loss) == 3 and model.score.__class__ is LOOKED_UP_BY[kind]
    found = found_again(model, 50)
    assert 0 <= found["accuracy"] <= 1 and 1 / 16 <= found["largest weight"] <= 1
