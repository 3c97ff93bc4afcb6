"""Figures of a Vision Transformer: which places it holds alike, and how far its heads look."""

import torch
from matplotlib.figure import Figure

from attncourse.viewer.plots.figure import colour_bar, write_title
from attncourse.viewer.style import INK, MECHANISMS, figure_style

READ = MECHANISMS["additive attention"].colour


def position_maps(cosines, *, title: str) -> Figure:
    """For every patch a map: how alike its position is to the others' (Dosovitskiy et al. 2021, fig. 7).

    The maps lie as the patches do; each has its own patch marked. Light is alike.

    Args:
        cosines: (rows, columns, rows, columns), from -1 to 1.
        title: a sentence that says what there is to see.

    Raises:
        ValueError: another shape, or numbers that are no cosines.
    """
    cosines = torch.as_tensor(cosines).detach().to("cpu", torch.float64)
    if cosines.ndim != 4 or cosines.shape[:2] != cosines.shape[2:] or 0 in cosines.shape:
        raise ValueError(
            f"cosines has shape {tuple(cosines.shape)}; it must be (rows, columns, rows, columns)"
        )
    if not (cosines.abs() <= 1.001).all():  # also where one of them is NaN
        raise ValueError(
            f"cosines runs from {cosines.min():.4g} to {cosines.max():.4g}: a cosine lies between -1 and 1"
        )
    rows, columns = cosines.shape[:2]
    apart = 1.08  # a map and the gap behind it
    side = min(0.9, 5.6 / max(rows, columns))
    with figure_style():
        figure = Figure(figsize=(max(4.4, columns * side + 1.8), rows * side + 1.2))
        axes = figure.add_subplot(aspect="equal", xlim=(0, columns * apart), ylim=(rows * apart, 0))
        for row in range(rows):
            for column in range(columns):
                left, top = column * apart, row * apart
                image = axes.imshow(cosines[row, column].numpy(), cmap="cividis", vmin=-1, vmax=1,
                                    extent=(left, left + 1, top + 1, top), interpolation="nearest")
                axes.plot(left + (column + 0.5) / columns, top + (row + 0.5) / rows, color=INK, marker="x",
                          markersize=32 * side / max(rows, columns), linestyle="")
        # Each picture sets the limits to its own.
        axes.set(xlim=(0, columns * apart), ylim=(rows * apart, 0), xlabel="column of the patch",
                 ylabel="row of the patch")
        axes.set_xticks([i * apart + 0.5 for i in range(columns)], range(1, columns + 1))
        axes.set_yticks([i * apart + 0.5 for i in range(rows)], range(1, rows + 1))
        axes.tick_params(length=0)
        axes.grid(False)
        axes.spines[:].set_visible(False)
        colour_bar(axes, image, "cosine")
        write_title(figure, title)
    return figure


def distance_by_layer(distances, *, title: str) -> Figure:
    """How far each head looks: a point for each head above its layer (Dosovitskiy et al. 2021, fig. 7).

    The line joins the means of the layers.

    Args:
        distances: (layers, heads), in pixels.
        title: a sentence that says what there is to see.

    Raises:
        ValueError: another shape, or distances that are negative or not finite.
    """
    distances = torch.as_tensor(distances).detach().to("cpu", torch.float64)
    if distances.ndim != 2 or 0 in distances.shape:
        raise ValueError(f"distances has shape {tuple(distances.shape)}; it must be (layers, heads)")
    if not (distances.isfinite() & (distances >= 0)).all():
        raise ValueError("distances holds a number that is negative or not finite: it must be in pixels")
    layers = range(1, len(distances) + 1)
    with figure_style():
        figure = Figure(figsize=(5.6, 3.6))
        axes = figure.add_subplot()
        axes.plot(layers, distances.mean(1).numpy(), color=INK, linestyle="-", linewidth=1.2, zorder=2)
        axes.annotate("mean", (len(distances), distances[-1].mean().item()), xytext=(9, 0),
                      textcoords="offset points", va="center", fontweight="bold", annotation_clip=False)
        for layer, heads in zip(layers, distances.tolist(), strict=True):
            axes.plot([layer] * len(heads), heads, color=READ, marker="o", linestyle="", alpha=0.75, zorder=3)
        axes.set(xlabel="layer", ylabel="attention distance (pixels)", xlim=(0.5, len(distances) + 0.5))
        axes.set_ylim(0, max(1.08 * distances.max().item(), 0.1))
        axes.set_xticks(layers)
        write_title(figure, title)
    return figure
