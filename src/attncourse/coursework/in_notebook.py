"""What cells of a problem set call: a rehearsal in the source, and the comparison that nbgrader runs."""

import secrets
from typing import Any

import torch
from torch import Tensor

from attncourse.coursework.asking import Asked, Cases, cases_of, questions_from, run_cell
from attncourse.coursework.comparing import difference
from attncourse.coursework.driver import Student
from attncourse.coursework.wire import decode, to_tensors


def rehearse(cases: Cases, namespace: dict[str, Any]) -> None:
    """Ask the author's own solution, here in the notebook, and print the shapes of what it answers.

    Args:
        cases: the hidden check.
        namespace: where the answers are defined, `globals()` in a notebook.

    Raises:
        ValueError: no case at all, two of one name, or an answer with NaN or an infinity in it.
    """
    asked = questions_from(cases, seed=0)
    if not asked or len({case.label for case in asked}) < len(asked):
        raise ValueError("a hidden check asks for something at least once, each time under a name of its own")
    for case in asked:
        reply = _reply(Student(None, namespace), case)
        if "error" in reply:
            raise ValueError(f"{case.label}: the solution raises {reply['error']}")
        print(f"{case.label}: {_shapes(to_tensors(decode(reply['value'])))}")


def _reply(student: Student, case: Asked) -> dict:
    return getattr(student, case.what)(**case.request)


def _shapes(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shapes, value))
    if isinstance(value, dict):
        _shapes(list(value.values()))
    if isinstance(value, float | Tensor) and not torch.as_tensor(value).isfinite().all():
        raise ValueError("the solution answers NaN or an infinity, which no answer equals")
    return str(tuple(value.shape)) if isinstance(value, Tensor) else type(value).__name__


def compare_here(namespace: dict[str, Any], hidden: str, solution: list[str]) -> None:
    """Compare the answers in this kernel with the solution's, on inputs that are new at every run.

    nbgrader has no other place to compare: whoever patches this kernel is believed. `attncourse coursework
    grade` compares in a process of its own.

    Args:
        namespace: where the student's answers are defined.
        hidden: the source of the hidden check.
        solution: the cells that define the right answers, in order.

    Raises:
        AssertionError: the first case that differs, without its inputs.
    """
    right: dict[str, Any] = {}
    for source in solution:
        run_cell(source, right)
    for case in questions_from(cases_of(hidden, right), seed=secrets.randbits(32)):
        expected, given = _reply(Student(None, right), case), _reply(Student(None, namespace), case)
        if "value" not in given:
            raise AssertionError(f"{case.label}: {case.request['name']} raises {given['error']}")
        how = difference(decode(expected["value"]), decode(given["value"]))
        assert not how, f"{case.label}: the answer of {case.request['name']} {how}"
