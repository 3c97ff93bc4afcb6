"""Reviews in which one sentence decides: the truth is where it is said to be, and nothing else tells it."""

import random
from collections import Counter
from itertools import combinations

import pytest
import torch

from attncourse.data import Vocabulary, collate_documents, document_batches, documents_corpus
from attncourse.data.documents import CLASSES, FILMS, JUDGEMENTS, OTHERS, Document, held_out_pairs
from attncourse.data.vocabulary import PAD, UNKNOWN

CORPUS = documents_corpus(300, dev=40, test=120)
PARTS = {"train": CORPUS.train, "dev": CORPUS.dev, "test": CORPUS.test}
DOCUMENTS = [document for part in PARTS.values() for document in part]
CLASS_OF = {word: label for label, name in enumerate(CLASSES) for word in JUDGEMENTS[name]}


def about_the_film(sentence):
    """The film it judges, if it is the reviewer's own judgement of the film; else None."""
    text = " ".join(sentence)
    named = [film for film in FILMS if f"{film} " in text]
    return None if any(other in text for other in OTHERS) or not named else named[0]


def judgement(sentence):
    """The one word of judgement in a sentence."""
    [word] = [word for word in sentence if word in CLASS_OF]
    return word


def test_one_sentence_of_each_review_decides_and_its_word_has_the_class():
    """Read off the words: a second judgement of the film would contradict the label."""
    for document in DOCUMENTS:
        own = [i for i, sentence in enumerate(document.sentences) if about_the_film(sentence)]
        assert own == [document.deciding_sentence], document
        sentence = document.sentences[document.deciding_sentence]
        assert [sentence[i] for i in document.deciding_words] == [judgement(sentence)]
        assert CLASS_OF[judgement(sentence)] == document.label


def test_every_other_sentence_misleads():
    """Each of them judges, too; together they hold every class, whatever the label is."""
    seen = {label: Counter() for label in range(len(CLASSES))}
    for document in DOCUMENTS:
        for i, sentence in enumerate(document.sentences):
            if i != document.deciding_sentence:
                seen[document.label][CLASS_OF[judgement(sentence)]] += 1
    for label, counts in seen.items():
        shares = [counts[other] / counts.total() for other in range(len(CLASSES))]
        assert min(shares) > 0.28 and max(shares) < 0.39, f"class {label} shows in the others: {shares}"


def test_sentences_mislead_in_three_ways():
    """My judgement of another thing, another's of the film, another's of another thing: a third each."""
    ways = Counter()
    for document in DOCUMENTS:
        for i, sentence in enumerate(document.sentences):
            text = " ".join(sentence)
            if i != document.deciding_sentence:
                ways[any(other in text for other in OTHERS), any(f"{film} " in text for film in FILMS)] += 1
    assert not ways[False, True]
    assert all(0.3 < ways[way] / ways.total() < 0.37 for way in ((False, False), (True, True), (True, False)))


def test_counting_words_of_praise_and_blame_tells_little():
    """The deciding word is one among ten: a majority vote is right little more often than a guess."""
    right = 0
    for document in DOCUMENTS:
        counts = Counter(CLASS_OF[judgement(sentence)] for sentence in document.sentences)
        right += counts.most_common(1)[0][0] == document.label
    assert right / len(DOCUMENTS) < 0.55


def test_the_place_of_the_deciding_sentence_tells_nothing():
    places = Counter(d.deciding_sentence / (len(d.sentences) - 1) < 0.5 for d in DOCUMENTS)
    assert 0.4 < places[True] / len(DOCUMENTS) < 0.6
    assert any(d.deciding_sentence == 0 for d in DOCUMENTS), "never the first"
    assert any(d.deciding_sentence == len(d.sentences) - 1 for d in DOCUMENTS), "never the last"


def test_reviews_are_as_long_as_they_claim():
    assert {len(document.sentences) for document in DOCUMENTS} == set(range(8, 13))


def test_classes_are_even_and_no_document_is_in_two_parts():
    for part in PARTS.values():
        counts = Counter(document.label for document in part)
        assert max(counts.values()) - min(counts.values()) <= 1
    texts = {part: {document.sentences for document in documents} for part, documents in PARTS.items()}
    for one, other in combinations(texts, 2):
        assert not texts[one] & texts[other], f"{one} and {other} share a review"


