"""Global, local-m and local-p attention over the same source, for one target word: what each of them sees."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from attncourse.viewer.drawings.pieces import GREY, page, weight
from attncourse.viewer.style import MECHANISMS, figure_style, text_colour

SOURCE = ["the", "house", "is", "loved", "by", "a", "quiet", "green", "teacher"]
TARGET = "un professeur vert calme aime la maison"
# Chosen for the picture: the word needed is "house", and "teacher" comes second.
SCORES = [1.0, 3.0, 0.0, 1.0, 0.0, 0.5, 0.0, 0.0, 1.5]
HALF_WIDTH, TIME, PREDICTED = 2, 6, 1.3  # D; t of "maison"; a p_t that the model may have predicted
LEFT, RIGHT = 2.35, 11.25                # where the source begins, and where the notes stand


def global_and_local() -> Figure:
    """Three lanes over one source sentence, while the decoder writes "maison", at t = 6, counted from 0.

    A circle is a weight, computed from the same scores in every lane; a dot is a word that is not looked at.
    The band is the window, the triangle its centre. Over local-p runs the Gaussian, sigma = D / 2.
    """
    with figure_style():
        figure, axes = page((7.6, 4.9), (0, 14.3), (0, 9.2))
        everything, near = range(len(SOURCE)), _window(TIME)
        _lane(axes, 7.5, "global", _softmax(everything), "9 scores, however\nfar the word is")
        _lane(axes, 5.6, "local-m", _softmax(near), "5 scores;\n“house” is out\nof sight", centre=TIME,
              says="$p_t = t = 6$")
        bent = {j: share * _gaussian(j) for j, share in _softmax(_window(PREDICTED)).items()}
        note = f"4 scores, bent by\na Gaussian; now\nthe row sums to {sum(bent.values()):.2f}"
        _lane(axes, 2.4, "local-p", bent, note, centre=PREDICTED, says="$p_t = 1.3$, predicted from $h_t$")
        _curve(axes, 2.98)
        _words(axes)
    return figure


def _window(centre: float) -> list[int]:
    return [j for j in range(len(SOURCE)) if abs(j - centre) <= HALF_WIDTH]


def _softmax(window) -> dict[int, float]:
    raised = {j: math.exp(SCORES[j]) for j in window}
    return {j: value / sum(raised.values()) for j, value in raised.items()}


def _gaussian(position: float) -> float:
    return math.exp(-((position - PREDICTED) ** 2) / (2 * (HALF_WIDTH / 2) ** 2))


def _lane(axes: Axes, y: float, name: str, weights: dict, note: str, *, centre=None, says: str = "") -> None:
    """One mechanism: its name, its weights over the source, its window if it has one, and what it costs."""
    colour = MECHANISMS[name].colour
    axes.text(0.1, y, name, va="center", fontsize=13, fontweight="bold", color=text_colour(colour))
    axes.text(RIGHT, y, note, va="center", fontsize=10)
    first, last = LEFT + min(weights) - 0.48, LEFT + max(weights) + 0.48
    style = "round,pad=0,rounding_size=0.2"
    axes.add_patch(FancyBboxPatch((first, y - 0.55), last - first, 1.1, boxstyle=style, facecolor=colour,
                                  alpha=0.16, linewidth=0, zorder=0))
    for j in range(len(SOURCE)):
        if j not in weights:
            axes.add_patch(Circle((LEFT + j, y), 0.06, facecolor=GREY, linewidth=0))
            continue
        weight(axes, LEFT + j, y, weights[j], f"{weights[j]:.2f}".lstrip("0"), radius=0.4, size=9.5)
    if centre is not None:
        axes.plot(LEFT + centre, y - 0.75, marker="^", markersize=9, color=text_colour(colour), linewidth=0)
        axes.text(LEFT + centre + 0.35, y - 0.95, says, va="center", fontsize=10.5)


def _curve(axes: Axes, bottom: float) -> None:
    """exp(-(s - p_t)^2 / (2 sigma^2)) over the window, and beyond it, dotted, where it is not used."""
    colour = text_colour(MECHANISMS["local-p"].colour)
    edge = PREDICTED + HALF_WIDTH
    for start, end, style in [(-0.5, edge, "-"), (edge, len(SOURCE) - 0.5, ":")]:
        places = [start + (end - start) * i / 60 for i in range(61)]
        heights = [bottom + 1.1 * _gaussian(s) for s in places]
        axes.plot([LEFT + s for s in places], heights, color=colour, linestyle=style, linewidth=1.8)
    axes.text(LEFT + edge - 0.45, bottom + 0.78, r"Gaussian, $\sigma = D/2$", fontsize=10)


def _words(axes: Axes) -> None:
    """The source below, the target above: what is there, and what has been written of it."""
    for j, word in enumerate(SOURCE):
        axes.text(LEFT + j, 0.72, word, ha="center", va="center", fontsize=9.5)
        axes.text(LEFT + j, 0.2, str(j), ha="center", va="center", fontsize=9, color=GREY)
    axes.text(0.1, 0.72, "source", va="center")
    axes.text(0.1, 0.2, "position", va="center", fontsize=9, color=GREY)
    *written, now = TARGET.split()
    axes.text(0.1, 8.75, "writing", va="center")
    axes.text(LEFT - 0.48, 8.75, " ".join(written), va="center", color=GREY)
    axes.text(LEFT + 5.25, 8.75, f"{now}  ($t = {TIME}$)", va="center", fontweight="bold")
