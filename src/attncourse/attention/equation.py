"""The one equation of this course: score every key, normalise over what is visible, sum the values.

    context(q) = sum_i  weight_i * v_i          weight = normalise(score(q, k_i), visible positions)

Every mechanism in the book changes a part of these few lines and keeps the rest.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from attncourse.attention.masks import check_mask
from attncourse.attention.precision import at_least_float32, precise_matmul
from attncourse.attention.scores import score_keys

Score = Callable[..., Tensor]


class Attended(NamedTuple):
    """What a reading returns: the context, and the weights it was read with.

    Shapes: context (*batch, queries, d_v); weights (*batch, queries, keys). With several heads the weights
    have an axis for them before the queries, and are None where they were not asked for.
    """

    context: Float[Tensor, "*batch queries d_v"]
    weights: Float[Tensor, "*batch queries keys"] | None


def attend(
    query: Float[Tensor, "*batch queries d_q"],
    key: Float[Tensor, "*batch keys d_k"],
    value: Float[Tensor, "*batch keys d_v"],
    *,
    score: Score,
    mask: Bool[Tensor, "*#scores"] | None = None,
    projected_keys: Float[Tensor, "*batch keys _"] | None = None,
) -> Attended:
    """Read the values, each weighted by how well its key matches the query (Bahdanau et al. 2015, eq. 5-6).

    Args:
        query: (*batch, queries, d_q).
        key: (*batch, keys, d_k), the addresses.
        value: (*batch, keys, d_v), the contents.
        score: any callable (query, key) -> (*batch, queries, keys), such as `AdditiveScore`.
        mask: boolean, True = may be attended, broadcastable to (*batch, queries, keys).
        projected_keys: what `project_keys(score, key)` returned, if it was computed before.

    Returns:
        Context and weights in the dtype of `value`; computed in float32 at least, also inside autocast.

    Raises:
        ValueError: keys and values differ in number, or a shape does not fit.
        TypeError: the vectors are not floating, or the mask is not boolean.
    """
    check_vectors(query, key, value)
    weights = masked_softmax(at_least_float32(score_keys(score, query, key, projected_keys)), mask)
    if weights.shape[-2:] != (query.shape[-2], key.shape[-2]):
        raise ValueError(f"score returned shape {tuple(weights.shape)}: it must end in "
                         f"(queries, keys) = ({query.shape[-2]}, {key.shape[-2]})")
    return Attended(precise_matmul(weights, value).to(value.dtype), weights.to(value.dtype))


def check_vectors(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Refuse what no reading can read: the one check of vectors for all of them.

    Raises:
        TypeError: vectors of whole numbers, or of truth values.
        ValueError: fewer than two dimensions, or not as many values as keys.
    """
    for name, tensor in {"query": query, "key": key, "value": value}.items():
        if not tensor.is_floating_point():
            raise TypeError(f"{name} is {tensor.dtype}: a reading computes means, so it must be floating, "
                            "such as torch.float32")
        if tensor.dim() < 2:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}: it needs at least two dimensions, "
                             "(..., number of vectors, width)")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"key holds {key.shape[-2]} vectors and value holds {value.shape[-2]}: "
                         "every key needs exactly one value")


def masked_softmax(
    scores: Float[Tensor, "*shape"], mask: Bool[Tensor, "*#shape"] | None = None, dim: int = -1
) -> Float[Tensor, "*shape"]:
    """Softmax over the visible positions only: hidden ones get exactly 0.

    A row with nothing visible is all 0, with finite gradients, in every floating dtype.

    Args:
        scores: any shape.
        mask: boolean, True = may be attended, broadcastable to the shape of `scores`; None shows everything.
        dim: the axis over which the keys lie.

    Raises:
        TypeError: `scores` is not floating, or `mask` is not boolean.
        ValueError: `mask` does not broadcast to `scores`.
    """
    if not scores.is_floating_point():
        raise TypeError(f"scores are {scores.dtype}: a softmax needs a floating dtype, such as torch.float32")
    if mask is None:
        return scores.softmax(dim)
    check_mask(mask, scores.shape)
    hidden = ~mask[(None,) * (scores.dim() - mask.dim())]  # with the same axes as the scores
    scores = scores.masked_fill(hidden, -torch.inf)
    # The softmax of a row of -inf is NaN, forward and backward. Such a row is set to a constant first,
    # and to 0 afterwards; a large finite number instead of -inf would turn it into a uniform row.
    empty = hidden.all(dim, keepdim=True)
    return scores.masked_fill(empty, 0.0).softmax(dim).masked_fill(hidden, 0.0)
