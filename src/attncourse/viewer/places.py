"""What every figure that lays weights over an image asks of the two before it draws."""

import math

import torch
from torch import Tensor

from attncourse.viewer.weights import checked_weights


def checked_image(image) -> Tensor:
    """An image as bytes (height, width) or, in colour, (height, width, 3).

    Floats from 0 (black) to 1 (white) or bytes from 0 to 255; a leading channel axis of 1 or 3 is taken too.
    """
    image = torch.as_tensor(image).detach().cpu()
    if image.ndim == 3 and image.shape[0] in (1, 3) and image.shape[2] not in (1, 3):
        image = image.permute(1, 2, 0)
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[..., 0]
    if 0 in image.shape or image.ndim not in (2, 3) or (image.ndim == 3 and image.shape[2] != 3):
        raise ValueError(
            f"image has shape {tuple(image.shape)}; it must be (height, width), (height, width, 3) or "
            "(3, height, width)"
        )
    if image.dtype == torch.uint8:
        return image
    if not image.is_floating_point():
        raise TypeError(f"image holds {image.dtype}: give floats from 0 to 1, or bytes (torch.uint8)")
    low, high = image.min().item(), image.max().item()
    if not (low >= 0 and high <= 1):  # also where one of them is NaN
        raise ValueError(f"image runs from {low:.4g} to {high:.4g}: floats must lie between 0 and 1")
    return (image.double() * 255).round().to(torch.uint8)


def checked_places(name: str, weights, words: list[str], image: Tensor, grid=None) -> Tensor:
    """Weights of words over the cells of an image, as float64 (words, rows, columns).

    Given as that, or as (words, places) with the places row by row. A flat list is a square grid unless
    `grid`, (rows, columns), says otherwise.
    """
    weights = torch.as_tensor(weights).detach().to("cpu", torch.float64)
    if weights.ndim == 2:
        side = math.isqrt(weights.shape[1])
        grid = (side, side) if grid is None else tuple(grid)
        if len(grid) != 2 or grid[0] * grid[1] != weights.shape[1]:
            raise ValueError(
                f"{name} has {weights.shape[1]} places, which do not fill a grid of {grid[0]} by {grid[1]}: "
                "say grid=(rows, columns), or give the weights as (words, rows, columns)"
            )
    elif weights.ndim == 3:
        grid = weights.shape[1:] if grid is None else tuple(grid)
    if weights.ndim not in (2, 3) or len(weights) != len(words) or 0 in weights.shape:
        raise ValueError(
            f"{name} has shape {tuple(weights.shape)}, but there are {len(words)} words: it must be "
            f"({len(words)}, rows, columns) or ({len(words)}, places)"
        )
    if weights.ndim == 3 and weights.shape[1:] != grid:
        raise ValueError(f"{name} has {tuple(weights.shape[1:])} cells, but grid is {grid}")
    if grid[0] > image.shape[0] or grid[1] > image.shape[1]:
        raise ValueError(f"{name} has {grid} cells, more than the image {tuple(image.shape[:2])} has pixels")
    cells = [cell_name(row, column) for row in range(grid[0]) for column in range(grid[1])]
    return checked_weights(weights.reshape(len(words), -1), words, cells)[0].reshape(-1, *grid)


def cell_name(row: int, column: int) -> str:
    """How a cell is called wherever it is read aloud; counted from 1, from the upper left."""
    return f"row {row + 1}, column {column + 1}"


def checked_boxes(boxes, words: list[str], image: Tensor) -> list[tuple[float, float, float, float] | None]:
    """For each word the box of what it names, (top, left, bottom, right) in pixels, or None."""
    if boxes is None:
        return [None] * len(words)
    boxes = [None if box is None else tuple(float(x) for x in box) for box in boxes]
    if len(boxes) != len(words):
        raise ValueError(f"boxes holds {len(boxes)} boxes for {len(words)} words: one for each, or None")
    height, width = image.shape[:2]
    for word, box in zip(words, boxes, strict=True):
        if box is None:
            continue
        ordered = len(box) == 4 and 0 <= box[0] < box[2] <= height and 0 <= box[1] < box[3] <= width
        if not ordered:
            raise ValueError(
                f"boxes gives {box} for {word!r}; a box is (top, left, bottom, right) in pixels, inside the "
                f"image's {height} by {width}"
            )
    return boxes
