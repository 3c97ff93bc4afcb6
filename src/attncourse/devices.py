"""What belongs together moves to a device together."""

from collections.abc import Mapping
from typing import Any, Self

import torch


def on_device(batch: Any, device: torch.device | str) -> Any:
    """A batch on a device: what can move itself, or has parts that can; the rest, such as a text, stays."""
    if hasattr(batch, "to"):
        return batch.to(device)
    if isinstance(batch, Mapping):
        return {name: on_device(part, device) for name, part in batch.items()}
    if isinstance(batch, tuple | list):
        parts = [on_device(part, device) for part in batch]
        return type(batch)(*parts) if hasattr(batch, "_fields") else type(batch)(parts)
    return batch


def to_device(self: Self, device: torch.device | str) -> Self:
    """The same on another device. A named tuple of tensors takes this as its method: `to = to_device`."""
    return type(self)(*(on_device(part, device) for part in self))
