"""One look for every figure of the book, and one colour, line and marker for every mechanism.

The colours are Okabe and Ito's, which stay apart for every common kind of colour blindness. Printed in grey
some of them meet, so a mechanism also has a line style and a marker of its own: either alone tells it apart.
"""

import warnings
from collections.abc import Iterable
from contextlib import AbstractContextManager
from functools import cache
from typing import NamedTuple

import matplotlib
from matplotlib import font_manager
from matplotlib.colors import LinearSegmentedColormap, to_hex, to_rgb


class Look(NamedTuple):
    """How one mechanism is drawn: a colour, a line style and a marker, in matplotlib's terms."""

    colour: str
    line: str | tuple
    marker: str


# The same mechanism looks the same in every chapter. A new mechanism joins by one line.
MECHANISMS: dict[str, Look] = {
    "fixed context": Look("#D55E00", (0, (5, 2)), "s"),
    "additive attention": Look("#0072B2", "-", "o"),
    "diagonal guess": Look("#767676", (0, (1, 1.5)), "x"),
    "no attention": Look("#4D4D4D", (0, (1, 3)), "."),
    "global": Look("#009E73", (0, (9, 2)), "^"),
    "local-m": Look("#56B4E9", "-.", "v"),
    "local-p": Look("#CC79A7", (0, (6, 1.5, 1, 1.5, 1, 1.5)), "D"),
    "offset": Look("#7A4A00", (0, (2, 2)), "<"),
    "hard": Look("#E69F00", (0, (3, 1, 1, 1)), "P"),
    "transformer": Look("#000000", (0, (12, 1)), "*"),
}

# Other names under which a chapter draws the same mechanism.
ALSO_CALLED = {"soft attention": "additive attention", "straight-through Gumbel": "hard"}

# What is not a mechanism (widths, seeds, ablations) is drawn with these, in order of appearance.
OTHERS = (
    Look("#0072B2", "-", "o"),
    Look("#D55E00", (0, (5, 2)), "s"),
    Look("#009E73", "-.", "^"),
    Look("#CC79A7", (0, (1, 1.5)), "D"),
    Look("#E69F00", (0, (9, 2)), "v"),
    Look("#56B4E9", (0, (3, 1, 1, 1)), "P"),
    Look("#000000", (0, (12, 1)), "X"),
)

# White is no weight, dark blue all of it. Luminance falls steadily, so the map reads the same in grey.
WEIGHTS = LinearSegmentedColormap.from_list(
    "attention weights", ["#ffffff", "#cfe3f1", "#7fb6d9", "#2a7fb5", "#0b4a75", "#06263d"]
)

# The same in 33 steps, for the scripts of the views.
SHADES = tuple(to_hex(WEIGHTS(i / 32)) for i in range(33))

INK = "#262626"

# Tried in this order for what the Latin font lacks; only fonts that are installed are named to matplotlib.
CJK_FONTS = (
    "Noto Sans CJK SC", "Noto Sans SC", "Noto Sans CJK JP", "Source Han Sans SC", "PingFang SC",
    "Hiragino Sans GB", "Microsoft YaHei", "SimHei", "WenQuanYi Zen Hei", "WenQuanYi Micro Hei",
    "Arial Unicode MS",
)


def look_of(name: str, order: int = 0) -> Look:
    """The look of a mechanism, or the look at place `order` of the list for everything else."""
    return MECHANISMS.get(ALSO_CALLED.get(name, name), OTHERS[order % len(OTHERS)])


def luminance(colour: str) -> float:
    """Relative luminance of a colour (WCAG 2), from 0 for black to 1 for white: what is left in greyscale."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def text_colour(colour: str) -> str:
    """The same hue, dark enough to be read as text on white (contrast of at least 4.5 to 1)."""
    red, green, blue = to_rgb(colour)
    while 1.05 / (luminance((red, green, blue)) + 0.05) < 4.5:
        red, green, blue = red * 0.95, green * 0.95, blue * 0.95
    return to_hex((red, green, blue))


@cache
def font_families() -> tuple[str, ...]:
    """The fonts to draw with: matplotlib's own, then the first installed one that has Chinese characters."""
    installed = set(font_manager.get_font_names())
    return ("DejaVu Sans", *[name for name in CJK_FONTS if name in installed][:1])


def figure_style() -> AbstractContextManager:
    """The book's matplotlib style, as a context, `with figure_style(): ...`; outside nothing changes."""
    return matplotlib.rc_context({
        "font.family": list(font_families()),
        "font.size": 11,
        "text.color": INK,
        "figure.figsize": (7.0, 4.0),
        "figure.dpi": 96,
        "figure.facecolor": "white",
        "figure.constrained_layout.use": True,
        "savefig.dpi": 144,
        "savefig.facecolor": "white",
        "axes.facecolor": "white",
        "axes.edgecolor": "#8c8c8c",
        "axes.labelcolor": INK,
        "axes.labelsize": 11,
        "axes.titlelocation": "left",
        "axes.titlesize": 13,
        "axes.titleweight": "bold",
        "axes.titlepad": 12,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "axes.prop_cycle": matplotlib.cycler(
            color=[look.colour for look in OTHERS], linestyle=[look.line for look in OTHERS]
        ),
        "grid.color": "#e8e8e8",
        "grid.linewidth": 0.8,
        "xtick.color": "#8c8c8c",
        "ytick.color": "#8c8c8c",
        "xtick.labelcolor": INK,
        "ytick.labelcolor": INK,
        "lines.linewidth": 2.0,
        "lines.markersize": 6,
        "legend.frameon": False,
    })


@cache
def drawable() -> frozenset[int]:
    """The code points that the fonts of `font_families` can draw."""
    paths = [font_manager.findfont(name) for name in font_families()]
    return frozenset().union(*[font_manager.get_font(path).get_charmap() for path in paths])


def printable(*groups: Iterable[str]) -> list[list[str]]:
    """Tokens as a figure can draw them, one label for one token: nothing invisible, no empty boxes.

    A blank shows as ␣ and a control character as its escape. A token with a character that no font here can
    draw becomes its position, [3], and one hint for all of them says which font would help.
    """
    labels, lost = [], []
    for group in groups:
        labels.append([])
        for position, token in enumerate(group, start=1):
            label = token.replace(" ", "␣") if token else "∅"
            if not label.isprintable():
                label = repr(label)[1:-1]
            if any(ord(character) not in drawable() for character in label):
                lost.append(token)
                label = f"[{position}]"
            labels[-1].append(label)
    if lost:
        warnings.warn(
            f"no font here can draw {len(lost)} of the tokens (the first is {lost[0]!r}): they are shown by "
            f"their position, [1], [2], ... Install a font such as {CJK_FONTS[0]!r} to see them.",
            stacklevel=3,
        )
    return labels
