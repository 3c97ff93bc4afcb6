"""Lines that carry their own names: a number over the steps, over lengths, over groups."""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attncourse.viewer.plots.figure import write_title
from attncourse.viewer.style import figure_style, look_of, text_colour


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
        write_title(figure, title)
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
        write_title(figure, title)
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
