"""Score functions: how well does a query match a key?

Every score maps a query (*batch, queries, d_q) and a key (*batch, keys, d_k) to (*batch, queries, keys).
They differ in what they learn and in what they cost; chapter 00 lays them side by side.

A score whose key side does not depend on the query offers a method `project_keys`. A decoder that meets the
same keys at every step calls the function of that name once per source, whatever the score, and passes the
result on as `projected_keys`.
"""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from attncourse.attention.precision import at_least_float32, precise_matmul

Queries = Float[Tensor, "*batch queries d_q"]
Keys = Float[Tensor, "*batch keys d_k"]
Scores = Float[Tensor, "*batch queries keys"]


class DotScore(nn.Module):
    """Dot score  q^T k  (Luong et al. 2015, eq. 8). Query and key must have the same width."""

    formula = r"q^\top k"
    cost = "d"

    def forward(self, query: Queries, key: Keys) -> Scores:
        same_width(query, key)
        return precise_matmul(query, key.transpose(-2, -1))


class ScaledDotScore(nn.Module):
    """Scaled dot score  q^T k / sqrt(d)  (Vaswani et al. 2017, eq. 1). Same width for query and key.

    The dot product of two vectors of independent unit-variance numbers has variance d. Dividing by sqrt(d)
    brings it back to 1, so that the softmax does not saturate as vectors grow longer.
    """

    formula = r"q^\top k / \sqrt{d}"
    cost = "d"

    def forward(self, query: Queries, key: Keys) -> Scores:
        same_width(query, key)
        # The query is divided, not the scores: d numbers in place of as many as there are keys.
        query = at_least_float32(query) / math.sqrt(query.shape[-1])
        return precise_matmul(query, key.transpose(-2, -1))


class CosineScore(nn.Module):
    """Cosine score  q^T k / (|q| |k|), always between -1 and 1 (Graves et al. 2014, eq. 6).

    A zero vector has no direction and scores 0 with everything.
    """

    formula = r"q^\top k / (\lVert q \rVert \lVert k \rVert)"
    cost = "d"

    def project_keys(self, key: Keys) -> Keys:
        """k / |k| for every key."""
        return F.normalize(at_least_float32(key), dim=-1)

    def forward(self, query: Queries, key: Keys, *, projected_keys: Keys | None = None) -> Scores:
        same_width(query, key)
        if projected_keys is None:
            projected_keys = self.project_keys(key)
        return precise_matmul(F.normalize(at_least_float32(query), dim=-1), projected_keys.transpose(-2, -1))


class GeneralScore(nn.Module):
    """General (bilinear) score  q^T W k  (Luong et al. 2015, eq. 8).

    Args:
        query_width: d_q, length of a query vector.
        key_width: d_k, length of a key vector; it may differ from d_q.
    """

    formula = r"q^\top W k"
    cost = "d_q d_k"

    def __init__(self, query_width: int, key_width: int):
        super().__init__()
        check_sizes(query_width=query_width, key_width=key_width)
        self.query_width, self.key_width = query_width, key_width
        self.key_projection = nn.Linear(key_width, query_width, bias=False)  # W

    def project_keys(self, key: Keys) -> Float[Tensor, "*batch keys d_q"]:
        """W k for every key: what remains of each step is a dot product."""
        _width("key", key, self.key_width)
        return self.key_projection(key)

    def forward(
        self, query: Queries, key: Keys, *, projected_keys: Float[Tensor, "*batch keys d_q"] | None = None
    ) -> Scores:
        _width("query", query, self.query_width)
        if projected_keys is None:
            projected_keys = self.project_keys(key)
        return precise_matmul(query, projected_keys.transpose(-2, -1))


class AdditiveScore(nn.Module):
    """Additive score  v^T tanh(W q + U k)  (Bahdanau et al. 2015, appendix A.1.2).

    Args:
        query_width: d_q, length of a query vector.
        key_width: d_k, length of a key vector.
        width: length of the hidden layer in which query and key are added.
    """

    formula = r"v^\top \tanh(W q + U k)"
    cost = "n (d_q + d_k)"

    def __init__(self, query_width: int, key_width: int, width: int):
        super().__init__()
        check_sizes(query_width=query_width, key_width=key_width, width=width)
        self.query_width, self.key_width = query_width, key_width
        self.query_projection = nn.Linear(query_width, width, bias=False)  # W
        self.key_projection = nn.Linear(key_width, width, bias=False)      # U
        self.energy = nn.Linear(width, 1, bias=False)                      # v

    def project_keys(self, key: Keys) -> Float[Tensor, "*batch keys width"]:
        """U k for every key: computed once per source, reused at every step."""
        _width("key", key, self.key_width)
        return self.key_projection(key)

    def forward(
        self, query: Queries, key: Keys, *, projected_keys: Float[Tensor, "*batch keys width"] | None = None
    ) -> Scores:
        _width("query", query, self.query_width)
        if projected_keys is None:
            projected_keys = self.project_keys(key)
        summed = self.query_projection(query)[..., :, None, :] + projected_keys[..., None, :, :]
        return self.energy(summed.tanh_()).squeeze(-1)  # in place: this is the largest tensor of the step


