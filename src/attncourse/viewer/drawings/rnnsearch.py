"""One decoding step of RNNsearch as a picture: what is computed from what, and in which order."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attncourse.viewer.drawings.pieces import GREY, HALO, arrow, badge, box, page, weight
from attncourse.viewer.style import MECHANISMS, figure_style

BLUE = MECHANISMS["additive attention"].colour
SOURCE = ["the", "black", "cat", "sleeps"]
COLUMNS = [2.0, 3.6, 5.2, 6.8]            # where the source words stand
SHADES = [0.03, 0.85, 0.25, 0.03]         # how dark each weight is drawn; a sketch, not a measurement
LEFT, MIDDLE = 0.55, 4.4                  # the column of s_{i-1}; the column of the context and of s_i


def rnnsearch_step() -> Figure:
    """The step in which "noir" is written, its five parts numbered in the order they are computed.

    From below: the bidirectional encoder and its annotations, computed once; then, for this one word, 1 the
    scores of the previous state with every annotation, 2 weights, 3 context, 4 new state, 5 word.
    """
    with figure_style():
        figure, axes = page((6.1, 6.6), (0, 9.45), (0, 10.2))
        _encoder(axes)
        _scores_and_weights(axes)
        _decoder(axes)
    return figure


def _encoder(axes: Axes) -> None:
    """Words, a state of each direction, and the annotations that join them."""
    axes.axhspan(0.1, 4.15, color="#000000", alpha=0.04, linewidth=0)
    axes.text(9.25, 0.25, "computed once per source", ha="right", va="bottom", color=GREY, fontsize=9.5,
              style="italic")
    for number, (x, word) in enumerate(zip(COLUMNS, SOURCE, strict=True), start=1):
        axes.text(x, 0.85, word, ha="center", va="center", fontweight="bold")
        # The two directions stand apart, so that each has a free way from the word and to the annotation.
        for side, y in [(-0.15, 1.75), (0.15, 2.6)]:
            box(axes, x + side, y, 0.64, 0.5)
            arrow(axes, (x + 2 * side, 1.12), (x + 2 * side, y - 0.27))
            arrow(axes, (x + 2 * side, y + 0.27), (x + 2 * side, 3.27))
        box(axes, x, 3.6, 1.1, 0.62, edge=BLUE, wide=1.8)
        axes.text(x, 3.6, f"$h_{number}$", ha="center", va="center", fontsize=13)
    for x, following in zip(COLUMNS, COLUMNS[1:], strict=False):
        arrow(axes, (x + 0.19, 1.75), (following - 0.49, 1.75))
        arrow(axes, (following - 0.19, 2.6), (x + 0.49, 2.6))
    for y, name in [(1.75, "forward"), (2.6, "backward"), (3.6, "annotations")]:
        axes.text(7.6, y, name, va="center", fontsize=10)


def _scores_and_weights(axes: Axes) -> None:
    """The previous state asks, every annotation answers with a score, the softmax makes weights of them."""
    y, line = 5.25, 4.52
    axes.plot([LEFT, LEFT, COLUMNS[-1] - 0.2], [8.09, line, line], color=BLUE, linewidth=1.8, zorder=1)
    for number, (x, shade) in enumerate(zip(COLUMNS, SHADES, strict=True), start=1):
        arrow(axes, (x + 0.12, 3.93), (x + 0.12, y - 0.32))
        arrow(axes, (x - 0.2, line), (x - 0.2, y - 0.32), colour=BLUE, wide=1.8)
        box(axes, x, y, 0.74, 0.6)
        axes.text(x, y, f"$e_{{3{number}}}$", ha="center", va="center", fontsize=12)
        arrow(axes, (x, y + 0.32), (x, 6.05))
        weight(axes, x, 6.4, shade, rf"$\alpha_{{3{number}}}$", radius=0.33)
        arrow(axes, (x, 6.75), (MIDDLE + 0.16 * (x - MIDDLE), 7.22), wide=0.6 + 4 * shade)
    _numbered(axes, 1, 7.6, y, "score $s_2$\nwith all $h_j$")
    _numbered(axes, 2, 7.6, 6.4, "softmax:\nweights")


def _decoder(axes: Axes) -> None:
    """Context, previous state and previous word make the new state; the new state makes the word."""
    box(axes, MIDDLE, 7.5, 0.95, 0.54, edge=BLUE, wide=1.8)
    axes.text(MIDDLE, 7.5, "$c_3$", ha="center", va="center", fontsize=13)
    _numbered(axes, 3, 5.25, 7.5, "context: weighted sum of all $h_j$")
    for x, name in [(LEFT, "$s_2$"), (MIDDLE, "$s_3$")]:
        box(axes, x, 8.4, 0.95, 0.62)
        axes.text(x, 8.4, name, ha="center", va="center", fontsize=13)
    arrow(axes, (LEFT + 0.5, 8.4), (MIDDLE - 0.5, 8.4))
    arrow(axes, (MIDDLE, 7.8), (MIDDLE, 8.06))
    axes.text(2.5, 9.72, "chat", ha="center", va="center", fontweight="bold")
    axes.text(2.05, 9.72, "$y_2$ =", ha="right", va="center")
    arrow(axes, (2.75, 9.45), (MIDDLE - 0.42, 8.74))
    _numbered(axes, 4, 5.25, 8.4, "new state")
    arrow(axes, (MIDDLE, 8.74), (MIDDLE, 9.4))
    axes.text(MIDDLE, 9.72, "noir", ha="center", va="center", fontweight="bold")
    axes.text(MIDDLE - 0.5, 9.72, "$y_3$ =", ha="right", va="center")
    _numbered(axes, 5, 5.25, 9.72, "word, from $s_3$, $y_2$ and $c_3$")


def _numbered(axes: Axes, number: int, x: float, y: float, words: str) -> None:
    """What is computed here, with its place in the order."""
    badge(axes, number, x, y, radius=0.26)
    axes.text(x + 0.4, y, words, va="center", fontsize=10, path_effects=HALO)
