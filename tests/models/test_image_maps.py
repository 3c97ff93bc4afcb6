"""Distance, roll-out and similarity of positions, against numbers worked out by hand."""

import math

import pytest
import torch

from attncourse.models import attention_distance, nearest_are_neighbours, position_cosines, roll_out


def one_head(rows) -> torch.Tensor:
    """Maps of one image, one layer, one head."""
    return torch.tensor(rows, dtype=torch.float64)[None, None, None]


def drawn(*shape) -> torch.Tensor:
    random = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=random, dtype=torch.float64).softmax(-1)


def in_order(batch=1, layers=1, heads=1):
    """Weights of six tokens; every layer's are other ones."""
    return drawn(batch, layers, heads, 6, 6)


# --- Distance ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("weights", "grid", "pixels"), [
    ([[1, 0], [0, 1]], (1, 2), 0),
    ([[0, 1], [1, 0]], (1, 2), 16),
    ([[0.5, 0.5], [0.5, 0.5]], (1, 2), 8),
    ([[1, 0], [0.5, 0.5]], (2, 1), 4),
    ([[0.25] * 4] * 4, (2, 2), 16 * (2 + math.sqrt(2)) / 4),
], ids=["itself", "the other", "both", "one of two", "four"])
def test_distance_by_hand(weights, grid, pixels):
    """Patches of 16 pixels: from one to the next it is 16, and across a corner 16 times the root of 2."""
    assert attention_distance(one_head(weights), grid, 16).item() == pytest.approx(pixels)


def test_rows_and_columns_of_the_grid_are_not_swapped():
    """Two rows of three: from the first patch to the last it is 1 down and 2 to the right."""
    weights = torch.eye(6, dtype=torch.float64)
    weights[0] = torch.tensor([0, 0, 1, 0, 0, 0])
    found = attention_distance(weights[None, None, None], (2, 3), 1).item()
    assert 6 * found == pytest.approx(2), "patch 2 ends the first row"
    weights[0] = torch.tensor([0, 0, 0, 0, 0, 1])
    assert 6 * attention_distance(weights[None, None, None], (2, 3), 1).item() == pytest.approx(math.sqrt(5))


def test_each_head_and_layer_has_its_distance_and_images_are_averaged():
    maps = torch.eye(4, dtype=torch.float64).expand(2, 3, 2, 4, 4).clone()
    maps[0, 2, 1] = maps[0, 2, 1].flip(-1)  # in a row of four each looks at its mirror image: 3, 1, 1, 3
    found = attention_distance(maps, (1, 4), 5)
    expected = torch.zeros(3, 2, dtype=torch.float64)
    expected[2, 1] = 5 * 2 / 2
    torch.testing.assert_close(found, expected)


def test_the_class_token_has_no_place():
    """What it reads does not count, and what is read of it is shared out among the patches."""
    among = [[0.2, 0.8], [0.6, 0.4]]
    alone = attention_distance(one_head(among), (1, 2), 16)
    with_token = [[0.0, 0.1, 0.9], [0.5, 0.1, 0.4], [0.75, 0.15, 0.1]]
    torch.testing.assert_close(attention_distance(one_head(with_token), (1, 2), 16), alone)


