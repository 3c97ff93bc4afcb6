"""Seq2Seq against loops written from the equations: one vector c, made from the true words."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from attncourse.data.vocabulary import PAD, START
from attncourse.models import Seq2Seq

ROWS = [[4, 5, 6, 7, 8], [9, 10], [5, 4, 7]]
TARGET = torch.tensor([[START, 5, 6, 7], [START, 4, 4, 9], [START, 12, 8, 6]])


def build(**options) -> Seq2Seq:
    torch.manual_seed(0)
    return Seq2Seq(11, 13, embedding=5, hidden=6, **options).double()


def padded(rows=ROWS):
    source = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
    return source, torch.tensor([len(row) for row in rows])


def gru(layer: nn.GRU, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """A step of a GRU, gate by gate (Cho et al. 2014, eq. 5-8; the reset gate acts after U, as in cuDNN)."""
    W_r, W_z, W_n = layer.weight_ih_l0.chunk(3)
    U_r, U_z, U_n = layer.weight_hh_l0.chunk(3)
    a_r, a_z, a_n = layer.bias_ih_l0.chunk(3)
    b_r, b_z, b_n = layer.bias_hh_l0.chunk(3)
    r = torch.sigmoid(W_r @ x + a_r + U_r @ h + b_r)
    z = torch.sigmoid(W_z @ x + a_z + U_z @ h + b_z)
    n = torch.tanh(W_n @ x + a_n + r * (U_n @ h + b_n))
    return (1 - z) * n + z * h


def summary(model: Seq2Seq, row: list[int]) -> torch.Tensor:
    """c = q(h_1 ... h_T) for one sentence, with no padding anywhere."""
    h, states = torch.zeros(6, dtype=torch.float64), []
    for word in reversed(row) if model.reverse else row:
        h = gru(model.encoder, model.source_embedding.weight[word], h)
        states.append(h)
    states = torch.stack(states)
    return {
        "last": lambda: states[-1],
        "mapped": lambda: torch.tanh(model.mapping.weight @ states[-1] + model.mapping.bias),
        "mean": lambda: states.sum(0) / len(row),
        "max": lambda: states.max(0).values,
    }[model.context]()


def logits_of(model: Seq2Seq, row: list[int], target: list[int]) -> torch.Tensor:
    """The whole model for one pair, word by word."""
    c = summary(model, row)
    s, scores = torch.tanh(model.start.weight @ c + model.start.bias), []
    for word in target:
        y = model.target_embedding.weight[word]
        s = gru(model.decoder, torch.cat([y, c]), s)
        pieces = model.output.pieces.weight @ torch.cat([s, y, c]) + model.output.pieces.bias
        maxout = torch.stack([pieces[2 * k : 2 * k + 2].max() for k in range(len(pieces) // 2)])
        scores.append(model.output.words.weight @ maxout + model.output.words.bias)
    return torch.stack(scores)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("context", ["last", "mapped", "mean", "max"])
def test_equals_a_loop_written_from_the_equations(context, reverse):
    """Every variant of c, read forwards and backwards, with padding in the batch and none in the loop."""
    model, (source, lengths) = build(context=context, reverse=reverse), padded()
    (c,), _ = model.encode(source, lengths)
    logits = model(source, lengths, TARGET).logits
    for i, row in enumerate(ROWS):
        torch.testing.assert_close(c[i], summary(model, row), rtol=0, atol=1e-12,
                                   msg=f"c of row {i} is not {context!r} of its real words")
        torch.testing.assert_close(logits[i], logits_of(model, row, TARGET[i].tolist()), rtol=0, atol=1e-12)


@pytest.mark.parametrize("context", ["last", "mapped", "mean", "max"])
def test_reversing_stays_within_the_true_length(context):
    """Turning the padded row around would make the model read padding first."""
    model, (source, lengths) = build(context=context, reverse=True), padded()
    turned, _ = padded([row[::-1] for row in ROWS])
    plain = build(context=context)
    torch.testing.assert_close(model(source, lengths, TARGET).logits, plain(turned, lengths, TARGET).logits,
                               msg="a reversed source must be read as if it had been written in reverse")


@pytest.mark.parametrize("context", ["last", "mean"])
def test_the_order_of_the_words_matters(context):
    model, lengths = build(context=context), torch.tensor([3])
    one, other = (model.encode(torch.tensor([row]), lengths)[0].context for row in ([4, 5, 6], [6, 5, 4]))
    assert (one - other).abs().max() > 0.01


def test_an_unpacked_final_state_would_be_another():
    """Taken after the padding, the final state drifts; the difference must be large enough to see."""
    model = build()
    words = model.source_embedding(torch.tensor([[9, 10, PAD, PAD, PAD]]))
    _, after_padding = model.encoder(words)
    source, lengths = torch.tensor([[9, 10, PAD, PAD, PAD]]), torch.tensor([2])
    (c,), _ = model.encode(source, lengths)
    assert (after_padding[0] - c).abs().max() > 0.05, "the mistake this guards against no longer shows"
    torch.testing.assert_close(c, model.encode(source[:, :2], lengths)[0].context)


def test_the_context_is_the_same_for_every_output_word():
    """Each source word matters equally to each target word: that is the bottleneck of chapter 01."""
    model, (source, lengths) = build(), padded()
    seen = []
    model.output.register_forward_hook(lambda layer, parts, result: seen.append(parts[2]))
    model(source, lengths, TARGET)
    [context] = seen
    assert context.shape == (3, 4, 6)
    assert (context == context[:, :1]).all(), "c changed from one step to the next"
    assert torch.equal(context[:, 0], model.encode(source, lengths)[0].context)


def test_it_reports_no_weights():
    model, (source, lengths) = build(), padded()
    memory, state = model.encode(source, lengths)
    assert model(source, lengths, TARGET).weights is None
    assert model.step(TARGET[:, 0], state, memory).weights is None


def test_the_mean_of_no_word_is_zero():
    """0 / 0 is NaN; the maximum over nothing is minus infinity."""
    for context in ("last", "mean", "max"):
        (c,), _ = build(context=context).encode(torch.tensor([[4, 5], [PAD, PAD]]), torch.tensor([2, 0]))
        assert (c[1] == 0).all() and c.isfinite().all(), context


def test_only_the_mapped_context_has_a_map():
    """Parameters that no gradient reaches would make equal sizes unequal."""
    count = {context: sum(p.numel() for p in build(context=context).parameters())
             for context in ("last", "mapped", "mean", "max")}
    assert count["mapped"] == count["last"] + 6 * 6 + 6
    assert count["last"] == count["mean"] == count["max"]


def test_an_unknown_context_is_named():
    with pytest.raises(ValueError) as caught:
        build(context="first")
    words = ["context", "'first'", "last, mapped, mean, max"]
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_golden_values():
    """Weights from a formula, padding in the batch: the numbers may not move from one version to the next."""
    model = Seq2Seq(7, 6, embedding=3, hidden=2).double()
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            values = torch.linspace(-0.9, 1.1, parameter.numel()).sin() * (-1) ** i
            parameter.copy_(values.reshape(parameter.shape))
    source, lengths = torch.tensor([[4, 5, 6], [5, PAD, PAD]]), torch.tensor([3, 1])
    logits = model(source, lengths, torch.tensor([[START, 4], [START, 5]])).logits
    torch.testing.assert_close(logits, torch.tensor(LOGITS, dtype=torch.float64), rtol=0, atol=1e-4)


LOGITS = [
    [[-0.33833, -0.08743, 0.16192, 0.38738, 0.57019, 0.69589],
     [0.22775, 0.10188, -0.05031, -0.19862, -0.31295, -0.36889]],
    [[0.13710, 0.16172, 0.15221, 0.12008, 0.08026, 0.04740],
     [-0.31491, -0.31508, -0.28703, -0.22415, -0.12394, 0.00993]],
]
