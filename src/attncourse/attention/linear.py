"""Linear attention: keys and values are summed before any query comes, and every query reads the same sum.

    sum_j (phi(q)^T phi(k_j)) v_j  =  (sum_j v_j phi(k_j)^T) phi(q)

On the left every query meets every key. On the right they meet once, in a matrix of d_v x d_k numbers,
however many keys there are. That takes a score that is a product of two features, where the softmax has
exp(q^T k). Katharopoulos et al. 2020, "Transformers are RNNs".
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attncourse.attention.equation import Attended, attend, check_vectors
from attncourse.attention.masks import check_mask, check_order
from attncourse.attention.multi_head import MultiHeadAttention
from attncourse.attention.precision import at_least_float32, precise_matmul
from attncourse.attention.reads import in_order
from attncourse.attention.scores import same_width

BLOCK = 64  # positions that a causal reading takes in one product


def feature_map(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """phi(x) = elu(x) + 1, always positive (Katharopoulos et al. 2020, eq. 7); in float32 at least.

    That is x + 1 above 0 and exp(x) below. Written so, a small feature is not lost in adding the 1.
    """
    x = at_least_float32(x)
    return torch.where(x > 0, x + 1, x.clamp(max=0).exp())


def log_feature_map(x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """ln phi(x), that is ln(x + 1) above 0 and x below: no feature is too small for it."""
    x = at_least_float32(x)
    return torch.where(x > 0, x.clamp(min=0).log1p(), x)


class LinearScore(nn.Module):
    """The score  ln phi(q)^T phi(k):  with it, `attend` *is* linear attention, at the price of all pairs.

    The softmax takes the logarithm away again: weights are phi(q)^T phi(k), divided by their sum (eq. 4).
    Each vector's largest feature is taken out before the product and added to the logarithm after it, so that
    two small features do not give a product too small for the dtype.
    """

    formula = r"\ln \phi(q)^\top \phi(k)"
    cost = "d"

    def forward(
        self, query: Float[Tensor, "*batch queries d"], key: Float[Tensor, "*batch keys d"]
    ) -> Float[Tensor, "*batch queries keys"]:
        same_width(query, key)
        q, k = log_feature_map(query), log_feature_map(key)
        q_top, k_top = q.detach().amax(-1, keepdim=True), k.detach().amax(-1, keepdim=True)
        matched = precise_matmul((q - q_top).exp(), (k - k_top).exp().transpose(-2, -1))
        matched = matched.clamp(min=torch.finfo(matched.dtype).tiny).log()
        return matched + q_top + k_top.transpose(-2, -1)


class LinearState(NamedTuple):
    """All that linear attention keeps of the keys and values it has met: two sums (eq. 10 and 11).

    Shapes: memory S (*batch, d_k, d_v); total Z (*batch, d_k). Neither grows with the number of keys.
    """

    memory: Float[Tensor, "*batch d_k d_v"]
    total: Float[Tensor, "*batch d_k"]

    @classmethod
    def of(
        cls, features: Float[Tensor, "*batch keys d_k"], value: Float[Tensor, "*batch keys d_v"]
    ) -> "LinearState":
        """S = sum_j phi(k_j) v_j^T and Z = sum_j phi(k_j), given the features phi(k_j) of the keys.

        Raises:
            ValueError: features and values differ in number.
        """
        if features.shape[-2] != value.shape[-2]:
            raise ValueError(f"features are those of {features.shape[-2]} keys and value holds "
                             f"{value.shape[-2]} vectors: every key needs exactly one value")
        return cls(precise_matmul(features.transpose(-2, -1), value), at_least_float32(features).sum(-2))

    def followed_by(
        self, features: Float[Tensor, "*batch keys d_k"], value: Float[Tensor, "*batch keys d_v"]
    ) -> "LinearState":
        """The state after more keys and values: it is as large as before."""
        return LinearState(*(a + b for a, b in zip(self, LinearState.of(features, value), strict=True)))

    def read(self, features: Float[Tensor, "*batch queries d_k"]) -> Float[Tensor, "*batch queries d_v"]:
        """S^T phi(q) / Z^T phi(q), given the features phi(q) of the queries (eq. 12); 0 before any key."""
        return _divide(precise_matmul(features, self.memory), precise_matmul(features, self.total[..., None]))


def linear_attend(
    query: Float[Tensor, "*batch queries d"],
    key: Float[Tensor, "*batch keys d"],
    value: Float[Tensor, "*batch keys d_v"],
    *,
    mask: Bool[Tensor, "*#scores"] | None = None,
    causal: bool = False,
    need_weights: bool = True,
) -> Attended:
    """Attention with weights phi(q)^T phi(k), divided by their sum (Katharopoulos et al. 2020, eq. 4 to 12).

    Args:
        query, key, value: as for `attend`; queries and keys of one width.
        mask: boolean, True = may be attended, the same for every query: they all read one sum.
        causal: hide from each query the keys after it; the last query is aligned with the last key.
        need_weights: with them every pair is computed; without, the cost grows with the number of keys only.

    Returns:
        The context, and the weights (*batch, queries, keys) or None, in the dtype of `value`; computed in
        float32 at least, also inside autocast.

    Raises:
        ValueError: a shape that does not fit, or a mask that differs from query to query.
        TypeError: the vectors are not floating, or the mask is not boolean.
    """
    _check(query, key, value, mask, causal)
    if need_weights:
        visible = in_order(mask, query, key) if causal else mask
        return attend(query, key, value, score=LinearScore(), mask=visible)
    q, k = _scaled_features(query, key, None if mask is None else _down_the_keys(mask), causal)
    context = _in_order(q, k, value.to(k.dtype)) if causal else LinearState.of(k, value).read(q)
    return Attended(context.to(value.dtype), None)


def _scaled_features(
    query: Tensor, key: Tensor, visible: Tensor | None, causal: bool
) -> tuple[Tensor, Tensor]:
    """phi(q) and phi(k) times factors that the division by the sum takes away, so that no sum is too small.

    The i-th feature of all keys is divided by the largest of them and that of all queries multiplied by it;
    then each query's features are divided by their largest. A hidden key has no features: it is in no sum.
    In causal order the largest may lie in the future, which nothing may depend on, be it by a last digit:
    there the keys' features stay as they are, in float64, where a small one is far from being none.
    """
    q, k = log_feature_map(query), log_feature_map(key)
    if visible is not None:
        k = k.masked_fill(~visible, -torch.inf)
    if causal:
        double = torch.float32 if k.device.type == "mps" else torch.float64
        q, k = q.to(double), k.to(double)
    elif k.shape[-2]:
        top = k.detach().amax(-2, keepdim=True)
        top = top.masked_fill(top == -torch.inf, 0.0)  # no key is visible
        q, k = q + top, k - top
    return (q - q.detach().amax(-1, keepdim=True)).exp(), k.exp()


def _in_order(q: Tensor, k: Tensor, v: Tensor) -> Float[Tensor, "*batch queries d_v"]:
    """Causal reading, block by block: pairs are met inside a block, everything before it is in the state."""
    before = k.shape[-2] - q.shape[-2]
    state = LinearState.of(k[..., :before, :], v[..., :before, :])
    contexts = []
    blocks = (part.split(BLOCK, dim=-2) for part in (q, k[..., before:, :], v[..., before:, :]))
    for q_part, k_part, v_part in zip(*blocks, strict=True):
        inside = precise_matmul(q_part, k_part.transpose(-2, -1)).tril()
        context = precise_matmul(q_part, state.memory) + precise_matmul(inside, v_part)
        total = precise_matmul(q_part, state.total[..., None]) + inside.sum(-1, keepdim=True)
        contexts.append(_divide(context, total))
        state = state.followed_by(k_part, v_part)
    return torch.cat(contexts, dim=-2)


def _divide(context: Tensor, total: Tensor) -> Tensor:
    """context / total, and 0 where nothing was summed."""
    return context / total.masked_fill(total == 0, 1.0)


def LinearAttention(width: int, heads: int) -> MultiHeadAttention:
    """The layer of chapter 07 with another read, `linear_attend`; its weights are as many and named alike.

    Weights of a `MultiHeadAttention` can be loaded into it, but were trained for another score. Where a text
    is read word by word, a `LinearState` of the heads' keys and values is all that has to be kept.

    Raises:
        ValueError: heads that do not divide the width.
    """
    return MultiHeadAttention(width, heads, read=linear_attend)


def _down_the_keys(mask: Tensor) -> Bool[Tensor, "*#batch keys #one"]:
    return mask[..., None] if mask.dim() == 1 else mask.transpose(-2, -1)


def _check(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, causal: bool) -> None:
    check_vectors(query, key, value)
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query has width {query.shape[-1]} and key has width {key.shape[-1]}: their "
                         "features are multiplied, so both need one width")
    if causal:
        check_order(query.shape[-2], key.shape[-2])
    if mask is None:
        return
    if mask.dim() > 1 and mask.shape[-2] != 1:
        raise ValueError(f"mask has shape {tuple(mask.shape)}: linear attention sums the keys once for all "
                         "queries, so it must be (..., 1, keys); for the order of words there is causal=True")
    check_mask(mask, (*key.shape[:-2], 1, key.shape[-2]))
