"""Attention pooling: a learned query reads what is there, and nothing else."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from attncourse.attention import AttentionPooling, hop_penalty, padding_mask

KINDS = {
    "vector": {"width": None}, "network": {"width": 5}, "vector, 3 hops": {"hops": 3},
    "network, 3 hops": {"width": 5, "hops": 3},
}
LENGTHS = torch.tensor([6, 4, 1, 0])


def build(kind="network", dtype=torch.float64):
    torch.manual_seed(0)
    pool = AttentionPooling(4, **KINDS[kind])
    with torch.no_grad():  # large enough for the weights to be far from even
        for parameter in pool.parameters():
            parameter.mul_(3)
    return pool.to(dtype)


def data(batch=4, keys=6, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(batch, keys, 4, generator=generator, dtype=torch.float64).to(dtype)


@torch.no_grad()
def by_loop(pool, states, lengths):
    """Yang et al. 2016, eq. 5-7, one state after the other, for each query."""
    contexts, maps = [], []
    for row, length in zip(states, lengths.tolist(), strict=True):
        for query in pool.query:
            alpha = torch.zeros(len(row), dtype=row.dtype)
            scores = []
            for h in row[:length]:
                u = h if pool.hidden is None else torch.tanh(pool.hidden.weight @ h + pool.hidden.bias)
                scores.append(math.exp(float(u @ query)))
            for t, score in enumerate(scores):
                alpha[t] = score / sum(scores)
            maps.append(alpha)
            contexts.append(sum((alpha[t] * row[t] for t in range(length)), torch.zeros(4, dtype=row.dtype)))
    shape = (len(states), len(pool.query), -1)
    return torch.stack(contexts).view(shape), torch.stack(maps).view(shape)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_the_formulas_in_a_plain_loop(kind):
    pool, states = build(kind), data()
    found = pool(states, mask=padding_mask(LENGTHS, 6))
    for ours, formula in zip(found, by_loop(pool, states, LENGTHS), strict=True):
        torch.testing.assert_close(ours, formula, msg=lambda text: (
            f"tanh, b, or the axis of the softmax?\n{text}"))


@settings(max_examples=40, deadline=None)
@given(kind=st.sampled_from(list(KINDS)), lengths=st.lists(st.integers(0, 7), min_size=1, max_size=5),
       more=st.integers(0, 4))
def test_a_row_does_not_depend_on_its_batch_nor_on_padding(kind, lengths, more):
    """A softmax over the batch: weights change with the company, and are all 1 in a batch of one."""
    pool, lengths = build(kind), torch.tensor(lengths)
    keys = max(1, int(lengths.max()))
    states = data(len(lengths), keys)
    together = pool(F.pad(states, (0, 0, 0, more), value=50.0), mask=padding_mask(lengths, keys + more))
    assert (together.weights[..., keys:] == 0).all(), "padding has a weight"
    for i, length in enumerate(lengths.tolist()):
        alone = pool(states[i : i + 1, :length])
        torch.testing.assert_close(together.context[i], alone.context[0])
        torch.testing.assert_close(together.weights[i, :, :length], alone.weights[0])


@pytest.mark.parametrize("batch", [1, 2])
def test_three_states_by_hand(batch):
    """Scores 0, ln 3 and 5, the third a padding: weights 1/4, 3/4, 0 and the context (2.5, 0)."""
    pool = AttentionPooling(2)
    with torch.no_grad():
        pool.query.copy_(torch.tensor([[math.log(3) / 2, 0.0]]))
    # State (1, 0) would score ln 3 / 2: the same distance as from 0 to ln 3, so the same weights.
    states = torch.tensor([[1.0, 0.0], [3.0, 0.0], [9.0, 9.0]]).expand(batch, -1, -1)
    found = pool(states, mask=torch.tensor([True, True, False]).expand(batch, 1, 3))
    torch.testing.assert_close(found.weights, torch.tensor([0.25, 0.75, 0.0]).expand(batch, 1, 3))
    torch.testing.assert_close(found.context, torch.tensor([2.5, 0.0]).expand(batch, 1, 2))


@pytest.mark.parametrize("batch", [1, 2])
def test_a_hidden_score_is_left_out_and_not_set_to_0(batch):
    """Scores 1, 2, 3, the third hidden. Multiplied by the mask it would be 0, and exp(0) is 1."""
    pool = AttentionPooling(1)
    with torch.no_grad():
        pool.query.fill_(1.0)
    states = torch.tensor([[1.0], [2.0], [3.0]]).expand(batch, -1, -1)
    found = pool(states, mask=torch.tensor([True, True, False]).expand(batch, 1, 3)).weights
    expected = torch.tensor([0.2689, 0.7311, 0.0]).expand(batch, 1, 3)
    torch.testing.assert_close(found, expected, rtol=0, atol=5e-5,
                               msg=lambda text: f"[0.2447, 0.6652, 0.09] is a mask multiplied on\n{text}")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_sum_to_1_and_empty_ones_to_0(kind):
    context, weights = build(kind)(data(), mask=padding_mask(LENGTHS, 6))
    assert context.shape == (4, len(build(kind).query), 4) and weights.shape == (*context.shape[:2], 6)
    torch.testing.assert_close(weights.sum(-1), (LENGTHS > 0).double()[:, None].expand(weights.shape[:2]))
    assert not context[3].any(), "there was nothing to read"


@pytest.mark.parametrize("kind", KINDS)
def test_a_hidden_state_changes_nothing(kind):
    pool, states, mask = build(kind), data(), padding_mask(LENGTHS, 6)
    before = pool(states, mask=mask)
    after = pool(states + 100 * ~mask.transpose(1, 2), mask=mask)
    assert torch.equal(before.weights, after.weights), "a hidden state moved the weights"
    assert torch.equal(before.context, after.context), "a hidden state was read"


@pytest.mark.parametrize("kind", KINDS)
def test_permuting_the_states_permutes_the_weights(kind):
    """A pooling sees a set: the order lies in the states, if anywhere."""
    pool, states = build(kind), data()
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    before, after = pool(states), pool(states[:, order])
    torch.testing.assert_close(after.weights, before.weights[..., order])
    torch.testing.assert_close(after.context, before.context)


def test_each_hop_has_a_query_of_its_own():
    """Alike at the start, they would stay alike: the same gradient reaches all of them."""
    pool = AttentionPooling(4, width=5, hops=3)
    weights = pool(data(dtype=torch.float32)).weights
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not torch.allclose(weights[:, one], weights[:, other])


def test_parameters_are_those_of_the_papers():
    def count(pool):
        return sum(parameter.numel() for parameter in pool.parameters())

    assert count(AttentionPooling(100)) == 100
    assert count(AttentionPooling(100, width=30)) == 100 * 30 + 30 + 30, "W, b and u_w"
    assert count(AttentionPooling(100, width=30, hops=4)) == 100 * 30 + 30 + 4 * 30


def test_any_number_of_axes_lies_before_the_states():
    """Sentences of documents: (batch, sentences, words, d)."""
    pool, states = build("network, 3 hops"), data(6)
    found = pool(states.unflatten(0, (2, 3)), mask=padding_mask(torch.arange(6), 6).unflatten(0, (2, 3)))
    expected = pool(states, mask=padding_mask(torch.arange(6), 6))
    assert found.weights.shape == (2, 3, 3, 6)
    torch.testing.assert_close(found.context.flatten(0, 1), expected.context)
    single = pool(states[5])
    torch.testing.assert_close(single.weights, pool(states).weights[5])


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_those_of_finite_differences(kind):
    pool, states = build(kind), data().requires_grad_()
    names, values = zip(*pool.named_parameters(), strict=True)
    values = [value.detach().requires_grad_() for value in values]

    def read(states, *chosen):
        options = {"mask": padding_mask(LENGTHS, 6)}
        return torch.func.functional_call(pool, dict(zip(names, chosen, strict=True)), (states,), options)

    assert torch.autograd.gradcheck(read, [states, *values], fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_every_dtype_gives_the_same_and_no_nan(kind, dtype):
    pool, states = build(kind, dtype), data(dtype=dtype).requires_grad_()
    found = pool(states, mask=padding_mask(LENGTHS, 6))
    assert found.context.dtype == found.weights.dtype == dtype
    found.context.sum().backward()
    assert states.grad.isfinite().all() and all(p.grad.isfinite().all() for p in pool.parameters())
    expected = build(kind)(data(), mask=padding_mask(LENGTHS, 6))
    tolerance = 1e-5 if dtype == torch.float32 else 0.15
    torch.testing.assert_close(found.weights.double(), expected.weights, rtol=0, atol=tolerance)


# --- The penalty of several hops ---------------------------------------------------------------------------


def test_the_penalty_by_hand():
    """A A^T is 2 x 2: hops on one place give 1 everywhere, so two entries are 1 too many."""
    apart = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    same = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    spread = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])  # (1/4 + 1/4 - 1)^2
    assert hop_penalty(apart) == 0 and hop_penalty(same) == 2 and hop_penalty(spread) == 0.25
    assert hop_penalty(torch.stack([apart, same, spread])) == 0.75, "the mean over the batch"


def test_the_penalty_is_the_paper_s_norm():
    weights = build("network, 3 hops")(data()).weights
    norms = [torch.linalg.matrix_norm(a @ a.T - torch.eye(3, dtype=a.dtype)) ** 2 for a in weights]
    torch.testing.assert_close(hop_penalty(weights), torch.stack(norms).mean())


def test_sequences_with_nothing_to_attend_do_not_pay():
    """|| -I ||^2 is the number of hops: with empty rows in it, padding a batch would change the loss."""
    pool, states = build("network, 3 hops"), data()
    weights = pool(states, mask=padding_mask(LENGTHS, 6)).weights
    torch.testing.assert_close(hop_penalty(weights), hop_penalty(weights[:3]))
    nothing = pool(states, mask=padding_mask(torch.zeros(4, dtype=torch.int64), 6)).weights
    penalty = hop_penalty(nothing)
    penalty.backward()
    assert penalty == 0 and pool.query.grad.isfinite().all()


def test_a_step_against_the_penalty_moves_the_hops_apart():
    """The sign of the term: it is added to a loss."""
    pool, states = build("network, 3 hops"), data()
    before = hop_penalty(pool(states).weights)
    before.backward()
    with torch.no_grad():
        pool.query -= 0.05 * pool.query.grad
    assert hop_penalty(pool(states).weights) < before


# --- Bad input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: AttentionPooling(0), ValueError, "state_width is 0"),
        (lambda: AttentionPooling(4, width=0), ValueError, "width is 0"),
        (lambda: AttentionPooling(4, hops=0), ValueError, "hops is 0"),
        (lambda: AttentionPooling(4, width=2.5), TypeError, "width is 2.5"),
        (lambda: AttentionPooling(4, hops=True), TypeError, "hops is True"),
        (lambda: build()(data()[..., :3]), ValueError, r"states .*\(4, 6, 3\).* 4\)"),
        (lambda: build()(data()[0, 0]), ValueError, r"states .*\(4,\)"),
        (lambda: build()(data(), mask=torch.ones(4, 1, 6)), TypeError, "mask is torch.float32"),
        (lambda: build()(data(), mask=torch.ones(4, 1, 5).bool()), ValueError, "mask has shape"),
        (lambda: hop_penalty(torch.ones(3)), ValueError, r"weights have shape \(3,\)"),
    ],
)
def test_bad_input_is_named(call, error, words):
    with pytest.raises(error, match=words):
        call()
