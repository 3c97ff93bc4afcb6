"""The grammar: correct French, gold links that a reader would draw, and corpora that repeat exactly."""

import pickle
import random
import re
import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attncourse.data.pairs import Pair
from attncourse.data.translation import (
    ADJECTIVES,
    ELIDED,
    INTRANSITIVE,
    NOUNS,
    TIMES,
    TRANSITIVE,
    VOWELS,
    Grammar,
    finish,
    rule,
    sentences,
    translation_corpus,
    word,
)

SAMPLE = sentences(1_500, 3, 30, "sample")
SMALL = {"train": 600, "longest": 12, "dev": 40, "test": 60}


def find(english: str, write=Grammar.clause) -> Pair:
    """The pair with this English, drawn by one of the grammar's rules."""
    wanted, grammar = tuple(english.split()), Grammar(0)
    grammar.random = Steered(wanted)
    for _ in range(20_000):
        pair = finish(write(grammar, len(wanted) + grammar.random.randint(0, 2)))
        if pair.source == wanted:
            return pair
    raise AssertionError(f"the grammar never wrote {english!r}")


class Steered(random.Random):
    """Draws only words of the sentence wanted, where it can, so that it is found in a moment."""

    def __init__(self, wanted):
        super().__init__(0)
        same = {"an": "a", "some": "a", "these": "this"}
        self.wanted = set(wanted) | {same[token] for token in wanted if token in same}

    def choice(self, entries):
        if isinstance(entries[0], (list, tuple)):
            english = 2 if entries is NOUNS else 3
            known = [entry for entry in entries if self.wanted & set(" ".join(entry[:english]).split())]
            entries = known or entries
        return super().choice(entries)

    def choices(self, words, weights):
        return [super().choice([word for word in words if word in self.wanted])]


def links(pair: Pair) -> set[str]:
    """The sure links, in words."""
    return {f"{pair.source[i]}-{pair.target[j]}" for i, j in pair.alignment.sure}


# --- Sentences checked by hand -----------------------------------------------------------------------------

NOUN_PHRASES = {
    # Adjectives: after the noun, before it, and on both sides; two after it keep their distance to the noun.
    "the red car sleeps": "la voiture rouge dort",
    "the small red house sleeps": "la petite maison rouge dort",
    "the sad strong man sings": "l' homme fort triste chante",
    "some big hats sleep": "de grands chapeaux dorment",
    # Forms that depend on the next word.
    "my bee sings": "mon abeille chante",
    "this tree sleeps": "cet arbre dort",
    "my young bee sings": "ma jeune abeille chante",
    "an apple waits": "une pomme attend",
    "a house waits": "une maison attend",
    "the king does not sleep": "le roi ne dort pas",
    # The possessor follows, and "de" merges with the article or loses its vowel.
    "the king 's red horse sleeps": "le cheval rouge du roi dort",
    "these boys 's dog sleeps": "le chien de ces garçons dort",
    "the dogs 's house waits": "la maison des chiens attend",
    "the tree 's apples wait": "les pommes de l' arbre attendent",
    "some children 's dog sleeps": "le chien d' enfants dort",
    "some big boys 's dog sleeps": "le chien de grands garçons dort",
    # Places and relative clauses.
    "the cat near the bridge sleeps": "le chat près du pont dort",
    "the man who sees the cat sleeps": "l' homme qui voit le chat dort",
    "the men who see the cat sleep": "les hommes qui voient le chat dorment",
}
BY_HAND = {
    # The predicate agrees with its subject.
    "the houses are green": ("les maisons sont vertes", Grammar.quality),
    "this tired queen is poor": ("cette reine fatiguée est pauvre", Grammar.quality),
    # The pronoun stands before the verb, and is elided there.
    "the girl sees him": ("la fille le voit", Grammar.clitic),
    "the dogs love her": ("les chiens l' aiment", Grammar.clitic),
    "the girl does not love him": ("la fille ne l' aime pas", Grammar.clitic),
    # Negation, with "de" for the indefinite article.
    "the boy does not see a cat": ("le garçon ne voit pas de chat", Grammar.transitive),
    "the boy does not see an apple": ("le garçon ne voit pas de pomme", Grammar.transitive),
    "the boys do not see some trees": ("les garçons ne voient pas d' arbres", Grammar.transitive),
    "the boy does not love the cat": ("le garçon n' aime pas le chat", Grammar.transitive),
    # The passive becomes active.
    "the houses are seen by the girl": ("la fille voit les maisons", Grammar.passive),
    "an apple is bought by some actresses": ("des actrices achètent une pomme", Grammar.passive),
    # A time comes first; "que" loses its vowel.
    "the king sleeps today": ("aujourd'hui le roi dort", Grammar.clause),
    "the cat is seen by the dog every morning": ("chaque matin le chien voit le chat", Grammar.clause),
    "the king says that my bee sings": ("le roi dit que mon abeille chante", Grammar.opinion),
    "the girl thinks that a fox sees her": ("la fille pense qu' un renard la voit", Grammar.opinion),
    **{english: (french, Grammar.intransitive) for english, french in NOUN_PHRASES.items()},
}


