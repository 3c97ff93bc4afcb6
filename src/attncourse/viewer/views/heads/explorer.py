"""Type a sentence, and see what every head of an encoder reads in it, or follow one head of a Transformer."""

from collections.abc import Callable, Container, Mapping, Sequence

from torch import Tensor

from attncourse.viewer.views.attention.view import AttentionView
from attncourse.viewer.views.explorer import (
    NO_SENTENCE,
    NOTHING_WRITTEN,
    explore,
    load_widgets,
    never_met,
    offer,
    paragraph,
    sentence_controls,
)
from attncourse.viewer.views.heads.view import HeadMaps, HeadsView


def pretrained_explorer(
    heads_of: Callable[[str], tuple[Sequence[str], Tensor]],
    examples: Sequence[str],
    *,
    names: Mapping[tuple[int, int], str] | None = None,
) -> None:
    """Type a sentence, and see what every head of an encoder reads in it.

    Args:
        heads_of: text -> (tokens, weights), the weights (layers, heads, tokens, tokens). What it raises, as
            where the encoder is not installed, is shown to the reader.
        examples: sentences to choose from; the first is shown.
        names: what some heads do, as `HeadMaps` takes it.
    """
    example, sentence = sentence_controls(examples)

    def answer(text: str) -> str:
        if not text.strip():
            return paragraph(NO_SENTENCE)
        tokens, weights = heads_of(text)
        maps = HeadMaps(weights, tokens, tokens, names or {})
        return HeadsView({"inside the sentence": maps}, title=text)._repr_html_()

    explore(answer, [sentence], shown=[example, sentence])


def transformer_explorer(
    translate: Callable[[str], tuple[Sequence[str], Sequence[str], Mapping[str, HeadMaps]]],
    examples: Sequence[str],
    *,
    known: Container[str] | None = None,
) -> None:
    """Type a sentence and watch one head of a Transformer: choose whom it relates, its layer and its number.

    Args:
        translate: text -> the words written, the words read, and every head's weights by relation, as
            `HeadsView` takes them, with as many layers and heads for each. What it raises is shown to the
            reader.
        examples: sentences to choose from; the first is shown.
        known: the words the model has met; a word read that is not among them is named.
    """
    widgets = load_widgets()
    example, sentence = sentence_controls(examples)
    # What they offer is known when the model has answered for the first time.
    relation, layer, head = (widgets.Dropdown(description=name) for name in ("Attention", "Layer", "Head"))

    def answer(text: str, *_) -> str:
        if not text.strip():
            return paragraph(NO_SENTENCE)
        written, read, maps = translate(text)
        offer(relation, list(maps), next(iter(maps)))
        weights, queries, keys, *_ = maps[relation.value]
        for control, count in zip((layer, head), weights.shape[:2], strict=True):
            offer(control, range(1, count + 1), 1)
        view = AttentionView(weights[layer.value - 1, head.value - 1], queries, keys,
                             title=f"{relation.value}, layer {layer.value}, head {head.value}")
        said = paragraph(" ".join(written) or NOTHING_WRITTEN)
        return never_met(read, known) + said + view._repr_html_()

    controls = [sentence, relation, layer, head]
    explore(answer, controls, shown=[example, *controls])
