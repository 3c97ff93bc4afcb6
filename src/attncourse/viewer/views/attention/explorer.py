"""Type a sentence: what the reader's own model writes, and where each word of it looked."""

from collections.abc import Callable, Container, Sequence

from torch import Tensor

from attncourse.viewer.views.attention.view import AttentionView
from attncourse.viewer.views.explorer import (
    NO_SENTENCE,
    NOTHING_WRITTEN,
    explore,
    never_met,
    paragraph,
    sentence_controls,
)


def translation_explorer(
    translate: Callable[[str], tuple[Sequence[str], Sequence[str], Tensor]],
    examples: Sequence[str],
    *,
    known: Container[str] | None = None,
) -> None:
    """Type a sentence, read its translation, see where each word of it looked.

    Args:
        translate: text -> (queries, keys, weights), as `AttentionView` takes them: the words written, the
            words read, and the weights (written, read). What it raises is shown to the reader.
        examples: sentences to choose from; the first is shown.
        known: the words the model has met; a word read that is not among them is named.
    """
    example, sentence = sentence_controls(examples)
    explore(lambda text: translation_html(translate, text, known), [sentence], shown=[example, sentence])


def translation_html(translate, text: str, known: Container[str] | None, *, partial: bool = False) -> str:
    """The HTML that answers one typed sentence; with `partial` a row of weights may sum to less than 1."""
    if not text.strip():
        return paragraph(NO_SENTENCE)
    queries, keys, weights = translate(text)
    if not len(queries):
        return paragraph(NOTHING_WRITTEN)
    view = AttentionView(weights, queries, keys, title=" ".join(queries), partial=partial)
    return never_met(keys, known) + view._repr_html_()
