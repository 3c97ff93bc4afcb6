"""Luong's translator against the paper's formulas, step by step in plain loops."""

import pytest
import torch
from torch.nn.utils.rnn import pad_sequence

from attncourse.data.vocabulary import PAD, START
from attncourse.models import LuongTranslator

ROWS = [[4, 5, 6, 7, 8], [9, 10], [5, 4, 7]]
TARGET = torch.tensor([[START, 5, 6, 7], [START, 4, 4, 9], [START, 12, 8, 6]])
KINDS = {
    **{score: {"score": score} for score in ("dot", "general", "concat", "location")},
    "fed": {"score": "general", "input_feeding": True},
    "two layers": {"layers": 2},
    "three layers, fed": {"layers": 3, "input_feeding": True},
    "read forwards": {"reverse": False},
    "local-m": {"centre": "monotonic", "half_width": 1},
    "local-p": {"centre": "predicted", "half_width": 2, "gaussian": "outside", "input_feeding": True},
}


def build(**options) -> LuongTranslator:
    torch.manual_seed(0)
    model = LuongTranslator(11, 13, **{"embedding": 5, "hidden": 6, **options}).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model


def padded(rows=ROWS):
    source = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
    return source, torch.tensor([len(row) for row in rows])


def lstm(weights, x, h, c):
    """One layer, one step: input, forget, cell and output gate, in the framework's order."""
    W, U, a, b = weights
    i, f, g, o = (W @ x + a + U @ h + b).chunk(4)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


def stacked(rnn, x, states):
    """One step of every layer; the state of a layer is the input of the next."""
    weights, after = list(rnn.parameters()), []
    for layer, (h, c) in enumerate(states):
        h, c = lstm(weights[4 * layer : 4 * layer + 4], x, h, c)
        after.append((h, c))
        x = h
    return x, after


def score(model, h, annotations):
    """Equation 8, and the location-based equation 9; for one state and all annotations."""
    kind = type(model.score).__name__
    if kind == "LocationScore":
        return (model.score.position_projection.weight @ h)[: len(annotations)]
    if kind == "ConcatScore":
        W, v = model.score.projection.weight, model.score.energy.weight[0]
        return torch.stack([v @ (W @ torch.cat([h, a])).tanh() for a in annotations])
    W = model.score.key_projection.weight if kind == "GeneralScore" else torch.eye(6).double()
    return torch.stack([h @ W @ a for a in annotations])


def weigh(model, h, annotations, t):
    """Equation 7 for all annotations, or equations 9 and 10 for those in the window."""
    places = range(len(annotations))
    if model.local is None:
        return score(model, h, annotations).softmax(0)
    p, D = float(t), model.local.half_width
    if model.local.centre == "predicted":
        W_p, v_p = model.local.centre_hidden.weight, model.local.centre_output.weight[0]
        p = float(len(annotations) * torch.sigmoid(v_p @ (W_p @ h).tanh()))
    weights = torch.zeros(len(annotations)).double()
    window = [s for s in places if p - D <= s <= p + D]
    if window:
        weights[window] = score(model, h, [annotations[s] for s in window]).softmax(0)
    if model.local.gaussian == "outside":
        bend = torch.tensor([-((s - p) ** 2) / (2 * (D / 2) ** 2) for s in places]).double()
        weights = weights * bend.exp()
    return weights


@torch.no_grad()
def plain_loop(model, row, target):
    states = [(torch.zeros(6).double(), torch.zeros(6).double())] * model.encoder.num_layers
    annotations = []
    for word in reversed(row) if model.reverse else row:
        h, states = stacked(model.encoder, model.source_embedding.weight[word], states)
        annotations.append(h)
    annotations = annotations[::-1] if model.reverse else annotations
    attentional, logits, maps = torch.zeros(6).double(), [], []
    for t, word in enumerate(target):
        x = model.target_embedding.weight[word]
        x = torch.cat([x, attentional]) if model.input_feeding else x
        h, states = stacked(model.decoder, x, states)
        a = weigh(model, h, annotations, t)
        c = sum(weight * annotation for weight, annotation in zip(a, annotations, strict=True))
        attentional = (model.combine.weight @ torch.cat([c, h])).tanh()
        logits.append(model.words.weight @ attentional)
        maps.append(a)
    return torch.stack(logits), torch.stack(maps)


