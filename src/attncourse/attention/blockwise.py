"""Attention in blocks: the same softmax, without ever holding a whole row of scores.

A softmax needs the largest score of a row and the sum of all exponentials. Both can be kept up to date while
the keys pass by, block after block: when a larger score turns up, what was summed so far is scaled down.
Fused kernels do this inside the processor's fast memory (Dao et al. 2022); here it can be read.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncourse.attention.equation import Attended, Score
from attncourse.attention.scores import LocationScore


def attend_blockwise(
    query: Float[Tensor, "*batch queries d_q"],
    key: Float[Tensor, "*batch keys d_k"],
    value: Float[Tensor, "*batch keys d_v"],
    *,
    score: Score,
    mask: Bool[Tensor, "*#batch #queries keys"] | None = None,
    block: int = 128,
) -> Attended:
    """The context of `attend`, from the scores of one block of keys at a time (Milakov and Gimelshein 2018).

    A forward pass needs memory for `block` keys, however many there are (Rabe and Staats 2021). A backward
    pass through this function keeps every block, and saves nothing.

    Args:
        query, key, value: as for `attend`.
        score: any callable that scores each key by itself; not `LocationScore`, which counts the keys.
        mask: boolean, True = may be attended; its last axis is that of the keys.
        block: keys that are scored at a time.

    Returns:
        The context; there are no weights to return.

    Raises:
        ValueError: keys and values differ in number, a block below 1, a location score, or a mask without
            an entry for every key.
        TypeError: the mask is not boolean.
    """
    _check(key, value, score, mask, block)
    shape = torch.broadcast_shapes(query.shape[:-2], key.shape[:-2])
    precise = torch.promote_types(value.dtype, torch.float32)  # small parts would be lost in a large half sum
    context = value.new_zeros(*shape, query.shape[-2], value.shape[-1], dtype=precise)
    total, top = context[..., :1], torch.full_like(context[..., :1], -torch.inf)
    for start in range(0, key.shape[-2], block):
        part = slice(start, start + block)
        scores = score(query, key[..., part, :]).to(precise)
        if mask is not None:
            scores = scores.masked_fill(~mask[..., part], -torch.inf)
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        level = higher.masked_fill(higher == -torch.inf, 0.0)  # a row that has seen nothing yet: no inf - inf
        weights, shrink = (scores - level).exp(), (top - level).exp()
        context = context * shrink + weights @ value[..., part, :].to(precise)
        total = total * shrink + weights.sum(-1, keepdim=True)
        top = higher
    return Attended((context / total.masked_fill(total == 0, 1.0)).to(value.dtype), None)


def _check(key: Tensor, value: Tensor, score: Score, mask: Tensor | None, block: int) -> None:
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"key holds {key.shape[-2]} vectors and value holds {value.shape[-2]}: "
                         "every key needs exactly one value")
    if block < 1:
        raise ValueError(f"block is {block}: it must be at least 1")
    if isinstance(score, LocationScore):
        raise ValueError("score is a LocationScore: it knows keys by their number, and would count anew in "
                         "every block; choose one that reads the keys, such as ScaledDotScore")
    if mask is None:
        return
    if mask.dtype != torch.bool:
        raise TypeError(f"mask is {mask.dtype}: it must be boolean, True where a position may be attended")
    if not mask.dim() or mask.shape[-1] != key.shape[-2]:
        raise ValueError(f"mask has shape {tuple(mask.shape)}: its last axis is cut with the keys, so it "
                         f"must be (..., {key.shape[-2]})")