@pytest.mark.parametrize("english", BY_HAND)
def test_a_sentence_checked_by_hand(english):
    french, write = BY_HAND[english]
    assert " ".join(find(english, write).target) == french


def test_clauses_are_joined_by_conjunctions():
    grammar = Grammar(0)
    first, second, joint = grammar.clause(4), grammar.clause(4), word("because", "parce que")
    pair = finish(rule([first, joint, second], [first, joint, second]))
    places = sorted(j for i, j in pair.alignment.possible if pair.source[i] == "because")
    assert [pair.target[j].rstrip("'e") for j in places] == ["parc", "qu"]


# --- Links checked by hand ---------------------------------------------------------------------------------


def test_links_of_a_noun_phrase():
    """The noun is a possible link of its determiner, whose form it decides; every adjective finds its own."""
    pair = find("the small red house sleeps", Grammar.intransitive)
    assert links(pair) == {"the-la", "small-petite", "red-rouge", "house-maison", "sleeps-dort"}
    assert pair.alignment.possible - pair.alignment.sure == {(3, 0)}


def test_links_of_a_negation():
    """Two words for one: "not" is sure of "pas" and may be "ne"; the verb may be "pas", "does" either."""
    pair = find("the king does not sleep", Grammar.intransitive)  # le roi ne dort pas
    assert links(pair) == {"the-le", "king-roi", "sleep-dort", "not-pas"}
    assert pair.alignment.possible - pair.alignment.sure == {(1, 0), (3, 2), (2, 2), (4, 4), (2, 4)}


def test_links_of_a_passive():
    """Subject and agent change places; "is ... by" have no word of their own and may be the verb."""
    pair = find("the house is seen by the girl", Grammar.passive)  # la fille voit la maison
    assert {(0, 3), (1, 4), (3, 2), (5, 0), (6, 1)} == pair.alignment.sure
    assert pair.alignment.possible - pair.alignment.sure == {(1, 3), (6, 0), (2, 2), (4, 2)}


def test_links_of_a_possessor_that_merges():
    """du is both de and le: the 's and the article share it; the new article may be the noun or the 's."""
    pair = find("the king 's red horse sleeps", Grammar.intransitive)  # le cheval rouge du roi dort
    assert pair.alignment.sure == {(0, 3), (2, 3), (1, 4), (3, 2), (4, 1), (5, 5)}
    assert pair.alignment.possible - pair.alignment.sure == {(1, 3), (4, 0), (2, 0)}


def test_links_of_a_time_at_the_front():
    pair = find("the king sleeps every morning")  # chaque matin le roi dort
    assert pair.alignment.sure == {(3, 0), (4, 1), (0, 2), (1, 3), (2, 4)}
    of_today = find("the king sleeps on monday")  # lundi le roi dort
    assert {(3, 0), (4, 0)} <= of_today.alignment.possible - of_today.alignment.sure


# --- What holds for every sentence -------------------------------------------------------------------------


def test_every_word_of_either_side_may_be_linked():
    """A word without any possible link could only ever count as an error."""
    for pair in SAMPLE:
        assert {i for i, _ in pair.alignment.possible} == set(range(len(pair.source))), pair
        assert {j for _, j in pair.alignment.possible} == set(range(len(pair.target))), pair


