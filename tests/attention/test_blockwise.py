"""Attention in blocks: the context of the one equation, whatever the block, and no row ever held whole."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncourse.attention import (
    AdditiveScore,
    GaussianScore,
    LinearScore,
    LocationScore,
    ScaledDotScore,
    attend,
    attend_blockwise,
    window_mask,
)

SCORES = {"scaled dot": ScaledDotScore, "additive": lambda: AdditiveScore(4, 4, 5), "gaussian": GaussianScore,
          "linear": LinearScore}


def data(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def inputs(queries=5, keys=7, batch=(2,), dtype=torch.float64):
    sizes = ((queries, 4), (keys, 4), (keys, 3))
    return [data(*batch, *size, seed=seed, dtype=dtype) for seed, size in enumerate(sizes)]


@settings(max_examples=60, deadline=None)
@given(score=st.sampled_from(list(SCORES)), batch=st.lists(st.integers(1, 3), max_size=2),
       queries=st.integers(1, 4), keys=st.integers(0, 9), block=st.integers(1, 10),
       masked=st.booleans(), seed=st.integers(0, 1000))
def test_any_block_gives_the_context_of_attend(score, batch, queries, keys, block, masked, seed):
    """Random masks, with empty rows, and rows that are empty in the first blocks only."""
    torch.manual_seed(0)
    score, asked = SCORES[score]().double(), inputs(queries, keys, batch)
    mask = torch.rand(*batch, queries, keys, generator=torch.Generator().manual_seed(seed)) > 0.6
    mask = mask if masked else None
    found = attend_blockwise(*asked, score=score, mask=mask, block=block)
    expected = attend(*asked, score=score, mask=mask)
    torch.testing.assert_close(found.context, expected.context, msg=lambda text: (
        f"is what was summed scaled down when a larger score turns up?\n{text}"))
    assert found.weights is None


@pytest.mark.parametrize("order", ["rising", "falling"])
def test_scores_of_any_size_neither_overflow_nor_vanish(order):
    """exp(700) is beyond float32. The largest score so far is subtracted, and it rises while keys pass by."""
    key = torch.linspace(-700, 700, 50)[:, None]
    key = key if order == "rising" else key.flip(0)
    query, value = torch.ones(1, 1), torch.arange(50.0)[:, None]
    found = attend_blockwise(query, key, value, score=ScaledDotScore(), block=4)
    torch.testing.assert_close(found.context, attend(query, key, value, score=ScaledDotScore()).context)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_an_empty_row_is_zero_in_every_dtype(dtype):
    query, key, value = (x.requires_grad_() for x in inputs(dtype=dtype))
    mask = (torch.arange(5) != 1)[:, None].expand(5, 7)
    found = attend_blockwise(query, key, value, score=ScaledDotScore(), mask=mask, block=2).context
    assert found.dtype == dtype and found.isfinite().all() and (found[:, 1] == 0).all()
    found.float().square().sum().backward()
    assert all(x.grad.isfinite().all() for x in (query, key, value)) and (query.grad[:, 1] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_many_keys_are_summed_precisely_in_half_precision(dtype):
    """5,000 equal weights: a half sum would stop growing, or overflow, and the mean would be wrong."""
    query, key, value = torch.zeros(1, 4), torch.zeros(5000, 4), torch.full((5000, 1), 30.0)
    read = attend_blockwise(query.to(dtype), key.to(dtype), value.to(dtype), score=ScaledDotScore(), block=10)
    assert abs(read.context.item() - 30) < 0.2


def test_a_hidden_key_changes_nothing():
    (query, key, value), mask = inputs(7, 7), window_mask(7, 7, 1, causal=True)
    before = attend_blockwise(query, key, value, score=ScaledDotScore(), mask=mask, block=3).context
    key[:, 4:], value[:, 4:] = 100.0, -100.0
    after = attend_blockwise(query, key, value, score=ScaledDotScore(), mask=mask, block=3).context
    assert torch.equal(before[:, :4], after[:, :4]) and not torch.equal(before[:, 4:], after[:, 4:])


def test_gradients_are_those_of_finite_differences():
    asked = [x.requires_grad_() for x in inputs(2, 5)]
    mask = torch.tensor([[True, False, True, True, False], [False] * 5])

    def read(*given):
        return attend_blockwise(*given, score=ScaledDotScore(), mask=mask, block=2).context

    assert torch.autograd.gradcheck(read, asked)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (5, 1), (1, 7), (2, 1, 1), (2, 5, 7)])
def test_a_mask_broadcasts_as_in_attend(shape):
    """Also one with a single column, which hides whole rows."""
    asked, mask = inputs(), torch.rand(shape, generator=torch.Generator().manual_seed(0)) > 0.5
    found = attend_blockwise(*asked, score=ScaledDotScore(), mask=mask, block=3)
    torch.testing.assert_close(found.context, attend(*asked, score=ScaledDotScore(), mask=mask).context)


def test_a_score_meets_one_block_at_a_time():
    """Otherwise nothing is saved."""
    met = []

    def score(query, key):
        met.append(key.shape[-2])
        return query @ key.mT

    attend_blockwise(*inputs(), score=score, block=3)
    assert met == [3, 3, 1]


@pytest.mark.parametrize(("given", "error", "words"), [
    ({"block": 0}, ValueError, ["block is 0", "at least 1"]),
    ({"score": LocationScore(4, 9)}, ValueError, ["LocationScore", "ScaledDotScore"]),
    ({"mask": torch.ones(5, 7)}, TypeError, ["mask", "float32", "boolean"]),
    ({"mask": torch.ones(5, 6).bool()}, ValueError, ["mask", "(5, 6)", "(2, 5, 7)"]),
    ({"mask": torch.ones(4, 7).bool()}, ValueError, ["mask", "(4, 7)", "(2, 5, 7)"]),
    ({"query": torch.zeros(4)}, ValueError, ["query", "(4,)", "two dimensions"]),
    ({"value": torch.zeros(2, 6, 3)}, ValueError, ["key holds 7", "value holds 6"]),
])
def test_bad_input_is_named(given, error, words):
    query, key, value = inputs()
    with pytest.raises(error) as caught:
        attend_blockwise(**{"query": query, "key": key, "value": value, "score": ScaledDotScore(), **given})
    assert all(word in str(caught.value) for word in words), str(caught.value)
