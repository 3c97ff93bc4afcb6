"""One decoding step of Show, Attend and Tell, and the two ways to read: all cells blended, or one of them."""

from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attncourse.viewer.drawings.pieces import GREY, HALO, arrow, badge, box, page
from attncourse.viewer.style import INK, MECHANISMS, WEIGHTS, figure_style

SOFT, HARD = MECHANISMS["additive attention"].colour, MECHANISMS["hard"].colour
# A sketch, not a measurement: where ink lies in a picture of 4 by 4 cells, and how the weights fall.
INKED = {(0, 0): 0.75, (0, 1): 0.9, (1, 0): 0.6, (2, 2): 0.7, (2, 3): 0.9, (3, 2): 0.95, (3, 3): 0.6}
ALPHA = {(2, 2): 0.20, (2, 3): 0.15, (3, 2): 0.55, (3, 3): 0.10}
READ = (3, 2)
ELSEWHERE = 0.0


def show_attend_tell_step() -> Figure:
    """The step in which "two" is written, its parts numbered in the order they are computed.

    From the left: the image and the annotations of its cells, computed once; then, for this one word,
    1 scores and weights from the previous state, 2 what is read (all, blended, or one), 3 gate, 4 LSTM,
    5 word.
    """
    with figure_style():
        figure, axes = page((7.2, 5.0), (0, 14.4), (0, 10))
        _encoder(axes)
        _reading(axes)
        _decoder(axes)
    return figure


def _encoder(axes: Axes) -> None:
    """The image, the frozen CNN and a vector for each cell."""
    axes.axhspan(0.1, 4.1, color="#000000", alpha=0.04, linewidth=0)
    axes.text(14.2, 0.25, "computed once per image", ha="right", va="bottom", color=GREY, fontsize=9.5,
              style="italic")
    _grid(axes, 0.6, 0.9, 0.7, lambda cell: to_hex((1 - INKED.get(cell, 0.0),) * 3))
    axes.text(2.0, 0.42, "image", ha="center", va="center", fontsize=10)
    box(axes, 5.1, 2.3, 1.7, 1.1)
    axes.text(5.1, 2.3, "CNN\n(frozen)", ha="center", va="center", fontsize=10)
    arrow(axes, (3.55, 2.3), (4.2, 2.3))
    arrow(axes, (6.0, 2.3), (6.75, 2.3))
    _grid(axes, 6.9, 0.9, 0.7, lambda cell: "#e4eef6", edge=SOFT)
    axes.text(8.3, 0.42, "annotations $a_1 \\dots a_L$", ha="center", va="center", fontsize=10)
    axes.text(10.2, 2.3, "one vector for each cell,\nall of them kept", va="center", fontsize=10)


def _reading(axes: Axes) -> None:
    """The previous state asks, a weight for each cell, and what is read with them."""
    arrow(axes, (8.3, 3.75), (8.3, 4.62))
    _grid(axes, 7.3, 4.7, 0.5, lambda cell: to_hex(WEIGHTS(ALPHA.get(cell, ELSEWHERE))))
    axes.text(8.3, 6.98, "$\\alpha_t$", ha="center", va="center", fontsize=12)
    _numbered(axes, 1, 9.75, 5.7, "score $h_{t-1}$ with every $a_i$;\nsoftmax: weights $\\alpha_t$")
    axes.plot([1.6, 1.6, 7.1], [8.2, 5.7, 5.7], color=SOFT, linewidth=1.8, zorder=1)
    arrow(axes, (6.9, 5.7), (7.25, 5.7), colour=SOFT, wide=1.8)
    arrow(axes, (7.2, 6.75), (6.35, 7.55), wide=2.2)
    _numbered(axes, 2, 9.75, 7.15, "read: a blend of all (soft),\nor one of them (hard)")


