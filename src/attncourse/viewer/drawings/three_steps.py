"""The picture of chapter 00: score, normalise, weigh, from top to bottom, one column for each token."""

from collections.abc import Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from torch import Tensor

from attncourse.attention import DotScore, attend
from attncourse.viewer.style import INK, MECHANISMS, figure_style
from attncourse.viewer.weights import checked_tokens

READ = MECHANISMS["additive attention"].colour
PALE = "#d9e8f3"
SPACE = 2.0                    # from one token's column to the next
# The heights of the rows, from the top down.
TOKEN, KEY, SCORE, SOFTMAX, WEIGHT, VALUE, CONTEXT = 10.5, 9.5, 7.9, 6.6, 4.9, 3.3, 1.0
BAR = 0.9                      # height of the bar of a weight of 1


def three_steps(
    tokens: Sequence[str],
    query: Float[Tensor, "d"],
    key: Float[Tensor, "keys d"],
    value: Float[Tensor, "keys d_v"],
) -> Figure:
    """One query over a few tokens, with the dot score: the scores, the weights and the context are computed.

    Args:
        tokens: one word for each key, at most 4.
        query: (d,).
        key: (keys, d).
        value: (keys, d_v).

    Raises:
        ValueError: more than 4 tokens, or a number of keys or values that differs from the number of tokens.
    """
    tokens = checked_tokens("tokens", tokens)
    if len(tokens) > 4:
        raise ValueError(f"tokens holds {len(tokens)}: the drawing has room for at most 4")
    for name, vectors in {"key": key, "value": value}.items():
        if vectors.dim() != 2 or len(vectors) != len(tokens):
            raise ValueError(f"{name} has shape {tuple(vectors.shape)}: it must be ({len(tokens)}, width), "
                             "one vector for each token")
    score = DotScore()
    scores = score(query[None], key)[0]
    context, weights = attend(query[None], key, value, score=score)
    with figure_style():
        figure = Figure(figsize=(5.0, 5.8))
        axes = figure.add_subplot()
        axes.set(xlim=(-3.4, SPACE * len(tokens) - 0.9), ylim=(0.3, 10.8))
        axes.set_axis_off()
        axes.set_title("Score every key, normalise, weigh the values")
        middle = SPACE * (len(tokens) - 1) / 2
        for i, token in enumerate(tokens):
            _column(axes, SPACE * i, token, key[i], scores[i].item(), weights[0, i].item(), value[i], middle)
        _query_and_softmax(axes, query, SPACE * (len(tokens) - 1))
        _box(axes, middle, CONTEXT, f"context\n{_vector(context[0])}", width=2.2, face=READ, ink="white")
        _name_the_steps(axes)
    return figure


def _column(axes: Axes, x: float, token: str, key: Tensor, score: float, weight: float, value: Tensor,
            context_x: float) -> None:
    """What happens at one position."""
    axes.text(x, TOKEN, token, ha="center", va="center", fontweight="bold", parse_math=False)
    _box(axes, x, KEY, f"key\n{_vector(key)}")
    _arrow(axes, (x, KEY - 0.5), (x, SCORE + 0.4))
    axes.text(x, SCORE, f"{score:g}", ha="center", va="center", fontsize=13,
              bbox={"boxstyle": "circle,pad=0.3", "facecolor": "white", "edgecolor": INK})
    _arrow(axes, (x, SCORE - 0.45), (x, SOFTMAX + 0.32))
    _arrow(axes, (x, SOFTMAX - 0.32), (x, WEIGHT + BAR * weight + 0.45))
    axes.bar(x, BAR * weight, bottom=WEIGHT, width=0.9, color=READ)
    axes.plot([x - 0.55, x + 0.55], [WEIGHT, WEIGHT], color=INK, linestyle="-", linewidth=1)
    axes.text(x, WEIGHT + BAR * weight + 0.08, f"{weight:.2f}", ha="center", va="bottom", fontsize=12)
    _arrow(axes, (x, WEIGHT - 0.12), (x, VALUE + 0.52))
    _box(axes, x, VALUE, f"value\n{_vector(value)}")
    # The thicker the line, the more of the value goes into the context.
    axes.plot([x, context_x + 0.25 * (x - context_x)], [VALUE - 0.5, CONTEXT + 0.5], color=READ,
              linestyle="-", linewidth=1 + 8 * weight, solid_capstyle="butt", zorder=0)


def _query_and_softmax(axes: Axes, query: Tensor, last: float) -> None:
    """What the positions share: the query that meets every key, and the softmax over all scores."""
    axes.plot([-1.2, last], [SCORE, SCORE], color=INK, linestyle="-", linewidth=1, zorder=0)
    _box(axes, -1.9, SCORE, f"query\n{_vector(query)}", width=1.4, face="white")
    _box(axes, last / 2, SOFTMAX, "softmax", width=last + 1.5, height=0.62)


def _name_the_steps(axes: Axes) -> None:
    for number, name, height in [(1, "score", KEY), (2, "normalise", SOFTMAX), (3, "weigh", VALUE)]:
        axes.text(-3.3, height, f"{number}  {name}", va="center", fontsize=13, fontweight="bold")


def _box(axes: Axes, x: float, y: float, text: str, width: float = 1.5, height: float = 1.0,
         face: str = PALE, ink: str = INK) -> None:
    corner = (x - width / 2, y - height / 2)
    shape = "round,pad=0,rounding_size=0.12"
    axes.add_patch(FancyBboxPatch(corner, width, height, boxstyle=shape, facecolor=face, edgecolor=INK))
    axes.text(x, y, text, ha="center", va="center", color=ink, fontsize=10.5, parse_math=False)


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK, "shrinkA": 0, "shrinkB": 0})


def _vector(vector: Tensor) -> str:
    # Adding 0 turns -0.0 into 0.0, which would print as "-0".
    return "(" + ", ".join(f"{round(x, 1) + 0.0:g}".replace("-", "−") for x in vector.tolist()) + ")"
