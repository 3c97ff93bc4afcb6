"""Labelled images: batches that depend on seed and step alone, and images that move by what they should."""

import numpy as np
import pytest
import torch

from attncourse.data import ImageCorpus, LabelledImages, digits_corpus, image_batches
from attncourse.data.images import moved
from attncourse.data.scenes import digit_splits, handwritten_digits


def numbered(count, height=4, width=6) -> LabelledImages:
    """Image i is i + 1 everywhere, and so is its label."""
    values = torch.arange(1, count + 1)
    images = values.float()[:, None, None, None].expand(count, 2, height, width)
    return LabelledImages(images, values)


def ramp(count=40) -> LabelledImages:
    """Every pixel of an image is another number, and no image has a number of another."""
    return LabelledImages(torch.arange(1.0, 1 + count * 24).view(count, 1, 4, 6), torch.arange(count))


@pytest.mark.parametrize("options", [{}, {"shift": 2, "mirror": True}])
def test_a_batch_depends_on_seed_and_step_alone(options):
    """Else a resumed run would see other images, or see them moved otherwise."""
    batches, again = (image_batches(ramp(), 8, 3, **options) for _ in range(2))
    torch.manual_seed(1)
    expected = [batches[step] for step in range(7)]
    state = torch.get_rng_state()
    for step in (6, 2, 0):
        for found, before in zip(again[step], expected[step], strict=True):
            assert torch.equal(found, before)
    assert torch.equal(torch.get_rng_state(), state), "drawing a batch drew from torch's own random numbers"
    other = image_batches(ramp(), 8, 4, **options)
    assert any(not torch.equal(other[0].images, batch.images) for batch in expected)
    assert not torch.equal(other[0].labels, expected[0].labels)


@pytest.mark.parametrize(("count", "size", "sizes"), [(10, 4, {4, 2}), (3, 8, {3})])
def test_an_epoch_holds_every_image_once_with_its_own_label(count, size, sizes):
    batches = image_batches(numbered(count), size)
    epoch = list(batches)
    assert len(epoch) == len(batches) and {len(batch.labels) for batch in epoch} == sizes
    assert sorted(torch.cat([batch.labels for batch in epoch]).tolist()) == list(range(1, count + 1))
    for images, labels in epoch:
        assert torch.equal(images, labels.float()[:, None, None, None].expand(-1, 2, 4, 6))
    orders = {tuple(batches[epoch * len(batches)].labels.tolist()) for epoch in range(8)}
    assert len(orders) > 1, "every epoch has the same order"


def test_images_move_down_and_right_and_nothing_comes_in():
    """By hand: the first 1 down and 1 to the left, the second stays."""
    image = torch.tensor([[1.0, 2, 3], [4, 5, 6]]).expand(2, 1, 2, 3)
    found = moved(image, np.array([[1, -1], [0, 0]]))
    assert found[0, 0].tolist() == [[0, 0, 0], [2, 3, 0]]
    assert torch.equal(found[1], image[1])
    far = moved(image, np.array([[-2, 0], [0, 3]]))
    assert not far.any(), "all of it has gone"


def test_every_image_of_a_batch_moves_by_its_own_step_and_by_all_steps_in_time():
    one = torch.zeros(1, 5, 5)
    one[0, 2, 2] = 1.0
    images = LabelledImages(one.expand(60, 1, 5, 5), torch.zeros(60, dtype=torch.long))
    batches = image_batches(images, 60, shift=1)
    batch = batches[0].images
    places = {divmod(int(image.argmax()), 5) for image in batch}
    assert places == {(row, column) for row in (1, 2, 3) for column in (1, 2, 3)}
    assert (batch.flatten(1).sum(-1) == 1).all()
    assert not torch.equal(batches[1].images, batch), "the next step moves them as the last one did"
    other = image_batches(images, 60, 1, shift=1)[0].images
    assert not torch.equal(other, batch), "another seed moves them as this one does"


def test_a_mirrored_image_is_turned_round_as_a_whole_and_half_of_them_are():
    data = ramp(200)
    images, labels = image_batches(data, 200, mirror=True)[0]
    kept = (images == data.images[labels]).flatten(1).all(-1)
    turned = (images == data.images[labels].flip(-1)).flatten(1).all(-1)
    assert (kept ^ turned).all()
    assert 70 < turned.sum() < 130


def test_bytes_become_numbers_from_minus_1_to_1():
    images = LabelledImages(torch.tensor([0, 255, 51], dtype=torch.uint8).view(3, 1, 1, 1), torch.arange(3))
    taken = images.take(slice(None))
    torch.testing.assert_close(taken.images.flatten(), torch.tensor([-1.0, 1.0, -0.6]))
    assert images.take([2, 0]).labels.tolist() == [2, 0]
    assert image_batches(images, 3)[0].images.dtype == torch.float32


def test_the_digits_are_divided_as_the_scenes_divide_them():
    """No digit in two parts; image and label belong together."""
    corpus, split = digits_corpus(), digit_splits()
    assert isinstance(corpus, ImageCorpus)
    images, values = handwritten_digits()
    for part, count in {"train": 1_197, "dev": 200, "test": 400}.items():
        found = getattr(corpus, part)
        assert found.images.shape == (count, 1, 8, 8) and found.labels.shape == (count,)
        assert torch.equal(found.images[7, 0], images[split[part][7]])
        assert found.labels[7] == values[split[part][7]]
    assert not torch.equal(digits_corpus(1).test.labels, corpus.test.labels)
    assert repr(corpus) == ("ImageCorpus 'digits': 1,197 train, 200 dev, 400 test images of 8 x 8 pixels "
                            "in 1 channel(s); 10 classes")


@pytest.mark.parametrize(("count", "options", "words"), [
    (0, {}, "images is empty"),
    (3, {"size": 0}, "size is 0"),
    (3, {"seed": -1}, "seed is -1"),
    (3, {"shift": -1}, "shift is -1"),
])
def test_bad_input_is_named(count, options, words):
    with pytest.raises(ValueError, match=words):
        image_batches(numbered(count), **options)
