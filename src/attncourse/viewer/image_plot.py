"""The printed counterpart of `ImageAttentionView`: the image once, then once for each word with its weights."""

from collections.abc import Mapping, Sequence

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from attncourse.viewer.places import checked_boxes, checked_image, checked_places
from attncourse.viewer.plots import _title
from attncourse.viewer.style import figure_style, printable
from attncourse.viewer.weights import checked_tokens

PANEL = 1.25        # inches, the side of one small picture
IN_A_ROW = 6        # pictures
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
    recede into grey. A dashed box is where the word's object stands. Several systems take a line each.
    """
    image = checked_image(image)
    words = checked_tokens("words", words)
    systems = weights if isinstance(weights, Mapping) else {"": weights}
    systems = {
        name: checked_places("weights", given, words, image, grid) for name, given in systems.items()
    }
    boxes = checked_boxes(boxes, words, image)
    [labels] = printable(words)
    height, width = image.shape[:2]
    across = min(IN_A_ROW, len(words)) + 1
    lines = -(-len(words) // IN_A_ROW)
    with figure_style():
        figure = Figure(figsize=(max(4.4, PANEL * across), (PANEL * height / width + 0.32) * lines * len(systems) + 0.5))
        panels = figure.subplots(lines * len(systems), across, squeeze=False)
        for axes in panels.flat:
            axes.axis("off")
        for number, (name, matrix) in enumerate(systems.items()):
            rows = panels[lines * number : lines * (number + 1)]
            _picture(rows[0, 0], image, name or "the image")
            for i, label in enumerate(labels):
                axes = rows[i // IN_A_ROW, 1 + i % IN_A_ROW]
                _picture(axes, image, label)
                _veil(axes, matrix[i], height, width)
                if boxes[i] is not None:
                    _box(axes, boxes[i])
        _title(figure, title)
    return figure


def _picture(axes: Axes, image: Tensor, label: str) -> None:
    height, width = image.shape[:2]
    axes.imshow(image.numpy(), cmap="gray", vmin=0, vmax=255, extent=(0, width, height, 0),
                interpolation="nearest")
    axes.set_title(label, fontsize=10.5, loc="center", pad=3, parse_math=False)


def _veil(axes: Axes, weights: Tensor, height: int, width: int) -> None:
    rows, columns = weights.shape
    share = weights / weights.max().clamp_min(1e-9)
    veil = torch.full((rows, columns, 4), 0.5)
    veil[..., 3] = VEIL * (1 - share)
    axes.imshow(veil.numpy(), extent=(0, width, height, 0), interpolation="nearest", zorder=2)
    for row, column in (share >= READ).nonzero().tolist():
        corner = (column * width / columns, row * height / rows)
        thick = 0.8 + 2 * weights[row, column].item()
        dark = [withStroke(linewidth=thick + 1.6, foreground="black")]
        axes.add_patch(Rectangle(corner, width / columns, height / rows, fill=False, edgecolor="white",
                                 linewidth=thick, path_effects=dark, zorder=3))


def _box(axes: Axes, box: tuple[float, float, float, float]) -> None:
    left, top, right, bottom = box
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, edgecolor="#FFB000",
                             linewidth=1.6, linestyle=(0, (3, 2)), zorder=4))
