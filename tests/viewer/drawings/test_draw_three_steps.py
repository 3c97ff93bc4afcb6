"""The drawing of the three steps shows what the package computes."""

import pytest
import torch

from attncourse.viewer.drawings.three_steps import three_steps
from attncourse.viewer.plots.figure import figure_html

TOKENS = ["dog", "ran", "home"]
QUERY = torch.tensor([1.0, 1.0])
KEY = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
VALUE = torch.tensor([[10.0, 0.0], [0.0, 10.0], [10.0, 10.0]])


def words(figure) -> list[str]:
    return [text.get_text() for text in figure.axes[0].texts]


def test_the_numbers_are_those_of_the_worked_example():
    """Scores 2, 1, 0; e^2 : e : 1 is 0.67 : 0.24 : 0.09; 0.67 (10, 0) + 0.24 (0, 10) + 0.09 (10, 10)."""
    shown = words(three_steps(TOKENS, QUERY, KEY, VALUE))
    for expected in ["dog", "2", "1", "0", "0.67", "0.24", "0.09", "key\n(1, −1)", "context\n(7.6, 3.3)"]:
        assert expected in shown


@pytest.mark.parametrize("count", [1, 2, 4])
def test_other_numbers_of_tokens_fit(count):
    figure = three_steps(["a $b$"] * count, QUERY, torch.ones(count, 2), torch.ones(count, 1))
    assert f"{1 / count:.2f}" in words(figure)
    left, right = figure.axes[0].get_xlim()
    assert all(left <= text.get_position()[0] <= right for text in figure.axes[0].texts)


def test_drawn_twice_the_bytes_are_equal():
    first, second = (figure_html(three_steps(TOKENS, QUERY, KEY, VALUE), "alt") for _ in range(2))
    assert first == second and len(first) < 150_000


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="tokens holds 5"):
        three_steps(["a"] * 5, QUERY, torch.ones(5, 2), torch.ones(5, 2))
    with pytest.raises(ValueError, match=r"value has shape \(2, 2\)"):
        three_steps(TOKENS, QUERY, KEY, VALUE[:2])
    with pytest.raises(ValueError, match="equal widths"):
        three_steps(TOKENS, torch.ones(3), KEY, VALUE)
