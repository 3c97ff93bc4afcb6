"""Bahdanau beside Luong: one decoding step of each, on the same plan, so that the eye finds what moved.

Both pictures write the third word, "noir". The source stands at the left, the decoder at the right; what
joins the context to the decoder stands at the top in both. The numbers give the order of computation.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attncourse.viewer.drawings.pieces import GREY, arrow, badge, heading, labelled, numbered, page, weight
from attncourse.viewer.style import INK, MECHANISMS, figure_style, text_colour

FEED = MECHANISMS["fixed context"].colour  # the one dashed way, in a colour of its own
SOURCE = ["the", "black", "cat"]
COLUMNS = [1.45, 2.75, 4.05]               # where the source words stand
BEFORE, NOW = 5.75, 7.45                   # the decoder's columns: the last step, and this one
SHADES = [0.04, 0.85, 0.3]                 # how dark each weight is drawn; a sketch, not a measurement
WORDS, LOW, TOP, LINE, SCORES, WEIGHT, JOIN, OUT = 4.25, 5.15, 6.5, 7.12, 7.7, 8.75, 9.95, 11.15  # heights


def bahdanau_step() -> Figure:
    """RNNsearch (Bahdanau et al. 2015): the state of the last step asks, and the new state is made last.

    For one word: 1 scores of the old state with every annotation, 2 weights, 3 context, 4 new state, 5 word.
    """
    colour = MECHANISMS["additive attention"].colour
    with figure_style():
        figure, axes = _page("Bahdanau et al. 2015", "the old state asks", colour)
        forward, backward = LOW - 0.1, LOW + 0.5
        for left, right in zip(COLUMNS, COLUMNS[1:], strict=False):
            arrow(axes, (left + 0.19, forward), (right - 0.49, forward))
            arrow(axes, (right - 0.19, backward), (left + 0.49, backward))
        for x in COLUMNS:
            for side, y in ((-0.15, forward), (0.15, backward)):
                labelled(axes, x + side, y, 0.64, 0.38)
                arrow(axes, (x + 2 * side, WORDS + 0.25), (x + 2 * side, y - 0.2))
                arrow(axes, (x + 2 * side, y + 0.2), (x + 2 * side, TOP - 0.3))
        _attend(axes, colour, "h", "i=3", asked_from=BEFORE)
        labelled(axes, BEFORE, TOP, 0.95, 0.58, "$s_2$", edge=colour)
        labelled(axes, NOW, JOIN, 0.95, 0.58, "$s_3$", edge=INK)
        arrow(axes, (BEFORE + 0.3, TOP + 0.31), (NOW - 0.25, JOIN - 0.3))
        arrow(axes, (NOW + 0.15, WORDS + 0.25), (NOW + 0.15, JOIN - 0.3))
        arrow(axes, (NOW, JOIN + 0.31), (NOW, OUT - 0.27))
        badge(axes, 4, NOW + 0.78, JOIN)
        badge(axes, 5, NOW + 0.78, OUT)
        _order(axes, "a reader each way, joined in $h_j$", [
            "score: the old state $s_2$ with every $h_j$",
            "softmax: the weights",
            "context $c_3$: weighted sum of the $h_j$",
            "new state $s_3$: a GRU of $s_2$, $y_2$ and $c_3$",
            "word: maxout layer of $s_3$, $y_2$ and $c_3$, softmax",
        ])
    return figure


def luong_step() -> Figure:
    """Global attention (Luong et al. 2015): the new state asks, an attentional state joins the answer to it.

    For one word: 1 new state, 2 scores of it with every top state of the source, 3 weights, 4 context,
    5 attentional state, 6 word. Input feeding is dashed.
    """
    colour = MECHANISMS["global"].colour
    with figure_style():
        figure, axes = _page("Luong et al. 2015", "the new state asks", colour)
        places = [*COLUMNS, BEFORE, NOW]
        for x in places:                                          # two layers, and one direction only
            labelled(axes, x, LOW, 0.95, 0.46)
            arrow(axes, (x, WORDS + 0.25), (x, LOW - 0.25))
            arrow(axes, (x, LOW + 0.25), (x, TOP - 0.31))
        for left, right in zip(places, places[1:], strict=False):
            for y, wide in ((LOW, 0.49), (TOP, 0.49)):
                arrow(axes, (left + wide, y), (right - wide, y))
        _attend(axes, colour, r"\bar{h}", "t=3", asked_from=NOW)
        _word(axes, BEFORE, WORDS, "le")
        labelled(axes, BEFORE, TOP, 0.95, 0.58, "$h_2$")
        labelled(axes, NOW, TOP, 0.95, 0.58, "$h_3$", edge=colour)
        labelled(axes, BEFORE, 8.35, 0.95, 0.62, r"$\tilde{h}_2$")
        labelled(axes, NOW, JOIN, 0.95, 0.66, r"$\tilde{h}_3$")
        arrow(axes, (BEFORE, TOP + 0.31), (BEFORE, 8.02))
        arrow(axes, (NOW + 0.15, TOP + 0.31), (NOW + 0.15, JOIN - 0.35))
        arrow(axes, (NOW, JOIN + 0.35), (NOW, OUT - 0.27))
        corner = (BEFORE + NOW) / 2
        axes.plot([BEFORE + 0.5, corner, corner], [8.35, 8.35, 4.75], color=FEED, linewidth=1.7,
                  linestyle=(0, (4, 2.5)), zorder=1)
        arrow(axes, (corner, 4.75), (NOW - 0.32, LOW - 0.25), colour=FEED, wide=1.7)
        badge(axes, 1, NOW + 0.78, TOP)
        badge(axes, 5, NOW + 0.78, JOIN)
        badge(axes, 6, NOW + 0.78, OUT)
        _order(axes, r"two layers, one way; their top is $\bar{h}_s$", [
            r"new state $h_3$: a stacked LSTM reads $y_2$",
            r"score: the new state $h_3$ with every $\bar{h}_s$",
            "softmax: the weights",
            r"context $c_3$: weighted sum of the $\bar{h}_s$",
            r"attentional state $\tilde{h}_3 = \tanh(W_c[c_3; h_3])$",
            r"word: softmax of $W_s\tilde{h}_3$",
        ])
        y = -0.9
        axes.plot([0.12, 0.62], [y, y], color=FEED, linewidth=1.7, linestyle=(0, (4, 2.5)))
        axes.text(0.82, y, r"input feeding, if wanted: read $[y_2; \tilde{h}_2]$", va="center", fontsize=10.5)
    return figure


def _page(title: str, message: str, colour: str) -> tuple[Figure, Axes]:
    """An empty panel with its heading, a bed for the encoder, and the source words."""
    figure, axes = page((4.7, 7.5), (0, 8.6), (-1.2, 12.6))
    heading(axes, 12.25, title, message, colour=text_colour(colour))
    axes.axhspan(3.95, 6.95, xmin=0.08, xmax=0.565, color="#000000", alpha=0.045, linewidth=0)
    for x, text in zip(COLUMNS, SOURCE, strict=True):
        _word(axes, x, WORDS, text)
    _word(axes, NOW, WORDS, "chat", "$y_2$ =")
    _word(axes, NOW, OUT, "noir", "$y_3$ =")
    return figure, axes


def _attend(axes: Axes, colour: str, name: str, step: str, *, asked_from: float) -> None:
    """What both share: the top states of the source, their scores with the query, weights, context."""
    index, number = step.split("=")
    first = 1 if index == "i" else 2
    middle = COLUMNS[1]
    axes.plot([asked_from - 0.2, asked_from - 0.2, COLUMNS[0] - 0.2], [TOP + 0.29, LINE, LINE], color=colour,
              linewidth=2.0, zorder=1)
    for j, (x, shade) in enumerate(zip(COLUMNS, SHADES, strict=True), start=1):
        labelled(axes, x, TOP, 0.95, 0.58, f"${name}_{j}$", edge=colour)
        arrow(axes, (x + 0.14, TOP + 0.31), (x + 0.14, SCORES - 0.28))
        arrow(axes, (x - 0.2, LINE), (x - 0.2, SCORES - 0.28), colour=colour, wide=2.0)
        labelled(axes, x, SCORES, 1.0, 0.52, "score", size=9.5)
        arrow(axes, (x, SCORES + 0.27), (x, WEIGHT - 0.37))
        symbol = r"\alpha" if index == "i" else "a"
        weight(axes, x, WEIGHT, shade, f"${symbol}_{{{number}{j}}}$", radius=0.36)
        arrow(axes, (x, WEIGHT + 0.38), (middle + 0.16 * (x - middle), JOIN - 0.28), wide=0.6 + 4 * shade)
    labelled(axes, middle, JOIN, 0.95, 0.54, f"$c_{number}$", edge=colour)
    arrow(axes, (middle + 0.5, JOIN), (NOW - 0.5, JOIN), colour=colour, wide=2.0)
    for offset, y in enumerate((SCORES, WEIGHT, JOIN)):
        badge(axes, first + offset, 0.45 if y < JOIN else middle - 0.85, y)


def _word(axes: Axes, x: float, y: float, text: str, name: str = "") -> None:
    axes.text(x, y, text, ha="center", va="center", fontweight="bold", fontsize=11)
    if name:
        axes.text(x - 0.55, y, name, ha="right", va="center", fontsize=11)



def _order(axes: Axes, encoder: str, steps: Sequence[str]) -> None:
    """What the encoder does once per source; then the steps in words, numbered as in the drawing."""
    axes.text(0.12, 3.4, f"once per source: {encoder}", va="center", fontsize=10.5, color=GREY)
    numbered(axes, steps, top=3.3, gap=0.6)
