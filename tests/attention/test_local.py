"""Local attention: the right keys, bent around the right centre, and none of the others."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attncourse.attention import (
    AdditiveScore,
    ConcatScore,
    DotScore,
    GeneralScore,
    LocalAttention,
    LocationScore,
    attend,
    padding_mask,
    project_keys,
)

SCORES = {
    "dot": lambda: DotScore(),
    "general": lambda: GeneralScore(4, 4),
    "additive": lambda: AdditiveScore(4, 4, 5),
    "concat": lambda: ConcatScore(4, 4, 5),
}
KINDS = [
    ("monotonic", "none"), ("monotonic", "outside"), ("monotonic", "inside"),
    ("predicted", "outside"), ("predicted", "inside"), ("offset", "outside"), ("offset", "inside"),
]
SUM_TO_1 = [kind for kind in KINDS if kind[1] != "outside"]
LENGTHS = torch.tensor([9, 4, 1, 0])


def build(kind=("monotonic", "none"), half_width=2, score="general", dtype=torch.float64):
    torch.manual_seed(0)
    centre, gaussian = kind
    local = LocalAttention(
        SCORES[score](), half_width=half_width, centre=centre, gaussian=gaussian, query_width=4
    )
    with torch.no_grad():  # centres that move by several places
        for name, parameter in local.named_parameters():
            parameter.mul_(6.0 if name.startswith("centre_output") else 1.5)
    return local.to(dtype)


def data(queries=6, keys=9, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    shapes = ((4, queries, 4), (4, keys, 4), (4, keys, 3))
    return tuple(torch.randn(*s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes)


@torch.no_grad()
def by_loop(local, query, key, value, lengths, time=0):
    """The paper's formulas for one query after the other, with a plain softmax over a list of positions."""
    contexts, maps = torch.zeros(*query.shape[:2], value.shape[-1]).double(), []
    for b, length in enumerate(lengths.tolist()):
        rows = torch.zeros(query.shape[1], key.shape[1], dtype=torch.float64)
        for i, q in enumerate(query[b]):
            p = float(time + i)
            if local.centre != "monotonic":
                found = float(local.centre_output.weight[0] @ (local.centre_hidden.weight @ q).tanh())
                p = length / (1 + math.exp(-found)) if local.centre == "predicted" else (
                    min(max(p + found, 0.0), max(length - 1, 0)))
            window = [s for s in range(length) if abs(s - p) <= local.half_width]
            if not window:
                continue
            log_gaussian = torch.tensor([-((s - p) ** 2) / (2 * (local.half_width / 2) ** 2) for s in window])
            scores = local.score(q[None], key[b, window])[0]
            weights = (scores + log_gaussian * (local.gaussian == "inside")).softmax(0)
            weights = weights * (log_gaussian.exp() if local.gaussian == "outside" else 1)
            rows[i, window] = weights
            contexts[b, i] = weights @ value[b, window]
        maps.append(rows)
    return contexts, torch.stack(maps)


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_formulas_in_a_plain_loop(kind, score):
    local, (query, key, value) = build(kind, score=score), data()
    for time in (0, 3):
        found = local(query, key, value, lengths=LENGTHS, time=time)
        for ours, formula in zip(found, by_loop(local, query, key, value, LENGTHS, time), strict=True):
            torch.testing.assert_close(ours, formula, msg=lambda text: (
                f"which positions are within D of p_t, and is sigma D / 2?\n{text}"))


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(KINDS), half_width=st.integers(1, 6), keys=st.integers(1, 12),
       time=st.integers(0, 15), seed=st.integers(0, 1000))
def test_any_width_length_and_time_equal_the_loop(kind, half_width, keys, time, seed):
    """Windows wider than the source, off its end, at its edges."""
    local, (query, key, value) = build(kind, half_width), data(3, keys)
    lengths = torch.randint(0, keys + 1, (4,), generator=torch.Generator().manual_seed(seed))
    found = local(query, key, value, lengths=lengths, time=time)
    torch.testing.assert_close(found, type(found)(*by_loop(local, query, key, value, lengths, time)))


def test_predicted_centres_use_each_sentence_s_true_length():
    """With the padded length S, a short sentence's centre lies in its padding."""
    local, (query, key, value) = build(("predicted", "outside")), data(1, 10)
    torch.nn.init.zeros_(local.centre_output.weight)  # sigmoid(0) = 1/2
    lengths = torch.tensor([4, 10, 1, 0])
    read = local.look(query, key, value, lengths=lengths)
    assert read.centre[:, 0].tolist() == [2.0, 5.0, 0.5, 0.0], "S must be the true length of each sentence"
    _, weights = local(query, key, value, lengths=lengths)
    assert (weights[0, 0, 4:] == 0).all(), "a weight lies in the padding"


