"""What a Vision Transformer's weights say: how far its heads look, what reaches whom, which places are alike.

The tokens are those of `VisionTransformer.attention_maps`: patches row by row from the top left, a class
token, if there is one, before them.
"""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F


def attention_distance(
    maps: Float[Tensor, "batch layers heads tokens tokens"], grid: tuple[int, int], patch: int
) -> Float[Tensor, "layers heads"]:
    """How many pixels a head looks away from where it stands (Dosovitskiy et al. 2021, figure 7).

    The distance between the middles of two patches, averaged with the weights over the patches read, then
    over the patches that read and over the images. The class token has no place: it is left out, and the
    weights on the patches are brought to a sum of 1.

    Args:
        maps: the weights of some images.
        grid: (rows, columns) of patches.
        patch: pixels of a patch's side.

    Raises:
        ValueError: a number of tokens that is neither that of the patches nor one more.
    """
    first = _class_tokens(maps.shape[-1], grid)
    among = maps[..., first:, first:]
    among = among / among.sum(-1, keepdim=True).clamp_min(torch.finfo(maps.dtype).tiny)
    rows, columns = (torch.arange(count, device=maps.device, dtype=maps.dtype) for count in grid)
    places = patch * torch.cartesian_prod(rows, columns)
    return (among * torch.cdist(places, places)).sum(-1).mean((0, -1))


def roll_out(maps: Float[Tensor, "batch layers heads tokens tokens"]) -> Float[Tensor, "batch tokens tokens"]:
    """How much of each token's last vector came from which patch (Abnar and Zuidema 2020, section 3).

    In each layer half of a vector is what the heads read, on average, and half what the residual keeps. The
    product of the layers, the last one leftmost, follows every way from the input to the output.

    Returns:
        A row for each token of the output, a column for each token of the input; a row sums to 1.
    """
    kept = torch.eye(maps.shape[-1], device=maps.device, dtype=maps.dtype)
    rolled = kept.expand(len(maps), -1, -1)
    for weights in maps.mean(2).unbind(1):
        rolled = (0.5 * weights + 0.5 * kept) @ rolled
    return rolled


def position_cosines(
    positions: Float[Tensor, "1 tokens width"], grid: tuple[int, int]
) -> Float[Tensor, "rows columns rows columns"]:
    """The cosine between the positions of every two patches (Dosovitskiy et al. 2021, figure 7, centre).

    `cosines[i, j]` is a map of the image: how much each place is like row i, column j. The class token's
    position is left out.

    Raises:
        ValueError: a number of tokens that is neither that of the patches nor one more.
    """
    first = _class_tokens(positions.shape[1], grid)
    directions = F.normalize(positions[0, first:], dim=-1)
    return (directions @ directions.mT).unflatten(0, grid).unflatten(-1, grid)


def nearest_are_neighbours(cosines: Float[Tensor, "rows columns rows columns"]) -> float:
    """Share of patches whose most similar other position is that of a patch above, below, left or right.

    Args:
        cosines: of `position_cosines`, for two patches at least.
    """
    alike = cosines.flatten(2).flatten(0, 1)
    alike = alike.masked_fill(torch.eye(len(alike), dtype=torch.bool, device=alike.device), -torch.inf)
    places = torch.cartesian_prod(*(torch.arange(count, device=alike.device) for count in cosines.shape[:2]))
    steps = (places - places[alike.argmax(-1)]).abs().sum(-1)
    return (steps == 1).float().mean().item()


def _class_tokens(tokens: int, grid: tuple[int, int]) -> int:
    """1 if a class token stands before the patches, else 0."""
    patches = grid[0] * grid[1]
    if tokens - patches not in (0, 1):
        raise ValueError(f"grid is {grid[0]} x {grid[1]}, and there are {tokens} tokens: "
                         f"it must be {patches}, or {patches + 1} with a class token")
    return tokens - patches
