"""What every sequence model offers, so that one trainer, one decoder and one viewer serve them all.

Encode a source once; advance one step from a state; or compute all steps of a known target at once.
"""

from typing import NamedTuple, Protocol

from jaxtyping import Float, Int
from torch import Tensor


class Step(NamedTuple):
    """One decoding step: scores over the target vocabulary, the new state, and where the model looked.

    Shapes: logits (batch, vocabulary); state a tuple of tensors, batch first; weights (batch, source), or
    None for a model that does not attend.
    """

    logits: Float[Tensor, "batch vocabulary"]
    state: tuple[Tensor, ...]
    weights: Float[Tensor, "batch source"] | None


class Output(NamedTuple):
    """All steps of a known target.

    Shapes: logits (batch, target, vocabulary); weights (batch, target, source), or None.
    """

    logits: Float[Tensor, "batch target vocabulary"]
    weights: Float[Tensor, "batch target source"] | None


class SequenceModel(Protocol):
    """The interface. Memory and state are named tuples of batch-first tensors: a beam reorders their rows."""

    def encode(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, "batch"]
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Read the source once; return what the decoder looks at (memory) and where it starts (state)."""
        ...

    def step(
        self, token: Int[Tensor, "batch"], state: tuple[Tensor, ...], memory: tuple[Tensor, ...]
    ) -> Step:
        """Score the next word, given the previous one."""
        ...

    def __call__(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, "batch"],
        target: Int[Tensor, "batch target"],
    ) -> Output:
        """Score every next word of a known target, which begins with the start symbol (teacher forcing)."""
        ...
