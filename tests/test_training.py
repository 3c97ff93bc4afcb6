"""The training loop: what it counts, what it draws, what it keeps; an interruption changes nothing."""

import contextlib
import gc
import os
import subprocess
import sys
import termios
import weakref
from functools import partial
from math import inf, log, nan
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from attncourse.data.pairs import Pair, collate, pair_batches
from attncourse.data.vocabulary import END, PAD, START, Vocabulary
from attncourse.decoding import greedy
from attncourse.devices import on_device
from attncourse.models import RNNSearch
from attncourse.training import History, _digest, pick_device, token_loss, train, warm_up_rate

LETTERS = Vocabulary(list("abcdef"))
WORDS = """abc fed cab dab bead face deaf fade cafe abed decaf faced bed fab ace ebb add"""
COPIES = [Pair(tuple(word), tuple(word)) for word in WORDS.split()]


class Numbers(NamedTuple):
    """The least that a batch must be."""

    x: torch.Tensor

    def to(self, device):
        return Numbers(self.x.to(device))


class Noisy(nn.Module):
    """A small network with dropout, so that the state of the random numbers matters."""

    def __init__(self, width=4):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.Dropout(0.5), nn.Linear(width, 1))

    def forward(self, x):
        return self.layers(x)


def noisy(width=4) -> Noisy:
    torch.manual_seed(0)
    return Noisy(width)


def numbers(count=64) -> list[Numbers]:
    generator = torch.Generator().manual_seed(1)
    return [Numbers(torch.randn(8, 3, generator=generator)) for _ in range(count)]


def square(model, batch):
    return (model(batch.x) - batch.x.sum(-1, keepdim=True)).square().mean()


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def quietly(model, loss=square, batches=None, **options):
    options = {"steps": 6, "device": "cpu", "progress": False, **options}
    return train(model, loss, numbers() if batches is None else batches, **options)


# --- The loss ----------------------------------------------------------------------------------------------


def says(logits, target_out):
    """token_loss of a model that says these logits."""
    model = lambda *_: SimpleNamespace(logits=logits)  # noqa: E731
    batch = SimpleNamespace(source=None, source_lengths=None, target_in=None, target_out=target_out)
    return lambda **options: token_loss(model, batch, **options)


def test_padding_does_not_count_in_the_loss():
    """Counted, the easy padding would make the loss 0.5903."""
    logits = torch.tensor([[[2.0, 0, 0], [0, 3, 0], [5, 0, 0], [5, 0, 0]]])
    loss = says(logits, torch.tensor([[1, 1, PAD, PAD]]))()
    assert loss.item() == pytest.approx(1.1672, abs=5e-5), "is the padding averaged in?"


@pytest.mark.parametrize("padding", [0, 7])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_uniform_scores_cost_the_log_of_the_vocabulary(padding, smoothing):
    """Whatever the padding. A batch without any must work too."""
    target = torch.tensor([[1, 2, 3] + [PAD] * padding])
    loss = says(torch.zeros(1, 3 + padding, 4), target)(smoothing=smoothing)
    assert loss.item() == pytest.approx(log(4), abs=1e-6)


def test_the_loss_counts_as_many_tokens_as_the_target_has_and_the_end():
    """START 5 6 is read, 5 6 END is to be said; three answers, whatever pads the batch."""
    batch = collate([Pair(("a",), ("b", "c")), Pair(("a",), tuple("abcde"))], LETTERS, LETTERS)
    assert batch.target_in[0].tolist() == [START, 5, 6, PAD, PAD, PAD]
    assert batch.target_out[0].tolist() == [5, 6, END, PAD, PAD, PAD]
    logits = torch.zeros(2, 6, len(LETTERS), requires_grad=True)
    says(logits, batch.target_out)().backward()
    counted = (logits.grad != 0).any(-1).sum(-1)
    assert counted.tolist() == [3, 6]


def test_smoothing_gives_padding_no_share():
    """Of 0.4, the three wrong words get a third each; padding is never right and gets nothing."""
    probability = torch.tensor([0.1, 0.2, 0.4, 0.2, 0.1])
    expected = torch.tensor([0.0, 0.4 / 3, 0.6, 0.4 / 3, 0.4 / 3])
    cost = -(expected * probability.log()).sum().item()
    loss = says(probability.log()[None, None], torch.tensor([[2]]))(smoothing=0.4)
    assert loss.item() == pytest.approx(cost, abs=1e-6)
    with_padding = torch.stack([probability.log(), torch.tensor([9.0, 0, 0, 0, 0])])[None]
    loss = says(with_padding, torch.tensor([[2, PAD]]))(smoothing=0.4)
    assert loss.item() == pytest.approx(cost, abs=1e-6), "a position of padding counts in the smoothed loss"
    uniform = says(torch.zeros(1, 2, 5), torch.tensor([[2, PAD]]))(smoothing=0.4)
    entropy = -sum(p * log(p) for p in expected.tolist() if p)
    assert uniform.item() - entropy == pytest.approx(0.4970, abs=5e-5)


@pytest.mark.parametrize("smoothing", [0.0, 0.4])
def test_certain_scores_do_not_make_the_loss_infinite(smoothing):
    """A log of a probability that was rounded to 0 would."""
    assert says(torch.tensor([[[0.0, 1e4, 0, -1e4]]]), torch.tensor([[3]]))(smoothing=smoothing).isfinite()


