"""What a table of positions holds, and how alike two of its rows are."""

import torch
from matplotlib.figure import Figure
from torch import Tensor

from attncourse.viewer.plots.figure import colour_bar, write_title
from attncourse.viewer.style import figure_style


def position_table(table, *, title: str) -> Figure:
    """What is added to the embeddings, (positions, width): a row a position, a column a number."""
    table = _checked_table(table)
    return _signed_map(table, title=title, x_axis="place in the vector", y_axis="position", meaning="value")


def position_similarity(table, *, title: str) -> Figure:
    """The dot product of every two rows of a table (positions, width): how alike two positions are."""
    table = _checked_table(table)
    similarity = table @ table.mT
    return _signed_map(similarity, title=title, x_axis="position", y_axis="position", meaning="dot product")


def _checked_table(table) -> Tensor:
    table = torch.as_tensor(table).detach().to("cpu", torch.float64)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"table has shape {tuple(table.shape)}; it must be (positions, width)")
    if not table.isfinite().all():
        raise ValueError(f"table holds {table[~table.isfinite()][0].item()}: every number must be finite")
    return table


def _signed_map(matrix: Tensor, *, title: str, x_axis: str, y_axis: str, meaning: str) -> Figure:
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
        colour_bar(axes, image, meaning)
        write_title(figure, title)
    return figure
