"""Captions: the loss of hard attention against exact enumeration, and numbers that mean what they say."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from attncourse.attention import log_probability
from attncourse.data import PAD, collate_scenes, scene_corpus
from attncourse.experiments import captions
from attncourse.experiments.captions import (
    CHOICES,
    DEVICES,
    ReinforceLoss,
    by_expectation,
    caption_loss,
    caption_scores,
    captioner,
    fit_captions,
    gradient_noise,
    label_annotator,
    label_loss,
    say,
    weights_at_words,
    word_log_probabilities,
)
from attncourse.models import CellAnnotator, ShowAttendTell

CORPUS = scene_corpus(40, dev=8, test=8)
BATCH = collate_scenes(CORPUS.train[:4], CORPUS.vocabulary)
CELLS, STEPS = 4, 2


class Tiny(ShowAttendTell):
    """Four cells, two words; the choices can be forced, so that all 16 sequences can be gone through."""

    def __init__(self):
        torch.manual_seed(3)
        super().__init__(CellAnnotator(width=3), 7, choice="sample", embedding=3, hidden=4, width=3)
        self.double().train()
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.mul_(3)

    def force(self, places):
        places = iter(places)
        self.attention._choose = lambda scores, alpha, mask: F.one_hot(
            torch.tensor([[next(places)]]), CELLS
        ).to(alpha)


def tiny_batch():
    images = torch.rand(1, 1, 8, 8, generator=torch.Generator().manual_seed(2)).double()
    # The last step is padding: the choice made there belongs to no word.
    target_in, target_out = torch.tensor([[1, 5, 0]]), torch.tensor([[5, 2, PAD]])
    return captions.SceneBatch(images, torch.zeros(1, 10), target_in, target_out, torch.tensor([2]))


def flat_gradient(model, value):
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    grads = torch.autograd.grad(value, learned, allow_unused=True)
    return torch.cat([
        (torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(learned, grads, strict=True)
    ])


def exact_and_expected(loss):
    """The gradient of sum_s p(s) log p(y | s), and the mean over all s of minus the loss's gradient."""
    model, batch = Tiny(), tiny_batch()
    bound, expected = 0.0, 0.0
    for places in itertools.product(range(CELLS), repeat=STEPS):
        model.force([*places, 0])
        told = model(batch.images, batch.target_in)
        chance = log_probability(told.alpha, told.weights)[:, :STEPS].sum().exp()
        bound = bound + chance * word_log_probabilities(told.logits, batch.target_out).sum()
        model.force([*places, 0])
        expected = expected - chance.item() * flat_gradient(model, loss(model, batch))
    return flat_gradient(model, bound), expected


@pytest.mark.parametrize("devices", DEVICES.values(), ids=DEVICES)
def test_the_loss_of_hard_attention_has_the_gradient_of_the_bound(devices):
    """In the mean over all 16 sequences: unbiased with every device, padding left out (eq. 10-12)."""
    loss = ReinforceLoss(**devices, weight=1.0, entropy_weight=0.0)
    if loss.average is not None:
        # Here it must stand still: going through the sequences in order, it would know the one before.
        loss.average.value.copy_(torch.linspace(-9.0, -1.0, len(loss.average.value)))
        loss.average.update = lambda *args: None
    exact, expected = exact_and_expected(loss)
    torch.testing.assert_close(expected, exact, rtol=1e-4, atol=1e-6)
    assert exact.norm() > 0.1


def test_the_entropy_bonus_flattens_the_choice():
    """The sign: one step down this loss must leave alpha with more entropy."""
    model, batch = Tiny(), tiny_batch()
    steep, flat = (ReinforceLoss(None, expected=0.0, weight=0.0, entropy_weight=w) for w in (0.0, 1.0))
    torch.manual_seed(0)
    without = flat_gradient(model, steep(model, batch))
    torch.manual_seed(0)
    bonus = flat_gradient(model, flat(model, batch)) - without
    torch.manual_seed(0)
    told = model(batch.images, batch.target_in)
    uncertainty = captions.entropy(told.alpha)[:, :STEPS].sum()
    torch.testing.assert_close(bonus, -flat_gradient(model, uncertainty), msg="padding counted, or the sign")


def test_the_baseline_follows_the_rewards_and_not_the_padding():
    model, batch = Tiny(), tiny_batch()
    loss = ReinforceLoss("per step", expected=0.0)
    torch.manual_seed(0)
    loss(model, batch)
    torch.manual_seed(0)
    said = word_log_probabilities(model(batch.images, batch.target_in).logits, batch.target_out)[0].float()
    expected = 0.1 * torch.stack([said[0] + said[1], said[1]])
    torch.testing.assert_close(loss.average.value[:2], expected.detach())
    assert (loss.average.value[2:] == 0).all()
    single = ReinforceLoss("average", to_go=False, expected=0.0)
    torch.manual_seed(0)
    single(model, batch)
    torch.testing.assert_close(single.average.value, 0.1 * said.sum().detach()[None])


@pytest.mark.parametrize("baseline", ["average", "per step"])
def test_a_choice_is_judged_by_the_average_before_it(baseline):
    """b_0 is 0: the first term is that without a baseline. An average that knows its own reward is biased."""
    chosen, said, real = torch.tensor([[-1.0, -2.0]]), torch.tensor([[-3.0, -4.0]]), torch.ones(1, 2) > 0
    without = ReinforceLoss(None).score_term(chosen, said, real)
    loss = ReinforceLoss(baseline)
    assert loss.score_term(chosen, said, real) == without, "use the average, then update it"
    assert loss.score_term(chosen, said, real) != without


