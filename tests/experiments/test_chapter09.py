"""Vision Transformer against CNN: equal sizes, equal steps, and a recipe for CIFAR-10 that runs."""

import pytest
import torch
from torch import nn

from attncourse import experiments
from attncourse.data import ImageCorpus, LabelledImages, digits_corpus
from attncourse.experiments import chapter09
from attncourse.experiments.chapter09 import (
    CIFAR_SYSTEMS,
    DIGIT_SYSTEMS,
    IMAGES,
    MOVED,
    drawn,
    fit_images,
    image_accuracy,
    image_classifier,
    image_logits,
    image_loss,
    small_cnn,
    vit_with_small_positions,
    warmed_cosine,
)
from attncourse.experiments.sequences import parameters

CORPUS = digits_corpus()


def colours(count, seed=0) -> LabelledImages:
    """Made-up photographs, as bytes."""
    random = torch.Generator().manual_seed(seed)
    images = torch.randint(256, (count, 3, 32, 32), generator=random, dtype=torch.uint8)
    return LabelledImages(images, torch.arange(count) % 10)


@pytest.mark.parametrize("systems", [DIGIT_SYSTEMS, CIFAR_SYSTEMS], ids=["digits", "CIFAR-10"])
def test_the_systems_are_of_one_size(systems):
    """More parameters would be another explanation of a better score."""
    counts = {name: parameters(image_classifier(name, systems=systems)) for name in systems}
    assert max(counts.values()) < 1.1 * min(counts.values()), counts


@pytest.mark.parametrize("system", DIGIT_SYSTEMS)
def test_every_system_trains_and_says_something_of_every_image(system):
    model = image_classifier(system)
    history = fit_images(model, drawn(CORPUS.train, 50, 0), steps=2, device="cpu", progress=False)
    assert len(history.loss) == 2
    logits = image_logits(model.train(), CORPUS.test)
    assert logits.shape == (400, 10) and not model.training
    torch.testing.assert_close(image_logits(model, CORPUS.test.take([307])), logits[307:308])
    assert image_accuracy(model, CORPUS.test) == (logits.argmax(-1) == CORPUS.test.labels).float().mean()


def test_more_images_than_a_slice_come_back_in_order():
    images = LabelledImages(torch.arange(1_203.0).view(-1, 1, 1, 1), torch.zeros(1_203))
    model = nn.Sequential(nn.Flatten(), nn.Linear(1, 1))
    nn.init.ones_(model[1].weight), nn.init.zeros_(model[1].bias)
    assert image_logits(model, images).flatten().tolist() == list(range(1_203))


def test_the_loss_is_the_mean_of_minus_log_p():
    model, batch = image_classifier("plain network"), CORPUS.dev
    said = model(batch.images).log_softmax(-1)
    torch.testing.assert_close(image_loss(model, batch), -said[torch.arange(200), batch.labels].mean())


def test_systems_of_one_seed_start_alike():
    one, same, other = (image_classifier("CNN", seed=seed)[-1].weight for seed in (1, 1, 2))
    assert torch.equal(one, same) and not torch.equal(one, other)


def test_a_larger_draw_holds_the_smaller_and_each_seed_draws_anew():
    """So that a curve shows what more images do, not other ones. The largest draw is all there are."""
    small, large, other = drawn(CORPUS.train, 50, 3), drawn(CORPUS.train, 200, 3), drawn(CORPUS.train, 50, 4)
    assert torch.equal(large.images[:50], small.images) and torch.equal(large.labels[:50], small.labels)
    assert not torch.equal(small.images, other.images)
    everything = drawn(CORPUS.train, IMAGES[-1], 3)
    assert torch.equal(everything.labels.bincount(), CORPUS.train.labels.bincount())


def test_every_size_gets_the_same_number_of_steps(monkeypatch):
    """Epochs instead of steps would train twenty times less on 50 images than on 1,197."""
    seen = []
    monkeypatch.setattr(chapter09, "fit_images", lambda model, images, **options: seen.append(
        (len(images.labels), fit_images(model, images, steps=2, progress=False, device="cpu", **options))))
    found = chapter09.vit_data("plain network", 0)
    assert [count for count, _ in seen] == list(IMAGES)
    assert {len(history.loss) for _, history in seen} == {2}
    assert list(found["accuracy"]) == ["50", "200", "600", "1197"]
    assert all(0 <= share <= 1 for share in found["accuracy"].values())


@pytest.mark.parametrize("system", MOVED)
def test_positions_start_small_and_the_digits_move(system, monkeypatch):
    model = vit_with_small_positions()
    assert model.positions.std().item() == pytest.approx(0.02, rel=0.1)
    seen = []
    monkeypatch.setattr(chapter09, "fit_images", lambda model, images, **options: seen.append(options))
    found = chapter09.vit_positions(system, 0)
    assert seen[0]["shift"] == MOVED[system]
    assert list(found["distance"]) == ["layer 1", "layer 2"]
    # Untrained, a head looks about as far as one that looks everywhere alike: 3.7 pixels.
    assert all(3 < far < 5 for far in found["distance"].values())
    assert 0 <= found["nearest are neighbours"] <= 1


def test_the_rate_rises_to_its_peak_and_falls_to_nothing():
    """By hand: four steps up, then half a cosine over the other eight."""
    rates = [warmed_cosine(step, peak=0.8, steps=12, warm_up=4) for step in range(1, 13)]
    assert rates[:4] == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert rates[7] == pytest.approx(0.4) and rates[11] == pytest.approx(0)
    assert warmed_cosine(1, peak=0.8, steps=1, warm_up=1) == 0.8, "no division by 0 in a short run"


def test_a_small_cnn_halves_the_image_where_it_is_told():
    model = small_cnn(4, 2, ((3, 1), (5, 2), (6, 2)))
    shapes = []
    for layer in model[:3]:
        layer.register_forward_hook(lambda _, given, out: shapes.append(tuple(out.shape)))
    assert model(torch.zeros(2, 2, 8, 12)).shape == (2, 4)
    assert shapes == [(2, 3, 8, 12), (2, 5, 4, 6), (2, 6, 2, 3)]


@pytest.mark.parametrize("system", CIFAR_SYSTEMS)
def test_the_recipe_for_cifar_10_runs(system, monkeypatch):
    """Two steps on twelve images; on the real ones it takes a GPU."""
    seen = []
    monkeypatch.setattr(chapter09, "cifar10_corpus", lambda dev: ImageCorpus(
        "small", colours(12), colours(dev), colours(4, 1), tuple("abcdefghij")))
    monkeypatch.setattr(chapter09, "fit_images", lambda model, images, **options: seen.append(
        (options, fit_images(model, images, progress=False, device="cpu", **options))))
    found = chapter09.cifar10(system, 0, epochs=2, size=12)
    [(options, history)] = seen
    assert len(history.loss) == options["steps"] == 2
    assert options["shift"] == 4 and options["mirror"], "crops of a padded image, and mirror images"
    assert history.learning_rate == pytest.approx([5e-4, 0], abs=1e-12)
    assert found["parameters"] == parameters(image_classifier(system, systems=CIFAR_SYSTEMS))
    assert found["accuracy"] in (0, 0.25, 0.5, 0.75, 1)


def test_the_experiments_of_this_chapter_are_registered():
    assert {"vit_data", "vit_positions", "cifar10"} <= set(experiments.names())
