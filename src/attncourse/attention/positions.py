"""Positions: attention sees a set, so the order of its members has to be put into it.

`SinusoidPositions`, `LearnedPositions` and, for images, `GridPositions` give a vector for every place, which
is added to the word's or the cell's. The others work inside the heads, where queries meet keys, so that a
score depends on how far apart the two are: `Rotary` turns both by an angle that grows with the place, and
`Alibi` takes something off the score for every place between them.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


class SinusoidPositions(nn.Module):
    """PE(t, 2i) = sin(t / 10000^(2i/d)), PE(t, 2i+1) = cos(t / 10000^(2i/d))  (Vaswani et al. 2017, 3.5).

    Nothing is learned, nothing is stored with the weights, and no length is too long: the table is made when
    it is first asked for, and made anew when it is too short or a model has moved.

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
        # Nothing of it is used but dtype and device: it goes with the model wherever that goes, and no
        # number in it can be lost on the way, as those of a table could that is not stored.
        self.register_buffer("_where", torch.empty(0), persistent=False)
        self._table: Tensor | None = None

    def forward(self, count: int, first: int = 0) -> Float[Tensor, "count width"]:
        """The vectors of places first, first + 1, ..., `count` of them.

        Raises:
            ValueError: a negative number.
        """
        check_places(count, first)
        if torch.compiler.is_compiling():  # a table kept from call to call would be part of what is compiled
            return self._rows(first, count)
        table, where = self._table, (self._where.dtype, self._where.device)
        if table is None or first + count > len(table) or (table.dtype, table.device) != where:
            with torch.inference_mode(False):  # or training could not use what evaluation made
                self._table = table = self._rows(0, max(256, 2 * (first + count)))
        return table[first : first + count]

    def _rows(self, first: int, count: int) -> Float[Tensor, "count width"]:
        angles = _angles(torch.arange(first, first + count, device=self._where.device), self.width)
        waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[:, : self.width]
        return waves.float().to(self._where.dtype)


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

    @property
    def longest(self) -> int:
        """How many places there are."""
        return len(self.table)

    def forward(self, count: int, first: int = 0) -> Float[Tensor, "count width"]:
        """The vectors of places first, first + 1, ..., `count` of them.

        Raises:
            ValueError: a negative number, or a place beyond the longest.
        """
        check_places(count, first)
        if first + count > self.longest:
            raise ValueError(f"the sequence has {first + count} positions, {self.longest} were learned: "
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


class HeadPositions:
    """What heads know of places, and here that is nothing; the children turn vectors or add to scores."""

    def check(self, width: int, heads: int) -> None:
        """Refuse heads that this cannot serve.

        Raises:
            ValueError: heads of a width that does not fit.
        """

    def turn(
        self, vectors: Float[Tensor, "*batch count head_width"], first: int
    ) -> Float[Tensor, "*batch count head_width"]:
        """Queries or keys, the first of which stands at place `first`."""
        return vectors

    def bias(
        self,
        queries: Float[Tensor, "*batch heads queries head_width"],
        keys: Float[Tensor, "*batch key_value_heads keys head_width"],
        first: int,
    ) -> Float[Tensor, "heads queries keys"] | None:
        """What is added to the scores; the first query stands at place `first`, the first key at 0."""
        return None


@dataclass(frozen=True)
class Rotary(HeadPositions):
    """Queries and keys are turned by their places before they are compared (`rotate`; Su et al. 2021).

    Args:
        base: of the angles. A larger one turns the slow pairs more slowly.
        scale: by which places are multiplied: with 1/2, twice the length has the angles of once (Chen et al.
            2023, eq. 4).

    Raises:
        ValueError: a base or a scale that is not positive and finite.
    """

    base: float = 10_000.0
    scale: float = 1.0

    def __post_init__(self):
        for name, value in {"base": self.base, "scale": self.scale}.items():
            if not 0 < value < math.inf:
                raise ValueError(f"{name} is {value}: it must be a positive number")

    def check(self, width: int, heads: int) -> None:
        """Refuse heads of an odd width."""
        if width // heads % 2:
            raise ValueError(f"width {width} over heads = {heads} gives heads of width {width // heads}: "
                             "rotation turns pairs, so it must be even")

    def turn(
        self, vectors: Float[Tensor, "*batch count head_width"], first: int
    ) -> Float[Tensor, "*batch count head_width"]:
        """Each vector turned by its place."""
        places = torch.arange(first, first + vectors.shape[-2], device=vectors.device)
        return rotate(vectors, places if self.scale == 1 else self.scale * places, base=self.base)


@dataclass(frozen=True)
class Alibi(HeadPositions):
    """Each place between query and key takes m off the score, m another for each head (Press et al. 2022).

    m = 2^(-8 i / h) for head i = 1 ... h (section 3). Nothing is learned, and no length is too long.
    """

    def bias(
        self,
        queries: Float[Tensor, "*batch heads queries head_width"],
        keys: Float[Tensor, "*batch key_value_heads keys head_width"],
        first: int,
    ) -> Float[Tensor, "heads queries keys"]:
        """-m |t - s| for the query at place t and the key at place s."""
        heads, asking = queries.shape[-3:-1]
        places = torch.arange(first, first + asking, device=queries.device)
        apart = (places[:, None] - torch.arange(keys.shape[-2], device=queries.device)).abs()
        slopes = 2.0 ** (-8 / heads * torch.arange(1, heads + 1, device=queries.device))
        # In float32 at least: in half precision the places of a long text would run together.
        precise = torch.promote_types(queries.dtype, torch.float32)
        return -slopes.to(precise)[:, None, None] * apart.to(precise)


def check_places(count: int, first: int) -> None:
    """Refuse places before the first, which is 0.

    Raises:
        ValueError: a negative number.
    """
    if count < 0 or first < 0:
        raise ValueError(f"count = {count}, first = {first}: neither may be negative; places begin at 0")


def rotate(
    vectors: Float[Tensor, "*batch count width"],
    positions: Int[Tensor, "count"] | Float[Tensor, "count"],
    *,
    base: float = 10_000.0,
) -> Float[Tensor, "*batch count width"]:
    """Turn each pair of numbers (2i, 2i+1) by the angle t / base^(2i/d)  (Su et al. 2021, eq. 15 and 34).

    A rotated query at t and a rotated key at s have a dot product that depends on the places only through
    t - s. Lengths of vectors do not change.

    Args:
        vectors: queries or keys of one head, an even number of numbers each.
        positions: t for each of them.
        base: of the angles; 10,000 in the paper.

    Raises:
        ValueError: an odd width.
    """
    if vectors.shape[-1] % 2:
        raise ValueError(f"vectors have width {vectors.shape[-1]}: rotation turns pairs, so it must be even")
    angles = _angles(positions, vectors.shape[-1], base)
    cos, sin = angles.cos().to(vectors.dtype), angles.sin().to(vectors.dtype)
    even, odd = vectors[..., 0::2], vectors[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


def _angles(
    positions: Int[Tensor, "count"] | Float[Tensor, "count"], width: int, base: float = 10_000.0
) -> Float[Tensor, "count pairs"]:
    """t / base^(2i/d) for place t and pair i, in float64: in float32 the sine of a large angle is off."""
    double = torch.float32 if positions.device.type == "mps" else torch.float64
    pairs = torch.arange(0, width, 2, device=positions.device, dtype=double)
    return positions[:, None].to(double) / base ** (pairs / width)
