"""Hard attention: read one place instead of a blend of all, and still learn where to look.

    soft:  context = sum_i alpha_i v_i                       hard:  s ~ Multinoulli(alpha),  context = v_s

A choice has no gradient. Two ways round it are here: the score function (REINFORCE), which makes choices that
turned out well more probable, and the straight-through Gumbel estimator, which pretends on the way back that
the choice was a softmax. Xu et al. 2015, "Show, attend and tell", sections 4.1 and 4.2.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attncourse.attention.equation import Score, check_vectors, masked_softmax
from attncourse.attention.precision import at_least_float32, precise_matmul
from attncourse.attention.scores import score_keys

CHOICES = ("expectation", "sample", "arg max", "gumbel")


class HardAttended(NamedTuple):
    """What a reading by choice returns: `Attended`, and the probabilities that the choice was made with.

    Shapes: context (*batch, queries, d_v); weights (*batch, queries, keys), one-hot where one place was
    read; alpha (*batch, queries, keys).
    """

    context: Float[Tensor, "*batch queries d_v"]
    weights: Float[Tensor, "*batch queries keys"]
    alpha: Float[Tensor, "*batch queries keys"]


class HardAttention(nn.Module):
    """Read one value, chosen with probability alpha = softmax(score) (Xu et al. 2015, eq. 4, 5, 8, 9).

    `choice` says how the weights s are made from alpha while training:

    - "expectation": s = alpha, soft attention: the mean of all that could be read (eq. 13).
    - "sample": s ~ Multinoulli(alpha), one-hot; no gradient passes to alpha, see `score_function_loss`.
    - "arg max": the most probable place, one-hot; no gradient.
    - "gumbel": a sample, but with the gradient of softmax((log alpha + g) / temperature), g the Gumbel
      noise that it was drawn with (straight-through; Jang et al. 2017, section 2.2).

    In evaluation mode every choice but the expectation is the arg max: one-hot, and the same each time.
    A query that may attend nothing has weights 0, alpha 0 and context 0.

    Args:
        score: the score function.
        choice: one of the four.
        temperature: of the softmax that lends "gumbel" its gradient. Low is close to the choice, and noisy.

    Raises:
        ValueError: another choice, or a temperature that is not positive.
    """

    def __init__(self, score: Score, choice: str = "sample", *, temperature: float = 1.0):
        super().__init__()
        if choice not in CHOICES:
            raise ValueError(f"choice is {choice!r}: it must be one of {', '.join(map(repr, CHOICES))}")
        if not temperature > 0:
            raise ValueError(f"temperature is {temperature}: it must be positive")
        self.score, self.choice, self.temperature = score, choice, temperature

    def forward(
        self,
        query: Float[Tensor, "*batch queries d_q"],
        key: Float[Tensor, "*batch keys d_k"],
        value: Float[Tensor, "*batch keys d_v"],
        *,
        mask: Bool[Tensor, "*#scores"] | None = None,
        projected_keys: Tensor | None = None,
    ) -> HardAttended:
        check_vectors(query, key, value)
        scores = at_least_float32(score_keys(self.score, query, key, projected_keys))
        alpha = masked_softmax(scores, mask)
        weights = self._choose(scores, alpha, mask)
        context = precise_matmul(weights, value)
        return HardAttended(*(part.to(value.dtype) for part in (context, weights, alpha)))

    def _choose(self, scores: Tensor, alpha: Tensor, mask: Tensor | None) -> Tensor:
        if self.choice == "expectation":
            return alpha
        if self.choice == "arg max" or not self.training:
            return one_hot(alpha)
        # Where log alpha + Gumbel noise is largest is a sample of alpha. The score is log alpha + a constant.
        noisy = scores + gumbel_noise(scores)
        if self.choice == "sample":
            return one_hot(masked_softmax(noisy, mask))
        soft = masked_softmax(noisy / self.temperature, mask)
        # Worth the one-hot choice exactly, for soft - soft is exactly 0; its gradient is that of `soft`.
        return one_hot(soft) + (soft - soft.detach())


def one_hot(alpha: Float[Tensor, "*batch keys"]) -> Float[Tensor, "*batch keys"]:
    """1 at the largest of each row (the first, of equals) and 0 elsewhere; a row of zeros stays one."""
    if not alpha.shape[-1]:
        return alpha  # no keys, no choice
    largest = torch.zeros_like(alpha).scatter(-1, alpha.argmax(-1, keepdim=True), 1.0)
    return largest.masked_fill((alpha == 0).all(-1, keepdim=True), 0.0)


def gumbel_noise(like: Tensor) -> Tensor:
    """-log(-log u), u uniform, in the shape of `like`, drawn from torch's global generator.

    In float32 at least: half precision has too few values for every choice to remain possible.
    """
    return -torch.empty_like(at_least_float32(like)).exponential_().log()  # -log u is exponential, never 0


# --- REINFORCE ---------------------------------------------------------------------------------------------


def log_probability(
    alpha: Float[Tensor, "*batch keys"], weights: Float[Tensor, "*batch keys"]
) -> Float[Tensor, "*batch"]:
    """log p(s) = sum_i s_i log alpha_i, s one-hot (Xu et al. 2015, eq. 8); 0 where no choice was made."""
    chosen = at_least_float32(alpha * weights.detach()).sum(-1).masked_fill((weights == 0).all(-1), 1.0)
    # A place that was chosen may have a probability that is 0 after rounding to half.
    return chosen.clamp(min=torch.finfo(chosen.dtype).tiny).log().to(alpha.dtype)


def entropy(alpha: Float[Tensor, "*batch keys"]) -> Float[Tensor, "*batch"]:
    """H[s] = -sum_i alpha_i log alpha_i in nats; 0 for a row of zeros.

    Added to the objective with a small factor, it keeps the choice from settling too early (Xu et al. 2015,
    section 4.1).
    """
    precise = at_least_float32(alpha)  # the least normal number of float16, 6e-5, is no small probability
    return -(precise * precise.clamp(min=torch.finfo(precise.dtype).tiny).log()).sum(-1).to(alpha.dtype)


def score_function_loss(
    log_probability: Float[Tensor, "batch steps"],
    reward: Float[Tensor, "batch #steps"],
    baseline: Float[Tensor, "*#rewards"] | float = 0.0,
) -> Float[Tensor, ""]:
    """A loss whose gradient is -(R - b) grad log p(s): the second term of the estimator (eq. 11-12).

    Summed over the steps, mean over the batch. How good the choices were, R - b, is only a factor: no
    gradient passes through it. Steps that are padding must have log-probability or advantage 0.

    Args:
        log_probability: of each choice.
        reward: R, log p(y | s, a) of the whole caption (one column), or `reward_to_go`.
        baseline: b, one number or a shape that broadcasts to the rewards'. It may not depend on the choices
            that it is used for.
    """
    advantage = torch.as_tensor(reward - baseline).detach()
    return -(advantage * log_probability).sum(-1).mean()


def reward_to_go(reward: Float[Tensor, "batch steps"]) -> Float[Tensor, "batch steps"]:
    """For each step the sum of the rewards from that step on: a choice cannot change what was said before.

    Its expectation times grad log p(s_t) is that of the whole sum, with less noise (Sutton et al. 2000; not
    in Xu et al.).
    """
    return reward.flip(-1).cumsum(-1).flip(-1)


class MovingAverage(nn.Module):
    """The baseline b_k = 0.9 b_{k-1} + 0.1 R_k, R_k the mean reward of mini-batch k (Xu et al. 2015, 4.1).

    Use the value it has before it sees the rewards of a mini-batch, then call `update`.

    Args:
        steps: 1 for one number, as in the paper; more for an average of its own at each step.
        decay: 0.9 in the paper.
    """

    def __init__(self, steps: int = 1, decay: float = 0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("value", torch.zeros(steps))

    def update(
        self, reward: Float[Tensor, "batch steps"], real: Bool[Tensor, "batch steps"] | None = None
    ) -> None:
        """Move towards the mean over the batch; steps with no `real` reward stay where they are.

        Raises:
            ValueError: rewards for more steps than this average has.
        """
        steps = reward.shape[-1]
        if steps > len(self.value):
            raise ValueError(f"reward has {steps} steps and this average {len(self.value)}: build it longer")
        real = torch.ones_like(reward, dtype=torch.bool) if real is None else real
        mean = reward.detach().where(real, 0.0).sum(0) / real.sum(0).clamp(min=1)
        moved = self.decay * self.value[:steps] + (1 - self.decay) * mean
        self.value[:steps] = moved.where(real.any(0), self.value[:steps])
