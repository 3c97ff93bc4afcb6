"""Multi-head attention in two pictures: what one head does, and how several stand side by side.

Both rise from the words to the result; the numbers give the order of computation. The small maps hold one
row for each query and one column for each key, dark where the head reads; they are sketches.
"""

from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from attncourse.viewer.drawings.pieces import GREY, arrow, badge, heading, labelled, numbered, page
from attncourse.viewer.style import MECHANISMS, WEIGHTS, figure_style

_box = partial(labelled, size=14)
BLUE = MECHANISMS["additive attention"].colour
QUERY, KEY, VALUE = 1.75, 4.15, 6.55              # the columns of one head
HEADS = [1.55, 3.75, 6.85]                        # of several heads; the dots stand before the last
WORDS, PROJECT, MATRIX, SCORE, MAP, CONTEXT, OUT = 3.75, 4.95, 6.25, 7.75, 9.35, 11.2, 12.4  # heights
LOOKS_AT = [0.85, 0.08, 0.07]                     # how dark a row is drawn: what it reads, then the others


def one_head() -> Figure:
    """Scaled dot-product attention of one head (Vaswani et al. 2017, equation 1).

    From below: 1 the projections Q, K and V, 2 the scores, 3 the weights, 4 the context.
    """
    with figure_style():
        figure, axes = _page("One head", "asks, matches, reads")
        middle = (QUERY + KEY) / 2
        axes.text(QUERY, WORDS, "words that ask", ha="center", va="center", fontsize=11)
        axes.text((KEY + VALUE) / 2, WORDS, "words that are read", ha="center", va="center", fontsize=11)
        for x, letter in ((QUERY, "Q"), (KEY, "K"), (VALUE, "V")):
            _box(axes, x, PROJECT, 1.15, 0.62, f"$W_{letter}$")
            _box(axes, x, MATRIX, 1.15, 0.7, f"${letter}$", edge=BLUE)
            arrow(axes, (x, PROJECT + 0.32), (x, MATRIX - 0.36))
        arrow(axes, (QUERY, WORDS + 0.27), (QUERY, PROJECT - 0.32))
        for x in (KEY, VALUE):
            arrow(axes, ((KEY + VALUE) / 2 + 0.25 * (x - KEY - 1.2), WORDS + 0.27), (x, PROJECT - 0.32))
        _box(axes, middle, SCORE, 3.3, 0.76, r"$Q K^{\top} /\, \sqrt{d_k}$")
        arrow(axes, (QUERY, MATRIX + 0.36), (QUERY + 0.5, SCORE - 0.39))
        arrow(axes, (KEY, MATRIX + 0.36), (KEY - 0.5, SCORE - 0.39))
        arrow(axes, (middle, SCORE + 0.39), (middle, MAP - 0.73))
        _map(axes, middle, MAP, [0, 2, 1], side=1.44)
        axes.text(middle - 1.0, MAP, "$A$", ha="right", va="center", fontsize=13)
        _box(axes, VALUE - 0.6, CONTEXT, 1.7, 0.72, "$A\\,V$", edge=BLUE)
        arrow(axes, (middle + 0.74, MAP + 0.3), (VALUE - 1.2, CONTEXT - 0.37))
        arrow(axes, (VALUE, MATRIX + 0.36), (VALUE - 0.3, CONTEXT - 0.37))
        arrow(axes, (VALUE - 0.6, CONTEXT + 0.37), (VALUE - 0.6, OUT - 0.27))
        axes.text(VALUE - 0.6, OUT, "context of each query", ha="center", va="center", fontsize=11)
        for number, y in enumerate((MATRIX, SCORE, MAP), start=1):
            badge(axes, number, 0.45, y)
        badge(axes, 4, 4.3, CONTEXT)
        _order(axes, [
            "project: $Q = XW_Q$, and so for $K$ and $V$",
            r"score: every query with every key, over $\sqrt{d_k}$",
            "hide what is masked, softmax: the weights $A$",
            "context: for each query a weighted sum of $V$",
        ], r"$Q$, $K$: words $\times\, d_k$;  $V$: words $\times\, d_v$;  $A$: queries $\times$ keys")
    return figure


