"""An answer is right up to rounding, in any precision; how it is wrong is said without its numbers."""

import math
import re

import numpy as np
import pytest

from attncourse.coursework.comparing import ABSOLUTE, RELATIVE, difference

RANDOM = np.random.default_rng(0).normal(size=(2, 3, 4))
HUGE = 10**400  # beyond every float


def test_the_tolerance_is_what_the_pages_promise():
    assert (RELATIVE, ABSOLUTE) == (1e-4, 1e-5)


RIGHT = {
    "itself": (RANDOM, RANDOM.copy()),
    "float32": (RANDOM, RANDOM.astype(np.float32)),
    "float64": (RANDOM.astype(np.float32), RANDOM.astype(np.float32).astype(np.float64)),
    "another order of sums": (RANDOM.sum(-1), RANDOM[..., ::-1].cumsum(-1)[..., -1]),
    "half, of numbers that it holds": (np.array([0.5, 2.0]), np.array([0.5, 2.0], np.float16)),
    "zero, nearly": (0.0, 0.9e-5),
    "a hundred, nearly": (100.0, 100.009),
    "a hundred, nearly, from below": (-100.0, -99.9901),
    "a whole number as a float": (3, 3.0),
    "a float as a whole number": (np.array([1.0, 2.0]), np.array([1, 2])),
    "whole numbers, smaller": (np.array([1, 2], np.int64), np.array([1, 2], np.int8)),
    "a number as a tensor": (0.25, np.array(0.25, np.float32)),
    "a tensor as a number": (np.array(0.25, np.float32), 0.25),
    "truth": (True, True),
    "truth as a tensor": (True, np.array(True)),
    "a mask": (np.array([True, False]), np.array([True, False])),
    "nothing": (None, None),
    "text": ("key", "key"),
    "no numbers": (np.zeros((2, 0)), np.zeros((2, 0), np.float32)),
    "infinities": (np.array([math.inf, -math.inf, 1]), np.array([math.inf, -math.inf, 1 + 1e-6])),
    "an infinity": (math.inf, np.array(math.inf, np.float32)),
    "a list": ([1, [RANDOM, None]], [1.0, [RANDOM + 1e-6, None]]),
    "an empty list": ([], []),
    "a dict in another order": ({"a": 1, "b": [2.0]}, {"b": [2.0], "a": 1}),
    "beyond 64 bits": (2**80, 2**80),
    "beyond every float": (HUGE, HUGE),
}
OTHER, ONE = "has other numbers in it", "is another number"
WRONG = {
    "zero, not nearly": (0.0, 1.2e-5, ONE),
    "a hundred, not nearly": (100.0, 100.012, ONE),
    "one number of many": (RANDOM, np.where(np.arange(4) == 2, RANDOM + 0.01, RANDOM), OTHER),
    "half of what it does not hold": (np.array([1.0005]), np.array([1.0005], np.float16), OTHER),
    "another sign": (1.0, -1.0, ONE),
    "off by one": (7, 8, ONE),
    "off by one, large": (10**6, 10**6 + 1, ONE),
    "off by one, in a tensor": (np.array([10**6]), np.array([10**6 + 1], np.int32), OTHER),
    "between two whole numbers": (7, 7.1, ONE),
    "one for true": (True, 1, "is not of true and false"),
    "a float for true": (np.array([True]), np.array([1.0]), "is not of true and false"),
    "true for one": (1, True, "is of true and false"),
    "a mask for weights": (np.array([1.0, 0.0]), np.array([True, False]), "is of true and false"),
    "not the other way round": (np.array([True, False]), np.array([False, True]), OTHER),
    "another shape": (RANDOM, RANDOM[:1], "has another shape"),
    "a batch too much": (RANDOM, RANDOM[None], "has another shape"),
    "transposed": (np.ones((2, 3)), np.ones((3, 2)), "has another shape"),
    "a column for a row": (np.ones(3), np.ones((3, 1)), "has another shape"),
    "one for all": (np.ones(3), 1.0, "has another shape"),
    "one in a tensor": (1.0, np.ones(1), "has another shape"),
    "none for nothing": (np.zeros((2, 0)), np.zeros((0, 2)), "has another shape"),
    "NaN": (1.0, math.nan, "has NaN in it"),
    "NaN in a tensor": (RANDOM, np.full_like(RANDOM, np.nan), "has NaN in it"),
    "one NaN": (np.array([1.0, 2.0]), np.array([1.0, np.nan], np.float16), "has NaN in it"),
    "NaN for NaN": (math.nan, math.nan, "has NaN in it"),
    "a number for NaN": (math.nan, 1.0, ONE),
    "infinity": (1.0, math.inf, ONE),
    "the other infinity": (np.array([math.inf]), np.array([-math.inf]), OTHER),
    "a number for infinity": (math.inf, 1e308, ONE),
    "nothing for a number": (1.0, None, "is no number and no tensor"),
    "text for a number": (1.0, "1.0", "is no number and no tensor"),
    "text for a tensor": (RANDOM, "nan", "is no number and no tensor"),
    "a dict for a number": (1.0, {"value": 1.0}, "is no number and no tensor"),
    "a number for a dict": ({"value": 1.0}, 1.0, "has other names in it"),
    "a tensor for a dict": ({"value": 1.0}, RANDOM, "has other names in it"),
    "nothing for a dict": ({"value": 1.0}, None, "has other names in it"),
    "a list for a dict": ({"value": 1.0}, [1.0], "returns another number of things"),
    "other names": ({"value": 1.0}, {"values": 1.0}, "has other names in it"),
    "a name too much": ({"value": 1.0}, {"value": 1.0, "more": 2.0}, "has other names in it"),
    "a name missing": ({"value": 1.0, "more": 2.0}, {"value": 1.0}, "has other names in it"),
    "another number in a dict": ({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 3.0}, OTHER),
    "a number for nothing": (None, 0, "is not None"),
    "a list for nothing": (None, [], "returns another number of things"),
    "false for nothing": (None, False, "is not None"),
    "text for nothing": (None, "None", "is not None"),
    "another text": ("key", "query", "is another word"),
    "in capitals": ("key", "Key", "is another word"),
    "a number for text": ("3", 3, "is another word"),
    "another text in a list": (["key", 1], ["query", 1], "has another word in it"),
    "nothing for text": ("", None, "is another word"),
    "a tensor for a list": ([1.0, 2.0], np.array([1.0, 2.0]), "returns another number of things"),
    "a list for a tensor": (np.array([1.0, 2.0]), [1.0, 2.0], "returns another number of things"),
    "a number for a list": ([1.0], 1.0, "returns another number of things"),
    "one result of two": ([RANDOM, RANDOM], [RANDOM], "returns another number of things"),
    "no result": ([1.0], [], "returns another number of things"),
    "the first of a list": ([1.0, 2.0], [1.5, 2.0], OTHER),
    "the last of a list": ([1.0, 2.0], [1.0, 2.5], OTHER),
    "swapped": ([1.0, 2.0], [2.0, 1.0], OTHER),
    "deep inside": ([1, {"a": [None, RANDOM]}], [1, {"a": [None, RANDOM[0]]}], "has another shape"),
    "off by one, beyond 64 bits": (2**80, 2**80 + 1, ONE),
    "too large for a tensor": (1.0, 2**80, ONE),
    "too large for a float": (1.0, HUGE, ONE),
    "too large, for a tensor": (np.array(1.0), -HUGE, ONE),
    "too large, for a whole number": (1, HUGE, ONE),
}


