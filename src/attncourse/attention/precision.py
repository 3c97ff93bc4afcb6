"""Precision: what is summed over many keys is summed in float32 at least, whatever the numbers came in.

In float16 a sum ends at 65,504, in bfloat16 it stops growing long before, and both have few digits. So scores
and contexts are computed with what stands here, and rounded once, at the end, to the dtype that was given.
"""

import functools
from contextlib import AbstractContextManager, nullcontext

import torch
from jaxtyping import Float
from torch import Tensor, nn


def at_least_float32(tensor: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """The same numbers in float32, or in float64 where that is what they were."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def without_autocast(tensor: Tensor) -> AbstractContextManager:
    """Where `tensor` is, products keep the dtype of their factors: autocast would cast them back to half."""
    return torch.autocast(tensor.device.type, enabled=False) if _autocast_at(tensor) else nullcontext()


def _autocast_at(tensor: Tensor) -> bool:
    return not tensor.is_meta and torch.is_autocast_enabled(tensor.device.type)


def precise_matmul(
    left: Float[Tensor, "*#batch rows inner"], right: Float[Tensor, "*#batch inner columns"]
) -> Float[Tensor, "*batch rows columns"]:
    """left @ right in float32 at least, also inside autocast."""
    if not _autocast_at(left) and left.dtype == right.dtype == torch.float32:
        return left @ right  # the usual case, and one that a decoder's step meets at every layer
    dtype = functools.reduce(torch.promote_types, (left.dtype, right.dtype, torch.float32))
    with without_autocast(left):
        return left.to(dtype) @ right.to(dtype)


def precise_layer(layer: nn.Module, x: Float[Tensor, "*shape _"]) -> Float[Tensor, "*shape _"]:
    """layer(x) in float32 at least, also inside autocast and where the parameters are stored in half.

    The module itself is called, so that hooks, adapters and quantised layers keep working.
    """
    stored = {name: at_least_float32(parameter) for name, parameter in layer.named_parameters()
              if parameter.dtype in (torch.float16, torch.bfloat16)}
    with without_autocast(x):
        x = at_least_float32(x)
        return torch.func.functional_call(layer, stored, (x,)) if stored else layer(x)
