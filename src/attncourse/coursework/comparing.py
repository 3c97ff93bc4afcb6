"""Whether an answer is right: the same numbers up to rounding, in the same shape, of any precision."""

from collections.abc import Iterable
from typing import Any

import numpy as np

# A right answer may differ by the order of its sums, by float32 against float64, or by another processor.
RELATIVE, ABSOLUTE = 1e-4, 1e-5
NUMBERS, NUMBER, WORD = "has other numbers in it", "is another number", "is another word"


def difference(expected: Any, given: Any) -> str:
    """How an answer differs from the right one, in words that give neither away; "" if it does not."""
    if isinstance(expected, list) or isinstance(given, list):
        return _of_lists(expected, given)
    if isinstance(expected, dict):
        if not isinstance(given, dict) or expected.keys() != given.keys():
            return "has other names in it"
        return _of_one_in_many(difference(expected[key], given[key]) for key in expected)
    if expected is None or isinstance(expected, str):
        right = type(given) is type(expected) and given == expected
        return "" if right else WORD if isinstance(expected, str) else "is not None"
    return _of_numbers(expected, given)


def _of_lists(expected: Any, given: Any) -> str:
    if not (isinstance(expected, list) and isinstance(given, list) and len(expected) == len(given)):
        return "returns another number of things"
    return _of_one_in_many(map(difference, expected, given))


def _of_one_in_many(differences: Iterable[str]) -> str:
    first = next(filter(None, differences), "")
    return {NUMBER: NUMBERS, WORD: "has another word in it"}.get(first, first)


def _of_numbers(expected: Any, given: Any) -> str:
    if given is None or isinstance(given, str | dict):
        return "is no number and no tensor"
    right, answer = np.asarray(expected), np.asarray(given)
    other = NUMBERS if right.ndim else NUMBER
    if right.shape != answer.shape:
        return "has another shape"
    if (right.dtype == bool) != (answer.dtype == bool):
        return "is not of true and false" if right.dtype == bool else "is of true and false"
    if answer.dtype.kind == "f" and np.isnan(answer).any():
        return "has NaN in it"
    if right.dtype.kind in "iubO" and answer.dtype.kind in "iubO":  # O: a whole number beyond 64 bits
        return "" if np.array_equal(right, answer) else other
    try:
        right, answer = right.astype(np.float64), answer.astype(np.float64)
    except OverflowError:  # Python's whole numbers go beyond every float
        return other
    close = np.allclose(right, answer, rtol=RELATIVE, atol=ABSOLUTE)
    return "" if close else other
