"""Reads: what may happen between queries, keys and values once they are cut into heads.

A read is any callable

    read(queries, keys, values, *, mask, causal, need_weights) -> Attended

with queries (*batch, heads, queries, head_width), keys and values (*batch, heads, keys, head_width), and a
mask that broadcasts to (*batch, heads, queries, keys). Where positions add to the scores, it is called with
`bias` as well. `linear_attend` is a read as it stands; `DifferentialRead` has a module of its own.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.attention.equation import Attended, Score, attend, masked_softmax
from attncourse.attention.masks import causal_mask, check_order, check_reach
from attncourse.attention.precision import precise_matmul
from attncourse.attention.scores import ScaledDotScore

Read = Callable[..., Attended]


class SoftmaxRead(nn.Module):
    """softmax(score(Q, K)) V: the equation as it stands, with every head's weights.

    Where the score is the scaled dot product and nobody asks for the weights, the framework's fused kernel
    does the work: the same numbers, and the whole matrix of weights is never held. A second derivative
    needs the weights' way, need_weights=True: the kernel has a first one only.

    Args:
        score: of the heads; `ScaledDotScore` if not given.
        dropout: share of the weights dropped in training. The weights that are returned are never dropped.

    Raises:
        ValueError: a dropout outside 0 to 1.
    """

    def __init__(self, score: Score | None = None, *, dropout: float = 0.0):
        super().__init__()
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout is {dropout}: it must be at least 0 and below 1")
        self.score = ScaledDotScore() if score is None else score
        self.dropout = dropout

    def forward(
        self,
        queries: Float[Tensor, "*batch heads queries head_width"],
        keys: Float[Tensor, "*batch heads keys head_width"],
        values: Float[Tensor, "*batch heads keys head_width"],
        *,
        mask: Bool[Tensor, "*#batch #heads #queries #keys"] | None,
        causal: bool,
        need_weights: bool,
        bias: Float[Tensor, "heads queries keys"] | None = None,
    ) -> Attended:
        if isinstance(self.score, ScaledDotScore) and not need_weights:
            return Attended(self._fused(queries, keys, values, mask, causal, bias), None)
        context, weights = self._explicit(queries, keys, values, mask, causal, bias)
        return Attended(context, weights if need_weights else None)

    def _explicit(self, queries, keys, values, mask, causal, bias) -> Attended:
        if causal:
            mask = in_order(mask, queries, keys)

        score = self.score if bias is None else lambda query, key: self.score(query, key) + bias
        read = attend(queries, keys, values, score=score, mask=mask)
        if self.training and self.dropout:
            # The context comes from weights of which some are dropped; what is shown has none missing.
            context = precise_matmul(F.dropout(read.weights, self.dropout), values)
            return Attended(context.to(values.dtype), read.weights)
        return read

    def _fused(self, queries, keys, values, mask, causal, bias) -> Tensor:
        square = queries.shape[-2] == keys.shape[-2]
        if causal and not (square and mask is None and bias is None):
            # The kernel aligns the first query with the first key, and takes no mask beside its own order.
            mask, causal = in_order(mask, queries, keys), False
        dropout = self.dropout if self.training else 0.0
        bias = None if bias is None else bias.to(queries.dtype)
        if mask is None:
            return F.scaled_dot_product_attention(
                queries, keys, values, bias, dropout_p=dropout, is_causal=causal
            )
        # The kernel promises nothing for a row that sees nothing: such a row sees all, and is then emptied.
        empty = ~mask.any(-1, keepdim=True)
        seen = mask | empty
        if bias is not None:
            seen = bias.masked_fill(~seen, -torch.inf)
        context = F.scaled_dot_product_attention(queries, keys, values, seen, dropout_p=dropout)
        return context.masked_fill(empty, 0.0)


class WindowRead(nn.Module):
    """Each head reads the keys at most `reach` places from its query, and no other key is touched.

    The same numbers as a `window_mask` gives, at a cost of 2 reach + 1 keys a query instead of all of them
    (Beltagy et al. 2020, section 3.1). The last query stands at the last key.

    Args:
        reach: places to each side; with `causal` only the side before the query.

    Raises:
        TypeError: a reach that is not a whole number.
        ValueError: a negative one.
    """

    def __init__(self, reach: int):
        super().__init__()
        check_reach(reach)
        self.reach, self.score = reach, ScaledDotScore()

    def forward(
        self,
        queries: Float[Tensor, "*batch heads queries head_width"],
        keys: Float[Tensor, "*batch heads keys head_width"],
        values: Float[Tensor, "*batch heads keys head_width"],
        *,
        mask: Bool[Tensor, "*#batch #heads #queries #keys"] | None,
        causal: bool,
        need_weights: bool,
    ) -> Attended:
        asking, known = queries.shape[-2], keys.shape[-2]
        check_order(asking, known)
        ahead = 0 if causal else self.reach
        own = torch.arange(known - asking, known, device=queries.device)
        places = own[:, None] + torch.arange(-self.reach, ahead + 1, device=queries.device)
        visible = (places >= 0) & (places < known)
        places = places.clamp(0, max(known - 1, 0))
        if mask is not None:
            mask = mask.expand(*mask.shape[:-2], asking, known)
            visible = visible & mask.gather(-1, places.expand(*mask.shape[:-2], -1, -1))
        near = keys[..., places, :]  # (*batch, heads, queries, window, head_width)
        weights = masked_softmax(self.score(queries[..., None, :], near), visible[..., None, :])
        context = precise_matmul(weights, values[..., places, :]).squeeze(-2).to(values.dtype)
        if not need_weights:
            return Attended(context, None)
        weights = weights.squeeze(-2).to(values.dtype)
        whole = weights.new_zeros(*queries.shape[:-1], known)
        # A place off the text has weight 0, and is added to a neighbour's.
        return Attended(context, whole.scatter_add(-1, places.expand_as(weights), weights))


def in_order(
    mask: Bool[Tensor, "*shape"] | None, queries: Tensor, keys: Tensor
) -> Bool[Tensor, "*#batch queries keys"]:
    """The mask, without the keys that lie after a query; the last query is aligned with the last key."""
    order = causal_mask(queries.shape[-2], keys.shape[-2], device=queries.device)
    return order if mask is None else mask & order
