"""Masks: True = may be attended; lengths are true lengths; the last query stands at the last key."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import export
from torch.fx.experimental.proxy_tensor import make_fx

from attncourse.attention import (
    MultiHeadAttention,
    causal_mask,
    check_lengths,
    padding_mask,
    values_can_be_read,
    window_mask,
)


def test_padding_mask_shows_the_real_positions():
    mask = padding_mask(torch.tensor([2, 0, 3]), 3)
    assert mask.shape == (3, 1, 3) and mask.dtype == torch.bool
    assert mask[:, 0].tolist() == [[True, True, False], [False] * 3, [True] * 3], (
        "True must be a real position"
    )


@given(st.lists(st.integers(0, 9), min_size=1, max_size=5), st.integers(9, 12))
def test_each_row_shows_as_many_as_its_length(lengths, size):
    assert padding_mask(torch.tensor(lengths), size).sum(-1).flatten().tolist() == lengths


class Padding(nn.Module):
    """A program around the mask, to be compiled and exported."""

    def forward(self, lengths):
        return padding_mask(lengths, 5)


def on_meta(make, lengths):
    return torch.zeros(make(lengths.to("meta")).shape).bool() | make(lengths)


def with_fakes(make, lengths):
    with FakeTensorMode() as mode:
        assert make(mode.from_tensor(lengths)).shape == (len(lengths), 1, 5)
    return make(lengths)


TRANSFORMS = {
    "compile": lambda make, lengths: torch.compile(make, fullgraph=True, backend="eager")(lengths),
    "export": lambda make, lengths: export(make, (lengths,), strict=False).module()(lengths),
    "strict export": lambda make, lengths: export(make, (lengths,), strict=True).module()(lengths),
    "vmap": lambda make, lengths: torch.vmap(make)(lengths[:, None])[:, 0],
    "make_fx": lambda make, lengths: make_fx(make)(lengths)(lengths),
    "jit.trace": lambda make, lengths: torch.jit.trace(make, lengths)(lengths),
    "meta": on_meta,
    "fake": with_fakes,
}


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_padding_mask_is_made_inside_every_transform(transform):
    """A check that reads the lengths stops the compiler, the export and vmap with errors of their own."""
    lengths = torch.tensor([2, 0, 5])
    mask = TRANSFORMS[transform](Padding(), lengths)
    assert torch.equal(mask, padding_mask(lengths, 5)), f"{transform} made another mask"


@pytest.mark.filterwarnings("error")
def test_lengths_are_checked_where_they_can_be_read_and_once():
    lengths = torch.tensor([4])
    assert values_can_be_read(lengths) and not values_can_be_read(lengths.to("meta"))
    with pytest.raises(ValueError, match="between 0 and size = 3"):
        check_lengths(lengths, 3)
    assert padding_mask(lengths, 3, checked=True).all(), "what was checked before was checked again"
    torch.func.grad(lambda x: (x * padding_mask(torch.tensor([1]), 3)).sum())(torch.ones(3))
    with pytest.raises(ValueError, match="between 0 and size = 3"):
        torch.func.grad(lambda x: (x * padding_mask(lengths, 3)).sum())(torch.ones(3))


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


def test_a_window_shows_the_neighbours():
    assert window_mask(4, 4, 1).int().tolist() == [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert window_mask(4, 4, 1, causal=True).int().tolist() == [
        [1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert torch.equal(window_mask(3, 3, 0), torch.eye(3, dtype=torch.bool)), "its own place is visible"


@given(st.integers(0, 6), st.integers(0, 6), st.integers(0, 8), st.booleans())
def test_a_window_is_measured_from_the_place_of_each_query(queries, more, reach, causal):
    """The last query stands at the last key: counted from the first key, the window would lie too early."""
    keys = queries + more
    expected = [[-reach <= key - (query + more) <= (0 if causal else reach) for key in range(keys)]
                for query in range(queries)]
    mask = window_mask(queries, keys, reach, causal=causal)
    assert mask.shape == (queries, keys) and mask.tolist() == expected
    assert torch.equal(mask, window_mask(keys, keys, reach, causal=causal)[more:]), (
        "a step over a cache must equal the full pass's last rows"
    )


def test_a_window_that_reaches_everything_hides_nothing():
    assert window_mask(4, 6, 6).all()
    assert torch.equal(window_mask(4, 6, 6, causal=True), causal_mask(4, 6))


@pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
@pytest.mark.parametrize("causal", [False, True])
def test_nothing_outside_the_window_reaches_the_output(causal, need_weights):
    """The mask in use: the gradient of one place is exactly 0 beyond the window, and is there inside it."""
    torch.manual_seed(0)
    layer, mask = MultiHeadAttention(8, 2), window_mask(7, 7, 2, causal=causal)
    for t in range(7):
        x = torch.randn(1, 7, 8)
        memory = x.clone().requires_grad_()
        layer(x, memory, memory, mask=mask, need_weights=need_weights).context[:, t].sum().backward()
        assert torch.equal((memory.grad[0] != 0).any(-1), mask[t]), f"place {t} reads another window"


def test_masks_are_made_where_the_data_is():
    """No silent trip to the CPU."""
    meta = torch.device("meta")
    assert causal_mask(2, 2, device=meta).is_meta and window_mask(2, 2, 1, device=meta).is_meta


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: padding_mask(torch.tensor([4]), 3), ValueError, ["lengths", "4", "3"]),
        (lambda: padding_mask(torch.tensor([-1]), 3), ValueError, ["lengths", "-1"]),
        (lambda: padding_mask(torch.tensor([[1]]), 3), ValueError, ["lengths", "(1, 1)", "(batch,)"]),
        (lambda: padding_mask(torch.tensor([1.0]), 3), TypeError, ["lengths", "float32", "integers"]),
        (lambda: causal_mask(3, 2), ValueError, ["queries", "3", "keys", "2"]),
        (lambda: causal_mask(-1, 2), ValueError, ["queries", "-1"]),
        (lambda: window_mask(3, 2, 1), ValueError, ["queries", "3", "keys", "2"]),
        (lambda: window_mask(2, -1, 1), ValueError, ["keys", "-1"]),
        (lambda: window_mask(2, 2, -1), ValueError, ["reach", "-1", "at least 0"]),
        (lambda: window_mask(2, 2, 1.5), TypeError, ["reach", "1.5", "whole"]),
        (lambda: window_mask(2, 2, True), TypeError, ["reach", "True", "whole"]),
    ],
)
def test_bad_input_is_named(make, error, words):
    with pytest.raises(error) as caught:
        make()
    assert all(word in str(caught.value) for word in words), str(caught.value)
