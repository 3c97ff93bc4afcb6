"""Digit scenes: no sample in two parts, captions that say what is there, places that are where it is."""

import random
from itertools import combinations

import pytest
import torch

from attncourse.data import collate_scenes, make_scenes, scene_corpus
from attncourse.data.scenes import (
    DIGIT,
    NAMES,
    PLACES,
    SIZE,
    Box,
    compose,
    describe,
    digit_splits,
    handwritten_digits,
    scene_batches,
)
from attncourse.data.vocabulary import END, PAD, START, UNKNOWN

CORPUS = scene_corpus(200, dev=30, test=60)
PARTS = {"train": CORPUS.train, "dev": CORPUS.dev, "test": CORPUS.test}


def test_no_digit_sample_is_in_two_parts():
    """Scenes divided after they were composed share digits, and the test measures memory."""
    used = {
        part: {digit.sample for scene in scenes for digit in scene.digits} for part, scenes in PARTS.items()
    }
    for one, other in combinations(used, 2):
        assert not used[one] & used[other], f"{one} and {other} share digits"
    for part, samples in digit_splits().items():
        assert used[part] <= set(samples), f"a {part} scene holds a digit of another part"


@pytest.mark.parametrize("seed", [0, 1, 7])
def test_the_split_holds_every_digit_once(seed):
    split = digit_splits(seed)
    assert sorted(sum(split.values(), [])) == list(range(1797))
    assert {part: len(samples) for part, samples in split.items()} == {"train": 1197, "dev": 200, "test": 400}
    values = handwritten_digits()[1]
    assert all({values[i] for i in samples} == set(range(10)) for samples in split.values())


def test_splits_differ_by_seed():
    assert set(digit_splits(0)["test"]) != set(digit_splits(1)["test"])


def test_the_digits_are_scikit_learn_s():
    images, values = handwritten_digits()
    assert images.shape == (1797, 8, 8) and images.min() == 0 and images.max() == 1
    assert values[:10] == tuple(range(10))
    assert torch.equal(images[0, 0] * 16, torch.tensor([0.0, 0, 5, 13, 9, 1, 0, 0]))


def test_the_ink_of_every_digit_lies_in_its_box_and_nowhere_else():
    """Row and column exchanged, or a box off by one, leaves ink outside."""
    images, values = handwritten_digits()
    for scene in CORPUS.test:
        rest = scene.image.clone()
        for value, (top, left, bottom, right), sample in scene.digits:
            assert (bottom - top, right - left) == (DIGIT, DIGIT)
            assert torch.equal(scene.image[0, top:bottom, left:right], images[sample])
            assert values[sample] == value
            rest[0, top:bottom, left:right] = 0
        assert rest.max() == 0, "there is ink outside the boxes"
        assert scene.image.shape == (1, SIZE, SIZE)


