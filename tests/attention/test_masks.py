"""Masks: True = may be attended; lengths are true lengths; the last query stands at the last key."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncourse.attention import causal_mask, padding_mask


def test_padding_mask_shows_the_real_positions():
    mask = padding_mask(torch.tensor([2, 0, 3]), 3)
    assert mask.shape == (3, 1, 3) and mask.dtype == torch.bool
    assert mask[:, 0].tolist() == [[True, True, False], [False] * 3, [True] * 3], (
        "True must be a real position"
    )


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(9, 12))
def test_each_row_shows_as_many_as_its_length(lengths, size):
    assert padding_mask(torch.tensor(lengths), size).sum(-1).flatten().tolist() == lengths


def test_causal_mask_hides_the_future_and_shows_the_present():
    assert causal_mask(3, 3).tolist() == [[True, False, False], [True, True, False], [True, True, True]]


@given(st.integers(0, 6), st.integers(0, 6))
def test_causal_mask_is_aligned_at_the_last_key(queries, more):
    """With a cache, the queries are the last ones: one query sees all keys."""
    keys = queries + more
    mask = causal_mask(queries, keys)
    assert mask.sum(-1).tolist() == list(range(keys - queries + 1, keys + 1))
    assert torch.equal(mask, causal_mask(keys, keys)[more:]), (
        "a step over a cache must equal the full pass's last rows"
    )


def test_masks_are_made_where_the_data_is():
    """No silent trip to the CPU."""
    assert causal_mask(2, 2, device=torch.device("meta")).device.type == "meta"


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: padding_mask(torch.tensor([4]), 3), ValueError, ["lengths", "4", "3"]),
        (lambda: padding_mask(torch.tensor([-1]), 3), ValueError, ["lengths", "-1"]),
        (lambda: padding_mask(torch.tensor([[1]]), 3), ValueError, ["lengths", "(1, 1)", "(batch,)"]),
        (lambda: padding_mask(torch.tensor([1.0]), 3), TypeError, ["lengths", "float32", "integers"]),
        (lambda: causal_mask(3, 2), ValueError, ["queries", "3", "keys", "2"]),
        (lambda: causal_mask(-1, 2), ValueError, ["queries", "-1"]),
    ],
)
def test_bad_input_is_named(make, error, words):
    with pytest.raises(error) as caught:
        make()
    assert all(word in str(caught.value) for word in words), str(caught.value)
