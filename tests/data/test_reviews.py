"""IMDB: read from an archive of a few reviews served on this machine, laid out as the real one."""

import doctest
import io
import tarfile
from hashlib import md5

import pytest

from attncourse.data import collate_documents, cut_sentences, reviews, reviews_corpus
from attncourse.data.download import DownloadError

TEXTS = {
    "train/pos/0_9.txt": "A great film. I loved it!<br /><br />Go.",
    "train/pos/1_10.txt": "Great. Café film.",
    "train/neg/0_1.txt": "An awful film. " * 50,
    "train/neg/10_2.txt": "Awful film, " * 40,
    "train/unsup/0_0.txt": "Unlabelled words.",
    "train/labeledBow.feat": "9 0:9 1:1",
    "test/pos/0_7.txt": "A film.",
    "test/neg/0_3.txt": "Not a film. A zebra.",
    "imdb.vocab": "the",
}


def packed(texts):
    """A tar.gz with these files below aclImdb/, and its folders as entries of their own."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for folder in ("aclImdb", "aclImdb/train", "aclImdb/train/pos"):
            entry = tarfile.TarInfo(folder)
            entry.type = tarfile.DIRTYPE
            archive.addfile(entry)
        for name, text in texts.items():
            entry = tarfile.TarInfo(f"aclImdb/{name}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


@pytest.fixture
def small(server, tmp_path, monkeypatch):
    """The corpus with four training reviews for 25,000."""
    content = packed(TEXTS)
    server.files["/aclImdb_v1.tar.gz"] = [content]
    monkeypatch.setenv("ATTNCOURSE_DATA", str(tmp_path))
    monkeypatch.setattr(reviews, "ADDRESS", f"{server.address}/aclImdb_v1.tar.gz")
    monkeypatch.setattr(reviews, "CHECKSUM", f"md5:{md5(content).hexdigest()}")
    return server


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(reviews).failed == 0


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? 4 five.", ["One.", "Two!", "Three?", "4 five."]),
        ("By J. R. Ewing and Dr. No. It ends.", ["By J. R. Ewing and Dr. No.", "It ends."]),
        ("So did I. Then we left.", ["So did I.", "Then we left."]),
        ("It cost 3.50 dollars... but why?! Oh.", ["It cost 3.50 dollars... but why?!", "Oh."]),
        ('He said "Go." She (my aunt.) Left.', ['He said "Go."', "She (my aunt.)", "Left."]),
        ("no stop<br />at all<BR><br/>here", ["no stop", "at all", "here"]),
        ("\ufeffIt ended.\u200b Then we left.\u200f<br />\ufeff<br />", ["It ended.", "Then we left."]),
        ("", []),
        (" <br /> ", []),
    ],
)
def test_texts_are_cut_where_a_sentence_ends(text, sentences):
    assert cut_sentences(text) == sentences


def test_the_labelled_reviews_of_both_parts_are_read(small):
    """The archive holds unlabelled ones, too, and lists of words."""
    corpus = reviews_corpus(dev=1, min_count=1)
    assert [len(part) for part in (corpus.train, corpus.dev, corpus.test)] == [3, 1, 2]
    assert corpus.classes == ("negative", "positive")
    assert {document.label for document in corpus.train + corpus.dev} == {0, 1}
    by_label = {document.label: document.sentences for document in corpus.test}
    assert by_label[1] == (("a", "film", "."),), "label 1 is pos"
    assert by_label[0] == (("not", "a", "film", "."), ("a", "zebra", "."))
    assert all(d.deciding_sentence is None and d.deciding_words == () for d in corpus.test)
    assert "unlabelled" not in corpus.vocabulary.tokens and "zebra" not in corpus.vocabulary.tokens


def test_dev_comes_out_of_train_by_the_seed(small):
    first, again = reviews_corpus(dev=2), reviews_corpus(dev=2)
    assert first.train == again.train and first.dev == again.dev
    parts = {frozenset(d.sentences for d in reviews_corpus(dev=2, seed=seed).dev) for seed in range(12)}
    assert len(parts) > 1, "every seed chose the same"
    assert not {d.sentences for d in first.train} & {d.sentences for d in first.dev}


def test_the_order_does_not_hang_on_the_archive(small, monkeypatch, tmp_path):
    """Another tool packs the files in another order."""
    expected = reviews_corpus(dev=1)
    content = packed(dict(reversed(TEXTS.items())))
    small.files["/other"] = [content]
    monkeypatch.setattr(reviews, "ADDRESS", f"{small.address}/other")
    monkeypatch.setattr(reviews, "CHECKSUM", f"md5:{md5(content).hexdigest()}")
    found = reviews_corpus(dev=1)
    assert (found.train, found.dev, found.test) == (expected.train, expected.dev, expected.test)


def test_long_reviews_are_cut_to_the_limits(small):
    corpus = reviews_corpus(most_sentences=3, most_words=5, dev=0, min_count=1)
    shapes = sorted(tuple(len(sentence) for sentence in d.sentences) for d in corpus.train)
    assert shapes == [(2, 3), (4, 4, 2), (4, 4, 4), (5,)]
    begun = {sentence for d in corpus.train for sentence in d.sentences}
    assert ("awful", "film", ",", "awful", "film") in begun, "the first words are kept"
    short = {d.sentences for d in reviews_corpus(most_sentences=1, dev=0).train}
    assert (("a", "great", "film", "."),) in short, "the first sentences are kept"
    batch = collate_documents(corpus.train, corpus.vocabulary)
    assert batch.documents.shape == (4, 3, 5)


def test_rare_words_of_train_are_unknown(small):
    """Counted in what is kept: 30 sentences of at most 40 words."""
    assert reviews_corpus(dev=0, min_count=40).vocabulary.tokens[4:] == ["film", "awful"]


def test_it_is_fetched_once_and_a_damaged_archive_again(small, tmp_path):
    """The checksum is an MD5 here: it must be compared as one."""
    before = reviews_corpus(dev=0)
    assert reviews_corpus(dev=0).train == before.train
    assert sum(small.asked.values()) == 1, "a whole archive was fetched again"
    path = tmp_path / "reviews" / "aclImdb_v1.tar.gz"
    path.write_bytes(path.read_bytes()[:-4])
    assert reviews_corpus(dev=0).train == before.train
    assert sum(small.asked.values()) == 2


def test_without_a_network_the_message_names_the_archive_its_place_and_its_md5(small, tmp_path):
    small.shutdown()
    small.server_close()
    with pytest.raises(DownloadError, match="aclImdb_v1.tar.gz") as caught:
        reviews_corpus()
    digits = reviews.CHECKSUM.removeprefix("md5:")
    assert f"{tmp_path / 'reviews' / 'aclImdb_v1.tar.gz'} (MD5 {digits})" in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"most_sentences": 0}, "most_sentences is 0"),
        ({"most_words": 0}, "most_words is 0"),
        ({"dev": 4}, "dev is 4.* 4 reviews"),
        ({"dev": -1}, "dev is -1"),
    ],
)
def test_bad_input_is_named(small, options, words):
    with pytest.raises(ValueError, match=words):
        reviews_corpus(**options)


def test_the_published_archive_is_the_one_that_is_checked():
    assert reviews.ADDRESS == "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz"
    assert reviews.CHECKSUM == "md5:7c2ac02c03563afcf9b574c7e56c153a"
