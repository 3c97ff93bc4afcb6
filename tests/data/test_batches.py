"""Batches of any kind of item: the same order for ever, since every stored result hangs on it."""

import pickle
from hashlib import sha256

import numpy as np
import pytest
import torch

from attncourse.data import (
    Batches,
    boxed_batches,
    boxed_scenes,
    copying_corpus,
    digits_corpus,
    document_batches,
    documents_corpus,
    image_batches,
    pair_batches,
    scene_batches,
    scene_corpus,
    translation_corpus,
)


def of_pairs(corpus):
    return pair_batches(corpus.train, corpus.source_vocabulary, corpus.target_vocabulary, 16, 3)


def of_documents():
    corpus = documents_corpus(60, dev=3, test=3)
    return document_batches(corpus.train, corpus.vocabulary, 16, 3)


def of_scenes():
    corpus = scene_corpus(60, dev=3, test=3)
    return scene_batches(corpus.train, corpus.vocabulary, 16, 3)


# Each kind with what the batches of several epochs were before the kinds shared one class.
KINDS = {
    "translation": (lambda: of_pairs(translation_corpus(300, longest=12, dev=5, test=5)), 60,
                    "925e8f7c515c6865"),
    "copying": (lambda: of_pairs(copying_corpus(8, 10, train=200, test=2)), 60, "ca8ed43d5fb13d17"),
    "documents": (of_documents, 20, "207956779d3ffd53"),
    "scenes": (of_scenes, 20, "a48fe11290c6c06e"),
    "boxed": (lambda: boxed_batches(boxed_scenes(60, dev=3, test=3).train, 16, 3), 20, "2d84f852ea14622f"),
    "digits": (lambda: image_batches(digits_corpus().dev, 16, 3), 30, "f101b4437af51c4b"),
    "digits that move": (lambda: image_batches(digits_corpus().dev, 16, 3, shift=2, mirror=True), 30,
                         "9466365ce459706e"),
}
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


def numbers(batch):
    """The tensors of a batch, those of its parts too."""
    return [batch] if isinstance(batch, torch.Tensor) else [each for part in batch for each in numbers(part)]


@EVERY_KIND
def test_the_batches_are_those_of_the_stored_results(kind):
    """Another order, and no table of the book can be computed again."""
    make, steps, expected = KINDS[kind]
    batches, digest = make(), sha256()
    for step in range(steps):
        batch = batches[step]
        # Enlarged digits are smoothed, to the last bit otherwise on another processor: their objects tell.
        for tensor in numbers(batch.objects if kind == "boxed" else batch):
            digest.update(str((tensor.dtype, tuple(tensor.shape))).encode())
            digest.update(tensor.contiguous().numpy().tobytes())
    assert digest.hexdigest()[:16] == expected


def test_the_order_by_hand():
    """Ten items in batches of four: two epochs, without lengths and with them."""
    plain = Batches(range(10), list, 4, 0)
    assert [plain[step] for step in range(6)] == [
        [4, 6, 2, 7], [8, 1], [3, 5, 9, 0], [9, 1, 3, 8], [2, 5], [7, 6, 0, 4],
    ]
    lengths = [[i % 4 for i in range(10)], [i % 3 for i in range(10)]]
    sorted_by_length = Batches(range(10), list, 4, 7, lengths=lengths)
    assert [sorted_by_length[step] for step in range(3)] == [[4, 1, 7, 8], [5, 2], [0, 9, 6, 3]]


def test_the_order_of_many_batches_is_that_of_pools_of_fifty():
    batches = Batches(range(400), list, 2, 0, lengths=[[i % 37 for i in range(400)]])
    assert sha256(repr(list(batches)).encode()).hexdigest()[:16] == "ea4719f571bda75f"


@EVERY_KIND
def test_every_kind_can_be_pickled_and_asked_in_any_order(kind):
    batches = KINDS[kind][0]()
    again = pickle.loads(pickle.dumps(batches))
    expected = [numbers(batches[step]) for step in range(7)]
    for step in (6, 0, 3, 3):
        assert all(map(torch.equal, numbers(again[step]), expected[step]))
    assert len(list(batches)) == len(batches)


@EVERY_KIND
def test_every_part_of_a_batch_moves_and_its_kind_is_kept(kind):
    """A part that stays behind stops the training on the first machine with a graphics card."""
    batch = KINDS[kind][0]()[0]
    moved = batch.to("meta")
    assert type(moved) is type(batch) and len(numbers(moved)) == len(numbers(batch))
    assert all(tensor.is_meta for tensor in numbers(moved))


def test_what_is_drawn_for_a_step_hangs_on_seed_and_step_alone():
    """And not on the numbers that shuffle the epochs."""
    def draw(batch, random):
        return batch, random.integers(1_000_000)

    batches, other = (Batches(range(5), list, 5, seed, augment=draw) for seed in (0, 1))
    drawn = [batches[step][1] for step in range(20)]
    assert batches[7][1] == drawn[7] and len(set(drawn)) == 20 and other[7][1] != drawn[7]
    assert drawn[0] == np.random.default_rng((0, 0, 1)).integers(1_000_000)


@pytest.mark.parametrize(("make", "error", "words"), [
    (lambda: Batches([], list), ValueError, "items is empty"),
    (lambda: Batches([1], list, 0), ValueError, "size is 0: it must be at least 1"),
    (lambda: Batches([1], list, 2.5), TypeError, "size is 2.5: it must be a whole number"),
    (lambda: Batches([1], list, seed=-1), ValueError, "seed is -1: it must be at least 0"),
    (lambda: Batches([1], list, seed="0"), TypeError, "seed is '0'"),
    (lambda: Batches([1, 2], list, lengths=[[1]]), ValueError, "lengths"),
    (lambda: Batches([1], list)[-1], IndexError, "step is -1"),
    (lambda: Batches([1], list)[0.5], TypeError, "float"),
])
def test_bad_input_is_named(make, error, words):
    with pytest.raises(error, match=words):
        make()