def _decoder(axes: Axes) -> None:
    """Context, previous state and previous word make the new state; the three together make the word."""
    box(axes, 5.8, 7.85, 0.95, 0.62, edge=SOFT, wide=1.8)
    axes.text(5.8, 7.85, "$\\hat{z}_t$", ha="center", va="center", fontsize=13)
    _numbered(axes, 3, 9.75, 8.25, "gate: $\\beta_t$ times what was read")
    for x, name in [(1.6, "$h_{t-1}$"), (3.9, "$h_t$")]:
        box(axes, x, 8.55, 1.05, 0.66)
        axes.text(x, 8.55, name, ha="center", va="center", fontsize=12)
    arrow(axes, (2.15, 8.55), (3.35, 8.55))
    arrow(axes, (5.3, 8.0), (4.47, 8.38))
    axes.text(2.45, 9.6, "$y_{t-1}$ = a", ha="center", va="center")
    arrow(axes, (2.85, 9.32), (3.5, 8.92))
    _numbered(axes, 4, 9.75, 8.95, "LSTM: new state $h_t$")
    arrow(axes, (4.25, 8.92), (4.85, 9.36))
    axes.text(5.75, 9.6, "$y_t$ = $\\bf{two}$", ha="center", va="center")
    _numbered(axes, 5, 9.75, 9.62, "word, from $y_{t-1}$, $h_t$ and $\\hat{z}_t$")


def soft_beside_hard() -> Figure:
    """The same weights, read in two ways: every cell in proportion, or one cell drawn with them as odds."""
    with figure_style():
        figure, axes = page((7.0, 3.0), (0, 14), (0.1, 6.1))
        _grid(axes, 0.4, 1.6, 0.75, lambda cell: to_hex(WEIGHTS(ALPHA.get(cell, ELSEWHERE))), numbers=ALPHA)
        axes.text(1.9, 5.0, "the weights $\\alpha_t$", ha="center", va="center", fontsize=11)
        for y, colour, name, what, formula in [
            (4.45, SOFT, "soft",
             "a little of every cell: a vector that\nstands in no cell, the same each time",
             "$\\hat{z}_t = \\sum_i \\alpha_{t,i}\\, a_i$"),
            (1.35, HARD, "hard",
             "one cell, drawn with $\\alpha_t$ as the odds:\nanother draw, perhaps another cell",
             "$s_t \\sim \\mathrm{Multinoulli}(\\alpha_t)$,  $\\hat{z}_t = a_{s_t}$"),
        ]:
            arrow(axes, (3.6, 3.1 + (0.35 if y > 3 else -0.35)), (4.75, y), colour=colour, wide=2.2)
            shade = (lambda cell: to_hex(WEIGHTS(ALPHA.get(cell, ELSEWHERE)))) if name == "soft" else (
                lambda cell: to_hex(WEIGHTS(1.0 if cell == READ else 0.0)))
            _grid(axes, 5.0, y - 1.1, 0.55, shade, edge=colour)
            axes.text(7.75, y + 0.75, name, va="center", fontsize=12, fontweight="bold")
            axes.text(8.75, y + 0.75, formula, va="center", fontsize=11)
            axes.text(7.75, y - 0.25, what, va="center", fontsize=10)
    return figure


def _grid(axes: Axes, left: float, bottom: float, side: float, shade, *, edge: str = GREY, numbers=None):
    """4 by 4 cells, (row, column) from the upper left, each in its shade."""
    for row in range(4):
        for column in range(4):
            x, y = left + column * side, bottom + (3 - row) * side
            axes.add_patch(Rectangle((x, y), side, side, facecolor=shade((row, column)), edgecolor=edge,
                                     linewidth=0.8))
            if numbers and (row, column) in numbers:
                weight = numbers[row, column]
                axes.text(x + side / 2, y + side / 2, f"{weight:.2f}", ha="center", va="center", fontsize=8,
                          color="white" if weight > 0.45 else INK)


def _numbered(axes: Axes, number: int, x: float, y: float, words: str) -> None:
    """What is computed here, with its place in the order."""
    badge(axes, number, x, y)
    axes.text(x + 0.42, y, words, va="center", fontsize=9.5, path_effects=HALO)