@pytest.mark.parametrize("kind", KINDS)
def test_what_lies_outside_the_window_changes_nothing(kind):
    """Change every key and value that got no weight: padding, or too far from the centre."""
    local, (query, key, value) = build(kind), data(1)
    before = local(query, key, value, lengths=LENGTHS)
    outside = (before.weights == 0).transpose(1, 2)
    after = local(query, key + 100 * outside, value + 100 * outside, lengths=LENGTHS)
    assert torch.equal(before.weights, after.weights), "a key that should not be read moved the weights"
    assert torch.equal(before.context, after.context), "a value that should not be read moved the context"


@pytest.mark.parametrize("kind", KINDS)
def test_rows_sum_to_what_the_docstring_says(kind):
    local, (query, key, value) = build(kind), data()
    read = local.look(query, key, value, lengths=LENGTHS)
    sums = read.weights.sum(-1)
    something = ((read.positions >= 0) & (read.positions < LENGTHS[:, None, None])
                 & ((read.positions - read.centre[..., None]).abs() <= 2)).any(-1)
    if kind in SUM_TO_1:
        torch.testing.assert_close(sums, something.double())
    else:
        assert (sums[something] > 0).all() and (sums <= 1).all() and (sums[something] < 0.999).any()
    assert (sums[~something] == 0).all(), "a window off the source must weigh nothing"


def test_a_window_over_everything_is_global_attention():
    local, (query, key, value) = build(half_width=20), data()
    expected = attend(query, key, value, score=local.score, mask=padding_mask(LENGTHS, 9))
    torch.testing.assert_close(local(query, key, value, lengths=LENGTHS), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_off_the_source_reads_nothing(kind):
    """The target is longer than the source: t runs on, and the softmax of an empty window is NaN."""
    local, (query, key, value) = build(kind), data()
    query.requires_grad_()
    lengths = torch.tensor([0, 0, 0, 0])
    context, weights = local(query, key, value, lengths=lengths)
    assert not weights.any() and not context.any()
    context.sum().backward()
    assert query.grad.isfinite().all()
    if kind[0] == "monotonic":
        context, weights = local(query, key, value, lengths=LENGTHS, time=30)
        assert not weights.any() and not context.any(), "p_t = t is far behind the last word"


def test_offset_starts_out_as_monotonic_and_stays_on_the_source():
    local, (query, _, _) = build(("offset", "inside")), data()
    weights = local.centre_output.weight.detach().clone()
    torch.nn.init.zeros_(local.centre_output.weight)
    expected = torch.tensor([[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 3, 3], [0] * 6, [0] * 6]).double()
    assert torch.equal(local.centres(query, LENGTHS), expected)
    local.centre_output.weight.data = 100 * weights
    far = local.centres(query, LENGTHS)
    assert (far >= 0).all() and (far <= (LENGTHS - 1).clamp(min=0)[:, None]).all()


# --- Cost --------------------------------------------------------------------------------------------------


def test_only_the_window_is_scored(monkeypatch):
    """A mask over all scores gives the same numbers at the full cost."""
    local, (query, key, value) = build(half_width=2), data()
    seen, real = [], local.score.forward
    monkeypatch.setattr(local.score, "forward", lambda q, k: (seen.append(k.shape[-2]), real(q, k))[1])
    local(query, key, value, lengths=LENGTHS)
    assert seen == [5], f"{seen} keys were scored for a query, not 2 D + 1 = 5"


def test_nothing_in_a_window_is_as_long_as_the_source():
    local, (query, key, value) = build(half_width=2), data()
    read = local.look(query, key, value, lengths=LENGTHS)
    assert read.weights.shape == read.positions.shape == (4, 6, 5) and read.context.shape == (4, 6, 3)


@pytest.mark.parametrize("score", SCORES)
def test_projected_keys_change_nothing(score):
    local, (query, key, value) = build(score=score), data()
    projected = project_keys(local.score, key)
    found = local(query, key, value, lengths=LENGTHS, projected_keys=projected)
    torch.testing.assert_close(found, local(query, key, value, lengths=LENGTHS))


# --- Gradients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind):
    local, (query, key, value) = build(kind), data(3, 5)
    names, values = zip(*local.named_parameters(), strict=True)
    values = [v.detach().requires_grad_() for v in values]

    def read(query, key, value, *chosen):
        inputs, options = (query, key, value), {"lengths": torch.tensor([5, 3, 1, 0])}
        return torch.func.functional_call(local, dict(zip(names, chosen, strict=True)), inputs, options)

    inputs = [tensor.requires_grad_() for tensor in (query, key, value)]
    assert torch.autograd.gradcheck(read, [*inputs, *values], fast_mode=True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[0] != "monotonic"])
