"""50,000 film reviews from IMDB, praising or damning, as documents of sentences and words.

For research; the reviews belong to their authors. Please cite: Maas, Daly, Pham, Huang, Ng and Potts (2011),
Learning Word Vectors for Sentiment Analysis. One archive of 84 MB is fetched once. Yang et al. (2016) report
on another collection from the same site, with ten classes: their numbers are not to be compared with ours.
"""

import random
import tarfile
from pathlib import Path

import regex

from attncourse.data.corpora import check_counts
from attncourse.data.documents import Document, DocumentCorpus
from attncourse.data.download import fetch
from attncourse.data.vocabulary import Vocabulary, normalise, tokenize

ADDRESS = "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
CHECKSUM = "md5:7c2ac02c03563afcf9b574c7e56c153a"  # as the package torchtext has it; the site names none
FOLDERS = ("neg", "pos")

_BREAK = regex.compile(r"\s*<br\s*/?>\s*", regex.IGNORECASE)
_BORDER = regex.compile(
    r"""
    (?<=[.!?]["'”’)\]]*)              # a full stop, perhaps inside quotes or brackets ...
    (?<!\b(?:[A-HJ-Z]|Mr|Mrs|Ms|Dr|St)[.])  # ... that is not part of a name: J. Smith, Mr. Smith
    \s+
    (?=["'“‘(\[]*[\p{Lu}\p{Nd}])      # and what follows begins as a sentence does
    """,
    regex.VERBOSE,
)


def cut_sentences(text: str) -> list[str]:
    """Cut a text into its sentences by one plain rule, which needs no model: see `_BORDER` in the source.

    HTML's line breaks end a sentence, too.

    >>> cut_sentences("Mr. Smith slept. 'Me too!' I said.<br /><br />not a film for me")
    ['Mr. Smith slept.', "'Me too!'", 'I said.', 'not a film for me']
    """
    pieces = (piece for part in _BREAK.split(normalise(text)) for piece in _BORDER.split(part))
    return [piece.strip() for piece in pieces if piece.strip()]


def reviews_corpus(
    *, most_sentences: int = 30, most_words: int = 40, min_count: int = 6, dev: int = 2_500, seed: int = 0
) -> DocumentCorpus:
    """IMDB reviews of two classes, half of each: 22,500 to train on, 2,500 dev, 25,000 test.

    The dev reviews are drawn from the published training set. The test set holds none of its films; train and
    dev share films, so a dev score comes out a little too high.

    Args:
        most_sentences: of a review; what comes after them is left out.
        most_words: tokens of a sentence, likewise.
        min_count: rarer training tokens are unknown. Yang et al. 2016 keep those seen more than 5 times.
        dev: number of dev reviews.
        seed: of the choice of the dev reviews.

    Raises:
        DownloadError: the archive is missing and cannot be fetched; the message says where to copy it.
        ValueError: a limit below 1, or a dev set that leaves nothing to train on.
    """
    check_counts(1, most_sentences=most_sentences, most_words=most_words, min_count=min_count)
    check_counts(0, dev=dev, seed=seed)
    parts = {"train": [], "dev": [], "test": []}
    found = _reviews(fetch("reviews/aclImdb_v1.tar.gz", ADDRESS, CHECKSUM))
    if dev >= len(found["train"]):
        raise ValueError(f"dev is {dev}: the training set, which it is taken from, has {len(found['train'])} "
                         "reviews, and one at least must remain")
    random.Random(f"{seed} dev").shuffle(found["train"])
    found["dev"], found["train"] = found["train"][:dev], found["train"][dev:]
    for part, reviews in found.items():
        parts[part] = [
            Document(_sentences(text, most_sentences, most_words), label) for label, text in reviews
        ]
    sentences = (sentence for document in parts["train"] for sentence in document.sentences)
    vocabulary = Vocabulary.from_sentences(sentences, min_count)
    return DocumentCorpus("reviews", **parts, vocabulary=vocabulary, classes=("negative", "positive"))


def _reviews(archive: Path) -> dict[str, list[tuple[int, str]]]:
    """(label, text) of each review in "train" and "test", in an order that does not hang on the archive's."""
    found = {"train": [], "test": []}
    with tarfile.open(archive, "r:gz") as files:
        for file in files:
            folders, name = file.name.split("/")[-3:-1], file.name.split("/")[-1]
            if file.isfile() and len(folders) == 2 and folders[0] in found and folders[1] in FOLDERS:
                text = files.extractfile(file).read().decode("utf-8")
                found[folders[0]].append((FOLDERS.index(folders[1]), name, text))
    return {part: [(label, text) for label, _, text in sorted(reviews)] for part, reviews in found.items()}


def _sentences(text: str, most_sentences: int, most_words: int) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(tokenize(sentence)[:most_words]) for sentence in cut_sentences(text)[:most_sentences])
