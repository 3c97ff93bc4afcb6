"""The Vision Transformer in one picture: an image is cut into patches, which are read as words are.

It rises from the image to the answer. Nine patches stand for the paper's 196; the numbers give the order.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attncourse.viewer.drawings.pieces import GREY, arrow, badge, box, labelled, numbered, page
from attncourse.viewer.style import MECHANISMS, figure_style

BLUE = MECHANISMS["additive attention"].colour
# A seven of 6 by 6 pixels, so that a patch has 2 by 2; a sketch.
PIXELS = ["######", "######", "....##", "...##.", "..##..", ".##..."]
SIDE = 3                                                     # patches in a row
COLUMNS = [3.5 + 1.18 * i for i in range(SIDE * SIDE)]       # where the patches stand
CLASS = 2.05                                                 # and the class token
PATCH, LINEAR, VECTOR, PLACE, ENCODER, OUT, HEAD = 1.75, 3.1, 4.35, 5.3, 6.9, 8.35, 9.45  # heights


def vision_transformer() -> Figure:
    """From the image to its class (Dosovitskiy et al. 2021, section 3.1, figure 1).

    1 patches, 2 the linear projection, 3 the class token and the positions, 4 the encoder, 5 the head.
    """
    with figure_style():
        figure, axes = page((7.2, 6.6), (0, 14.4), (-3.1, 10.1))
        _cut(axes)
        _embed(axes)
        _read(axes)
        numbered(axes, [
            "cut: the patches stand in a row, as words would",
            "map: one matrix $E$, the same for all, makes $d$ numbers of a patch’s pixels",
            "put a learned vector, the class token, before them; add learned positions",
            "encode: every token reads every other, in each of $L$ layers",
            "answer: a linear layer reads what has become of the class token",
        ], top=0.35, gap=0.62)
    return figure


def _cut(axes: Axes) -> None:
    """The image, and its patches in a row."""
    pixel = 0.33
    left, top = 0.35, PATCH + 3 * pixel
    _pixels(axes, range(6), range(6), left, top, pixel)
    for i in range(SIDE + 1):
        at = 2 * pixel * i
        for xs, ys in (([at, at], [0, 6 * pixel]), ([0, 6 * pixel], [at, at])):
            axes.plot([left + x for x in xs], [top - y for y in ys], color=BLUE, linestyle="-", linewidth=1.6,
                      zorder=3)
    arrow(axes, (left + 6 * pixel + 0.1, PATCH), (COLUMNS[0] - 0.46, PATCH))
    for i, x in enumerate(COLUMNS):
        row, column = divmod(i, SIDE)
        rows, columns = (range(2 * place, 2 * place + 2) for place in (row, column))
        _pixels(axes, rows, columns, x - 0.36, PATCH + 0.36, 0.36)
        axes.add_patch(Rectangle((x - 0.36, PATCH - 0.36), 0.72, 0.72, fill=False, edgecolor=BLUE,
                                 linewidth=1.6, zorder=3))
        arrow(axes, (x, PATCH + 0.4), (x, LINEAR - 0.3))
    badge(axes, 1, COLUMNS[0] - 0.8, PATCH + 0.45)


def _pixels(axes: Axes, rows: range, columns: range, left: float, top: float, side: float) -> None:
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            shade = "#3a3a3a" if PIXELS[row][column] == "#" else "#f2f2f2"
            axes.add_patch(Rectangle((left + j * side, top - (i + 1) * side), side, side, facecolor=shade,
                                     edgecolor="#c9c9c9", linewidth=0.5, zorder=2))


def _embed(axes: Axes) -> None:
    """The projection, the vectors it makes, the class token, and a position for each."""
    middle, wide = (COLUMNS[0] + COLUMNS[-1]) / 2, COLUMNS[-1] - COLUMNS[0] + 0.9
    labelled(axes, middle, LINEAR, wide, 0.6, "linear projection $E$ of the flattened patches", size=10.5)
    badge(axes, 2, COLUMNS[0] - 0.8, LINEAR)
    labelled(axes, CLASS, VECTOR, 1.15, 0.62, "class", edge=BLUE, size=10)
    for i, x in enumerate([CLASS, *COLUMNS]):
        if i:
            labelled(axes, x, VECTOR, 0.86, 0.62, f"$x_{i}E$", size=10)
            arrow(axes, (x, LINEAR + 0.3), (x, VECTOR - 0.32))
        axes.text(x, (VECTOR + PLACE) / 2, "+", ha="center", va="center", fontsize=11)
        labelled(axes, x, PLACE, 0.86, 0.56, f"$p_{i}$", edge=BLUE, size=10)
        arrow(axes, (x, PLACE + 0.29), (x, ENCODER - 0.62))
    badge(axes, 3, CLASS - 1.0, (VECTOR + PLACE) / 2)


def _read(axes: Axes) -> None:
    """The encoder, the vectors that leave it, and the one that is asked for the class."""
    left, right = CLASS - 0.6, COLUMNS[-1] + 0.45
    labelled(axes, (left + right) / 2, ENCODER, right - left, 1.2,
             "Transformer encoder: $L$ layers, norm first", size=11)
    badge(axes, 4, CLASS - 1.0, ENCODER)
    arrow(axes, (CLASS, ENCODER + 0.61), (CLASS, OUT - 0.3), colour=BLUE, wide=2)
    labelled(axes, CLASS, OUT, 0.86, 0.56, "$y$", edge=BLUE, size=11)
    for x in COLUMNS:
        arrow(axes, (x, ENCODER + 0.61), (x, OUT - 0.3))
        box(axes, x, OUT, 0.7, 0.56, edge=GREY)
    arrow(axes, (CLASS, OUT + 0.29), (CLASS, HEAD - 0.33), colour=BLUE, wide=2)
    labelled(axes, CLASS, HEAD, 1.3, 0.64, "head", size=11)
    badge(axes, 5, CLASS - 1.0, HEAD)
    arrow(axes, (CLASS + 0.66, HEAD), (CLASS + 1.5, HEAD))
    axes.text(CLASS + 1.65, HEAD, "seven", va="center", fontweight="bold", fontsize=12)
    axes.text(COLUMNS[-1] + 0.4, HEAD - 0.1, "the patches’ vectors: not asked here", ha="right", va="center",
              fontsize=10, color=GREY)
