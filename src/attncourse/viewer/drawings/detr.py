"""DETR in two pictures: how an image becomes a set of answers, and how answers find their objects."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, Rectangle

from attncourse.viewer.drawings.pieces import GREY, HALO, arrow, badge, labelled, numbered, page, plus
from attncourse.viewer.style import INK, MECHANISMS, figure_style

BLUE, ORANGE = MECHANISMS["additive attention"].colour, MECHANISMS["fixed context"].colour
MIDDLE = 4.1                                       # the height at which the picture runs
IMAGE, CNN, CELLS, ENCODER, DECODER, HEADS = 1.15, 3.1, 4.95, 7.35, 9.95, 11.95
ANSWERS = ["7, with box", "no object", "2, with box", "no object"]
QUERIES = [DECODER + offset for offset in (-0.96, -0.32, 0.32, 0.96)]

# What pairing four answers with two objects costs, a sketch. The least sum takes the first and the third.
OBJECTS = ["the 7", "the 2"]
COSTS = [[-2.6, 3.1], [-1.4, 2.8], [3.2, -2.4], [2.1, 2.6]]
SAYS = ["“7” 0.95", "“7” 0.80", "“2” 0.90", "“9” 0.10"]
PAIRS = {0: 0, 2: 1}


def detr() -> Figure:
    """From an image to a set of objects (Carion et al. 2020, figure 2).

    1 the features of the CNN, 2 positions, 3 encoder, 4 decoder over learned object queries, 5 two heads.
    """
    with figure_style():
        figure, axes = page((7.2, 5.0), (0, 14.4), (-3.3, 6.7))
        _features(axes)
        _transformer(axes)
        _answers(axes)
        numbered(axes, [
            "a CNN makes one vector for each cell of the image",
            "each cell is told its row and its column, in every layer: 2-D sine positions",
            "encoder: every cell reads every cell",
            "decoder: learned object queries $q_i$ read one another, then the cells, all at once",
            "two heads: each query answers with a class and a box, or with “no object”",
        ], top=0.3, gap=0.62)
    return figure


def _features(axes: Axes) -> None:
    """The image with its two digits, the CNN, the cells, and their positions."""
    axes.add_patch(Rectangle((IMAGE - 0.95, MIDDLE - 0.95), 1.9, 1.9, facecolor="#f4f4f4", edgecolor=INK,
                             linewidth=1.0))
    axes.text(IMAGE - 0.35, MIDDLE + 0.25, "7", ha="center", va="center", fontsize=24, fontweight="bold")
    axes.text(IMAGE + 0.5, MIDDLE - 0.5, "2", ha="center", va="center", fontsize=14, fontweight="bold")
    arrow(axes, (IMAGE + 1.0, MIDDLE), (CNN - 0.56, MIDDLE))
    labelled(axes, CNN, MIDDLE, 1.1, 1.1, "CNN", size=11)
    arrow(axes, (CNN + 0.56, MIDDLE), (CELLS - 0.8, MIDDLE))
    side = 0.37
    for row in range(4):
        for column in range(4):
            corner = (CELLS + (column - 2) * side, MIDDLE + (row - 2) * side)
            axes.add_patch(Rectangle(corner, side, side, facecolor="#e4eef6", edgecolor=BLUE, linewidth=0.9))
    axes.text(CELLS, MIDDLE + 1.1, "cells", ha="center", va="center", fontsize=10.5)
    badge(axes, 1, CNN, MIDDLE + 0.95)
    y, joint = 1.75, CELLS + 1.1
    plus(axes, joint, MIDDLE)
    axes.plot([CELLS + 0.76, joint - 0.22], [MIDDLE] * 2, color=GREY, linestyle="-", linewidth=1.2, zorder=1)
    arrow(axes, (joint + 0.22, MIDDLE), (ENCODER - 0.91, MIDDLE))
    _waves(axes, joint, y)
    arrow(axes, (joint, y + 0.41), (joint, MIDDLE - 0.23))
    axes.text(joint - 0.6, y, "positions", ha="right", va="center", fontsize=10.5)
    badge(axes, 2, joint - 0.5, MIDDLE - 1.15)


def _waves(axes: Axes, x: float, y: float) -> None:
    """Two sines that cross: one for the row, one for the column."""
    axes.add_patch(Circle((x, y), 0.4, facecolor="white", edgecolor=INK, zorder=2))
    steps = [i / 20 for i in range(-20, 21)]
    along, wave = [0.32 * t for t in steps], [0.14 * math.sin(math.pi * t) for t in steps]
    for across, up in ((along, wave), (wave, along)):
        axes.plot([x + a for a in across], [y + u for u in up], color=INK, linestyle="-", linewidth=1.2,
                  zorder=3)


def _transformer(axes: Axes) -> None:
    """Encoder and decoder, and the queries that enter the decoder from below."""
    for number, x, name in ((3, ENCODER, "encoder"), (4, DECODER, "decoder")):
        labelled(axes, x, MIDDLE, 1.8 if x == ENCODER else 2.4, 1.9, name, size=11.5)
        badge(axes, number, x, MIDDLE + 1.35)
    arrow(axes, (ENCODER + 0.91, MIDDLE), (DECODER - 1.21, MIDDLE), colour=BLUE, wide=2)
    for number, x in enumerate(QUERIES, start=1):
        labelled(axes, x, 1.75, 0.56, 0.56, f"$q_{number}$", edge=ORANGE, size=10.5)
        arrow(axes, (x, 2.04), (x, MIDDLE - 0.96), colour=ORANGE, wide=1.6)
    axes.text(DECODER, 1.05, "object queries", ha="center", va="center", fontsize=10.5)


def _answers(axes: Axes) -> None:
    """One answer for each query, whatever the image shows."""
    labelled(axes, HEADS, MIDDLE, 0.95, 2.9, "class\n\nbox", size=10.5)
    badge(axes, 5, HEADS, MIDDLE + 1.85)
    for number, text in enumerate(ANSWERS):
        y = MIDDLE + 1.05 - 0.7 * number
        start = MIDDLE + 0.6 - 0.4 * number
        arrow(axes, (DECODER + 1.21, start), (HEADS - 0.49, y), colour=ORANGE, wide=1.2)
        axes.text(HEADS + 0.6, y, text, va="center", fontsize=10, path_effects=HALO,
                  color=GREY if text == "no object" else INK,
                  fontweight="normal" if text == "no object" else "bold")


def bipartite_matching() -> Figure:
    """Answers and objects in pairs of the lowest cost (Carion et al. 2020, eq. 1); the rest: no object."""
    with figure_style():
        figure, axes = page((7.2, 3.7), (0, 14.4), (0, 7.4))
        heights = [5.55 - 1.25 * i for i in range(len(COSTS))]
        _costs(axes, heights)
        left, right = 8.4, 12.6
        axes.text(left, 6.6, "answers", ha="center", va="center", fontsize=10.5)
        axes.text(right, 6.6, "objects", ha="center", va="center", fontsize=10.5)
        free = iter(range(len(OBJECTS), len(COSTS)))
        for query, y in enumerate(heights):
            labelled(axes, left, y, 1.9, 0.82, f"$q_{query + 1}$: {SAYS[query]}", edge=ORANGE, size=10)
            paired = query in PAIRS
            to = heights[PAIRS[query] if paired else next(free)]
            axes.plot([left + 0.97, right - 1.0], [y, to], color=BLUE if paired else GREY,
                      linestyle="-" if paired else (0, (3, 2)), linewidth=2.6 if paired else 1.2, zorder=1)
        for row, y in enumerate(heights):
            is_object = row < len(OBJECTS)
            labelled(axes, right, y, 1.9, 0.82, OBJECTS[row] if is_object else "no object", size=10.5,
                     edge=BLUE if is_object else INK)
        moral = "an object has one answer: $q_2$ found the 7 too, and must learn to say “no object”"
        axes.text(7.2, 0.55, moral, ha="center", va="center", fontsize=10.5)
    return figure


def _costs(axes: Axes, heights: list[float]) -> None:
    """The table of costs; the cells of the cheapest pairing are outlined."""
    columns = [2.2, 4.0]
    axes.text(sum(columns) / 2, 7.05, "cost of each pair", ha="center", va="center", fontsize=10.5)
    for x, name in zip(columns, OBJECTS, strict=True):
        axes.text(x, 6.4, name, ha="center", va="center", fontsize=10.5)
    for query, (y, row) in enumerate(zip(heights, COSTS, strict=True)):
        axes.text(0.85, y, f"$q_{query + 1}$", ha="center", va="center", fontsize=11.5)
        for column, (x, cost) in enumerate(zip(columns, row, strict=True)):
            chosen = PAIRS.get(query) == column
            edge, wide = (BLUE, 2.4) if chosen else (GREY, 0.6)
            axes.add_patch(Rectangle((x - 0.85, y - 0.5), 1.7, 1.0, facecolor="white", linewidth=wide,
                                     edgecolor=edge, zorder=3 if chosen else 2))
            axes.text(x, y, _number(cost), ha="center", va="center", fontsize=11, zorder=4,
                      fontweight="bold" if chosen else "normal")
    arrow(axes, (5.35, 3.7), (6.95, 3.7), wide=2.0)
    total = sum(COSTS[query][column] for query, column in PAIRS.items())
    axes.text(6.15, 4.1, "least sum", ha="center", va="center", fontsize=9.5)
    axes.text(6.15, 3.3, _number(total), ha="center", va="center", fontsize=10.5)


def _number(cost: float) -> str:
    return f"{cost:.1f}".replace("-", "−")
