"""The Transformer in two pictures that join: the encoder, and the decoder, which reads what the encoder made.

Both rise from the words. The three attentions are numbered; what tells them apart is who asks and who is
read. Laid side by side, the arrow that leaves the encoder enters the decoder; one above the other, both ends
say where the other is.
"""

import math
from collections.abc import Sequence
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from attncourse.viewer.drawings.pieces import GREY, HALO, arrow, badge, heading, labelled, page, plus
from attncourse.viewer.style import INK, MECHANISMS, figure_style

_box = partial(labelled, size=10.5, spacing=1.25)
BLUE = MECHANISMS["additive attention"].colour
WORDS, EMBED, PLUS, LAYER = 2.75, 3.6, 4.5, 5.15     # heights; the layer begins at the last
SUBLAYERS = [6.35, 8.7, 11.05]                       # the middle of each sub-layer
BEFORE, NORM = 0.85, 0.95                            # below it the way around leaves, above it is the norm
WIDE, HIGH = 3.9, 0.92                               # a sub-layer's box


def encoder() -> Figure:
    """The encoder (Vaswani et al. 2017, section 3.1): N layers of self-attention and feed-forward."""
    with figure_style():
        figure, axes = _page("Encoder", "reads the source at once")
        x, around = 4.25, 1.35
        _inputs(axes, x, "the   black   cat")
        _layer(axes, x, around, SUBLAYERS[1] + 1.65)
        _sublayer(axes, x, SUBLAYERS[0], around, "multi-head attention\ninside the source", number=1)
        _fork(axes, x, SUBLAYERS[0])
        _sublayer(axes, x, SUBLAYERS[1], around, "feed-forward network")
        top, corner = SUBLAYERS[2] + 0.35, 7.6
        arrow(axes, (x, SUBLAYERS[1] + NORM + 0.25), (x, top - 0.32))
        _box(axes, x, top, WIDE, 0.62, "one vector for each word", edge=BLUE)
        _line(axes, [x + WIDE / 2, corner, corner], [top, top, SUBLAYERS[1]], BLUE, 2)
        arrow(axes, (corner, SUBLAYERS[1]), (8.6, SUBLAYERS[1]), colour=BLUE, wide=2)
        axes.text(8.5, top + 0.62, "to every layer of the decoder", ha="right", va="center", fontsize=10.5)
        _notes(axes, [(1, "inside the source: every word reads every word")], [
            "feed-forward: each word by itself, $d \\to 4d \\to d$",
            "add, norm: add what went around, normalise",
        ])
    return figure


def decoder() -> Figure:
    """The decoder (Vaswani et al. 2017, section 3.1): it reads itself, and then the encoder's vectors."""
    with figure_style():
        figure, axes = _page("Decoder", "writes word by word")
        x, around = 4.35, 7.25
        _inputs(axes, x, "<s>   le   chat")
        _layer(axes, x, around, SUBLAYERS[2] + 1.65)
        _sublayer(axes, x, SUBLAYERS[0], around, "multi-head attention\ninside the target, masked", number=2)
        _fork(axes, x, SUBLAYERS[0])
        _sublayer(axes, x, SUBLAYERS[1], around, "multi-head attention\nbetween the two", number=3)
        axes.text(x + 0.2, SUBLAYERS[1] - 0.62, "Q", va="center", fontsize=10, path_effects=HALO)
        _from_the_encoder(axes, x - WIDE / 2)
        _sublayer(axes, x, SUBLAYERS[2], around, "feed-forward network")
        top = SUBLAYERS[2] + 2.4
        arrow(axes, (x, SUBLAYERS[2] + NORM + 0.25), (x, top - 0.32))
        _box(axes, x, top, WIDE, 0.62, "linear, softmax")
        arrow(axes, (x, top + 0.32), (x, top + 0.78))
        axes.text(x, top + 1.02, "le   chat   noir", ha="center", va="center", fontweight="bold", fontsize=11)
        _notes(axes, [
            (2, "inside the target: no word reads ahead"),
            (3, "between the two: the target reads the source"),
        ], ["feed-forward, add, norm: as in the encoder"])
    return figure


def _page(title: str, message: str) -> tuple[Figure, Axes]:
    figure, axes = page((4.7, 8.6), (0, 8.6), (-0.2, 15.7))
    heading(axes, 15.4, title, message)
    return figure, axes


def _line(axes: Axes, xs: list[float], ys: list[float], colour: str = GREY, wide: float = 1.2) -> None:
    axes.plot(xs, ys, color=colour, linestyle="-", linewidth=wide, zorder=1)