@pytest.mark.parametrize("smoothing", [0.0, 0.4])
@pytest.mark.parametrize("target", [[[PAD, PAD], [PAD, PAD]], [[], []]], ids=["padding", "no column"])
def test_a_batch_without_a_token_costs_nothing_and_moves_nothing(target, smoothing):
    """A mean over nothing is NaN, and one such batch ends the run."""
    target = torch.tensor(target, dtype=torch.int64)
    logits = torch.randn(*target.shape, 5, requires_grad=True)
    loss = says(logits, target)(smoothing=smoothing)
    loss.backward()
    assert loss.item() == 0 and torch.equal(logits.grad, torch.zeros_like(logits))


@pytest.mark.parametrize("smoothing", [0.0, 0.4])
def test_a_model_may_call_padding_impossible(smoothing):
    """A logit of -inf for PAD, which is never right: -inf minus -inf is no number."""
    logits = torch.tensor([[[-inf, 0.5, 1.0, -0.5], [-inf, 0.0, 0.0, 0.0]]], requires_grad=True)
    loss = says(logits, torch.tensor([[2, PAD]]))(smoothing=smoothing)
    loss.backward()
    without = torch.tensor([0.5, 1.0, -0.5]).log_softmax(0)
    shares = torch.tensor([smoothing / 2, 1 - smoothing, smoothing / 2])
    assert loss.item() == pytest.approx(-(shares * without).sum().item(), abs=1e-6)
    assert logits.grad.isfinite().all(), "the loss is finite and its gradient is not"


@pytest.mark.parametrize("smoothing", [-0.1, 1.0, nan])
def test_a_smoothing_that_cannot_be_is_named(smoothing):
    with pytest.raises(ValueError, match="smoothing is .*at least 0 and below 1"):
        says(torch.zeros(1, 1, 4), torch.tensor([[1]]))(smoothing=smoothing)


# --- One step ----------------------------------------------------------------------------------------------


def test_gradients_are_clipped_before_the_step(monkeypatch):
    """Of a gradient [60, 80], clipped to norm 1, plain descent at rate 1 makes [-0.6, -0.8]."""
    monkeypatch.setattr(torch.optim, "Adam", torch.optim.SGD)
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    slope = Numbers(torch.tensor([60.0, 80.0]))
    quietly(model, lambda model, batch: (model.weight * batch.x).sum(), [slope], steps=1, learning_rate=1.0)
    expected = torch.tensor([[-0.6, -0.8]])
    torch.testing.assert_close(model.weight.data, expected, msg="clipped too late, or never")


def test_without_a_limit_nothing_is_clipped(monkeypatch):
    monkeypatch.setattr(torch.optim, "Adam", torch.optim.SGD)
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    slope = Numbers(torch.tensor([60.0, 80.0]))
    quietly(model, lambda model, batch: (model.weight * batch.x).sum(), [slope], steps=1, learning_rate=1.0,
            clip=inf)
    torch.testing.assert_close(model.weight.data, torch.tensor([[-60.0, -80.0]]))


def test_the_learning_rate_falls_from_the_given_one_to_zero_by_a_cosine():
    history = quietly(noisy(), steps=8, learning_rate=0.02)
    assert history.learning_rate[0] == 0.02 and history.learning_rate == sorted(history.learning_rate)[::-1]
    assert history.learning_rate[4] == pytest.approx(0.01), "half-way down at half time"
    assert 0 < history.learning_rate[-1] < 0.001, "the last step must still move"


def test_the_warm_up_of_the_transformer():
    """Width 512, 4,000 steps: a straight line to 0.000699, half of it at 2,000 and again at 16,000."""
    rate = partial(warm_up_rate, width=512, warm_up=4000)
    highest = rate(4000)
    assert highest == pytest.approx(6.9877e-4, rel=1e-4) and rate(1) == pytest.approx(highest / 4000)
    assert rate(2000) == pytest.approx(highest / 2) == pytest.approx(rate(16_000))
    assert rate(3999) < highest > rate(4001)
    assert warm_up_rate(4000, width=128, warm_up=4000) == pytest.approx(2 * highest), "d^(-1/2)"


@pytest.mark.parametrize("name", ["step", "width", "warm_up"])
def test_a_warm_up_that_cannot_be_is_named(name):
    """Step 0 would divide by 0: the first is 1."""
    with pytest.raises(ValueError, match=f"{name} is 0: it must be at least 1"):
        warm_up_rate(**{"step": 5, "width": 8, "warm_up": 4, name: 0})
    with pytest.raises(ValueError, match=f"{name} is nan"):
        warm_up_rate(**{"step": 5, "width": 8, "warm_up": 4, name: nan})


def test_a_function_gives_the_learning_rate_of_each_step(monkeypatch):
    """Counted from 1, and asked for no step that is not made."""
    monkeypatch.setattr(torch.optim, "Adam", torch.optim.SGD)
    model, rates, moves = nn.Linear(2, 1, bias=False), [0.1, 0.4, 0.2, 0.3], []

    def loss(model, batch):
        moves.append(model.weight.detach().clone())
        return (model.weight * batch.x).sum()

    slope = [Numbers(torch.tensor([1.0, 0.0]))] * 4
    history = quietly(model, loss, slope, steps=4, learning_rate=dict(enumerate(rates, 1)).__getitem__)
    assert history.learning_rate == pytest.approx(rates)
    moves.append(model.weight.detach())
    moved = [(before - after)[0, 0].item() for before, after in zip(moves, moves[1:], strict=False)]
    assert moved == pytest.approx(rates), "the rate that is noted is not the one of the step"