def test_deciding_pairs_of_dev_and_test_are_new_but_their_words_are_not():
    """A model that learned pairs of film and judgement by heart fails here."""
    def pairs(documents):
        deciding = [document.sentences[document.deciding_sentence] for document in documents]
        return {(about_the_film(sentence), judgement(sentence)) for sentence in deciding}

    held_out = held_out_pairs()
    assert len(held_out) == len(FILMS) * len(CLASS_OF) / 4
    assert not pairs(CORPUS.train) & held_out
    assert pairs(CORPUS.dev) | pairs(CORPUS.test) <= held_out
    usual = {(film, word) for film in FILMS for word in CLASS_OF} - held_out
    assert {film for film, _ in usual} == set(FILMS) and {word for _, word in usual} == set(CLASS_OF)


def test_every_word_of_dev_and_test_is_known():
    for document in [*documents_corpus().dev, *documents_corpus().test]:
        assert all(UNKNOWN not in CORPUS.vocabulary.encode(sentence) for sentence in document.sentences)


def test_the_same_seed_gives_the_same_corpus_and_leaves_others_random_numbers_alone():
    random.seed(3)
    before = random.getstate()
    again, other = documents_corpus(300, dev=40, test=120), documents_corpus(300, dev=40, test=120, seed=1)
    assert random.getstate() == before
    assert again.train == CORPUS.train and again.test == CORPUS.test and other.train != CORPUS.train
    assert "300 train, 40 dev, 120 test documents of 3 classes" in repr(CORPUS)


# --- Batches -----------------------------------------------------------------------------------------------

SMALL = [
    Document((("a", "b"), ("c",)), 2),
    Document((("c", "c", "new"),), 0),
    Document((("b",), ("a",), ("a", "b", "c", "a")), 1),
]
WORDS = Vocabulary(["a", "b", "c"])


def test_a_batch_by_hand():
    batch = collate_documents(SMALL, WORDS)
    assert batch.documents.shape == (3, 3, 4)
    assert batch.words.tolist() == [[2, 1, 0], [3, 0, 0], [1, 1, 4]]
    assert batch.sentences.tolist() == [2, 1, 3] and batch.labels.tolist() == [2, 0, 1]
    assert batch.documents[0].tolist() == [[4, 5, PAD, PAD], [6, PAD, PAD, PAD], [PAD] * 4]
    assert batch.documents[1, 0].tolist() == [6, 6, UNKNOWN, PAD]
    assert batch.documents[2, 2].tolist() == [4, 5, 6, 4]
    assert all(torch.equal(a, b) for a, b in zip(batch, batch.to("cpu"), strict=True))


def test_an_epoch_is_every_document_once_and_a_step_is_repeatable():
    batches = document_batches(CORPUS.train, CORPUS.vocabulary, size=32, seed=4)
    assert len(batches) == 10
    seen = Counter()
    for batch in batches:
        for ids, lengths, count in zip(batch.documents, batch.words, batch.sentences, strict=True):
            text = tuple(tuple(CORPUS.vocabulary.decode(ids[i, : lengths[i]])) for i in range(count))
            seen[text] += 1
    assert seen == Counter(document.sentences for document in CORPUS.train)
    again = document_batches(CORPUS.train, CORPUS.vocabulary, size=32, seed=4)
    assert torch.equal(batches[13].documents, again[13].documents)
    assert not torch.equal(batches[0].labels, batches[10].labels), "the second epoch has the first's order"


def test_documents_of_similar_length_share_a_batch():
    """Else most of a batch is padding."""
    batches = document_batches(CORPUS.train, CORPUS.vocabulary, size=32)
    spans = [int(batch.sentences.max() - batch.sentences.min()) for batch in batches]
    assert sum(spans) / len(spans) < 1.5


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: documents_corpus(0), "train is 0"),
        (lambda: documents_corpus(5, test=-1), "test is -1"),
        (lambda: Document((), 0), "sentences is empty"),
        (lambda: Document((("a",), ()), 0), r"sentences\[1\] is empty"),
        (lambda: Document((("a",),), -1), "label is -1"),
        (lambda: collate_documents([], WORDS), "documents is empty"),
        (lambda: document_batches([], WORDS), "documents is empty"),
        (lambda: document_batches(SMALL, WORDS, size=0), "size is 0"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()


def test_a_sentence_given_as_a_text_is_named():
    """Else each of its letters would be a word."""
    with pytest.raises(TypeError, match=r"sentences\[0\] is the text 'a cat': give its words"):
        Document(("a cat",), 0)
