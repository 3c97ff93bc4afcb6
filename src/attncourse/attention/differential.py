"""Differential attention: one map of weights minus another, so that what both read alike cancels.

    (softmax(Q_1 K_1^T / sqrt(d)) - lambda softmax(Q_2 K_2^T / sqrt(d))) V

A softmax gives every key some weight, also the many that do not matter. The second map learns what the first
gives away, and takes it off. Ye et al. 2024, "Differential Transformer", section 2.1. It is one more read
inside the heads of chapter 07: everything around it stays.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.attention.equation import Attended, attend
from attncourse.attention.reads import in_order
from attncourse.attention.scores import ScaledDotScore


class DifferentialRead(nn.Module):
    """The difference of two softmaxes in each head, whose queries and keys are cut in two halves.

    lambda = exp(l_q1 . l_k1) - exp(l_q2 . l_k2) + initial (eq. 2), one number for all heads. Each head's
    context is normed by its root mean square and scaled by 1 - initial (eq. 3), so that the gradients are
    those of a softmax's heads. Weights may be negative, and a row sums to 1 - lambda.

    Args:
        head_width: of the heads it reads for, an even number.
        initial: lambda_init; 0.8 - 0.6 exp(-0.3 (l - 1)) in the paper's layer l, so 0.2 in the first.

    Raises:
        ValueError: an odd or missing width, or an initial value outside 0 to 1.
    """

    def __init__(self, head_width: int, *, initial: float = 0.2):
        super().__init__()
        if head_width < 2 or head_width % 2:
            raise ValueError(f"head_width is {head_width}: two halves are compared, so it must be even")
        if not 0 <= initial < 1:
            raise ValueError(f"initial is {initial}: it must be at least 0 and below 1")
        self.initial, self.score = initial, ScaledDotScore()
        self.learned = nn.Parameter(0.1 * torch.randn(4, head_width // 2))  # l_q1, l_k1, l_q2, l_k2
        self.gain = nn.Parameter(torch.ones(head_width))

    def share(self) -> Float[Tensor, ""]:
        """lambda: how much of the second map is taken off (eq. 2)."""
        q_1, k_1, q_2, k_2 = self.learned
        return (q_1 * k_1).sum().exp() - (q_2 * k_2).sum().exp() + self.initial

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
        if causal:
            mask = in_order(mask, queries, keys)
        halves = zip(queries.chunk(2, dim=-1), keys.chunk(2, dim=-1), strict=True)
        one, other = (attend(q, k, values, score=self.score, mask=mask) for q, k in halves)
        share = self.share().to(values.dtype)
        context = self._normed(one.context - share * other.context)
        return Attended(context, one.weights - share * other.weights if need_weights else None)

    def _normed(self, context: Tensor) -> Tensor:
        return (1 - self.initial) * F.rms_norm(context, context.shape[-1:], self.gain.to(context.dtype), 1e-5)
