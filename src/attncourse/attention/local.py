"""Local attention: read a window of the source, wherever it is centred, and leave the rest alone.

Global attention scores every key for every query. Here a query has a centre p, and only the keys within a
distance D of it are fetched and scored: the cost of a step does not grow with the source.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.attention.equation import Attended, check_vectors, masked_softmax
from attncourse.attention.masks import check_lengths
from attncourse.attention.precision import at_least_float32, precise_layer, precise_matmul
from attncourse.attention.scores import LocationScore, score_keys

CENTRES = ("monotonic", "predicted", "offset")
GAUSSIANS = ("none", "outside", "inside")


class Window(NamedTuple):
    """What a reading of a window returns.

    Shapes: context (batch, queries, d_v); weights and positions (batch, queries, 2 D + 1), where a position
    off the source has weight 0; centre (batch, queries), in positions of the source, the first being 0.
    """

    context: Float[Tensor, "batch queries d_v"]
    weights: Float[Tensor, "batch queries window"]
    positions: Int[Tensor, "batch queries window"]
    centre: Float[Tensor, "batch queries"]


class LocalAttention(nn.Module):
    """Attention to the keys in [p_t - D, p_t + D] (Luong et al. 2015, section 3.2).

    The centre p_t, counted from 0:

    - "monotonic": p_t = t, the paper's local-m.
    - "predicted": p_t = S sigmoid(v_p^T tanh(W_p q_t)), the paper's local-p (eq. 9), S the true length.
    - "offset": p_t = t + v_p^T tanh(W_p q_t), kept on the source. Ours; it starts out as local-m.

    The Gaussian exp(-(s - p_t)^2 / 2 sigma^2) with sigma = D / 2, which favours keys near the centre:

    - "none": there is none, as in local-m.
    - "outside": it multiplies the softmax's weights, as printed (eq. 10). Rows sum to less than 1.
    - "inside": its logarithm is added to the scores, so that rows sum to 1. Ours.

    The window's place is a whole number and has no gradient. The Gaussian is all that can teach a centre.

    Args:
        score: scores a query and the keys in its window; any but `LocationScore`, which reads no keys.
        half_width: D, at least 1.
        centre: "monotonic", "predicted" or "offset".
        gaussian: "none", "outside" or "inside".
        query_width: d_q, needed where a network predicts the centre.

    Raises:
        ValueError: an unknown choice, a half_width below 1, a centre that nothing could teach, or a
            location score.
    """

    def __init__(
        self,
        score: nn.Module,
        *,
        half_width: int,
        centre: str = "monotonic",
        gaussian: str = "none",
        query_width: int | None = None,
    ):
        super().__init__()
        _check(score, half_width, centre, gaussian, query_width)
        self.score, self.half_width, self.centre, self.gaussian = score, half_width, centre, gaussian
        if centre != "monotonic":
            self.centre_hidden = nn.Linear(query_width, query_width, bias=False)  # W_p
            self.centre_output = nn.Linear(query_width, 1, bias=False)            # v_p

    def forward(
        self,
        query: Float[Tensor, "batch queries d_q"],
        key: Float[Tensor, "batch keys d_k"],
        value: Float[Tensor, "batch keys d_v"],
        *,
        lengths: Int[Tensor, "batch"],
        time: int | Int[Tensor, "batch"] = 0,
        projected_keys: Float[Tensor, "batch keys _"] | None = None,
        checked: bool = False,
    ) -> Attended:
        """Read each query's window; the weights come back over all keys, 0 outside the window.

        Args:
            query, key, value: as for `attend`, with one batch axis.
            lengths: (batch,), how many keys of a row are real.
            time: t of the first query, one number or one a row.
            projected_keys: `score.project_keys(key)`, if it was computed before.
            checked: `check_lengths` was called before, so that no step reads them from the device.
        """
        read = self.look(
            query, key, value, lengths=lengths, time=time, projected_keys=projected_keys, checked=checked
        )
        weights = read.weights.new_zeros(*query.shape[:2], key.shape[1])
        return Attended(read.context, weights.scatter_add(-1, _inside(read.positions, key), read.weights))

    def look(
        self,
        query: Float[Tensor, "batch queries d_q"],
        key: Float[Tensor, "batch keys d_k"],
        value: Float[Tensor, "batch keys d_v"],
        *,
        lengths: Int[Tensor, "batch"],
        time: int | Int[Tensor, "batch"] = 0,
        projected_keys: Float[Tensor, "batch keys _"] | None = None,
        checked: bool = False,
    ) -> Window:
        """The same reading with the weights of the window alone: nothing here is as long as the source."""
        _check_shapes(query, key, value, lengths)
        if not checked:
            check_lengths(lengths, key.shape[1])
        centre = self.centres(query, lengths, time)
        first = (centre - self.half_width).ceil().long()
        positions = first[..., None] + torch.arange(2 * self.half_width + 1, device=query.device)
        real = (positions >= 0) & (positions < lengths[:, None, None])
        visible = real & (positions <= (centre + self.half_width)[..., None])

        scores = self._scores(query, key, projected_keys, positions)
        log_gaussian = -((positions - centre[..., None]) ** 2) / (2 * (self.half_width / 2) ** 2)
        if self.gaussian == "inside":
            scores = scores + log_gaussian
        weights = masked_softmax(scores, visible)
        if self.gaussian == "outside":
            weights = weights * log_gaussian.exp()
        context = precise_matmul(weights[..., None, :], _gather(value, positions)).squeeze(-2)
        return Window(context.to(value.dtype), weights.to(value.dtype), positions, centre)

    def centres(
        self,
        query: Float[Tensor, "batch queries d_q"],
        lengths: Int[Tensor, "batch"],
        time: int | Int[Tensor, "batch"] = 0,
    ) -> Float[Tensor, "batch queries"]:
        """p_t for every query. In half precision neighbouring positions would meet, so at least float32."""
        query = at_least_float32(query)
        steps = torch.arange(query.shape[1], device=query.device, dtype=query.dtype)
        now = (steps + torch.as_tensor(time, device=query.device)[..., None]).expand(query.shape[:2])
        if self.centre == "monotonic":
            return now
        found = precise_layer(self.centre_output, precise_layer(self.centre_hidden, query).tanh()).squeeze(-1)
        if self.centre == "predicted":
            return lengths[:, None] * found.sigmoid()
        return torch.minimum((now + found).clamp(min=0), (lengths[:, None] - 1).clamp(min=0).to(query.dtype))

    def _scores(self, query, key, projected_keys, positions) -> Float[Tensor, "batch queries window"]:
        """Each query is scored with the keys of its own window."""
        projected = None if projected_keys is None else _gather(projected_keys, positions)
        scores = score_keys(self.score, query[:, :, None], _gather(key, positions), projected)
        return at_least_float32(scores.squeeze(-2))


def _inside(positions: Tensor, key: Tensor) -> Int[Tensor, "batch queries window"]:
    """Positions that can be fetched; those off the source are hidden from the softmax, so any will do."""
    return positions.clamp(0, max(key.shape[1] - 1, 0))


def _gather(vectors: Tensor, positions: Tensor) -> Float[Tensor, "batch queries window width"]:
    """The vectors of each window: the only place where the keys are read, 2 D + 1 of them a query."""
    rows = torch.arange(vectors.shape[0], device=vectors.device)[:, None, None]
    return vectors[rows, _inside(positions, vectors)]


def _check(score, half_width, centre, gaussian, query_width) -> None:
    if isinstance(score, LocationScore):
        raise ValueError("score is a LocationScore: it reads no keys, so there is nothing to score in a "
                         "window; choose one that does, such as GeneralScore")
    if isinstance(half_width, bool) or not isinstance(half_width, int) or half_width < 1:
        raise ValueError(f"half_width is {half_width!r}: it must be a whole number of at least 1")
    for name, given, allowed in (("centre", centre, CENTRES), ("gaussian", gaussian, GAUSSIANS)):
        if given not in allowed:
            raise ValueError(f"{name} is {given!r}: choose one of {', '.join(allowed)}")
    if centre != "monotonic" and gaussian == "none":
        raise ValueError(f"gaussian is 'none' and centre is {centre!r}: without a Gaussian no gradient "
                         "reaches the centre; choose 'outside' or 'inside'")
    if centre != "monotonic" and query_width is None:
        raise ValueError(f"query_width is missing: a {centre} centre is computed from the query, and needs "
                         "to know its width")


def _check_shapes(query, key, value, lengths) -> None:
    for name, tensor in {"query": query, "key": key, "value": value}.items():
        if tensor.dim() != 3:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}: give (batch, positions, width)")
    check_vectors(query, key, value)
    if not query.shape[0] == key.shape[0] == value.shape[0]:
        raise ValueError(f"query, key and value have shapes {tuple(query.shape)}, {tuple(key.shape)} and "
                         f"{tuple(value.shape)}: one batch size for all")
    if lengths.shape[0] != key.shape[0]:
        raise ValueError(f"lengths has {len(lengths)} entries for {len(key)} rows of keys: give one a row")
    if not key.shape[1]:
        raise ValueError("key has no positions: a batch of empty sources still needs one column, which "
                         "lengths hide")
