"""What every sequence model offers, and what any model may be given.

Encode a source once; advance one step from a state; or compute all steps of a known target at once: so one
trainer, one decoder and one viewer serve them all.

What is given is checked where it enters, in `encode` and `forward`, and nowhere below. Dtype and shape cost
nothing. Numbers lie on a device, which has to catch up before they can be read: so each check reads once,
`step` reads nothing, and where `values_can_be_read` says no (compiled, exported, mapped) none are read.
"""

from typing import NamedTuple, Protocol

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.attention.masks import values_can_be_read


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
    """The interface. Memory and state are named tuples of batch-first tensors: a beam reorders their rows.

    A model that cannot read a target of any length says so in an attribute `longest_target`: the most
    positions, the start symbol counted, and so the most steps. Decoding stops there.
    """

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


# What an embedding can look up.
IDS = (torch.int64, torch.int32)
WHOLE = (*IDS, torch.int16, torch.int8, torch.uint8)


def checked_source(
    source: Tensor, lengths: Tensor, words: nn.Embedding, *, longest: tuple[str, int] | None = None
) -> tuple[Int[Tensor, "batch source"], Int[Tensor, "batch"]]:
    """Source and lengths, if they are (batch, source) ids of known words and a length per row.

    The source has one column at least. The lengths are int64, and lie on its device.

    Args:
        source, lengths: what was given.
        words: the embedding that is to look the ids up.
        longest: what the model's limit is called and the most positions it can read, if it has one.

    Raises:
        TypeError: ids or lengths that are not integers.
        ValueError: another shape, a length that does not fit, an id that `words` does not hold, or more
            positions than `longest`.
    """
    _check_ids("source", source)
    check_dtype("lengths are", lengths, WHOLE, "they must be integers, one per row of source")
    if lengths.shape != source.shape[:1]:
        raise ValueError(f"lengths have shape {tuple(lengths.shape)}: source has {source.shape[0]} rows, "
                         "and each needs one length")
    lengths = lengths.to(source.device, torch.int64)
    check_numbers(
        ("source holds ids", source, words.num_embeddings - 1, _vocabulary(words)),
        ("lengths go", lengths, source.shape[1],
         f"they must lie between 0 and the {source.shape[1]} positions of source"),
    )
    if longest is not None and source.shape[1] > longest[1]:
        raise ValueError(_too_long(source, lengths, *longest))
    # A batch of empty sources has no columns. One, hidden by the lengths, lets all that follows run as ever.
    return source if source.shape[1] else source.new_zeros(source.shape[0], 1), lengths


def check_target(target: Tensor, source: Tensor, words: nn.Embedding, *, of: str = "source") -> None:
    """Refuse a target that is not (batch, target) ids of known words, one row for each row of the source.

    Args:
        target: what was given.
        source: what it is a target of, batch first.
        words: the embedding that is to look the ids up.
        of: what the source is called.

    Raises:
        TypeError: ids that are not integers.
        ValueError: another shape, or an id that `words` does not hold.
    """
    _check_ids("target", target)
    if target.shape[0] != source.shape[0]:
        raise ValueError(f"target has {target.shape[0]} rows and {of} has {source.shape[0]}: "
                         "give one for each")
    if not target.shape[1]:
        raise ValueError("target has no columns: it begins with the start symbol, so it has one at least")
    check_numbers(("target holds ids", target, words.num_embeddings - 1, _vocabulary(words)))


def check_images(
    images: Tensor, channels: int | None = None, *, least: int = 1, square: bool = False
) -> tuple[int, int]:
    """Height and width of images, if they are floating-point numbers (batch, channels, height, width).

    Args:
        images: what was given.
        channels: that the model was built for; None leaves the number open.
        least: fewest pixels of a side.
        square: whether they must be as high as they are wide.

    Raises:
        TypeError: images that are not floating-point numbers.
        ValueError: another shape, other channels, or a size that does not fit.
    """
    check_dtype("images are", images, (torch.float32, torch.float64, torch.float16, torch.bfloat16),
                "they must be floating-point numbers, on the scale that the model was trained on")
    if images.dim() != 4:
        raise ValueError(f"images have shape {tuple(images.shape)}: "
                         "it must be (batch, channels, height, width)")
    given, height, width = images.shape[1:]
    if channels is not None and given != channels:
        raise ValueError(f"images have {given} channels: this model was built for {channels}")
    if height < least or width < least:
        raise ValueError(f"images are {height} x {width} pixels: each side must have at least {least}")
    if square and height != width:
        raise ValueError(f"images are {height} x {width} pixels: this model lays its cells out as a square, "
                         "so they must be as high as they are wide; cut them or pad them")
    return height, width


def check_dtype(what: str, given: Tensor, allowed: tuple[torch.dtype, ...], advice: str) -> None:
    """Refuse what is no tensor, or one of another dtype; complex numbers and booleans are of another, too.

    Args:
        what: the message begins with, such as "source is".
        given, allowed: the tensor, and the dtypes it may have.
        advice: what is right.

    Raises:
        TypeError: it is.
    """
    dtype = given.dtype if isinstance(given, Tensor) else type(given).__name__
    if dtype not in allowed:
        raise TypeError(f"{what} {dtype}: {advice}")


def check_choice(name: str, given: object, allowed: tuple[str, ...]) -> None:
    """Refuse a choice that does not exist.

    Raises:
        ValueError: `given` is none of the allowed.
    """
    if given not in allowed:
        raise ValueError(f"{name} is {given!r}: choose from {', '.join(allowed)}")


def check_numbers(*given: tuple[str, Tensor, int, str]) -> None:
    """Refuse tensors whose numbers do not lie between 0 and a most; one reading of the device for all.

    Args:
        given: (what a message begins with, the tensor, the most, what is right) of each.

    Raises:
        ValueError: a number that lies outside; where `values_can_be_read`.
    """
    if not all(values_can_be_read(tensor) for _, tensor, _, _ in given):
        return
    given = [one for one in given if one[1].numel()]
    ends = [end.long() for _, tensor, _, _ in given for end in (tensor.min(), tensor.max())]
    found = torch.stack(ends).tolist() if ends else []
    for (what, _, most, advice), low, high in zip(given, found[::2], found[1::2], strict=True):
        if low < 0 or high > most:
            raise ValueError(f"{what} from {low} to {high}: {advice}")


def _check_ids(name: str, ids: Tensor) -> None:
    check_dtype(f"{name} is", ids, IDS, "it must hold integer token ids, torch.int64 or torch.int32")
    if ids.dim() != 2:
        raise ValueError(f"{name} has shape {tuple(ids.shape)}: it must have shape (batch, {name})")


def _vocabulary(words: nn.Embedding) -> str:
    count = words.num_embeddings
    return f"this model was built for a vocabulary of {count}, ids 0 to {count - 1}"


def _too_long(source: Tensor, lengths: Tensor, name: str, longest: int) -> str:
    """Why a source with more positions than the longest is refused: a row, or the padding."""
    columns = f"source has {source.shape[1]} positions and {name} is {longest}"
    if not values_can_be_read(lengths):
        return columns
    row = int(lengths.argmax()) if lengths.numel() else 0
    words = int(lengths[row]) if lengths.numel() else 0
    if words <= longest:
        return f"{columns}: no row has more than {words} words, so cut the padding, source[:, :{longest}]"
    return f"{columns}: row {row} has {words} words; cut it, or build the model with a larger {name}"