@pytest.mark.parametrize("kind", KINDS)
def test_equals_a_loop_written_from_the_paper(kind):
    """Luong et al. 2015, section 3, with padding in the batch and none in the loop."""
    model, (source, lengths) = build(**KINDS[kind]), padded()
    output = model(source, lengths, TARGET)
    for i, row in enumerate(ROWS):
        logits, weights = plain_loop(model, row, TARGET[i].tolist())
        torch.testing.assert_close(output.weights[i, :, : len(row)], weights, msg=lambda text: (
            f"weights: is the query the new state h_t?\n{text}"))
        torch.testing.assert_close(output.logits[i], logits, msg=lambda text: (
            f"logits: is it tanh(W_c [c_t; h_t]), in this order, and fed on to the next step?\n{text}"))


@pytest.mark.parametrize("part", ["encoder", "decoder", "score", "combine", "words"])
def test_without_feeding_a_whole_target_is_one_call_of_each_part(part, monkeypatch):
    """Teacher forcing in a loop gives the same numbers, and throws the speed away."""
    model, calls = build(), []
    real = getattr(model, part).forward
    monkeypatch.setattr(getattr(model, part), "forward", lambda *x, **o: (calls.append(1), real(*x, **o))[1])
    model(*padded(), TARGET)
    assert len(calls) == 1, f"{part} ran {len(calls)} times for one batch"


def test_input_feeding_is_the_only_way_back_from_weights_to_states():
    """Without it, where the model looked has no influence on its later states (section 3.3)."""
    for feeding in (False, True):
        model, (source, lengths) = build(input_feeding=feeding), padded()
        memory, state = model.encode(source, lengths)
        other = memory._replace(annotations=memory.annotations.flip(-1))
        states = [model.step(TARGET[:, 0], state, read).state.hidden for read in (memory, other)]
        assert torch.equal(*states), "h_t must not depend on c_t"
        after = [model.step(TARGET[:, 1], model.step(TARGET[:, 0], state, read).state, read).state.hidden
                 for read in (memory, other)]
        assert torch.equal(*after) != feeding


def test_the_decoder_starts_where_the_encoder_ended_layer_by_layer():
    """Padding must not age the state, and layers must not be swapped."""
    model, (source, lengths) = build(layers=2), padded()
    _, state = model.encode(source, lengths)
    for i, row in enumerate(ROWS):
        _, (hidden, cell) = model.encoder(model.source_embedding(torch.tensor([row[::-1]])))
        torch.testing.assert_close(state.hidden[i], hidden[:, 0])
        torch.testing.assert_close(state.cell[i], cell[:, 0])


def test_keys_are_projected_once_per_source(monkeypatch):
    model, calls = build(), []
    real = model.score.project_keys
    monkeypatch.setattr(model.score, "project_keys", lambda key: (calls.append(1), real(key))[1])
    model(*padded(), TARGET)
    memory, state = model.encode(*padded())
    for token in TARGET.unbind(1):
        state = model.step(token, state, memory).state
    assert len(calls) == 2, f"{len(calls)} projections for 2 sources"


def test_a_source_longer_than_the_location_score_can_weigh_is_refused():
    with pytest.raises(ValueError, match="5 positions and max_source is 4: row 0 has 5 words"):
        build(score="location", max_source=4)(*padded(), TARGET)
    source, lengths = padded()
    with pytest.raises(ValueError, match=r"no row has more than 4 words, so cut .*, source\[:, :4\]"):
        build(score="location", max_source=4)(source, lengths.clamp(max=4), TARGET)


@pytest.mark.parametrize(("options", "words"), [
    ({"score": "additive"}, ["score", "'additive'", "dot, general, concat, location"]),
    ({"score": "location", "centre": "monotonic"}, ["LocationScore"]),
    ({"centre": "predicted"}, ["gaussian", "'none'"]),
    ({"centre": "monotonic", "half_width": 0}, ["half_width", "0"]),
])
def test_choices_that_cannot_work_are_named(options, words):
    with pytest.raises(ValueError) as caught:
        build(**options)
    assert all(word in str(caught.value) for word in words), str(caught.value)
