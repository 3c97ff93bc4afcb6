"""Score, normalise, weigh: the three steps of attention for one query that the reader drags about."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attncourse.attention import CosineScore, DotScore, ScaledDotScore, attend
from attncourse.viewer.views.component import component, table
from attncourse.viewer.views.packed import rounded
from attncourse.viewer.weights import checked_tokens


def distance_score(query: Tensor, key: Tensor) -> Tensor:
    """-|q - k|^2 / 2: under the softmax, regression with a Gaussian kernel (Nadaraya 1964; Watson 1964)."""
    return -torch.cdist(query, key).square() / 2


# The scores that attention_math.js also knows; a test holds the two together.
SCORES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "dot": DotScore(),
    "scaled dot": ScaledDotScore(),
    "cosine": CosineScore(),
    "distance": distance_score,
}


class WeighView:
    """One query over a few keys in the plane, step by step.

    The reader drags the query by mouse, touch or arrow keys, picks the score, moves the temperature, hides a
    key, and sees the scores, the weights and the context follow.

    Args:
        query: (2,), where the query starts.
        keys: (keys, 2), at most 8 of them.
        values: (keys, 2), what each key holds.
        labels: one name for each key.
        score: the score that is chosen first: "dot", "scaled dot", "cosine" or "distance".

    Raises:
        ValueError: another shape, a number that is not finite, an unknown score.
    """

    def __init__(self, query, keys, values, *, labels: Sequence[str], score: str = "scaled dot"):
        self.labels = checked_tokens("labels", labels)
        count = len(self.labels)
        if count > 8:
            raise ValueError(f"labels names {count} keys, but at most 8 can be told apart in the plane")
        self.query = _checked("query", query, (2,), "the plane has two axes")
        self.keys = _checked("keys", keys, (count, 2), f"one point for each of the {count} labels")
        self.values = _checked("values", values, (count, 2), f"one point for each of the {count} labels")
        if score not in SCORES:
            raise ValueError(f"score is {score!r}; it may be {', '.join(map(repr, SCORES))}")
        self.score = score

    def __repr__(self) -> str:
        return f"WeighView({len(self.labels)} keys, score={self.score!r})"

    def _repr_html_(self) -> str:
        data = {
            "labels": self.labels,
            "query": rounded(self.query),
            "keys": rounded(self.keys),
            "values": rounded(self.values),
            "score": self.score,
        }
        return component("weigh", data, self._fallback())

    def _fallback(self) -> str:
        score = SCORES[self.score]
        context, weights = attend(self.query[None], self.keys, self.values, score=score)
        scores = score(self.query[None], self.keys)[0].tolist()
        rows = [
            [label, _point(key), f"{s:.2f}", f"{weight:.2f}", _point(value)]
            for label, key, s, weight, value in zip(
                self.labels, self.keys, scores, weights[0].tolist(), self.values, strict=True
            )
        ]
        caption = (
            f"The query {_point(self.query)}, {self.score} score: "
            f"the weighted sum of the values is the context, {_point(context[0])}"
        )
        return table(caption, ["", "key", "score", "weight", "value"], rows)


def _checked(name: str, given, shape: tuple[int, ...], meaning: str) -> Tensor:
    tensor = torch.as_tensor(given).detach().to("cpu", torch.float64)
    if tensor.shape != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; it must be {shape}: {meaning}")
    if not tensor.isfinite().all():
        raise ValueError(f"{name} holds {tensor[~tensor.isfinite()][0].item()}: every number must be finite")
    return tensor


def _point(vector: Tensor) -> str:
    # Adding 0 turns -0.0 into 0.0, which would print as "-0.00".
    return "(" + ", ".join(f"{round(x, 2) + 0.0:.2f}" for x in vector.tolist()) + ")"
