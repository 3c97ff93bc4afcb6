"""Batches: the shift by one, padding, order, and the same data on every run."""

import pickle
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DataLoader

from attncourse.data.batches import POOL
from attncourse.data.pairs import Alignment, Batch, Corpus, Pair, collate, pair_batches
from attncourse.data.vocabulary import END, PAD, SPECIALS, START, UNKNOWN, Vocabulary

VOCABULARY = Vocabulary("abcdefgh"[i] for i in range(8))
SENTENCES = st.lists(st.sampled_from("abcdefgh?"), max_size=9).map(tuple)
PAIRS = st.lists(st.builds(Pair, SENTENCES, SENTENCES), min_size=1, max_size=20)


def made(count: int, longest: int = 30, seed: int = 0) -> list[Pair]:
    """Pairs of random lengths whose source spells their own number in base 8, so that each is unique."""
    random = np.random.default_rng(seed)
    pairs = []
    for i in range(count):
        name = tuple("abcdefgh"[int(digit)] for digit in f"{i:05o}")
        filling = ("a",) * random.integers(0, longest)
        pairs.append(Pair(name + filling, filling))
    return pairs


def rows(batch: Batch) -> list[tuple]:
    """The pairs of a batch, read back from its tensors."""
    lengths = zip(batch.source_lengths.tolist(), batch.target_lengths.tolist(), strict=True)
    return [
        (tuple(s[:i].tolist()), tuple(t[:j].tolist()))
        for s, t, (i, j) in zip(batch.source, batch.target_out, lengths, strict=True)
    ]


def test_the_target_is_shifted_by_one():
    """With padding ignored, exactly y1 y2 END count as labels."""
    batch = collate([Pair(("a",), ("b", "c")), Pair(("a",), ("d", "e", "f", "g"))], VOCABULARY, VOCABULARY)
    assert batch.target_in[0].tolist() == [START, 5, 6, PAD, PAD]
    assert batch.target_out[0].tolist() == [5, 6, END, PAD, PAD]
    assert batch.target_lengths.tolist() == [3, 5]
    assert (batch.target_out[0] != PAD).sum() == 3


@given(PAIRS)
def test_reading_a_label_is_reading_the_next_input(pairs):
    """For every pair: the label at t is the input at t + 1, until END, which is never an input."""
    batch = collate(pairs, VOCABULARY, VOCABULARY)
    assert batch.target_in.shape == batch.target_out.shape
    assert (batch.target_in[:, 0] == START).all()
    assert not (batch.target_in == END).any(), "the decoder must never be fed END"
    for i, length in enumerate(batch.target_lengths.tolist()):
        assert batch.target_in[i, 1:length].tolist() == batch.target_out[i, : length - 1].tolist()
        assert batch.target_out[i, length - 1] == END
        assert (batch.target_out[i] != PAD).sum() == length


@given(PAIRS)
def test_row_i_is_pair_i_whatever_its_length(pairs):
    """Sorting by length inside the batch mixes up who said what."""
    batch = collate(pairs, VOCABULARY, VOCABULARY)
    for pair, (source, target) in zip(pairs, rows(batch), strict=True):
        assert list(source) == VOCABULARY.encode(pair.source)
        assert list(target) == [*VOCABULARY.encode(pair.target), END]


@given(PAIRS)
def test_the_mask_by_lengths_is_the_mask_by_ids(pairs):
    """If a real token had the id of padding, the two would differ."""
    batch = collate(pairs, VOCABULARY, VOCABULARY)
    for tensor, lengths in ((batch.source, batch.source_lengths), (batch.target_out, batch.target_lengths)):
        by_length = torch.arange(tensor.shape[1]) < lengths[:, None]
        message = "a real token has the id of padding, or padding is not at the right"
        assert torch.equal(by_length, tensor != PAD), message
        assert tensor.shape[1] == lengths.max(), "more padding than the longest row needs"


def test_a_sentence_with_every_word_has_no_padding_in_it():
    batch = collate([Pair(tuple(VOCABULARY.tokens[4:]), SPECIALS)], VOCABULARY, VOCABULARY)
    assert batch.source.tolist() == [list(range(4, 12))]
    assert batch.target_out.tolist() == [[UNKNOWN] * 4 + [END]]


