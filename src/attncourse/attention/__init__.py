"""The mechanisms: pure tensor code that knows nothing of models, data or plots."""

from attncourse.attention.atlas import ATLAS, SIZES, Mechanism, Sizes, mechanism
from attncourse.attention.blockwise import attend_blockwise
from attncourse.attention.differential import DifferentialRead
from attncourse.attention.equation import Attended, attend, masked_softmax
from attncourse.attention.hard import (
    HardAttended,
    HardAttention,
    MovingAverage,
    entropy,
    log_probability,
    reward_to_go,
    score_function_loss,
)
from attncourse.attention.heads import Heads, KeysValues
from attncourse.attention.linear import LinearAttention, LinearScore, LinearState, feature_map, linear_attend
from attncourse.attention.local import LocalAttention, Window
from attncourse.attention.masks import (
    causal_mask,
    check_lengths,
    padding_mask,
    values_can_be_read,
    window_mask,
)
from attncourse.attention.multi_head import MultiHeadAttention
from attncourse.attention.pooling import AttentionPooling, hop_penalty
from attncourse.attention.positions import (
    Alibi,
    GridPositions,
    HeadPositions,
    LearnedPositions,
    Rotary,
    SinusoidPositions,
    rotate,
)
from attncourse.attention.reads import SoftmaxRead, WindowRead
from attncourse.attention.scores import (
    AdditiveScore,
    ConcatScore,
    CosineScore,
    DotScore,
    GaussianScore,
    GeneralScore,
    LocationScore,
    ScaledDotScore,
    project_keys,
)
from attncourse.attention.table import score_table

__all__ = [
    "ATLAS",
    "AdditiveScore",
    "Alibi",
    "Attended",
    "AttentionPooling",
    "HardAttended",
    "ConcatScore",
    "CosineScore",
    "DifferentialRead",
    "DotScore",
    "GaussianScore",
    "GeneralScore",
    "GridPositions",
    "HardAttention",
    "HeadPositions",
    "Heads",
    "KeysValues",
    "LearnedPositions",
    "LinearAttention",
    "LinearScore",
    "LinearState",
    "LocalAttention",
    "LocationScore",
    "Mechanism",
    "MovingAverage",
    "MultiHeadAttention",
    "Rotary",
    "SIZES",
    "ScaledDotScore",
    "SinusoidPositions",
    "Sizes",
    "SoftmaxRead",
    "Window",
    "WindowRead",
    "attend",
    "attend_blockwise",
    "causal_mask",
    "check_lengths",
    "entropy",
    "feature_map",
    "hop_penalty",
    "linear_attend",
    "log_probability",
    "masked_softmax",
    "mechanism",
    "padding_mask",
    "project_keys",
    "reward_to_go",
    "rotate",
    "score_function_loss",
    "score_table",
    "values_can_be_read",
    "window_mask",
]
