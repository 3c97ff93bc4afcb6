"""Text to ids and back: one spelling, nothing lost, and no word that turns into padding."""

import doctest
import pickle
import unicodedata

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attncourse.data import vocabulary as module
from attncourse.data.vocabulary import END, PAD, SPECIALS, START, UNKNOWN, Vocabulary, normalise, tokenize

# Arbitrary Unicode, and texts crowded with what goes wrong: apostrophes, accents apart, kana, numbers.
TRICKY = "aAéÉe\u0301'’-.,:3 \n\tlLdqu我かが゚ーß_Σσİﬁ!<>\u0323\x1c\ufeff\xad\u200b\u200c\u200d\u200f\x00"
TEXTS = st.text(max_size=12) | st.text(st.sampled_from(TRICKY), max_size=12)
WORDS = st.lists(st.text(min_size=1, max_size=5).map(normalise), max_size=10, unique=True).map(
    lambda words: [word for word in words if word and word not in SPECIALS]
)


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(module).failed == 0


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Two dogs, running.", ["two", "dogs", ",", "running", "."]),
        ("L'homme qu'il voit", ["l'", "homme", "qu'", "il", "voit"]),
        ("l’homme", ["l'", "homme"]),
        ("don't, aujourd'hui, o'clock", ["don't", ",", "aujourd'hui", ",", "o'clock"]),
        ("the man’s hat; it's 's", ["the", "man", "'s", "hat", ";", "it", "'s", "'s"]),
        ("'hello'", ["'", "hello", "'"]),
        ("the dogs' t-shirt - red", ["the", "dogs", "'", "t-shirt", "-", "red"]),
        ("3.5 km, 1,000 at 12:30.", ["3.5", "km", ",", "1,000", "at", "12:30", "."]),
        ("我爱NLP和GPT4。", ["我", "爱", "nlp", "和", "gpt4", "。"]),
        ("コーヒー", ["コ", "ー", "ヒ", "ー"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("<pad> </s>", ["<", "pad", ">", "<", "/", "s", ">"]),
        (" \n\t ", []),
        ("", []),
    ],
)
def test_texts_are_cut_where_a_reader_would(text, tokens):
    assert tokenize(text) == tokens


INVISIBLE = [
    "\ufeff", "\xad", "\u200b", "\u200e", "\u200f", "\u202a", "\u202e", "\u2060", "\u2064", "\u2066",
    "\u2069", "\u061c", "\u180e", "\ufff9", "\U000e0041", "\ufe0f", "\u034f", "\u115f", "\x00", "\x08",
    "\x7f", "\x9f",
]


@pytest.mark.parametrize("mark", INVISIBLE, ids=ascii)
def test_what_does_not_show_is_neither_a_word_nor_part_of_one(mark):
    """A file's opening mark would make "the" two words, and stand in the vocabulary beside them."""
    assert tokenize(f"{mark}The{mark} c{mark}at {mark} sat{mark}.") == ["the", "cat", "sat", "."]
    assert tokenize(f"l{mark}'{mark}homme") == ["l'", "homme"]
    seen = Vocabulary.from_sentences([[f"{mark}cat", "cat", mark], [f"ca{mark}t"]], min_count=3)
    assert seen.tokens[4:] == ["cat"] and seen.encode([f"c{mark}at", mark]) == [4, UNKNOWN]
    with pytest.raises(ValueError, match="nothing shows"):
        Vocabulary([mark])


@given(TEXTS, st.lists(st.tuples(st.integers(0, 12), st.sampled_from(INVISIBLE)), max_size=5))
def test_invisible_characters_anywhere_change_no_token(text, marks):
    """Where they stand does not matter: before an accent, inside a number, at either end."""
    marked = text
    for place, mark in marks:
        marked = marked[:place] + mark + marked[place:]
    assert tokenize(marked) == tokenize(text)


@given(TEXTS)
def test_normalising_twice_changes_nothing(text):
    assert normalise(normalise(text)) == normalise(text)


@pytest.mark.parametrize(("text", "tokens"), [
    ("می\u200cخواهم", ["می\u200cخواهم"]),              # Persian: one word with a non-joiner
    ("র\u200d্যাব", ["র\u200d্যাব"]),                    # Bengali: the joiner stands before a sign
    ("ශ්\u200dරී", ["ශ්\u200dරී"]),                      # Sinhala: after a sign
    ("می\u200c\u200cخواهم", ["می\u200cخواهم"]),
    ("می\u200c \u200dخواهم\u200c", ["می", "خواهم"]),
    ("\u200dcat\u200d, 3\u200d5", ["cat", ",", "35"]),
    ("猫\u200d猫", ["猫", "猫"]),
    ("👩\u200d👧", ["👩", "👧"]),
    ("\u200c", []),
    ("\u0600\u0661", ["\u0600", "\u0661"]),          # an Arabic number sign shows
])
def test_joiners_stay_inside_a_word_only(text, tokens):
    assert tokenize(text) == tokens


@pytest.mark.parametrize("word", ["jusqu", "lorsqu", "puisqu", "quoiqu", "qu", *"cdjlmnst"])
def test_every_french_elision_is_a_word_of_its_own(word):
    assert tokenize(f"{word}'il") == [f"{word}'", "il"]