def test_the_gaussian_alone_teaches_the_centre(kind):
    """The window's place is rounded, and rounding has no gradient."""
    local, (query, key, value) = build(kind), data()
    local(query, key, value, lengths=LENGTHS).context.sum().backward()
    assert (local.centre_output.weight.grad != 0).any(), "no gradient reaches v_p: is the centre detached?"
    local.zero_grad()
    local.gaussian = "none"
    local(query, key, value, lengths=LENGTHS).context.sum().backward()
    assert local.centre_output.weight.grad is None


# --- Time, precision, layout -------------------------------------------------------------------------------


def test_time_may_differ_from_row_to_row():
    local, (query, key, value) = build(), data(1)
    together = local(query, key, value, lengths=LENGTHS, time=torch.tensor([5, 2, 0, 1]))
    for row, time in enumerate((5, 2, 0, 1)):
        alone = local(query, key, value, lengths=LENGTHS, time=time)
        assert torch.equal(together.weights[row], alone.weights[row])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_every_dtype_gives_the_same_and_no_nan(kind, dtype):
    expected = build(kind)(*data(), lengths=LENGTHS)
    context, weights = build(kind, dtype=dtype)(*data(dtype=dtype), lengths=LENGTHS)
    assert context.dtype == dtype and context.isfinite().all() and weights.isfinite().all()
    # A centre that is rounded may take in another key at the window's edge, where the Gaussian is small.
    loose = {torch.float64: 1e-12, torch.float32: 1e-5}.get(dtype, 0.15)
    torch.testing.assert_close(weights.double(), expected.weights, rtol=0, atol=loose)


def test_centres_far_into_a_document_are_exact_in_half_precision():
    """bfloat16 knows no odd number above 256."""
    local = build(dtype=torch.bfloat16)
    query = torch.zeros(1, 2, 4, dtype=torch.bfloat16)
    assert local.centres(query, torch.tensor([5000]), time=4001).tolist() == [[4001.0, 4002.0]]
    key = torch.zeros(1, 5000, 4, dtype=torch.bfloat16)
    _, weights = local(query, key, key, lengths=torch.tensor([5000]), time=4001)
    assert weights[0, 0].nonzero().flatten().tolist() == [3999, 4000, 4001, 4002, 4003]


def test_inputs_need_not_be_contiguous():
    local, inputs = build(("offset", "inside")), data()
    turned = [tensor.transpose(0, 1).contiguous().transpose(0, 1) for tensor in inputs]
    torch.testing.assert_close(local(*turned, lengths=LENGTHS), local(*inputs, lengths=LENGTHS))


# --- Bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "words"), [
    ({"half_width": 0}, ["half_width", "0", "at least 1"]),
    ({"half_width": 1.5}, ["half_width", "1.5", "whole number"]),
    ({"centre": "learned"}, ["centre", "'learned'", "monotonic, predicted, offset"]),
    ({"gaussian": "both"}, ["gaussian", "'both'", "none, outside, inside"]),
    ({"centre": "predicted"}, ["gaussian", "no gradient", "'outside' or 'inside'"]),
    ({"centre": "predicted", "gaussian": "inside", "query_width": None}, ["query_width", "predicted"]),
    ({"score": LocationScore(4, 9)}, ["LocationScore", "GeneralScore"]),
])
def test_choices_that_cannot_work_are_named(options, words):
    with pytest.raises(ValueError) as caught:
        LocalAttention(**{"score": DotScore(), "half_width": 2, "query_width": 4, **options})
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize(("change", "words"), [
    ({"query": torch.randn(6, 4)}, ["query", "(6, 4)", "(batch, positions, width)"]),
    ({"value": torch.randn(4, 8, 3)}, ["key holds 9", "value holds 8"]),
    ({"value": torch.randn(3, 9, 3)}, ["(3, 9, 3)", "one batch size"]),
    ({"query": torch.randn(3, 6, 4)}, ["(3, 6, 4)", "one batch size"]),
    ({"lengths": torch.tensor([9, 4, 1])}, ["lengths", "3", "4"]),
    ({"lengths": torch.tensor([10, 4, 1, 0])}, ["10", "9"]),
    ({"key": torch.randn(4, 0, 4), "value": torch.randn(4, 0, 3), "lengths": torch.zeros(4).long()},
     ["key", "no positions"]),
])
def test_shapes_that_do_not_fit_are_named(change, words):
    names = dict(zip(("query", "key", "value"), data(), strict=True)) | {"lengths": LENGTHS}
    with pytest.raises(ValueError) as caught:
        build()(**{**names, **change})
    assert all(word in str(caught.value) for word in words), str(caught.value)