def test_step_k_gets_batch_k():
    seen = []

    def loss(model, batch):
        seen.append(batch.x)
        return square(model, batch)

    batches = numbers(5)
    quietly(noisy(), loss, batches, steps=5)
    assert all(torch.equal(x, batch.x) for x, batch in zip(seen, batches, strict=True))


def losses(batches, **options):
    return quietly(noisy(), lambda model, batch: square(model, as_numbers(batch)), batches, **options).loss


def as_numbers(batch):
    x = batch if isinstance(batch, torch.Tensor) else batch["x"] if isinstance(batch, dict) else batch[0]
    return Numbers(x)


@pytest.mark.parametrize(
    "form",
    [lambda x: x, lambda x: (x,), lambda x: [x, "a name"], lambda x: {"x": x, "rest": (None, 3)}, Numbers],
    ids=["a tensor", "a tuple", "a list", "a dictionary", "a named tuple"],
)
def test_a_batch_may_be_what_a_loader_makes(form):
    """Each part is moved to the device; what is no tensor stays as it is."""
    batches = [form(batch.x) for batch in numbers()]
    assert losses(batches) == losses(numbers())


def test_every_tensor_of_a_batch_is_moved_and_its_form_kept(monkeypatch):
    moved = []
    monkeypatch.setattr(torch.Tensor, "to", lambda self, place: moved.append((self, place)) or self)

    class Row(NamedTuple):
        x: object
        rest: object

    x = [torch.tensor(float(i)) for i in range(4)]
    batch = Row(x[0], {"a": [x[1], (x[2], None)], "b": {"c": x[3]}, "d": "text"})
    assert on_device(batch, torch.device("cpu")) == batch and type(on_device(batch, "cpu")) is Row
    assert [tensor for tensor, _ in moved[:4]] == x


def test_a_loader_is_read_again_and_again():
    """Three epochs of two batches, each shuffled anew, in the same order for the same seed."""
    x = torch.arange(48.0).view(16, 3) / 48
    loader = DataLoader(TensorDataset(x), batch_size=8, shuffle=True)
    seen = []

    def loss(model, batch):
        seen.append(batch[0])
        return square(model, Numbers(batch[0]))

    first = quietly(noisy(), loss, loader, steps=5).loss
    assert first == quietly(noisy(), loss, loader, steps=5).loss and len(first) == 5
    epochs = [torch.cat(seen[i : i + 2]) for i in (0, 2)]
    assert all(torch.equal(epoch.sort(0).values, x) for epoch in epochs), "an epoch holds every row once"
    assert not torch.equal(*epochs), "the second epoch is shuffled anew"


def test_no_batch_is_drawn_that_no_step_reads():
    """From a stream, a batch read too much is a batch lost."""
    stream = iter(numbers(9))
    quietly(noisy(), batches=stream, steps=4)
    assert len(list(stream)) == 5


@pytest.mark.parametrize(
    ("batches", "error", "words"),
    [
        (numbers(4), ValueError, ["batches ends after 4", "steps is 6"]),
        (iter(numbers(4)), ValueError, ["batches ends after 4", "steps is 6"]),
        (SimpleNamespace(), TypeError, ["batches is a SimpleNamespace", "DataLoader"]),
        ([], ValueError, ["batches ends after 0"]), (iter([]), ValueError, ["batches ends after 0"]),
        ({0: numbers(1)[0]}, TypeError, ["batches is a dict", "sequence"]), ("abc", TypeError, ["is a str"]),
        (None, TypeError, ["batches is a NoneType"]),
    ],
)
def test_batches_that_do_not_reach_or_have_no_order_are_named(batches, error, words):
    """A list that is too short is named before the first step, not after the last batch."""
    model = noisy()
    before = weights(model)
    with pytest.raises(error) as caught:
        train(model, square, batches, steps=6, device="cpu", progress=False)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    if isinstance(batches, list):
        assert torch.equal(weights(model), before)


def test_a_sequence_that_ends_early_is_named_when_it_does():
    class Three:
        def __getitem__(self, step):
            return numbers(3)[step]

    with pytest.raises(ValueError, match="batches ends after 3, and steps is 6"):
        quietly(noisy(), batches=Three())


def test_a_loader_cannot_be_resumed(tmp_path):
    loader = DataLoader(TensorDataset(torch.ones(4, 3)))
    with pytest.raises(TypeError, match="batches is a DataLoader, which cannot be resumed.*a list"):
        quietly(noisy(), batches=loader, evaluate=dev_score, evaluate_every=2, checkpoint=tmp_path / "run.pt")


