"""The pieces that the drawings are made of: an empty page, boxes, arrows, weights, numbers in their order."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from matplotlib.patheffects import withStroke

from attncourse.viewer.style import INK, WEIGHTS

GREY = "#6a6a6a"
HALO = (withStroke(linewidth=3, foreground="white"),)  # no arrow runs through the words


def page(
    size: tuple[float, float], across: tuple[float, float], up: tuple[float, float]
) -> tuple[Figure, Axes]:
    """An empty sheet, `size` in inches; a unit is as long across as up, and nothing is marked."""
    figure = Figure(figsize=size)
    axes = figure.add_subplot(xlim=across, ylim=up, aspect="equal")
    axes.axis("off")
    return figure, axes


def heading(
    axes: Axes, y: float, title: str, message: str = "", *, right: float = 8.55, colour: str = INK
) -> None:
    """What is drawn, at the left; at the right what tells it from its neighbour."""
    axes.text(0.05, y, title, va="center", fontsize=13, fontweight="bold", color=colour)
    axes.text(right, y, message, va="center", ha="right", fontsize=11.5)


def weight(
    axes: Axes, x: float, y: float, shade: float, text: str, *, radius: float, size: float = 11
) -> None:
    """A weight as a circle, the darker the larger."""
    axes.add_patch(Circle((x, y), radius, facecolor=to_hex(WEIGHTS(shade)), edgecolor=INK, zorder=2))
    axes.text(x, y, text, ha="center", va="center", fontsize=size, zorder=3,
              color="white" if shade > 0.45 else INK)


def plus(axes: Axes, x: float, y: float) -> None:
    """Where two vectors are added."""
    axes.add_patch(Circle((x, y), 0.22, facecolor="white", edgecolor=INK, zorder=2))
    axes.text(x, y, "+", ha="center", va="center_baseline", fontsize=13, zorder=3)


def box(
    axes: Axes, x: float, y: float, width: float, height: float, *, edge: str = INK, wide: float = 1.0
) -> None:
    """A white box with round corners around (x, y); arrows pass behind it."""
    corner = (x - width / 2, y - height / 2)
    style = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, facecolor="white", edgecolor=edge,
                                  linewidth=wide, zorder=2))


def labelled(
    axes: Axes, x: float, y: float, width: float, height: float, text: str = "", *, edge: str = INK,
    size: float = 13, spacing: float | None = None,
) -> None:
    """A box with words in its middle; a coloured edge is a thick one."""
    box(axes, x, y, width, height, edge=edge, wide=1.0 if edge == INK else 2.0)
    if text:
        axes.text(x, y, text, ha="center", va="center", fontsize=size, linespacing=spacing, zorder=3)


def arrow(axes: Axes, start: tuple, end: tuple, *, colour: str = GREY, wide: float = 1.2) -> None:
    """From one point to another, touching both."""
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=9, shrinkA=0, shrinkB=0,
                                   color=colour, linewidth=wide, zorder=1))


def badge(axes: Axes, number: int, x: float, y: float, *, radius: float = 0.27) -> None:
    """A place in the order of computation."""
    axes.add_patch(Circle((x, y), radius, facecolor=INK, edgecolor="white", linewidth=1.0, zorder=3))
    axes.text(x, y, str(number), ha="center", va="center_baseline", color="white", fontsize=11,
              fontweight="bold", zorder=4)


def numbered(axes: Axes, steps: Sequence[str], *, top: float, gap: float) -> None:
    """The steps in words, numbered as in the drawing, one `gap` below the other and the first below `top`."""
    for number, text in enumerate(steps, start=1):
        y = top - gap * number
        badge(axes, number, 0.37, y)
        axes.text(0.82, y, text, va="center", fontsize=10.5, path_effects=HALO)
