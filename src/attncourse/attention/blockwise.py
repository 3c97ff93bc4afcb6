"""Attention in blocks: the same softmax, without ever holding a whole row of scores.

A softmax needs the largest score of a row and the sum of all exponentials. Both can be kept up to date while
the keys pass by, block after block: when a larger score turns up, what was summed so far is scaled down.
Fused kernels do this inside the processor's fast memory (Dao et al. 2022); here it can be read.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncourse.attention.equation import Attended, Score, check_vectors
from attncourse.attention.masks import check_mask
from attncourse.attention.precision import at_least_float32, precise_matmul
from attncourse.attention.scores import LocationScore


def attend_blockwise(
    query: Float[Tensor, "*batch queries d_q"],
    key: Float[Tensor, "*batch keys d_k"],
    value: Float[Tensor, "*batch keys d_v"],
    *,
    score: Score,
    mask: Bool[Tensor, "*#scores"] | None = None,
    block: int = 128,
) -> Attended:
    """The context of `attend`, from the scores of one block of keys at a time (Milakov and Gimelshein 2018).

    A forward pass needs memory for `block` keys, however many there are (Rabe and Staats 2021). A backward
    pass through this function keeps every block, and saves nothing.

    Args:
        query, key, value: as for `attend`.
        score: any callable that scores each key by itself; not `LocationScore`, which counts the keys.
        mask: boolean, True = may be attended, broadcastable to (*batch, queries, keys).
        block: keys that are scored at a time.

    Returns:
        The context; there are no weights to return.

    Raises:
        ValueError: keys and values differ in number, a shape does not fit, a block below 1, or a location
            score.
        TypeError: the vectors are not floating, or the mask is not boolean.
    """
    check_vectors(query, key, value)
    _check_block(score, block)
    shape = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    precise = torch.promote_types(value.dtype, torch.float32)  # small parts would be lost in a large half sum
    context = value.new_zeros(*shape, query.shape[-2], value.shape[-1], dtype=precise)
    if mask is not None:
        check_mask(mask, (*shape, query.shape[-2], key.shape[-2]))
        mask = mask.expand(*mask.shape[:-1], key.shape[-2])  # its last axis is cut with the keys
    total, top = context[..., :1], torch.full_like(context[..., :1], -torch.inf)
    for start in range(0, key.shape[-2], block):
        part = slice(start, start + block)
        scores = at_least_float32(score(query, key[..., part, :]))
        if mask is not None:
            scores = scores.masked_fill(~mask[..., part], -torch.inf)
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        base = higher.masked_fill(higher == -torch.inf, 0.0)  # a row that has seen nothing yet: no inf - inf
        weights, shrink = (scores - base).exp(), (top - base).exp()
        context = context * shrink + precise_matmul(weights, value[..., part, :])
        total = total * shrink + weights.sum(-1, keepdim=True)
        top = higher
    return Attended((context / total.masked_fill(total == 0, 1.0)).to(value.dtype), None)


def _check_block(score: Score, block: int) -> None:
    if block < 1:
        raise ValueError(f"block is {block}: it must be at least 1")
    if isinstance(score, LocationScore):
        raise ValueError("score is a LocationScore: it knows keys by their number, and would count anew in "
                         "every block; choose one that reads the keys, such as ScaledDotScore")
