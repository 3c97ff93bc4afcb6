"""Figures with one message each: the sentence is the title, the lines carry their own names."""

import base64
import io
import textwrap
from collections.abc import Mapping, Sequence
from html import escape
from statistics import fmean, stdev

import matplotlib.pyplot as plt
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke

from attncourse.viewer.publish import publish
from attncourse.viewer.style import INK, MECHANISMS, WEIGHTS, figure_style, look_of, printable, text_colour
from attncourse.viewer.weights import checked_tokens, checked_weights

READ, GOLD = MECHANISMS["additive attention"].colour, MECHANISMS["fixed context"].colour


def figure_html(figure: Figure, alt: str) -> str:
    """A figure as HTML with its alternative text, as a PNG inside the page; the figure is closed.

    The bytes depend on the figure alone: no date, no version. The face stays white on a dark page.
    """
    if not isinstance(figure, Figure):
        raise TypeError(f"figure must be a matplotlib Figure, given {type(figure).__name__}")
    if not isinstance(alt, str) or not alt.strip():
        raise ValueError(f"alt is {alt!r}: say in a sentence what the figure shows to those who see it")
    file = io.BytesIO()
    with figure_style():
        figure.savefig(file, format="png", metadata={"Software": None})
    plt.close(figure)
    picture = base64.b64encode(file.getvalue()).decode()
    width = round(figure.get_figwidth() * 96)
    return (
        f'<figure class="attn-figure" style="margin: 0.5em 0"><img alt="{escape(alt)}" width="{width}" '
        'style="max-width: 100%; height: auto; background: #fff" '
        f'src="data:image/png;base64,{picture}"></figure>'
    )


def show(figure: Figure, alt: str) -> None:
    """Show a figure with its alternative text, which goes wherever the picture goes; see `figure_html`."""
    publish({"text/html": figure_html(figure, alt), "text/plain": alt})


def show_beside(*panels: tuple[Figure, str]) -> None:
    """Show figures side by side, each with its alternative text; on a phone, one under the other."""
    if not panels or not all(isinstance(panel, tuple) and len(panel) == 2 for panel in panels):
        raise TypeError("panels must be pairs of a figure and its alternative text, and at least one")
    shown = "".join(
        f'<div style="flex: 1 1 320px; max-width: {round(figure.get_figwidth() * 96)}px">'
        f"{figure_html(figure, alt)}</div>"
        for figure, alt in panels
    )
    html = f'<div style="display: flex; flex-wrap: wrap; gap: 0 1.5em; justify-content: center">{shown}</div>'
    publish({"text/html": html, "text/plain": "\n".join(alt for _, alt in panels)})


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
        bar = figure.colorbar(image, ax=axes, shrink=shrink, aspect=14, pad=0.02)
        bar.set_label("weight")
        bar.outline.set_visible(False)
        _title(figure, title)
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


