"""The picture of chapter 01: everything the decoder learns of the source passes through one vector."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from attncourse.viewer.drawings.pieces import page
from attncourse.viewer.style import INK, MECHANISMS, figure_style, text_colour

SOURCE = ("the", "red", "cat", "sleeps")
TARGET = ("le", "chat", "rouge", "dort", "END")
GREY = "#767676"


def encoder_decoder() -> Figure:
    """Encoder states at the bottom, decoder states at the top, the one context c between them.

    Solid arrows in the decoder carry its state; dashed ones, the word written last.
    """
    look = MECHANISMS["fixed context"]
    with figure_style():
        figure, axes = page((7.2, 4.8), (-2.0, 8.75), (-1.2, 5.7))
        read = [(1.0 + 2 * j, 0.0) for j in range(len(SOURCE))]
        written = [(2.0 * i, 4.2) for i in range(len(TARGET))]
        middle = (4.0, 2.1)
        for j, (place, word) in enumerate(zip(read, SOURCE, strict=True), start=1):
            _box(axes, place, f"$h_{j}$")
            axes.text(place[0], -0.95, word, ha="center", va="center")
            _arrow(axes, (place[0], -0.75), (place[0], -0.36))
        for i, (place, word) in enumerate(zip(written, TARGET, strict=True), start=1):
            _box(axes, place, f"$s_{i}$")
            axes.text(place[0], 5.35, word, ha="center", va="center", fontweight="bold")
            _arrow(axes, (place[0], 4.56), (place[0], 5.1))
            _arrow(axes, (middle[0] + 0.14 * (place[0] - middle[0]), 2.5), (place[0], 3.82), look.colour)
        for row in (read, written):
            for left, right in zip(row[:-1], row[1:], strict=True):
                _arrow(axes, (left[0] + 0.5, left[1]), (right[0] - 0.5, right[1]))
        # What was written is read at the next step; the first step reads START.
        axes.text(-2.0, 5.35, "START", ha="left", va="center", color=GREY)
        for x, _ in written:
            _arrow(axes, (x - 1.7 + 0.3 * (x > 0), 5.2 - 0.1 * (x == 0)), (x - 0.42, 4.56), GREY, dashed=True)
        _arrow(axes, (read[-1][0] - 0.3, 0.36), (middle[0] + 0.75, 1.75), look.colour)
        _box(axes, middle, "$c$", look.colour, width=1.5, height=0.78)

        for y, name in [(0.0, "encoder:\nreads"), (4.2, "decoder:\nwrites")]:
            axes.text(-1.95, y, name, color=GREY, va="center")
        note = "one vector,\nthe same for\nevery word"
        axes.text(4.95, 2.1, note, color=text_colour(look.colour), va="center", fontweight="bold")
    return figure


def _box(axes: Axes, centre: tuple, label: str, colour: str | None = None, width=0.9, height=0.62) -> None:
    corner = (centre[0] - width / 2, centre[1] - height / 2)
    axes.add_patch(FancyBboxPatch(
        corner, width, height, boxstyle="round,pad=0,rounding_size=0.12", facecolor=colour or "white",
        edgecolor=colour or INK, linewidth=1.4, zorder=2,
    ))
    ink = "white" if colour else INK
    axes.text(*centre, label, ha="center", va="center", fontsize=14, color=ink, zorder=3)


def _arrow(axes: Axes, start: tuple, end: tuple, colour: str = INK, dashed: bool = False) -> None:
    axes.add_patch(FancyArrowPatch(
        start, end, arrowstyle="-|>", mutation_scale=11, shrinkA=0, shrinkB=0, color=colour, linewidth=1.3,
        linestyle=(0, (4, 3)) if dashed else "-", zorder=1,
    ))
