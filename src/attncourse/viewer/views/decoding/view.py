"""Decoding, step by step: what the decoder computes anew, what it keeps, and how the next word is chosen."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from attncourse.viewer.views.component import component, table
from attncourse.viewer.views.packed import rounded
from attncourse.viewer.weights import checked_tokens, checked_weights, naming


class DecodingStep(NamedTuple):
    """One step: the newest target word goes in, the next word comes out.

    Args:
        candidates: the most probable next words with their probabilities; about 5 are enough.
        chosen: the word that was taken, one of the candidates.
        source_weights: (source,), how much the newest word reads each source word: of one layer, or the mean
            over heads.
        target_weights: (target so far,), how much it reads the start symbol and the words before, itself
            included; None when it is not to be shown.
    """

    candidates: Sequence[tuple[str, float]]
    chosen: str
    source_weights: Tensor
    target_weights: Tensor | None = None


class DecodingView:
    """The decoding loop of a Transformer with a cache, to be walked through by mouse, touch or keyboard.

    Each step shows the source shaded by the weights, the target so far with the one word that is new, the
    candidates for the next word, and what the cache saves.

    Args:
        source: the source tokens.
        steps: one `DecodingStep`, or tuple of its parts, for each word written, in their order.
        start: the symbol that stands before the first word.
        title: a sentence that says what there is to see.

    Raises:
        ValueError, TypeError: weights that do not fit the tokens, probabilities that are none, a chosen word
            that is not among the candidates.
    """

    def __init__(
        self,
        source: Sequence[str],
        steps: Sequence[DecodingStep | tuple],
        *,
        start: str = "<s>",
        title: str | None = None,
    ):
        self.source = checked_tokens("source", source)
        if not steps:
            raise ValueError("steps is empty: at least one word must be written")
        self.steps: list[DecodingStep] = []
        self.target = [start]  # what goes in, step by step
        for number, step in enumerate(steps):
            step = _checked(number, DecodingStep(*step), self.source, self.target)
            self.steps.append(step)
            self.target.append(step.chosen)
        self.title = title

    def __repr__(self) -> str:
        return f"DecodingView({len(self.source)} source words, {len(self.steps)} steps)"

    def _repr_html_(self) -> str:
        data = {
            "title": self.title,
            "source": self.source,
            "target": self.target,
            "steps": [
                {
                    "candidates": [[word, rounded(probability)] for word, probability in step.candidates],
                    "source": rounded(step.source_weights),
                    "target": None if step.target_weights is None else rounded(step.target_weights),
                }
                for step in self.steps
            ],
        }
        return component("decoding", data, self._fallback())

    def _fallback(self) -> str:
        rows = []
        for number, step in enumerate(self.steps, start=1):
            most, place = step.source_weights.max(0)
            read = f"{self.source[place]} ({most:.2f})" if most > 0 else "nothing"
            probability = next(p for word, p in step.candidates if word == step.chosen)
            rows.append([str(number), step.chosen, f"{probability:.2f}", read])
        columns = ["step", "chosen word", "probability", "most read source word"]
        return table(self.title or "Decoding, step by step", columns, rows)


def _checked(number: int, step: DecodingStep, source: list[str], target: list[str]) -> DecodingStep:
    called = f"steps[{number}]"
    candidates = sorted(((word, float(p)) for word, p in step.candidates), key=lambda pair: -pair[1])
    for word, probability in candidates:
        if not 0 <= probability <= 1:
            raise ValueError(f"{called}: the probability of {word!r} is {probability}; it lies from 0 to 1")
    total = sum(probability for _, probability in candidates)
    if total > 1.01:
        raise ValueError(f"{called}: the probabilities sum to {total:.4g}; all words together have 1")
    words = checked_tokens(f"{called}: candidates", [word for word, _ in candidates])
    if step.chosen not in words:
        raise ValueError(f"{called}: chosen is {step.chosen!r}; it must be one of the candidates, {words}")
    return DecodingStep(
        candidates,
        step.chosen,
        _row(f"{called}: source_weights", step.source_weights, target[-1], source),
        None if step.target_weights is None
        else _row(f"{called}: target_weights", step.target_weights, target[-1], target),
    )


def _row(name: str, weights, query: str, keys: list[str]) -> Tensor:
    with naming(name):
        return checked_weights([list(map(float, weights))], [query], keys)[0, 0]