def test_sure_links_are_possible_and_lie_within_the_sentences():
    for pair in SAMPLE:
        assert pair.alignment.sure and pair.alignment.sure <= pair.alignment.possible
        for i, j in pair.alignment.possible:
            assert 0 <= i < len(pair.source) and 0 <= j < len(pair.target)


def test_sure_links_join_words_that_translate_each_other():
    """Read off the lexicon: a link that is shifted by one would pair a noun with a verb."""
    french = {}
    for singular, plural, *forms, _ in NOUNS:
        french |= {singular: {forms[0]}, plural: {forms[1]}}
    for english, *forms, _ in ADJECTIVES:
        french[english] = set(forms)
    for third, plain, participle, *forms in TRANSITIVE:
        french |= {third: {forms[0]}, plain: set(forms), participle: set(forms)}
    for third, plain, *forms in INTRANSITIVE:
        french |= {third: {forms[0]}, plain: set(forms)}
    seen = 0
    for pair in SAMPLE:
        for i, j in pair.alignment.sure:
            if pair.source[i] in french:
                seen += 1
                assert pair.target[j] in french[pair.source[i]], (pair.source[i], pair.target[j], pair)
    assert seen > 10_000


def test_nothing_stands_before_a_vowel_that_French_would_change():
    for pair in SAMPLE:
        for token, following in pairwise(pair.target):
            changes = token in {*ELIDED, "ma", "ce"} and following.startswith(VOWELS)
            assert not changes, f"{token} {following}: {' '.join(pair.target)}"
            cut = token.endswith("'") or token == "cet"
            assert not cut or following.startswith(VOWELS), f"{token} {following}: {' '.join(pair.target)}"


def test_no_word_follows_itself():
    """Two adjectives of one noun are two."""
    for pair in SAMPLE:
        for token, following in pairwise(pair.source):
            assert token != following, " ".join(pair.source)


def test_what_somebody_thinks_has_no_time_of_its_own():
    """At the end of the sentence nobody could tell whose time it is, and French would need to know."""
    grammar, times = Grammar(0), {english.split()[-1] for english, _ in TIMES}
    for budget in [8, 12, 17] * 100:
        assert not times & set(finish(grammar.opinion(budget)).source)


@pytest.mark.parametrize(("mark", "least", "most"), [
    ("not", 0.2, 0.35), ("by", 0.3, 0.45), ("who", 0.08, 0.2), ("'s", 0.07, 0.18), ("that", 0.1, 0.3),
    ("because", 0.1, 0.3), ("today", 0.05, 0.2),
])
def test_every_construction_is_met_often(mark, least, most):
    """What is rare in the corpus can neither be learned from it nor be measured on it."""
    share = sum(mark in pair.source for pair in SAMPLE) / len(SAMPLE)
    assert least < share < most, f"{mark!r} is in {share:.2f} of the sentences"


def test_articles_merge_with_de():
    for pair in SAMPLE:
        text = " ".join(pair.target)
        assert not re.search(r"\bde (le|les|des|de)\b", text), text


def test_English_articles_fit_the_next_word():
    for pair in SAMPLE:
        for token, following in pairwise(pair.source):
            if token in ("a", "an"):
                assert (token == "an") == (following[0] in "aeiou"), f"{token} {following}"


def test_negation_is_complete():
    """Every "not" has its "ne" and its "pas", and no other word does."""
    for pair in SAMPLE:
        times = pair.source.count("not")
        assert pair.target.count("pas") == times
        assert pair.target.count("ne") + pair.target.count("n'") == times


def test_words_move_far_enough_to_need_attention():
    """Without far moves, the diagonal would align as well as a model. 0.15 or more by more than 4 places."""
    moves = [abs(i - j) for pair in SAMPLE for i, j in pair.alignment.sure]
    share = sum(move > 4 for move in moves) / len(moves)
    assert share >= 0.15, f"only {share:.3f} of the sure links move by more than 4 places"
    assert any(move == 0 for move in moves)


# --- Corpora -----------------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(low=st.integers(3, 12), more=st.integers(2, 20), seed=st.integers(0, 1_000))
def test_lengths_lie_in_the_range_and_sentences_differ(low, more, seed):
    pairs = sentences(20, low, low + more, seed)
    assert all(low <= len(pair.source) <= low + more for pair in pairs)
    assert len({pair.source for pair in pairs}) == 20


