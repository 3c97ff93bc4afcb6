"""Positions: the published sines, a table that grows, a learned one, a grid, and angles that differ."""

import cmath
import copy
import itertools
import math

import pytest
import torch

from attncourse.attention import GridPositions, LearnedPositions, SinusoidPositions, rotate


def data(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


# --- Sinusoids ---------------------------------------------------------------------------------------------


def test_the_published_numbers_of_an_odd_width():
    """Sine and cosine take turns, each pair with its own wavelength; the last sine stands alone."""
    table = SinusoidPositions(5)(2)
    assert table.tolist()[0] == [0, 1, 0, 1, 0]
    expected = torch.tensor([0.841471, 0.540302, 0.025116, 0.999685, 0.000631])
    torch.testing.assert_close(table[1], expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("width", [1, 2, 5, 16])
def test_every_number_is_that_of_the_formula(width):
    """Vaswani et al. 2017, section 3.5: i counts pairs, not numbers, and the exponent is 2 i / d."""
    table = SinusoidPositions(width)(300)
    for t, j in itertools.product((0, 1, 7, 255, 256, 299), range(width)):
        angle = t / 10000 ** (2 * (j // 2) / width)
        expected = math.cos(angle) if j % 2 else math.sin(angle)
        assert table[t, j].item() == pytest.approx(expected, abs=1e-6), f"position {t}, number {j}"


def test_far_positions_are_as_precise_as_near_ones():
    """t / 10000^(2i/d) in float32 is off by thousandths at t = 100,000: its sine would be too."""
    positions = SinusoidPositions(8)
    rows = positions(3, first=100_000)
    assert rows.dtype == torch.float32
    for t, i in itertools.product(range(3), range(4)):
        angle = (100_000 + t) / 10000 ** (i / 4)
        assert rows[t, 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-6)
        assert rows[t, 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-6)


def test_a_shift_is_the_same_turn_at_every_position():
    """PE(t + k) is PE(t) turned pair by pair, by angles that depend on k alone: what the paper hopes for."""
    table = SinusoidPositions(8)(60).double()
    pairs = torch.view_as_complex(table.view(60, 4, 2).flip(-1).contiguous())
    for k in (1, 5):
        turns = pairs[k:] / pairs[:-k]
        torch.testing.assert_close(turns, turns[:1].expand_as(turns), rtol=0, atol=1e-5)


def test_the_table_grows_and_earlier_rows_stay():
    """No length is too long, and a model that met a long sentence reads short ones as before."""
    positions = SinusoidPositions(6)
    before = positions(10).clone()
    assert positions(1000).shape == (1000, 6)
    assert torch.equal(positions(10), before), "growing changed the first rows"
    assert torch.equal(positions(1000), SinusoidPositions(6)(1000))
    assert len(torch.unique(positions(1000), dim=0)) == 1000, "two positions look alike"


@pytest.mark.parametrize("first", [0, 1, 250, 256, 5000])
def test_a_place_has_its_vector_wherever_one_starts(first):
    """Decoding asks for one place at a time: the vector of word 7 is that of the whole pass."""
    positions = SinusoidPositions(6)
    assert torch.equal(positions(3, first=first), SinusoidPositions(6)(first + 3)[first:])
    assert positions(0, first=first).shape == (0, 6)


def test_the_table_moves_with_the_model_and_is_not_stored():
    """It can be made again; and a checkpoint must load whatever length was met before it was written."""
    positions = SinusoidPositions(6)
    positions(2000)
    assert not positions.state_dict() and not list(positions.parameters())
    SinusoidPositions(6).load_state_dict(positions.state_dict())
    assert torch.equal(copy.deepcopy(positions)(2000), positions(2000))
    positions.to("meta")
    assert positions(3).is_meta, "the table stayed behind: is it a buffer?"
    assert positions(9000).is_meta, "a table that grows must grow where it lies"


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_table_keeps_its_dtype_when_it_grows(dtype):
    positions = SinusoidPositions(6).to(dtype)
    assert positions(3).dtype == positions(3000).dtype == dtype
    torch.testing.assert_close(positions(3000).float(), SinusoidPositions(6)(3000), rtol=0, atol=0.005)


def test_a_table_that_grew_while_decoding_can_be_trained_with():
    """What is made in inference mode may not enter a gradient unless it is only added."""
    positions, words = SinusoidPositions(4), data(600, 4, dtype=torch.float32).requires_grad_()
    with torch.inference_mode():
        positions(600)
    (words + positions(600)).square().sum().backward()
    assert words.grad.isfinite().all()


@pytest.mark.parametrize("width", [0, -2])
def test_a_width_that_cannot_be_is_named(width):
    with pytest.raises(ValueError, match=f"width is {width}: it must be at least 1"):
        SinusoidPositions(width)


# --- Learned -----------------------------------------------------------------------------------------------


def test_each_place_has_a_row_that_learns():
    """Only the rows that were read get a gradient, and `first` says which those are."""
    positions = LearnedPositions(4, longest=6)
    assert torch.equal(positions(6), positions.table)
    assert torch.equal(positions(2, first=3), positions.table[3:5])
    positions(2, first=3).sum().backward()
    assert positions.table.grad.any(-1).tolist() == [False, False, False, True, True, False]


@pytest.mark.parametrize(("count", "first"), [(7, 0), (1, 6), (3, 5)])
def test_a_sequence_longer_than_the_table_is_named(count, first):
    """An index error, or worse a row that wraps around, would not say what to change."""
    with pytest.raises(ValueError) as caught:
        LearnedPositions(4, longest=6)(count, first)
    words = [f"{first + count} positions", "6 were learned", "longest"]
    assert all(word in str(caught.value) for word in words), str(caught.value)


# --- A grid ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 2), (2, 5)])
@pytest.mark.parametrize("width", [4, 12])
def test_every_number_of_a_cell_is_that_of_the_formula(width, rows, columns):
    """Half a vector for the row, half for the column; counted from 1, the last is at 2 pi; i counts pairs."""
    table, half = GridPositions(width)(rows, columns), width // 2
    assert table.shape == (rows * columns, width) and table.dtype == torch.float32
    for row, column, j in itertools.product(range(rows), range(columns), range(width)):
        share = (row + 1) / rows if j < half else (column + 1) / columns
        angle = 2 * math.pi * share / 10000 ** (2 * (j % half // 2) / half)
        expected = math.cos(angle) if j % 2 else math.sin(angle)
        found = table[row * columns + column, j].item()
        assert found == pytest.approx(expected, abs=1e-6), f"row {row}, column {column}, number {j}"


@pytest.mark.parametrize(("rows", "columns"), [(7, 7), (4, 9), (20, 3)])
def test_the_grid_is_hugging_face_s(rows, columns):
    """Theirs is divided by the number of cells + 1e-6."""
    from transformers.models.detr.modeling_detr import DetrSinePositionEmbedding

    shape = torch.Size([1, 16, rows, columns])
    [theirs] = DetrSinePositionEmbedding(8, normalize=True)(shape, "cpu", torch.float32)
    found = GridPositions(16)(rows, columns)
    torch.testing.assert_close(found, theirs.flatten(1).T, rtol=0, atol=1e-4)


def test_rows_fill_the_first_half_and_columns_the_second():
    """Both say the same of the same share, so a grid turned over has its halves exchanged."""
    grid = GridPositions(8)(3, 5).view(3, 5, 8)
    assert torch.equal(grid[..., :4], grid[:, :1, :4].expand(3, 5, 4)), "the column changes the first half"
    assert torch.equal(grid[..., 4:], grid[:1, :, 4:].expand(3, 5, 4)), "the row changes the second half"
    turned = GridPositions(8)(5, 3).view(5, 3, 8).transpose(0, 1)
    torch.testing.assert_close(turned.roll(4, dims=-1), grid)


def test_a_place_is_its_share_of_the_image():
    """Twice as many cells: every second one ends where a large one did."""
    small, large = GridPositions(8)(3, 4).view(3, 4, 8), GridPositions(8)(6, 8).view(6, 8, 8)
    torch.testing.assert_close(large[1::2, 1::2], small)


def test_all_cells_differ():
    assert torch.cdist(GridPositions(64)(8, 8), GridPositions(64)(8, 8)).add(torch.eye(64)).min() > 0.1


def test_a_grid_has_no_weights_and_is_made_where_it_is_needed():
    positions = GridPositions(8)
    assert not positions.state_dict() and not list(positions.parameters())
    assert positions(2, 3, device="meta").is_meta
    torch.testing.assert_close(positions(2, 3, device=torch.device("cpu")), positions(2, 3))


@pytest.mark.parametrize("width", [-4, 0, 2, 6, 9])
def test_a_width_that_is_no_multiple_of_four_is_named(width):
    with pytest.raises(ValueError, match=f"width is {width}: it must be a multiple of 4"):
        GridPositions(width)


# --- Rotary ------------------------------------------------------------------------------------------------


def test_a_pair_turns_by_its_place():
    """[1, 0] at place 1 is [cos 1, sin 1]; the second pair of a width of 4 turns 100 times as slowly."""
    vector = torch.tensor([[1.0, 0, 1, 0]], dtype=torch.float64)
    expected = torch.tensor([[math.cos(1), math.sin(1), math.cos(0.01), math.sin(0.01)]], dtype=torch.float64)
    torch.testing.assert_close(rotate(vector, torch.tensor([1])), expected)
    assert torch.equal(rotate(vector, torch.tensor([0])), vector), "place 0 turns nothing"


@pytest.mark.parametrize("width", [2, 4, 10])
def test_turning_is_a_product_of_complex_numbers(width):
    """(x + i y) e^(i t theta), for neighbours x and y and theta = 10000^(-2i/d)."""
    vectors, places = data(3, 2, 5, width), [0, 1, 4, 9, 100]
    found = rotate(vectors, torch.tensor(places))
    for (position, t), i in itertools.product(enumerate(places), range(width // 2)):
        turn = cmath.exp(1j * t / 10000 ** (2 * i / width))
        for b, head in itertools.product(range(3), range(2)):
            x, y = (tensor[b, head, position, 2 * i : 2 * i + 2].tolist() for tensor in (vectors, found))
            z = complex(*x) * turn
            assert y == pytest.approx([z.real, z.imag], abs=1e-12)


def test_scores_depend_on_the_distance_only():
    """Su et al. 2021, eq. 16: with the sign of one of the two turned round, they depend on the sum."""
    query, key = data(7, 8), data(7, 8, seed=2)
    places = torch.arange(7)

    def scores(query_shift, key_shift):
        return rotate(query, places + query_shift) @ rotate(key, places + key_shift).T

    torch.testing.assert_close(scores(0, 0), scores(5000, 5000), rtol=0, atol=1e-9)
    assert (scores(0, 0) - scores(0, 1)).abs().max() > 0.1, "the distance plays no part"
    same = rotate(data(1, 8).expand(7, 8), places)
    table = same @ same.T
    torch.testing.assert_close(table, table.T, msg="one vector, near and far: the two directions are alike")
    assert len(torch.unique(table[0].round(decimals=9))) == 7


def test_lengths_stay():
    """A rotation changes directions only."""
    vectors = data(2, 3, 50, 8)
    turned = rotate(vectors, torch.arange(50))
    torch.testing.assert_close(turned.norm(dim=-1), vectors.norm(dim=-1))
    torch.testing.assert_close(rotate(turned, torch.arange(50)), rotate(vectors, 2 * torch.arange(50)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_far_positions_turn_as_precisely_as_near_ones(dtype):
    """In bfloat16 even the number 257 is lost: the angle must not be computed in the vectors' dtype."""
    vectors, places = data(4, 8, dtype=dtype), torch.tensor([3, 257, 5001, 100_003])
    loose = {torch.float32: 1e-6, torch.bfloat16: 0.03, torch.float16: 4e-3}[dtype]
    turned = rotate(vectors, places)
    assert turned.dtype == dtype
    torch.testing.assert_close(turned.double(), rotate(vectors.double(), places), rtol=0, atol=loose)


def test_gradients_are_those_of_finite_differences():
    vectors = data(2, 3, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: rotate(x, torch.tensor([0, 2, 30])), vectors)


def test_an_odd_width_is_refused():
    with pytest.raises(ValueError, match="width 5.*pairs.*even"):
        rotate(data(2, 5), torch.arange(2))
