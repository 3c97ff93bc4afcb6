"""The masked softmax: hidden means exactly zero, and a row with nothing to see is zero, never NaN."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from attncourse.attention import masked_softmax

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16]


def test_true_means_may_be_attended():
    """One polarity, that of the fused kernel; nn.MultiheadAttention has the opposite one."""
    weights = masked_softmax(torch.zeros(1, 3), torch.tensor([[True, True, False]]))
    assert weights.tolist() == [[0.5, 0.5, 0.0]], "True must mean 'may be attended': the mask is inverted"
    mask = torch.tensor([[True, True, False]])
    value = torch.eye(3)[None]
    fused = F.scaled_dot_product_attention(torch.zeros(1, 1, 3), torch.zeros(1, 3, 3), value, attn_mask=mask)
    assert torch.equal(fused[0], weights)
    layer = nn.MultiheadAttention(3, 1, bias=False, batch_first=True)
    nn.init.zeros_(layer.in_proj_weight)
    _, theirs = layer(torch.ones(1, 1, 3), torch.ones(1, 3, 3), value, key_padding_mask=~mask)
    assert torch.equal(theirs[0], weights), "inverted, the mask must serve nn.MultiheadAttention"


def test_the_mask_acts_before_the_softmax():
    """Multiplying by the mask first leaves exp(0) at the hidden place; the rest sums to less than 1."""
    weights = masked_softmax(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, True, False]))
    torch.testing.assert_close(weights, torch.tensor([0.2689, 0.7311, 0.0]), atol=5e-5, rtol=0)
    weights = masked_softmax(torch.tensor([0.0, math.log(3), 5.0]), torch.tensor([True, True, False]))
    torch.testing.assert_close(weights, torch.tensor([0.25, 0.75, 0.0]))
    context = weights @ torch.tensor([[1.0, 0], [3, 0], [9, 9]])
    torch.testing.assert_close(context, torch.tensor([2.5, 0.0]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_with_nothing_visible_is_zero_forward_and_backward(dtype):
    """Not NaN, and not uniform, which a large finite negative fill would give."""
    scores = torch.tensor([[3.0, 1.0], [3.0, 1.0]], dtype=dtype, requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[False, False], [True, True]]))
    assert weights[0].tolist() == [0.0, 0.0], (
        "an empty row must be 0: is the fill a finite 'minus a billion'?"
    )
    (weights * torch.tensor([1.0, 5.0], dtype=dtype)).sum().backward()
    assert scores.grad.isfinite().all(), "the gradient of an empty row is not finite"
    assert (scores.grad[0] == 0).all() and (scores.grad[1] != 0).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_extreme_scores_do_not_outweigh_the_mask(dtype):
    """The smallest visible score against the largest hidden one, at the edge of the dtype."""
    largest = torch.finfo(dtype).max
    weights = masked_softmax(torch.tensor([-largest, largest], dtype=dtype), torch.tensor([True, False]))
    assert weights.tolist() == [1.0, 0.0], "a hidden score outweighed the mask"


@pytest.mark.parametrize("hidden", [torch.nan, torch.inf, -torch.inf])
def test_what_stands_at_a_hidden_position_does_not_matter(hidden):
    """Padding may hold anything, even NaN."""
    scores = torch.tensor([0.0, hidden, 0.0], requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([True, False, True]))
    assert weights.tolist() == [0.5, 0.0, 0.5]
    weights[0].backward()
    assert scores.grad.isfinite().all()


def test_another_axis_and_a_narrow_mask():
    """Masks broadcast, over whichever axis the keys lie."""
    scores = torch.zeros(2, 3, 4)
    assert torch.equal(
        masked_softmax(scores, torch.tensor([True, False, True])[:, None], dim=1)[0, :, 0],
        torch.tensor([0.5, 0.0, 0.5]),
    )
    hidden_rows = masked_softmax(scores, torch.tensor([True, False, True])[:, None])
    assert torch.equal(hidden_rows[0].sum(-1), torch.tensor([1.0, 0.0, 1.0])), (
        "a mask of one column hides whole rows"
    )


@settings(max_examples=80, deadline=None)
@given(
    rows=st.integers(1, 5),
    keys=st.integers(1, 7),
    seed=st.integers(0, 10_000),
    scale=st.sampled_from([1e-3, 1.0, 50.0]),
    dtype=st.sampled_from(DTYPES),
)
def test_equals_the_softmax_of_the_visible_part(rows, keys, seed, scale, dtype):
    """Cut the hidden keys out, take a plain softmax: the visible weights must be the same."""
    generator = torch.Generator().manual_seed(seed)
    scores = (torch.randn(rows, keys, generator=generator) * scale).to(dtype)
    mask = torch.rand(rows, keys, generator=generator) > 0.4
    weights = masked_softmax(scores, mask)
    assert (weights[~mask] == 0).all()
    for row in range(rows):
        torch.testing.assert_close(weights[row][mask[row]], scores[row][mask[row]].softmax(-1))


@pytest.mark.parametrize(
    ("scores", "mask", "error", "words"),
    [
        (torch.zeros(2, 3), torch.ones(2, 3), TypeError, ["mask", "float32", "boolean"]),
        (torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.long), TypeError, ["mask", "int64", "boolean"]),
        (torch.zeros(2, 3), torch.ones(2, 4, dtype=torch.bool), ValueError, ["mask", "(2, 4)", "(2, 3)"]),
        (
            torch.zeros(2, 3),
            torch.ones(4, 2, 3, dtype=torch.bool),
            ValueError,
            ["mask", "(4, 2, 3)", "(2, 3)"],
        ),
        (torch.zeros(2, 3, dtype=torch.long), None, TypeError, ["scores", "int64", "float"]),
    ],
)
def test_bad_input_is_named(scores, mask, error, words):
    """The message holds the argument, what was given and what is allowed."""
    with pytest.raises(error) as caught:
        masked_softmax(scores, mask)
    assert all(word in str(caught.value) for word in words), str(caught.value)
