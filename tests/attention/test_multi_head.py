"""Multi-head attention: the paper's formula head by head, the framework's module, its kernel, and a cache."""

import inspect
import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from attncourse.attention import (
    AdditiveScore,
    Alibi,
    KeysValues,
    MultiHeadAttention,
    Rotary,
    SoftmaxRead,
    linear_attend,
    padding_mask,
)

WIDTH, HEADS = 16, 4
VARIANTS = {
    "plain": {},
    "grouped": {"key_value_heads": 2},
    "multi-query": {"key_value_heads": 1},
    "rotary": {"positions": Rotary()},
    "grouped, rotary": {"key_value_heads": 2, "positions": Rotary()},
    "alibi": {"positions": Alibi()},
    "grouped, alibi": {"key_value_heads": 2, "positions": Alibi()},
}
# Both ways to the same numbers: `need_weights` chooses.
PATHS = pytest.mark.parametrize("need_weights", [True, False], ids=["explicit", "fused"])
EVERY_VARIANT = pytest.mark.parametrize("variant", VARIANTS)

# For 2 sentences, 5 queries and 5 or 7 keys; None stands for no mask at all.
MASKS = {
    "none": lambda keys: None,
    "padding": lambda keys: padding_mask(torch.tensor([keys, 3]), keys),
    "an empty sentence": lambda keys: padding_mask(torch.tensor([0, keys]), keys),
    "one for all": lambda keys: torch.arange(keys) != 2,
    "by query": lambda keys: random_mask(5, keys),
    "by sentence and query": lambda keys: random_mask(2, 5, keys),
    "an empty query": lambda keys: torch.arange(5)[:, None] != 1,
}


def build(variant="plain", dtype=torch.float64, **options) -> MultiHeadAttention:
    """With biases that are not 0, or a missing one would not be seen."""
    torch.manual_seed(0)
    layer = MultiHeadAttention(WIDTH, HEADS, **VARIANTS[variant], **options)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn_like(parameter) * (0.5 if parameter.dim() == 1 else 0.4))
    return layer.to(dtype)


