"""What every sequence model offers, so that one trainer, one decoder and one viewer serve them all.

Encode a source once; advance one step from a state; or compute all steps of a known target at once.
"""

from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


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


def checked_source(
    source: Tensor, lengths: Tensor, words: nn.Embedding
) -> tuple[Int[Tensor, "batch source"], Int[Tensor, "batch"]]:
    """Source and lengths, if they are (batch, source) ids of known words and a length per row.

    The source has one column at least, and the lengths lie on its device.

    Raises:
        TypeError: ids or lengths that are not integers.
        ValueError: another shape, a length that does not fit, or an id that `words` does not hold.
    """
    _check_ids("source", source, words)
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths are {lengths.dtype}: they must be integers, one per row of source")
    if lengths.shape != source.shape[:1]:
        raise ValueError(f"lengths have shape {tuple(lengths.shape)}: source has {source.shape[0]} rows, "
                         "and each needs one length")
    if lengths.numel() and not 0 <= int(lengths.min()) <= int(lengths.max()) <= source.shape[1]:
        raise ValueError(f"lengths lie between {int(lengths.min())} and {int(lengths.max())}: "
                         f"they must lie between 0 and the {source.shape[1]} positions of source")
    # A batch of empty sources has no columns. One, hidden by the lengths, lets all that follows run as ever.
    return source if source.shape[1] else source.new_zeros(len(source), 1), lengths.to(source.device)


def check_target(target: Tensor, source: Tensor, words: nn.Embedding) -> None:
    """Refuse a target that is not (batch, target) ids of known words, one row for each row of the source.

    Raises:
        TypeError: ids that are not integers.
        ValueError: another shape, or an id that `words` does not hold.
    """
    _check_ids("target", target, words)
    if len(target) != len(source):
        raise ValueError(f"target has {len(target)} rows and source has {len(source)}: give one for each")
    if not target.shape[1]:
        raise ValueError("target has no columns: it begins with the start symbol, so it has one at least")


def _check_ids(name: str, ids: Tensor, words: nn.Embedding) -> None:
    if ids.is_floating_point() or ids.dtype == torch.bool:
        raise TypeError(f"{name} is {ids.dtype}: it must hold integer token ids")
    if ids.dim() != 2:
        raise ValueError(f"{name} has shape {tuple(ids.shape)}: it must have shape (batch, {name})")
    if ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < words.num_embeddings:
        raise ValueError(f"{name} holds ids from {int(ids.min())} to {int(ids.max())}: this model was built "
                         f"for a vocabulary of {words.num_embeddings}, ids 0 to {words.num_embeddings - 1}")