def test_a_run_keeps_numbers_and_not_graphs():
    """A loss tensor in the history keeps its whole graph alive, and memory grows with every step."""
    seen = []

    def loss(model, batch):
        predicted = model(batch.x)
        seen.append(weakref.ref(predicted))
        return predicted.square().mean()

    history = quietly(noisy(), loss, steps=3, evaluate=lambda model: 1.0, evaluate_every=1)
    gc.collect()
    assert seen[0]() is None, "the predictions of the first step are still alive"
    for values in (history.loss, history.learning_rate, history.dev):
        assert [type(value) for value in values] == [float] * 3


def test_training_and_evaluation_have_their_modes():
    """Dropout left on in evaluation, or off in training after the first evaluation."""
    modes = []

    def loss(model, batch):
        modes.append(("train", model.training))
        return square(model, batch)

    def evaluate(model):
        assert not torch.is_grad_enabled()
        modes.append(("evaluate", model.training))
        return 1.0

    model = noisy()
    quietly(model, loss, steps=4, evaluate=evaluate, evaluate_every=2)
    assert modes == [("train", True), ("train", True), ("evaluate", False)] * 2
    assert not model.training, "a trained model is handed back ready for use"


# --- Random numbers ----------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    """With dropout in the model, on any day."""
    models = [noisy() for _ in range(3)]
    for model, seed in zip(models, (0, 0, 1), strict=True):
        torch.rand(seed + 1)  # what was drawn before must not matter
        quietly(model, seed=seed)
    assert torch.equal(weights(models[0]), weights(models[1])), "two runs with one seed differ"
    assert not torch.equal(weights(models[0]), weights(models[2])), "the seed changes nothing: is it used?"


def test_the_caller_s_random_numbers_are_left_alone():
    """A cell that trains must not change what the next cell draws."""
    torch.manual_seed(3)
    expected = torch.rand(2)
    model = noisy()
    torch.manual_seed(3)
    quietly(model, evaluate=lambda model: 1.0, evaluate_every=2)
    assert torch.equal(torch.rand(2), expected)


def test_how_often_we_evaluate_does_not_change_the_training():
    """An evaluation that shuffles or samples must not take random numbers from the training."""
    often, never = noisy(), noisy()
    scores = iter([3.0, 2.0, 1.0])  # the last is the best, so its weights are kept
    history = quietly(often, evaluate=lambda model: next(scores) + 0 * torch.rand(5).sum(), evaluate_every=2)
    assert history.best_step == 6
    quietly(never)
    assert torch.equal(weights(often), weights(never))


def test_the_order_of_the_batches_is_fixed_by_their_seed():
    """Twice the same two epochs, the second in another order than the first."""
    def order(seed):
        batches = pair_batches(COPIES, LETTERS, LETTERS, size=4, seed=seed)
        return [batches[step].source.tolist() for step in range(2 * len(batches))]

    first, again = order(0), order(0)
    half = len(first) // 2
    assert first == again and first[:half] != first[half:] and first != order(1)


# --- Interruptions -----------------------------------------------------------------------------------------


def interrupted(at):
    """A loss that is interrupted at a call, as a person would."""
    calls = iter(range(10_000))

    def loss(model, batch):
        if next(calls) == at:
            raise KeyboardInterrupt
        return square(model, batch)

    return loss


def dev_score(model):
    return square(model, numbers(1)[0]).item()


@pytest.mark.parametrize("rate", [3e-3, partial(warm_up_rate, width=64, warm_up=5)])
@pytest.mark.parametrize("at", [3, 4, 7, 11])
def test_a_run_that_was_interrupted_ends_where_it_would_have(at, rate, tmp_path):
    """Weights, optimiser, schedule, history and random numbers: bit for bit, with dropout in the model."""
    options = {"steps": 12, "evaluate": dev_score, "evaluate_every": 3, "learning_rate": rate}
    whole = noisy()
    expected = quietly(whole, **options)
    broken, checkpoint = noisy(), tmp_path / "new folder" / "run.pt"
    with pytest.raises(KeyboardInterrupt):
        quietly(broken, interrupted(at), checkpoint=checkpoint, **options)
    torch.manual_seed(99)
    resumed = Noisy()  # other weights: all must come from the file
    history = quietly(resumed, checkpoint=checkpoint, **options)
    assert torch.equal(weights(resumed), weights(whole)), "the resumed run went another way"
    assert history == expected


def test_a_finished_run_is_not_run_again(tmp_path):
    options = {"steps": 4, "evaluate": dev_score, "evaluate_every": 2, "checkpoint": tmp_path / "run.pt"}
    first, second = noisy(), noisy()
    expected = quietly(first, **options)
    assert quietly(second, interrupted(0), **options) == expected
    assert torch.equal(weights(second), weights(first))


def test_a_checkpoint_that_was_cut_off_while_written_is_never_used(tmp_path, monkeypatch):
    """A file written in place is half a file if the machine stops: the one before must still be whole."""
    checkpoint = tmp_path / "run.pt"
    options = {"steps": 8, "evaluate": dev_score, "evaluate_every": 2, "checkpoint": checkpoint}
    real, saved = torch.save, []

    def save(state, path):
        if len(saved) == 2:
            path.write_bytes(b"half")
            raise OSError("no space left")
        saved.append(path)
        real(state, path)

    monkeypatch.setattr(torch, "save", save)
    with pytest.raises(OSError, match="no space left"):
        quietly(noisy(), **options)
    assert torch.load(checkpoint, weights_only=True)["step"] == 4, "the last whole checkpoint is gone"
    monkeypatch.undo()
    resumed, whole = noisy(), noisy()
    quietly(resumed, **options)
    quietly(whole, **{**options, "checkpoint": None})
    assert torch.equal(weights(resumed), weights(whole))


