"""Properties that every score and the equation must have: written once, run over every mechanism."""

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
    ConcatScore,
    CosineScore,
    DotScore,
    GaussianScore,
    GeneralScore,
    LocationScore,
    ScaledDotScore,
    attend,
    masked_softmax,
    score_table,
)

# A new score joins the suite by one line: a function of (d_q, d_k) that builds it.
EQUAL_WIDTHS = {
    "dot": lambda d_q, d_k: DotScore(),
    "scaled dot": lambda d_q, d_k: ScaledDotScore(),
    "cosine": lambda d_q, d_k: CosineScore(),
    "gaussian": lambda d_q, d_k: GaussianScore(0.7),
}
ANY_WIDTHS = {
    "general": GeneralScore,
    "additive": lambda d_q, d_k: AdditiveScore(d_q, d_k, 5),
    "concat": lambda d_q, d_k: ConcatScore(d_q, d_k, 5),
}
CONTENT = EQUAL_WIDTHS | ANY_WIDTHS
ALL = CONTENT | {"location": lambda d_q, d_k: LocationScore(d_q, 9)}


def build(name, d_q=4, d_k=4, dtype=torch.float64):
    torch.manual_seed(0)
    return ALL[name](d_q, d_k).to(dtype)


def data(*shape, seed=1, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def loop(name, score, q, k):
    """The formula of each score for one query and one key, as the papers print it."""
    match name:
        case "dot":
            return q @ k
        case "scaled dot":
            return q @ k / math.sqrt(len(q))
        case "cosine":
            return q @ k / (q.norm() * k.norm())
        case "gaussian":
            return -((q - k) ** 2).sum() / (2 * score.log_bandwidth.exp() ** 2)
        case "general":
            return q @ score.key_projection.weight @ k
        case "additive":
            hidden = score.query_projection.weight @ q + score.key_projection.weight @ k
            return score.energy.weight[0] @ hidden.tanh()
        case "concat":
            return score.energy.weight[0] @ (score.projection.weight @ torch.cat([q, k])).tanh()


@pytest.mark.parametrize("name", CONTENT)
def test_every_entry_equals_the_printed_formula(name):
    """Compute each (query, key) pair alone: the vectorised score must agree with the paper's formula."""
    score, query, key = build(name), data(2, 3, 4), data(2, 5, 4, seed=2)
    scores = score(query, key)
    for b, i, j in itertools.product(range(2), range(3), range(5)):
        expected = loop(name, score, query[b, i], key[b, j])
        torch.testing.assert_close(
            scores[b, i, j],
            expected,
            msg=f"{name}: entry (batch {b}, query {i}, key {j}) differs from the formula: is a transpose, "
            "a scale or an axis wrong?",
        )


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("leading", [(), (1,), (2,), (2, 3)])
def test_the_shape_is_batch_queries_keys(name, leading):
    """Any number of leading dimensions, one query or many."""
    score = build(name)
    assert score(data(*leading, 3, 4), data(*leading, 5, 4)).shape == (*leading, 3, 5)


@pytest.mark.parametrize("name", ANY_WIDTHS)
def test_query_and_key_may_differ_in_width(name):
    """A decoder of width 3 reading annotations of width 6."""
    assert build(name, 3, 6)(data(2, 1, 3), data(2, 5, 6)).shape == (2, 1, 5)


@pytest.mark.parametrize("name", [name for name in ALL if hasattr(build(name), "project_keys")])
def test_projecting_the_keys_once_changes_nothing(name):
    """The key side computed ahead must give the same scores as computed on the spot."""
    score, query, key = build(name), data(2, 3, 4), data(2, 5, 4, seed=2)
    ahead = score(query, key, projected_keys=score.project_keys(key))
    torch.testing.assert_close(ahead, score(query, key), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CONTENT)
def test_permuting_the_keys_permutes_the_weights(name):
    """Attention sees a set: reorder keys and values together, and the context must not change."""
    score, query, key, value = build(name), data(2, 3, 4), data(2, 5, 4, seed=2), data(2, 5, 2, seed=3)
    order = torch.tensor([3, 0, 4, 1, 2])
    before, after = (
        attend(query, key, value, score=score),
        attend(query, key[:, order], value[:, order], score=score),
    )
    torch.testing.assert_close(
        after.weights,
        before.weights[..., order],
        msg="weights do not follow their keys: is the softmax over the wrong axis?",
    )
    torch.testing.assert_close(
        after.context, before.context, msg="the context depends on the order of the keys"
    )


def test_location_scores_ignore_what_the_keys_hold():
    """The query alone decides: changing every key changes nothing, but their number does."""
    score, query = build("location"), data(2, 3, 4)
    assert torch.equal(score(query, data(2, 5, 4)), score(query, data(2, 5, 4, seed=9)))
    assert score(query, data(2, 7, 4)).shape == (2, 3, 7)
    torch.testing.assert_close(score(query, data(2, 7, 4))[..., :5], score(query, data(2, 5, 4)))


@pytest.mark.parametrize("name", ALL)
def test_rows_sum_to_one_for_any_batch_size(name):
    """For a batch of 1 and of 2: a softmax over the batch would give weights of 1 for the first."""
    for batch in (1, 2):
        read = attend(data(batch, 3, 4), data(batch, 5, 4), data(batch, 5, 2), score=build(name))
        torch.testing.assert_close(
            read.weights.sum(-1),
            torch.ones(batch, 3, dtype=torch.float64),
            msg="weights do not sum to 1 over the keys: wrong softmax axis?",
        )


@pytest.mark.parametrize("name", ALL)
def test_a_hidden_key_has_weight_zero_and_no_influence(name):
    """Change the keys and values that the mask hides: nothing may move, and no gradient may reach them."""
    score, query = build(name), data(2, 1, 4)
    key, value = data(2, 6, 4, seed=2).requires_grad_(), data(2, 6, 3, seed=3).requires_grad_()
    mask = torch.tensor([True, True, False, True, False, False]).expand(2, 1, 6)
    before = attend(query, key, value, score=score, mask=mask)
    assert (before.weights[..., ~mask[0, 0]] == 0).all(), "a hidden key has weight: is the mask inverted?"
    before.context.sum().backward()
    for gradient in (key.grad, value.grad):
        if gradient is not None:
            assert (gradient[:, ~mask[0, 0]] == 0).all(), "a gradient reached a hidden key or value"
    with torch.no_grad():
        key[:, ~mask[0, 0]] += 100.0
        value[:, ~mask[0, 0]] -= 100.0
    after = attend(query, key, value, score=score, mask=mask)
    assert torch.equal(before.weights, after.weights), (
        "a hidden key moved the weights: is the mask applied after the softmax?"
    )
    assert torch.equal(before.context, after.context), "a hidden value reached the context"


@pytest.mark.parametrize("name", ALL)
def test_padding_a_batch_changes_nothing(name):
    """Three extra masked keys: the weights of the real ones stay as they were."""
    score, query, key, value = build(name), data(2, 3, 4), data(2, 5, 4), data(2, 5, 2)
    padded_key, padded_value = F.pad(key, (0, 0, 0, 3), value=7.0), F.pad(value, (0, 0, 0, 3), value=-7.0)
    alone = attend(query, key, value, score=score)
    padded = attend(query, padded_key, padded_value, score=score, mask=torch.arange(8) < 5)
    torch.testing.assert_close(padded.weights[..., :5], alone.weights, msg="padding changed the weights")
    torch.testing.assert_close(padded.context, alone.context, msg="padding reached the context")


@pytest.mark.parametrize("name", ALL)
def test_samples_of_a_batch_do_not_see_each_other(name):
    """Each row alone gives what it gives in company, also when batch and length are equal."""
    score, query, key, value = build(name), data(4, 4, 4), data(4, 4, 4, seed=2), data(4, 4, 4, seed=3)
    together = attend(query, key, value, score=score)
    for row in range(4):
        one = slice(row, row + 1)
        torch.testing.assert_close(
            attend(query[one], key[one], value[one], score=score).context,
            together.context[one],
            msg="rows of the batch are mixed",
        )


@pytest.mark.parametrize("name", ALL)
def test_non_contiguous_input_is_welcome(name):
    """What comes out of a transpose must work like its contiguous copy."""
    score = build(name)
    query, key = data(3, 2, 4).transpose(0, 1), data(5, 2, 4).transpose(0, 1)
    torch.testing.assert_close(score(query, key), score(query.contiguous(), key.contiguous()))


@pytest.mark.parametrize("name", ALL)
def test_gradients_are_right(name):
    """Analytic against numeric gradients, in float64, through score, masked softmax and weighted sum."""
    score = build(name)
    query, key, value = (
        data(1, 2, 4).requires_grad_(),
        data(1, 3, 4, seed=2).requires_grad_(),
        data(1, 3, 2, seed=3).requires_grad_(),
    )
    mask = torch.tensor([[[True, False, True], [False, False, False]]])
    assert torch.autograd.gradcheck(
        lambda q, k, v: attend(q, k, v, score=score, mask=mask), (query, key, value)
    )


@pytest.mark.parametrize("masked", [False, True])
def test_scaled_dot_equals_the_fused_kernel(masked):
    """Same mask polarity, same scale as the framework's own attention."""
    query, key, value = data(2, 3, 4), data(2, 5, 4, seed=2), data(2, 5, 6, seed=3)
    mask = torch.rand(2, 3, 5, generator=torch.Generator().manual_seed(4)) > 0.4 if masked else None
    if masked:
        mask[..., 0] = True
    ours = attend(query, key, value, score=ScaledDotScore(), mask=mask).context
    theirs = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    torch.testing.assert_close(
        ours, theirs, msg="differs from F.scaled_dot_product_attention: scale or mask polarity?"
    )


def test_general_score_by_hand():
    """The bilinear score with query narrower than the keys."""
    score = GeneralScore(2, 3)
    with torch.no_grad():
        score.key_projection.weight.copy_(torch.tensor([[1.0, 0, 1], [0, 1, 0]]))
    key = torch.tensor([[1.0, 0, 0], [0, 1, 0], [1, 1, 1]])
    scores = score(torch.tensor([[1.0, 2.0]]), key)
    torch.testing.assert_close(scores, torch.tensor([[1.0, 2.0, 4.0]]))
    torch.testing.assert_close(
        scores.softmax(-1), torch.tensor([[0.0420, 0.1142, 0.8438]]), atol=5e-5, rtol=0
    )


def test_concat_is_additive_with_its_matrix_cut_in_two():
    """W [q; k] = W_q q + W_k k: copy the halves, and the two scores are one."""
    concat, additive = build("concat"), build("additive")
    with torch.no_grad():
        additive.query_projection.weight.copy_(concat.projection.weight[:, :4])
        additive.key_projection.weight.copy_(concat.projection.weight[:, 4:])
        additive.energy.weight.copy_(concat.energy.weight)
    query, key = data(2, 3, 4), data(2, 5, 4)
    torch.testing.assert_close(concat(query, key), additive(query, key))


def test_a_missing_scale_would_be_seen():
    """The suite can tell dot from scaled dot: with d = 4 the two differ by a factor of 2."""
    query, key = data(1, 1, 4), data(1, 5, 4, seed=2)
    torch.testing.assert_close(DotScore()(query, key), 2 * ScaledDotScore()(query, key))


def test_a_zero_vector_scores_zero_by_cosine():
    """No direction, no NaN."""
    assert (CosineScore()(torch.zeros(1, 1, 3), torch.randn(1, 2, 3)) == 0).all()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_low_precision_stays_finite_and_in_its_dtype(name, dtype):
    """Half precision in, half precision out, with an empty row that stays zero."""
    score = build(name, dtype=dtype)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    read = attend(
        data(1, 2, 4, dtype=dtype),
        data(1, 3, 4, dtype=dtype),
        data(1, 3, 2, dtype=dtype),
        score=score,
        mask=mask,
    )
    assert read.context.dtype == read.weights.dtype == dtype
    assert read.context.isfinite().all() and (read.context[0, 1] == 0).all()


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from(list(ALL)),
    batch=st.lists(st.integers(1, 3), max_size=2),
    queries=st.integers(1, 4),
    keys=st.integers(1, 6),
    seed=st.integers(0, 1000),
)
def test_any_shape_and_mask_gives_weights_that_sum_to_one_or_zero(name, batch, queries, keys, seed):
    """Random shapes, random masks with empty rows."""
    mask = torch.rand(*batch, queries, keys, generator=torch.Generator().manual_seed(seed)) > 0.5
    read = attend(
        data(*batch, queries, 4, seed=seed),
        data(*batch, keys, 4, seed=seed + 1),
        data(*batch, keys, 3, seed=seed + 2),
        score=build(name),
        mask=mask,
    )
    torch.testing.assert_close(read.weights.sum(-1), mask.any(-1).double())
    assert (read.weights[~mask] == 0).all()
    assert (read.context[~mask.any(-1)] == 0).all()


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (
            lambda: DotScore()(torch.ones(1, 3), torch.ones(2, 4)),
            ValueError,
            ["query", "3", "4", "GeneralScore"],
        ),
        (lambda: AdditiveScore(3, 4, 0), ValueError, ["width", "0", "at least 1"]),
        (lambda: AdditiveScore(3, 4, 2.5), TypeError, ["width", "2.5", "whole"]),
        (lambda: AdditiveScore(3, 4, 5)(torch.ones(1, 4), torch.ones(2, 4)), ValueError, ["query", "4", "3"]),
        (lambda: GeneralScore(3, 4)(torch.ones(1, 3), torch.ones(2, 3)), ValueError, ["key", "3", "4"]),
        (lambda: LocationScore(3, 4)(torch.ones(1, 3), torch.ones(5, 3)), ValueError, ["5", "max_keys", "4"]),
        (lambda: GaussianScore(0.0), ValueError, ["bandwidth", "0.0", "positive"]),
        (
            lambda: attend(torch.ones(3), torch.ones(2, 3), torch.ones(2, 3), score=DotScore()),
            ValueError,
            ["query", "(3,)", "two dimensions"],
        ),
        (
            lambda: attend(torch.ones(1, 3), torch.ones(2, 3), torch.ones(4, 3), score=DotScore()),
            ValueError,
            ["key", "2", "value", "4"],
        ),
        (
            lambda: attend(
                torch.ones(1, 3), torch.ones(2, 3), torch.ones(2, 3), score=lambda q, k: torch.ones(2, 1)
            ),
            ValueError,
            ["score", "(2, 1)", "(1, 2)"],
        ),
    ],
)
def test_bad_input_is_named(make, error, words):
    """The message holds the argument, what was given and what is allowed."""
    with pytest.raises(error) as caught:
        make()
    assert all(word in str(caught.value) for word in words), str(caught.value)


