"""Vision Transformer against CNN: equal sizes, equal steps, and a recipe for CIFAR-10 that runs."""

import pytest
import torch
from torch import nn

from attncourse.data import LabelledImages, digits_corpus
from attncourse.experiments.image_classifiers import (
    CIFAR_SYSTEMS,
    DIGIT_SYSTEMS,
    drawn,
    fit_images,
    image_accuracy,
    image_classifier,
    image_logits,
    image_loss,
    small_cnn,
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
    everything = drawn(CORPUS.train, 1_197, 3)
    assert torch.equal(everything.labels.bincount(), CORPUS.train.labels.bincount())


def test_a_small_cnn_halves_the_image_where_it_is_told():
    model = small_cnn(4, 2, ((3, 1), (5, 2), (6, 2)))
    shapes = []
    for layer in model[:3]:
        layer.register_forward_hook(lambda _, given, out: shapes.append(tuple(out.shape)))
    assert model(torch.zeros(2, 2, 8, 12)).shape == (2, 4)
    assert shapes == [(2, 3, 8, 12), (2, 5, 4, 6), (2, 6, 2, 3)]
