"""Look inside: which sentences of a document count, and which of their words, in a view to play with."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attncourse.viewer.views.component import component, table
from attncourse.viewer.views.packed import rounded
from attncourse.viewer.weights import checked_tokens, checked_weights


class DocumentView:
    """A document shaded by what it was read with: a bar for each sentence, a shade for each word.

    After the figures of Yang et al. 2016, to be explored by mouse, touch or keyboard. A sentence or a word
    says its weight; a switch shades every word by its weight within its sentence, or by the product with the
    sentence's weight, which is what the word counts for in the document. The truth stays hidden until it is
    asked for, so that the reader may guess first.

    Args:
        words: the sentences, each a list of words.
        word_weights: a row for each sentence, one weight a word, summing to 1, or to 0 where nothing is read.
            Zeros beyond the sentence's last word are padding and are dropped.
        sentence_weights: (sentences,), summing to 1. When omitted, one softmax ran over all words of the
            document: `word_weights` then sum to 1 over all rows, a sentence weighs what its words weigh
            together, and the view opens with the product, which is what was given.
        title: a sentence that says what there is to see.
        prediction: what the model says of the document.
        label: what is true of it.
        deciding: index of the sentence that decides the label in truth.
        deciding_words: indices of the words in it that do.

    Raises:
        ValueError, TypeError: shapes that do not fit the words, NaN, rows that are not weights, a sentence
            that is not there.
    """

    def __init__(
        self,
        words: Sequence[Sequence[str]],
        word_weights,
        sentence_weights=None,
        *,
        title: str | None = None,
        prediction: str | None = None,
        label: str | None = None,
        deciding: int | None = None,
        deciding_words: Sequence[int] = (),
    ):
        self.words = _checked_sentences(words)
        rows = _rows(word_weights, self.words)
        self.over_all = sentence_weights is None
        if self.over_all:
            self.word_weights, self.sentence_weights = _within_sentences(rows)
        else:
            names = [f"sentence {s}" for s in range(len(self.words))]
            self.word_weights = [
                checked_weights(row[None], [name], sentence)[0, 0]
                for name, row, sentence in zip(names, rows, self.words, strict=True)
            ]
            weights = _without_padding("sentence_weights", sentence_weights, len(self.words), "sentences")
            self.sentence_weights = checked_weights(weights[None], ["the document"], names)[0, 0]
        if deciding is not None and not (isinstance(deciding, int) and 0 <= deciding < len(self.words)):
            raise ValueError(
                f"deciding is {deciding!r}; it must be a sentence, from 0 to {len(self.words) - 1}, or None"
            )
        self.deciding, self.deciding_words = deciding, list(deciding_words)
        last = -1 if deciding is None else len(self.words[deciding]) - 1
        for place in self.deciding_words:
            if not 0 <= place <= last:
                raise ValueError(
                    f"deciding_words holds {place}, but the deciding sentence has {last + 1} words"
                )
        self.title, self.prediction, self.label = title, prediction, label

    def __repr__(self) -> str:
        return f"DocumentView({len(self.words)} sentences, {sum(map(len, self.words))} words)"

    def _repr_html_(self) -> str:
        data = {
            "title": self.title,
            "words": self.words,
            "wordWeights": [rounded(row) for row in self.word_weights],
            "sentenceWeights": rounded(self.sentence_weights),
            "overAll": self.over_all,
            "prediction": self.prediction,
            "label": self.label,
            "deciding": self.deciding,
            "decidingWords": self.deciding_words,
        }
        return component("document", data, self._fallback())

    def _fallback(self) -> str:
        """A row for each sentence: its weight, its words with theirs."""
        said = [
            f"the model says: {self.prediction}" if self.prediction else "",
            f"in truth: {self.label}" if self.label else "",
            f"sentence {self.deciding + 1} decides" if self.deciding is not None else "",
            *[f"by its word {place + 1}" for place in self.deciding_words],
        ]
        notes = f" ({'; '.join(filter(None, said))})" if any(said) else ""
        rows = [
            [str(s + 1), f"{weight:.2f}",
             ", ".join(f"{word} {w:.2f}" for word, w in zip(sentence, row.tolist(), strict=True))]
            for s, (weight, sentence, row) in enumerate(
                zip(self.sentence_weights.tolist(), self.words, self.word_weights, strict=True)
            )
        ]
        caption = f"{self.title or 'Weights of sentences and words'}{notes}"
        return table(caption, ["sentence", "its weight", "its words, with their weights"], rows)


def _checked_sentences(words: Sequence[Sequence[str]]) -> list[list[str]]:
    if isinstance(words, str):
        raise TypeError(f"words must be a list of sentences, given the text {words!r}: split it first")
    sentences = [checked_tokens(f"words[{s}]", sentence) for s, sentence in enumerate(words)]
    if not sentences:
        raise ValueError("words is empty: at least one sentence is needed")
    return sentences


def _rows(word_weights, words: list[list[str]]) -> list[Tensor]:
    """A row of weights for each sentence, as long as the sentence."""
    rows = list(word_weights)
    if len(rows) < len(words) or any(torch.as_tensor(row).any() for row in rows[len(words):]):
        raise ValueError(f"word_weights has {len(rows)} rows for {len(words)} sentences: give one for each")
    return [
        _without_padding(f"word_weights[{s}]", row, len(sentence), "words")
        for s, (row, sentence) in enumerate(zip(rows, words, strict=False))
    ]


def _without_padding(name: str, weights, length: int, what: str) -> Tensor:
    weights = torch.as_tensor(weights).detach().to("cpu", torch.float64)
    if weights.ndim != 1 or len(weights) < length or weights[length:].any():
        raise ValueError(
            f"{name} has shape {tuple(weights.shape)} for {length} {what}: it must be ({length},), or longer "
            "with zeros behind"
        )
    return weights[:length]


def _within_sentences(rows: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    """Weights over a whole document, as weights within each sentence and weights of the sentences."""
    places = [f"{s}, {i}" for s, row in enumerate(rows) for i in range(len(row))]
    flat = checked_weights(torch.cat(rows)[None], ["the document"], places)[0, 0]
    rows = list(flat.split([len(row) for row in rows]))
    sums = torch.stack([row.sum() for row in rows])
    # A sentence without any weight has no weights within it either; nothing is divided by 0.
    return [row / total if total > 0 else row for row, total in zip(rows, sums, strict=True)], sums
