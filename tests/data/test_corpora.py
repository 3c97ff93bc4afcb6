"""What every corpus must have: a vocabulary of its training part alone, and numbers that can be."""

import doctest
import gzip
from hashlib import sha256

import pytest

from attncourse.data import (
    Document,
    Pair,
    Scene,
    Vocabulary,
    boxed_scenes,
    copying_corpus,
    corpora,
    digits_corpus,
    documents_corpus,
    multi30k,
    multi30k_corpus,
    pronunciation,
    pronunciation_corpus,
    reviews,
    reviews_corpus,
    scene_corpus,
    translation_corpus,
)
from attncourse.data.detection import SIDE

# Words of which each part has its own, in the languages and files that the corpora read.
WORDS = {"train": ("walks", "barn"), "dev": ("digs", "cave"), "test": ("jumps", "fox")}


def translation(*_):
    return translation_corpus(12, longest=20, dev=60, test=60)


def documents(*_):
    return documents_corpus(2, dev=40, test=40)


def spoken(monkeypatch, _):
    """A word whose hash puts it there for each part, with a letter and a sound of its own."""
    def word(part, letter):
        wanted = (letter * length for length in range(1, 2_000))
        return next(word for word in wanted if pronunciation._part(pronunciation._hash(word)) == part)

    parts = (("train", "a"), ("dev", "b"), ("test", "c"))
    lexicon = {word(part, letter): ((letter.upper(),),) for part, letter in parts}
    monkeypatch.setattr(pronunciation, "_dictionary", lambda: lexicon)
    return pronunciation_corpus()


def captions(monkeypatch, tmp_path):
    texts = {"train": WORDS["train"], "val": WORDS["dev"], "test_2016_flickr": WORDS["test"]}
    packed = {f"{file}.{language}.gz": gzip.compress(f"{language} {' '.join(words)}\n".encode(), mtime=0)
              for file, words in texts.items() for language in ("de", "en")}
    folder = tmp_path / "multi30k"
    folder.mkdir()
    for name, content in packed.items():
        (folder / name).write_bytes(content)
    monkeypatch.setenv("ATTNCOURSE_DATA", str(tmp_path))
    checksums = {name: sha256(content).hexdigest() for name, content in packed.items()}
    monkeypatch.setattr(multi30k, "SHA256", checksums)
    return multi30k_corpus(min_count=1)


def film_reviews(monkeypatch, _):
    known = [(label, f"{' '.join(WORDS['train'])} number{label}") for label in (0, 1)]
    found = {"train": [*known], "test": [(0, " ".join(WORDS["test"]))]}
    monkeypatch.setattr(reviews, "fetch", lambda *names: None)
    monkeypatch.setattr(reviews, "_reviews", lambda archive: found)
    return reviews_corpus(dev=1, min_count=1)


def sides(corpus):
    """For each vocabulary, the sentences of each part that it is for."""
    if hasattr(corpus, "vocabulary"):
        yield corpus.vocabulary, {part: [sentence for document in getattr(corpus, part)
                                         for sentence in document.sentences] for part in corpora.PARTS}
    else:
        for side in ("source", "target"):
            yield getattr(corpus, f"{side}_vocabulary"), {
                part: [getattr(pair, side) for pair in getattr(corpus, part)] for part in corpora.PARTS
            }


@pytest.mark.parametrize("make", [translation, documents, spoken, captions, film_reviews])
def test_a_vocabulary_holds_the_words_of_the_training_part_alone(make, monkeypatch, tmp_path):
    """One that has seen dev or test never meets an unknown word there: the task became easier."""
    for vocabulary, sentences in sides(make(monkeypatch, tmp_path)):
        assert vocabulary == Vocabulary.from_sentences(sentences["train"])
        for part in ("dev", "test"):
            new = {word for sentence in sentences[part] for word in sentence} - set(vocabulary.tokens)
            assert new, f"{part} has no word of its own, so this test could not fail"


SMALL = {
    "Corpus 'copying'": lambda: copying_corpus(4, 3, train=1_200, test=2),
    "DocumentCorpus 'documents'": lambda: documents_corpus(1_200, dev=2, test=6),
    "SceneCorpus 'scenes'": lambda: scene_corpus(1_200, dev=2, test=6),
    "BoxedCorpus": lambda: boxed_scenes(1_200, dev=2, test=6),
}


@pytest.mark.parametrize("begin", SMALL)
def test_every_corpus_says_its_sizes_and_not_its_items(begin):
    assert repr(SMALL[begin]()).startswith(f"{begin}: 1,200 train, 2 dev, 6 test ")


DRAWN = [translation_corpus, documents_corpus, scene_corpus, boxed_scenes, copying_corpus]


@pytest.mark.parametrize("make", [*DRAWN, digits_corpus])
@pytest.mark.parametrize(("seed", "error"), [(-1, ValueError), (1.0, TypeError), ("1", TypeError)])
def test_a_seed_that_cannot_be_is_named(make, seed, error):
    """1 and 1.0 would draw two corpora, and -1 the same as 1 in some of them."""
    with pytest.raises(error, match="seed is"):
        make(seed=seed)


@pytest.mark.parametrize("make", DRAWN)
@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize(("count", "error"), [(-1, ValueError), (2.5, TypeError), (None, TypeError)])
def test_a_size_that_cannot_be_is_named(make, part, count, error):
    with pytest.raises(error, match=f"{part} is {count}"):
        make(**{part: count})


def told(item):
    """What an item holds, without pictures, which another processor may smooth to another last bit."""
    if isinstance(item, Pair):
        links = item.alignment and tuple(sorted(part) for part in item.alignment)
        return item.source, item.target, links
    if isinstance(item, Document):
        return item.sentences, item.label, item.deciding_sentence, item.deciding_words
    if isinstance(item, Scene):
        return item.caption, item.named, [tuple(digit) for digit in item.digits]
    boxes = [[round(share * SIDE, 2) for share in box] for box in item.objects.boxes.tolist()]
    return item.objects.labels.tolist(), boxes


@pytest.mark.parametrize(("make", "expected"), [
    (lambda: translation_corpus(400, longest=30, dev=40, test=60), "6148e9ecdd411d86"),
    (lambda: documents_corpus(60, dev=6, test=9), "60d8a0d03c30d4de"),
    (lambda: scene_corpus(60, dev=6, test=9), "135d2366e6ba5dc2"),
    (lambda: boxed_scenes(40, dev=6, test=9), "7c214aece7ecb6fd"),
    (lambda: copying_corpus(5, 6, train=50, test=4), "af70ba00416ad709"),
], ids=["translation", "documents", "scenes", "boxed", "copying"])
def test_what_is_drawn_is_what_the_stored_results_were_made_on(make, expected):
    """One number drawn more or less, and every table of the book is about other data."""
    corpus = make()
    items = repr([[told(item) for item in getattr(corpus, part)] for part in corpora.PARTS])
    assert sha256(items.encode()).hexdigest()[:16] == expected


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(corpora).failed == 0
