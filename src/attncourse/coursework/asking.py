"""What is asked of a submission when it is graded: calls on hidden inputs, drawn from a secret seed.

A hidden check defines `cases(draw, ask)`. It draws inputs and asks what the student's functions return:

    def cases(draw, ask):
        ask("two batches", "forget", draw.normal(2, 5, 4), rate=0.5)
        ask.gradient("its gradient", "forget", draw.normal(5, 4), rate=0.5)
        ask.value("what you read off", "largest_gap")

The first text names the case in the student's feedback, so it must give no input away. What is right is what
the author's solution gives on the same inputs.
"""

import ast
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from IPython.core.inputtransformer2 import TransformerManager
from torch import Tensor

from attncourse.coursework.wire import encode


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


Cases = Callable[[Draw, Ask], None]


def questions_from(cases: Cases, seed: int) -> list[Asked]:
    """Everything that a hidden check asks for, its inputs drawn from `seed`."""
    ask = Ask()
    cases(Draw(seed), ask)
    return ask.asked


def run_cell(source: str, names: dict[str, Any]) -> None:
    """Run a cell of the author's, with IPython's own lines in it, on these names."""
    exec(compile(TransformerManager().transform_cell(source), "cell", "exec"), names)


def cases_of(hidden: str, names: dict[str, Any]) -> Cases:
    """The `cases` that a hidden check defines, without the rehearsal at its end.

    Args:
        hidden: the cell's source.
        names: what the cells before it define; not changed.
    """
    tree = ast.parse(hidden)
    tree.body = [statement for statement in tree.body if not _is_rehearsal(statement)]
    defined = dict(names)
    exec(compile(tree, "hidden check", "exec"), defined)
    return defined["cases"]


def _is_rehearsal(statement: ast.stmt) -> bool:
    call = getattr(statement, "value", None)
    return isinstance(call, ast.Call) and getattr(call.func, "id", "") == "rehearse"


def seed_for(secret: str, question: str) -> int:
    """The seed of one question's inputs: nobody who lacks the secret can draw them."""
    return int.from_bytes(hashlib.sha256(f"{secret}\n{question}".encode()).digest()[:8], "big")
