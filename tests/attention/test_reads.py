"""Reads inside the heads: the properties that each must have, and how a new one enters."""

import copy

import pytest
import torch
from torch.nn import functional as F

from attncourse.attention import (
    AdditiveScore,
    Alibi,
    Attended,
    CosineScore,
    DifferentialRead,
    GeneralScore,
    MultiHeadAttention,
    Rotary,
    SoftmaxRead,
    WindowRead,
    causal_mask,
    linear_attend,
    masked_softmax,
    padding_mask,
    window_mask,
)

WIDTH, HEADS = 16, 4
HEAD = WIDTH // HEADS


def sharper_read(queries, keys, values, *, mask, causal, need_weights):
    """A mechanism that nobody has published: the score is doubled. This function is all that it takes."""
    if causal:
        order = causal_mask(queries.shape[-2], keys.shape[-2], device=queries.device)
        mask = order if mask is None else mask & order
    weights = masked_softmax(2 * queries @ keys.transpose(-2, -1), mask)
    return Attended(weights @ values, weights if need_weights else None)


# A new read joins every test of this file by one line.
READS = {
    "softmax": lambda: SoftmaxRead(),
    "softmax, general": lambda: SoftmaxRead(GeneralScore(HEAD, HEAD)),
    "softmax, additive": lambda: SoftmaxRead(AdditiveScore(HEAD, HEAD, 6)),
    "softmax, cosine": lambda: SoftmaxRead(CosineScore()),
    "window": lambda: WindowRead(2),
    "linear": lambda: linear_attend,
    "differential": lambda: DifferentialRead(HEAD),
    "a new one": lambda: sharper_read,
}
EVERY_READ = pytest.mark.parametrize("read", READS)
PATHS = pytest.mark.parametrize("need_weights", [True, False], ids=["with weights", "without"])
ORDERS = pytest.mark.parametrize("causal", [False, True], ids=["free", "causal"])


def build(read: str, dtype=torch.float64, **options) -> MultiHeadAttention:
    torch.manual_seed(0)
    layer = MultiHeadAttention(WIDTH, HEADS, read=READS[read](), **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.2)
    return layer.to(dtype)


