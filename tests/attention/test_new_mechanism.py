"""How a mechanism enters, tried with one that nobody has published: one callable, one row, one test."""

import torch

from attncourse.atlas import cost_table, equation_table
from attncourse.attention import (
    ATLAS,
    Alibi,
    Attended,
    Mechanism,
    MultiHeadAttention,
    Rotary,
    causal_mask,
    masked_softmax,
)


# 1. One callable: weights are the squares of a softmax's, divided by their sum, so large ones grow.
def squared_read(queries, keys, values, *, mask, causal, need_weights):
    if causal:
        order = causal_mask(queries.shape[-2], keys.shape[-2], device=queries.device)
        mask = order if mask is None else mask & order
    weights = masked_softmax(queries @ keys.transpose(-2, -1), mask).square()
    weights = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(weights.dtype).tiny)
    return Attended(weights @ values, weights if need_weights else None)


# 2. One row: what it puts into each part of the equation, how it is built, how it reads.
SQUARED = Mechanism(
    name="squared", chapter="11_atlas", paper="vaswani2017",
    query="$x_i W_Q$, in each head", key="$x_j W_K$", value="$x_j W_V$",
    score=r"$q^\top k$", visible="all", normalise="softmax, squared, divided by the sum",
    step="n d", layer="n^2 d", held="h n^2",
    build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads, read=squared_read),
    read=lambda layer, asking, source, sizes, need_weights: layer(source, source, source),
)


# 3. One test. The properties of a read are `test_reads.py`'s, where it would have a line of its own.
def test_a_mechanism_is_one_callable_and_one_row():
    """If it needs more than what stands above, the heads have lost their seam."""
    x = torch.randn(2, 6, 64)
    for positions in (None, Rotary()):
        for shared in (4, 1):
            layer = MultiHeadAttention(64, 4, key_value_heads=shared, read=squared_read, positions=positions)
            whole = layer(x, x, x, causal=True)
            torch.testing.assert_close(whole.weights.sum(-1), torch.ones(2, 4, 6))
            known = layer.keys_values(x[:, :5], x[:, :5])
            known = known.followed_by(layer.keys_values(x[:, 5:], x[:, 5:], first=5))
            last = layer(x[:, 5:], known=known, causal=True)
            torch.testing.assert_close(last.context, whole.context[:, 5:])

    asking, source = torch.randn(2, 1, 9, 64)
    assert SQUARED.on(asking, source)().weights.shape == (1, 4, 9, 9)
    assert SQUARED.parameters() == next(row for row in ATLAS if row.name == "multi-head").parameters()
    assert "| squared |" in equation_table([SQUARED]) and "n^2 d" in cost_table([SQUARED])


def test_what_it_cannot_do_is_said_when_it_is_built():
    """It has no place for what is added to scores, and says so before any number is computed."""
    try:
        MultiHeadAttention(64, 4, read=squared_read, positions=Alibi())
    except ValueError as error:
        assert "Alibi" in str(error) and "bias" in str(error)
    else:
        raise AssertionError("positions were silently left out")
