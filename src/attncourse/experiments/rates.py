"""Learning rates as declarations: each is a function of the step, and says itself in words.

`train` takes a number, from which a cosine leads to 0, or any function of the step. What a table says of its
rate is made from the same object that the run used.
"""

import math
from dataclasses import dataclass

from attncourse.training import warm_up_rate


@dataclass(frozen=True)
class Cosine:
    """Highest at the first step, from which half a cosine leads to 0."""

    peak: float

    def __call__(self, step: int, steps: int) -> float:
        """The rate of a step, counted from 1, out of so many."""
        return self.peak * (1 + math.cos(math.pi * (step - 1) / steps)) / 2

    def __str__(self) -> str:
        return f"{self.peak:g}, falling along a cosine"


@dataclass(frozen=True)
class HeldCosine:
    """Constant for a share of the steps, then half a cosine to 0."""

    peak: float
    held: float

    def __call__(self, step: int, steps: int) -> float:
        """The rate of a step, counted from 1, out of so many."""
        falling = max(0.0, step / steps - self.held) / (1 - self.held)
        return self.peak * (1 + math.cos(math.pi * falling)) / 2

    def __str__(self) -> str:
        return f"{self.peak:g} for {self.held:.0%} of the steps, then falling along a cosine"


@dataclass(frozen=True)
class WarmedCosine:
    """Rising evenly over a share of the steps, then half a cosine to 0."""

    peak: float
    warm_up: float

    def __call__(self, step: int, steps: int) -> float:
        """The rate of a step, counted from 1, out of so many."""
        return warmed_cosine(step, peak=self.peak, steps=steps, warm_up=max(1, int(self.warm_up * steps)))

    def __str__(self) -> str:
        return f"rising to {self.peak:g} over {self.warm_up:.0%} of the steps, then falling along a cosine"


@dataclass(frozen=True)
class WarmUp:
    """That of the Transformer's paper (`warm_up_rate`): it does not know how many steps there will be."""

    width: int
    warm_up: int

    def __call__(self, step: int, steps: int) -> float:
        """The rate of a step, counted from 1."""
        return warm_up_rate(step, width=self.width, warm_up=self.warm_up)

    def __str__(self) -> str:
        return f"as in the Transformer's paper, {self.warm_up} steps of warm-up"


Rate = Cosine | HeldCosine | WarmedCosine | WarmUp


def warmed_cosine(step: int, *, peak: float, steps: int, warm_up: int) -> float:
    """A learning rate that rises evenly over the first steps, then falls along a cosine to 0.

    Args:
        step: from 1.
        peak: the highest rate, at the end of the warm-up.
        steps: in all.
        warm_up: steps of the rise.
    """
    if step <= warm_up:
        return peak * step / warm_up
    return peak * 0.5 * (1 + math.cos(math.pi * (step - warm_up) / (steps - warm_up)))