def data(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def inputs(queries=5, keys=7, dtype=torch.float64):
    return [data(2, count, WIDTH, seed=i, dtype=dtype) for i, count in enumerate((queries, keys, keys))]


PADDING = padding_mask(torch.tensor([7, 4]), 7)


# --- What every read must do -------------------------------------------------------------------------------


@ORDERS
@EVERY_READ
def test_with_and_without_weights_the_context_is_the_same(read, causal):
    layer = build(read)
    whole = layer(*inputs(), mask=PADDING, causal=causal)
    bare = layer(*inputs(), mask=PADDING, causal=causal, need_weights=False)
    assert whole.weights.shape == (2, HEADS, 5, 7) and bare.weights is None
    torch.testing.assert_close(bare.context, whole.context)


@EVERY_READ
def test_rows_have_the_sum_that_the_read_promises(read):
    """1 for all but the difference of two maps, which leaves 1 - lambda."""
    layer = build(read)
    expected = 1 - layer.read.share() if read == "differential" else torch.ones(())
    rows = layer(*inputs(), causal=True).weights.sum(-1)
    torch.testing.assert_close(rows, expected.double().expand_as(rows), msg="softmax over the wrong axis?")


@PATHS
@EVERY_READ
def test_what_is_hidden_has_weight_0_and_no_influence(read, need_weights):
    layer, (query, key, value) = build(read), inputs()
    before = layer(query, key, value, mask=PADDING, need_weights=need_weights)
    moved = [x + 100 * ~PADDING[:, 0, :, None] for x in (key, value)]
    after = layer(query, *moved, mask=PADDING, need_weights=need_weights)
    assert torch.equal(before.context, after.context), "a hidden key or value was read"
    if need_weights:
        assert (before.weights[1, ..., 4:] == 0).all() and (before.weights[0] != 0).any()


@PATHS
@EVERY_READ
def test_changing_the_future_changes_nothing_before_it(read, need_weights):
    layer, (x, _, _) = build(read), inputs(6, 6)
    before = layer(x, x, x, causal=True, need_weights=need_weights).context
    changed = x.clone()
    changed[:, 4:] += 1
    after = layer(changed, changed, changed, causal=True, need_weights=need_weights).context
    assert torch.equal(before[:, :4], after[:, :4]), "a later place was read"
    assert not torch.allclose(before[:, 4:], after[:, 4:])


@EVERY_READ
def test_permuting_the_keys_permutes_the_weights(read):
    """But in a window, where a key is known by its place."""
    layer, (query, key, value) = build(read), inputs()
    order = torch.tensor([3, 0, 4, 6, 1, 5, 2])
    before, after = layer(query, key, value), layer(query, key[:, order], value[:, order])
    same = torch.allclose(after.weights, before.weights[..., order])
    assert same == (read != "window"), "a set of keys has no order"


@PATHS
@EVERY_READ
def test_padding_a_batch_changes_nothing(read, need_weights):
    """Three places of padding behind queries and keys."""
    layer, (query, key, value) = build(read), inputs(7, 7)
    alone = layer(query, key, value, need_weights=need_weights).context
    padded = [F.pad(x, (0, 0, 0, 3), value=7.0) for x in (query, key, value)]
    read_all = layer(*padded, mask=torch.arange(10) < 7, need_weights=need_weights)
    torch.testing.assert_close(read_all.context[:, :7], alone)


@PATHS
@ORDERS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@EVERY_READ
def test_a_row_with_nothing_to_attend_reads_nothing(read, dtype, causal, need_weights):
    """Weights and context 0, whatever the dtype; forward and backward finite."""
    layer, asked = build(read, dtype), [x.requires_grad_() for x in inputs(dtype=dtype)]
    mask = padding_mask(torch.tensor([7, 0]), 7)
    found = layer(*asked, mask=mask, causal=causal, need_weights=need_weights)
    assert found.context.dtype == dtype
    bias = layer.output_projection.bias.expand(5, WIDTH)
    torch.testing.assert_close(found.context[1], bias, msg="an empty row read something, or NaN")
    if need_weights:
        assert (found.weights[1] == 0).all()
    found.context.float().square().sum().backward()
    assert all(x.grad.isfinite().all() for x in asked), "NaN on the way back"


@PATHS
@ORDERS
@EVERY_READ
def test_gradients_are_those_of_finite_differences(read, causal, need_weights):
    layer, asked = build(read), [data(1, n, WIDTH, seed=n).requires_grad_() for n in (2, 3, 3)]
    mask = torch.tensor([[[True, False, True]]])

    def call(*given):
        return layer(*given, mask=mask, causal=causal, need_weights=need_weights).context

    assert torch.autograd.gradcheck(call, asked, fast_mode=True)


@PATHS
@EVERY_READ
def test_a_step_over_a_cache_is_the_last_row_of_the_whole(read, need_weights):
    layer, (x, _, _) = build(read, positions=Rotary()), inputs(6, 6)
    whole = layer(x, x, x, causal=True, need_weights=need_weights).context
    known = layer.keys_values(x[:, :0], x[:, :0])
    for t in range(6):
        new = x[:, t : t + 1]
        known = known.followed_by(layer.keys_values(new, new, first=t))
        step = layer(new, known=known, causal=True, first=t, need_weights=need_weights)
        torch.testing.assert_close(step.context, whole[:, t : t + 1], msg=f"step {t} is not row {t}")


@PATHS
@EVERY_READ
def test_heads_may_share_keys_and_values(read, need_weights):
    """Repeat the shared projections for every head, and the layer that shares nothing gives the same."""
    shared, whole = build(read, key_value_heads=2), build(read)
    state = copy.deepcopy(shared.state_dict())
    for name in ("key_projection", "value_projection"):
        for kind in ("weight", "bias"):
            part = state[f"{name}.{kind}"].unflatten(0, (2, HEAD))
            state[f"{name}.{kind}"] = part.repeat_interleave(2, dim=0).flatten(0, 1)
    whole.load_state_dict(state)
    found = shared(*inputs(), need_weights=need_weights)
    torch.testing.assert_close(found, whole(*inputs(), need_weights=need_weights))


# --- What each is ------------------------------------------------------------------------------------------


@ORDERS
@pytest.mark.parametrize("reach", [0, 1, 3, 20])
@pytest.mark.parametrize("keys", [5, 9])
def test_a_fetched_window_is_a_masked_one(reach, keys, causal):
    """The same numbers; only what is computed differs."""
    fetched = MultiHeadAttention(WIDTH, HEADS, read=WindowRead(reach))
    masked = MultiHeadAttention(WIDTH, HEADS)
    masked.load_state_dict(fetched.state_dict())
    asked = [x.float() for x in inputs(5, keys)]
    mask = window_mask(5, keys, reach, causal=causal)
    torch.testing.assert_close(fetched(*asked, causal=causal), masked(*asked, mask=mask))
    visible = torch.arange(keys) != 1
    both = masked(*asked, mask=mask & visible)
    torch.testing.assert_close(fetched(*asked, mask=visible, causal=causal), both)


def test_a_window_touches_no_key_outside_it():
    """NaN there would show: 0 times NaN is NaN."""
    layer, (x, key, value) = build("window"), inputs(3, 9)
    key, value = (part.clone() for part in (key, value))
    key[:, :4] = value[:, :4] = torch.nan  # the queries stand at 6, 7 and 8
    assert layer(x, key, value, need_weights=False).context.isfinite().all(), "the window was not fetched"


def test_a_softmax_read_takes_any_score():
    """Head by head with the function `attend`; the score's parameters are the layer's."""
    layer = build("softmax, additive")
    assert any("energy" in name for name, _ in layer.named_parameters())
    found = layer(*inputs()).weights
    queries, (keys, _, _) = layer.queries(inputs()[0]), layer.keys_values(*inputs()[1:])
    torch.testing.assert_close(found, layer.read.score(queries, keys).softmax(-1))


def test_alibi_takes_off_what_the_paper_says():
    """Eight heads: 1/2, 1/4, ... 1/256 for each place between the two (Press et al. 2022, section 3)."""
    queries, keys = torch.zeros(1, 8, 2, 4), torch.zeros(1, 8, 5, 4)
    bias = Alibi().bias(queries, keys, first=3)
    assert bias.shape == (8, 2, 5)
    assert bias[0].tolist() == [[-1.5, -1.0, -0.5, 0.0, -0.5], [-2.0, -1.5, -1.0, -0.5, 0.0]]
    torch.testing.assert_close(bias[7], bias[0] / 128)


@pytest.mark.parametrize(("rotary", "same"), [
    (Rotary(scale=0.5), lambda x: Rotary().turn(x, 0)[..., ::2, :]),
    (Rotary(base=100.0), lambda x: None),
])
def test_rotary_s_parts_change_the_angles(rotary, same):
    """Half the scale: place 2 has the angle of place 1."""
    x = torch.ones(6, 4)
    turned, plain = rotary.turn(x, 0), Rotary().turn(x, 0)
    assert torch.equal(turned[0], plain[0]) and not torch.allclose(turned[5], plain[5])
    if same(x) is not None:
        torch.testing.assert_close(turned[::2], plain[:3])


# --- Differential attention --------------------------------------------------------------------------------


@torch.no_grad()
def test_differential_attention_equals_the_paper_in_a_loop():
    """Ye et al. 2024, section 2.1: two softmaxes of half the width, one taken off the other, normed."""
    layer = build("differential")
    query, key, value = inputs()
    found = layer(query, key, value)
    read, half = layer.read, HEAD // 2
    l_q1, l_k1, l_q2, l_k2 = read.learned
    share = torch.exp(l_q1 @ l_k1) - torch.exp(l_q2 @ l_k2) + 0.2
    q, k, v = (projection(x) for projection, x in (
        (layer.query_projection, query), (layer.key_projection, key), (layer.value_projection, value)))
    heads = []
    for h in range(HEADS):
        one, two = (slice(h * HEAD + i * half, h * HEAD + (i + 1) * half) for i in range(2))
        maps = [(q[..., part] @ k[..., part].mT / half**0.5).softmax(-1) for part in (one, two)]
        weights = maps[0] - share * maps[1]
        torch.testing.assert_close(found.weights[:, h], weights, msg="which halves belong to a head?")
        context = weights @ v[..., h * HEAD : (h + 1) * HEAD]
        context = context / (context.square().mean(-1, keepdim=True) + 1e-5).sqrt() * read.gain * (1 - 0.2)
        heads.append(context)
    torch.testing.assert_close(found.context, layer.output_projection(torch.cat(heads, -1)))


def test_what_both_maps_see_cancels():
    """Equal halves and lambda 1: nothing is left of the weights."""
    read = DifferentialRead(4, initial=0.0)
    with torch.no_grad():
        read.learned.copy_(torch.tensor([[2.0, 0.0], [0.3466, 0.0], [0.0, 0.0], [0.0, 0.0]]))  # exp(ln 2) - 1
    x = data(1, 1, 3, 2, dtype=torch.float32).repeat(1, 1, 1, 2)
    weights = read(x, x, x, mask=None, causal=False, need_weights=True).weights
    assert abs(read.share().item() - 1) < 1e-3 and weights.abs().max() < 1e-3


# --- Bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda: WindowRead(-1), ValueError, ["reach is -1", "at least 0"]),
    (lambda: WindowRead(1.5), TypeError, ["reach is 1.5", "whole number"]),
    (lambda: WindowRead(True), TypeError, ["reach is True"]),
    (lambda: DifferentialRead(3), ValueError, ["head_width is 3", "even"]),
    (lambda: DifferentialRead(4, initial=1.0), ValueError, ["initial is 1.0", "below 1"]),
    (lambda: SoftmaxRead(dropout=-0.1), ValueError, ["dropout is -0.1", "at least 0"]),
    (lambda: Rotary(base=0.0), ValueError, ["base is 0.0", "positive"]),
    (lambda: Rotary(scale=float("nan")), ValueError, ["scale is nan", "positive"]),
    (lambda: build("window")(data(2, 5, WIDTH), data(2, 3, WIDTH), data(2, 3, WIDTH)), ValueError,
     ["queries = 5", "keys = 3"]),
])
def test_choices_that_cannot_work_are_named(make, error, words):
    with pytest.raises(error) as caught:
        make()
    assert all(word in str(caught.value) for word in words), str(caught.value)
