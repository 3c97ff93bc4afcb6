"""Multi30k: read from small files served on this machine."""

import gzip
from hashlib import sha256

import pytest

from attncourse.data import multi30k
from attncourse.data.download import DownloadError
from attncourse.data.multi30k import ADDRESS, FILES, LANGUAGES, SHA256, multi30k_corpus

TEXTS = {
    "train.de.gz": "Ein Hund läuft.\nEin Mann geht.\n",
    "train.en.gz": "A dog runs.\nA man's hat.\n",
    "train.fr.gz": "Un chien court.\nL'homme marche.\n",
    "val.de.gz": "\ufeffEin Vogel.\n",
    "val.en.gz": "A bird.\n",
    "val.fr.gz": "Un oiseau.\n",
    "test_2016_flickr.de.gz": "Zwei Hunde.\n",
    # A separator that Python's splitlines would take for the end of a line.
    "test_2016_flickr.en.gz": "Two\u2028dogs.\n",
    "test_2016_flickr.fr.gz": "Deux chiens.\n",
}


@pytest.fixture
def small(server, tmp_path, monkeypatch):
    """The corpus with two lines for 29,000."""
    packed = {name: gzip.compress(text.encode(), mtime=0) for name, text in TEXTS.items()}
    server.files = {f"/{name}": [content] for name, content in packed.items()}
    monkeypatch.setenv("ATTNCOURSE_DATA", str(tmp_path))
    monkeypatch.setattr(multi30k, "ADDRESS", server.address)
    checksums = {name: sha256(content).hexdigest() for name, content in packed.items()}
    monkeypatch.setattr(multi30k, "SHA256", checksums)
    return server


def test_captions_are_lower_cased_cut_and_paired(small, tmp_path):
    corpus = multi30k_corpus("en", "fr")
    assert corpus.name == "multi30k en-fr"
    assert corpus.train[1].source == ("a", "man", "'s", "hat", ".")
    assert corpus.train[1].target == ("l'", "homme", "marche", ".")
    assert corpus.train[1].references == (corpus.train[1].target,)
    assert [len(part) for part in (corpus.train, corpus.dev, corpus.test)] == [2, 1, 1]
    assert corpus.test[0].source == ("two", "dogs", ".")
    assert multi30k_corpus("de", "en").dev[0].source == ("ein", "vogel", "."), "the file's mark became a word"
    assert (tmp_path / "multi30k" / "train.en.gz").is_file()


def test_only_the_languages_asked_for_are_fetched_and_only_once(small):
    for _ in range(2):
        multi30k_corpus("de", "en")
    assert sum(small.asked.values()) == 6 and not any(".fr." in path for path in small.asked)


def test_rare_words_of_train_are_unknown_and_dev_words_never_counted(small):
    assert multi30k_corpus(min_count=2).target_vocabulary.tokens[4:] == [".", "a"]
    assert "bird" not in multi30k_corpus(min_count=1).target_vocabulary.tokens


def test_a_damaged_file_is_fetched_again(small, tmp_path):
    before = multi30k_corpus()
    path = tmp_path / "multi30k" / "train.en.gz"
    path.write_bytes(path.read_bytes()[:-4])
    assert multi30k_corpus() == before


def test_without_a_network_the_message_names_the_file_and_its_place(small, tmp_path):
    small.shutdown()
    small.server_close()
    with pytest.raises(DownloadError, match="train.de.gz") as caught:
        multi30k_corpus()
    assert str(tmp_path / "multi30k" / "train.de.gz") in str(caught.value)


def test_bad_languages_are_named_before_anything_is_fetched():
    with pytest.raises(ValueError, match="source must be one of de, en, fr, not 'cs'"):
        multi30k_corpus(source="cs")
    with pytest.raises(ValueError, match="target must be one of de, en, fr, not 'EN'"):
        multi30k_corpus(target="EN")
    with pytest.raises(ValueError, match="source and target are both 'en'"):
        multi30k_corpus("en", "en")


def test_every_file_has_its_checksum():
    assert set(SHA256) == {f"{file}.{language}.gz" for file in FILES.values() for language in LANGUAGES}
    assert ADDRESS.startswith("https://") and not ADDRESS.endswith("/")
