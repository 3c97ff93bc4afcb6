"""Small multiples on one sheet: panels of one size, each with room for its caption, below one title."""

import textwrap
from collections.abc import Callable, Sequence

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# In inches: around the sheet and between panels, a caption above a panel, a line of the title, the legend.
GAP, CAPTION, LINE, LEGEND = 0.1, 0.24, 0.22, 0.34


def sheet(
    count: int, across: int, side: float, tall: float, *, title: str, legend: Sequence[Artist]
) -> tuple[Figure, Callable[[int], Axes]]:
    """A figure for so many panels, and number -> new axes.

    Args:
        count: panels, numbered by row.
        across: the most of them in a row.
        side: width of a panel in inches.
        tall: its height over its width.
        title: a sentence, at the upper left; it is broken where it is too long.
        legend: handles, whose labels stand below the panels.
    """
    columns = min(across, count)
    rows = -(-count // columns)
    width = max(4.4, columns * (side + GAP) + GAP)
    lines = textwrap.wrap(title, int(width * 8.5))  # bold: 8.5 letters an inch
    head = 0.12 + LINE * len(lines)
    height = head + rows * (CAPTION + side * tall + GAP) + LEGEND
    figure = Figure(figsize=(width, height), layout="none")
    figure.text(GAP / width, 1 - 0.08 / height, "\n".join(lines), va="top", fontsize=13, fontweight="bold",
                parse_math=False)
    figure.legend(handles=legend, loc="lower left", ncols=len(legend), borderaxespad=0.2)

    def panel(number: int) -> Axes:
        row, column = divmod(number, columns)
        bottom = height - head - (row + 1) * (CAPTION + side * tall) - row * GAP
        left = GAP + column * (side + GAP)
        return figure.add_axes((left / width, bottom / height, side / width, side * tall / height))

    return figure, panel
