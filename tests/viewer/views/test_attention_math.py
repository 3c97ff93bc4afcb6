"""The views' JavaScript, run in node, gives the package's numbers."""

import pytest
import torch

from attncourse.attention import DotScore, LocalAttention, attend, masked_softmax
from attncourse.viewer.views.weigh.view import SCORES


def close(found, expected):
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), expected, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("temperature", [0.125, 0.5, 1.0, 3.0, 8.0])
def test_softmax_with_temperature_and_mask(in_node, temperature):
    torch.manual_seed(0)
    scores = 5 * torch.randn(40, 7, dtype=torch.float64)
    visible = torch.rand(40, 7) > 0.4
    visible[0] = False
    found = in_node("scores.map((row, i) => attentionMath.softmax(row, temperature, visible[i]))",
                    scores=scores.tolist(), visible=visible.tolist(), temperature=temperature)
    close(found, masked_softmax(scores / temperature, visible))
    assert all(weight == 0 for row, seen in zip(found, visible.tolist(), strict=True)
               for weight, here in zip(row, seen, strict=True) if not here), "hidden is exactly 0"


def test_huge_scores_do_not_overflow(in_node):
    close(in_node("attentionMath.softmax([1000, 999, -1000])"),
          torch.tensor([1000.0, 999, -1000], dtype=torch.float64).softmax(-1))


@pytest.mark.parametrize("temperature", [0.25, 2.0])
def test_weights_at_another_temperature(in_node, temperature):
    """softmax(log w / T) equals softmax(s / T): the constant that log loses, the softmax does not see."""
    torch.manual_seed(1)
    scores = torch.randn(20, 6, dtype=torch.float64)
    scores[:, 4] = -torch.inf
    weights = scores.softmax(-1)
    found = in_node("weights.map((row) => attentionMath.atTemperature(row, temperature))",
                    weights=weights.tolist(), temperature=temperature)
    close(found, (scores / temperature).softmax(-1))
    assert all(row[4] == 0 for row in found)


def test_temperature_one_is_what_was_given(in_node):
    weights = [0.1, 0.2, 0.7, 0.0]
    assert in_node("attentionMath.atTemperature(weights, 1)", weights=weights) == weights


def test_a_row_of_zeros_stays_zeros(in_node):
    assert in_node("attentionMath.atTemperature([0, 0], 3)") == [0, 0]


@pytest.mark.parametrize("kind", SCORES)
def test_scores_and_weighted_sum(in_node, kind):
    torch.manual_seed(2)
    query, keys, values = (torch.randn(n, 2, dtype=torch.float64) for n in (1, 5, 5))
    keys[0] = 0
    context, weights = attend(query, keys, values, score=SCORES[kind])
    given = {"q": query[0].tolist(), "keys": keys.tolist(), "values": values.tolist(), "kind": kind}
    scores = "keys.map((k) => attentionMath.scores[kind](q, k))"
    close(in_node(scores, **given), SCORES[kind](query, keys)[0])
    close(in_node(f"attentionMath.softmax({scores})", **given), weights[0])
    close(in_node(f"attentionMath.weigh(attentionMath.softmax({scores}), values)", **given), context[0])


@pytest.mark.parametrize("gaussian", ["none", "outside", "inside"])
@pytest.mark.parametrize("half_width", [1, 2, 5])
def test_local_attention(in_node, gaussian, half_width):
    """Whole and broken centres, at both ends, and off the source altogether."""
    torch.manual_seed(3)
    centres = torch.tensor([0.0, 0.4, 2.0, 2.5, 5.9, 6.0, 7.0, 13.0], dtype=torch.float64)
    scores = 3 * torch.randn(len(centres), 7, dtype=torch.float64)
    attention = LocalAttention(DotScore(), half_width=half_width, gaussian=gaussian)
    query, key = scores.new_ones(len(centres), 1, 1), scores[..., None]
    expected = attention(query, key, key, lengths=torch.full((len(centres),), 7), time=centres).weights[:, 0]
    found = in_node("scores.map((row, i) => attentionMath.local(row, centres[i], halfWidth, gaussian))",
                    scores=scores.tolist(), centres=centres.tolist(), halfWidth=half_width, gaussian=gaussian)
    close(found, expected)
    assert torch.equal(torch.tensor(found) == 0, expected == 0), "outside the window a weight is exactly 0"