def test_a_checkpoint_opens_without_trusting_it(tmp_path):
    """Tensors and plain containers only."""
    quietly(noisy(), evaluate=dev_score, evaluate_every=2, checkpoint=tmp_path / "run.pt")
    assert torch.load(tmp_path / "run.pt", weights_only=True)["step"] == 6


@pytest.mark.parametrize(
    ("change", "words"),
    [({"seed": 1}, ["seed = 0", "seed = 1"]), ({"steps": 8}, ["steps = 6", "steps = 8"]),
     ({"learning_rate": 0.1}, ["learning_rate = 0.003", "learning_rate = 0.1"]),
     ({"learning_rate": lambda step: step / 8}, ["learning_rate = 0.003", "learning_rate = [0.125, 0.75]"]),
     ({"clip": 2.0}, ["clip = 1.0", "clip = 2.0"]),
     ({"evaluate_every": 3}, ["evaluate_every = 2", "evaluate_every = 3"]),
     ({"batches": numbers(7)[1:]}, ["batches = data with digest"]),
     ({"batches": [*numbers(5), numbers(7)[6]]}, ["batches = data with digest"])],
)
def test_a_checkpoint_of_another_run_is_refused(change, words, tmp_path):
    """What it would have gone on to is the result of neither run; the last batch alone may be another."""
    options = {"evaluate": dev_score, "evaluate_every": 2, "checkpoint": tmp_path / "run.pt"}
    quietly(noisy(), **options)
    model = noisy()
    before = weights(model)
    with pytest.raises(ValueError) as caught:
        quietly(model, **{**options, **change})
    assert all(word in str(caught.value) for word in ["run.pt", *words]), str(caught.value)
    assert torch.equal(weights(model), before), "refused, and yet written over"


def test_a_schedule_with_the_same_ends_is_another(tmp_path):
    """Ends alone do not tell a straight line from a bend: the first step that differs is named."""
    options = {"evaluate": dev_score, "evaluate_every": 2, "checkpoint": tmp_path / "run.pt"}
    quietly(noisy(), **options, learning_rate=lambda step: 0.1 * step)
    quietly(noisy(), **options, learning_rate=lambda step: 0.1 * step * (1 + 1e-15))  # another machine's pow
    words = r"learning_rate of step 4 = 0.4, and this run has learning_rate of step 4 = 0.5"
    with pytest.raises(ValueError, match=words):
        quietly(noisy(), **options, learning_rate=lambda step: 0.1 * (step + (step == 4)))


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x[:4], lambda x: x.double(), lambda x: x.T, lambda x: -x, lambda x: (x,), lambda x: [x, x],
        lambda x: {"x": x, "y": 1}, lambda x: {"x": x, "y": 2}, lambda x: SimpleNamespace(x=x),
        lambda x: x.numpy()[:1], lambda x: x.to_sparse() * 2, lambda x: ["a", x], lambda x: (x, None),
    ],
)
def test_the_digest_of_batches_reads_all_that_is_in_them(other):
    """Values, shapes, kinds of numbers, names and texts; and it is the same for equal ones."""
    x = [batch.x for batch in numbers(3)]
    same, another = _digest([part.clone() for part in x], 3), _digest([other(part) for part in x], 3)
    assert _digest(x, 3) == same != another == _digest([other(part.clone()) for part in x], 3)
    for step in range(3):
        assert _digest([*x[:step], x[step] + 1, *x[step + 1 :]], 3) != same, f"batch {step} is not read"


def test_a_checkpoint_draws_no_random_numbers_from_the_training(tmp_path):
    """Batches that are drawn at random when they are asked for are asked for once more."""
    class Drawn:
        def __getitem__(self, step):
            return Numbers(torch.randn(8, 3))

    options = {"batches": Drawn(), "evaluate": lambda model: 1.0, "evaluate_every": 2}
    assert quietly(noisy(), **options, checkpoint=tmp_path / "run.pt") == quietly(noisy(), **options)


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    """The message must name the file and the sizes that clash."""
    options = {"evaluate": dev_score, "evaluate_every": 2, "checkpoint": tmp_path / "run.pt"}
    quietly(noisy(4), **options)
    with pytest.raises(ValueError) as caught:
        quietly(noisy(5), **options)
    words = ["run.pt", "model", "[4, 3]", "[5, 3]"]
    assert all(word in str(caught.value) for word in words), str(caught.value)
    deeper = noisy(4)
    deeper.layers.append(nn.Linear(1, 1))
    before = weights(deeper)
    with pytest.raises(ValueError, match=r"layers.4.weight is missing there and \[1, 1\] here"):
        quietly(deeper, **options)
    assert torch.equal(weights(deeper), before), "refused, and yet written over"


def test_a_file_that_is_no_checkpoint_is_named(tmp_path):
    options = {"evaluate": dev_score, "evaluate_every": 2, "checkpoint": tmp_path / "run.pt"}
    half, weights_only = lambda path: path.write_bytes(b"half"), lambda path: torch.save({"weight": 1}, path)
    for write in (half, weights_only):
        write(tmp_path / "run.pt")
        with pytest.raises(ValueError, match=r"run\.pt was not written by train"):
            quietly(noisy(), **options)