@pytest.mark.parametrize(("expected", "given"), RIGHT.values(), ids=RIGHT.keys())
def test_a_right_answer_is_right_in_any_precision(expected, given):
    """Whoever computes in float64, or sums in another order, has made no mistake."""
    assert difference(expected, given) == ""


@pytest.mark.parametrize(("expected", "given", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_answer_is_told_in_what_way(expected, given, words):
    """Anything but words here, an error above all, ends the grading of everyone."""
    assert difference(expected, given) == words


@pytest.mark.parametrize(("expected", "given", "words"), WRONG.values(), ids=WRONG.keys())
def test_the_words_give_no_value_away(expected, given, words):
    """A digit of the expected answer, and the next submission holds it."""
    said = difference(expected, given)
    assert not re.search(r"\d|key|value|more", said), "a number or a name of the right answer is told"
    assert difference(given, expected) != "", "wrong one way round and right the other"


def test_the_first_difference_is_told():
    """With one fault named at a time, the student begins where the answer begins."""
    assert difference([1.0, RANDOM], [2.0, RANDOM[0]]) == OTHER
    assert difference([RANDOM, 1.0], [RANDOM[0], 2.0]) == "has another shape"


def test_nobody_s_numbers_are_changed():
    """An answer is compared with the next submission's as well."""
    expected, given = RANDOM.astype(np.float32), RANDOM.copy()
    difference([expected], [given])
    assert expected.dtype == np.float32 and np.array_equal(given, RANDOM)
