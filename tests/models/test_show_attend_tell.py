"""Show, Attend and Tell against the paper's formulas, and what every way of choosing must keep."""

import copy

import pytest
import torch

from attncourse.data.vocabulary import START
from attncourse.decoding import reorder
from attncourse.models import CellAnnotator, ShowAttendTell, Step, doubly_stochastic_penalty
from attncourse.models.show_attend_tell import cell_places

WORDS = 9
CHOICES = [None, "expectation", "sample", "arg max", "gumbel"]
ATTENDING = CHOICES[1:]
TARGET = torch.tensor([[START, 5, 6, 7, 4], [START, 4, 4, 8, 5]])


def build(choice="expectation", training=False, **options):
    torch.manual_seed(0)
    annotator = CellAnnotator(width=6)
    sizes = {"embedding": 5, "hidden": 7, "width": 4, **options}
    model = ShowAttendTell(annotator, WORDS, choice=choice, **sizes).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    return model.train(training)


def images(batch=2, seed=1, size=16):
    return torch.rand(batch, 1, size, size, generator=torch.Generator().manual_seed(seed)).double()


def by_step(model, pictures, target):
    memory, state = model.encode(pictures)
    logits, weights = [], []
    for token in target.unbind(1):
        step = model.step(token, state, memory)
        assert isinstance(step, Step)
        state = step.state
        logits.append(step.logits)
        weights.append(step.weights)
    return torch.stack(logits, 1), None if weights[0] is None else torch.stack(weights, 1)


def plain_loop(model, picture, target):
    """Logits, weights and gates of one image: the paper's equations with plain products, in its letters."""
    def layer(module, x):
        return module.weight @ x + (module.bias if module.bias is not None else 0)

    features = model.annotator(picture[None])[0]
    side = round(len(features) ** 0.5)
    a = []
    for i, feature in enumerate(features):
        row, column = (2 * p / (side - 1) - 1 for p in divmod(i, side))
        a.append(layer(model.annotate, torch.cat([feature, torch.tensor([row, column])])).relu())
    mean = sum(a) / len(a)
    h, c = layer(model.start_hidden[0], mean).tanh(), layer(model.start_cell[0], mean).tanh()
    logits, weights, gates = [], [], []
    for word in target:
        y = model.words.weight[word]
        score = model.attention.score
        W, U, v = (part.weight for part in (score.query_projection, score.key_projection, score.energy))
        e = torch.stack([(v[0] * torch.tanh(W @ h + U @ a_i)).sum() for a_i in a])
        alpha = e.exp() / e.exp().sum()
        beta = layer(model.gate, h).sigmoid()
        z = beta * sum(alpha_i * a_i for alpha_i, a_i in zip(alpha, a, strict=True))
        W_ih, W_hh, b_ih, b_hh = model.cell.parameters()
        i, f, g, o = (W_ih @ torch.cat([y, z]) + b_ih + W_hh @ h + b_hh).chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        logits.append(layer(model.output, y + model.from_hidden.weight @ h + model.from_context.weight @ z))
        weights.append(alpha)
        gates.append(beta[0])
    return torch.stack(logits), torch.stack(weights), torch.stack(gates)


def test_equals_a_loop_written_from_the_paper():
    """Xu et al. 2015, eq. 1-7, 13 and section 4.2.1; the score reads h_{t-1}, and so does the gate."""
    model = build()
    told = model(images(), TARGET)
    for row in range(2):
        logits, weights, gates = plain_loop(model, images()[row], TARGET[row])
        torch.testing.assert_close(told.weights[row], weights, msg="alpha: the query is h_{t-1}")
        torch.testing.assert_close(told.gates[row], gates, msg="beta = sigmoid(f_beta(h_{t-1}))")
        torch.testing.assert_close(told.logits[row], logits, msg="eq. 7: L_o (E y + L_h h + L_z z), z gated")


@pytest.mark.parametrize("choice", CHOICES)
def test_step_by_step_equals_the_whole_pass(choice):
    """Train with one, decode with the other."""
    model = build(choice)
    told = model(images(), TARGET)
    logits, weights = by_step(model, images(), TARGET)
    torch.testing.assert_close(logits, told.logits)
    if choice is None:
        assert told.weights is None and told.alpha is None and weights is None
    else:
        torch.testing.assert_close(weights, told.weights)
        assert told.weights.shape == told.alpha.shape == (2, 5, 16)
    assert told.logits.shape == (2, 5, WORDS) and told.gates.shape == (2, 5)


@pytest.mark.parametrize("choice", CHOICES)
def test_a_later_word_changes_nothing_before_it(choice):
    """In training, too, where the choices of both passes are drawn alike."""
    for training in (False, True):
        model = build(choice, training)
        for place in range(1, 5):
            changed = TARGET.clone()
            changed[:, place] = 3
            torch.manual_seed(1)
            before = model(images(), TARGET).logits
            torch.manual_seed(1)
            after = model(images(), changed).logits
            assert torch.equal(before[:, :place], after[:, :place])
            assert not torch.allclose(before[:, place], after[:, place])


@pytest.mark.parametrize("choice", CHOICES)
def test_padding_after_the_end_changes_nothing_before_it(choice):
    model = build(choice)
    padded = torch.cat([TARGET, torch.zeros(2, 3, dtype=torch.int64)], dim=1)
    torch.testing.assert_close(model(images(), padded).logits[:, :5], model(images(), TARGET).logits)


@pytest.mark.parametrize("choice", CHOICES)
def test_an_image_does_not_depend_on_the_others_of_its_batch(choice):
    """Batch statistics in the frozen CNN would mix the images."""
    model, three = build(choice), images(3)
    model.train()
    model.attention = model.attention and model.attention.eval()
    together = model(three, TARGET[:1].expand(3, -1)).logits
    torch.testing.assert_close(model(three[1:2], TARGET[:1]).logits[0], together[1])


