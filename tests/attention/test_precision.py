"""Reduced precision: inside autocast and on half tensors every reading is that of float32, only rounded."""

import itertools

import pytest
import torch
from torch import nn

from attncourse.attention import (
    AdditiveScore,
    AttentionPooling,
    ConcatScore,
    CosineScore,
    DotScore,
    GaussianScore,
    GeneralScore,
    HardAttention,
    LinearAttention,
    LinearScore,
    LinearState,
    LocalAttention,
    LocationScore,
    MultiHeadAttention,
    ScaledDotScore,
    attend,
    attend_blockwise,
    entropy,
    feature_map,
    hop_penalty,
    linear_attend,
    log_probability,
)

WIDTH = 32
TOLERANCE = {torch.float16: 2e-3, torch.bfloat16: 2e-2}
DTYPES = pytest.mark.parametrize("dtype", TOLERANCE, ids=lambda dtype: str(dtype).removeprefix("torch."))
SCORES = {
    "dot": DotScore, "scaled dot": ScaledDotScore, "cosine": CosineScore, "linear": LinearScore,
    "gaussian": lambda: GaussianScore(4.0), "general": lambda: GeneralScore(WIDTH, WIDTH),
    "additive": lambda: AdditiveScore(WIDTH, WIDTH, WIDTH),
    "concat": lambda: ConcatScore(WIDTH, WIDTH, WIDTH),
    "location": lambda: LocationScore(WIDTH, 16_000),
}
WINDOWS = [("monotonic", "none"), ("monotonic", "outside"), ("monotonic", "inside"), ("predicted", "outside"),
           ("predicted", "inside"), ("offset", "outside"), ("offset", "inside")]


def window(centre, gaussian):
    return LocalAttention(GeneralScore(WIDTH, WIDTH), half_width=8, centre=centre, gaussian=gaussian,
                          query_width=WIDTH)


# A mechanism joins the suite by one line: how it is built, and how it is read.
READINGS = {
    **{f"attend, {name}": (make, lambda score, q, k, v: attend(q, k, v, score=score))
       for name, make in SCORES.items()},
    **{f"in blocks, {name}": (make, lambda score, q, k, v: attend_blockwise(q, k, v, score=score))
       for name, make in SCORES.items() if name != "location"},
    **{f"hard, {choice}": (lambda choice=choice: HardAttention(ScaledDotScore(), choice),
                           lambda layer, q, k, v: layer(q, k, v))
       for choice in ("expectation", "arg max", "sample", "gumbel")},
    **{f"local, {centre}, {gaussian}": (
        lambda centre=centre, gaussian=gaussian: window(centre, gaussian),
        lambda layer, q, k, v: layer(q, k, v, lengths=torch.full((len(k),), k.shape[1])))
       for centre, gaussian in WINDOWS},
    "pooling": (lambda: AttentionPooling(WIDTH, width=WIDTH, hops=2), lambda layer, q, k, v: layer(v)),
    "pooling, plain": (lambda: AttentionPooling(WIDTH), lambda layer, q, k, v: layer(v)),
    **{f"{name}, {'causal' if causal else 'all'}, {'weights' if weights else 'sums'}": (
        make, lambda layer, q, k, v, causal=causal, weights=weights:
        (layer if isinstance(layer, nn.Module) else linear_attend)(
            q, k, v, causal=causal, need_weights=weights))
       for causal, weights in itertools.product((False, True), repeat=2)
       for name, make in {"linear_attend": lambda: None, "LinearAttention": lambda: LinearAttention(WIDTH, 4),
                          "MultiHeadAttention": lambda: MultiHeadAttention(WIDTH, 4)}.items()},
}


def build(make, dtype=torch.float32):
    """The same parameters each time, those that half precision can hold, and no choice left to chance."""
    torch.manual_seed(0)
    module = make()
    return module.to(dtype).eval() if isinstance(module, nn.Module) else module


def data(keys, queries=3, seed=1):
    """Values of one sign: their mean does not vanish, and a sum that stops growing is seen.

    Scores are of the size they have when training starts: one of 10 that autocast rounds is off by 0.01.
    """
    generator = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(2, n, WIDTH, generator=generator) for n in (queries, keys, keys))
    return q / 2, k, v + 3


def apart(found, expected):
    """How far two tensors are apart, as a share of the second's length."""
    return ((found.double() - expected.double()).norm() / expected.double().norm()).item()


