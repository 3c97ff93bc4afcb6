"""CMUdict as shipped: the rules hold for every word, and the split is the same everywhere."""

import lzma
import os
import pickle
import subprocess
import sys
import time
from hashlib import sha256
from importlib.resources import files
from string import ascii_lowercase

import pytest

from attncourse.data.pronunciation import describe_pronunciation, pronunciation_corpus
from attncourse.data.vocabulary import UNKNOWN

SHIPPED = files("attncourse.data").joinpath("cmudict")


@pytest.fixture(scope="module")
def corpus():
    return pronunciation_corpus()


@pytest.fixture(scope="module")
def pairs(corpus):
    return {"".join(pair.source): pair for pair in (*corpus.train, *corpus.dev, *corpus.test)}


def test_the_dictionary_is_the_one_the_readme_describes():
    text = lzma.decompress(SHIPPED.joinpath("cmudict.dict.xz").read_bytes())
    assert sha256(text).hexdigest() in SHIPPED.joinpath("README.md").read_text()
    assert "Carnegie Mellon University" in SHIPPED.joinpath("LICENSE").read_text()


def test_sizes_are_fixed(corpus):
    """A changed rule or hash would make old results incomparable: change them knowingly or not at all."""
    assert [len(part) for part in (corpus.train, corpus.dev, corpus.test)] == [109_413, 2_322, 5_758]
    assert (len(corpus.source_vocabulary), len(corpus.target_vocabulary)) == (4 + 26, 4 + 39)


def test_no_word_is_in_two_parts(corpus, pairs):
    assert len(pairs) == len(corpus.train) + len(corpus.dev) + len(corpus.test)


def test_words_are_letters_and_phonemes_carry_no_stress(pairs):
    assert all(set(word) <= set(ascii_lowercase) and word for word in pairs)
    phonemes = {phoneme for pair in pairs.values() for spoken in pair.references for phoneme in spoken}
    assert len(phonemes) == 39 and all(p.isalpha() and p.isupper() for p in phonemes)


def test_the_first_listed_pronunciation_is_the_target_and_all_are_references(pairs):
    assert pairs["cat"].references == (("K", "AE", "T"),)
    assert [" ".join(spoken) for spoken in pairs["tomato"].references] == ["T AH M EY T OW", "T AH M AA T OW"]
    assert all(pair.target == pair.references[0] for pair in pairs.values())


def test_pronunciations_that_differ_in_stress_only_are_one(pairs):
    """Else a word counts as having two answers that no model could tell apart."""
    assert all(len(set(pair.references)) == len(pair.references) for pair in pairs.values())
    assert [" ".join(spoken) for spoken in pairs["insult"].references] == ["IH N S AH L T"]  # listed twice


def test_no_letter_or_phoneme_of_the_test_words_is_unknown(corpus):
    for pair in (*corpus.dev, *corpus.test):
        assert UNKNOWN not in corpus.source_vocabulary.encode(pair.source)
        assert all(UNKNOWN not in corpus.target_vocabulary.encode(spoken) for spoken in pair.references)


def test_there_are_long_words_to_test_on(corpus):
    assert sum(len(pair.source) >= 13 for pair in corpus.test) >= 100


def test_the_first_pairs_are_a_fair_sample(corpus):
    """In alphabetical order, the first hundred words would all begin with a."""
    assert len({pair.source[0] for pair in corpus.test[:100]}) > 10
    lengths = [len(pair.source) for pair in corpus.test]
    assert abs(sum(lengths[:1000]) / 1000 - sum(lengths) / len(lengths)) < 0.3


def test_the_split_does_not_depend_on_pythons_hash(corpus):
    """hash() of a string differs from one process to the next."""
    code = (
        "from attncourse.data.pronunciation import pronunciation_corpus as c; c = c();"
        "print(*(''.join(p.source) for p in c.test[:5]), *c.target_vocabulary.tokens)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, check=True)
    here = ["".join(pair.source) for pair in corpus.test[:5]] + corpus.target_vocabulary.tokens
    assert done.stdout.decode().split() == here


def test_the_description_counts_the_data(corpus):
    described = describe_pronunciation()
    for part in (corpus.train, corpus.dev, corpus.test):
        assert f"{len(part):,}" in described
    several = sum(len(pair.references) > 1 for pair in (*corpus.train, *corpus.dev, *corpus.test))
    assert f"{several:,} words have more than one" in described


def test_it_loads_in_seconds(corpus):
    seconds = []
    for _ in range(2):
        start = time.process_time()
        pronunciation_corpus()
        seconds.append(time.process_time() - start)
    assert min(seconds) < 4.0, "a notebook would wait: is the dictionary parsed more than once?"


def test_it_survives_pickling(corpus):
    assert pickle.loads(pickle.dumps(corpus.dev)) == corpus.dev