def test_the_best_weights_are_kept():
    """The last weights are not the best: a reference in place of a copy would move on with the training."""
    model, scores, seen = noisy(), iter([2.0, 1.0, 1.0, 3.0]), []

    def evaluate(model):
        seen.append(weights(model))
        return next(scores)

    history = quietly(model, steps=8, evaluate=evaluate, evaluate_every=2)
    assert history.dev == [2, 1, 1, 3] and history.dev_steps == [2, 4, 6, 8] and history.best_step == 4
    assert torch.equal(weights(model), seen[1]), "the weights handed back are not those of the best score"


def test_the_last_step_is_always_evaluated():
    history = quietly(noisy(), steps=5, evaluate=dev_score, evaluate_every=2)
    assert history.dev_steps == [2, 4, 5]


# --- What goes wrong ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [nan, inf])
def test_a_loss_that_is_not_finite_stops_the_run_before_it_spoils_the_weights(value):
    model = noisy()

    def loss(model, batch):
        return square(model, batch) * (value if batch is batches[2] else 1)

    batches = [SimpleNamespace(x=batch.x) for batch in numbers(4)]
    for batch in batches:
        batch.to = lambda device, batch=batch: batch
    with pytest.raises(FloatingPointError) as caught:
        quietly(model, loss, batches, steps=4)
    words = [str(value), "step 2", "learning_rate"]
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert weights(model).isfinite().all()


@pytest.mark.parametrize("last", [0, 2, 5])
@pytest.mark.parametrize("slope", [nan, inf])
def test_a_gradient_that_is_not_finite_stops_the_run_before_it_spoils_the_weights(slope, last):
    """The root of 0 is finite and its slope is not. At the last step no later loss would tell."""
    model, calls = noisy(), iter(range(9))
    seen = []

    def loss(model, batch):
        seen.append(weights(model))
        zero = model.layers[0].weight.sum() * 0
        root = (zero.square().sqrt() if slope is inf else zero.abs().sqrt() * 0) * 1.0
        return square(model, batch) + (root if next(calls) == last else 0)

    with pytest.raises(FloatingPointError) as caught:
        quietly(model, loss)
    words = ["gradient", "nan", f"step {last}", "learning_rate", "root"]
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert torch.equal(weights(model), seen[-1]), "the step was made all the same"


def test_a_gradient_too_large_for_its_norm_stops_the_run(monkeypatch):
    """Clipped by an infinite norm it would be 0, and the run would go on without learning."""
    loss = lambda model, batch: square(model, batch) * 0 + model.layers[0].weight.sum() * 1e38  # noqa: E731
    with pytest.raises(FloatingPointError, match="gradient has norm inf at step 0"):
        quietly(noisy(), lambda model, batch: loss(model, batch) * 3)


class Scaler:
    """A gradient scaler as on a GPU, whose first scaled gradients overflow."""

    def __init__(self, overflows, scale=4.0):
        self.left, self.at, self.skipped = overflows, scale, 0

    def scale(self, value):
        return value * (inf if self.left else 1.0)

    def unscale_(self, optimiser):
        pass

    def step(self, optimiser):
        self.skipped += bool(self.left)
        if not self.left:
            optimiser.step()

    def update(self):
        self.at, self.left = (self.at / 2, self.left - 1) if self.left else (self.at, 0)

    def get_scale(self):
        return self.at

    def state_dict(self):
        return {}


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
def test_an_overflow_of_the_scaled_gradient_is_the_scaler_s_to_skip(monkeypatch):
    """On a GPU the first steps overflow float16 as a rule: they are skipped, at half the scale each time."""
    scaler = Scaler(overflows=2)
    monkeypatch.setattr(torch.amp, "GradScaler", lambda enabled: scaler)
    model = noisy()
    assert quietly(model).loss and scaler.skipped == 2
    assert weights(model).isfinite().all()
    monkeypatch.setattr(torch.amp, "GradScaler", lambda enabled: Scaler(overflows=3))
    with pytest.raises(FloatingPointError, match="at step 2"):  # at scale 4, at 2, and at 1
        quietly(noisy())


def test_a_model_with_frozen_parts_is_trained_and_one_with_nothing_to_train_named():
    model = noisy()
    model.layers[0].requires_grad_(False)
    before = model.layers[0].weight.clone()
    quietly(model)
    assert torch.equal(model.layers[0].weight, before)
    with pytest.raises(ValueError, match="model has nothing to train: all its parameters are frozen"):
        quietly(model.requires_grad_(False))
    with pytest.raises(ValueError, match="model has nothing to train: it has no parameters"):
        quietly(nn.Tanh())


OTHER = noisy()


@pytest.mark.parametrize(
    ("loss", "error", "words"),
    [
        (lambda model, batch: square(model, batch).detach(), ValueError, "no gradient leads to model"),
        (lambda model, batch: torch.tensor(1.0), ValueError, "no gradient leads to model"),
        (lambda model, batch: square(OTHER, batch), ValueError, "does not depend on any parameter of model"),
        (lambda model, batch: square(model, batch).item(), TypeError, "loss returned .* a tensor with one"),
        (lambda model, batch: None, TypeError, "loss returned None"),
        (lambda model, batch: (square(model, batch), 1), TypeError, "loss returned"),
    ],
)
def test_a_loss_that_teaches_the_model_nothing_is_named(loss, error, words):
    with pytest.raises(error, match=words):
        quietly(noisy(), loss)