def curves(
    series: Mapping[str, tuple[Sequence[float], Sequence[float]]],
    *,
    title: str,
    y_axis: str,
    x_axis: str = "training step",
    smooth: int = 1,
) -> Figure:
    """Lines, each named at its end: `series` is {name: (x, y)}, the axes' names carry the units.

    With `smooth` above 1 the line is the mean of that many neighbouring points, and the points stay visible
    behind it, pale.
    """
    if not series:
        raise ValueError("series is empty: at least one line is needed")
    with figure_style():
        figure = Figure()
        axes = figure.add_subplot()
        ends = []
        for order, (name, (x, y)) in enumerate(series.items()):
            x, y = list(map(float, x)), list(map(float, y))
            if len(x) != len(y) or not x:
                raise ValueError(
                    f"series[{name!r}] has {len(x)} x and {len(y)} y: as many of each, and at least one"
                )
            look = look_of(name, order)
            if smooth > 1:
                axes.plot(x, y, color=look.colour, linestyle="-", linewidth=0.8, alpha=0.3)
                y = [fmean(y[max(0, i - smooth // 2) : i + smooth // 2 + 1]) for i in range(len(y))]
            marked = max(1, len(x) // 8)
            axes.plot(x, y, color=look.colour, linestyle=look.line, marker=look.marker,
                      markevery=(order % marked, marked))
            ends.append((name, look.colour, y[-1]))
        axes.set(xlabel=x_axis, ylabel=y_axis)
        _name_ends(axes, ends)
        _title(figure, title)
    return figure


def by_length(
    results: Mapping[str, Mapping[str, Sequence[float]]],
    *,
    title: str,
    metric: str,
    unit: str = "words",
    trained_to: str | None = None,
    x_axis: str | None = None,
) -> Figure:
    """A metric against length: `results` is {name: {"3-6": [one value a seed], ...}}.

    The line is the mean over the seeds, the band one standard deviation to each side. The ranges after
    `trained_to` are shaded: no training sentence was that long. `x_axis` names groups that are not lengths.
    """
    if not results:
        raise ValueError("results is empty: at least one line is needed")
    ranges = list(next(iter(results.values())))
    for name, line in results.items():
        if list(line) != ranges or not all(len(values) for values in line.values()):
            raise ValueError(
                f"results[{name!r}] has the lengths {list(line)}; every line needs {ranges}, with values"
            )
    if trained_to is not None and trained_to not in ranges:
        raise ValueError(f"trained_to is {trained_to!r}; it must be one of {ranges}")
    places = range(len(ranges))
    with figure_style():
        figure = Figure()
        axes = figure.add_subplot()
        ends = []
        for order, (name, line) in enumerate(results.items()):
            look = look_of(name, order)
            mean = [fmean(values) for values in line.values()]
            spread = [stdev(values) if len(values) > 1 else 0.0 for values in line.values()]
            low, high = zip(*[(m - s, m + s) for m, s in zip(mean, spread, strict=True)], strict=True)
            axes.fill_between(places, low, high, color=look.colour, alpha=0.18, linewidth=0)
            axes.plot(places, mean, color=look.colour, linestyle=look.line, marker=look.marker)
            ends.append((name, look.colour, mean[-1]))
        axes.set_xticks(places, [r.replace("-", "–") for r in ranges])
        axes.set(xlabel=x_axis or f"source length ({unit})", ylabel=metric)
        axes.set_ylim(bottom=0, top=max(axes.get_ylim()[1], 0.1))
        if trained_to is not None and trained_to != ranges[-1]:
            start = ranges.index(trained_to) + 0.5
            axes.axvspan(start, len(ranges) - 0.7, color="#000000", alpha=0.05, linewidth=0)
            note = "longer than\nany training\nsentence"
            axes.text(start + 0.06, axes.get_ylim()[1] * 0.985, note, va="top", fontsize=9)
        axes.set_xlim(-0.3, len(ranges) - 0.7)
        _name_ends(axes, ends)
        _title(figure, title)
    return figure


def plane(query, keys, weights, context, *, labels: Sequence[str], title: str) -> Figure:
    """One query over keys in the plane: the keys as big as their weights, the query, and the context.

    query (2,), keys (keys, 2), weights (keys,), context (2,).
    """
    with figure_style():
        figure = Figure(figsize=(5.0, 4.6))
        axes = figure.add_subplot(aspect="equal")
        halo = [withStroke(linewidth=3, foreground="white")]  # names stay readable where points meet
        for key, weight, label in zip(keys.tolist(), weights.tolist(), labels, strict=True):
            axes.scatter(*key, s=40 + 900 * weight, color=READ, alpha=0.35, linewidth=0)
            axes.scatter(*key, s=14, color=INK)
            side = 1 if key[0] >= 0 else -1
            axes.annotate(f"{label}  {weight:.2f}", key, xytext=(11 * side, 11), textcoords="offset points",
                          ha="left" if side == 1 else "right", parse_math=False, path_effects=halo)
        own = [("query", query, "*", 130, GOLD, 9), ("context", context, "D", 45, INK, -17)]
        for name, point, marker, size, colour, above in own:
            axes.scatter(*point.tolist(), s=size, marker=marker, color=colour, zorder=3)
            axes.annotate(name, point.tolist(), xytext=(0, above), textcoords="offset points", ha="center",
                          color=text_colour(colour), fontweight="bold", path_effects=halo, zorder=4)
        axes.set(xlim=(-3, 3), ylim=(-3, 3), xlabel="first axis", ylabel="second axis")
        _title(figure, title)
    return figure


def position_table(table, *, title: str) -> Figure:
    """What is added to the embeddings, (positions, width): a row a position, a column a number."""
    table = _checked_table(table)
    return _signed_map(table, title=title, x_axis="place in the vector", y_axis="position", meaning="value")


def position_similarity(table, *, title: str) -> Figure:
    """The dot product of every two rows of a table (positions, width): how alike two positions are."""
    table = _checked_table(table)
    similarity = table @ table.mT
    return _signed_map(similarity, title=title, x_axis="position", y_axis="position", meaning="dot product")


def _checked_table(table) -> torch.Tensor:
    table = torch.as_tensor(table).detach().to("cpu", torch.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"table has shape {tuple(table.shape)}; it must be (positions, width)")
    if not table.isfinite().all():
        raise ValueError(f"table holds {table[~table.isfinite()][0].item()}: every number must be finite")
    return table


def _signed_map(matrix: torch.Tensor, *, title: str, x_axis: str, y_axis: str, meaning: str) -> Figure:
    """Numbers of both signs as a map; it grows lighter from the least to the most, so grey reads too."""
    with figure_style():
        figure = Figure(figsize=(4.7, 4.4))
        axes = figure.add_subplot()
        # The rows may be few and the columns many: the map fills its square.
        image = axes.imshow(matrix.numpy(), cmap="cividis", aspect="auto", interpolation="nearest")
        axes.set_box_aspect(1)
        axes.set(xlabel=x_axis, ylabel=y_axis)
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_major_locator().set_params(integer=True)
        axes.spines[:].set_visible(False)
        axes.grid(False)
        bar = figure.colorbar(image, ax=axes, shrink=0.7, aspect=18, pad=0.02)
        bar.set_label(meaning)
        bar.outline.set_visible(False)
        _title(figure, title)
    return figure


def _name_ends(axes: Axes, ends: list[tuple[str, str, float]]) -> None:
    """Write each line's name at its end, pushed apart where they would overlap."""
    low, high = axes.get_ylim()
    gap = (high - low) * 0.065
    height = None
    edge = axes.get_xlim()[1]
    for name, colour, y in sorted(ends, key=lambda end: end[2]):
        height = y if height is None else max(y, height + gap)
        axes.annotate(
            name, (edge, height), xytext=(6, 0), textcoords="offset points", va="center",
            color=text_colour(colour), fontweight="bold", annotation_clip=False, parse_math=False,
        )


def _title(figure: Figure, title: str) -> None:
    """The figure's one message, at its upper left, broken to its width (bold: 8.5 letters an inch)."""
    lines = textwrap.fill(title, int(figure.get_figwidth() * 8.5))
    figure.suptitle(lines, x=0.01, ha="left", fontsize=13, fontweight="bold", parse_math=False)