def several_heads() -> Figure:
    """Multi-head attention (Vaswani et al. 2017, section 3.2.2): h heads side by side, joined and projected.

    From below: 1 the heads, each with projections of its own, 2 their contexts joined, 3 the projection W_O.
    """
    with figure_style():
        figure, axes = _page("Several heads", "read side by side")
        left, right = HEADS[0] - 0.75, HEADS[-1] + 0.75
        middle, join, project = (left + right) / 2, 9.9, 11.2
        axes.text(middle, WORDS, "the same words for every head", ha="center", va="center", fontsize=11)
        looks = [[0, 0, 1], [0, 1, 2], [2, 2, 2]]
        for x, name, rows in zip(HEADS, ("1", "2", "h"), looks, strict=True):
            start = middle + 0.3 * (x - middle)
            arrow(axes, (start, WORDS + 0.27), (x, PROJECT - 0.32))
            _box(axes, x, PROJECT, 1.5, 0.62, f"$Q_{name}\\,K_{name}\\,V_{name}$", size=11)
            arrow(axes, (x, PROJECT + 0.32), (x, 6.0))
            _map(axes, x, 6.75, rows, side=1.44)
            arrow(axes, (x, 7.49), (x, 7.95))
            _box(axes, x, 8.3, 1.5, 0.62, f"head$_{name}$", edge=BLUE, size=12)
            arrow(axes, (x, 8.62), (x, join - 0.36))
        for y in (PROJECT, 6.75, 8.3):
            axes.text((HEADS[1] + HEADS[2]) / 2, y, "…", ha="center", va="center", fontsize=15)
        axes.text((HEADS[1] + HEADS[2]) / 2, join, "…", ha="center", va="center", fontsize=13, zorder=4)
        _box(axes, middle, join, right - left, 0.7, edge=BLUE)
        for x, name in zip(HEADS, ("1", "2", "h"), strict=True):
            axes.text(x, join, f"head$_{name}$", ha="center", va="center", fontsize=11, zorder=4)
        for x in ((HEADS[0] + HEADS[1]) / 2, HEADS[1] + 0.9, HEADS[2] - 0.8):
            axes.plot([x, x], [join - 0.35, join + 0.35], color=BLUE, linestyle="-", linewidth=1.2, zorder=3)
        arrow(axes, (middle, join + 0.36), (middle, project - 0.32))
        _box(axes, middle, project, 1.5, 0.62, "$W_O$")
        arrow(axes, (middle, project + 0.32), (middle, OUT - 0.27))
        axes.text(middle, OUT, "output for each query", ha="center", va="center", fontsize=11)
        badge(axes, 1, 0.32, 8.3)
        badge(axes, 2, 0.32, join)
        badge(axes, 3, middle - 1.25, project)
        _order(axes, [
            r"each head: its own $Q$, $K$, $V$, and its own weights",
            r"join the $h$ contexts: $h \cdot d/h = d$ numbers again",
            "$W_O$ mixes what the heads have found",
        ], "all together cost what one head of width $d$ would")
    return figure


def _page(title: str, message: str) -> tuple[Figure, Axes]:
    figure, axes = page((4.7, 7.4), (0, 8.6), (-0.1, 13.45))
    heading(axes, 13.2, title, message)
    return figure, axes


def _map(axes: Axes, x: float, y: float, rows: Sequence[int], *, side: float) -> None:
    """A small map of weights around (x, y): `rows` names the key that each query reads most."""
    cell = side / len(rows)
    for i, reads in enumerate(rows):
        others = [j for j in range(len(rows)) if j != reads]
        for j, weight in zip([reads, *others], LOOKS_AT, strict=True):
            corner = (x - side / 2 + j * cell, y + side / 2 - (i + 1) * cell)
            axes.add_patch(Rectangle(corner, cell, cell, facecolor=to_hex(WEIGHTS(weight)), edgecolor=GREY,
                                     linewidth=0.8, zorder=2))


def _order(axes: Axes, steps: Sequence[str], shapes: str) -> None:
    """The steps in words, numbered as in the drawing; below them, what there is to know of the sizes."""
    numbered(axes, steps, top=3.35, gap=0.64)
    axes.text(0.12, 3.35 - 0.64 * (len(steps) + 1), shapes, va="center", fontsize=10.5, color=GREY)
