"""The atlas: every mechanism of the course as a choice of parts of the one equation.

    context(q) = sum_i weight_i v_i          weight = normalise(score(q, k_i), which i are visible)

A row says in words and formulas what was chosen. It also carries the choice as code: how the mechanism is
built, and how n vectors are read with it. So parameters are counted and costs measured, not looked up.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.attention import scores
from attncourse.attention.blockwise import attend_blockwise
from attncourse.attention.equation import Attended, attend
from attncourse.attention.hard import HardAttention
from attncourse.attention.linear import LinearAttention
from attncourse.attention.local import LocalAttention
from attncourse.attention.masks import window_mask
from attncourse.attention.multi_head import MultiHeadAttention
from attncourse.attention.pooling import AttentionPooling
from attncourse.attention.positions import Rotary


class Sizes(NamedTuple):
    """How large: d, h, heads with keys of their own, D (or r), longest source, object queries."""

    width: int = 64
    heads: int = 4
    key_value_heads: int = 2
    reach: int = 16
    longest: int = 4096
    objects: int = 100


class Paper(NamedTuple):
    """A paper as the text cites it, the name of its entry in the book's references, and its address."""

    cited: str
    key: str
    address: str


SIZES = Sizes()
Positions = Float[Tensor, "1 n d"]


@dataclass(frozen=True)
class Mechanism:
    """One row. Its words are Markdown, with formulas between dollars; n is the number of positions.

    Attributes:
        name: in the atlas.
        chapter: the notebook that introduces it, without its ending.
        paper: the one it is from.
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
    paper: Paper
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


def equation_table(rows: Sequence[Mechanism] | None = None) -> str:
    """What each mechanism puts into the one equation, as a Markdown table; all rows if none are given."""
    parts = ("query", "key", "value", "score", "visible", "normalise")
    lines = ([row.name, *(getattr(row, part) for part in parts)] for row in rows or ATLAS)
    return _markdown(("mechanism", *parts), lines)


def cost_table(rows: Sequence[Mechanism] | None = None, sizes: Sizes = SIZES) -> str:
    """What each mechanism learns and costs, where the course has it and whence, as a Markdown table."""
    lines = (
        [row.name, f"{row.parameters(sizes):,}", f"${row.step}$", f"${row.layer}$", f"${row.held}$",
         f"[{row.chapter[:2]}]({row.chapter}.ipynb)", f"[{row.paper.cited}]({row.paper.address})"]
        for row in rows or ATLAS
    )
    return _markdown(("mechanism", "parameters", "a step", "a layer", "held", "chapter", "paper"), lines)


def _markdown(heads, lines) -> str:
    rule = ["---:" if head == "parameters" else "---" for head in heads]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *lines))


# --- The papers --------------------------------------------------------------------------------------------


def _arxiv(cited: str, key: str, number: str) -> Paper:
    return Paper(cited, key, f"https://arxiv.org/abs/{number}")


BAHDANAU = _arxiv("Bahdanau et al. 2015", "bahdanau2015", "1409.0473")
XU = _arxiv("Xu et al. 2015", "xu2015", "1502.03044")
LUONG = _arxiv("Luong et al. 2015", "luong2015", "1508.04025")
YANG = Paper("Yang et al. 2016", "yang2016", "https://doi.org/10.18653/v1/N16-1174")
VASWANI = _arxiv("Vaswani et al. 2017", "vaswani2017", "1706.03762")

# --- One sequence asks another -----------------------------------------------------------------------------

SOFT = Mechanism(
    name="soft", chapter="02_soft_attention", paper=BAHDANAU,
    query="$s_{i-1}$, the decoder's last state", key="$h_j$, annotation", value="$h_j$",
    score=f"${scores.AdditiveScore.formula}$", visible="all", normalise="softmax",
    step="n d", layer="n^2 d", held="n^2 d",
    build=lambda sizes: scores.AdditiveScore(sizes.width, sizes.width, sizes.width),
    read=lambda score, y, x, sizes, weights: attend(y, x, x, score=score),
)
HARD = replace(
    SOFT, name="hard", chapter="03_hard_attention", paper=XU,
    query="$s_{t-1}$, the decoder's last state", key="$a_i$, cell of an image", value="$a_i$",
    normalise="one sample",
    build=lambda sizes: HardAttention(SOFT.build(sizes)),
    read=lambda layer, y, x, sizes, weights: Attended(*layer(y, x, x)[:2]),
)
GENERAL = replace(
    SOFT, name="global, general", chapter="04_global_attention", paper=LUONG,
    query="$h_t$, the decoder's new state", key=r"$\bar h_s$, the encoder's top state", value=r"$\bar h_s$",
    score=f"${scores.GeneralScore.formula}$", held="n^2",
    build=lambda sizes: scores.GeneralScore(sizes.width, sizes.width),
)
DOT = replace(
    GENERAL, name="global, dot", score=f"${scores.DotScore.formula}$", build=lambda sizes: scores.DotScore()
)
CONCAT = replace(
    GENERAL, name="global, concat", score=f"${scores.ConcatScore.formula}$", held="n^2 d",
    build=lambda sizes: scores.ConcatScore(sizes.width, sizes.width, sizes.width),
)
LOCATION = replace(
    GENERAL, name="global, location", key="none", score=f"${scores.LocationScore.formula}$",
    build=lambda sizes: scores.LocationScore(sizes.width, sizes.longest),
)


def _in_a_window(layer: LocalAttention, y: Positions, x: Positions, weights: bool) -> Attended:
    lengths = torch.tensor([x.shape[1]])
    if weights:
        return layer(y, x, x, lengths=lengths)
    return Attended(layer.look(y, x, x, lengths=lengths).context, None)  # nothing as long as the source


LOCAL_M = replace(
    GENERAL, name="local-m", chapter="05_local_attention", visible=r"$[t - D,\ t + D]$",
    step="D d", layer="n D d", held="n D d",
    build=lambda sizes: LocalAttention(GENERAL.build(sizes), half_width=sizes.reach),
    read=lambda layer, y, x, sizes, weights: _in_a_window(layer, y, x, weights),
)
LOCAL_P = replace(
    LOCAL_M, name="local-p", normalise="softmax, times a Gaussian",
    visible=r"$[p_t - D,\ p_t + D]$, with $p_t = S\,\sigma(v_p^\top \tanh(W_p h_t))$",
    build=lambda sizes: LocalAttention(
        GENERAL.build(sizes), half_width=sizes.reach, centre="predicted", gaussian="outside",
        query_width=sizes.width,
    ),
)

# --- A sequence reads itself -------------------------------------------------------------------------------

POOLING = Mechanism(
    name="attention pooling", chapter="06_self_attention", paper=YANG,
    query="$u_w$, learned", key=r"$u_t = \tanh(W h_t + b)$", value="$h_t$, state of a word",
    score=f"${scores.DotScore.formula}$", visible="all", normalise="softmax",
    step="n d", layer="n d", held="n d",
    build=lambda sizes: AttentionPooling(sizes.width, width=sizes.width),
    read=lambda layer, y, x, sizes, weights: layer(x),
)
SELF = replace(
    POOLING, name="self-attention", paper=VASWANI, query="$x_i$", key="$x_j$", value="$x_j$",
    score=f"${scores.ScaledDotScore.formula}$", layer="n^2 d", held="n^2",
    build=lambda sizes: scores.ScaledDotScore(),
    read=lambda score, y, x, sizes, weights: attend(x, x, x, score=score),
)
MULTI_HEAD = replace(
    SELF, name="multi-head", chapter="07_multi_head_attention",
    query="$x_i W_Q$, in each head", key="$x_j W_K$", value="$x_j W_V$", score=r"$q^\top k / \sqrt{d_k}$",
    held="h n^2",
    build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads),
    read=lambda layer, y, x, sizes, weights: layer(x, x, x),
)
MASKED = replace(
    MULTI_HEAD, name="masked", visible=r"$j \le i$: itself and those before",
    read=lambda layer, y, x, sizes, weights: layer(x, x, x, causal=True),
)
CROSS = replace(
    MULTI_HEAD, name="cross-attention", chapter="08_transformer", query="$x_i W_Q$, of the decoder",
    key="$z_j W_K$, of the encoder", value="$z_j W_V$",
    read=lambda layer, y, x, sizes, weights: layer(y, x, x),
)
VISION = replace(
    MULTI_HEAD, name="vision transformer", chapter="09_vision_transformer",
    paper=_arxiv("Dosovitskiy et al. 2021", "dosovitskiy2021", "2010.11929"),
    query="$x_i W_Q$, of a patch or the class token",
)
OBJECTS = replace(
    CROSS, name="object queries", chapter="10_detr",
    paper=_arxiv("Carion et al. 2020", "carion2020", "2005.12872"),
    query="one of $m$ learned vectors, times $W_Q$", key="cell of an image and its place, times $W_K$",
    value="cell, times $W_V$", layer="m n d", held="h m n",
    build=lambda sizes: nn.ModuleDict(
        {"attention": MULTI_HEAD.build(sizes), "queries": nn.Embedding(sizes.objects, sizes.width)}
    ),
    read=lambda parts, y, x, sizes, weights: parts["attention"](parts["queries"].weight[None], x, x),
)

# --- Small changes -----------------------------------------------------------------------------------------

WINDOW = replace(
    MULTI_HEAD, name="sliding window", chapter="11_atlas",
    paper=_arxiv("Beltagy et al. 2020", "beltagy2020", "2004.05150"),
    visible=r"$\lvert i - j \rvert \le r$, by a mask",
    read=lambda layer, y, x, sizes, weights: layer(
        x, x, x, mask=window_mask(x.shape[1], x.shape[1], sizes.reach)
    ),
)
GROUPED = replace(
    MULTI_HEAD, name="grouped-query", paper=_arxiv("Ainslie et al. 2023", "ainslie2023", "2305.13245"),
    key="$x_j W_K$, one for several heads", value="$x_j W_V$, one for several heads",
    build=lambda sizes: MultiHeadAttention(
        sizes.width, sizes.heads, key_value_heads=sizes.key_value_heads
    ),
)
MULTI_QUERY = replace(
    MULTI_HEAD, name="multi-query", paper=_arxiv("Shazeer 2019", "shazeer2019", "1911.02150"),
    key="$x_j W_K$, one for all heads", value="$x_j W_V$, one for all heads",
    build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads, key_value_heads=1),
)
ROTARY = replace(
    MULTI_HEAD, name="rotary", chapter="08_transformer",
    paper=_arxiv("Su et al. 2021", "su2021", "2104.09864"),
    score=r"$(R_i\, q)^\top R_j\, k / \sqrt{d_k}$",
    build=lambda sizes: MultiHeadAttention(sizes.width, sizes.heads, positions=Rotary()),
)
LINEAR = replace(
    MULTI_HEAD, name="linear", chapter="11_atlas",
    paper=_arxiv("Katharopoulos et al. 2020", "katharopoulos2020", "2006.16236"),
    score=r"$\phi(q)^\top \phi(k)$", normalise="divide by the sum",
    step="d^2 / h", layer="n d^2 / h", held="n d",
    build=lambda sizes: LinearAttention(sizes.width, sizes.heads),
    read=lambda layer, y, x, sizes, weights: layer(x, x, x, need_weights=weights),
)
FUSED = replace(
    MULTI_HEAD, name="fused", chapter="11_atlas",
    paper=_arxiv("Dao et al. 2022", "dao2022", "2205.14135"), held="n d",
    read=lambda layer, y, x, sizes, weights: layer(x, x, x, need_weights=weights),
)
BLOCKWISE = replace(
    SELF, name="in blocks", chapter="11_atlas",
    paper=_arxiv("Rabe and Staats 2021", "rabe2021", "2112.05682"), held="n b",
    read=lambda score, y, x, sizes, weights: (
        SELF.read(score, y, x, sizes, True) if weights else attend_blockwise(x, x, x, score=score)
    ),
)

ATLAS: tuple[Mechanism, ...] = (
    SOFT, HARD, DOT, GENERAL, CONCAT, LOCATION, LOCAL_M, LOCAL_P, POOLING, SELF, MULTI_HEAD, MASKED, CROSS,
    VISION, OBJECTS, WINDOW, GROUPED, MULTI_QUERY, ROTARY, LINEAR, FUSED, BLOCKWISE,
)