def _inputs(axes: Axes, x: float, words: str) -> None:
    """The words, their embeddings, and the positions that are added to them."""
    axes.text(x, WORDS, words, ha="center", va="center", fontweight="bold", fontsize=11)
    arrow(axes, (x, WORDS + 0.25), (x, EMBED - 0.3))
    _box(axes, x, EMBED, WIDE, 0.58, r"embedding $\times \sqrt{d}$")
    arrow(axes, (x, EMBED + 0.3), (x, PLUS - 0.23))
    plus(axes, x, PLUS)
    wave = [i / 20 for i in range(-20, 21)]
    axes.add_patch(Circle((x - 1.5, PLUS), 0.3, facecolor="white", edgecolor=INK, zorder=2))
    axes.plot([x - 1.5 + 0.24 * t for t in wave], [PLUS + 0.15 * math.sin(math.pi * t) for t in wave],
              color=INK, linestyle="-", linewidth=1.2, zorder=3)
    arrow(axes, (x - 1.2, PLUS), (x - 0.23, PLUS))
    axes.text(x - 1.95, PLUS, "position", ha="right", va="center", fontsize=10.5)


def _layer(axes: Axes, x: float, around: float, top: float) -> None:
    """The bed of one layer, wide enough for the way around, and how often it is repeated."""
    side = 1 if around > x else -1
    first, last = sorted([x - side * (WIDE / 2 + 0.3), around + side * 0.3])
    style = "round,pad=0,rounding_size=0.25"
    axes.add_patch(FancyBboxPatch((first, LAYER), last - first, top - LAYER, boxstyle=style, linewidth=0,
                                  facecolor="#000000", alpha=0.05, zorder=0))
    axes.text(first - 0.12, LAYER + 0.55, "$N$ = 6\nlayers", ha="right", va="center", fontsize=10.5)


def _sublayer(axes: Axes, x: float, y: float, around: float, text: str, *, number: int | None = None) -> None:
    """A sub-layer, the way around it (the residual connection), and the norm of the two together."""
    start, norm = y - BEFORE, y + NORM
    arrow(axes, (x, start - 0.32 if y != SUBLAYERS[0] else PLUS + 0.23), (x, y - HIGH / 2))
    _box(axes, x, y, WIDE, HIGH, text, edge=INK if number is None else BLUE)
    arrow(axes, (x, y + HIGH / 2), (x, norm - 0.25))
    _box(axes, x, norm, WIDE, 0.5, "add, norm")
    _line(axes, [x, around, around], [start, start, norm])
    arrow(axes, (around, norm), (x + math.copysign(WIDE / 2, around - x), norm))
    if number is not None:
        badge(axes, number, x - math.copysign(WIDE / 2, around - x), y + HIGH / 2)


def _fork(axes: Axes, x: float, y: float) -> None:
    """Queries, keys and values of the same words: one way in becomes three."""
    start = y - BEFORE + 0.12
    for offset, letter in ((-1.3, "V"), (0.0, "K"), (1.3, "Q")):
        if offset:
            _line(axes, [x, x + offset], [start, start])
            arrow(axes, (x + offset, start), (x + offset, y - HIGH / 2))
        axes.text(x + offset + 0.12, y - 0.61, letter, va="center", fontsize=9, path_effects=HALO)


def _from_the_encoder(axes: Axes, x: float) -> None:
    """One way in at the left, which becomes the keys and the values."""
    y, fork = SUBLAYERS[1], 0.95
    _line(axes, [0, fork], [y, y], BLUE, 2)
    _line(axes, [fork, fork], [y - 0.15, y + 0.15], BLUE, 2)
    for offset, letter in ((-0.15, "V"), (0.15, "K")):
        arrow(axes, (fork, y + offset), (x, y + offset), colour=BLUE, wide=2)
        axes.text(1.75, y + 2.8 * offset, letter, va="center", fontsize=10, path_effects=HALO)
    axes.text(0.05, y - 0.75, "from the\nencoder", va="center", fontsize=10.5)


def _notes(axes: Axes, numbered: Sequence[tuple[int, str]], others: Sequence[str]) -> None:
    """What each attention reads, numbered as in the drawing; then the other parts."""
    y = 1.85
    for number, text in numbered:
        badge(axes, number, 0.37, y)
        axes.text(0.82, y, text, va="center", fontsize=10.5)
        y -= 0.66
    for text in others:
        axes.text(0.82, y, text, va="center", fontsize=10.5, color=GREY)
        y -= 0.66
