"""Masks: which keys may a query see? Boolean, True = may be attended, as in the framework's fused attention.

Beware of libraries with the opposite sense: `nn.MultiheadAttention` reads True as "hide this".
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor


def padding_mask(
    lengths: Int[Tensor, "batch"], size: int, *, checked: bool = False
) -> Bool[Tensor, "batch 1 size"]:
    """True for the real positions of each sequence in a padded batch, False for the padding.

    Args:
        lengths: (batch,), the true length of each sequence, 0 <= length <= size.
        size: number of positions after padding.
        checked: `check_lengths` was called before. Looking at lengths makes a GPU wait, so once is enough.

    Raises:
        TypeError: lengths are not integers.
        ValueError: lengths are not one-dimensional, are negative, or exceed `size`.
    """
    if not checked:
        check_lengths(lengths, size)
    return (torch.arange(size, device=lengths.device) < lengths[:, None])[:, None, :]


def check_lengths(lengths: Tensor, size: int) -> None:
    """Refuse lengths that are not one whole number for each sequence, from 0 to `size`; builds no mask.

    Dtype and shape are always checked, the numbers where `values_can_be_read`.

    Raises:
        TypeError: lengths are not integers.
        ValueError: lengths are not one-dimensional, are negative, or exceed `size`.
    """
    if lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise TypeError(f"lengths are {lengths.dtype}: they must be integers, one per sequence")
    if lengths.dim() != 1:
        raise ValueError(f"lengths have shape {tuple(lengths.shape)}: they must have shape (batch,)")
    if not values_can_be_read(lengths) or not lengths.numel():
        return
    least, most = (int(number) for number in lengths.aminmax())
    if least < 0 or most > size:
        raise ValueError(f"lengths lie between {least} and {most}: they must lie between 0 and size = {size}")


def values_can_be_read(tensor: Tensor) -> bool:
    """Whether the numbers of a tensor can be looked at here, as a check of them must.

    They cannot while a program is compiled, exported, traced or captured, nor inside `torch.func.vmap`, nor
    on the device "meta": there a tensor stands for many, or for none yet. Whoever checks numbers asks first,
    so that the same code runs in all of these.
    """
    if torch.compiler.is_compiling() or torch.jit.is_tracing() or tensor.is_meta:
        return False
    if tensor.is_cuda and torch.cuda.is_current_stream_capturing():
        return False
    # The framework has no public question for these: a fake tensor, a mapped one, a run that is recorded.
    recording = torch._C._get_dispatch_mode(torch._C._TorchDispatchModeKey.PROXY)
    mapped = torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    return type(tensor) is Tensor and not mapped and recording is None


def check_mask(mask: Tensor, shape: Sequence[int]) -> None:
    """Refuse a mask that is not boolean or does not broadcast to the scores' shape, (..., queries, keys).

    Raises:
        TypeError: it is not boolean.
        ValueError: it does not broadcast.
    """
    if mask.dtype != torch.bool:
        raise TypeError(f"mask is {mask.dtype}: it must be boolean, True where a position may be attended")
    try:
        mask.expand(*shape)
    except RuntimeError:
        raise ValueError(f"mask has shape {tuple(mask.shape)}, which does not broadcast to the shape of the "
                         f"scores, {tuple(shape)}") from None


def causal_mask(
    queries: int, keys: int, *, device: torch.device | None = None
) -> Bool[Tensor, "queries keys"]:
    """True where a key does not lie in the future of the query; the last query is aligned with the last key.

    With fewer queries than keys, the queries are the last ones: a single query over a cache sees all of it.

    Raises:
        ValueError: a negative number, or more queries than keys (the first would see nothing).
    """
    check_order(queries, keys)
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def window_mask(
    queries: int, keys: int, reach: int, *, causal: bool = False, device: torch.device | None = None
) -> Bool[Tensor, "queries keys"]:
    """True where a key lies at most `reach` places from the query: a window that slides along.

    Its width w is 2 reach + 1 (Beltagy et al. 2020, section 3.1, count w without the query itself). As with
    `causal_mask`, the last query stands at the last key. A mask hides scores and does not save them: the cost
    stays that of all keys, unless the window is gathered, as `LocalAttention` does.

    Args:
        queries, keys: how many.
        reach: places to each side; 0 leaves a query its own place.
        causal: only the side that lies before the query, and its own place: reach + 1 keys.
        device: where the mask is needed.

    Raises:
        TypeError: a reach that is not a whole number.
        ValueError: a negative number, or more queries than keys.
    """
    check_order(queries, keys)
    check_reach(reach)
    own = keys - queries  # the place of the first query
    ahead = 0 if causal else reach
    return torch.ones(queries, keys, dtype=torch.bool, device=device).triu(own - reach).tril(own + ahead)


def check_reach(reach: int) -> None:
    """Refuse a reach that is no number of places to a side.

    Raises:
        TypeError: it is not a whole number.
        ValueError: it is negative.
    """
    if isinstance(reach, bool) or not isinstance(reach, int):
        raise TypeError(f"reach is {reach!r}: it must be a whole number of places")
    if reach < 0:
        raise ValueError(f"reach is {reach}: it must be at least 0, which is the query's own place")


def check_order(queries: int, keys: int) -> None:
    """Refuse numbers with which the last query cannot stand at the last key; builds no mask.

    Raises:
        ValueError: a negative number, or more queries than keys (the first would see nothing).
    """
    if queries < 0 or keys < 0:
        raise ValueError(f"queries = {queries}, keys = {keys}: neither may be negative")
    if queries > keys:
        raise ValueError(f"queries = {queries} exceeds keys = {keys}: with the last query at the last key, "
                         "the first query would have nothing to attend; give at least as many keys")
