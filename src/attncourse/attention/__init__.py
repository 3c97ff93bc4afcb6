"""The mechanisms: pure tensor code that knows nothing of models, data or plots."""

from attncourse.attention.equation import Attended, attend, masked_softmax
from attncourse.attention.masks import causal_mask, padding_mask
from attncourse.attention.scores import (
    AdditiveScore,
    ConcatScore,
    CosineScore,
    DotScore,
    GaussianScore,
    GeneralScore,
    LocationScore,
    ScaledDotScore,
)
from attncourse.attention.table import score_table

__all__ = [
    "AdditiveScore",
    "Attended",
    "ConcatScore",
    "CosineScore",
    "DotScore",
    "GaussianScore",
    "GeneralScore",
    "LocationScore",
    "ScaledDotScore",
    "attend",
    "causal_mask",
    "masked_softmax",
    "padding_mask",
    "score_table",
]