def test_case_is_kept_on_request():
    assert tokenize("L'Homme", lower=False) == ["L'", "Homme"]


@given(TEXTS)
def test_only_white_space_and_what_does_not_show_is_lost(text):
    """A pattern with a gap drops characters in silence."""
    kept = "".join(normalise(normalise(text).lower()).replace("’", "'").split())
    assert "".join(tokenize(text)) == kept, "the tokens do not spell the text: what has no pattern?"


@given(TEXTS)
def test_cutting_joined_tokens_again_changes_nothing(text):
    """A translation is scored as joined tokens: they must not fall apart differently."""
    tokens = tokenize(text)
    assert tokenize(" ".join(tokens)) == tokens


@given(TEXTS)
def test_every_unicode_spelling_gives_the_same_tokens(text):
    """An é, as one character or as e with an accent, is the same word."""
    composed, apart = (tokenize(unicodedata.normalize(form, text)) for form in ("NFC", "NFD"))
    assert composed == apart


def test_a_vocabulary_sees_one_word_in_two_spellings():
    composed, apart = "\u00e9", "e\u0301"
    vocabulary = Vocabulary.from_sentences([[composed, apart]])
    assert vocabulary.tokens == [*SPECIALS, composed]
    assert vocabulary.encode([composed, apart]) == [4, 4]
    assert Vocabulary.from_sentences([[composed], [apart]], min_count=2).tokens[4:] == [composed]


def test_no_letter_loses_its_mark():
    """Stripping marks would turn ga into ka."""
    assert normalise("が") == "が" != "か"
    assert normalise(unicodedata.normalize("NFD", "が")) == "が"


@given(st.lists(st.text() | st.sampled_from(SPECIALS)), WORDS)
def test_no_text_is_ever_encoded_as_padding_start_or_end(text, words):
    """A text that spells `<pad>` must not vanish behind the mask."""
    ids = Vocabulary(words).encode(text)
    assert len(ids) == len(text)
    assert not {PAD, START, END} & set(ids), "a word of the text got the id of a special symbol"


@given(WORDS)
def test_decoding_gives_back_what_was_encoded(words):
    vocabulary = Vocabulary(words)
    ids = [START, *vocabulary.encode(words), END, PAD, PAD]
    assert vocabulary.decode(ids) == words
    assert vocabulary.decode(torch.tensor(ids)) == words
    assert len(vocabulary) == len(words) + 4 == len(vocabulary.tokens)


def test_decoding_stops_at_the_first_end():
    vocabulary = Vocabulary(["a", "b"])
    assert vocabulary.decode([START, 4, UNKNOWN, END, 5, END]) == ["a", "<unk>"]
    assert vocabulary.decode([]) == []


def test_unknown_and_rare_tokens_are_mapped_to_unknown():
    vocabulary = Vocabulary.from_sentences([["a", "b", "a"], ["c"]], min_count=2)
    assert vocabulary.encode(["a", "b", "new"]) == [4, UNKNOWN, UNKNOWN]


@given(st.lists(st.lists(st.sampled_from("abcdefg"))), st.randoms())
def test_the_order_depends_on_counts_and_alphabet_only(sentences, random):
    """An order by first sight, or by set, gives other ids on the next run and ruins a checkpoint."""
    vocabulary = Vocabulary.from_sentences(sentences)
    shuffled = random.sample(sentences, len(sentences))
    assert Vocabulary.from_sentences(shuffled) == vocabulary
    flat = [token for sentence in sentences for token in sentence]
    assert vocabulary.tokens[4:] == sorted(set(flat), key=lambda token: (-flat.count(token), token))


def test_a_vocabulary_survives_pickling_and_a_plain_list():
    """Workers need the one, `torch.load` with weights only the other."""
    vocabulary = Vocabulary(["a", "b"])
    assert pickle.loads(pickle.dumps(vocabulary)) == vocabulary
    assert Vocabulary(vocabulary.tokens[4:]) == vocabulary


@pytest.mark.parametrize("special", SPECIALS)
def test_a_special_symbol_is_no_word(special):
    with pytest.raises(ValueError, match=f"tokens contains '{special}'"):
        Vocabulary(["a", special])
    with pytest.raises(ValueError, match=f"tokens contains '{special}'"):
        Vocabulary.from_sentences([["a", special]])


@pytest.mark.parametrize("twice", [["a", "b", "a"], ["\u00e9", "e\u0301"]])
def test_a_token_given_twice_is_refused(twice):
    with pytest.raises(ValueError, match="2 times"):
        Vocabulary(twice)


def test_bad_input_is_named():
    vocabulary = Vocabulary(["a"])
    with pytest.raises(TypeError, match="not a str: use tokenize"):
        vocabulary.encode("a cat")
    with pytest.raises(TypeError, match="not a str"):
        Vocabulary("cat")
    with pytest.raises(TypeError, match="each of sentences"):
        Vocabulary.from_sentences(["a cat"])
    with pytest.raises(ValueError, match="min_count is 0: it must be at least 1"):
        Vocabulary.from_sentences([["a"]], min_count=0)
    for wrong in (5, -1):
        with pytest.raises(ValueError, match=f"ids contains {wrong}: this vocabulary has ids 0 to 4"):
            vocabulary.decode([4, wrong])
    with pytest.raises(TypeError, match="text must be a str, not list"):
        tokenize(["a"])
