"""What is asked of a submission when it is graded: calls on hidden inputs, drawn from a secret seed.

A hidden check defines `cases(draw, ask)`. It draws inputs and asks for the results of the student's functions:

    def cases(draw, ask):
        ask("two batches", "forget", draw.normal(2, 5, 4), rate=0.5)
        ask.gradient("its gradient", "forget", draw.normal(5, 4), rate=0.5)
        ask.value("what you read off", "largest_gap")

The first text names the case in the student's feedback, so it must give no input away. What is right is what
the author's solution gives on the same inputs.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attncourse.coursework.wire import decode, encode, to_tensors


class Draw:
    """Hidden inputs: tensors from a seed, the same on every machine."""

    def __init__(self, seed: int):
        self._generator = np.random.default_rng(seed)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers, float32."""
        return torch.from_numpy(self._generator.standard_normal(shape, dtype=np.float32))

    def uniform(self, *shape: int) -> Tensor:
        """Numbers between 0 and 1, float32."""
        return torch.from_numpy(self._generator.random(shape, dtype=np.float32))

    def integers(self, low: int, high: int, *shape: int) -> Tensor:
        """Whole numbers from `low` up to and without `high`; without a shape, one number of Python's."""
        drawn = self._generator.integers(low, high, shape)
        return torch.from_numpy(drawn) if shape else int(drawn)

    def mask(self, *shape: int, visible: float = 0.7) -> Tensor:
        """A boolean mask, True = may be attended, with the first key of each row visible."""
        mask = torch.from_numpy(self._generator.random(shape) < visible)
        mask[..., 0] = True
        return mask


@dataclass(frozen=True)
class Asked:
    """One request to a submission: a request of the driver's, and its name in the feedback."""

    label: str
    what: str
    request: dict


class Ask:
    """Collects what a hidden check asks for."""

    def __init__(self):
        self.asked: list[Asked] = []

    def __call__(self, label: str, name: str, *arguments: Any, **keywords: Any) -> None:
        """Ask for what the function `name` returns."""
        self._call(label, name, arguments, keywords, gradient=False)

    def gradient(self, label: str, name: str, *arguments: Any, **keywords: Any) -> None:
        """Ask for the result and the gradient of its sum for each argument of floating point, in order."""
        self._call(label, name, arguments, keywords, gradient=True)

    def value(self, label: str, name: str) -> None:
        """Ask what the variable `name` holds."""
        self.asked.append(Asked(label, "value", {"name": name}))

    def _call(self, label: str, name: str, arguments: tuple, keywords: dict, *, gradient: bool) -> None:
        sent = {"arguments": encode(list(arguments)), "keywords": encode(keywords), "gradient": gradient}
        self.asked.append(Asked(label, "call", {"name": name, **sent}))


def questions_from(cases: Callable[[Draw, Ask], None], seed: int) -> list[Asked]:
    """Everything that a hidden check asks for, its inputs drawn from `seed`."""
    ask = Ask()
    cases(Draw(seed), ask)
    return ask.asked


def seed_for(secret: str, question: str) -> int:
    """The seed of one question's inputs: nobody who lacks the secret can draw them."""
    return int.from_bytes(hashlib.sha256(f"{secret}\n{question}".encode()).digest()[:8], "big")


def rehearse(cases: Callable[[Draw, Ask], None], namespace: dict[str, Any]) -> None:
    """Ask the author's own solution, here in the notebook, and print the shapes of what it answers.

    Args:
        cases: the hidden check.
        namespace: where the answers are defined, `globals()` in a notebook.

    Raises:
        ValueError: no case at all, two of one name, or an answer with NaN or an infinity in it.
    """
    from attncourse.coursework.driver import Student

    asked = questions_from(cases, seed=0)
    if not asked or len({case.label for case in asked}) < len(asked):
        raise ValueError("a hidden check asks for something at least once, each time under a name of its own")
    student = Student(None, namespace)
    for case in asked:
        reply = getattr(student, case.what)(**case.request)
        if "error" in reply:
            raise ValueError(f"{case.label}: the solution raises {reply['error']}")
        print(f"{case.label}: {_shapes(to_tensors(decode(reply['value'])))}")


def _shapes(value: Any) -> str:
    if isinstance(value, Tensor):
        if value.is_floating_point() and not value.isfinite().all():
            raise ValueError("the solution answers NaN or an infinity, which no answer equals")
        return str(tuple(value.shape))
    if isinstance(value, list):
        return ", ".join(map(_shapes, value))
    return type(value).__name__
