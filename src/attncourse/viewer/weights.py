"""What every figure of attention weights asks of them before it draws."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor


def checked_tokens(name: str, tokens: Sequence[str]) -> list[str]:
    """The tokens of one side as a list of strings, or an error that names the side."""
    if isinstance(tokens, str):
        raise TypeError(f"{name} must be a list of tokens, given the text {tokens!r}: split it first")
    tokens = list(tokens)
    for token in tokens:
        if not isinstance(token, str):
            raise TypeError(f"{name} must hold text, given {token!r}: decode token ids before they are shown")
    if not tokens:
        raise ValueError(f"{name} is empty: at least one token is needed")
    return tokens


def checked_matrix(
    name: str, matrix, queries: list[str], keys: list[str], hidden: float | None = None
) -> Tensor:
    """A matrix (queries, keys) or one a head (heads, queries, keys), as float64 (heads, queries, keys).

    Anything torch can read is taken, from any device. `hidden` is the one value that may be infinite.
    """
    matrix = torch.as_tensor(matrix).detach().to("cpu", torch.float64)
    if matrix.ndim == 2:
        matrix = matrix[None]
    if matrix.ndim != 3 or matrix.shape[1:] != (len(queries), len(keys)) or len(matrix) == 0:
        raise ValueError(
            f"{name} has shape {tuple(matrix.shape)}, but there are {len(queries)} queries and {len(keys)} "
            f"keys: it must be ({len(queries)}, {len(keys)}), or (heads, {len(queries)}, {len(keys)})"
        )
    wrong = ~matrix.isfinite()
    if hidden is not None:
        wrong &= matrix != hidden
    if wrong.any():
        head, query, key = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"{name} holds {matrix[head, query, key].item()} at "
            f"{_place(matrix, head, queries[query], query)}, key {keys[key]!r} ({key}): "
            "every entry must be a finite number"
        )
    return matrix


def checked_weights(weights, queries: list[str], keys: list[str], *, partial: bool = False) -> Tensor:
    """Attention weights as float64 (heads, queries, keys): none negative, each row summing to 1, or to 0.

    A row of zeros is a query from which every key is hidden. With `partial` a row may sum to anything from 0
    to 1. The tolerance, 0.01, is for half precision.
    """
    weights = checked_matrix("weights", weights, queries, keys)
    if weights.min() < 0:
        head, query, key = (weights < 0).nonzero()[0].tolist()
        raise ValueError(
            f"weights holds {weights[head, query, key].item():.4g} at "
            f"{_place(weights, head, queries[query], query)}, key {keys[key]!r} ({key}): a weight is never "
            "negative. Are these scores, before the softmax?"
        )
    totals = weights.sum(-1)
    wrong = totals > 1.01 if partial else ((totals - 1).abs() > 0.01) & (totals != 0)
    if wrong.any():
        head, query = wrong.nonzero()[0].tolist()
        advice = "partial rows sum to at most 1" if partial else (
            "a row sums to 1, or to 0 where every key is hidden. Was the softmax taken over the keys, and "
            "are these the weights before dropout? Weights bent afterwards are shown with partial=True."
        )
        raise ValueError(
            f"weights: the row of {_place(weights, head, queries[query], query)} sums to "
            f"{totals[head, query].item():.4g}; {advice}"
        )
    return weights


def checked_layers(name: str, weights: Tensor, queries: list[str], keys: list[str]) -> Tensor:
    """Weights (layers, heads, queries, keys) as float64; every row sums to 1, or to 0."""
    layers = []
    for number, layer in enumerate(weights):
        with naming(f"{name}, layer {number}"):
            layers.append(checked_weights(layer, queries, keys))
    return torch.stack(layers)


@contextmanager
def naming(name: str) -> Iterator[None]:
    """A ValueError from within begins with the name of the argument that it is about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def _place(matrix: Tensor, head: int, token: str, query: int) -> str:
    return f"head {head}, query {token!r} ({query})" if len(matrix) > 1 else f"query {token!r} ({query})"
