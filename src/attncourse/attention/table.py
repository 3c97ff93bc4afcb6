"""The table of scores, read from the classes themselves: formula, parameters counted, cost."""

from dataclasses import dataclass

from torch import nn

from attncourse.attention import scores


@dataclass(frozen=True)
class ScoreRow:
    """One line of the table: a score's class name, formula (LaTeX), number of parameters, and cost.

    `cost` is the number of multiplications for one query and one key, up to a constant; `key_side` says
    whether part of it can be computed once per key (`project_keys`).
    """

    name: str
    formula: str
    parameters: int
    cost: str
    key_side: bool


def score_table(query_width: int, key_width: int, *, width: int, max_keys: int) -> list[ScoreRow]:
    """Every score built at the given sizes, as rows of formula, counted parameters and cost.

    Args:
        query_width: d_q. Scores without parameters need d_q = d_k to be called, not to be counted.
        key_width: d_k.
        width: n, hidden width of the additive and concat scores.
        max_keys: positions of the location score.
    """
    built: list[nn.Module] = [
        scores.DotScore(),
        scores.ScaledDotScore(),
        scores.CosineScore(),
        scores.GaussianScore(),
        scores.GeneralScore(query_width, key_width),
        scores.AdditiveScore(query_width, key_width, width),
        scores.ConcatScore(query_width, key_width, width),
        scores.LocationScore(query_width, max_keys),
    ]
    return [
        ScoreRow(type(score).__name__, score.formula, sum(p.numel() for p in score.parameters()), score.cost,
                 hasattr(score, "project_keys"))
        for score in built
    ]