def test_lengths_are_spread_over_the_whole_range():
    lengths = [len(pair.source) for pair in SAMPLE]
    thirds = [sum(low <= length < low + 9 for length in lengths) for low in (3, 12, 21)]
    assert min(thirds) > 0.25 * len(lengths), f"sentences of 3-11, 12-20 and 21-29 words: {thirds}"


def test_any_length_can_be_asked_for():
    assert all(95 <= len(pair.source) <= 105 for pair in sentences(3, 95, 105, 0))


def test_the_same_seed_gives_the_same_corpus_and_another_seed_another():
    first, again, other = (translation_corpus(**SMALL, seed=seed) for seed in (3, 3, 4))
    for part in ("train", "dev", "test", "source_vocabulary", "target_vocabulary"):
        assert getattr(first, part) == getattr(again, part), f"{part} differs from one call to the next"
    assert first.train != other.train and first.test != other.test


def test_drawing_sentences_leaves_the_global_random_numbers_alone():
    random.seed(5)
    expected = random.random()
    random.seed(5)
    sentences(10, 3, 9, 0)
    assert random.random() == expected


def test_train_dev_and_test_share_no_sentence():
    corpus = translation_corpus(**SMALL)
    parts = [{pair.source for pair in part} for part in (corpus.train, corpus.dev, corpus.test)]
    assert sum(map(len, parts)) == len(set.union(*parts)), "a sentence is in two parts"
    assert [len(part) for part in parts[1:]] == [40, 60]
    assert 0.9 * SMALL["train"] <= len(parts[0]) <= SMALL["train"]


def test_half_of_the_training_sentences_are_short():
    corpus = translation_corpus(train=1_000, longest=30, dev=5, test=5)
    share = sum(len(pair.source) <= 15 for pair in corpus.train) / len(corpus.train)
    assert 0.6 < share < 0.85, f"{share:.2f} of the sentences are short"


def test_the_vocabulary_is_that_of_the_training_sentences():
    """Words are few, so that a translator learns them in a minute; nothing in dev or test is unknown."""
    corpus = translation_corpus(train=4_000, longest=20, dev=100, test=100)
    assert len(corpus.source_vocabulary) <= 260 and len(corpus.target_vocabulary) <= 330
    for pair in [*corpus.dev, *corpus.test]:
        assert not set(pair.source) - set(corpus.source_vocabulary.tokens)
        assert not set(pair.target) - set(corpus.target_vocabulary.tokens)


def test_a_corpus_can_be_pickled():
    corpus = translation_corpus(**SMALL)
    assert pickle.loads(pickle.dumps(corpus)).train == corpus.train


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: sentences(-1, 3, 9, 0), ["count", "-1"]),
        (lambda: sentences(5, 2, 9, 0), ["low", "2", "3 <= low"]),
        (lambda: sentences(5, 9, 8, 0), ["low", "9", "high", "8"]),
        (lambda: sentences(10**7, 3, 3, 0), ["count", "10000000", "3 to 3", "were found"]),
        (lambda: translation_corpus(1), ["train", "1", "at least 2"]),
        (lambda: translation_corpus(10, longest=5), ["longest", "5", "at least 6"]),
        (lambda: translation_corpus(10, dev=-1), ["dev", "-1"]),
        (lambda: translation_corpus(10, test=-3), ["test", "-3"]),
    ],
)
def test_impossible_requests_are_named(make, words):
    with pytest.raises(ValueError) as caught:
        make()
    assert all(part in str(caught.value) for part in words), str(caught.value)


def test_nearly_all_sentences_of_a_short_length_are_found():
    """Late ones need many draws: giving up early would say that there are none."""
    assert len(sentences(2_400, 3, 3, 0)) == 2_400


def test_no_sentence_is_an_answer_too():
    assert sentences(0, 3, 9, 0) == []


def test_a_thousand_sentences_take_a_moment():
    """Every chapter makes 20,000 of them when it starts."""
    start = time.process_time()
    sentences(1_000, 3, 30, 7)
    assert time.process_time() - start < 1.0