class ConcatScore(nn.Module):
    """Concat score  v^T tanh(W [q; k])  (Luong et al. 2015, eq. 8).

    Cut W into its first d_q and its last d_k columns, and it is the additive score: W [q; k] = W_q q + W_k k.
    Stored as one matrix, as printed in the paper; computed as W [q; 0] + W [0; k], so that the keys' part is
    reusable and the layer is called as any other, by hooks, adapters and quantisation, too.

    Args:
        query_width: d_q, length of a query vector.
        key_width: d_k, length of a key vector.
        width: length of the hidden layer.
    """

    formula = r"v^\top \tanh(W [q; k])"
    cost = "n (d_q + d_k)"

    def __init__(self, query_width: int, key_width: int, width: int):
        super().__init__()
        check_sizes(query_width=query_width, key_width=key_width, width=width)
        self.query_width, self.key_width = query_width, key_width
        self.projection = nn.Linear(query_width + key_width, width, bias=False)  # W
        self.energy = nn.Linear(width, 1, bias=False)                            # v

    def project_keys(self, key: Keys) -> Float[Tensor, "*batch keys width"]:
        """W [0; k] for every key: the part of W [q; k] that belongs to the key."""
        _width("key", key, self.key_width)
        return self.projection(F.pad(key, (self.query_width, 0)))

    def forward(
        self, query: Queries, key: Keys, *, projected_keys: Float[Tensor, "*batch keys width"] | None = None
    ) -> Scores:
        _width("query", query, self.query_width)
        if projected_keys is None:
            projected_keys = self.project_keys(key)
        projected_query = self.projection(F.pad(query, (0, self.key_width)))
        summed = projected_query[..., :, None, :] + projected_keys[..., None, :, :]
        return self.energy(summed.tanh_()).squeeze(-1)


class LocationScore(nn.Module):
    """Location-based score  (W q)_i : the query alone decides, keys are not read (Luong et al. 2015, eq. 9).

    Args:
        query_width: d_q, length of a query vector.
        max_keys: number of positions that can be scored, one row of W each.
    """

    formula = r"(W q)_i"
    cost = "d_q"

    def __init__(self, query_width: int, max_keys: int):
        super().__init__()
        check_sizes(query_width=query_width, max_keys=max_keys)
        self.query_width, self.max_keys = query_width, max_keys
        self.position_projection = nn.Linear(query_width, max_keys, bias=False)  # W

    def forward(self, query: Queries, key: Keys) -> Scores:
        _width("query", query, self.query_width)
        keys = key.shape[-2]
        if keys > self.max_keys:
            raise ValueError(f"key holds {keys} positions and max_keys is {self.max_keys}: "
                             f"build the score with max_keys of at least {keys}")
        projection = self.position_projection
        if type(projection) is not nn.Linear:  # an adapter or a quantised layer has no rows to choose from
            return projection(query)[..., :keys]
        return functional_call(projection, {"weight": projection.weight[:keys]}, (query,))


class GaussianScore(nn.Module):
    """Gaussian score  -|q - k|^2 / (2 b^2): with it, attention is kernel regression (Nadaraya; Watson 1964).

    Args:
        bandwidth: initial b > 0, in the unit of queries and keys. It is learned, through its logarithm.
    """

    formula = r"-\lVert q - k \rVert^2 / (2 b^2)"
    cost = "d"

    def __init__(self, bandwidth: float = 1.0):
        super().__init__()
        if not bandwidth > 0:
            raise ValueError(f"bandwidth is {bandwidth}: it must be positive")
        self.log_bandwidth = nn.Parameter(torch.tensor(float(bandwidth)).log())

    def forward(self, query: Queries, key: Keys) -> Scores:
        same_width(query, key)
        apart = at_least_float32(query)[..., :, None, :] - at_least_float32(key)[..., None, :, :]
        return -apart.square().sum(-1) / (2 * (2 * at_least_float32(self.log_bandwidth)).exp())


def project_keys(score: nn.Module, key: Keys) -> Float[Tensor, "*batch keys _"] | None:
    """The part of a score that depends on the keys alone; None for a score that has no such part."""
    return score.project_keys(key) if hasattr(score, "project_keys") else None


def score_keys(
    score: Callable[..., Tensor], query: Queries, key: Keys, projected_keys: Tensor | None = None
) -> Scores:
    """score(query, key), with the keys' part as `project_keys` computed it, if it did."""
    return score(query, key) if projected_keys is None else score(query, key, projected_keys=projected_keys)


def check_sizes(**sizes: int) -> None:
    """Refuse sizes that are not whole numbers of at least 1.

    Raises:
        TypeError: not a whole number.
        ValueError: below 1.
    """
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, int):
            raise TypeError(f"{name} is {size!r}: it must be a whole number")
        if size < 1:
            raise ValueError(f"{name} is {size}: it must be at least 1")


def _width(name: str, vectors: Tensor, width: int) -> None:
    if vectors.shape[-1] != width:
        raise ValueError(f"{name} has width {vectors.shape[-1]}: this score was built for width {width}")


def same_width(query: Tensor, key: Tensor) -> None:
    """Refuse queries and keys of different widths, which cannot be multiplied.

    Raises:
        ValueError: the widths differ.
    """
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"query has width {query.shape[-1]} and key has width {key.shape[-1]}: this score "
                         "needs equal widths; GeneralScore and AdditiveScore take different ones")
