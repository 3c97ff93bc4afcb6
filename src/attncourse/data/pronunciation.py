"""English spelling to pronunciation: real words, letters in, phonemes out.

The CMU Pronouncing Dictionary is shipped with the package (folder `cmudict/`, with its own licence), so
nothing is downloaded. The task, its phoneme error rate and its word error rate are an old benchmark; the
rules below are the usual ones, but the split is ours, so compare with published numbers only roughly.
"""

import lzma
from hashlib import sha256
from importlib.resources import files
from string import digits
from sys import intern

from attncourse.data.pairs import Corpus, Pair
from attncourse.data.vocabulary import Vocabulary

DEV_PERCENT, TEST_PERCENT = 2, 5


def pronunciation_corpus() -> Corpus:
    """CMUdict as pairs of letters and phonemes; `describe_pronunciation()` gives the counts.

    Rules: only words of the letters a to z are kept (no apostrophe, hyphen or full stop). Stress digits are
    removed, which leaves 39 phonemes. Pronunciations that are now equal are merged; all that remain are
    `references`, and the first listed is the target.

    Split: the first 8 bytes of the word's SHA-256, as a number modulo 100: 0 and 1 are dev, 2 to 6 test, the
    rest train. So no word is in two parts and every machine finds the same split. Relatives of a test word
    (`walk`, `walked`) may be in train, as in the published splits. Each part is in the order of the hash: its
    first n pairs are a fair sample.
    """
    parts = {"train": [], "dev": [], "test": []}
    hashed = sorted((_hash(word), word, spoken) for word, spoken in _dictionary().items() if _kept(word))
    for number, word, spoken in hashed:
        pair = Pair(tuple(word), spoken[0], references=spoken)
        parts[_part(number)].append(pair)
    return Corpus(
        name="pronunciation",
        **{part: tuple(pairs) for part, pairs in parts.items()},
        source_vocabulary=Vocabulary.from_sentences(pair.source for pair in parts["train"]),
        target_vocabulary=Vocabulary.from_sentences(pair.target for pair in parts["train"]),
    )


def describe_pronunciation() -> str:
    """The rules and the split in words, with the counts taken from the data."""
    dictionary = _dictionary()
    kept = {word: spoken for word, spoken in dictionary.items() if _kept(word)}
    sizes = dict.fromkeys(("train", "dev", "test"), 0)
    for word in kept:
        sizes[_part(_hash(word))] += 1
    several = sum(len(spoken) > 1 for spoken in kept.values())
    return (
        f"CMUdict lists {len(dictionary):,} words; the {len(kept):,} of letters a-z only are kept. "
        f"Stress is removed; {several:,} words have more than one accepted pronunciation, "
        f"the first listed is the training target. Split by a hash of the word: {sizes['train']:,} train, "
        f"{sizes['dev']:,} dev ({DEV_PERCENT}%), {sizes['test']:,} test ({TEST_PERCENT}%)."
    )


def _dictionary() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Every word of the file with its pronunciations, without stress, in the order listed."""
    packed = files("attncourse.data").joinpath("cmudict/cmudict.dict.xz").read_bytes()
    # Only stress marks and the (2) of a further pronunciation are digits.
    text = lzma.decompress(packed).decode("ascii").translate(str.maketrans("", "", digits))
    found: dict[str, dict[tuple[str, ...], None]] = {}
    for line in text.splitlines():
        entry, *phonemes = line.partition(" #")[0].split()
        # intern: one string object for each phoneme, not one for each use.
        found.setdefault(entry.removesuffix("()"), {})[tuple(map(intern, phonemes))] = None
    return {word: tuple(pronunciations) for word, pronunciations in found.items()}


def _kept(word: str) -> bool:
    return word.isascii() and word.isalpha() and word.islower()


def _hash(word: str) -> int:
    # Python's own hash() differs from run to run.
    return int.from_bytes(sha256(word.encode()).digest()[:8])


def _part(number: int) -> str:
    percent = number % 100
    if percent < DEV_PERCENT:
        return "dev"
    return "test" if percent < DEV_PERCENT + TEST_PERCENT else "train"
