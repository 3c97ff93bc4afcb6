"""Heads: four projections that cut a width into heads and join them again, and what a cache keeps of them.

    queries = X W^Q      keys = Y W^K      values = Y W^V      output = [head_1; ...; head_h] W^O

What happens between the cut and the joint is not decided here: `MultiHeadAttention` is given it.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.attention.equation import check_vectors


class KeysValues(NamedTuple):
    """What a query can read: projected keys and values of every head. Kept from step to step, it is a cache.

    Shapes: keys and values (*batch, key_value_heads, positions, head_width). `room`, if there is one, is the
    memory in which they lie, with places left for those that follow.
    """

    keys: Float[Tensor, "*batch heads positions head_width"]
    values: Float[Tensor, "*batch heads positions head_width"]
    room: "Room | None" = None

    def followed_by(self, new: "KeysValues") -> "KeysValues":
        """The cache with the keys and values of later positions behind its own; this one stays as it is.

        Without gradients they are written into spare room, which doubles when it is full: a step copies its
        own word and not all words before it.
        """
        if self.keys.shape[-2] == 0:
            return new
        if torch.is_grad_enabled():
            return KeysValues(*(torch.cat(pair, dim=-2) for pair in zip(self[:2], new[:2], strict=True)))
        room = self.room if self.room is not None and self.room.fits(self, new) else Room(self, new)
        return room.filled_with(new)

    def reordered(self, rows: Tensor) -> "KeysValues":
        """The given rows of the batch, in a cache of their own."""
        return KeysValues(self.keys[rows], self.values[rows])


class Room:
    """Memory for keys and values that are still to come, behind those that are there.

    Two caches may begin alike and go on differently, as the hypotheses of a beam do. Only the first to go on
    writes here; to the second, whose words are no longer the latest, the room does not fit.
    """

    def __init__(self, old: KeysValues, new: KeysValues):
        places = 2 * (old.keys.shape[-2] + new.keys.shape[-2])
        self.parts = [part.new_empty(*part.shape[:-2], places, part.shape[-1]) for part in new[:2]]
        self.latest = self._write(0, old).keys

    def fits(self, old: KeysValues, new: KeysValues) -> bool:
        """Whether `old` is what was written last, and there is a place for `new` behind it."""
        end, there = old.keys.shape[-2] + new.keys.shape[-2], self.parts[0]
        same = (there.dtype, there.device) == (new.keys.dtype, new.keys.device)
        return old.keys is self.latest and end <= there.shape[-2] and same

    def filled_with(self, new: KeysValues) -> KeysValues:
        """All that lies here once `new` is written behind it."""
        whole = self._write(self.latest.shape[-2], new)
        self.latest = whole.keys
        return whole

    def _write(self, start: int, new: KeysValues) -> KeysValues:
        count = new.keys.shape[-2]
        for spare, part in zip(self.parts, new[:2], strict=True):
            spare.narrow(-2, start, count).copy_(part)
        return KeysValues(*(spare.narrow(-2, 0, start + count) for spare in self.parts), self)


class Heads(nn.Module):
    """The projections W^Q, W^K, W^V and W^O of h heads, and the cut and the joint between width and heads.

    Args:
        width: d, of queries, keys, values and output.
        heads: h, a divisor of the width.
        key_value_heads: heads that have keys and values of their own; `heads` if not given.

    Raises:
        ValueError: heads that do not divide the width, or key_value_heads that do not divide the heads.
    """

    def __init__(self, width: int, heads: int, key_value_heads: int | None = None):
        super().__init__()
        key_value_heads = heads if key_value_heads is None else key_value_heads
        check_split("width", width, "heads", heads)
        check_split("heads", heads, "key_value_heads", key_value_heads)
        self.heads, self.key_value_heads, self.head_width = heads, key_value_heads, width // heads
        shared = key_value_heads * self.head_width
        self.query_projection = nn.Linear(width, width)    # W^Q of all heads side by side
        self.key_projection = nn.Linear(width, shared)     # W^K
        self.value_projection = nn.Linear(width, shared)   # W^V
        self.output_projection = nn.Linear(width, width)   # W^O
        for projection in self.children():
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def queries(
        self, query: Float[Tensor, "*batch queries width"]
    ) -> Float[Tensor, "*batch heads queries head_width"]:
        """Every head's queries.

        Raises:
            ValueError: another width.
        """
        self._check("query", query)
        return self._split(self.query_projection(query))

    def keys_values(
        self, key: Float[Tensor, "*batch keys width"], value: Float[Tensor, "*batch keys width"]
    ) -> KeysValues:
        """Every head's keys and values, projected once per source or once per new word.

        Raises:
            ValueError: another width, or keys and values that differ in number.
        """
        self._check("key", key)
        self._check("value", value)
        check_vectors(key, key, value)
        return KeysValues(self._split(self.key_projection(key)), self._split(self.value_projection(value)))

    def for_every_head(self, shared: Float[Tensor, "*batch key_value_heads keys head_width"]) -> Tensor:
        """Keys or values, once for each query head that reads them: neighbours share."""
        if self.key_value_heads == self.heads:
            return shared
        return shared.repeat_interleave(self.heads // self.key_value_heads, dim=-3)

    def join(
        self, context: Float[Tensor, "*batch heads queries head_width"]
    ) -> Float[Tensor, "*batch queries width"]:
        """What the heads have read, side by side, mixed by W^O."""
        return self.output_projection(context.transpose(-3, -2).flatten(-2))

    def _split(self, vectors: Tensor) -> Float[Tensor, "*batch heads positions head_width"]:
        return vectors.unflatten(-1, (-1, self.head_width)).transpose(-3, -2)

    def _check(self, name: str, vectors: Tensor) -> None:
        width = self.heads * self.head_width
        if vectors.dim() < 2 or vectors.shape[-1] != width:
            raise ValueError(f"{name} has shape {tuple(vectors.shape)}: it must be (..., positions, {width})")


def check_split(name: str, whole: int, parts_name: str, parts: int) -> None:
    """Refuse a number of parts that does not divide the whole.

    Raises:
        ValueError: the message names both, and the numbers that would do.
    """
    if whole < 1 or parts < 1 or whole % parts:
        fitting = ", ".join(str(n) for n in range(1, whole + 1) if whole % n == 0)
        raise ValueError(f"{name} {whole} cannot be split over {parts_name} = {parts}: choose a number that "
                         f"divides it ({fitting})")
