"""Pixels and weights as they travel in a page: bytes in base64, a third as long as written numbers."""

import base64

import torch
from torch import Tensor

# With one or two such views a page stays below 1.5 MB.
MOST = 400_000


def packed_image(image: Tensor) -> dict:
    """The bytes of a checked image, row by row, and how to read them."""
    return {
        "height": image.shape[0],
        "width": image.shape[1],
        "channels": 1 if image.ndim == 2 else 3,
        "bytes": base64.b64encode(image.numpy().tobytes()).decode(),
    }


def packed_weights(weights: Tensor) -> str:
    """Weights from 0 to 1 in their order, 16 bits each, the low byte first; 65535 is 1."""
    steps = (weights.double().clamp(0, 1) * 65535).round().to(torch.int32)
    return base64.b64encode(steps.numpy().astype("<u2").tobytes()).decode()


def check_size(image: Tensor, advice: str, **counts: int) -> None:
    """Raise a ValueError with this advice, if an image and so many weights are more than a page carries."""
    size = 4 * (image.numel() + 2 * sum(counts.values())) // 3
    if size > MOST:
        weights = ", ".join(f"{name} {count:,} weights" for name, count in counts.items() if count)
        raise ValueError(
            f"image holds {image.numel():,} bytes, {weights}: that is {size / 1000:,.0f} kB as text, but a "
            f"view carries at most {MOST // 1000} kB: {advice}"
        )
