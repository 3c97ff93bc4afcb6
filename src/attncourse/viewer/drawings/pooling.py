"""One learned query over a sentence, beside self-attention, where every word asks: on the same plan.

Both pictures stand on the same five words. At the left one query, the same for every text, is answered once;
at the right every word is a query, and the reading of one of them, "it", is drawn in full.
"""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attncourse.viewer.drawings.pieces import (
    GREY,
    arrow,
    badge,
    box,
    heading,
    labelled,
    numbered,
    page,
    weight,
)
from attncourse.viewer.style import INK, MECHANISMS, figure_style, text_colour

WORDS = ["a", "film", "but", "it", "drags"]
# Chosen for the picture: what decides a review is "drags"; what "it" must find is "film".
POOLING_SCORES = [0.0, 1.0, 0.0, 0.0, 3.0]
ASKING, SELF_SCORES = 3, [0.0, 3.0, 0.0, 1.0, 1.0]
COLUMNS = [2.3, 3.7, 5.1, 6.5, 7.9]                       # where the words stand
WORD, STATE, LINE, SCORE, WEIGHT, OUT = 2.9, 3.9, 4.65, 5.3, 6.45, 8.2  # heights
READ, LEARNED = MECHANISMS["additive attention"].colour, MECHANISMS["fixed context"].colour


def attention_pooling() -> Figure:
    """A learned query over the states of a text, with no decoder: one vector for the whole text comes out.

    1 scores of the query with every state, 2 weights, 3 their weighted sum.
    """
    with figure_style():
        figure, axes = _page("Attention pooling", "one learned query")
        box(axes, 0.75, LINE, 0.9, 0.62, edge=LEARNED, wide=2.0)
        axes.text(0.75, LINE, "$u_w$", ha="center", va="center", fontsize=13, zorder=3)
        axes.text(0.75, LINE - 0.62, "learned", ha="center", va="center", fontsize=10.5,
                  color=text_colour(LEARNED))
        _reading(axes, "h", POOLING_SCORES, asked_from=(1.2, LINE), to=COLUMNS[2])
        labelled(axes, COLUMNS[2], OUT, 0.95, 0.58, "$s$", edge=READ)
        arrow(axes, (COLUMNS[2] + 0.48, OUT), (COLUMNS[2] + 1.4, OUT))
        axes.text(COLUMNS[2] + 1.5, OUT, "class", va="center", fontsize=11)
        _notes(axes, [
            r"score: the one query with every $\tanh(W h_t + b)$",
            "softmax: five weights",
            "one vector $s$ for the whole text",
        ])
    return figure


def self_attention() -> Figure:
    """Every word asks every word, itself included: as many vectors come out as went in.

    The same three steps for the word "it"; the readings of the other four, made at the same time, are faint.
    """
    with figure_style():
        figure, axes = _page("Self-attention", "every word asks")
        for i, x in enumerate(COLUMNS):
            if i != ASKING:
                for start in COLUMNS:
                    axes.plot([start, x], [STATE + 0.3, OUT - 0.3], color="#b5b5b5", linestyle="-",
                              linewidth=0.7, zorder=0)
            labelled(axes, x, OUT, 0.95, 0.58, f"$y_{i + 1}$", edge=READ if i == ASKING else INK)
        asking = COLUMNS[ASKING]
        _reading(axes, "x", SELF_SCORES, asked_from=(asking + 0.3, STATE + 0.29), to=asking)
        _notes(axes, [
            "score: the query $x_4$ with every $x_j$, itself too",
            "softmax: five weights, for this query",
            "one vector for each word; all five at once",
        ])
    return figure


def _page(title: str, message: str) -> tuple[Figure, Axes]:
    """An empty panel with its heading and the words at the bottom."""
    figure, axes = page((4.7, 5.0), (0, 8.8), (0, 9.9))
    heading(axes, 9.5, title, message, right=8.7, colour=text_colour(READ))
    for x, word in zip(COLUMNS, WORDS, strict=True):
        axes.text(x, WORD, word, ha="center", va="center", fontweight="bold", fontsize=11)
        arrow(axes, (x, WORD + 0.27), (x, STATE - 0.3))
    return figure, axes


def _reading(axes: Axes, name: str, scores: list[float], *, asked_from: tuple, to: float) -> None:
    """One query over all states: its way to them, scores, weights, and the sum at `to`."""
    x0, y0 = asked_from
    if y0 < LINE:
        axes.plot([x0, x0], [y0, LINE], color=READ, linestyle="-", linewidth=2.0, zorder=1)
    touched = [x - 0.14 for x in COLUMNS]
    axes.plot([min(*touched, x0), max(*touched, x0)], [LINE, LINE], color=READ, linestyle="-", linewidth=2.0,
              solid_capstyle="butt", zorder=1)
    weights = torch.tensor(scores, dtype=torch.float64).softmax(0).tolist()
    for j, (x, score, share) in enumerate(zip(COLUMNS, scores, weights, strict=True), start=1):
        labelled(axes, x, STATE, 0.95, 0.58, f"${name}_{j}$", edge=READ)
        arrow(axes, (x, STATE + 0.3), (x, SCORE - 0.26))
        axes.plot([x - 0.14, x - 0.14], [LINE, SCORE - 0.2], color=READ, linestyle="-", linewidth=2.0,
                  zorder=1)
        box(axes, x, SCORE, 0.8, 0.5)
        axes.text(x, SCORE, f"{score:.0f}", ha="center", va="center", fontsize=11, zorder=3)
        arrow(axes, (x, SCORE + 0.26), (x, WEIGHT - 0.42))
        weight(axes, x, WEIGHT, share, f"{share:.2f}".lstrip("0"), radius=0.4, size=9.5)
        arrow(axes, (x, WEIGHT + 0.42), (to + 0.13 * (x - to), OUT - 0.3), colour=READ, wide=0.6 + 4 * share)
    for number, y in enumerate((SCORE, WEIGHT, OUT), start=1):
        badge(axes, number, COLUMNS[0] - 0.95, y)


def _notes(axes: Axes, steps: list[str]) -> None:
    """The steps in words, numbered as in the drawing."""
    numbered(axes, steps, top=2.35, gap=0.65)
    axes.plot([0.1, 8.7], [2.3, 2.3], color=GREY, linestyle="-", linewidth=0.6)
