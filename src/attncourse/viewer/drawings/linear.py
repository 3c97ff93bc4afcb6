"""Two orders for one product of three matrices: matches first, or sums first. Drawn to scale, n above d.

The division by the sum of the matches is left out: it goes the same way, with a column of ones for V.
"""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attncourse.viewer.drawings.pieces import GREY, badge, heading, numbered, page
from attncourse.viewer.style import INK, MECHANISMS, figure_style, text_colour

N, D = 2.3, 0.62                    # how long n and d are drawn
FIRST, SECOND = 7.25, 4.35          # heights of the two products
START, GAP = 1.1, 0.8               # where a product begins, and the room for a sign in it
LARGE, SMALL = MECHANISMS["fixed context"].colour, MECHANISMS["additive attention"].colour

Matrix = tuple[str, float, float]  # its name, its height, its width
QUERIES, KEYS, VALUES = ("$\\phi(Q)$", N, D), ("$\\phi(K)^\\top$", D, N), ("$V$", N, D)
MAP, STATE, CONTEXTS = ("matches", N, N), ("$S$", D, D), ("contexts", N, D)


def matches_first() -> Figure:
    """(phi(Q) phi(K)^T) V: every query meets every key, and n x n numbers lie in the middle."""
    return _drawing("Matches first", LARGE, MAP, (QUERIES, KEYS, MAP), (MAP, VALUES, CONTEXTS), [
        "every query meets every key: $n$ times $n$ matches",
        "each row of them weighs the values",
    ])


def sums_first() -> Figure:
    """phi(Q) (phi(K)^T V): keys meet values once, and d x d numbers lie in the middle."""
    return _drawing("Sums first", SMALL, STATE, (KEYS, VALUES, STATE), (QUERIES, STATE, CONTEXTS), [
        "keys meet values, once for all: $d$ times $d$ sums",
        "every query reads the same sums",
    ])


def _drawing(title: str, colour: str, between: Matrix, first, second, steps: list[str]) -> Figure:
    with figure_style():
        figure, axes = page((4.7, 4.7), (0, 8.8), (0.6, 9.4))
        heading(axes, 9.1, title, colour=text_colour(colour))
        for number, (y, product) in enumerate(((FIRST, first), (SECOND, second)), start=1):
            badge(axes, number, 0.37, y)
            left = START
            for matrix, sign in zip(product, ("×", "=", ""), strict=True):
                _matrix(axes, left + matrix[2] / 2, y, matrix, edge=colour if matrix is between else INK)
                left += matrix[2] + GAP
                axes.text(left - GAP / 2, y, sign, ha="center", va="center", fontsize=14)
        numbered(axes, steps, top=2.5, gap=0.7)
        axes.plot([0.1, 8.7], [2.35, 2.35], color=GREY, linestyle="-", linewidth=0.6)
    return figure


def _matrix(axes: Axes, x: float, y: float, matrix: Matrix, *, edge: str) -> None:
    """To scale, with its name below."""
    name, height, width = matrix
    corner = (x - width / 2, y - height / 2)
    axes.add_patch(Rectangle(corner, width, height, facecolor="white" if edge == INK else edge + "33",
                             edgecolor=edge, linewidth=1.0 if edge == INK else 2.0))
    axes.text(x, y - height / 2 - 0.27, name, ha="center", va="center", fontsize=10.5)