def data(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def inputs(queries=5, keys=7, batch=2, dtype=torch.float64):
    """Query, key, value: three different tensors, or a projection of the wrong one would not be seen."""
    return [data(batch, count, WIDTH, seed=seed, dtype=dtype)
            for seed, count in enumerate((queries, keys, keys))]


def random_mask(*shape):
    """Some rows of it see nothing."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(4)) > 0.5
    mask[..., 3, :] = False
    return mask


def turned(vector, place):
    """A pair of numbers is a complex number, and turning it a product."""
    pairs = torch.view_as_complex(vector.reshape(-1, 2))
    angles = torch.tensor([place / 10000 ** (2 * i / len(vector)) for i in range(len(pairs))])
    return torch.view_as_real(pairs * torch.polar(torch.ones(()).double(), angles.double())).flatten()


@torch.no_grad()
def by_loop(layer, query, key, value, mask=None, causal=False):
    """Vaswani et al. 2017, section 3.2: one head, one sentence, one query, one key after the other."""
    (batch, queries, _), keys, width = query.shape, key.shape[1], layer.head_width
    mask = torch.ones((), dtype=torch.bool) if mask is None else mask
    mask = mask.expand(batch, queries, keys)
    rotary, alibi = (isinstance(layer.positions, kind) for kind in (Rotary, Alibi))
    heads = torch.zeros(batch, queries, layer.heads, width, dtype=query.dtype)
    weights = torch.zeros(batch, layer.heads, queries, keys, dtype=query.dtype)

    def projected(layer, head, x):
        rows = slice(head * width, (head + 1) * width)
        return layer.weight[rows] @ x + layer.bias[rows]

    for b, i, t in itertools.product(range(batch), range(layer.heads), range(queries)):
        shared = i * layer.key_value_heads // layer.heads
        place = t + (keys - queries) * causal
        q = projected(layer.query_projection, i, query[b, t])
        q = turned(q, place) if rotary else q
        seen = [s for s in range(keys) if mask[b, t, s] and (s <= place or not causal)]
        scores = []
        for s in seen:
            k = projected(layer.key_projection, shared, key[b, s])
            k = turned(k, s) if rotary else k
            off = 2 ** (-8 * (i + 1) / layer.heads) * abs(place - s) if alibi else 0
            scores.append(q @ k / math.sqrt(width) - off)
        total = sum(score.exp() for score in scores)
        for s, score in zip(seen, scores, strict=True):
            weights[b, i, t, s] = score.exp() / total
            heads[b, t, i] += weights[b, i, t, s] * projected(layer.value_projection, shared, value[b, s])
    return layer.output_projection(heads.flatten(-2)), weights


# --- The formula -------------------------------------------------------------------------------------------


@PATHS
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("mask", ["none", "by sentence and query"])
@EVERY_VARIANT
def test_equals_the_formula_in_a_loop_over_heads(variant, mask, causal, need_weights):
    layer, asked, mask = build(variant), inputs(), MASKS[mask](7)
    found = layer(*asked, mask=mask, causal=causal, need_weights=need_weights)
    context, weights = by_loop(layer, *asked, mask, causal)
    if need_weights:
        torch.testing.assert_close(found.weights, weights, msg=lambda text: (
            f"the weights differ: which rows of W^Q and W^K belong to a head, which head shares which keys, "
            f"is the scale that of a head, is the mask the right way round?\n{text}"))
    torch.testing.assert_close(found.context, context, msg=lambda text: (
        f"the output differs: are the values V W^V, the heads side by side in order, W^O last?\n{text}"))


@PATHS
def test_the_scale_is_that_of_a_head_not_of_the_whole_width(need_weights):
    """Width 4, 2 heads: the score of [2, 0] with itself is 4 / sqrt(2), not 4 / sqrt(4)."""
    layer = MultiHeadAttention(4, 2)
    with torch.no_grad():
        for weight in (parameter for parameter in layer.parameters() if parameter.dim() == 2):
            weight.copy_(torch.eye(4))
    query, key = torch.tensor([[2.0, 0, 2, 0]]), torch.tensor([[2.0, 0, 2, 0], [0, 0, 0, 0]])
    context, weights = layer(query, key, torch.eye(4)[:2], need_weights=need_weights)
    expected = torch.tensor([[[0.9442, 0.0558]]] * 2)
    if need_weights:
        torch.testing.assert_close(weights, expected, rtol=0, atol=5e-5)
    # Values [1, 0, 0, 0] and [0, 1, 0, 0]: the first head returns its weights, the second nothing.
    torch.testing.assert_close(context, torch.tensor([[0.9442, 0.0558, 0, 0]]), rtol=0, atol=5e-5)


def test_heads_split_the_width_and_shared_keys_make_the_projections_smaller():
    """h heads of width d / h cost as much as one of width d; sharing saves keys and values only."""
    count = {name: sum(p.numel() for p in build(name).parameters()) for name in VARIANTS}
    whole, quarter = WIDTH * WIDTH + WIDTH, WIDTH * 4 + 4
    assert count["plain"] == count["rotary"] == count["alibi"] == 4 * whole
    assert count["grouped"] == 2 * whole + 2 * (2 * quarter)
    assert count["multi-query"] == 2 * whole + 2 * quarter
    known = build("multi-query").keys_values(*inputs()[1:])
    assert known.keys.shape == known.values.shape == (2, 1, 7, 4), "the cache holds no copies for the heads"


# --- The explicit path and the kernel ----------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("keys", [5, 7])
@pytest.mark.parametrize("mask", MASKS)
@EVERY_VARIANT
def test_with_and_without_weights_the_output_is_the_same(variant, mask, keys, causal):
    """Train without the weights, look at them afterwards: both must be one model."""
    layer, mask = build(variant, torch.float32), MASKS[mask](keys)
    asked = [x.requires_grad_() for x in inputs(5, keys, dtype=torch.float32)]
    outputs, gradients = [], []
    for need_weights in (True, False):
        read = layer(*asked, mask=mask, causal=causal, need_weights=need_weights)
        assert (read.weights is not None) == need_weights
        outputs.append(read.context)
        gradients.append(torch.autograd.grad(read.context.square().mean(), [*asked, *layer.parameters()]))
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-5, msg=lambda text: (
        f"the kernel gives another output: mask, causal alignment, empty rows or scale?\n{text}"))
    torch.testing.assert_close(*gradients, rtol=0, atol=1e-5)


@settings(max_examples=40, deadline=None)
@given(
    variant=st.sampled_from(list(VARIANTS)), batch=st.lists(st.integers(1, 3), max_size=2),
    queries=st.integers(1, 4), more=st.integers(0, 4), causal=st.booleans(), seed=st.integers(0, 1000),
)
def test_any_shape_and_mask_gives_sums_of_one_or_zero(variant, batch, queries, more, causal, seed):
    """Random shapes, random masks with empty rows; and both paths agree."""
    keys, layer = queries + more, build(variant)
    mask = torch.rand(*batch, queries, keys, generator=torch.Generator().manual_seed(seed)) > 0.5
    asked = [data(*batch, count, WIDTH, seed=seed + i) for i, count in enumerate((queries, keys, keys))]
    read = layer(*asked, mask=mask, causal=causal)
    assert read.weights.shape == (*batch, HEADS, queries, keys)
    visible = mask & torch.ones_like(mask).tril(keys - queries) if causal else mask
    expected = visible.any(-1)[..., None, :].expand(*batch, HEADS, queries)
    torch.testing.assert_close(read.weights.sum(-1), expected.double())
    assert (read.weights.masked_select(~visible.unsqueeze(-3)) == 0).all()
    fused = layer(*asked, mask=mask, causal=causal, need_weights=False)
    torch.testing.assert_close(fused.context, read.context)


GROUPS = "enable_gqa" in (F.scaled_dot_product_attention.__doc__ or "")


@pytest.mark.skipif(not GROUPS, reason="this version of the framework has no grouped queries")
@pytest.mark.parametrize("variant", ["grouped", "multi-query"])
def test_groups_are_those_of_the_framework(variant):
    """Query heads 0 and 1 share the first keys, 2 and 3 the second: neighbours, not every other one."""
    layer, (query, key, value) = build(variant), inputs()
    queries = layer.query_projection(query).unflatten(-1, (HEADS, -1)).transpose(1, 2)
    known = layer.keys_values(key, value)
    context = F.scaled_dot_product_attention(queries, *known, enable_gqa=True)
    expected = layer.output_projection(context.transpose(1, 2).flatten(-2))
    torch.testing.assert_close(layer(query, key, value).context, expected)


def test_as_many_key_value_heads_as_heads_share_nothing():
    whole, asked = build(), inputs()
    same = MultiHeadAttention(WIDTH, HEADS, key_value_heads=HEADS).double()
    same.load_state_dict(whole.state_dict())
    assert torch.equal(same(*asked).context, whole(*asked).context)


# --- Who sees what -----------------------------------------------------------------------------------------


@EVERY_VARIANT
def test_rows_sum_to_one_for_any_batch_size(variant):
    """In every head, for a batch of 1 and of 2: the softmax is over the keys."""
    layer = build(variant)
    for batch in (1, 2):
        weights = layer(*inputs(batch=batch)).weights
        torch.testing.assert_close(weights.sum(-1), torch.ones(batch, HEADS, 5, dtype=torch.float64),
                                   msg="weights do not sum to 1 over the keys: wrong softmax axis?")


def test_heads_look_at_different_places():
    """Heads that are all alike would be one head."""
    weights = build()(*inputs()).weights
    for one, other in itertools.combinations(weights.unbind(1), 2):
        assert (one - other).abs().max() > 0.1


@PATHS
@EVERY_VARIANT
def test_a_hidden_key_has_weight_zero_and_no_influence(variant, need_weights):
    """Change what the mask hides: nothing may move, and no gradient may reach it."""
    layer, (query, key, value) = build(variant), inputs()
    key.requires_grad_(), value.requires_grad_()
    visible = torch.tensor([True, True, False, True, False, False, True])
    before = layer(query, key, value, mask=visible, need_weights=need_weights)
    if need_weights:
        assert (before.weights[..., ~visible] == 0).all(), "a hidden key has weight: is the mask inverted?"
        assert (before.weights[..., visible] > 0).all()
    before.context.sum().backward()
    for gradient in (key.grad, value.grad):
        assert (gradient[:, ~visible] == 0).all(), "a gradient reached a hidden key or value"
        assert (gradient[:, visible] != 0).any(-1).all(), "a visible key or value has no gradient"
    hidden = 100 * ~visible[:, None]
    after = layer(query, key + hidden, value - hidden, mask=visible, need_weights=need_weights)
    assert torch.equal(before.context, after.context), "a hidden key or value reached the output"


@pytest.mark.parametrize("variant", [name for name, given in VARIANTS.items() if "positions" not in given])
def test_permuting_the_keys_permutes_the_weights(variant):
    """Attention sees a set: only positions give it an order."""
    layer, (query, key, value) = build(variant), inputs()
    order = torch.tensor([3, 0, 4, 6, 1, 5, 2])
    before, after = layer(query, key, value), layer(query, key[:, order], value[:, order])
    torch.testing.assert_close(after.weights, before.weights[..., order])
    torch.testing.assert_close(after.context, before.context, msg="the output depends on the keys' order")


@pytest.mark.parametrize("variant", ["rotary", "alibi"])
def test_positions_give_the_keys_an_order(variant):
    layer, (query, key, value) = build(variant), inputs()
    order = torch.tensor([3, 0, 4, 6, 1, 5, 2])
    read = layer(query, key[:, order], value[:, order])
    assert (read.context - layer(query, key, value).context).abs().max() > 0.01


@PATHS
@EVERY_VARIANT
def test_padding_a_batch_changes_nothing(variant, need_weights):
    layer, (query, key, value) = build(variant), inputs()
    padded = [F.pad(tensor, (0, 0, 0, 3), value=7.0) for tensor in (key, value)]
    alone = layer(query, key, value, need_weights=need_weights)
    read = layer(query, *padded, mask=torch.arange(10) < 7, need_weights=need_weights)
    torch.testing.assert_close(read.context, alone.context, msg="padding reached the output")
    if need_weights:
        torch.testing.assert_close(read.weights[..., :7], alone.weights)


@PATHS
@EVERY_VARIANT
def test_samples_of_a_batch_do_not_see_each_other(variant, need_weights):
    """Also where batch, heads and length are one number: an axis that is swapped shows here."""
    layer, asked = build(variant), inputs(4, 4, batch=4)
    mask = random_mask(4, 4, 4)
    together = layer(*asked, mask=mask, causal=True, need_weights=need_weights)
    for i in range(4):
        row = slice(i, i + 1)
        alone = layer(*(x[row] for x in asked), mask=mask[row], causal=True, need_weights=need_weights)
        torch.testing.assert_close(together.context[row], alone.context, msg="rows of the batch are mixed")
        unbatched = layer(*(x[i] for x in asked), mask=mask[i], causal=True, need_weights=need_weights)
        torch.testing.assert_close(together.context[i], unbatched.context)


@PATHS
@pytest.mark.parametrize("keys", [5, 8])
@EVERY_VARIANT
def test_no_gradient_comes_from_a_later_position(variant, keys, need_weights):
    """Exactly 0, for a whole sequence and for the last five over a cache; with and without padding."""
    layer, masks = build(variant), (None, torch.arange(keys) != 1)
    for mask, t in itertools.product(masks, range(5)):
        query, key, value = (x.requires_grad_() for x in inputs(5, keys))
        context, _ = layer(query, key, value, mask=mask, causal=True, need_weights=need_weights)
        context[:, t].sum().backward()
        own = t + keys - 5  # where query t stands among the keys
        for gradient in (key.grad, value.grad):
            assert (gradient[:, own + 1 :] == 0).all(), f"query {t} of 5 sees beyond key {own} of {keys}"
        if mask is None or mask[own]:
            assert (value.grad[:, own] != 0).any(), f"query {t} of 5 does not see its own place, {own}"
        others = torch.arange(5) != t
        assert (query.grad[:, others] == 0).all()


@PATHS
def test_one_query_over_a_cache_sees_all_of_it(need_weights):
    """The kernel would align it with the first key, and show it that key only."""
    layer, (query, key, value) = build(), inputs(1, 7)
    read = layer(query, key, value, causal=True, need_weights=need_weights)
    torch.testing.assert_close(read.context, layer(query, key, value).context)
    if need_weights:
        assert (read.weights > 0).all()


@PATHS
@EVERY_VARIANT
def test_the_last_queries_read_what_they_read_among_all(variant, need_weights):
    """With `causal` the last query stands at the last key; rotary positions must agree with the mask."""
    layer, (x, _, _) = build(variant), inputs(6, 6)
    whole = layer(x, x, x, causal=True, need_weights=need_weights)
    last = layer(x[:, 4:], x, x, causal=True, need_weights=need_weights)
    torch.testing.assert_close(last.context, whole.context[:, 4:])


@PATHS
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("causal", [False, True])
@EVERY_VARIANT
def test_a_row_with_nothing_to_attend_reads_nothing(variant, causal, dtype, need_weights):
    """Weights 0 and context 0, so that the output is the bias of W^O; never NaN, forward or backward."""
    layer, asked = build(variant, dtype), [x.requires_grad_() for x in inputs(dtype=dtype)]
    mask = padding_mask(torch.tensor([7, 0]), 7).expand(2, 5, 7).clone()
    mask[0, 1] = False
    context, weights = layer(*asked, mask=mask, causal=causal, need_weights=need_weights)
    assert context.dtype == dtype and context.isfinite().all(), "an empty row is not finite"
    bias = layer.output_projection.bias
    assert torch.equal(context[1], bias.expand(5, -1)) and torch.equal(context[0, 1], bias), (
        "an empty row read something: is it a mean of all values?"
    )
    assert not torch.equal(context[0, 0], bias)
    if need_weights:
        assert weights.dtype == dtype and (weights[1] == 0).all() and (weights[0, :, 1] == 0).all()
    context.float().square().sum().backward()
    for tensor in (*asked, *layer.parameters()):
        assert tensor.grad.isfinite().all(), "a gradient is not finite"
    assert all((tensor.grad[1] == 0).all() for tensor in asked), "an empty sentence got a gradient"


@PATHS
def test_no_key_at_all_is_a_row_with_nothing_to_attend(need_weights):
    layer, asked = build(), inputs(5, 0)
    context, _ = layer(*asked, need_weights=need_weights)
    assert torch.equal(context, layer.output_projection.bias.expand(2, 5, -1))


@PATHS
def test_the_mask_is_that_of_the_kernel_and_the_inverse_of_the_module_s(need_weights):
    """True = may be attended here and in F.scaled_dot_product_attention; "hide" in nn.MultiheadAttention."""
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).double().eval()
    ours, asked = MultiHeadAttention.from_torch(theirs), inputs()
    first, mask = torch.arange(7) == 0, random_mask(5, 7)
    mask = mask | first  # no empty row: the framework gives NaN there
    found = ours(*asked, mask=mask, need_weights=need_weights).context
    torch.testing.assert_close(found, theirs(*asked, attn_mask=~mask)[0])
    assert not torch.allclose(found, theirs(*asked, attn_mask=mask & ~first)[0])
    weights = theirs.in_proj_weight.unflatten(0, (3, HEADS, -1))
    heads = [torch.einsum("bld,hkd->bhlk", x, w) for x, w in zip(asked, weights, strict=True)]
    kernel = F.scaled_dot_product_attention(*heads, attn_mask=mask)
    torch.testing.assert_close(found, theirs.out_proj(kernel.transpose(1, 2).flatten(-2)))


# --- The framework's module, weight for weight -------------------------------------------------------------


def torch_module(dtype=torch.float64, **options) -> nn.MultiheadAttention:
    torch.manual_seed(3)
    module = nn.MultiheadAttention(WIDTH, HEADS, **{"batch_first": True, **options})
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(std=0.4)
    return module.to(dtype)


@PATHS
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("hidden", ["nothing", "padding", "the future", "both"])
def test_equals_the_framework_s_module_weight_for_weight(hidden, bias, need_weights):
    """Outputs, every head's weights, their mean, and gradients."""
    theirs = torch_module(bias=bias)
    ours, asked = MultiHeadAttention.from_torch(theirs), [x.requires_grad_() for x in inputs(6, 6)]
    padding = padding_mask(torch.tensor([6, 4]), 6) if hidden in ("padding", "both") else None
    causal = hidden in ("the future", "both")
    options = {
        "key_padding_mask": None if padding is None else ~padding[:, 0],
        "attn_mask": ~torch.ones(6, 6, dtype=torch.bool).tril() if causal else None,
    }
    read = ours(*asked, mask=padding, causal=causal, need_weights=need_weights)
    expected, weights = theirs(*asked, average_attn_weights=False, **options)
    torch.testing.assert_close(read.context, expected)
    gradients = [torch.autograd.grad(out.square().sum(), asked) for out in (read.context, expected)]
    torch.testing.assert_close(*gradients)
    if need_weights:
        torch.testing.assert_close(read.weights, weights, msg="the heads' weights differ, or their order")
        torch.testing.assert_close(read.weights.mean(1), theirs(*asked, **options)[1])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_weights_go_to_the_framework_and_come_back(dtype):
    ours = build(dtype=dtype, dropout=0.25).eval()
    theirs = ours.to_torch()
    assert theirs.batch_first and theirs.dropout == 0.25 and not theirs.training
    assert theirs.in_proj_weight.dtype == dtype
    back = MultiHeadAttention.from_torch(theirs)
    assert back.read.dropout == 0.25 and not back.training
    for (name, before), after in zip(ours.state_dict().items(), back.state_dict().values(), strict=True):
        assert after.dtype == dtype and torch.equal(before, after), f"{name} did not come back"
    asked = inputs(dtype=dtype)
    loose = 0.1 if dtype == torch.bfloat16 else 1e-5
    torch.testing.assert_close(theirs(*asked)[0], ours(*asked).context, rtol=0, atol=loose)


def test_the_two_modules_share_no_memory():
    """A copy that trains along with the original would be no copy."""
    theirs = torch_module()
    ours = MultiHeadAttention.from_torch(theirs)
    back, kept = ours.to_torch(), ours.query_projection.weight.clone()
    with torch.no_grad():
        theirs.in_proj_weight.zero_(), back.in_proj_weight.zero_()
    assert torch.equal(ours.query_projection.weight, kept)


def test_a_module_is_read_whatever_its_layout_and_on_its_device():
    """Sequence first or batch first: the weights are the same."""
    theirs, asked = torch_module(batch_first=False), inputs()
    expected = theirs(*(x.transpose(0, 1) for x in asked))[0].transpose(0, 1)
    torch.testing.assert_close(MultiHeadAttention.from_torch(theirs)(*asked).context, expected)
    there = MultiHeadAttention.from_torch(nn.MultiheadAttention(WIDTH, HEADS, device="meta"))
    assert all(parameter.is_meta for parameter in there.parameters())
    assert all(parameter.is_meta for parameter in there.to_torch().parameters())


# --- Dropout -----------------------------------------------------------------------------------------------


def test_the_weights_that_are_shown_are_never_dropped():
    """A map with holes, and rows that do not sum to 1, would show the dropout and not the model."""
    layer, asked = build(dropout=0.5), inputs()
    expected = layer.eval()(*asked)
    torch.manual_seed(0)
    shown = layer.train()(*asked)
    torch.testing.assert_close(shown.weights, expected.weights, msg="the weights that are shown were dropped")
    assert not torch.allclose(shown.context, expected.context), "nothing was dropped from the output"
    single = layer(*inputs(5, 1)).weights
    assert (single == 1).all(), "one key has all the weight, in training too"


@PATHS
def test_the_output_is_dropped_in_training_only_and_keeps_its_mean(need_weights):
    """What is left is scaled up by 1 / (1 - dropout): on both paths, for the same share of the weights."""
    layer, asked = build(dropout=0.25), inputs()
    expected = layer.eval()(*asked, need_weights=need_weights).context
    assert torch.equal(layer(*asked, need_weights=need_weights).context, expected), "dropout in evaluation"
    layer.train()
    torch.manual_seed(0)
    wide = [x.expand(2000, *x.shape) for x in asked]
    found = layer(*wide, need_weights=need_weights).context
    torch.testing.assert_close(found.mean(0), expected, rtol=0, atol=0.15)
    one_key = [x[:1, :1].expand(4000, 1, -1) for x in asked]
    gone = (layer(*one_key, need_weights=need_weights).context == layer.output_projection.bias).all(-1)
    share = gone.double().mean().item()
    assert 0 < share < 0.1, "each head drops for itself: all four at once are gone in 0.25^4 = 0.004"


# --- The cache ---------------------------------------------------------------------------------------------


@PATHS
@pytest.mark.parametrize("pieces", [[1] * 7, [3, 1, 3], [0, 7]])
@EVERY_VARIANT
def test_a_cache_made_in_pieces_reads_like_the_whole(variant, pieces, need_weights):
    """One word after the other, each with its own place: the numbers of the whole pass."""
    layer, (x, _, _) = build(variant), inputs(7, 7)
    whole = layer(x, x, x, causal=True, need_weights=need_weights)
    known, contexts, first = None, [], 0
    for piece in x.split(pieces, dim=1):
        new = layer.keys_values(piece, piece, first=first)
        known = new if known is None else known.followed_by(new)
        read = layer(piece, known=known, causal=True, first=first, need_weights=need_weights)
        contexts.append(read.context)
        first += piece.shape[1]
    for joined, at_once in zip(known[:2], layer.keys_values(x, x)[:2], strict=True):
        torch.testing.assert_close(joined, at_once, msg="the cache differs: its order, or the keys' places?")
    torch.testing.assert_close(torch.cat(contexts, dim=1), whole.context)


@pytest.mark.parametrize("training", [True, False], ids=["with gradients", "without"])
def test_a_cache_holds_keys_and_values_in_the_order_they_came(training):
    ones = torch.ones(1, 2, 3, 4)
    early, late = KeysValues(ones, 2 * ones), KeysValues(3 * ones, 4 * ones)
    with torch.set_grad_enabled(training):
        joined = early.followed_by(late)
    assert joined.keys[0, 0, :, 0].tolist() == [1, 1, 1, 3, 3, 3]
    assert joined.values[0, 0, :, 0].tolist() == [2, 2, 2, 4, 4, 4]
    assert early.keys.shape == (1, 2, 3, 4), "the shorter cache is still needed by another hypothesis"


def numbered(*numbers):
    """One head's keys, a number each; the values are their negatives."""
    keys = torch.tensor(numbers, dtype=torch.float32).reshape(1, 1, -1, 1)
    return KeysValues(keys, -keys)


@torch.no_grad()
def test_two_that_go_on_from_one_cache_do_not_see_each_other():
    """Spare room is written by the first to go on; a second that wrote there too would change its words."""
    start = numbered(1).followed_by(numbered(2))
    one = start.followed_by(numbered(3))
    other = start.followed_by(numbered(30))
    further = one.followed_by(numbered(4, 5))
    late = start.followed_by(numbered(300, 400))
    caches = [(start, [1, 2]), (one, [1, 2, 3]), (other, [1, 2, 30]), (further, [1, 2, 3, 4, 5]),
              (late, [1, 2, 300, 400])]
    for cache, expected in caches:
        assert cache.keys.flatten().tolist() == expected, "a cache was overwritten by one that began alike"
        assert cache.values.flatten().tolist() == [-number for number in expected]
    [row] = further.reordered(torch.tensor([0])).keys.flatten(1).tolist()
    assert row == [1, 2, 3, 4, 5]


@torch.no_grad()
def test_a_growing_cache_copies_its_words_once_in_a_while():
    """A hundred words: the room is made anew a few times, not a hundred times."""
    cache, rooms = numbered(0), set()
    for number in range(1, 101):
        cache = cache.followed_by(numbered(number))
        rooms.add(cache.keys.data_ptr())
    assert cache.keys.flatten().tolist() == list(range(101))
    assert len(rooms) <= 6, f"the cache was copied {len(rooms)} times"


@torch.no_grad()
def test_a_cache_in_one_dtype_takes_no_keys_of_another_into_its_room():
    """Written into memory of float16, float32 keys would lose their digits without a word."""
    half = KeysValues(*(torch.ones(1, 1, 2, 1, dtype=torch.float16) for _ in range(2)))
    cache = half.followed_by(KeysValues(*(torch.ones(1, 1, 1, 1, dtype=torch.float16) for _ in range(2))))
    after = cache.followed_by(numbered(1.0001))
    other = cache._replace(keys=2 * cache.keys, values=2 * cache.values).followed_by(half)
    assert other.keys.flatten().tolist() == [2, 2, 2, 1, 1], "what stood in the room was read, not the cache"
    assert after.keys.dtype == torch.float32 and after.keys[0, 0, -1, 0] == torch.tensor(1.0001)


def test_rotary_scores_depend_on_distance_only():
    """Move queries and keys by a thousand places: nothing changes."""
    layer, (query, key, value) = build("rotary"), inputs()
    here = layer(query, known=layer.keys_values(key, value))
    far = layer(query, known=layer.keys_values(key, value, first=1000), first=1000)
    torch.testing.assert_close(far, here)
    apart = layer(query, known=layer.keys_values(key, value, first=3))
    assert (apart.weights - here.weights).abs().max() > 0.01, "the place of the keys plays no part"


# --- Gradients, layout, errors -----------------------------------------------------------------------------


@PATHS
@EVERY_VARIANT
def test_gradients_are_those_of_finite_differences(variant, need_weights):
    layer, asked = build(variant), inputs(2, 3, batch=1)
    names, values = zip(*layer.named_parameters(), strict=True)
    mask = torch.tensor([[[True, False, True], [False, False, False]]])

    def read(query, key, value, *chosen):
        weights = dict(zip(names, chosen, strict=True))
        options = {"mask": mask, "need_weights": need_weights}
        found = torch.func.functional_call(layer, weights, (query, key, value), options)
        return found if need_weights else found.context

    values = [value.detach().requires_grad_() for value in values]
    assert torch.autograd.gradcheck(read, [*(x.requires_grad_() for x in asked), *values], fast_mode=True)


@PATHS
def test_inputs_need_not_be_contiguous(need_weights):
    layer, asked, mask = build(), inputs(), random_mask(5, 7)
    turned = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in asked]
    assert not any(x.is_contiguous() for x in turned)
    found = layer(*turned, mask=mask.T.contiguous().T, need_weights=need_weights)
    torch.testing.assert_close(found.context, layer(*asked, mask=mask, need_weights=need_weights).context)