def test_half_of_the_batches_are_read_by_expectation():
    """And the model is put back, whatever happens."""
    model, batch = captioner(CORPUS, CellAnnotator(), "REINFORCE").train(), BATCH
    always = ReinforceLoss(expected=1.0)
    with by_expectation(model):
        soft = caption_loss(model, batch)
    torch.testing.assert_close(always(model, batch), soft)
    assert model.attention.choice == "sample"
    with pytest.raises(ZeroDivisionError), by_expectation(model):
        _ = 1 / 0
    assert model.attention.choice == "sample"


def test_a_caption_s_loss_is_the_sum_over_its_words():
    """Padding counts for nothing; the mean is over captions."""
    model = captioner(CORPUS, CellAnnotator(), "soft attention").eval()
    alone = [caption_loss(model, collate_scenes([scene], CORPUS.vocabulary)) for scene in CORPUS.train[:4]]
    torch.testing.assert_close(caption_loss(model, BATCH), torch.stack(alone).mean())
    told = model(BATCH.images, BATCH.target_in)
    extra = captions.doubly_stochastic_penalty(told.alpha, BATCH.target_out != PAD)
    torch.testing.assert_close(caption_loss(model, BATCH, penalty=0.5), torch.stack(alone).mean() + extra / 2)


@pytest.mark.parametrize("system", CHOICES)
def test_every_system_trains_and_is_scored(system):
    """A few steps: the losses are finite, the captions words, the scores shares."""
    model = captioner(CORPUS, CellAnnotator(8), system, hidden=8, width=8)
    history = fit_captions(model, CORPUS, steps=3, progress=False)
    assert len(history.loss) == 3
    found = caption_scores(model, CORPUS, CORPUS.test)
    assert ("pointing" in found) == (system != "no attention")
    assert all(0 <= value <= 1 for value in found.values())
    if system == "no attention":
        return
    assert 4 / 64 <= found["chance"] <= 9 / 64, "a digit covers 4 to 9 cells of 64"
    for weights, scene in zip(weights_at_words(model, CORPUS, CORPUS.test), CORPUS.test, strict=True):
        assert weights.shape == (len(scene.caption), 64), "a row for each word of the caption, none for END"
        if system != "soft attention":
            assert ((weights == 0) | (weights == 1)).all(), "evaluation reads one cell"


def test_systems_of_one_seed_start_alike():
    """Else a better score could be bought by a luckier start."""
    annotator = CellAnnotator()
    soft, hard = (captioner(CORPUS, annotator, name, seed=5) for name in ("soft attention", "REINFORCE"))
    assert all(torch.equal(a, b) for a, b in zip(soft.parameters(), hard.parameters(), strict=True))


def test_a_right_caption_counts_and_a_wrong_word_does_not(monkeypatch):
    scenes = CORPUS.test
    said = [list(scene.caption) for scene in scenes]
    said[0] = said[0][:-1]
    monkeypatch.setattr(captions, "say", lambda *args: said)
    model = captioner(CORPUS, CellAnnotator(), "no attention")
    assert caption_scores(model, CORPUS, scenes) == {"exact": 1 - 1 / 8}


def test_more_scenes_than_a_batch_come_back_in_order():
    model = captioner(CORPUS, CellAnnotator(), "soft attention", hidden=8).eval()
    scenes = CORPUS.train[:5] * 21
    assert say(model, CORPUS, scenes)[100:] == say(model, CORPUS, scenes[:5])
    rows = weights_at_words(model, CORPUS, scenes)
    torch.testing.assert_close(rows[100], rows[0])


def test_the_annotator_learns_labels():
    """The loss of twenty steps falls; a label is asked for each digit of the image and for no other."""
    annotator = label_annotator(CORPUS, steps=20)
    with torch.no_grad():
        assert label_loss(annotator, BATCH) < label_loss(CellAnnotator(), BATCH)
    assert not annotator.training


def test_noise_is_measured_on_the_same_draws_and_falls_with_the_devices():
    """A baseline takes most of it away already at the start of training."""
    torch.manual_seed(0)
    model = captioner(CORPUS, CellAnnotator(8), "REINFORCE", hidden=8, width=8)
    found = gradient_noise(model, BATCH, draws=60)
    variance = found["variance"]
    assert list(variance) == list(DEVICES)
    assert variance["moving average"] < 0.5 * variance["plain"]
    assert variance["and reward to go"] < variance["plain"]
    assert variance["and a baseline per step"] < variance["moving average"]
    twice = gradient_noise(model, BATCH, {"a": DEVICES["plain"], "b": DEVICES["plain"]}, draws=5)
    assert twice["variance"]["a"] == twice["variance"]["b"], "each row drew choices of its own"


def test_a_loss_with_a_memory_is_not_resumed(tmp_path):
    """The moving average of the rewards is not in a checkpoint: a resumed run would silently be another."""
    model = captioner(CORPUS, CellAnnotator(8), "REINFORCE", hidden=8, width=8)
    with pytest.raises(ValueError, match="checkpoint does not hold the loss's moving average"):
        fit_captions(model, CORPUS, steps=2, checkpoint=tmp_path / "run.pt")
    plain = ReinforceLoss(baseline=None)
    fit_captions(model, CORPUS, plain, steps=2, checkpoint=tmp_path / "run.pt", progress=False)


def test_no_dev_scenes_is_refused_by_name():
    model = captioner(CORPUS, CellAnnotator(8), "no attention", hidden=8, width=8)
    with pytest.raises(ValueError, match="no dev scenes"):
        fit_captions(model, scene_corpus(4, dev=0, test=0), steps=2)