# --- The layers are called ---------------------------------------------------------------------------------

LAYERED = {"general": ["key_projection"], "additive": ["query_projection", "key_projection", "energy"],
           "concat": ["projection", "energy"], "location": ["position_projection"]}


class Adapter(nn.Module):
    """A layer with a product of two thin matrices beside it, as LoRA adds one (Hu et al. 2021)."""

    def __init__(self, layer, rank=2):
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False, dtype=layer.weight.dtype)
        self.up = nn.Linear(rank, layer.out_features, bias=False, dtype=layer.weight.dtype)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


@pytest.mark.parametrize("name", LAYERED)
def test_hooks_on_a_score_s_layers_fire(name):
    """Whoever collects maps by hooks gets nothing, and no word, where `.weight` is read past the layer."""
    score, fired = build(name), []
    for layer in LAYERED[name]:
        score.get_submodule(layer).register_forward_hook(lambda *given, layer=layer: fired.append(layer))
    score(data(2, 3, 4), data(2, 5, 4))
    assert set(fired) == set(LAYERED[name]), f"the hook of {set(LAYERED[name]) - set(fired)} never fired"


@pytest.mark.parametrize("name", LAYERED)
def test_an_adapter_around_a_layer_takes_part(name):
    """Fresh, its scores are those of the merged matrix; and its own parameters learn."""
    score, merged, (query, key) = build(name), build(name), (data(2, 3, 4), data(2, 5, 4))
    for path in LAYERED[name]:
        adapter = Adapter(score.get_submodule(path))
        setattr(score, path, adapter)
        with torch.no_grad():
            merged.get_submodule(path).weight += adapter.up.weight @ adapter.down.weight
    torch.testing.assert_close(score(query, key), merged(query, key))
    score(query, key).square().sum().backward()
    assert all(parameter.grad.any() for parameter in score.parameters()), "an adapter is not used"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.parametrize("name", LAYERED)
