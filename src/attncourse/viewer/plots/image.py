"""The printed counterpart of `ImageAttentionView`: the image, then again for each word with its weights."""

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from attncourse.viewer.places import checked_boxes, checked_image, checked_places
from attncourse.viewer.style import figure_style, printable
from attncourse.viewer.weights import checked_tokens

# In inches: a small picture, between two, its label, a system's name, the title.
SIDE, GAP, LABEL, NAME, TITLE = 0.98, 0.09, 0.25, 0.27, 0.42
IN_A_LINE = 7       # words
VEIL = 0.74         # how far a cell that is not read recedes into grey
READ = 0.25         # share of the largest weight from which a cell is outlined


def image_heatmaps(
    image,
    words: Sequence[str],
    weights,
    *,
    title: str,
    grid: tuple[int, int] | None = None,
    boxes: Sequence | None = None,
) -> Figure:
    """Small multiples: where each word looked. The arguments are those of `ImageAttentionView`.

    Cells that were read stay clear and are outlined in white, the thicker the larger the weight; the others
    recede into grey. A dashed box is where the word's object stands. Several systems follow one another.
    """
    image = checked_image(image)
    words = checked_tokens("words", words)
    systems = weights if isinstance(weights, Mapping) else {"": weights}
    if not systems:
        raise ValueError("weights is empty: at least one system is needed")
    systems = {name: checked_places("weights", given, words, image, grid) for name, given in systems.items()}
    boxes = checked_boxes(boxes, words, image)
    [labels] = printable(words)
    lines = -(-len(words) // IN_A_LINE)
    with figure_style():
        panel = _panels(image, min(IN_A_LINE, len(words)) + 1, lines, list(systems), title)
        for system, matrix in enumerate(systems.values()):
            _picture(panel(system, 0, 0), image, "the image")
            for i, label in enumerate(labels):
                axes = panel(system, i // IN_A_LINE, 1 + i % IN_A_LINE)
                _picture(axes, image, label)
                _veil(axes, matrix[i])
                if boxes[i] is not None:
                    _box(axes, boxes[i])
    return axes.figure


def _panels(image: Tensor, across: int, lines: int, names: list[str], title: str):
    """(system, line, column) -> new axes, in a figure with room for the pictures, the names and the title."""
    picture = SIDE * image.shape[0] / image.shape[1]
    name = NAME if any(names) else 0
    block = name + lines * (picture + LABEL + GAP)  # one system
    width, height = max(4.4, across * (SIDE + GAP) + GAP), len(names) * block + TITLE
    figure = Figure(figsize=(width, height), layout="none")

    def write(text: str, top: float, size: float) -> None:
        figure.text(GAP / width, 1 - top / height, text, va="top", fontsize=size, fontweight="bold",
                    parse_math=False)

    write(title, 0.07, 13)
    for system, text in enumerate(names):
        write(text, TITLE + system * block + 0.05, 10.5)

    def panel(system: int, line: int, column: int) -> Axes:
        top = TITLE + system * block + name + line * (picture + LABEL + GAP) + LABEL
        left = GAP + column * (SIDE + GAP)
        axes = figure.add_axes((left / width, 1 - (top + picture) / height, SIDE / width, picture / height))
        axes.axis("off")
        return axes

    return panel


def _picture(axes: Axes, image: Tensor, label: str) -> None:
    height, width = image.shape[:2]
    axes.imshow(image.numpy(), cmap="gray", vmin=0, vmax=255, extent=(0, width, height, 0), aspect="auto",
                interpolation="nearest")
    axes.set_title(label, fontsize=10, loc="center", pad=3, fontweight="normal", parse_math=False)


def _veil(axes: Axes, weights: Tensor) -> None:
    left, right, bottom, top = axes.images[0].get_extent()
    rows, columns = weights.shape
    share = weights / weights.max().clamp_min(1e-9)
    veil = torch.full((rows, columns, 4), 0.5)
    veil[..., 3] = VEIL * (1 - share)
    axes.imshow(veil.numpy(), extent=(left, right, bottom, top), aspect="auto", interpolation="nearest",
                zorder=2)
    wide, tall = right / columns, bottom / rows
    for row, column in (share >= READ).nonzero().tolist():
        thick = 0.7 + weights[row, column].item()
        dark = [withStroke(linewidth=thick + 1.4, foreground="black")]
        # Not clipped, so that a cell at the rim keeps its whole outline.
        axes.add_patch(Rectangle((column * wide, row * tall), wide, tall, fill=False, edgecolor="white",
                                 linewidth=thick, path_effects=dark, zorder=3, clip_on=False))


def _box(axes: Axes, box: tuple[float, float, float, float]) -> None:
    top, left, bottom, right = box
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor="#FFB000",
                             linewidth=1.4, linestyle=(0, (3, 2)), zorder=4, clip_on=False))