def test_a_sparse_gradient_is_named():
    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(4, 3, sparse=True)

        def forward(self, x):
            return self.words(torch.tensor([1])) + x

    with pytest.raises(ValueError, match="words.weight a sparse gradient.*sparse=False"):
        quietly(Words())


@pytest.mark.parametrize("given", [None, "good", torch.ones(2), [1.0]], ids=repr)
def test_a_dev_score_that_is_no_number_is_named(given):
    with pytest.raises(TypeError, match="evaluate returned .*: it must return one number"):
        quietly(noisy(), evaluate=lambda model: given, evaluate_every=2)


def test_a_dev_score_may_be_a_tensor():
    history = quietly(noisy(), evaluate=lambda model: torch.tensor([2.0]), evaluate_every=2)
    assert history.dev == [2.0] * 3 and type(history.dev[0]) is float


@pytest.mark.parametrize(
    ("rate", "error", "words"),
    [
        (lambda step: nan if step == 4 else 0.1, ValueError, r"learning_rate\(4\) is nan"),
        (lambda step: -0.1 if step == 6 else 0.1, ValueError, r"learning_rate\(6\) is -0.1: it must be 0"),
        (lambda step: inf, ValueError, r"learning_rate\(1\) is inf"),
        (lambda step: None, TypeError, r"learning_rate\(1\) is None: it must be a number"),
    ],
)
def test_a_schedule_is_asked_before_the_first_step(rate, error, words):
    """After an hour, a rate that is no number has spoilt what was learnt in it."""
    model = noisy()
    before = weights(model)
    with pytest.raises(error, match=words):
        quietly(model, learning_rate=rate)
    assert torch.equal(weights(model), before)


def test_a_schedule_may_rest():
    """Its first rate may be 0, and its rates tensors."""
    history = quietly(noisy(), learning_rate=lambda step: torch.tensor(0.5) * (step - 1))
    assert history.learning_rate == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 6.0}, "steps is 6.0: it must be a whole number"), ({"steps": "6"}, "steps is '6'"),
        ({"seed": 0.5}, "seed is 0.5"), ({"seed": None}, "seed is None"),
        ({"evaluate": dev_score, "evaluate_every": 2.0}, "evaluate_every is 2.0"),
        ({"learning_rate": "high"}, "learning_rate is 'high': it must be a number or a function"),
        ({"learning_rate": None}, "learning_rate is None"),
        ({"clip": None}, "clip is None: it must be a number"),
    ],
)
def test_arguments_of_another_kind_are_named(options, words):
    with pytest.raises(TypeError, match=words):
        quietly(noisy(), **options)


def test_whole_numbers_of_every_kind_are_counted_in(tmp_path):
    options = {"evaluate": dev_score, "checkpoint": tmp_path / "run.pt"}
    first = quietly(noisy(), steps=np.int64(4), evaluate_every=torch.tensor(2), seed=np.int32(1), **options)
    again = quietly(noisy(), steps=4, evaluate_every=2, seed=1, **options)
    assert first == again and len(first.loss) == 4


def test_a_dev_score_that_is_nan_stops_the_run():
    """No number is lower than NaN: the first evaluation would stay the best for ever."""
    with pytest.raises(FloatingPointError, match="evaluate returned nan after step 2"):
        quietly(noisy(), evaluate=lambda model: nan, evaluate_every=2)


def test_an_infinite_dev_score_is_only_a_bad_one():
    scores = iter([inf, 5.0, inf])
    assert quietly(noisy(), evaluate=lambda model: next(scores), evaluate_every=2).best_step == 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": 0}, ["steps", "0", "at least 1"]),
        ({"learning_rate": 0.0}, ["learning_rate", "0.0", "positive"]),
        ({"learning_rate": nan}, ["learning_rate", "nan", "positive"]),
        ({"learning_rate": inf}, ["learning_rate", "inf", "finite"]),
        ({"clip": nan}, ["clip", "nan", "positive"]),
        ({"clip": -1.0}, ["clip", "-1.0", "positive"]),
        ({"evaluate": dev_score}, ["evaluate_every", "both"]),
        ({"evaluate_every": 2}, ["evaluate", "both"]),
        ({"evaluate": dev_score, "evaluate_every": 0}, ["evaluate_every", "0", "at least 1"]),
        ({"checkpoint": "run.pt"}, ["checkpoint", "evaluate"]),
        ({"device": "tpu"}, ["device", "'tpu'", "cpu"]),
        ({"loss": lambda model, batch: model(batch.x)}, ["loss", "(8, 1)", "one number"]),
    ],
)
def test_bad_arguments_are_named(options, words):
    with pytest.raises(ValueError) as caught:
        quietly(noisy(), **options)
    assert all(word in str(caught.value) for word in words), str(caught.value)