def test_a_score_can_be_quantised(name):
    """In int8 a layer's `weight` is a method, which nobody may index."""
    score = build(name, dtype=torch.float32)
    query, key = data(2, 3, 4, dtype=torch.float32), data(2, 5, 4, dtype=torch.float32)
    small = torch.ao.quantization.quantize_dynamic(score, {nn.Linear})
    torch.testing.assert_close(small(query, key), score(query, key), rtol=0.05, atol=0.05)


def test_the_names_of_stored_weights_stay():
    stored = {name: set(build(name).state_dict()) for name in LAYERED}
    assert stored == {name: {f"{layer}.weight" for layer in layers} for name, layers in LAYERED.items()}


def test_the_table_counts_real_parameters():
    """Each row's number is that of the module, and every score of the package has its row."""
    rows = {row.name: row for row in score_table(4, 6, width=5, max_keys=9)}
    assert rows["GeneralScore"].parameters == 4 * 6
    assert rows["AdditiveScore"].parameters == rows["ConcatScore"].parameters == 5 * (4 + 6) + 5
    assert rows["LocationScore"].parameters == 9 * 4
    assert rows["DotScore"].parameters == 0 and not rows["DotScore"].key_side
    assert len(rows) == len(ALL), "a score is missing from the table, or from this suite"


def test_masked_softmax_is_used_by_attend():
    """attend without a mask is the plain softmax."""
    query, key = data(1, 2, 4), data(1, 3, 4)
    weights = attend(query, key, key, score=DotScore()).weights
    torch.testing.assert_close(weights, masked_softmax(DotScore()(query, key)))
