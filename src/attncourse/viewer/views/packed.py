"""How numbers travel in a page: a few of them written with four digits, many, and pixels, as bytes."""

import base64
import math

import torch
from torch import Tensor

# With one or two such views a page stays below 1.5 MB.
MOST = 400_000

# The views show two decimals, and their sharpest temperature is 1/8. There an error in a weight counts eight
# times: with four digits it moves what is shown by 0.002 at most, with three by 0.02.
DIGITS = 4


def rounded(values) -> list | float | int | None:
    """A tensor as nested lists, a number as a number: four significant digits, and above 1 four decimals.

    Scores are compared by their differences, hence the decimals. A small weight stays above 0, or it would
    count as hidden; a hidden score (-inf) becomes None. A whole number is written without its ".0".
    """
    values = torch.as_tensor(values)
    if values.ndim:
        return [rounded(part) for part in values] if values.ndim > 1 else [*map(_rounded, values.tolist())]
    return _rounded(values.item())


def _rounded(value: float) -> float | int | None:
    if value == -math.inf:
        return None
    short = round(value, DIGITS) if abs(value) >= 1 else float(f"{value:.{DIGITS}g}")
    return int(short) if short.is_integer() else short


def packed_image(image: Tensor) -> dict:
    """The bytes of a checked image, row by row, and how to read them."""
    return {
        "height": image.shape[0],
        "width": image.shape[1],
        "channels": 1 if image.ndim == 2 else 3,
        "bytes": base64.b64encode(image.numpy().tobytes()).decode(),
    }


def packed_weights(weights: Tensor) -> str:
    """Weights from 0 to 1 in their order, 16 bits each, the low byte first; 65535 is 1.

    A step is 0.000015. Whoever shows them has no temperature, which would need the small ones more exactly.
    """
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
