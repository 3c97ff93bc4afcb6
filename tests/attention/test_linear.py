"""Linear attention: one mechanism in three forms (pairs, sums, a state from step to step) that must agree."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from attncourse.attention import (
    LinearAttention,
    LinearScore,
    LinearState,
    MultiHeadAttention,
    attend,
    causal_mask,
    feature_map,
    linear_attend,
    padding_mask,
)

# All pairs, with weights to look at; or the sums, whose cost does not grow with the square.
FORMS = pytest.mark.parametrize("need_weights", [True, False], ids=["pairs", "sums"])
ORDERS = pytest.mark.parametrize("causal", [False, True], ids=["all", "causal"])
EMPTY = torch.tensor([7, 0])


def data(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def inputs(queries=5, keys=7, batch=2, dtype=torch.float64):
    """Query, key, value: different tensors, and a value of another width."""
    sizes = ((queries, 4), (keys, 4), (keys, 3))
    return [data(batch, *size, seed=seed, dtype=dtype) for seed, size in enumerate(sizes)]


def phi(x: float) -> float:
    """Katharopoulos et al. 2020, eq. 7: elu(x) + 1."""
    return x + 1 if x > 0 else math.exp(x)


def by_loop(query, key, value, mask=None, causal=False):
    """Eq. 3 with sim(q, k) = phi(q)^T phi(k), as printed: one query, one key after the other."""
    (batch, queries, width), keys = query.shape, key.shape[1]
    mask = torch.ones((), dtype=torch.bool) if mask is None else mask
    mask = mask.expand(batch, queries, keys)
    weights = torch.zeros(batch, queries, keys, dtype=query.dtype)
    context = torch.zeros(batch, queries, value.shape[-1], dtype=query.dtype)
    for b, i in itertools.product(range(batch), range(queries)):
        seen = [j for j in range(keys) if mask[b, i, j] and (j <= i + keys - queries or not causal)]
        matches = {j: sum(phi(query[b, i, n].item()) * phi(key[b, j, n].item()) for n in range(width))
                   for j in seen}
        for j, match in matches.items():
            weights[b, i, j] = match / sum(matches.values())
            context[b, i] += weights[b, i, j] * value[b, j]
    return context, weights


def build(dtype=torch.float64) -> LinearAttention:
    """With biases that are not 0, or a missing one would not be seen."""
    torch.manual_seed(0)
    layer = LinearAttention(8, 2)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    return layer.to(dtype)


# --- The formula -------------------------------------------------------------------------------------------


@FORMS
@ORDERS
@pytest.mark.parametrize("mask", [None, padding_mask(torch.tensor([7, 3]), 7)], ids=["no mask", "padding"])
def test_equals_the_formula_in_a_loop_over_pairs(mask, causal, need_weights):
    asked = inputs()
    found = linear_attend(*asked, mask=mask, causal=causal, need_weights=need_weights)
    context, weights = by_loop(*asked, mask, causal)
    torch.testing.assert_close(found.context, context, msg=lambda text: (
        f"the context differs: the feature map, the division by the sum, or the mask?\n{text}"))
    assert (found.weights is not None) == need_weights
    if need_weights:
        torch.testing.assert_close(found.weights, weights)


def test_the_feature_map_is_elu_plus_one_and_keeps_small_features():
    """elu(-20) + 1 is 0 in float32: a key far below 0 would be lost, and a row of such keys with it."""
    x = torch.linspace(-5, 5, 41, dtype=torch.float64)
    torch.testing.assert_close(feature_map(x), F.elu(x) + 1)
    assert feature_map(torch.tensor(-20.0)) > 0 and F.elu(torch.tensor(-20.0)) + 1 == 0
    assert (feature_map(data(1000)) > 0).all(), "a feature that is not positive gives weights below 0"
    far = torch.tensor([-200.0, 0.0, 200.0], requires_grad=True)
    feature_map(far).sum().backward()
    assert far.grad.tolist() == [0, 1, 1], "exp of a large number reached the gradient"


def test_the_linear_score_makes_the_one_equation_linear_attention():
    """The softmax takes the logarithm away: another score, and nothing else."""
    asked = inputs()
    ours, theirs = linear_attend(*asked), attend(*asked, score=LinearScore())
    torch.testing.assert_close(ours, theirs)


def test_three_tokens_by_hand():
    """phi(0) = 1, phi(1) = 2: matches 2, 3, 3 for the query (0, 0), so weights 2/8, 3/8, 3/8."""
    query, value = torch.zeros(1, 2), torch.tensor([[8.0], [0.0], [16.0]])
    key = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    read = linear_attend(query, key, value)
    torch.testing.assert_close(read.weights, torch.tensor([[0.25, 0.375, 0.375]]))
    torch.testing.assert_close(read.context, torch.tensor([[8.0]]))
    state = LinearState.of(feature_map(key), value)
    assert state.memory.flatten().tolist() == [8 + 16, 8 + 32] and state.total.tolist() == [4, 4]
    assert state.read(feature_map(query)).item() == 8


# --- The forms agree ---------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(batch=st.lists(st.integers(1, 3), max_size=2), queries=st.integers(0, 5), more=st.integers(0, 4),
       causal=st.booleans(), masked=st.booleans(), seed=st.integers(0, 1000))
def test_pairs_and_sums_are_one_mechanism(batch, queries, more, causal, masked, seed):
    """Any shape, any mask of keys, rows that sum to 1 or to 0."""
    keys = queries + more
    asked = [data(*batch, count, width, seed=seed + i)
             for i, (count, width) in enumerate(((queries, 4), (keys, 4), (keys, 3)))]
    visible = torch.rand(*batch, 1, keys, generator=torch.Generator().manual_seed(seed)) > 0.5
    mask = visible if masked else None
    pairs = linear_attend(*asked, mask=mask, causal=causal)
    sums = linear_attend(*asked, mask=mask, causal=causal, need_weights=False)
    torch.testing.assert_close(sums.context, pairs.context, msg=lambda text: f"the sums differ\n{text}")
    seen = (visible if masked else torch.ones_like(visible)).expand(*batch, queries, keys)
    seen = seen & causal_mask(queries, keys) if causal else seen
    torch.testing.assert_close(pairs.weights.sum(-1), seen.any(-1).double())
    assert (pairs.weights[~seen] == 0).all() and (pairs.weights[seen] > 0).all()
    assert (pairs.context[~seen.any(-1)] == 0).all()


@pytest.mark.parametrize("length", [63, 64, 65, 200])
@pytest.mark.parametrize("known", [0, 70])
def test_blocks_join_without_a_seam(length, known):
    """A causal reading goes in blocks of 64: nothing may be counted twice, or left out, where two meet."""
    asked = inputs(length, length + known, batch=1)
    pairs = linear_attend(*asked, causal=True)
    sums = linear_attend(*asked, causal=True, need_weights=False)
    torch.testing.assert_close(sums.context, pairs.context)


@pytest.mark.parametrize("pieces", [[1] * 7, [3, 1, 3], [0, 7]])
def test_a_state_from_step_to_step_reads_like_the_whole(pieces):
    """The recurrent form: after each word two sums are updated, and they are all that is kept."""
    q, k, v = inputs(7, 7)
    expected = linear_attend(q, k, v, causal=True).context
    state, first = LinearState.of(feature_map(k[:, :0]), v[:, :0]), 0
    for size in pieces:
        new = slice(first, first + size)
        state = state.followed_by(feature_map(k[:, new]), v[:, new])
        first += size
        if size:
            read = state.read(feature_map(q[:, first - 1 : first]))
            torch.testing.assert_close(read, expected[:, first - 1 : first])
    assert state.memory.shape == (2, 4, 3) and state.total.shape == (2, 4), "the state grew"


def test_a_state_that_met_no_key_reads_nothing():
    q, k, v = inputs()
    assert not LinearState.of(feature_map(k[:, :0]), v[:, :0]).read(feature_map(q)).any()


# --- Who sees what -----------------------------------------------------------------------------------------


@FORMS
@ORDERS
def test_a_hidden_key_changes_nothing(causal, need_weights):
    """Its value must not be read, and its feature must not be in the sum that weights are divided by."""
    query, key, value = (x.requires_grad_() for x in inputs())
    mask = torch.tensor([True, True, False, True, False, False, True])
    options = {"mask": mask, "causal": causal, "need_weights": need_weights}
    before = linear_attend(query, key, value, **options)
    before.context.sum().backward()
    for gradient in (key.grad, value.grad):
        assert (gradient[:, ~mask] == 0).all(), "a gradient reached a hidden key or value"
    away = 100 * ~mask[:, None]
    after = linear_attend(query, key + away, value - away, **options)
    assert torch.equal(before.context, after.context), "a hidden key or value reached the context"


@FORMS
@pytest.mark.parametrize("keys", [5, 70])
def test_no_gradient_comes_from_a_later_position(keys, need_weights):
    """Exactly 0, for a whole sequence and for the last five over a cache."""
    for t in range(5):
        query, key, value = (x.requires_grad_() for x in inputs(5, keys))
        read = linear_attend(query, key, value, causal=True, need_weights=need_weights)
        read.context[:, t].sum().backward()
        own = t + keys - 5
        for gradient in (key.grad, value.grad):
            assert (gradient[:, own + 1 :] == 0).all(), f"query {t} of 5 sees beyond key {own} of {keys}"
        assert (value.grad[:, own] != 0).any(), f"query {t} of 5 does not see its own place"


@FORMS
def test_permuting_the_keys_permutes_the_weights(need_weights):
    (query, key, value), order = inputs(), torch.tensor([3, 0, 4, 6, 1, 5, 2])
    before = linear_attend(query, key, value, need_weights=need_weights)
    after = linear_attend(query, key[:, order], value[:, order], need_weights=need_weights)
    torch.testing.assert_close(after.context, before.context, msg="the context depends on the keys' order")
    if need_weights:
        torch.testing.assert_close(after.weights, before.weights[..., order])


@FORMS
@ORDERS
def test_padding_a_batch_changes_nothing(causal, need_weights):
    query, key, value = inputs(7, 7)
    padded = [F.pad(x, (0, 0, 0, 3), value=7.0) for x in (query, key, value)]
    alone = linear_attend(query, key, value, causal=causal, need_weights=need_weights)
    mask = padding_mask(torch.tensor([7, 7]), 10)
    read = linear_attend(*padded, mask=mask, causal=causal, need_weights=need_weights)
    torch.testing.assert_close(read.context[:, :7], alone.context, msg="padding reached the context")


@FORMS
@ORDERS
def test_samples_of_a_batch_do_not_see_each_other(causal, need_weights):
    """Also where batch, length and width are one number: an axis that is swapped shows here."""
    asked = [data(4, 4, 4, seed=seed) for seed in range(3)]
    mask = padding_mask(torch.tensor([4, 3, 2, 0]), 4)
    together = linear_attend(*asked, mask=mask, causal=causal, need_weights=need_weights)
    for i in range(4):
        alone = linear_attend(*(x[i] for x in asked), mask=mask[i], causal=causal, need_weights=need_weights)
        torch.testing.assert_close(together.context[i], alone.context, msg="rows of the batch are mixed")


# --- Precision ---------------------------------------------------------------------------------------------


@FORMS
@ORDERS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_an_empty_row_is_zero_in_every_dtype(dtype, causal, need_weights):
    """0 divided by 0, forward and backward; and half precision in is half precision out."""
    asked = [x.requires_grad_() for x in inputs(dtype=dtype)]
    mask = padding_mask(EMPTY, 7)
    read = linear_attend(*asked, mask=mask, causal=causal, need_weights=need_weights)
    assert read.context.dtype == dtype and read.context.isfinite().all()
    assert (read.context[1] == 0).all() and (read.context[0] != 0).any()
    if need_weights:
        assert read.weights.dtype == dtype and (read.weights[1] == 0).all()
    read.context.float().square().sum().backward()
    assert all(x.grad.isfinite().all() and (x.grad[1] == 0).all() for x in asked), "0 / 0 in the gradient"


@FORMS
@ORDERS
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sums_over_many_keys_do_not_overflow_in_half_precision(dtype, causal, need_weights):
    """2,000 matches of about 60 are 120,000, and float16 ends at 65,504; bfloat16 stops adding."""
    query, key, value = (data(n, 16, seed=n, dtype=dtype) + 1 for n in (3, 2000, 2000))
    exact = linear_attend(*(x.double() for x in (query, key, value)), causal=causal)
    read = linear_attend(query, key, value, causal=causal, need_weights=need_weights)
    torch.testing.assert_close(read.context.double(), exact.context, rtol=0.01, atol=0.01)


@FORMS
@ORDERS
def test_gradients_are_those_of_finite_differences(causal, need_weights):
    asked = [x.requires_grad_() for x in inputs(2, 3, batch=2)]
    mask = padding_mask(torch.tensor([2, 0]), 3)

    def read(*given):
        return linear_attend(*given, mask=mask, causal=causal, need_weights=need_weights).context

    assert torch.autograd.gradcheck(read, asked)


# --- The layer ---------------------------------------------------------------------------------------------


@FORMS
@ORDERS
@pytest.mark.parametrize("mask", [None, padding_mask(torch.tensor([6, 3]), 6)], ids=["no mask", "padding"])
def test_a_layer_reads_with_every_head_and_joins_them(mask, causal, need_weights):
    """Head by head with the function; the output matrix comes last."""
    layer, asked = build(), [data(2, n, 8, seed=n) for n in (5, 6, 6)]
    parts = [projection(x) for projection, x in zip(
        (layer.query_projection, layer.key_projection, layer.value_projection), asked, strict=True)]
    heads = [linear_attend(*(x[..., cut] for x in parts), mask=mask, causal=causal)
             for cut in (slice(0, 4), slice(4, 8))]
    found = layer(*asked, mask=mask, causal=causal, need_weights=need_weights)
    joined = torch.cat([head.context for head in heads], dim=-1)
    torch.testing.assert_close(found.context, layer.output_projection(joined))
    if need_weights:
        torch.testing.assert_close(found.weights, torch.stack([head.weights for head in heads], dim=1))


def test_a_layer_that_keeps_a_state_reads_step_by_step_what_it_reads_at_once():
    layer, x = build(), data(2, 6, 8)
    expected, known = layer(x, x, x, causal=True).context, None
    for t in range(6):
        now = x[:, t : t + 1]
        keys, values, _ = layer.keys_values(now, now)
        known = LinearState.of(feature_map(keys), values) if known is None else known.followed_by(
            feature_map(keys), values)
        read = layer.join(known.read(feature_map(layer.queries(now))))
        torch.testing.assert_close(read, expected[:, t : t + 1])
    assert known.memory.shape == (2, 2, 4, 4)


def test_a_layer_has_the_parameters_of_multi_head_attention_and_reads_otherwise():
    """The same four matrices, by the same names; another score."""
    linear, softmax, x = build(), MultiHeadAttention(8, 2).double(), data(2, 6, 8)
    softmax.load_state_dict(linear.state_dict())
    assert not torch.allclose(linear(x, x, x).context, softmax(x, x, x).context, atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_stays_in_its_dtype(dtype):
    layer, x = build(dtype), data(2, 6, 8, dtype=dtype)
    for need_weights in (True, False):
        assert layer(x, x, x, causal=True, need_weights=need_weights).context.dtype == dtype


# --- Bad input ---------------------------------------------------------------------------------------------

Q, K, V = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), torch.zeros(2, 5, 6)
X = torch.zeros(2, 3, 8, dtype=torch.float64)


@FORMS
@pytest.mark.parametrize(("given", "error", "words"), [
    ({"mask": torch.ones(2, 1, 5)}, TypeError, ["mask", "float32", "boolean"]),
    ({"mask": torch.ones(2, 3, 5).bool()}, ValueError, ["mask", "(2, 3, 5)", "(..., 1, keys)", "causal"]),
    ({"mask": torch.ones(2, 1, 4).bool()}, ValueError, ["mask", "(2, 1, 4)", "(2, 1, 5)"]),
    ({"mask": torch.ones(4).bool()}, ValueError, ["mask", "(4,)", "(2, 1, 5)"]),
    ({"query": Q[..., :3]}, ValueError, ["query", "3", "key", "4", "one width"]),
    ({"query": Q[0, 0]}, ValueError, ["query", "(4,)", "two dimensions"]),
    ({"value": V[:, :4]}, ValueError, ["key", "5", "value", "4", "exactly one value"]),
    ({"key": K[:, :2], "value": V[:, :2], "causal": True}, ValueError, ["queries = 3", "keys = 2"]),
])
def test_bad_input_is_named(given, error, words, need_weights):
    with pytest.raises(error) as caught:
        linear_attend(**{"query": Q, "key": K, "value": V, **given}, need_weights=need_weights)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(("call", "words"), [
    (lambda: LinearAttention(10, 4), ["width 10", "heads = 4", "1, 2, 5, 10"]),
    (lambda: build()(X[..., :6], X, X), ["query", "(2, 3, 6)", "(..., positions, 8)"]),
    (lambda: build().keys_values(X, X[0, 0]), ["value", "(8,)", "(..., positions, 8)"]),
    (lambda: LinearState.of(X, X[:, :2]), ["features", "3", "value", "2", "exactly one value"]),
])
def test_choices_that_cannot_work_are_named(call, words):
    with pytest.raises(ValueError) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)