def assert_close(found, expected, tolerance):
    for name, ours, theirs in zip(found._fields, found, expected, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours.isfinite().all(), f"{name} overflowed"
            assert apart(ours, theirs) < tolerance, f"{name} is {apart(ours, theirs):.1e} off"


@DTYPES
@pytest.mark.parametrize("keys", [1000, 16_000])
@pytest.mark.parametrize("name", READINGS)
@torch.no_grad()
def test_inside_autocast_a_reading_is_that_of_float32(name, keys, dtype):
    """Autocast casts every product back to half: sums end at 65,504, or stop growing."""
    make, read = READINGS[name]
    module, asked = build(make), data(keys)
    expected = read(module, *asked)
    with torch.autocast("cpu", dtype=dtype):
        found = read(module, *asked)
    assert_close(found, expected, TOLERANCE[dtype])


@DTYPES
@pytest.mark.parametrize("keys", [1000, 16_000])
@pytest.mark.parametrize("name", READINGS)
@torch.no_grad()
def test_of_half_tensors_a_reading_is_that_of_float32_rounded(name, keys, dtype):
    """The same numbers in float32 are the measure; what comes back has one dtype, that of the values."""
    make, read = READINGS[name]
    asked = [x.to(dtype) for x in data(keys)]
    exact = build(make, dtype)
    exact = exact.float() if isinstance(exact, nn.Module) else exact
    expected = read(exact, *(x.float() for x in asked))
    found = read(build(make, dtype), *asked)
    assert all(part.dtype == dtype for part in found if part is not None), "two dtypes"
    assert_close(found, expected, TOLERANCE[dtype])


@DTYPES
@pytest.mark.parametrize("need_weights", [True, False], ids=["pairs", "sums"])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@torch.no_grad()
def test_a_whole_layer_of_linear_attention_survives_autocast(causal, need_weights, dtype):
    """What `train` runs on every CUDA card: with products cast back, the context was 0 without a word."""
    torch.manual_seed(0)
    layer, x = LinearAttention(512, 8).eval(), torch.randn(1, 4096 if not need_weights else 1024, 512)
    expected = layer(x, x, x, causal=causal, need_weights=need_weights)
    with torch.autocast("cpu", dtype=dtype):
        found = layer(x, x, x, causal=causal, need_weights=need_weights)
    assert_close(found, expected, TOLERANCE[dtype])


@DTYPES
@pytest.mark.parametrize("name", READINGS)
def test_gradients_inside_autocast_are_those_of_float32(name, dtype):
    """A forward pass that was mended with a detach or a cast in the wrong place loses them."""
    if name.startswith("hard") and "expectation" not in name:
        return  # a choice has no gradient but that of the value
    make, read = READINGS[name]
    module, (q, k, v) = build(make), data(300)
    gradients = []
    for enabled in (False, True):
        v = v.detach().requires_grad_()
        with torch.autocast("cpu", dtype=dtype, enabled=enabled):
            context = read(module, q, k, v).context
        context.float().square().sum().backward()
        gradients.append(v.grad)
    assert apart(gradients[1], gradients[0]) < 3 * TOLERANCE[dtype]


@pytest.mark.parametrize("need_weights", [True, False], ids=["pairs", "sums"])
@pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
@pytest.mark.parametrize("far", [-20.0, -50.0, -95.0, -300.0])
def test_small_features_are_divided_by_a_small_sum(far, causal, need_weights):
    """phi(-50)^2 is 1e-44: float32 holds two digits of it, and none of phi(-95)^2. The quotient is plain."""
    generator = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(1, 9, 4, generator=generator) for _ in range(3))
    q, k = q + far, k + far
    exact = linear_attend(q.double(), k.double(), v.double(), causal=causal)
    found = linear_attend(q, k, v, causal=causal, need_weights=need_weights)
    torch.testing.assert_close(found.context.double(), exact.context, rtol=1e-4, atol=1e-4)


def test_a_state_is_summed_in_float32_inside_autocast():
    keys, values = torch.zeros(16_000, 2), torch.ones(16_000, 1)
    with torch.autocast("cpu", dtype=torch.float16):
        state = LinearState.of(feature_map(keys), values)
        state = state.followed_by(feature_map(keys), values)
        assert state.memory.dtype == torch.float32 and state.total.tolist() == [32_000.0] * 2
        assert state.read(feature_map(keys[:1])).item() == 1


@pytest.mark.parametrize("score", ["dot", "scaled dot", "cosine", "gaussian", "linear"])
def test_a_score_beyond_65_504_does_not_overflow_float16(score):
    """300 * 300 is more than float16 holds: infinite scores give NaN."""
    q, k = torch.full((1, 4), 300.0).half(), torch.tensor([[-300.0] * 4, [300.0] * 4]).half()
    weights = attend(q, k, k, score=SCORES[score]()).weights
    assert weights.isfinite().all() and weights[0, 1] > weights[0, 0]


@DTYPES
def test_a_zero_vector_has_no_cosine_in_half_precision(dtype):
    """The smallest length that a division is safe from, 1e-12, is itself 0 in float16."""
    assert (CosineScore()(torch.zeros(1, 3, dtype=dtype), torch.randn(2, 3, dtype=dtype)) == 0).all()


@DTYPES
def test_what_is_derived_from_weights_keeps_its_precision(dtype):
    """Entropy, log-probability and the penalty of hops, on 16,000 weights."""
    generator = torch.Generator().manual_seed(0)
    alpha = torch.randn(3, 16_000, generator=generator).softmax(-1)
    assert apart(entropy(alpha.to(dtype)), entropy(alpha)) < TOLERANCE[dtype]
    assert apart(hop_penalty(alpha.to(dtype)), hop_penalty(alpha)) < TOLERANCE[dtype]
    chosen = torch.zeros(1, 2, dtype=dtype)
    chosen[0, 1] = 1
    assert log_probability(torch.tensor([[1.0, 0.0]], dtype=dtype), chosen).isfinite().all(), (
        "a place that was chosen had a probability that rounds to 0"
    )
