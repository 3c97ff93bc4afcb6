"""Every head of a Transformer at once: a small map for each, and the one that the reader picks, enlarged."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

import torch
from torch import Tensor

from attncourse.viewer.style import SHADES
from attncourse.viewer.views.component import component, table
from attncourse.viewer.views.packed import rounded
from attncourse.viewer.weights import checked_layers, checked_tokens

# So many weights, at ten bytes each in the worst case, keep a page below 1.5 MB.
MOST = 140_000


class HeadMaps(NamedTuple):
    """The weights of every head for one relation, with the tokens that ask and those that are read.

    Args:
        weights: (layers, heads, queries, keys); a row sums to 1, or to 0 where all is hidden.
        queries: one token for each row.
        keys: one token for each column.
        names: what some heads do, in two or three words, {(layer, head): "previous word"}; both are counted
            from 0, as in weights[layer, head].
    """

    weights: Tensor
    queries: Sequence[str]
    keys: Sequence[str]
    names: Mapping[tuple[int, int], str] = {}


class HeadsView:
    """All attention of a Transformer, a row of small maps for each layer and a map for each head.

    Each small map is a button; its head is shown enlarged as in `AttentionView`. The word and the temperature
    that were chosen there stay when another head is picked, so that heads can be compared. In the small maps
    the shade is the square root of the weight: a head that spreads its weight thinly shows too.

    Args:
        maps: {name of the relation: HeadMaps, or (weights, queries, keys)}, such as "inside the source",
            "inside the target" and "between the two"; an encoder has the first alone.
        title: a sentence that says what there is to see.

    Raises:
        ValueError, TypeError: shapes that do not fit the tokens, NaN, rows that are not weights, a name for a
            head that is not there, or more weights than one page should carry.
    """

    def __init__(self, maps: Mapping[str, HeadMaps | tuple], *, title: str | None = None):
        if not isinstance(maps, Mapping):
            raise TypeError(
                f"maps must name each relation, {{'inside the source': (weights, queries, keys)}}, given "
                f"{type(maps).__name__}"
            )
        if not maps:
            raise ValueError("maps is empty: at least one relation is needed")
        self.maps = {relation: _checked(relation, given) for relation, given in maps.items()}
        self.title = title
        count = sum(given.weights.numel() for given in self.maps.values())
        if count > MOST:
            raise ValueError(
                f"maps holds {count:,} weights, but a page carries at most {MOST:,}: choose a shorter "
                "sentence, or some of the layers"
            )

    def __repr__(self) -> str:
        layers, heads = max(given.weights.shape[:2] for given in self.maps.values())
        return f"HeadsView({', '.join(self.maps)}: {layers} layers of {heads} heads)"

    def _repr_html_(self) -> str:
        data = {
            "title": self.title,
            "shades": SHADES,
            "relations": [
                {
                    "name": relation,
                    "queries": given.queries,
                    "keys": given.keys,
                    "names": [{"layer": layer, "head": head, "name": name}
                              for (layer, head), name in given.names.items()],
                    "weights": rounded(given.weights),
                }
                for relation, given in self.maps.items()
            ],
        }
        return component("heads", data, self._fallback(), inside=("attention",))

    def _fallback(self) -> str:
        relation, given = next(iter(self.maps.items()))
        layers, heads = given.weights.shape[:2]
        rows = zip(given.queries, given.weights[0, 0].tolist(), strict=True)
        caption = f"{self.title or 'Attention by layer and head'} ({relation}: layer 1, head 1)"
        cells = [[query, *[f"{w:.2f}" for w in row]] for query, row in rows]
        sentence = (
            f"One of {layers * heads} heads, {heads} in each of {layers} layers. "
            f"With scripts, this page shows them all: {', '.join(self.maps)}."
        )
        return f"{table(caption, ['', *given.keys], cells)}\n<p>{escape(sentence)}</p>"


def _checked(relation: str, given) -> HeadMaps:
    called = f"maps[{relation!r}]"
    if not isinstance(given, tuple) or not 3 <= len(given) <= 4:
        raise TypeError(
            f"{called} must be HeadMaps, or (weights, queries, keys), given {type(given).__name__}"
        )
    given = HeadMaps(*given)
    queries, keys = checked_tokens("queries", given.queries), checked_tokens("keys", given.keys)
    weights = torch.as_tensor(given.weights)
    if weights.ndim != 4 or 0 in weights.shape:
        raise ValueError(
            f"{called}: weights has shape {tuple(weights.shape)}; it must be (layers, heads, queries, keys)"
        )
    checked = checked_layers(called, weights, queries, keys)
    for layer, head in given.names:
        if not (0 <= layer < weights.shape[0] and 0 <= head < weights.shape[1]):
            raise ValueError(
                f"{called}: names holds ({layer}, {head}), but there are {weights.shape[0]} layers of "
                f"{weights.shape[1]} heads, counted from 0"
            )
    return HeadMaps(checked, queries, keys, dict(given.names))