def test_empty_sources_and_targets_are_legal():
    batch = collate([Pair((), ()), Pair(("a",), ())], VOCABULARY, VOCABULARY)
    assert batch.source.tolist() == [[PAD], [4]] and batch.source_lengths.tolist() == [0, 1]
    assert batch.target_in.tolist() == [[START], [START]] and batch.target_out.tolist() == [[END], [END]]
    alone = collate([Pair((), ())], VOCABULARY, VOCABULARY)
    assert alone.source.shape == (1, 0) and alone.source_lengths.tolist() == [0]


def test_every_tensor_is_int64_and_moves_to_a_device():
    batch = collate([Pair((), ("a",))], VOCABULARY, VOCABULARY)
    assert {tensor.dtype for tensor in batch} == {torch.int64}
    assert {tensor.device.type for tensor in batch.to("meta")} == {"meta"}
    assert isinstance(batch.to("meta"), Batch)


@given(st.integers(1, 80), st.integers(1, 9), st.integers(0, 2**40))
def test_an_epoch_is_every_pair_once(count, size, seed):
    pairs = made(count, longest=4)
    batches = pair_batches(pairs, VOCABULARY, VOCABULARY, size=size, seed=seed)
    expected = sorted(rows(collate(pairs, VOCABULARY, VOCABULARY)))
    assert len(batches) == -(-count // size)
    for epoch in range(2):
        drawn = [batches[epoch * len(batches) + i] for i in range(len(batches))]
        assert sorted(row for batch in drawn for row in rows(batch)) == expected
        assert all(len(batch.source) <= size for batch in drawn)
        assert sum(len(batch.source) < size for batch in drawn) <= 1


def test_a_batch_depends_on_seed_and_step_alone():
    """A run that resumes needs it: step 57 is the same whether asked first, last or twice."""
    pairs = made(200)
    forwards, jumping = (pair_batches(pairs, VOCABULARY, VOCABULARY, size=8, seed=3) for _ in range(2))
    wanted = [rows(forwards[step]) for step in range(100)]
    for step in (57, 3, 99, 57, 0):
        torch.manual_seed(step)
        np.random.seed(step)
        assert rows(jumping[step]) == wanted[step]


def test_epochs_and_seeds_differ():
    """The same order in every epoch is a shuffle that was seeded too often."""
    batches = pair_batches(made(200), VOCABULARY, VOCABULARY, size=8, seed=0)
    other = pair_batches(made(200), VOCABULARY, VOCABULARY, size=8, seed=1)
    first, second = ([rows(batches[i + start]) for i in range(25)] for start in (0, 25))
    assert first != second
    contents = [{frozenset(batch) for batch in epoch} for epoch in (first, second)]
    assert contents[0] != contents[1], "the batches moved, but the same pairs are still together"
    assert first != [rows(other[i]) for i in range(25)]


def test_drawing_batches_disturbs_no_random_numbers():
    """Else a dropout mask depends on how often the dev set was read."""
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    batches = pair_batches(made(100), VOCABULARY, VOCABULARY)
    list(batches)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert np.random.get_state()[1].tolist() == before[1]


def test_iterating_is_one_epoch():
    batches = pair_batches(made(20), VOCABULARY, VOCABULARY, size=8)
    assert [rows(batch) for batch in batches] == [rows(batches[step]) for step in range(3)]


def test_similar_lengths_share_a_batch():
    """Grouping is what keeps padding small: without it a third of these tensors is padding."""
    batches = pair_batches(made(3000), VOCABULARY, VOCABULARY, size=32)
    padding = np.mean([(batch.source == PAD).float().mean().item() for batch in batches])
    assert padding < 0.03
    lengths = [batch.source_lengths.float().mean().item() for batch in batches]
    assert abs(np.corrcoef(lengths, range(len(lengths)))[0, 1]) < 0.5, "short batches must not all come first"


def test_lengths_are_grouped_in_pools_only():
    """Sorting everything would put the same pairs together in every epoch."""
    size, count = 2, 2 * POOL * 4
    batches = pair_batches(made(count), VOCABULARY, VOCABULARY, size=size)
    together = [
        {frozenset(rows(batches[epoch * len(batches) + i])) for i in range(len(batches))} for epoch in (0, 1)
    ]
    assert len(together[0] & together[1]) < 0.1 * len(batches)


@pytest.mark.parametrize("through", ["batches", "collate"])
def test_everything_works_in_workers_that_are_spawned(through):
    """Windows and macOS start workers afresh, and all they get was pickled."""
    pairs = made(20)
    if through == "batches":
        data = pair_batches(pairs, VOCABULARY, VOCABULARY, size=8)
        loader = DataLoader(data, batch_size=None, num_workers=2, multiprocessing_context="spawn")
        assert [rows(batch) for batch in loader] == [rows(batch) for batch in data]
    else:
        together = partial(collate, source_vocabulary=VOCABULARY, target_vocabulary=VOCABULARY)
        loader = DataLoader(pairs, 8, collate_fn=together, num_workers=2, multiprocessing_context="spawn")
        drawn = [row for batch in loader for row in rows(batch)]
        assert drawn == rows(together(pairs))


def test_everything_survives_pickling():
    """A worker that starts afresh has only what it is given."""
    link = frozenset({(0, 0)})
    pair = Pair(("a",), ("b",), Alignment(link, link), (("b",), ("c",)))
    corpus = Corpus("small", [pair], [], [], VOCABULARY, VOCABULARY)
    batches = pair_batches([pair], VOCABULARY, VOCABULARY)
    assert pickle.loads(pickle.dumps(corpus)) == corpus
    assert rows(pickle.loads(pickle.dumps(batches))[5]) == rows(batches[5])
    assert rows(pickle.loads(pickle.dumps(batches[0]))) == rows(batches[0])


def test_a_corpus_says_its_sizes_not_its_pairs():
    corpus = Corpus("small", made(1200), [], made(3), VOCABULARY, VOCABULARY)
    sizes = "1,200 train, 0 dev, 3 test pairs; vocabularies of 12 and 12 tokens"
    assert repr(corpus) == f"Corpus 'small': {sizes}"


def test_the_target_is_the_reference_where_no_other_is_given():
    assert Pair(("a",), ("b",)).references == (("b",),)
    assert Pair(("a",), ("b",), references=(("b",), ("c",))).references == (("b",), ("c",))


def test_bad_pairs_are_named():
    one = frozenset({(0, 0)})
    with pytest.raises(
        TypeError, match="source, target and references must be tuples, not str, tuple, tuple"
    ):
        Pair("cat", ("b",))
    with pytest.raises(TypeError, match="not tuple, list, tuple: use tuple"):
        Pair(("a",), ["b"])
    with pytest.raises(ValueError, match=r"every sure link must also be possible, but \[\(0, 0\)\]"):
        Pair(("a",), ("b",), Alignment(one, frozenset()))
    other = frozenset({(0, 1)})
    with pytest.raises(ValueError, match=r"every sure link must also be possible, but \[\(0, 0\)\]"):
        Pair(("a",), ("b", "c"), Alignment(one, other))
    with pytest.raises(TypeError, match="not tuple, tuple, list: use tuple"):
        Pair(("a",), ("b",), references=[("b",)])
    for outside in ((1, 0), (0, 1), (-1, 0)):
        with pytest.raises(ValueError, match="outside 1 source and 1 target tokens"):
            Pair(("a",), ("b",), Alignment(frozenset(), frozenset({outside})))


def test_bad_batches_are_named():
    pairs = made(3)
    with pytest.raises(ValueError, match="pairs is empty"):
        collate([], VOCABULARY, VOCABULARY)
    with pytest.raises(ValueError, match="pairs is empty"):
        pair_batches([], VOCABULARY, VOCABULARY)
    with pytest.raises(ValueError, match="size is 0: it must be at least 1"):
        pair_batches(pairs, VOCABULARY, VOCABULARY, size=0)
    with pytest.raises(ValueError, match="seed is -1: it must be at least 0"):
        pair_batches(pairs, VOCABULARY, VOCABULARY, seed=-1)
    with pytest.raises(IndexError, match="step is -1: it must be 0 or more"):
        pair_batches(pairs, VOCABULARY, VOCABULARY)[-1]