def test_options_are_named_by_their_keyword():
    """`MultiHeadAttention(16, 4, 0.1)` would be a share of heads."""
    kinds = [p.kind for p in list(inspect.signature(MultiHeadAttention).parameters.values())[2:]]
    assert set(kinds) == {inspect.Parameter.KEYWORD_ONLY}


X = torch.zeros(2, 3, WIDTH)


def ask(query=X, key=X, value=X, **options):
    return MultiHeadAttention(WIDTH, HEADS)(query, key, value, **options)


@PATHS
@pytest.mark.parametrize(("given", "error", "words"), [
    ({"mask": torch.ones(3, 3)}, TypeError, ["mask", "float32", "boolean", "True"]),
    ({"mask": torch.ones(3, 3).int()}, TypeError, ["mask", "int32", "boolean"]),
    ({"mask": torch.ones(2, 3).bool()}, ValueError, ["mask", "(2, 3)", "(2, 3, 3)"]),
    ({"mask": torch.ones(2, 4, 3, 3).bool()}, ValueError, ["mask", "(2, 4, 3, 3)", "(2, 3, 3)"]),
    ({"query": X[..., :8]}, ValueError, ["query", "(2, 3, 8)", "(..., positions, 16)"]),
    ({"key": X[..., :8]}, ValueError, ["key", "(2, 3, 8)", "16"]),
    ({"value": X[..., :8]}, ValueError, ["value", "(2, 3, 8)", "16"]),
    ({"query": X[0, 0]}, ValueError, ["query", "(16,)", "(..., positions, 16)"]),
    ({"value": X[:, :2]}, ValueError, ["key", "3", "value", "2", "exactly one value"]),
    ({"query": torch.zeros(2, 4, WIDTH), "causal": True}, ValueError, ["queries = 4", "keys = 3"]),
    ({"key": None}, ValueError, ["value was given", "key and value", "known"]),
    ({"key": None, "value": None}, ValueError, ["nothing was given", "key and value", "known"]),
    ({"known": KeysValues(X, X)}, ValueError, ["key and value and known", "or known"]),
])
def test_bad_input_is_named(given, error, words, need_weights):
    with pytest.raises(error) as caught:
        ask(**given, need_weights=need_weights)
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(("make", "words"), [
    (lambda: MultiHeadAttention(10, 4), ["width 10", "heads = 4", "1, 2, 5, 10"]),
    (lambda: MultiHeadAttention(16, 0), ["heads = 0", "1, 2, 4, 8, 16"]),
    (lambda: MultiHeadAttention(16, -4), ["heads = -4"]),
    (lambda: MultiHeadAttention(0, 4), ["width 0", "heads = 4"]),
    (lambda: MultiHeadAttention(16, 4, key_value_heads=3), ["heads 4", "key_value_heads = 3", "1, 2, 4"]),
    (lambda: MultiHeadAttention(16, 4, key_value_heads=0), ["key_value_heads = 0"]),
    (lambda: MultiHeadAttention(16, 4, key_value_heads=8), ["key_value_heads = 8"]),
    (lambda: MultiHeadAttention(12, 4, positions=Rotary()), ["width 12", "heads = 4", "width 3", "even"]),
    (lambda: MultiHeadAttention.from_torch(torch_module(kdim=8)), ["module", "kdim"]),
    (lambda: MultiHeadAttention.from_torch(torch_module(vdim=8)), ["module", "vdim"]),
    (lambda: MultiHeadAttention.from_torch(torch_module(add_bias_kv=True)), ["module", "add_bias_kv"]),
    (lambda: MultiHeadAttention.from_torch(torch_module(add_zero_attn=True)), ["module", "add_zero_attn"]),
    (lambda: MultiHeadAttention(16, 4, positions=Rotary()).to_torch(), ["positions is Rotary", "None"]),
    (lambda: MultiHeadAttention(16, 4, read=linear_attend).to_torch(), ["read is", "SoftmaxRead"]),
    (lambda: MultiHeadAttention(16, 4, read=SoftmaxRead(AdditiveScore(4, 4, 4))).to_torch(), ["read is"]),
    (lambda: MultiHeadAttention(16, 4, read=linear_attend, dropout=0.1), ["dropout is 0.1", "SoftmaxRead("]),
    (lambda: MultiHeadAttention(16, 4, read=linear_attend, positions=Alibi()), ["Alibi", "bias", "Rotary"]),
    (lambda: MultiHeadAttention(16, 4, dropout=1.0), ["dropout is 1.0", "below 1"]),
    (lambda: MultiHeadAttention(16, 4, key_value_heads=2).to_torch(), ["key_value_heads is 2", "4"]),
])
def test_choices_that_cannot_work_are_named(make, words):
    with pytest.raises(ValueError) as caught:
        make()
    assert all(word in str(caught.value) for word in words), str(caught.value)
