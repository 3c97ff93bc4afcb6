"""Scenes with boxes: ink inside the boxes and nowhere else."""

import random
from itertools import combinations

import numpy as np
import pytest
import torch

from attncourse.boxes import Objects, to_corners
from attncourse.data import (
    BoxedBatch,
    BoxedImage,
    boxed_batches,
    boxed_scenes,
    collate_boxed,
    detection,
)
from attncourse.data.detection import APART, INK, LARGEST, MOST, SIDE, SMALLEST, boxed_scene, enlarged_digits
from attncourse.data.scenes import digit_splits, handwritten_digits

CORPUS = boxed_scenes(150, dev=20, test=60)
PARTS = {"train": CORPUS.train, "dev": CORPUS.dev, "test": CORPUS.test}


def pixels(scene):
    """The corners of a scene's boxes, in pixels, which are whole numbers."""
    corners = to_corners(scene.objects.boxes) * SIDE
    torch.testing.assert_close(corners, corners.round(), rtol=0, atol=1e-4, msg="a box ends inside a pixel")
    return corners.round().int().tolist()


def alike(one, other):
    return torch.equal(one.image, other.image) and all(map(torch.equal, one.objects, other.objects))


# --- Scenes ------------------------------------------------------------------------------------------------


def test_no_digit_sample_is_in_two_parts(monkeypatch):
    """Asked for the samples that each scene was drawn from, and not for its labels."""
    drawn = {}

    def watched(samples, draw, most=MOST):
        drawn.setdefault(tuple(samples), []).append(draw.getstate())
        return boxed_scene(samples, draw, most)

    monkeypatch.setattr(detection, "boxed_scene", watched)
    boxed_scenes(3, dev=2, test=4, seed=5)
    assert [len(scenes) for scenes in drawn.values()] == [3, 2, 4]
    assert len({first for first, *_ in drawn.values()}) == 3, "the parts draw alike"
    for one, other in combinations(drawn, 2):
        assert not set(one) & set(other), "two parts share digits: the test would measure memory"
    assert [set(part) for part in drawn] == [set(part) for part in digit_splits(5).values()]


def test_a_scene_holds_its_own_samples_only():
    """One sample to draw from, and every digit of the scene is that one, enlarged."""
    scene, (_, values) = boxed_scene([7], random.Random(0)), handwritten_digits()
    assert set(scene.objects.labels.tolist()) == {values[7]}


def test_the_same_seed_gives_the_same_scenes_and_leaves_others_random_numbers_alone():
    random.seed(3), np.random.seed(3), torch.manual_seed(3)
    before = random.getstate(), torch.get_rng_state()
    again = boxed_scenes(150, dev=20, test=60)
    assert before[0] == random.getstate() and torch.equal(before[1], torch.get_rng_state())
    for part, scenes in PARTS.items():
        assert all(map(alike, scenes, getattr(again, part)))
    other = boxed_scenes(150, dev=20, test=60, seed=1)
    assert not any(map(alike, CORPUS.train, other.train))


def test_more_scenes_begin_with_the_same_ones():
    """And the test scenes are the same however many there are to train on."""
    few = boxed_scenes(10, dev=0, test=5)
    assert all(map(alike, few.train, CORPUS.train)) and all(map(alike, few.test, CORPUS.test))
    assert not any(alike(one, other) for one, other in zip(CORPUS.train, CORPUS.test, strict=False))


def test_every_dark_pixel_lies_in_a_box_and_every_side_of_a_box_touches_ink():
    """A box off by one, or rows and columns exchanged, leaves ink outside or air inside."""
    for scene in CORPUS.test:
        [dark] = scene.image > INK
        outside = dark.clone()
        for left, top, right, bottom in pixels(scene):
            outside[top:bottom, left:right] = False
            inside = dark[top:bottom, left:right]
            for name, line in {"top": inside[0], "bottom": inside[-1], "left": inside[:, 0],
                               "right": inside[:, -1]}.items():
                assert line.any(), f"the box could be smaller at the {name}"
        assert not outside.any(), "there is ink outside the boxes"


