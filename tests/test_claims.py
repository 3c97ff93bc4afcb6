"""A claim is either printed or stops the notebook; it is never half true."""

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
    [
        1,
        0.3,
        "yes",
        None,
        [True],
        np.array([True, True]),
        torch.tensor([True]),
        torch.tensor(1),
        np.float64(2),
    ],
    ids=repr,
)
def test_what_is_not_one_truth_value_is_refused(holds):
    """`check("...", bleu)` would pass for any score but 0."""
    with pytest.raises(TypeError, match="holds must be one truth value"):
        check("attention looks back", holds)
