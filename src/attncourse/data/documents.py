"""Reviews of a film in which one sentence decides the class, and all the others mislead.

The reviewer says once what she thinks of the film. The other sentences judge other things, or tell what other
people think of the film, and what they say is drawn at random: counting words of praise and blame tells
little, and which sentence to believe must be found out. The truth is known: the deciding sentence of each
review, and the word in it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from attncourse.data.batches import Batches
from attncourse.data.corpora import ThreeParts, check_counts, check_some
from attncourse.data.vocabulary import PAD, Vocabulary
from attncourse.devices import to_device

CLASSES = ("negative", "neutral", "positive")
FILMS = ("the film", "this film", "the movie", "this movie", "the picture", "this picture")
OTHER_THINGS = tuple(
    f"{article} {noun}"
    for article in ("the", "this")
    for noun in (
        "popcorn", "coffee", "lemonade", "trailer", "book", "poster", "cinema", "restaurant", "hotel", "seat",
        "weather", "traffic", "parking", "concert", "museum", "exhibition",
    )
)
JUDGEMENTS = {
    "negative": (
        "awful", "terrible", "dreadful", "horrible", "bad", "poor", "disappointing", "miserable", "hopeless",
        "appalling", "lousy", "dismal",
    ),
    "neutral": (
        "average", "ordinary", "acceptable", "unremarkable", "passable", "middling", "adequate", "bearable",
        "tolerable", "mediocre", "forgettable", "conventional",
    ),
    "positive": (
        "wonderful", "excellent", "superb", "brilliant", "delightful", "marvellous", "great", "fantastic",
        "perfect", "lovely", "splendid", "terrific",
    ),
}
MINE = (
    "{thing} was {degree} {judgement}", "i found {thing} {degree} {judgement}",
    "to me {thing} seemed {degree} {judgement}", "in my opinion {thing} was {degree} {judgement}",
    "i must say that {thing} was {degree} {judgement}",
    "all in all i thought {thing} was {degree} {judgement}",
)
THEIRS = (
    "{other} found {thing} {degree} {judgement}", "{other} said that {thing} was {degree} {judgement}",
    "according to {other} {thing} was {degree} {judgement}", "to {other} {thing} seemed {degree} {judgement}",
    "{other} kept telling us that {thing} was {degree} {judgement}",
    "in the opinion of {other} {thing} was {degree} {judgement}",
)
OTHERS = (
    "my neighbour", "my sister", "my brother", "my teacher", "a friend", "a colleague", "the newspaper",
    "the man beside me", "the woman behind us", "everybody at work",
)
DEGREES = ("quite", "rather", "really", "truly", "fairly", "somewhat", "altogether")
SENTENCES = range(8, 13)  # how many a review may have


@dataclass(frozen=True, slots=True)
class Document:
    """A text cut into sentences and words, its class, and where the class is said, if that is known.

    Attributes:
        sentences: at least one, each with at least one word.
        label: the class, counted from 0.
        deciding_sentence: index of the sentence that decides the class.
        deciding_words: indices of the words in it that do.

    Raises:
        ValueError: no sentence, one without words, or a negative label.
        TypeError: a sentence that is a text, not its words.
    """

    sentences: tuple[tuple[str, ...], ...]
    label: int
    deciding_sentence: int | None = None
    deciding_words: tuple[int, ...] = ()

    def __post_init__(self):
        check_some(sentences=self.sentences)
        check_counts(0, label=self.label)
        for number, sentence in enumerate(self.sentences):
            if isinstance(sentence, str):
                raise TypeError(f"sentences[{number}] is the text {sentence!r}: give its words, see tokenize")
            check_some(**{f"sentences[{number}]": sentence})


@dataclass(frozen=True, repr=False)
class DocumentCorpus(ThreeParts):
    """Documents to learn from, to choose settings by, and to report on; the words and classes they have."""

    name: str
    train: Sequence[Document]
    dev: Sequence[Document]
    test: Sequence[Document]
    vocabulary: Vocabulary
    classes: tuple[str, ...]

    def _holds(self) -> str:
        return f"documents of {len(self.classes)} classes; a vocabulary of {len(self.vocabulary):,} tokens"


class DocumentBatch(NamedTuple):
    """Documents as padded tensors; a sentence of padding has 0 words."""

    documents: Int64[Tensor, "batch sentences words"]
    words: Int64[Tensor, "batch sentences"]
    sentences: Int64[Tensor, " batch"]
    labels: Int64[Tensor, " batch"]

    to = to_device


def collate_documents(documents: Sequence[Document], vocabulary: Vocabulary) -> DocumentBatch:
    """One batch of these documents, in this order.

    Raises:
        ValueError: no documents.
    """
    check_some(documents=documents)
    return _assemble([_encoded(document, vocabulary) for document in documents])


def document_batches(
    documents: Sequence[Document], vocabulary: Vocabulary, size: int = 32, seed: int = 0
) -> Batches:
    """The batches of a training run on documents, which are encoded once, here.

    Those with about as many sentences share a batch.

    Raises:
        ValueError: no documents, a size below 1, or a negative seed.
    """
    check_some(documents=documents)
    encoded = [_encoded(document, vocabulary) for document in documents]
    longest = [max(map(len, document.sentences)) for document in documents]
    sentences = [len(document.sentences) for document in documents]
    return Batches(encoded, _assemble, size, seed, lengths=[longest, sentences])


def _encoded(document: Document, vocabulary: Vocabulary) -> tuple[list[list[int]], int]:
    return [vocabulary.encode(sentence) for sentence in document.sentences], document.label


def _assemble(encoded: list[tuple[list[list[int]], int]]) -> DocumentBatch:
    documents, labels = zip(*encoded, strict=True)
    most = max(map(len, documents))
    longest = max(len(sentence) for document in documents for sentence in document)
    complete = [document + [[]] * (most - len(document)) for document in documents]
    filled = [
        [sentence + [PAD] * (longest - len(sentence)) for sentence in document] for document in complete
    ]
    words = [[*map(len, document), *[0] * (most - len(document))] for document in documents]
    sentences = [len(document) for document in documents]
    parts = (filled, words, sentences, labels)
    return DocumentBatch(*(torch.tensor(part, dtype=torch.int64) for part in parts))


def documents_corpus(
    train: int = 1_500, *, dev: int = 300, test: int = 1_000, seed: int = 0
) -> DocumentCorpus:
    """Reviews of 8 to 12 sentences in three classes, one of which sentences decides: see the module.

    The deciding sentences of dev and test join a name of the film and a judgement that no training review
    decides by: each was seen, the pair was not.

    Args:
        train, dev, test: how many reviews; the classes take turns.
        seed: of all that is drawn.

    Raises:
        ValueError: a part with fewer than one review, or a negative seed.
    """
    check_counts(1, train=train, dev=dev, test=test)
    check_counts(0, seed=seed)
    draw, new = random.Random(seed), held_out_pairs()
    usual, held = (
        [
            [(film, word) for film in FILMS for word in JUDGEMENTS[c] if ((film, word) in new) is kept]
            for c in CLASSES
        ]
        for kept in (False, True)
    )
    parts = {
        part: [_review(draw, i % len(CLASSES), pairs) for i in range(count)]
        for part, count, pairs in (("train", train, usual), ("dev", dev, held), ("test", test, held))
    }
    vocabulary = Vocabulary.from_sentences(s for document in parts["train"] for s in document.sentences)
    return DocumentCorpus("documents", **parts, vocabulary=vocabulary, classes=CLASSES)


def held_out_pairs() -> frozenset[tuple[str, str]]:
    """The (film, judgement) pairs that no training review decides by: a quarter of all."""
    words = [word for judgements in JUDGEMENTS.values() for word in judgements]
    return frozenset(
        (film, word) for i, film in enumerate(FILMS) for j, word in enumerate(words) if (i + j) % 4 == 0
    )


def _review(draw: random.Random, label: int, pairs) -> Document:
    film, judgement = draw.choice(pairs[label])
    deciding = _sentence(draw, MINE, film, judgement)
    sentences = [_misleading(draw) for _ in range(draw.choice(SENTENCES) - 1)]
    place = draw.randrange(len(sentences) + 1)
    sentences.insert(place, deciding)
    return Document(tuple(sentences), label, place, (deciding.index(judgement),))


def _misleading(draw: random.Random) -> tuple[str, ...]:
    """My judgement of another thing, another's of the film, or another's of another thing."""
    judgement = draw.choice(JUDGEMENTS[draw.choice(CLASSES)])
    whose, thing = draw.choice(((MINE, OTHER_THINGS), (THEIRS, FILMS), (THEIRS, OTHER_THINGS)))
    return _sentence(draw, whose, draw.choice(thing), judgement)


def _sentence(draw: random.Random, forms: tuple[str, ...], thing: str, judgement: str) -> tuple[str, ...]:
    text = draw.choice(forms).format(
        thing=thing, judgement=judgement, degree=draw.choice(DEGREES), other=draw.choice(OTHERS)
    )
    return (*text.split(), ".")