def test_no_box_reaches_out_of_the_image_or_far_into_another():
    met = 0
    for scene in CORPUS.test:
        corners = pixels(scene)
        for left, top, right, bottom in corners:
            assert 0 <= left < right <= SIDE and 0 <= top < bottom <= SIDE
        for a, b in combinations(corners, 2):
            across, down = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
            assert across <= APART or down <= APART, f"{a} and {b} hide each other"
            met += across > 0 and down > 0
    assert met, "some should overlap a little"


def test_each_box_has_the_label_of_the_digit_in_it():
    """Find the digit of this label among the enlarged ones, at this place: exact, where it stands alone."""
    (_, values), found = handwritten_digits(), 0
    samples = digit_splits()["test"]
    for scene in (scene for scene in CORPUS.test if len(scene.objects.labels) == 1):
        [[left, top, right, bottom]], [label] = pixels(scene), scene.objects.labels.tolist()
        ink, fits = scene.image[0, top:bottom, left:right], []
        for side in range(SMALLEST, LARGEST + 1):
            digits, corners = enlarged_digits(side)
            for sample in samples:
                x, y, end_x, end_y = corners[sample]
                if torch.equal(digits[sample, y:end_y, x:end_x], ink):
                    fits.append(values[sample])
        assert fits and set(fits) == {label}
        found += 1
    assert found >= 5


def test_scenes_are_as_varied_as_they_claim():
    """1 to 5 digits, all ten values, boxes of many sizes and shapes, near every border."""
    scenes = CORPUS.train
    assert {len(scene.objects.labels) for scene in scenes} == set(range(1, MOST + 1))
    assert torch.cat([scene.objects.labels for scene in scenes]).unique().tolist() == list(range(10))
    boxes = torch.tensor([box for scene in scenes for box in pixels(scene)])
    widths, heights = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    assert heights.min() < 10 and heights.max() == LARGEST and (widths < heights).any() and widths.max() > 12
    assert (boxes[:, :2] <= 1).any(0).all() and (boxes[:, 2:] >= SIDE - 1).any(0).all()


def test_shapes_and_kinds():
    for scene in CORPUS.dev:
        assert scene.image.shape == (1, SIDE, SIDE) and scene.image.dtype == torch.float32
        assert scene.image.min() >= 0 and 0.9 < scene.image.max() <= 1
        labels, boxes = scene.objects
        assert labels.dtype == torch.int64 and boxes.dtype == torch.float32
        assert boxes.shape == (len(labels), 4)
    assert CORPUS.names == tuple("0123456789")
    assert repr(CORPUS) == "BoxedCorpus: 150 train, 20 dev, 60 test images; 10 classes"
    assert repr(CORPUS.dev[0]).startswith("BoxedImage(objects="), "an image's numbers would fill the page"


def test_the_ink_of_an_enlarged_digit_by_hand():
    """The corners of what is darker than INK, for some of the digits, pixel by pixel."""
    for side in (SMALLEST, 11, LARGEST):
        digits, corners = enlarged_digits(side)
        assert digits.shape == (1797, side, side)
        for sample in range(0, 1797, 300):
            dark = [(row, column) for row in range(side) for column in range(side)
                    if digits[sample, row, column] > INK]
            rows, columns = zip(*dark, strict=True)
            assert corners[sample] == (min(columns), min(rows), max(columns) + 1, max(rows) + 1)
    assert torch.equal(enlarged_digits(8)[0], handwritten_digits()[0]), "at 8 pixels a digit is as it was"


# --- Batches -----------------------------------------------------------------------------------------------


