"""Positions: attention sees a set, so the order of its members has to be put into the vectors.

`SinusoidPositions`, `LearnedPositions` and, for images, `GridPositions` give a vector for every place, which
is added to the word's or the cell's. `rotate` turns queries and keys by an angle that grows with the place,
so that a score depends on how far apart the two are.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class SinusoidPositions(nn.Module):
    """PE(t, 2i) = sin(t / 10000^(2i/d)), PE(t, 2i+1) = cos(t / 10000^(2i/d))  (Vaswani et al. 2017, 3.5).

    Nothing is learned and no length is too long: the table grows when it is asked for more.

    Args:
        width: d, the length of a position vector; an odd width ends with a sine.

    Raises:
        ValueError: the width is not positive.
    """

    def __init__(self, width: int):
        super().__init__()
        if width < 1:
            raise ValueError(f"width is {width}: it must be at least 1")
        self.width = width
        # A buffer moves with the model; it is not stored with the weights, since it can be made again.
        self.register_buffer("table", self._rows(256, torch.device("cpu")), persistent=False)

    def forward(self, count: int, first: int = 0) -> Float[Tensor, "count width"]:
        """The vectors of places first, first + 1, ..., `count` of them."""
        if first + count > len(self.table):
            self.table = self._rows(2 * (first + count), self.table.device).to(self.table.dtype)
        return self.table[first : first + count]

    def _rows(self, count: int, device: torch.device) -> Float[Tensor, "count width"]:
        angles = _angles(torch.arange(count, device=device), self.width)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, : self.width].float()


class LearnedPositions(nn.Module):
    """One learned vector for each place (Gehring et al. 2017, section 3.1), so there is a longest sequence.

    Args:
        width: d, the length of a position vector.
        longest: number of places.
    """

    def __init__(self, width: int, longest: int):
        super().__init__()
        self.table = nn.Parameter(torch.empty(longest, width))
        nn.init.normal_(self.table, std=width**-0.5)

    def forward(self, count: int, first: int = 0) -> Float[Tensor, "count width"]:
        """The vectors of places first, first + 1, ..., `count` of them.

        Raises:
            ValueError: a place beyond the longest.
        """
        if first + count > len(self.table):
            raise ValueError(f"the sequence has {first + count} positions, {len(self.table)} were learned: "
                             "cut it, or build the model with a larger `longest`")
        return self.table[first : first + count]


class GridPositions(nn.Module):
    """Sinusoids for the cells of an image: half of the vector tells the row, half the column (DETR, A.4).

    Rows and columns are counted from 1 and stretched to an angle of 2 pi at the last, so that a cell's place
    is its share of the image, whatever the number of cells.

    Args:
        width: d, a multiple of 4, since a half holds pairs of sine and cosine.

    Raises:
        ValueError: another width.
    """

    def __init__(self, width: int):
        super().__init__()
        if width < 4 or width % 4:
            raise ValueError(f"width is {width}: it must be a multiple of 4, for a sine and a cosine of "
                             "the row and of the column")
        self.width = width

    def forward(
        self, rows: int, columns: int, device: torch.device | None = None
    ) -> Float[Tensor, "cells width"]:
        """The vectors of all cells, row by row from the top left."""
        down, right = (self._along(count, device) for count in (rows, columns))
        down = down[:, None].expand(-1, columns, -1)
        right = right[None].expand(rows, -1, -1)
        return torch.cat([down, right], dim=-1).flatten(0, 1)

    def _along(self, count: int, device: torch.device | None) -> Float[Tensor, "count half"]:
        shares = torch.arange(1, count + 1, device=device) / count
        angles = _angles(2 * math.pi * shares, self.width // 2)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2).float()


def rotate(
    vectors: Float[Tensor, "*batch count width"], positions: Int[Tensor, "count"]
) -> Float[Tensor, "*batch count width"]:
    """Turn each pair of numbers (2i, 2i+1) by the angle t / 10000^(2i/d)  (Su et al. 2021, eq. 15 and 34).

    A rotated query at t and a rotated key at s have a dot product that depends on the places only through
    t - s. Lengths of vectors do not change.

    Args:
        vectors: queries or keys of one head, an even number of numbers each.
        positions: t for each of them.

    Raises:
        ValueError: an odd width.
    """
    if vectors.shape[-1] % 2:
        raise ValueError(f"vectors have width {vectors.shape[-1]}: rotation turns pairs, so it must be even")
    angles = _angles(positions, vectors.shape[-1])
    cos, sin = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
    even, odd = vectors[..., 0::2], vectors[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def _angles(positions: Int[Tensor, "count"] | Float[Tensor, "count"], width: int) -> Tensor:
    """t / 10000^(2i/d) for place t and pair i, in float64: in float32 the sine of a large angle is off."""
    double = torch.float32 if positions.device.type == "mps" else torch.float64
    pairs = torch.arange(0, width, 2, device=positions.device, dtype=double)
    return positions[:, None].to(double) / 10000 ** (pairs / width)
