"""The atlas: every mechanism of the course as a choice of parts of the one equation.

    context(q) = sum_i weight_i v_i          weight = normalise(score(q, k_i), which i are visible)

A row says in words and formulas what was chosen. It also carries the choice as code: how the mechanism is
built, and how n vectors are read with it. So parameters are counted and costs measured, not looked up.
A new mechanism is one row more; `attncourse.atlas` prints them as tables, with links.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.attention import scores
from attncourse.attention.blockwise import attend_blockwise
from attncourse.attention.differential import DifferentialRead
from attncourse.attention.equation import Attended, attend
from attncourse.attention.hard import HardAttention
from attncourse.attention.linear import LinearAttention
from attncourse.attention.local import LocalAttention
from attncourse.attention.masks import window_mask
from attncourse.attention.multi_head import MultiHeadAttention
from attncourse.attention.pooling import AttentionPooling
from attncourse.attention.positions import Rotary
from attncourse.attention.reads import WindowRead


class Sizes(NamedTuple):
    """How large: d, h, heads with keys of their own, D (or r), longest source, object queries."""

    width: int = 64
    heads: int = 4
    key_value_heads: int = 2
    reach: int = 16
    longest: int = 4096
    objects: int = 100


SIZES = Sizes()
Positions = Float[Tensor, "1 n d"]


@dataclass(frozen=True)
class Mechanism:
    """One row, in words and in formulas between dollars; n is the number of positions.

    Attributes:
        name: in the atlas.
        chapter: the notebook that introduces it, without its ending.
        paper: the one it is from, by its key in the list of references.
        query: what asks.
        key: what is compared with it.
        value: what is read.
        score: how well a query and a key match.
        visible: which keys a query may read.
        normalise: how scores become weights.
        step: growth of the multiplications for one query over n keys, projections apart.
        layer: the same for n positions; "n^2 d" grows with the square.
        held: growth of the numbers that a layer holds at one time, as this package computes it.
        build: sizes -> the module, whose parameters are all that is learned.
        read: (module, asking, source, sizes, need_weights) -> what `asking` reads of `source`. A mechanism
            within one sequence reads `source` alone; without need_weights it may return none.
    """

    name: str
    chapter: str
    paper: str
    query: str
    key: str
    value: str
    score: str
    visible: str
    normalise: str
    step: str
    layer: str
    held: str
    build: Callable[[Sizes], nn.Module]
    read: Callable[[nn.Module, Positions, Positions, Sizes, bool], Attended]

    def parameters(self, sizes: Sizes = SIZES) -> int:
        """Learned numbers, counted on the module."""
        return sum(parameter.numel() for parameter in self.build(sizes).parameters())

    def on(self, asking: Positions, source: Positions, sizes: Sizes = SIZES) -> Callable[..., Attended]:
        """The mechanism built anew, as a call that reads; `need_weights=True` asks for the weights, too."""
        module = self.build(sizes).eval()

        def read(need_weights: bool = False) -> Attended:
            return self.read(module, asking, source, sizes, need_weights)

        return read


def mechanism(name: str) -> Mechanism:
    """A row of the atlas.

    Raises:
        ValueError: no such row.
    """
    for row in ATLAS:
        if row.name == name:
            return row
    raise ValueError(f"name is {name!r}: choose from {', '.join(row.name for row in ATLAS)}")


# --- How a mechanism reads ---------------------------------------------------------------------------------


def _ask(score: nn.Module, y: Positions, x: Positions, sizes: Sizes, weights: bool) -> Attended:
    """One sequence asks another."""
    return attend(y, x, x, score=score)


def _ask_by_choice(layer: HardAttention, y: Positions, x: Positions, sizes: Sizes, weights: bool) -> Attended:
    return Attended(*layer(y, x, x)[:2])


def _ask_a_window(layer: LocalAttention, y: Positions, x: Positions, sizes: Sizes, weights: bool) -> Attended:
    lengths = torch.tensor([x.shape[1]])
    if weights:
        return layer(y, x, x, lengths=lengths)
    return Attended(layer.look(y, x, x, lengths=lengths).context, None)  # nothing as long as the source


def _ask_with_heads(layer: nn.Module, y: Positions, x: Positions, sizes: Sizes, weights: bool) -> Attended:
    return layer(y, x, x)


def _ask_with_objects(
    parts: nn.ModuleDict, y: Positions, x: Positions, sizes: Sizes, weights: bool
) -> Attended:
    return parts["attention"](parts["queries"].weight[None], x, x)


def _pool(layer: AttentionPooling, y: Positions, x: Positions, sizes: Sizes, weights: bool) -> Attended:
    return layer(x)


def _self(score: nn.Module, y: Positions, x: Positions, sizes: Sizes, weights: bool) -> Attended:
    return attend(x, x, x, score=score)


def _self_in_blocks(score: nn.Module, y: Positions, x: Positions, sizes: Sizes, weights: bool) -> Attended:
    return attend(x, x, x, score=score) if weights else attend_blockwise(x, x, x, score=score)


def _self_with_heads(layer: nn.Module, y: Positions, x: Positions, sizes: Sizes, weights: bool) -> Attended:
    return layer(x, x, x)


def _self_as_asked(layer: nn.Module, y: Positions, x: Positions, sizes: Sizes, weights: bool) -> Attended:
    """Without weights where nobody asks for them: another way of computing, or another cost."""
    return layer(x, x, x, need_weights=weights)


def _self_in_order(layer: nn.Module, y: Positions, x: Positions, sizes: Sizes, weights: bool) -> Attended:
    return layer(x, x, x, causal=True)


def _self_in_a_window(layer: nn.Module, y: Positions, x: Positions, sizes: Sizes, weights: bool) -> Attended:
    return layer(x, x, x, mask=window_mask(x.shape[1], x.shape[1], sizes.reach))


# --- The rows ----------------------------------------------------------------------------------------------

ATLAS: tuple[Mechanism, ...] = (
    # One sequence asks another.
    Mechanism(
        name="soft", chapter="02_soft_attention", paper="bahdanau2015",
        query="$s_{i-1}$, the decoder's last state", key="$h_j$, annotation", value="$h_j$",
        score=f"${scores.AdditiveScore.formula}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="n^2 d",
        build=lambda sizes: scores.AdditiveScore(sizes.width, sizes.width, sizes.width),
        read=_ask,
    ),
    Mechanism(
        name="hard", chapter="03_hard_attention", paper="xu2015",
        query="$s_{t-1}$, the decoder's last state", key="$a_i$, cell of an image", value="$a_i$",
        score=f"${scores.AdditiveScore.formula}$", visible="all", normalise="one sample",
        step="n d", layer="n^2 d", held="n^2 d",
        build=lambda sizes: HardAttention(scores.AdditiveScore(sizes.width, sizes.width, sizes.width)),
        read=_ask_by_choice,
    ),
    Mechanism(
        name="global, dot", chapter="04_global_attention", paper="luong2015",
        query="$h_t$, the decoder's new state",
        key=r"$\bar h_s$, the encoder's top state", value=r"$\bar h_s$",
        score=f"${scores.DotScore.formula}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="n^2",
        build=lambda sizes: scores.DotScore(),
        read=_ask,
    ),
    Mechanism(
        name="global, general", chapter="04_global_attention", paper="luong2015",
        query="$h_t$, the decoder's new state",
        key=r"$\bar h_s$, the encoder's top state", value=r"$\bar h_s$",
        score=f"${scores.GeneralScore.formula}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="n^2",
        build=lambda sizes: scores.GeneralScore(sizes.width, sizes.width),
        read=_ask,
    ),
    Mechanism(
        name="global, concat", chapter="04_global_attention", paper="luong2015",
        query="$h_t$, the decoder's new state",
        key=r"$\bar h_s$, the encoder's top state", value=r"$\bar h_s$",
        score=f"${scores.ConcatScore.formula}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="n^2 d",
        build=lambda sizes: scores.ConcatScore(sizes.width, sizes.width, sizes.width),
        read=_ask,
    ),
    Mechanism(
        name="global, location", chapter="04_global_attention", paper="luong2015",
        query="$h_t$, the decoder's new state", key="none", value=r"$\bar h_s$",
        score=f"${scores.LocationScore.formula}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="n^2",
        build=lambda sizes: scores.LocationScore(sizes.width, sizes.longest),
        read=_ask,
    ),
    Mechanism(
        name="local-m", chapter="05_local_attention", paper="luong2015",
        query="$h_t$, the decoder's new state",
        key=r"$\bar h_s$, the encoder's top state", value=r"$\bar h_s$",
        score=f"${scores.GeneralScore.formula}$", visible=r"$[t - D,\ t + D]$", normalise="softmax",
        step="D d", layer="n D d", held="n D d",
        build=lambda sizes: LocalAttention(
            scores.GeneralScore(sizes.width, sizes.width), half_width=sizes.reach
        ),
        read=_ask_a_window,
    ),
    Mechanism(
        name="local-p", chapter="05_local_attention", paper="luong2015",
        query="$h_t$, the decoder's new state",
        key=r"$\bar h_s$, the encoder's top state", value=r"$\bar h_s$",
        score=f"${scores.GeneralScore.formula}$", normalise="softmax, times a Gaussian",
        visible=r"$[p_t - D,\ p_t + D]$, with $p_t = S\,\sigma(v_p^\top \tanh(W_p h_t))$",
        step="D d", layer="n D d", held="n D d",
        build=lambda sizes: LocalAttention(
            scores.GeneralScore(sizes.width, sizes.width), half_width=sizes.reach, centre="predicted",
            gaussian="outside", query_width=sizes.width,
        ),
        read=_ask_a_window,
    ),
    # A sequence reads itself.
    Mechanism(
        name="attention pooling", chapter="06_self_attention", paper="yang2016",
        query="$u_w$, learned", key=r"$u_t = \tanh(W h_t + b)$", value="$h_t$, state of a word",
        score=f"${scores.DotScore.formula}$", visible="all", normalise="softmax",
        step="n d", layer="n d", held="n d",
        build=lambda sizes: AttentionPooling(sizes.width, width=sizes.width),
        read=_pool,
    ),
    Mechanism(
        name="self-attention", chapter="06_self_attention", paper="vaswani2017",
        query="$x_i$", key="$x_j$", value="$x_j$",
        score=f"${scores.ScaledDotScore.formula}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="n^2",
        build=lambda sizes: scores.ScaledDotScore(),
        read=_self,
    ),
    Mechanism(
        name="multi-head", chapter="07_multi_head_attention", paper="vaswani2017",
        query="$x_i W_Q$, in each head", key="$x_j W_K$", value="$x_j W_V$",
        score=r"$q^\top k / \sqrt{d_k}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="h n^2",
        build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads),
        read=_self_with_heads,
    ),
    Mechanism(
        name="masked", chapter="07_multi_head_attention", paper="vaswani2017",
        query="$x_i W_Q$, in each head", key="$x_j W_K$", value="$x_j W_V$",
        score=r"$q^\top k / \sqrt{d_k}$", visible=r"$j \le i$: itself and those before", normalise="softmax",
        step="n d", layer="n^2 d", held="h n^2",
        build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads),
        read=_self_in_order,
    ),
    Mechanism(
        name="cross-attention", chapter="08_transformer", paper="vaswani2017",
        query="$x_i W_Q$, of the decoder", key="$z_j W_K$, of the encoder", value="$z_j W_V$",
        score=r"$q^\top k / \sqrt{d_k}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="h n^2",
        build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads),
        read=_ask_with_heads,
    ),
    Mechanism(
        name="vision transformer", chapter="09_vision_transformer", paper="dosovitskiy2021",
        query="$x_i W_Q$, of a patch or the class token", key="$x_j W_K$", value="$x_j W_V$",
        score=r"$q^\top k / \sqrt{d_k}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="h n^2",
        build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads),
        read=_self_with_heads,
    ),
    Mechanism(
        name="object queries", chapter="10_detr", paper="carion2020",
        query="one of $m$ learned vectors, times $W_Q$",
        key="cell of an image and its place, times $W_K$", value="cell, times $W_V$",
        score=r"$q^\top k / \sqrt{d_k}$", visible="all", normalise="softmax",
        step="n d", layer="m n d", held="h m n",
        build=lambda sizes: nn.ModuleDict({
            "attention": MultiHeadAttention(sizes.width, sizes.heads),
            "queries": nn.Embedding(sizes.objects, sizes.width),
        }),
        read=_ask_with_objects,
    ),
    # Small changes.
    Mechanism(
        name="sliding window", chapter="11_atlas", paper="beltagy2020",
        query="$x_i W_Q$, in each head", key="$x_j W_K$", value="$x_j W_V$",
        score=r"$q^\top k / \sqrt{d_k}$", normalise="softmax",
        visible=r"$\lvert i - j \rvert \le r$, by a mask",
        step="n d", layer="n^2 d", held="h n^2",
        build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads),
        read=_self_in_a_window,
    ),
    Mechanism(
        name="fetched window", chapter="11_atlas", paper="beltagy2020",
        query="$x_i W_Q$, in each head", key="$x_j W_K$", value="$x_j W_V$",
        score=r"$q^\top k / \sqrt{d_k}$", normalise="softmax",
        visible=r"$\lvert i - j \rvert \le r$, fetched",
        step="r d", layer="n r d", held="n r d",
        build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads, read=WindowRead(sizes.reach)),
        read=_self_as_asked,
    ),
    Mechanism(
        name="grouped-query", chapter="07_multi_head_attention", paper="ainslie2023",
        query="$x_i W_Q$, in each head",
        key="$x_j W_K$, one for several heads", value="$x_j W_V$, one for several heads",
        score=r"$q^\top k / \sqrt{d_k}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="h n^2",
        build=lambda sizes: MultiHeadAttention(
            sizes.width, sizes.heads, key_value_heads=sizes.key_value_heads
        ),
        read=_self_with_heads,
    ),
    Mechanism(
        name="multi-query", chapter="07_multi_head_attention", paper="shazeer2019",
        query="$x_i W_Q$, in each head",
        key="$x_j W_K$, one for all heads", value="$x_j W_V$, one for all heads",
        score=r"$q^\top k / \sqrt{d_k}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="h n^2",
        build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads, key_value_heads=1),
        read=_self_with_heads,
    ),
    Mechanism(
        name="rotary", chapter="08_transformer", paper="su2021",
        query="$x_i W_Q$, in each head", key="$x_j W_K$", value="$x_j W_V$",
        score=r"$(R_i\, q)^\top R_j\, k / \sqrt{d_k}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="h n^2",
        build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads, positions=Rotary()),
        read=_self_with_heads,
    ),
    Mechanism(
        name="linear", chapter="11_atlas", paper="katharopoulos2020",
        query="$x_i W_Q$, in each head", key="$x_j W_K$", value="$x_j W_V$",
        score=r"$\phi(q)^\top \phi(k)$", visible="all", normalise="divide by the sum",
        step="d^2 / h", layer="n d^2 / h", held="n d",
        build=lambda sizes: LinearAttention(sizes.width, sizes.heads),
        read=_self_as_asked,
    ),
    Mechanism(
        name="differential", chapter="11_atlas", paper="ye2024",
        query="$x_i W_Q$, in each head, in two halves", key="$x_j W_K$, in two halves", value="$x_j W_V$",
        score=r"$q^\top k / \sqrt{d_k / 2}$ of each half", visible="all",
        normalise=r"one softmax, less $\lambda$ times the other",
        step="n d", layer="n^2 d", held="h n^2",
        build=lambda sizes: MultiHeadAttention(
            sizes.width, sizes.heads, read=DifferentialRead(sizes.width // sizes.heads)
        ),
        read=_self_with_heads,
    ),
    Mechanism(
        name="fused", chapter="11_atlas", paper="dao2022",
        query="$x_i W_Q$, in each head", key="$x_j W_K$", value="$x_j W_V$",
        score=r"$q^\top k / \sqrt{d_k}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="n d",
        build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads),
        read=_self_as_asked,
    ),
    Mechanism(
        name="in blocks", chapter="11_atlas", paper="rabe2021",
        query="$x_i$", key="$x_j$", value="$x_j$",
        score=f"${scores.ScaledDotScore.formula}$", visible="all", normalise="softmax",
        step="n d", layer="n^2 d", held="n b",
        build=lambda sizes: scores.ScaledDotScore(),
        read=_self_in_blocks,
    ),
)
