"""A claim is either printed with its number or stops the notebook; it is never half true."""

import math

import numpy as np
import pytest
import torch

from attncourse.claims import check


@pytest.mark.parametrize("holds", [True, np.bool_(True), np.array(True), torch.tensor(True)])
def test_a_claim_that_holds_is_printed(holds, capsys):
    check("attention looks back", holds)
    assert capsys.readouterr().out == "✓ attention looks back\n"


@pytest.mark.parametrize("holds", [False, np.bool_(False), np.array(False), torch.tensor(False)])
def test_a_claim_that_fails_is_named(holds, capsys):
    """A bare assert says only which line failed: the reader wants to know what turned out untrue."""
    with pytest.raises(AssertionError, match="does not hold: attention looks back"):
        check("attention looks back", holds)
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    "holds",
    ["yes", None, [True], {"a": 1}, np.array([True, True]), torch.tensor([True])],
    ids=repr,
)
def test_what_is_neither_numbers_nor_one_truth_value_is_refused(holds):
    """`check("...", a == b)` of two tensors is several answers: which one is meant?"""
    with pytest.raises(TypeError, match="measured must be a number, numbers, or one truth value"):
        check("attention looks back", holds, at_least=0)


@pytest.mark.parametrize("measured", [1, 0.3, np.float64(2), torch.tensor(1), [1.0, 2.0]], ids=repr)
def test_a_number_without_a_limit_is_refused(measured):
    """`check("...", bleu)` would hold for any score."""
    with pytest.raises(ValueError, match="nothing limits it: give one of at_least, at_most"):
        check("attention looks back", measured)


@pytest.mark.parametrize(
    ("measured", "given", "line"),
    [
        (3.4142, {"at_least": 1.5, "unit": "times as fast"}, "3.41 times as fast (at least 1.50)"),
        (torch.tensor(0.25), {"below": 0.5}, "0.25 (below 0.50)"),
        (np.float64(97.13), {"above": 90, "unit": "%", "places": 1}, "97.1% (above 90%)"),
        (12_000, {"equal": 12_000, "unit": "scores"}, "12,000 scores (exactly 12,000)"),
        (0.5, {"at_least": 0, "at_most": 1, "places": 1}, "0.5 (at least 0 and at most 1)"),
        ([1.5, 2.5], {"at_least": 1.0, "places": 1}, "1.5, 2.5 (each at least 1.0)"),
        (torch.tensor([1.5, 2.5]), {"at_most": 2.5, "places": 1}, "1.5, 2.5 (each at most 2.5)"),
    ],
    ids=str,
)
def test_the_number_and_its_limit_stand_in_the_line(measured, given, line, capsys):
    check("attention looks back", measured, **given)
    assert capsys.readouterr().out == f"✓ attention looks back: {line}\n"


@pytest.mark.parametrize(
    ("measured", "given"),
    [
        (1.49, {"at_least": 1.5}), (1.51, {"at_most": 1.5}), (1.5, {"above": 1.5}), (1.5, {"below": 1.5}),
        (2, {"equal": 1}), (2.0, {"at_least": 0, "at_most": 1}), ([2.0, 0.9], {"at_least": 1}),
        *[(math.nan, {name: 1}) for name in ("at_least", "at_most", "above", "below", "equal")],
    ],
    ids=str,
)
def test_a_number_beyond_its_limit_stops_the_notebook(measured, given, capsys):
    """NaN too: `not nan > limit` would let it through. One seed of three too."""
    with pytest.raises(AssertionError, match=r"does not hold: attention looks back: .* \("):
        check("attention looks back", measured, **given)
    assert capsys.readouterr().out == ""


def test_a_truth_value_takes_no_limit():
    """check("...", a > b, at_least=1): True is 1, and so it would hold."""
    with pytest.raises(TypeError, match="a truth value, and at_least limits a number"):
        check("attention looks back", True, at_least=1)


@pytest.mark.parametrize("nothing", [[], (), torch.tensor([]), np.array([])], ids=repr)
def test_nothing_measured_is_no_claim(nothing):
    """all() of nothing is true."""
    with pytest.raises(ValueError, match="nothing was measured"):
        check("attention looks back", nothing, at_least=0)


@pytest.mark.parametrize("limit", [math.nan, "1", True], ids=repr)
def test_a_limit_is_a_number(limit):
    with pytest.raises((TypeError, ValueError), match="at_least"):
        check("attention looks back", 1.0, at_least=limit)
