"""How many symbols pass through a fixed context."""

import pytest

from attncourse.data import Corpus, Pair, Vocabulary
from attncourse.decoding import Translation
from attncourse.experiments import copying
from attncourse.experiments.copying import passing, symbols_right


def test_symbols_are_compared_place_by_place(monkeypatch):
    """A copy that is too short, too long or shifted gets what stands where it stood, and no more."""
    vocabulary = Vocabulary(list("abcd"))
    strings = [tuple("ab"), tuple("cd"), tuple("abc")]
    pairs = [Pair(string, string) for string in strings]
    said = {strings[0]: "abd", strings[1]: "d", strings[2]: "bca"}
    monkeypatch.setattr(copying, "translate_pairs", lambda model, corpus, asked: [
        Translation(list(said[pair.source]), True, None, []) for pair in asked])
    corpus = Corpus("tiny", pairs, pairs, pairs, vocabulary, vocabulary)
    assert symbols_right(None, corpus, pairs) == {"symbols right": {"2": 0.5, "3": 0.0}}


@pytest.mark.parametrize(
    ("right", "expected"),
    [({"1": 1.0, "2": 0.95, "3": 0.5, "10": 1.0}, 2), ({"1": 0.2}, 0), ({"2": 1.0, "10": 0.9, "1": 1.0}, 10)],
)
def test_passing_stops_at_the_first_length_that_fails(right, expected):
    """Lengths are names: "10" comes after "2", not before."""
    assert passing(right) == expected
