"""Look inside: which patches of an image each patch attends to, in a view that the reader can play with."""

import math

import torch
from torch import Tensor

from attncourse.viewer.places import cell_name, checked_image
from attncourse.viewer.style import SHADES
from attncourse.viewer.views.component import component, table
from attncourse.viewer.views.packed import check_size, packed_image, packed_weights
from attncourse.viewer.weights import checked_layers

CLASS_TOKEN = "class token"


class PatchView:
    """The attention of a Vision Transformer, patch by patch, to be explored by mouse, touch or keyboard.

    A patch, or the class token beside the image, shows what it attends to: those patches stay clear and are
    outlined, the others recede into grey. Small maps show the same for every layer and head, and for the mean
    of a layer's heads; one of them is picked. A switch turns the question round: who attends to this patch?

    Args:
        image: (height, width) in grey, (height, width, 3) or (3, height, width) in colour; floats from 0 to
            1, or bytes.
        maps: (layers, heads, tokens, tokens), what `VisionTransformer.attention_maps` gives for one image.
            The patches are square and follow row by row from the top left; a row sums to 1.
        class_token: whether token 0 is one that stands for no patch.
        prediction: what the model says of the image.
        label: what is true of it.
        title: a sentence that says what there is to see.

    Raises:
        ValueError, TypeError: tokens that do not fill the image, NaN, rows that are not weights, or more than
            a page should carry (400 kB).
    """

    def __init__(
        self,
        image,
        maps,
        *,
        class_token: bool = True,
        prediction: str | None = None,
        label: str | None = None,
        title: str | None = None,
    ):
        self.image = checked_image(image)
        self.class_token = class_token
        maps = checked_maps("maps", maps)
        self.grid = _grid_of_patches(maps.shape[-1], self.image, class_token)
        tokens = token_names(self.grid, class_token)
        self.maps = checked_layers("maps", maps, tokens, tokens)
        check_size(self.image, "give some of the layers or heads, such as maps[:, :2], or a smaller image",
                   maps=self.maps.numel())
        self.prediction, self.label, self.title = prediction, label, title

    def __repr__(self) -> str:
        layers, heads = self.maps.shape[:2]
        rows, columns = self.grid
        token = " and a class token" if self.class_token else ""
        return f"PatchView({rows} by {columns} patches{token}, {layers} layers of {heads} heads)"

    def _repr_html_(self) -> str:
        data = {
            "title": self.title,
            "image": packed_image(self.image),
            "prediction": self.prediction,
            "label": self.label,
            **map_data(self.maps, self.grid, self.class_token, what="patch"),
        }
        return component("patch", data, self._fallback(), inside=PARTS)

    def _fallback(self) -> str:
        """A row for each token: what it attends to most in the last layer, on average over the heads."""
        names = token_names(self.grid, self.class_token)
        rows = [
            [name, largest(row, names)] for name, row in zip(names, self.maps[-1].mean(0), strict=True)
        ]
        said = [
            f"the model says: {self.prediction}" if self.prediction is not None else "",
            f"in truth: {self.label}" if self.label is not None else "",
            f"layer {len(self.maps)}, mean of the heads",
        ]
        caption = f"{self.title or 'What each patch attends to'} ({'; '.join(filter(None, said))})"
        return table(caption, ["patch", "attends most to"], rows)


# The views whose scripts and styles the patch view builds on: the picture with its cells, and the small maps.
PARTS = ("image", "heads")


def map_data(maps: Tensor, grid: tuple[int, int], class_token: bool, *, what: str) -> dict:
    """What the script needs to know of checked maps; `what` is the word for a place, "patch" or "cell"."""
    return {
        "what": what,
        "grid": list(grid),
        "classToken": class_token,
        "layers": maps.shape[0],
        "heads": maps.shape[1],
        "weights": packed_weights(maps),
        "shades": SHADES,
    }


def checked_maps(name: str, maps) -> Tensor:
    """Maps (layers, heads, tokens, tokens), whatever they hold, as a tensor."""
    maps = torch.as_tensor(maps)
    if maps.ndim != 4 or 0 in maps.shape or maps.shape[-1] != maps.shape[-2]:
        hint = ": choose one image of the batch" if maps.ndim == 5 else ""
        raise ValueError(
            f"{name} has shape {tuple(maps.shape)}; it must be (layers, heads, tokens, tokens){hint}"
        )
    return maps


def square_grid(places: int, image: Tensor) -> tuple[int, int] | None:
    """(rows, columns) of so many square places, if these fill the image."""
    height, width = image.shape[:2]
    rows = round(math.sqrt(places * height / width))
    columns = round(math.sqrt(places * width / height))
    fits = rows * columns == places and rows * width == columns * height and 0 < rows <= height
    return (rows, columns) if fits else None


def token_names(grid: tuple[int, int], class_token: bool) -> list[str]:
    """How the tokens are called in errors and in tables."""
    rows, columns = grid
    cells = [cell_name(row, column) for row in range(rows) for column in range(columns)]
    return [CLASS_TOKEN, *cells] if class_token else cells


def largest(weights: Tensor, names: list[str], count: int = 3) -> str:
    """The places with the largest weights in words, "row 1, column 2: 0.91"; "nothing" where all are 0."""
    values, places = weights.sort(descending=True, stable=True)
    pairs = zip(values[:count].tolist(), places[:count].tolist(), strict=True)
    return "; ".join(f"{names[place]}: {value:.2f}" for value, place in pairs if value > 0) or "nothing"


def _grid_of_patches(tokens: int, image: Tensor, class_token: bool) -> tuple[int, int]:
    grid = square_grid(tokens - class_token, image)
    if grid is None:
        height, width = image.shape[:2]
        patches = f"{tokens - class_token} patches" + (" and a class token" if class_token else "")
        turned = not class_token
        hint = (
            f": is class_token {turned}?" if square_grid(tokens - turned, image) else
            "; the image must be cut into squares, and none may be missing"
        )
        raise ValueError(
            f"maps has {tokens} tokens, {patches}, which do not fill an image of {height} by {width} "
            f"pixels{hint}"
        )
    return grid
