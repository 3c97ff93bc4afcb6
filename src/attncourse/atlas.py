"""The atlas as tables: what every mechanism puts into the one equation, what it costs, and where it is from.

The rows are in `attncourse.attention.atlas`, which knows formulas and code. Here they become Markdown, with
links to chapters and papers.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from attncourse.attention import ATLAS, SIZES, Mechanism, Sizes


class Paper(NamedTuple):
    """A paper as the text cites it, and its address."""

    cited: str
    address: str


# By the key of the entry in the book's references, which is what a row names.
PAPERS = {
    "bahdanau2015": Paper("Bahdanau et al. 2015", "https://arxiv.org/abs/1409.0473"),
    "xu2015": Paper("Xu et al. 2015", "https://arxiv.org/abs/1502.03044"),
    "luong2015": Paper("Luong et al. 2015", "https://arxiv.org/abs/1508.04025"),
    "yang2016": Paper("Yang et al. 2016", "https://doi.org/10.18653/v1/N16-1174"),
    "vaswani2017": Paper("Vaswani et al. 2017", "https://arxiv.org/abs/1706.03762"),
    "dosovitskiy2021": Paper("Dosovitskiy et al. 2021", "https://arxiv.org/abs/2010.11929"),
    "carion2020": Paper("Carion et al. 2020", "https://arxiv.org/abs/2005.12872"),
    "beltagy2020": Paper("Beltagy et al. 2020", "https://arxiv.org/abs/2004.05150"),
    "ainslie2023": Paper("Ainslie et al. 2023", "https://arxiv.org/abs/2305.13245"),
    "shazeer2019": Paper("Shazeer 2019", "https://arxiv.org/abs/1911.02150"),
    "su2021": Paper("Su et al. 2021", "https://arxiv.org/abs/2104.09864"),
    "katharopoulos2020": Paper("Katharopoulos et al. 2020", "https://arxiv.org/abs/2006.16236"),
    "ye2024": Paper("Ye et al. 2024", "https://arxiv.org/abs/2410.05258"),
    "dao2022": Paper("Dao et al. 2022", "https://arxiv.org/abs/2205.14135"),
    "rabe2021": Paper("Rabe and Staats 2021", "https://arxiv.org/abs/2112.05682"),
}


def equation_table(rows: Sequence[Mechanism] | None = None) -> str:
    """What each mechanism puts into the one equation, as a Markdown table; all rows if none are given."""
    parts = ("query", "key", "value", "score", "visible", "normalise")
    lines = ([row.name, *(getattr(row, part) for part in parts)] for row in rows or ATLAS)
    return _markdown(("mechanism", *parts), lines)


def cost_table(rows: Sequence[Mechanism] | None = None, sizes: Sizes = SIZES) -> str:
    """What each mechanism learns and costs, where the course has it and whence, as a Markdown table."""
    lines = ([row.name, f"{row.parameters(sizes):,}", f"${row.step}$", f"${row.layer}$", f"${row.held}$",
              f"[{row.chapter[:2]}]({row.chapter}.ipynb)", _link(PAPERS[row.paper])] for row in rows or ATLAS)
    return _markdown(("mechanism", "parameters", "a step", "a layer", "held", "chapter", "paper"), lines)


def _link(paper: Paper) -> str:
    return f"[{paper.cited}]({paper.address})"


def _markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rule = ["---:" if head == "parameters" else "---" for head in heads]
    return "\n".join(f"| {' | '.join(line)} |" for line in (heads, rule, *lines))
