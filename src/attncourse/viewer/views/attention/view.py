"""Look inside: who reads whom, in a view that the reader can play with, in the static page too."""

from collections.abc import Sequence

import torch

from attncourse.viewer.views.component import component, table
from attncourse.viewer.views.packed import rounded
from attncourse.viewer.weights import checked_matrix, checked_tokens, checked_weights


class AttentionView:
    """Attention weights over tokens, to be explored by mouse, touch or keyboard.

    A query shows what it reads, a key shows who reads it; a head selector appears when there are several
    heads. The temperature slider recomputes softmax(log weight / T), or softmax(score / T) when the scores
    are given: T = 1 shows the weights as they are, and a hidden key (weight 0) stays hidden at every T.

    Args:
        weights: (queries, keys) or (heads, queries, keys); a row sums to 1, or to 0 where all is hidden.
        queries: one token for each row.
        keys: one token for each column.
        heads: one name for each head; "1", "2", ... when omitted.
        title: a sentence that says what there is to see.
        scores: the scores before the softmax, of the same shape; -inf where a key is hidden.
        partial: rows may sum to less than 1, as where something bends the weights after the softmax. The view
            then says what each row sums to, and has no temperature: it would need what was lost.

    Raises:
        ValueError, TypeError: shapes that do not fit the tokens, NaN, rows that are not weights.
    """

    def __init__(
        self,
        weights,
        queries: Sequence[str],
        keys: Sequence[str],
        *,
        heads: Sequence[str] | None = None,
        title: str | None = None,
        scores=None,
        partial: bool = False,
    ):
        self.queries = checked_tokens("queries", queries)
        self.keys = checked_tokens("keys", keys)
        self.weights = checked_weights(weights, self.queries, self.keys, partial=partial)
        self.partial = partial
        self.heads = [str(i + 1) for i in range(len(self.weights))] if heads is None else list(heads)
        self.title = title
        if len(self.heads) != len(self.weights):
            raise ValueError(f"heads names {len(self.heads)} heads, but weights holds {len(self.weights)}")
        if partial and scores is not None:
            raise ValueError("scores: with partial=True the weights are not their softmax; leave scores out")
        self.scores = None if scores is None else self._checked_scores(scores)

    def _checked_scores(self, scores):
        scores = checked_matrix("scores", scores, self.queries, self.keys, hidden=-torch.inf)
        if scores.shape != self.weights.shape:
            raise ValueError(
                f"scores has shape {tuple(scores.shape)}, but weights {tuple(self.weights.shape)}: "
                "they must be the same"
            )
        scores = scores.masked_fill(self.weights == 0, -torch.inf)
        apart = (scores.softmax(-1).nan_to_num() - self.weights).abs().max().item()
        if apart > 0.01:
            raise ValueError(
                f"scores: their softmax differs from weights by up to {apart:.2g}; give the scores from "
                "which these weights were made, after any scaling, or leave scores out"
            )
        return scores

    def __repr__(self) -> str:
        heads, queries, keys = self.weights.shape
        return f"AttentionView({heads} {'head' if heads == 1 else 'heads'}, {queries} queries, {keys} keys)"

    def _repr_html_(self) -> str:
        data = {
            "title": self.title,
            "heads": self.heads,
            "queries": self.queries,
            "keys": self.keys,
            "weights": rounded(self.weights),
            "scores": None if self.scores is None else rounded(self.scores),
            "partial": self.partial,
        }
        return component("attention", data, self._fallback())

    def _fallback(self) -> str:
        of_head = f", head {self.heads[0]} of {len(self.heads)}" if len(self.heads) > 1 else ""
        caption = f"{self.title or 'Attention weights'} (a row for each query{of_head})"
        rows = zip(self.queries, self.weights[0].tolist(), strict=True)
        cells = [[query, *[f"{w:.2f}" for w in row]] for query, row in rows]
        if not self.partial:
            return table(caption, ["", *self.keys], cells)
        sums = self.weights[0].sum(-1).tolist()
        cells = [[*row, f"{total:.2f}"] for row, total in zip(cells, sums, strict=True)]
        return table(caption, ["", *self.keys, "sum"], cells)
