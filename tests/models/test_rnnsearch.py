"""RNNsearch against the paper's formulas, read off one by one in a loop over i and j."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from attncourse.data.vocabulary import PAD, START
from attncourse.models import RNNSearch
from attncourse.models.recurrent import read_sequence

ROWS = [[4, 5, 6, 7, 8], [9, 10], [5, 4, 7]]
TARGET = torch.tensor([[START, 5, 6, 7], [START, 4, 4, 9], [START, 12, 8, 6]])


def build(**options) -> RNNSearch:
    torch.manual_seed(0)
    model = RNNSearch(11, 13, **{"embedding": 5, "hidden": 6, "width": 4, **options}).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def padded(rows=ROWS):
    source = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
    return source, torch.tensor([len(row) for row in rows])


def gru(weights: list[torch.Tensor], x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    """Appendix A.1.1, gate by gate; the reset gate acts after U, as in cuDNN."""
    (W_r, W_z, W_n), (U_r, U_z, U_n), (a_r, a_z, a_n), (b_r, b_z, b_n) = (part.chunk(3) for part in weights)
    r = torch.sigmoid(W_r @ x + a_r + U_r @ h + b_r)
    z = torch.sigmoid(W_z @ x + a_z + U_z @ h + b_z)
    n = torch.tanh(W_n @ x + a_n + r * (U_n @ h + b_n))
    return (1 - z) * n + z * h


def annotate(model: RNNSearch, row: list[int]) -> tuple[list[torch.Tensor], torch.Tensor]:
    """h_j = [forward; backward] for every word, and the backward state at word 1."""
    zero = torch.zeros(6, dtype=torch.float64)
    words = [model.source_embedding.weight[word] for word in row]
    forwards, h = [], zero
    for x in words:
        h = gru(list(model.forward_encoder.parameters()), x, h)
        forwards.append(h)
    backwards, h = [], zero
    for x in reversed(words):
        h = gru(list(model.backward_encoder.parameters()), x, h)
        backwards.insert(0, h)
    return [torch.cat(both) for both in zip(forwards, backwards, strict=True)], backwards[0]


def plain_loop(model: RNNSearch, row: list[int], target: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and weights of one pair: e_ij, alpha_ij, c_i, s_i, p(y_i), in the paper's order and letters."""
    W, U, v = (layer.weight for layer in
               (model.score.query_projection, model.score.key_projection, model.score.energy))
    h, backward_at_word_1 = annotate(model, row)
    s = torch.tanh(model.start.weight @ backward_at_word_1 + model.start.bias)
    logits, weights = [], []
    for word in target:
        y = model.target_embedding.weight[word]
        e = [(v[0] * torch.tanh(W @ s + U @ h_j)).sum() for h_j in h]
        total = sum(e_j.exp() for e_j in e)
        alpha = [e_j.exp() / total for e_j in e]
        c = sum(alpha_j * h_j for alpha_j, h_j in zip(alpha, h, strict=True))
        s = gru(list(model.cell.parameters()), torch.cat([y, c]), s)
        pieces = model.output.pieces.weight @ torch.cat([s, y, c]) + model.output.pieces.bias
        maxout = torch.stack([pieces[2 * k : 2 * k + 2].max() for k in range(len(pieces) // 2)])
        logits.append(model.output.words.weight @ maxout + model.output.words.bias)
        weights.append(torch.stack(alpha))
    return torch.stack(logits), torch.stack(weights)


@pytest.mark.parametrize("options", [{}, {"width": None}, {"width": 9}])
def test_equals_a_loop_written_from_the_paper(options):
    """Bahdanau et al. 2015, section 3.1 and appendix A, with padding in the batch and none in the loop."""
    model, (source, lengths) = build(**options), padded()
    output = model(source, lengths, TARGET)
    for i, row in enumerate(ROWS):
        logits, weights = plain_loop(model, row, TARGET[i].tolist())
        torch.testing.assert_close(output.weights[i, :, : len(row)], weights, rtol=0, atol=1e-12,
                                   msg="alpha differs: s_{i-1} is the query, h_j the key")
        torch.testing.assert_close(output.logits[i], logits, rtol=0, atol=1e-12)


# --- The encoder -------------------------------------------------------------------------------------------


def test_an_annotation_is_both_directions_of_its_own_word():
    model, (source, lengths) = build(), padded()
    memory, _ = model.encode(source, lengths)
    for i, row in enumerate(ROWS):
        torch.testing.assert_close(memory.annotations[i, : len(row)], torch.stack(annotate(model, row)[0]))
        assert (memory.annotations[i, len(row) :] == 0).all()


def test_the_encoder_is_the_framework_s_bidirectional_gru():
    """The order in h_n is forward, backward; the backward one is the output at step 0, not at the last."""
    model, (source, lengths) = build(), padded()
    theirs = nn.GRU(5, 6, batch_first=True, bidirectional=True).double()
    ours = [*model.forward_encoder.parameters(), *model.backward_encoder.parameters()]
    with torch.no_grad():
        for parameter, value in zip(theirs.parameters(), ours, strict=True):
            parameter.copy_(value)
    words = model.source_embedding(source)
    packed = nn.utils.rnn.pack_padded_sequence(words, lengths, batch_first=True, enforce_sorted=False)
    states, h_n = theirs(packed)
    states, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
    memory, state = model.encode(source, lengths)
    torch.testing.assert_close(memory.annotations, states)
    torch.testing.assert_close(h_n[1], memory.annotations[:, 0, 6:], msg="backward final state: at step 0")
    torch.testing.assert_close(h_n[0], memory.annotations[torch.arange(3), lengths - 1, :6])
    torch.testing.assert_close(state.hidden, torch.tanh(model.start(h_n[1])),
                               msg="the decoder must start from the backward state at the first word")


@pytest.mark.parametrize("backward", [False, True])
def test_a_final_state_is_that_after_the_last_word_read(backward):
    rnn = nn.GRU(5, 6, batch_first=True).double()
    words, lengths = torch.randn(3, 4, 5, dtype=torch.float64), torch.tensor([4, 0, 2])
    states, final = read_sequence(rnn, words, lengths, backward=backward)
    for i, length in enumerate(lengths.tolist()):
        assert (states[i, length:] == 0).all()
        if length == 0:
            assert (final[i] == 0).all(), "an empty row has read nothing"
            continue
        row = words[i : i + 1, :length]
        expected, h = rnn(row.flip(1) if backward else row)
        torch.testing.assert_close(states[i, :length], expected[0].flip(0) if backward else expected[0])
        torch.testing.assert_close(final[i], h[0, 0])


# --- Attention ---------------------------------------------------------------------------------------------


def test_weights_sum_to_one_over_the_true_length_and_are_zero_beyond():
    model, (source, lengths) = build(), padded()
    weights = model(source, lengths, TARGET).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 4, dtype=torch.float64))
    for i, length in enumerate(lengths.tolist()):
        assert (weights[i, :, length:] == 0).all() and (weights[i, :, :length] > 0).all()


def test_weights_change_from_step_to_step_and_from_source_to_source():
    """Weights are made from the input, not learned: a model that always looks the same way has a fault."""
    model, (source, lengths) = build(), padded()
    weights = model(source, lengths, TARGET).weights
    assert (weights[0, 1:] - weights[0, :-1]).abs().amax(-1).min() > 1e-3
    other = model(torch.where(source == 5, 9, source), lengths, TARGET).weights
    assert (weights[0] - other[0]).abs().max() > 1e-3


def test_the_score_reads_the_state_before_this_word():
    """alpha_i = a(s_{i-1}, h): y_{i-1} enters s_i, so it moves the weights of step i + 1 at the earliest."""
    model, (source, lengths) = build(), padded()
    before = model(source, lengths, TARGET)
    changed = TARGET.clone()
    changed[:, 1] = 11
    after = model(source, lengths, changed)
    assert torch.equal(after.weights[:, :2], before.weights[:, :2]), (
        "the word read at a step moved the weights of that step: the score must use s_{i-1}, not s_i"
    )
    assert not torch.allclose(after.weights[:, 2], before.weights[:, 2]), "the next step must see the change"
    assert not torch.allclose(after.logits[:, 1], before.logits[:, 1])


def test_the_context_comes_before_the_new_state():
    """Perturb the value of one word only: c_i moves, and s_i with it, but not alpha_i."""
    model, (source, lengths) = build(), padded()
    memory, state = model.encode(source, lengths)
    moved = memory._replace(annotations=memory.annotations + 0.1)
    before, after = (model.step(TARGET[:, 0], state, m) for m in (memory, moved))
    assert torch.equal(before.weights, after.weights), "the weights come from the projected keys alone"
    assert not torch.allclose(before.state.hidden, after.state.hidden), "c_i must enter s_i"


@pytest.mark.parametrize("steps", [1, 7])
def test_keys_are_projected_once_per_source(steps, monkeypatch):
    """Once per step costs as much as the rest of the training step: the reason for `project_keys`."""
    model, (source, lengths) = build(), padded()
    calls = []
    model.score.key_projection.register_forward_hook(lambda *_: calls.append(1))
    monkeypatch.setattr(model.score, "project_keys", lambda key, real=model.score.project_keys: (
        calls.append("project_keys"), real(key))[1])
    model(source, lengths, torch.full((3, steps), 4))
    assert calls == ["project_keys", 1], f"{len(calls) // 2} projections for {steps} steps"
    memory, state = model.encode(source, lengths)
    for _ in range(steps):
        state = model.step(torch.tensor([4, 4, 4]), state, memory).state
    assert calls == ["project_keys", 1] * 2


def test_projected_keys_in_the_memory_change_nothing_but_time():
    model, (source, lengths) = build(), padded()
    memory, state = model.encode(source, lengths)
    torch.testing.assert_close(memory.projected, model.score.key_projection(memory.annotations))
    query = state.hidden[:, None]
    torch.testing.assert_close(model.score(query, memory.annotations, projected_keys=memory.projected),
                               model.score(query, memory.annotations))


def test_one_source_word_gets_all_the_weight():
    """A softmax over the batch, or over the wrong axis, shows at once where there is one key."""
    model = build()
    weights = model(torch.tensor([[4], [5]]), torch.tensor([1, 1]), TARGET[:2]).weights
    assert (weights == 1).all()


def test_golden_values():
    """Weights from a formula, padding in the batch: the numbers may not move from one version to the next."""
    model = RNNSearch(7, 6, embedding=3, hidden=2, width=2).double()
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            values = torch.linspace(-0.9, 1.1, parameter.numel()).sin() * (-1) ** i
            parameter.copy_(values.reshape(parameter.shape))
    source, lengths = torch.tensor([[4, 5, 6], [5, PAD, PAD]]), torch.tensor([3, 1])
    output = model(source, lengths, torch.tensor([[START, 4], [START, 5]]))
    torch.testing.assert_close(output.logits, torch.tensor(LOGITS, dtype=torch.float64), rtol=0, atol=1e-4)
    torch.testing.assert_close(output.weights, torch.tensor(WEIGHTS, dtype=torch.float64), rtol=0, atol=1e-4)


LOGITS = [
    [[-1.03817, -0.57461, -0.02291, 0.53450, 1.01399, 1.34342],
     [-0.88071, -0.63550, -0.29418, 0.08831, 0.45125, 0.73771]],
    [[-1.06700, -0.61818, -0.07553, 0.47970, 0.96420, 1.30513],
     [-0.38109, -0.37015, -0.29781, -0.18381, -0.05379, 0.06581]],
]
WEIGHTS = [
    [[0.37383, 0.31054, 0.31564], [0.34912, 0.32582, 0.32506]],
    [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]],
]