def test_the_caption_names_each_digit_in_its_place_in_reading_order():
    """Read the place off the box, in thirds of the image, and compare with the words."""
    for scene in CORPUS.test:
        text = " " + " ".join(scene.caption)
        orders = []
        for digit, word in zip(scene.digits, scene.named, strict=True):
            assert scene.caption[word] == NAMES[digit.value]
            third = SIZE / 3
            row, column = int((digit.box.top + 4) // third), int((digit.box.left + 4) // third)
            orders.append(3 * row + column)
            phrase = f" {NAMES[digit.value]} {PLACES[orders[-1]]}"
            assert (text + " ").count(phrase + " ") >= 1, f"{phrase!r} is not in {text!r}"
            assert scene.caption[word - 1] == ("an" if digit.value == 8 else "a")
        assert orders == sorted(set(orders)), "the digits are not named from the top left to the bottom right"
        assert len(scene.caption) == len(" ".join(scene.caption).split())


def test_captions_by_hand():
    words, named = describe([7], ["in the middle"])
    assert (" ".join(words), named) == ("a seven in the middle", (1,))
    words, named = describe([8, 0, 0], ["at the top left", "at the top", "on the right"])
    assert " ".join(words) == "an eight at the top left , a zero at the top and a zero on the right"
    assert [words[i] for i in named] == ["eight", "zero", "zero"]


def test_scenes_are_as_varied_as_they_claim():
    """Every place, every number of digits, every digit; and a digit moves within its place."""
    scenes = make_scenes(600, digit_splits()["train"], "varied")
    assert {len(scene.digits) for scene in scenes} == {1, 2, 3}
    assert {digit.value for scene in scenes for digit in scene.digits} == set(range(10))
    corners = {digit.box[:2] for scene in scenes for digit in scene.digits}
    assert len(corners) == 81, "nine places, with three rows and three columns to move in"


def test_the_same_seed_gives_the_same_scenes_and_leaves_others_random_numbers_alone():
    random.seed(3)
    torch.manual_seed(3)
    before = random.getstate(), torch.get_rng_state()
    again = scene_corpus(200, dev=30, test=60)
    assert before[0] == random.getstate() and torch.equal(before[1], torch.get_rng_state())
    for mine, theirs in zip(CORPUS.train, again.train, strict=True):
        assert mine.caption == theirs.caption and mine.digits == theirs.digits
        assert torch.equal(mine.image, theirs.image)
    other = scene_corpus(200, dev=30, test=60, seed=1)
    assert [scene.caption for scene in other.train] != [scene.caption for scene in CORPUS.train]


def test_a_cell_is_on_a_digit_if_it_shares_a_pixel_with_its_box():
    for top, left in [(0, 0), (1, 4), (3, 23), (24, 24)]:
        box = Box(top, left, top + 8, left + 8)
        covered = torch.zeros(32, 32, dtype=torch.bool)
        covered[box.top : box.bottom, box.left : box.right] = True
        cells = covered.view(8, 4, 8, 4).transpose(1, 2).reshape(64, 16).any(-1)
        assert box.cells(32, 8) == set(cells.nonzero().flatten().tolist())
    assert Box(0, 8, 8, 16).cells(32, 8) == {2, 3, 10, 11}, "row by row: row * grid + column"


def test_cells_belong_to_the_words_that_name_digits():
    scene = next(scene for scene in CORPUS.test if len(scene.digits) == 3)
    assert list(scene.cells(8)) == list(scene.named)
    for digit, cells in zip(scene.digits, scene.cells(8).values(), strict=True):
        assert cells == digit.box.cells(SIZE, 8)


def test_scenes_of_another_size_are_composed_with_the_same_call():
    """Digits that overlap keep both strokes."""
    image, digits = compose([(0, 40), (3, 37)], [0, 1], size=48)
    images, _ = handwritten_digits()
    assert image.shape == (1, 48, 48) and digits[1].box == Box(3, 37, 11, 45)
    assert (image[0, 0:8, 40:48] >= images[0]).all() and (image[0, 3:11, 37:45] >= images[1]).all()


def test_a_batch_holds_images_labels_and_shifted_captions():
    scenes = CORPUS.train[:5]
    batch = collate_scenes(scenes, CORPUS.vocabulary)
    for row, scene in enumerate(scenes):
        length = len(scene.caption)
        assert torch.equal(batch.images[row], scene.image)
        assert set(batch.present[row].nonzero().flatten().tolist()) == {digit.value for digit in scene.digits}
        assert batch.target_in[row, 0] == START and batch.target_out[row, length] == END
        assert CORPUS.vocabulary.decode(batch.target_out[row]) == list(scene.caption)
        assert (batch.target_out[row, length + 1 :] == PAD).all() and batch.target_lengths[row] == length + 1
    assert batch.to("cpu").images.shape == (5, 1, SIZE, SIZE)
    with pytest.raises(ValueError, match="scenes is empty"):
        collate_scenes([], CORPUS.vocabulary)


def test_the_vocabulary_knows_every_caption_however_small_the_corpus():
    small = scene_corpus(1, dev=0, test=0)
    assert small.vocabulary == CORPUS.vocabulary and len(small.dev) == 0
    for scenes in PARTS.values():
        assert all(UNKNOWN not in CORPUS.vocabulary.encode(scene.caption) for scene in scenes)
    assert "200 train, 30 dev, 60 test" in repr(CORPUS)


def test_an_epoch_is_every_scene_once_and_a_step_is_repeatable():
    batches = scene_batches(CORPUS.train, CORPUS.vocabulary, size=32, seed=4)
    assert len(batches) == 7
    sums = torch.cat([batch.images.flatten(1).sum(1) for batch in batches]).sort().values
    expected = torch.stack([scene.image for scene in CORPUS.train]).flatten(1).sum(1).sort().values
    torch.testing.assert_close(sums, expected)
    again = scene_batches(CORPUS.train, CORPUS.vocabulary, size=32, seed=4)
    assert torch.equal(batches[11].images, again[11].images)
    assert not torch.equal(batches[0].target_in[:4, :5], batches[7].target_in[:4, :5])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: make_scenes(-1, [0], 0), "count is -1"),
        (lambda: make_scenes(1, [], 0), "samples is empty"),
        (lambda: make_scenes(1, [0], 0, most=10), "most is 10.* 1 to 9"),
        (lambda: scene_corpus(0), "train is 0"),
        (lambda: scene_corpus(1, dev=-1), "dev is -1"),
        (lambda: scene_batches([], CORPUS.vocabulary), "scenes is empty"),
        (lambda: scene_batches(CORPUS.dev, CORPUS.vocabulary, size=0), "size is 0"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
