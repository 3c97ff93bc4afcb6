"""The shapes in the signatures are executed: every public call once, under a checker of types and shapes.

A signature that nobody runs says what it likes. Here this file is run again with jaxtyping's import hook.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from attncourse import attention
from attncourse.attention import (
    AdditiveScore,
    Alibi,
    AttentionPooling,
    ConcatScore,
    CosineScore,
    DifferentialRead,
    DotScore,
    GaussianScore,
    GeneralScore,
    GridPositions,
    HardAttention,
    LearnedPositions,
    LinearScore,
    LinearState,
    LocalAttention,
    LocationScore,
    MovingAverage,
    MultiHeadAttention,
    Rotary,
    ScaledDotScore,
    SinusoidPositions,
    SoftmaxRead,
    WindowRead,
)
from attncourse.models import VisionTransformer

PACKAGES = "attncourse.attention,attncourse.models.vision_transformer"
CHECKED = "SHAPES_ARE_CHECKED" in os.environ
Q, K, V = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 6)
X, LENGTHS = torch.randn(2, 5, 8), torch.tensor([5, 2])
REAL = attention.padding_mask(LENGTHS, 5)
MASKS = [None, REAL, torch.ones(5).bool(), torch.ones(3, 5).bool(), torch.ones(2, 3, 1).bool()]
SCORES = [DotScore(), ScaledDotScore(), CosineScore(), GaussianScore(), LinearScore(), GeneralScore(4, 4),
          AdditiveScore(4, 4, 7), ConcatScore(4, 4, 7), LocationScore(4, 9)]
ALPHA = torch.randn(2, 3, 5).softmax(-1)


def each(call, *given):
    return lambda: [call(one) for one in given]


def projected(score):
    ahead = attention.project_keys(score, K)
    return attention.attend(Q, K, V, score=score, mask=REAL, projected_keys=ahead)


def windows(centre, gaussian, dtype):
    layer = LocalAttention(GeneralScore(4, 4), half_width=2, centre=centre, gaussian=gaussian, query_width=4)
    given = [x.to(dtype) for x in (Q, K, V)]
    for time in (3, torch.tensor([3, 1])):
        layer.to(dtype)(*given, lengths=LENGTHS, time=time)
        layer.look(*given, lengths=LENGTHS, time=time, projected_keys=layer.score.project_keys(given[1]))


def heads(**options):
    layer = MultiHeadAttention(8, 4, **options)
    for need_weights in (True, False):
        layer(X, X, X, mask=REAL, causal=True, need_weights=need_weights)
    known = layer.keys_values(X, X).followed_by(layer.keys_values(X[:, :1], X[:, :1], first=5))
    layer(X[:, :1], known=known, causal=True)
    with torch.no_grad():  # the cache has spare room
        layer.keys_values(X, X).followed_by(known).followed_by(known).reordered(torch.tensor([1, 1, 0]))


def linear():
    for mask in (None, REAL, torch.ones(5).bool()):
        for need_weights in (True, False):
            attention.linear_attend(K, K, V, mask=mask, causal=True, need_weights=need_weights)
    features = attention.feature_map(K)
    state = LinearState.of(features, V).followed_by(features[:, :1], V[:, :1])
    state.read(attention.feature_map(Q))


def average():
    MovingAverage(3).update(ALPHA.sum(-1), ALPHA.sum(-1) > 0.5)
    MovingAverage().update(ALPHA.sum(-1)[:, :1])


def images():
    torch.manual_seed(0)
    model = VisionTransformer(3, image=8, patch=4, channels=1, width=6, heads=2, layers=1)
    tokens = model.embed(torch.randn(2, 1, 8, 8))
    model.embed(torch.randn(2, 1, 8, 12), interpolate=True)
    return model(torch.randn(2, 1, 8, 8)), tokens


# One line a public call, with every kind of argument that its docstring allows.
CALLS = {
    "attend": each(
        lambda mask: [attention.attend(Q, K, V, score=score, mask=mask) for score in SCORES], *MASKS),
    "attend, batches": lambda: [attention.attend(Q[0], K[0], V[0], score=DotScore()),
                                attention.attend(Q[None], K[None], V[None], score=DotScore(), mask=REAL)],
    "attend, half": lambda: attention.attend(Q.half(), K.half(), V.half(), score=LinearScore()),
    "projected keys": each(projected, *SCORES),
    "attend_blockwise": each(
        lambda mask: attention.attend_blockwise(Q, K, V, score=DotScore(), mask=mask, block=2), *MASKS),
    "masked_softmax": each(lambda mask: attention.masked_softmax(ALPHA, mask), *MASKS),
    "masks": lambda: [attention.padding_mask(LENGTHS, 5, checked=True), attention.causal_mask(3, 5),
                      attention.window_mask(3, 5, 1, causal=True)],
    "hard": each(lambda choice: [HardAttention(DotScore(), choice)(Q, K, V, mask=mask) for mask in MASKS],
                 "expectation", "sample", "arg max", "gumbel"),
    "local": lambda: [windows(centre, gaussian, dtype) for dtype in (torch.float32, torch.bfloat16)
                      for centre, gaussian in (("monotonic", "none"), ("predicted", "outside"),
                                               ("offset", "inside"))],
    "pooling": each(
        lambda mask: attention.hop_penalty(AttentionPooling(8, width=3, hops=3)(X, mask=mask).weights),
        None, REAL, torch.ones(5).bool()),
    "linear": linear,
    "heads": lambda: [heads(), heads(key_value_heads=1), heads(positions=Rotary()), heads(positions=Alibi())],
    "reads": each(lambda read: heads(read=read), SoftmaxRead(AdditiveScore(2, 2, 3)), WindowRead(1),
                  DifferentialRead(2), attention.linear_attend),
    "log-probability": lambda: [attention.log_probability(ALPHA, ALPHA), attention.entropy(ALPHA)],
    "reward to go": lambda: attention.reward_to_go(ALPHA.sum(-1)),
    "score_function_loss": each(
        lambda baseline: attention.score_function_loss(ALPHA[:, 0], ALPHA[:, 1], baseline),
        0.0, torch.tensor(1.0), torch.ones(5), torch.ones(1), torch.ones(2, 1), ALPHA[:, 2]),
    "score_function_loss, whole": lambda: attention.score_function_loss(ALPHA[:, 0], ALPHA[:, 1, :1], 1.0),
    "average": average,
    "positions": lambda: [SinusoidPositions(8)(5, 2), LearnedPositions(8, 9)(5, 2), GridPositions(8)(2, 3),
                          attention.rotate(X, torch.arange(5))],
    "images": images,
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_as_documented_is_a_call_as_signed(name):
    CALLS[name]()


def test_every_public_mechanism_is_called():
    """A new function or module joins by one line in CALLS."""
    source = Path(__file__).read_text("utf8")
    atlas = {"ATLAS", "SIZES", "Mechanism", "Sizes", "mechanism", "score_table"}
    results = {"Attended", "HardAttended", "KeysValues", "Window", "LinearAttention"}
    inherited = {"Heads", "HeadPositions"}
    checks = {"check_lengths", "values_can_be_read"}
    elsewhere = atlas | results | inherited | checks
    assert {name for name in attention.__all__ if name not in source} - elsewhere == set()


def test_the_signatures_are_true():
    """This file once more, with every annotation executed."""
    if CHECKED:
        with pytest.raises(TypeError, match="Type-check error"):  # else the checker is not on
            attention.entropy(torch.zeros(2).long())
        return
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=short",
               f"--jaxtyping-packages={PACKAGES},beartype.beartype", __file__]
    environment = {**os.environ, "SHAPES_ARE_CHECKED": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert not run.returncode, f"a signature says what is not so:\n{run.stdout[-6000:]}"
