"""Attention weights as a map, printed: the counterpart of `AttentionView`."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from attncourse.viewer.plots.figure import colour_bar, write_title
from attncourse.viewer.style import INK, MECHANISMS, WEIGHTS, figure_style, printable
from attncourse.viewer.weights import checked_tokens, checked_weights

GOLD = MECHANISMS["fixed context"].colour


def heatmap(
    weights,
    queries: Sequence[str],
    keys: Sequence[str],
    *,
    title: str,
    gold: tuple[frozenset, frozenset] | None = None,
    query_axis: str = "query",
    key_axis: str = "key",
) -> Figure:
    """Attention weights (queries, keys) as a map: a row for each query, dark where it reads.

    Up to 10 by 10 the numbers stand in the cells. `gold` is an `Alignment`: the sure and the possible links
    as pairs (key position, query position). Sure links are outlined, only possible ones have a ring.
    """
    queries, keys = checked_tokens("queries", queries), checked_tokens("keys", keys)
    weights = checked_weights(weights, queries, keys)
    if len(weights) > 1:
        raise ValueError(f"weights holds {len(weights)} heads: give one, weights[i], or use AttentionView")
    matrix = weights[0].tolist()
    query_labels, key_labels = printable(queries, keys)
    longest = max(map(len, key_labels))
    small = max(len(keys), len(queries)) <= 10
    cell = min(0.6 if small else 0.42, 9 / len(keys))
    width = max(4.4, cell * len(keys) + 0.11 * max(map(len, query_labels)) + 1.6)
    height = cell * len(queries) + 0.09 * longest + 1.5 + (0.4 if gold else 0)
    with figure_style():
        figure = Figure(figsize=(width, height))
        axes = figure.add_subplot()
        image = axes.imshow(matrix, cmap=WEIGHTS, vmin=0, vmax=1, aspect="equal")
        axes.set_xticks(range(len(keys)), key_labels, parse_math=False)
        axes.set_yticks(range(len(queries)), query_labels, parse_math=False)
        axes.tick_params(length=0, top=True, bottom=False, labeltop=True, labelbottom=False)
        if longest * 0.09 > cell:
            slanted = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
            for label in axes.get_xticklabels():
                label.set(**({"rotation": 90} if len(keys) > 20 else slanted))
        axes.spines[:].set_visible(False)
        axes.set_xlabel(key_axis, labelpad=8)
        axes.xaxis.set_label_position("top")
        axes.set_ylabel(query_axis)
        axes.grid(False)
        axes.set_xticks([i - 0.5 for i in range(1, len(keys))], minor=True)
        axes.set_yticks([i - 0.5 for i in range(1, len(queries))], minor=True)
        axes.grid(which="minor", color="#e8e8e8", linewidth=0.6)
        axes.tick_params(which="minor", length=0)
        if small:
            _write_numbers(axes, matrix)
        if gold is not None:
            _draw_gold(axes, gold, len(keys), len(queries))
        shrink = min(1.0, 2.2 / (cell * len(queries)))
        colour_bar(axes, image, "weight", shrink=shrink, aspect=14)
        write_title(figure, title)
    return figure


def _write_numbers(axes: Axes, matrix: list[list[float]]) -> None:
    for y, row in enumerate(matrix):
        for x, weight in enumerate(row):
            colour = "white" if weight > 0.45 else INK
            axes.text(x, y, f"{weight:.2f}", ha="center", va="center", fontsize=9, color=colour)


def _draw_gold(axes: Axes, gold: tuple[frozenset, frozenset], keys: int, queries: int) -> None:
    sure, possible = gold
    halo = [withStroke(linewidth=3.6, foreground="white")]  # the outline shows on a cell of its own greyness
    outline = {"linestyle": "", "markerfacecolor": "none", "markeredgecolor": GOLD, "markeredgewidth": 1.8}
    for key, query in sorted({*sure, *possible}):
        if not (0 <= key < keys and 0 <= query < queries):
            raise ValueError(
                f"gold links key {key} with query {query}, but there are {keys} keys and {queries} queries"
            )
        if (key, query) in sure:
            corner = (key - 0.42, query - 0.42)
            box = Rectangle(corner, 0.84, 0.84, fill=False, edgecolor=GOLD, linewidth=1.8, path_effects=halo)
            axes.add_patch(box)
        else:
            axes.plot(key, query, marker="o", markersize=8, path_effects=halo, **outline)
    marks = [
        Line2D([], [], marker=marker, markersize=9, label=name, **outline)
        for marker, name in [("s", "sure link"), ("o", "possible link")]
    ]
    axes.figure.legend(handles=marks, loc="outside lower left", ncols=2)
