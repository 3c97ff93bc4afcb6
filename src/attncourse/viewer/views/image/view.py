"""Look inside: which cells of an image were read for which word, in a view that the reader can play with."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from attncourse.viewer.places import cell_name, checked_boxes, checked_image, checked_places
from attncourse.viewer.views.component import component, table
from attncourse.viewer.views.packed import packed_image, rounded
from attncourse.viewer.weights import checked_tokens

SIDE_BY_SIDE = 3


class ImageAttentionView:
    """Attention weights over an image, word by word, to be explored by mouse, touch or keyboard.

    A word shows the cells it was read from: they stay clear and outlined, the others recede into grey. A
    cell shows which words looked there. Several systems that wrote the same words stand side by side.

    Args:
        image: (height, width) in grey, (height, width, 3) or (3, height, width) in colour; floats from 0 to
            1, or bytes.
        words: what was written, one token for each row of weights.
        weights: (words, rows, columns), or (words, places) with the places row by row; or several of them,
            {name of the system: weights}. A row sums to 1, or to 0 where nothing was read.
        grid: (rows, columns) of a flat list of places; a square when omitted.
        boxes: for each word the box of what it names, (top, left, bottom, right) in pixels, or None.
        title: a sentence that says what there is to see.

    Raises:
        ValueError, TypeError: shapes that do not fit, NaN, rows that are not weights, a box outside.
    """

    def __init__(
        self,
        image,
        words: Sequence[str],
        weights,
        *,
        grid: tuple[int, int] | None = None,
        boxes: Sequence | None = None,
        title: str | None = None,
    ):
        self.image = checked_image(image)
        self.words = checked_tokens("words", words)
        systems = weights if isinstance(weights, Mapping) else {"": weights}
        if not 1 <= len(systems) <= SIDE_BY_SIDE:
            raise ValueError(f"weights names {len(systems)} systems: 1 to {SIDE_BY_SIDE} stand side by side")
        self.systems: dict[str, Tensor] = {}
        for name, given in systems.items():
            called = f"weights[{name!r}]" if name else "weights"
            self.systems[name] = checked_places(called, given, self.words, self.image, grid)
        self.boxes = checked_boxes(boxes, self.words, self.image)
        self.title = title

    def __repr__(self) -> str:
        height, width = self.image.shape[:2]
        named = [name for name in self.systems if name]
        of_systems = f", {' beside '.join(named)}" if len(named) > 1 else ""
        return f"ImageAttentionView({len(self.words)} words over {height} by {width} pixels{of_systems})"

    def _repr_html_(self) -> str:
        data = {
            "title": self.title,
            "words": self.words,
            "image": packed_image(self.image),
            "systems": [
                {"name": name, "grid": list(weights.shape[1:]), "weights": rounded(weights.flatten(1))}
                for name, weights in self.systems.items()
            ],
            "boxes": [None if box is None else list(box) for box in self.boxes],
        }
        return component("image", data, self._fallback())

    def _fallback(self) -> str:
        """A row for each word: the cells that hold most of its weight."""
        columns = ["", *[f"{name} looks at" if name else "looks at" for name in self.systems]]
        rows = [
            [word, *[_largest(weights[i]) for weights in self.systems.values()]]
            for i, word in enumerate(self.words)
        ]
        return table(self.title or "Where each word looked", columns, rows)


def _largest(weights: Tensor, count: int = 3) -> str:
    """The cells with the largest weights in words, "row 1, column 2: 0.91"; "nothing" where all are 0."""
    values, places = weights.flatten().sort(descending=True, stable=True)
    parts = [
        f"{cell_name(*divmod(place, weights.shape[1]))}: {value:.2f}"
        for value, place in zip(values[:count].tolist(), places[:count].tolist(), strict=True)
        if value >= 0.005
    ]
    return "; ".join(parts) or "nothing"