# --- Devices -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cuda", "mps", "wanted", "expected"),
    [
        (True, True, None, "cuda"), (False, True, None, "mps"), (False, False, None, "cpu"),
        (True, True, "", "cuda"), (True, True, "cpu", "cpu"), (True, True, "mps", "mps"),
        (True, False, "cuda:0", "cuda:0"),
    ],
)
def test_the_best_device_is_picked_and_the_environment_overrides(cuda, mps, wanted, expected, monkeypatch):
    """CUDA, then MPS, then the CPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: mps)
    monkeypatch.delenv("ATTNCOURSE_DEVICE", raising=False)
    if wanted is not None:
        monkeypatch.setenv("ATTNCOURSE_DEVICE", wanted)
    assert pick_device() == torch.device(expected)
    assert pick_device("cpu") == torch.device("cpu"), "what is asked for by name wins"
    assert pick_device(torch.device("cpu")) == torch.device("cpu"), "a device is as good as its name"


def test_a_device_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setenv("ATTNCOURSE_DEVICE", "cuda")
    with pytest.raises(ValueError, match="'cuda'.*this machine has.*cpu"):
        pick_device()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_training_on_a_gpu_uses_mixed_precision_and_learns():
    """With a scaled loss, the gradients are unscaled before they are clipped."""
    model = RNNSearch(len(LETTERS), len(LETTERS), embedding=16, hidden=32)
    batches = pair_batches(COPIES, LETTERS, LETTERS, size=16)
    history = train(model, token_loss, batches, steps=60, device="cuda", learning_rate=1e-2, progress=False)
    assert history.loss[-1] < 0.5 * history.loss[0]


# --- Progress ----------------------------------------------------------------------------------------------

PROGRAM = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("ipywidgets", "IPython"):
            raise ImportError(name)
sys.meta_path.insert(0, Blocked())
import torch, tqdm
from attncourse import training
delay, notebook = float(sys.argv[1]), sys.argv[2] == "notebook"
training.tqdm = lambda *args, **options: tqdm.tqdm(*args, **{**options, "delay": delay})
class OutStream:
    def __init__(self, stream): self.write, self.flush = stream.write, stream.flush
    def isatty(self): return False
OutStream.__module__ = "ipykernel.iostream"
if notebook:
    sys.stderr = OutStream(sys.stderr)
class Batch:
    def to(self, device): return self
loss = lambda model, batch: model.weight.square().sum()
training.train(torch.nn.Linear(2, 2), loss, [Batch()] * 9, steps=9, device="cpu",
               evaluate=lambda model: 1.0, evaluate_every=3)
print("done")
"""


def trained(*, quiet="", delay=0, where="terminal") -> bytes:
    """What a run of PROGRAM writes as it goes, on a terminal, in a notebook or into a pipe."""
    command = [sys.executable, "-c", PROGRAM, str(delay), where]
    reader, writer = os.openpty() if where == "terminal" else os.pipe()
    if where == "terminal":
        termios.tcsetwinsize(writer, (24, 80))  # a bar needs some room
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=writer,
                           env={**os.environ, "ATTNCOURSE_QUIET": quiet})
    os.close(writer)
    written = b""
    with contextlib.suppress(OSError):  # a terminal whose other end is closed
        while part := os.read(reader, 65536):
            written += part
    os.close(reader)
    assert run.communicate()[0].split() == [b"done"] and run.returncode == 0, written.decode()
    return written


@pytest.mark.parametrize("where", ["terminal", "notebook"])
def test_a_person_who_watches_sees_a_bar_that_is_wiped_in_the_end(where):
    """Without ipywidgets a bar raised NameError, or left its raw form in the output."""
    written = trained(where=where)
    assert b"HBox" not in written and b"Warning" not in written
    assert b"/9" in written, "a person watching sees no bar"
    assert written.rsplit(b"\r", 1)[-1] == b"", "the bar is not wiped when the run is over"


@pytest.mark.parametrize(
    "options",
    [{"delay": 60}, {"quiet": "1"}, {"quiet": "1", "where": "notebook"}, {"where": "pipe"}],
    ids=["over before it is worth a bar", "stored", "a stored notebook", "a pipe"],
)
def test_nothing_is_written_where_nobody_watches(options):
    """A log file would hold a line for every look of a bar."""
    assert trained(**options) == b""


# --- Learning ----------------------------------------------------------------------------------------------


def test_a_small_translator_learns_to_copy():
    """Everything together: data, model, loss, loop, decoding."""
    torch.manual_seed(0)
    model = RNNSearch(len(LETTERS), len(LETTERS), embedding=12, hidden=24)
    batches = pair_batches(COPIES, LETTERS, LETTERS, size=17)
    history = quietly(model, token_loss, batches, steps=120, learning_rate=2e-2)
    assert isinstance(history, History)
    first, last = history.loss[0], history.loss[-1]
    assert first > 1.5 and last < 0.1, f"the loss went from {first:.2f} to {last:.2f}"
    batch = collate(COPIES, LETTERS, LETTERS)
    found = greedy(model, batch.source, batch.source_lengths)
    said = ["".join(LETTERS.decode(hypothesis.tokens)) for hypothesis in found]
    right = sum(word == "".join(pair.target) for word, pair in zip(said, COPIES, strict=True))
    assert right >= 15, f"{right} of {len(COPIES)} words copied: {said}"
