"""From text to numbers and back: normalise, cut into tokens, look each token up.

Ids 0 to 3 belong to the four special symbols and to nothing else. A text that happens to contain the
characters `<pad>` never becomes padding: `tokenize` cuts it up, and `Vocabulary` knows no such word.
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

import regex
from jaxtyping import Int
from torch import Tensor

from attncourse.data.corpora import check_counts

PAD, START, END, UNKNOWN = 0, 1, 2, 3
SPECIALS = ("<pad>", "<start>", "<end>", "<unk>")

_CJK = r"[\p{Han}\p{Hiragana}\p{Katakana}ー]"
_LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}\u200c\u200d]--{_CJK}]"  # with the joiners inside a word
_POSSESSIVE = rf"'s(?!{_LETTER})"
# File marks, soft hyphens, zero-width spaces, marks of direction, controls: what does not show is not a word.
# The Arabic number signs (PCM) are of their category and do show; tabs and line ends are white space.
_INVISIBLE = regex.compile(r"[[\p{Cc}\p{Cf}\p{DI}]--[\s\x1c-\x1f\p{PCM}\u200c\u200d]]", regex.VERSION1)
# Between letters a joiner (Bengali, Sinhala) or non-joiner (Persian) belongs to the spelling.
_JOINED = rf"[[\p{{L}}]--{_CJK}]"
_LOOSE_JOINER = regex.compile(
    rf"(?<!{_JOINED}\p{{M}}*)[\u200c\u200d]+|[\u200c\u200d]++(?!\p{{M}}*{_JOINED})", regex.VERSION1
)
_TOKEN = regex.compile(
    rf"""
      (?:[cdjlmnst]|(?:jus|lors|puis|quoi)?qu)'   # a French elision: l' of l'homme, qu' of qu'il
    | {_POSSESSIVE}                               # the 's of man's and it's
    | \p{{Nd}}+(?:[.,:]\p{{Nd}}+)+                # a number with separators: 3.5, 1,000, 12:30
    | {_LETTER}+(?:(?!{_POSSESSIVE})['-]{_LETTER}+)*   # a word, other inner apostrophes and hyphens kept
    | {_CJK}\p{{M}}*                              # a Chinese or Japanese character
    | [^\s\x1c-\x1f]\p{{M}}*                      # anything else that shows, one by one: punctuation
    """,
    regex.VERBOSE | regex.VERSION1 | regex.IGNORECASE,
)


def normalise(text: str) -> str:
    """One spelling for what looks the same: Unicode's composed form, NFC, without what does not show.

    An "é" may arrive as one character or as "e" and an accent; after this it is one. No accent is dropped,
    so that Japanese "が" and "か" remain different letters. The mark that opens some files, soft hyphens,
    zero-width spaces, marks of direction and control characters are removed; a joiner or non-joiner stays
    between the letters of a word, where it is part of the spelling.
    """
    shown = _LOOSE_JOINER.sub("", _INVISIBLE.sub("", text))
    return unicodedata.normalize("NFC", shown)


def tokenize(text: str, lower: bool = True) -> list[str]:
    """Cut a text into words, numbers and single punctuation marks; nothing that shows is lost.

    Apostrophes: a French elision and an English 's are tokens of their own (`l'homme` -> `l'`, `homme`;
    `man's` -> `man`, `'s`); any other apostrophe inside a word stays there (`don't`, `aujourd'hui`). The
    curly apostrophe is read as the straight one. Hyphens inside a word stay (`t-shirt`). Chinese and
    Japanese characters are tokens one by one, Latin words between them stay whole. Text is normalised
    (NFC) and, unless `lower` is false, lower-cased. Cutting the joined tokens again gives the same tokens.

    >>> tokenize("L'homme n'a pas 3,5 ans.")
    ["l'", 'homme', "n'", 'a', 'pas', '3,5', 'ans', '.']
    >>> tokenize("我爱NLP!")
    ['我', '爱', 'nlp', '!']
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, not {type(text).__name__}")
    text = normalise(text)
    text = normalise(text.lower()) if lower else text
    return _TOKEN.findall(text.replace("’", "'"))


class Vocabulary:
    """The known tokens, numbered: ids 0-3 are `<pad> <start> <end> <unk>`, then `tokens` in order.

    `vocabulary.tokens[i]` is the text of id i, the four specials included. The object is a list and its
    index, so it pickles; a checkpoint stores `vocabulary.tokens[4:]`, from which it is rebuilt.

    Args:
        tokens: distinct tokens, none of them a special. Compared in Unicode's composed form.

    Raises:
        ValueError: a token twice, one of which nothing shows, or a special among the tokens.

    >>> vocabulary = Vocabulary(["cat", "dog"])
    >>> vocabulary.encode(["dog", "and", "cat"])
    [5, 3, 4]
    >>> vocabulary.decode([1, 5, 4, 2, 0, 0])
    ['dog', 'cat']
    """

    def __init__(self, tokens: Iterable[str]):
        words = [normalise(token) for token in _sequence(tokens, "tokens")]
        for word, count in Counter(words).items():
            if not word:
                raise ValueError("tokens contains one of which nothing shows: it is empty, or invisible")
            if word in SPECIALS:
                raise ValueError(f"tokens contains {word!r}, one of the reserved {' '.join(SPECIALS)}")
            if count > 1:
                raise ValueError(f"tokens contains {word!r} {count} times: give every token once")
        self.tokens = [*SPECIALS, *words]
        # Only real words can be looked up, so no text is ever encoded as padding, start or end.
        self._ids = {word: i for i, word in enumerate(words, start=len(SPECIALS))}

    @classmethod
    def from_sentences(cls, sentences: Iterable[Sequence[str]], min_count: int = 1) -> "Vocabulary":
        """The tokens seen at least `min_count` times, the most frequent first, ties by alphabet.

        Tokens of which nothing shows are left out.
        """
        check_counts(1, min_count=min_count)
        checked = (_sequence(sentence, "each of sentences") for sentence in sentences)
        counts = Counter(chain.from_iterable(checked))
        composed = Counter()
        for token, count in counts.items():
            composed[normalise(token)] += count
        kept = [token for token, count in composed.items() if token and count >= min_count]
        return cls(sorted(kept, key=lambda token: (-composed[token], token)))

    def __len__(self) -> int:
        return len(self.tokens)

    def __repr__(self) -> str:
        return f"Vocabulary of {len(self):,} tokens"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.tokens == other.tokens

    def encode(self, tokens: Sequence[str]) -> list[int]:
        """The id of every token; an unknown one, or the text of a special, becomes `UNKNOWN`."""
        return [self._id(token) for token in _sequence(tokens, "tokens")]

    def _id(self, token: str) -> int:
        found = self._ids.get(token)
        # Known tokens are all composed; only a miss may be the same word in another spelling.
        return self._ids.get(normalise(token), UNKNOWN) if found is None else found

    def decode(self, ids: Iterable[int] | Int[Tensor, " tokens"]) -> list[str]:
        """The tokens up to the first `END`, without `PAD` and `START`. Takes a list or a 1-D tensor."""
        words = []
        for i in map(int, ids):
            if i == END:
                break
            if not 0 <= i < len(self.tokens):
                raise ValueError(f"ids contains {i}: this vocabulary has ids 0 to {len(self) - 1}")
            if i not in (PAD, START):
                words.append(self.tokens[i])
        return words


def _sequence(tokens: Iterable[str], name: str) -> Iterable[str]:
    """Refuse a bare string, which Python would silently read as a sequence of letters."""
    if isinstance(tokens, str):
        raise TypeError(f"{name} must be a sequence of tokens, not a str: use tokenize({tokens!r})")
    return tokens
