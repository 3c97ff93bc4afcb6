"""A figure on its way to the page: its one message as the title, its alternative text, its bytes."""

import base64
import io
import textwrap
from html import escape

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage

from attncourse.viewer.publish import publish
from attncourse.viewer.style import figure_style


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


def write_title(figure: Figure, title: str) -> None:
    """The figure's one message, at its upper left, broken to its width (bold: 8.5 letters an inch)."""
    lines = textwrap.fill(title, int(figure.get_figwidth() * 8.5))
    figure.suptitle(lines, x=0.01, ha="left", fontsize=13, fontweight="bold", parse_math=False)


def colour_bar(axes: Axes, image: AxesImage, meaning: str, *, shrink: float = 0.7, aspect: int = 18) -> None:
    """What the colours of a map mean, beside it."""
    bar = axes.figure.colorbar(image, ax=axes, shrink=shrink, aspect=aspect, pad=0.02)
    bar.set_label(meaning)
    bar.outline.set_visible(False)
