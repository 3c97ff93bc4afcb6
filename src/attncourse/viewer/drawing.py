"""The pieces that the drawings of one decoding step are made of: boxes, arrows, numbers in their order."""

from matplotlib.axes import Axes
from matplotlib.patches import Circle, FancyArrowPatch, FancyBboxPatch
from matplotlib.patheffects import withStroke

from attncourse.viewer.style import INK

GREY = "#6a6a6a"
HALO = (withStroke(linewidth=3, foreground="white"),)  # no arrow runs through the words


def box(
    axes: Axes, x: float, y: float, width: float, height: float, *, edge: str = INK, wide: float = 1.0
) -> None:
    """A white box with round corners around (x, y); arrows pass behind it."""
    corner = (x - width / 2, y - height / 2)
    style = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=style, facecolor="white", edgecolor=edge,
                                  linewidth=wide, zorder=2))


def arrow(axes: Axes, start: tuple, end: tuple, *, colour: str = GREY, wide: float = 1.2) -> None:
    """From one point to another, touching both."""
    axes.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=9, shrinkA=0, shrinkB=0,
                                   color=colour, linewidth=wide, zorder=1))


def badge(axes: Axes, number: int, x: float, y: float, *, radius: float = 0.27) -> None:
    """A place in the order of computation."""
    axes.add_patch(Circle((x, y), radius, facecolor=INK, edgecolor="white", linewidth=1.0, zorder=3))
    axes.text(x, y, str(number), ha="center", va="center_baseline", color="white", fontsize=11,
              fontweight="bold", zorder=4)