def test_a_batch_holds_images_and_objects_in_order():
    batch = collate_boxed(CORPUS.train[:5])
    assert isinstance(batch, BoxedBatch) and batch.images.shape == (5, 1, SIDE, SIDE)
    for row, scene in enumerate(CORPUS.train[:5]):
        assert torch.equal(batch.images[row], scene.image) and batch.objects[row] is scene.objects
    moved = batch.to("meta")
    assert moved.images.is_meta and all(part.is_meta for shown in moved.objects for part in shown)


def test_what_is_present_is_known_without_a_place_or_number():
    objects = [Objects(torch.tensor(labels, dtype=torch.int64), torch.rand(len(labels), 4))
               for labels in ([2, 0, 2], [], [1])]
    batch = collate_boxed([BoxedImage(torch.zeros(1, 2, 2), each) for each in objects])
    assert batch.present(4).tolist() == [[1, 0, 1, 0], [0, 0, 0, 0], [0, 1, 0, 0]]


def test_an_epoch_is_every_scene_once_and_a_step_is_repeatable():
    """Depends on seed and step alone: whoever asks for step 11 first gets the same as who asks in order."""
    batches = boxed_batches(CORPUS.train, size=32, seed=4)
    assert len(batches) == len(list(batches)) == 5 and [len(batch.images) for batch in batches].count(32) == 4

    def key(image):
        return tuple(image.flatten().tolist())

    seen = sorted(key(image) for batch in batches for image in batch.images)
    assert seen == sorted(key(scene.image) for scene in CORPUS.train)
    again, other = boxed_batches(CORPUS.train, size=32, seed=4), boxed_batches(CORPUS.train, size=32, seed=5)
    assert torch.equal(again[11].images, batches[11].images)
    assert torch.equal(again[0].images, batches[0].images)
    assert not torch.equal(batches[0].images[:16], batches[5].images[:16]), "is an epoch shuffled anew?"
    assert not torch.equal(batches[0].images[:16], other[0].images[:16])


def test_the_batches_keep_images_and_objects_together():
    number = {id(scene.objects): i for i, scene in enumerate(CORPUS.train)}
    for batch in boxed_batches(CORPUS.train, size=32):
        for image, objects in zip(batch.images, batch.objects, strict=True):
            assert torch.equal(image, CORPUS.train[number[id(objects)]].image)


# --- Errors ------------------------------------------------------------------------------------------------


def boxed(labels, boxes, shape=(1, 8, 8)):
    return BoxedImage(torch.zeros(shape), Objects(torch.tensor(labels), torch.tensor(boxes)))


@pytest.mark.parametrize(("call", "words"), [
    (lambda: boxed([1], [[0.5, 0.5, 1.0, 1.0]], (8, 8)), r"image has shape \(8, 8\).*channels"),
    (lambda: boxed([1, 2], [[0.5, 0.5, 1.0, 1.0]]), r"2 labels and boxes of shape \(1, 4\)"),
    (lambda: boxed([-1], [[0.5, 0.5, 1.0, 1.0]]), "label -1.*counted from 0"),
    (lambda: boxed([1], [[12.0, 10.0, 5.0, 5.0]]), "is it in pixels"),
    (lambda: boxed([1], [[0.5, 0.5, float("nan"), 1.0]]), "nan.*shares of the image"),
    (lambda: boxed_scenes(0), "train is 0"),
    (lambda: boxed_scenes(1, dev=-1), "dev is -1"),
    (lambda: boxed_scenes(1, test=-2), "test is -2"),
    (lambda: collate_boxed([]), "images is empty"),
    (lambda: boxed_batches([]), "images is empty"),
    (lambda: boxed_batches(CORPUS.dev, size=0), "size is 0"),
    (lambda: boxed_batches(CORPUS.dev, seed=-1), "seed is -1"),
    (lambda: collate_boxed([CORPUS.dev[0], BoxedImage(torch.zeros(1, 8, 9), CORPUS.dev[0].objects)]),
     r"sizes \(1, 8, 9\) and \(1, 48, 48\): a batch needs one size"),
])
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