def test_a_patch_that_reads_the_class_token_only_is_a_distance_of_0():
    weights = one_head([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert attention_distance(weights, (1, 2), 16).item() == 8, "0 for one patch, 16 for the other, no NaN"


# --- Roll-out ----------------------------------------------------------------------------------------------


def test_roll_out_of_one_layer_is_half_itself_and_half_the_mean_head():
    maps = torch.stack([torch.eye(2), torch.tensor([[0.0, 1.0], [1.0, 0.0]])])[None, None].double()
    expected = torch.tensor([[[0.75, 0.25], [0.25, 0.75]]], dtype=torch.float64)
    torch.testing.assert_close(roll_out(maps), expected)


def test_roll_out_of_two_layers_by_hand():
    """First all read token 0, then all read token 1. In the other order the result would be another."""
    first, second = [[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]
    maps = torch.tensor([[[first], [second]]], dtype=torch.float64)
    # With the residual [[1, 0], [1/2, 1/2]] and [[1/2, 1/2], [0, 1]]; the second times the first.
    expected = torch.tensor([[[0.75, 0.25], [0.5, 0.5]]], dtype=torch.float64)
    torch.testing.assert_close(roll_out(maps), expected, msg="the last layer stands leftmost")


def test_roll_out_s_rows_sum_to_1_and_images_stay_apart():
    maps = in_order(3, 4, 2)
    rolled = roll_out(maps)
    assert rolled.shape == (3, 6, 6)
    torch.testing.assert_close(rolled.sum(-1), torch.ones(3, 6, dtype=torch.float64))
    torch.testing.assert_close(roll_out(maps[1:2]), rolled[1:2])


def test_heads_that_keep_to_themselves_bring_nothing_from_elsewhere():
    maps = torch.eye(5).expand(1, 3, 2, 5, 5)
    assert torch.equal(roll_out(maps), torch.eye(5)[None])


# --- Positions ---------------------------------------------------------------------------------------------


def test_cosines_by_hand():
    """Length does not count; opposite positions are -1; a class token before them changes nothing."""
    positions = torch.tensor([[[3.0, 0.0], [0.0, 2.0], [-1.0, 0.0], [1.0, 1.0], [5.0, 0.0], [0.0, 1.0]]])
    cosines = position_cosines(positions, (2, 3))
    assert cosines.shape == (2, 3, 2, 3)
    half = math.sqrt(0.5)
    torch.testing.assert_close(cosines[0, 0], torch.tensor([[1.0, 0.0, -1.0], [half, 1.0, 0.0]]))
    torch.testing.assert_close(cosines[1, 0], torch.tensor([[half, half, -half], [1.0, half, half]]))
    with_token = torch.cat([torch.tensor([[[9.0, -9.0]]]), positions], dim=1)
    torch.testing.assert_close(position_cosines(with_token, (2, 3)), cosines)


def test_neighbours_are_counted_by_hand():
    """In a row of three: 0 and 1 are most alike, and 2 is more like 0 than like its neighbour 1."""
    cosines = torch.tensor([[1.0, 0.9, 0.3], [0.9, 1.0, 0.2], [0.3, 0.2, 1.0]])
    assert nearest_are_neighbours(cosines.view(1, 3, 1, 3)) == pytest.approx(2 / 3)
    assert nearest_are_neighbours(cosines.view(3, 1, 3, 1)) == pytest.approx(2 / 3), "or in a column"


def test_a_diagonal_neighbour_and_the_next_row_s_first_do_not_count():
    """Two rows of two: 1 and 2 follow each other in the list, and lie across a corner."""
    cosines = torch.eye(4)
    cosines[1, 2] = cosines[2, 1] = 0.9
    cosines[0, 1] = cosines[3, 2] = 0.5
    assert nearest_are_neighbours(cosines.view(2, 2, 2, 2)) == 0.5


def test_positions_that_say_row_and_column_find_their_neighbours():
    """Angles for the row and for the column, as a trained model's positions come to be."""
    rows, columns = torch.cartesian_prod(torch.arange(4) / 4, torch.arange(5) / 5).unbind(-1)
    positions = torch.stack([rows.sin(), rows.cos(), columns.sin(), columns.cos()], dim=-1)[None]
    assert nearest_are_neighbours(position_cosines(positions, (4, 5))) == 1.0


# --- What does not fit -------------------------------------------------------------------------------------


@pytest.mark.parametrize("grid", [(2, 2), (2, 4), (1, 1)])
def test_a_grid_that_does_not_fit_the_tokens_is_named(grid):
    """Six tokens are 2 x 3 patches, or 1 x 5 and a class token."""
    words = [f"grid is {grid[0]} x {grid[1]}", "6 tokens", f"{grid[0] * grid[1]}"]
    for call in (lambda: attention_distance(in_order(), grid, 4),
                 lambda: position_cosines(torch.ones(1, 6, 2), grid)):
        with pytest.raises(ValueError) as caught:
            call()
        assert all(word in str(caught.value) for word in words), str(caught.value)
    assert attention_distance(in_order(), (2, 3), 4).isfinite().all()
    assert attention_distance(in_order(), (1, 5), 4).isfinite().all()
