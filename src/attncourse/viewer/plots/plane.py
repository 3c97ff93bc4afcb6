"""One query over keys in the plane."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke

from attncourse.viewer.plots.figure import write_title
from attncourse.viewer.style import INK, MECHANISMS, figure_style, text_colour

READ, GOLD = MECHANISMS["additive attention"].colour, MECHANISMS["fixed context"].colour


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
        write_title(figure, title)
    return figure
