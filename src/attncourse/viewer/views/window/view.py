"""A window over a source, to be moved and widened: local attention beside global."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attncourse.attention import DotScore, LocalAttention, masked_softmax
from attncourse.viewer.views.component import component, table
from attncourse.viewer.views.packed import rounded
from attncourse.viewer.weights import checked_tokens

# More words than this cannot stand side by side on a phone.
MOST = 12


class WindowView:
    """One query over one source: the reader moves the centre p_t and changes the half-width D.

    The page computes four rows of weights anew, from the same scores: over the whole source, in the window
    alone (local-m), with the Gaussian multiplied after the softmax (local-p as printed), and with it inside
    the softmax. Each row carries its sum.

    Args:
        scores: (keys,), the score of the query with each word.
        source: one word for each key, at most 12.
        centre: p_t to begin with, counted from 0: from 0 to the number of words + 1.
        half_width: D to begin with, from 1 to the number of words.
        title: a sentence that says what there is to see.

    Raises:
        ValueError, TypeError: another shape, a number that is not finite, a window outside these ranges.
    """

    def __init__(
        self, scores, source: Sequence[str], *, centre: float, half_width: int, title: str | None = None
    ):
        self.source = checked_tokens("source", source)
        count = len(self.source)
        if count > MOST:
            raise ValueError(f"source holds {count} words, but at most {MOST} can stand side by side")
        self.scores = torch.as_tensor(scores).detach().to("cpu", torch.float64)
        if self.scores.shape != (count,):
            raise ValueError(f"scores has shape {tuple(self.scores.shape)}; it must be ({count},)")
        if not self.scores.isfinite().all():
            raise ValueError("scores must all be finite: the window decides what is hidden")
        if not 0 <= centre <= count + 1:
            raise ValueError(f"centre is {centre!r}; it must lie between 0 and {count + 1}")
        if isinstance(half_width, bool) or not isinstance(half_width, int) or not 1 <= half_width <= count:
            raise ValueError(f"half_width is {half_width!r}; it must be a whole number from 1 to {count}")
        self.centre, self.half_width, self.title = float(centre), half_width, title

    def __repr__(self) -> str:
        return f"WindowView({len(self.source)} words, centre={self.centre:g}, half_width={self.half_width})"

    def _repr_html_(self) -> str:
        data = {
            "title": self.title,
            "source": self.source,
            "scores": rounded(self.scores),
            "centre": self.centre,
            "halfWidth": self.half_width,
        }
        return component("window", data, self._fallback())

    def _fallback(self) -> str:
        lines = {
            "global": masked_softmax(self.scores),
            "window only (local-m)": self._local("none"),
            "Gaussian outside (local-p, as printed)": self._local("outside"),
            "Gaussian inside": self._local("inside"),
        }
        rows = [[name, *[f"{weight:.2f}" for weight in row.tolist()], f"{row.sum():.2f}"]
                for name, row in lines.items()]
        scores = ["score", *[f"{score:.2f}" for score in self.scores.tolist()], ""]
        caption = f"{self.title or 'Weights in a window'} (centre {self.centre:g}, D = {self.half_width})"
        return table(caption, ["", *self.source, "sum"], [scores, *rows])

    def _local(self, gaussian: str) -> Tensor:
        """The package's weights for this window: the query is 1 and each key is its own score."""
        attention = LocalAttention(DotScore(), half_width=self.half_width, gaussian=gaussian)
        query, key = self.scores.new_ones(1, 1, 1), self.scores[None, :, None]
        time = torch.tensor([self.centre], dtype=torch.float64)
        return attention(query, key, key, lengths=torch.tensor([len(self.source)]), time=time).weights[0, 0]