@pytest.mark.parametrize("choice", CHOICES)
def test_memory_and_state_can_be_reordered(choice):
    """For a beam: named tuples, batch first."""
    model, rows = build(choice), torch.tensor([1, 1, 0])
    memory, state = model.encode(images())
    token = torch.tensor([4, 4, 4])
    found = model.step(token, reorder(state, rows), reorder(memory, rows)).logits
    torch.testing.assert_close(found, model.step(token[:2], state, memory).logits[rows])


def test_the_gate_closes_the_view():
    """beta near 0: nothing of the image reaches the words any more, but through the start."""
    model = build()
    with torch.no_grad():
        model.gate.weight.zero_()
        model.gate.bias.fill_(-1e3)
        for start in (model.start_hidden, model.start_cell):
            start[0].weight.zero_()
    torch.testing.assert_close(model(images(seed=1), TARGET).logits, model(images(seed=2), TARGET).logits)


def test_without_attention_every_step_reads_the_mean_annotation():
    """A cell alone tells it nothing; what is the same for all cells, everything."""
    model = build(None)
    memory, state = model.encode(images())
    before = model.step(TARGET[:, 1], state, memory).logits
    other_cells = memory._replace(annotations=memory.annotations + 1)
    assert torch.equal(model.step(TARGET[:, 1], state, other_cells).logits, before)
    other_mean = memory._replace(mean=memory.mean + 1)
    assert not torch.allclose(model.step(TARGET[:, 1], state, other_mean).logits, before)
    torch.testing.assert_close(memory.mean, memory.annotations.mean(1))


@pytest.mark.parametrize("choice", CHOICES)
def test_every_parameter_learns_and_the_annotator_does_not(choice):
    """A part that is never used, or a CNN that is not frozen, statistics included."""
    model = build(choice, training=True)
    frozen = copy.deepcopy(model.annotator.state_dict())
    told = model(images(), TARGET)
    loss = told.logits.square().sum()
    if choice in ("sample", "arg max"):  # the scores learn through log p(s) alone
        loss = loss + (told.alpha + 1e-9).log().square().sum()
    loss.backward()
    for name, parameter in model.named_parameters():
        if name.startswith("annotator."):
            assert parameter.grad is None and not parameter.requires_grad
        else:
            assert parameter.grad is not None and parameter.grad.abs().max() > 0, f"{name} learns nothing"
    assert not model.annotator.training and model.training
    for name, tensor in model.annotator.state_dict().items():
        assert torch.equal(tensor, frozen[name]), f"{name} moved: the batch statistics must be frozen too"


@pytest.mark.parametrize("choice", ATTENDING)
def test_keys_are_projected_once_per_image(choice):
    model, calls = build(choice), []
    model.attention.score.key_projection.register_forward_hook(lambda *_: calls.append(1))
    model(images(), TARGET)
    assert len(calls) == 1


# --- The annotator -----------------------------------------------------------------------------------------


def test_cells_are_4_by_4_pixels_row_by_row():
    """Ink moved by one cell to the right moves the features by one place, away from the border."""
    annotator = CellAnnotator(width=6).eval()
    picture = torch.zeros(2, 1, 32, 32)
    picture[0, 0, 9:15, 10:13] = picture[1, 0, 9:15, 14:17] = 1.0
    features = annotator(picture).view(2, 8, 8, 6)
    torch.testing.assert_close(features[0, 2:6, 2:5], features[1, 2:6, 3:6])
    blank = annotator(torch.zeros(1, 1, 32, 32)).view(8, 8, 6)
    moved = (features[0] - blank).abs().sum(-1)
    assert moved[2:4, 2:4].min() > 1e-3 and moved[:, 6:].max() < 1e-6


def test_an_image_shows_a_label_if_one_of_its_cells_does():
    """log mean exp: one cell at 100 is worth 100 - log 64, wherever it lies."""
    annotator = CellAnnotator(width=3, labels=2).eval()
    cells = torch.zeros(1, 3, 8, 8)
    cells[0, 0, 5, 2] = 100.0
    annotator.layers.register_forward_hook(lambda *_: cells)
    with torch.no_grad():
        annotator.labels.weight.zero_()
        annotator.labels.bias.zero_()
        annotator.labels.weight[0, 0] = 1.0
    found = annotator.label(torch.zeros(1, 1, 32, 32))
    torch.testing.assert_close(found, torch.tensor([[100.0, 0.0]]) - torch.tensor([64.0, 1.0]).log())


def test_places_run_from_minus_one_to_one_row_by_row():
    places = cell_places(9)
    assert places.tolist()[:4] == [[-1, -1], [-1, 0], [-1, 1], [0, -1]]


# --- The doubly stochastic penalty -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "real", "expected"),
    [
        ([[[1, 0], [0, 1]]], [[True, True]], 0.0),
        ([[[1, 0], [1, 0]]], [[True, True]], 2.0),
        ([[[1, 0], [0, 1], [1, 0]]], [[True, True, False]], 0.0),
        ([[[0.5, 0.5]]], [[True]], 0.5),
        ([[[1, 0], [0, 1]], [[1, 0], [1, 0]]], [[True, True], [True, True]], 1.0),
    ],
    ids=["each place once", "one place twice", "a padded step", "half a look each", "mean over the batch"],
)
def test_the_doubly_stochastic_penalty_by_hand(alpha, real, expected):
    """Sum over steps for each place, target 1, squared, sum over places, mean over the batch (eq. 14)."""
    found = doubly_stochastic_penalty(torch.tensor(alpha, dtype=torch.float64), torch.tensor(real))
    assert found.item() == pytest.approx(expected)
