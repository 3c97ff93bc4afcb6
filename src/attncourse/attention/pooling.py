"""Attention pooling: one vector for a whole sequence, read with a query that is learned instead of computed.

There is no decoder here to ask. What to look for is the same for every sequence, so it is a parameter; what
is found depends on the sequence, so the weights do too.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attncourse.attention.equation import Attended, attend
from attncourse.attention.precision import precise_matmul
from attncourse.attention.scores import DotScore, check_sizes


class AttentionPooling(nn.Module):
    """Weighted sum of the states of a sequence, by how well each matches a learned query.

    u_t = tanh(W h_t + b), alpha = softmax(u_t^T u_w), s = sum_t alpha_t h_t  (Yang et al. 2016, eq. 5-7).
    Without the small network, u_t = h_t. With several hops there are several queries, each with weights and a
    summary of its own: A = softmax(W_s2 tanh(W_s1 H^T)), M = A H  (Lin et al. 2017, eq. 6-7; no b there).

    In terms of `attend`: the query is learned, the key of a state is u_t, its value is h_t itself.

    Args:
        state_width: d, length of a state.
        width: length of u_t; None scores the states as they are.
        hops: r, number of learned queries.

    Raises:
        TypeError: a size that is not a whole number.
        ValueError: a size below 1.
    """

    def __init__(self, state_width: int, *, width: int | None = None, hops: int = 1):
        super().__init__()
        check_sizes(state_width=state_width, hops=hops, **({} if width is None else {"width": width}))
        self.state_width = state_width
        self.hidden = None if width is None else nn.Linear(state_width, width)           # W, b; W_s1
        length = width or state_width
        self.query = nn.Parameter(torch.randn(hops, length) / length**0.5)               # u_w; W_s2
        self.score = DotScore()

    def forward(
        self,
        states: Float[Tensor, "*batch keys d"],
        *,
        mask: Bool[Tensor, "*#scores"] | None = None,
    ) -> Attended:
        """Context (*batch, hops, d) and weights (*batch, hops, keys).

        Args:
            states: (*batch, keys, d).
            mask: boolean, True = may be attended, such as `padding_mask(lengths, keys)`.
        """
        if states.dim() < 2 or states.shape[-1] != self.state_width:
            raise ValueError(f"states have shape {tuple(states.shape)}: this pooling was built for "
                             f"(..., keys, {self.state_width})")
        key = states if self.hidden is None else self.hidden(states).tanh()
        query = self.query.expand(*states.shape[:-2], -1, -1)
        return attend(query, key, states, score=self.score, mask=mask)


def hop_penalty(weights: Float[Tensor, "*batch hops keys"]) -> Float[Tensor, ""]:
    """|| A A^T - I ||_F^2, mean over the batch: hops that read the same place pay (Lin et al. 2017, eq. 8).

    0 where every hop puts all its weight on one state, and no two on the same. A sequence with nothing to
    attend, whose weights are all 0, counts for nothing: neither in the sum nor in the mean.

    Raises:
        ValueError: weights without the two axes of hops and keys.
    """
    if weights.dim() < 2:
        raise ValueError(f"weights have shape {tuple(weights.shape)}: give (..., hops, keys)")
    real = (weights != 0).any(-1).any(-1)
    same = torch.eye(weights.shape[-2], dtype=weights.dtype, device=weights.device)
    overlap = precise_matmul(weights, weights.transpose(-2, -1)) - same
    return (overlap.square().sum((-2, -1)) * real).sum() / real.sum().clamp(min=1)
