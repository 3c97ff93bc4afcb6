"""Multi-head attention: several small readings side by side, instead of one large one.

    head_i = attend(Q W_i^Q, K W_i^K, V W_i^V)        output = [head_1; ...; head_h] W^O

The scores are scaled dot products. Whoever wants to see the weights gets every head's; whoever does not gets
the same numbers from the framework's fused kernel, which never holds the whole matrix of weights.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.attention.equation import Attended, attend
from attncourse.attention.masks import causal_mask
from attncourse.attention.positions import rotate
from attncourse.attention.scores import ScaledDotScore


class KeysValues(NamedTuple):
    """What a query can read: projected keys and values of every head. Kept from step to step, it is a cache.

    Shapes: keys and values (*batch, key_value_heads, positions, head_width).
    """

    keys: Float[Tensor, "*batch heads positions head_width"]
    values: Float[Tensor, "*batch heads positions head_width"]

    def followed_by(self, new: "KeysValues") -> "KeysValues":
        """The cache with the keys and values of later positions behind its own."""
        return KeysValues(*(torch.cat(pair, dim=-2) for pair in zip(self, new, strict=True)))


class MultiHeadAttention(nn.Module):
    """h heads of scaled dot-product attention, each in d/h dimensions (Vaswani et al. 2017, section 3.2.2).

    `forward` is two calls that can be made apart: `keys_values` projects what is read, `read` asks it. A
    decoder keeps the first and repeats the second.

    Args:
        width: d, of queries, keys, values and output.
        heads: h, a divisor of the width.
        key_value_heads: heads that have keys and values of their own; each is shared by an equal number of
            query heads. `heads` if not given; 1 is multi-query attention (Shazeer 2019), anything between is
            grouped-query attention (Ainslie et al. 2023).
        dropout: share of the weights dropped in training. The weights that are returned are never dropped.
        rotary: turn queries and keys by their positions (`rotate`) before they are compared.

    Raises:
        ValueError: heads that do not divide the width, key_value_heads that do not divide the heads, or heads
            of an odd width that are to be rotated.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_value_heads: int | None = None,
        dropout: float = 0.0,
        rotary: bool = False,
    ):
        super().__init__()
        key_value_heads = heads if key_value_heads is None else key_value_heads
        _check_split("width", width, "heads", heads)
        _check_split("heads", heads, "key_value_heads", key_value_heads)
        if rotary and width // heads % 2:
            raise ValueError(f"width {width} over heads = {heads} gives heads of width {width // heads}: "
                             "rotation turns pairs, so it must be even")
        self.heads, self.key_value_heads, self.head_width = heads, key_value_heads, width // heads
        self.dropout, self.rotary = dropout, rotary
        shared = key_value_heads * self.head_width
        self.query_projection = nn.Linear(width, width)    # W^Q of all heads side by side
        self.key_projection = nn.Linear(width, shared)     # W^K
        self.value_projection = nn.Linear(width, shared)   # W^V
        self.output_projection = nn.Linear(width, width)   # W^O
        for projection in self.children():
            nn.init.xavier_uniform_(projection.weight)
            nn.init.zeros_(projection.bias)

    def forward(
        self,
        query: Float[Tensor, "*batch queries width"],
        key: Float[Tensor, "*batch keys width"],
        value: Float[Tensor, "*batch keys width"],
        *,
        mask: Bool[Tensor, "*#batch #queries #keys"] | None = None,
        causal: bool = False,
        need_weights: bool = True,
    ) -> Attended:
        """Read the values with every head; for self-attention, query, key and value are the same tensor.

        Args:
            query, key, value: (*batch, queries or keys, width).
            mask: boolean, True = may be attended, the same for all heads.
            causal: hide from each query the keys after it; the last query is aligned with the last key.
            need_weights: without them the fused kernel does the work.

        Returns:
            The context (*batch, queries, width) and the weights (*batch, heads, queries, keys) or None.

        Raises:
            ValueError: a shape that does not fit.
            TypeError: the mask is not boolean.
        """
        return self.read(
            query, self.keys_values(key, value), mask=mask, causal=causal, need_weights=need_weights
        )

    def keys_values(
        self,
        key: Float[Tensor, "*batch keys width"],
        value: Float[Tensor, "*batch keys width"],
        *,
        first: int = 0,
    ) -> KeysValues:
        """Project keys and values, once per source or per new word; `first` is the place of the first."""
        self._check(key=key, value=value)
        if key.shape[-2] != value.shape[-2]:
            raise ValueError(f"key holds {key.shape[-2]} vectors and value holds {value.shape[-2]}: "
                             "every key needs exactly one value")
        keys = self._split(self.key_projection(key), self.key_value_heads)
        values = self._split(self.value_projection(value), self.key_value_heads)
        return KeysValues(self._placed(keys, first), values)

    def read(
        self,
        query: Float[Tensor, "*batch queries width"],
        known: KeysValues,
        *,
        mask: Bool[Tensor, "*#batch #queries #keys"] | None = None,
        causal: bool = False,
        first: int | None = None,
        need_weights: bool = True,
    ) -> Attended:
        """Ask keys and values that were projected before.

        `first` is the place of the first query. If not given it is 0, or with `causal` the one that puts the
        last query at the last key.
        """
        self._check(query=query)
        if first is None:
            first = known.keys.shape[-2] - query.shape[-2] if causal else 0
        queries = self._placed(self._split(self.query_projection(query), self.heads), first)
        keys, values = (self._for_every_query_head(part) for part in known)
        mask = self._mask(mask, queries, keys)
        if queries.shape[-2] == 1 <= keys.shape[-2]:
            causal = False  # the last position sees all: a step over a cache needs no mask
        if need_weights:
            context, weights = self._explicit(queries, keys, values, mask, causal)
        else:
            context, weights = self._fused(queries, keys, values, mask, causal), None
        return Attended(self.output_projection(context.transpose(-3, -2).flatten(-2)), weights)

    def _explicit(self, queries, keys, values, mask, causal) -> Attended:
        """The equation as it stands, with every head's weights."""
        if causal:
            mask = _in_order(mask, queries, keys)
        read = attend(queries, keys, values, score=ScaledDotScore(), mask=mask)
        if self.training and self.dropout:
            # The context comes from weights of which some are dropped; what is shown has none missing.
            return Attended(F.dropout(read.weights, self.dropout) @ values, read.weights)
        return read

    def _fused(self, queries, keys, values, mask, causal) -> Tensor:
        """The same context from the framework's kernel."""
        square = queries.shape[-2] == keys.shape[-2]
        if causal and not (square and mask is None):  # the kernel aligns the first query with the first key
            mask, causal = _in_order(mask, queries, keys), False
        dropout = self.dropout if self.training else 0.0
        if mask is None:
            return F.scaled_dot_product_attention(queries, keys, values, dropout_p=dropout, is_causal=causal)
        # The kernel promises nothing for a row that sees nothing: such a row sees all, and is then emptied.
        empty = ~mask.any(-1, keepdim=True)
        context = F.scaled_dot_product_attention(queries, keys, values, mask | empty, dropout_p=dropout)
        return context.masked_fill(empty, 0.0)

    def _split(self, vectors: Tensor, heads: int) -> Float[Tensor, "*batch heads positions head_width"]:
        return vectors.unflatten(-1, (heads, self.head_width)).transpose(-3, -2)

    def _placed(self, vectors: Tensor, first: int) -> Tensor:
        if not self.rotary:
            return vectors
        return rotate(vectors, torch.arange(first, first + vectors.shape[-2], device=vectors.device))

    def _for_every_query_head(self, shared: Tensor) -> Tensor:
        if self.key_value_heads == self.heads:
            return shared
        return shared.repeat_interleave(self.heads // self.key_value_heads, dim=-3)

    def _check(self, **given: Tensor) -> None:
        width = self.query_projection.in_features
        for name, tensor in given.items():
            if tensor.dim() < 2 or tensor.shape[-1] != width:
                raise ValueError(f"{name} has shape {tuple(tensor.shape)}: "
                                 f"it must be (..., positions, {width})")

    def _mask(self, mask: Tensor | None, queries: Tensor, keys: Tensor) -> Tensor | None:
        """The mask with an axis for the heads, which all see the same."""
        if mask is None:
            return None
        if mask.dtype != torch.bool:
            raise TypeError(f"mask is {mask.dtype}: it must be boolean, "
                            "True where a position may be attended")
        shape = (*queries.shape[:-3], queries.shape[-2], keys.shape[-2])
        try:
            mask.expand(shape)
        except RuntimeError:
            raise ValueError(f"mask has shape {tuple(mask.shape)}, which does not broadcast to "
                             f"(..., queries, keys) = {shape}; it has no axis for the heads") from None
        return mask[(None,) * (2 - mask.dim())].unsqueeze(-3)

    @classmethod
    def from_torch(cls, module: nn.MultiheadAttention) -> "MultiHeadAttention":
        """The same attention with the weights of the framework's module, in its dtype, on its device.

        Beware of its masks: there True means "hide".

        Raises:
            ValueError: a module with extra keys, or with keys of another width, which this one has not.
        """
        if module.bias_k is not None or module.add_zero_attn or module.in_proj_weight is None:
            raise ValueError("module was built with add_bias_kv, add_zero_attn, kdim or vdim: only a module "
                             "whose queries, keys and values have one width, and no extra key, can be read")
        ours = cls(module.embed_dim, module.num_heads, dropout=module.dropout).to(module.in_proj_weight)
        projections = (ours.query_projection, ours.key_projection, ours.value_projection)
        weights = module.in_proj_weight.chunk(3)
        biases = [None] * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
        with torch.no_grad():
            for projection, weight, bias in zip(projections, weights, biases, strict=True):
                _copy(projection, weight, bias)
            _copy(ours.output_projection, module.out_proj.weight, module.out_proj.bias)
        return ours.train(module.training)

    def to_torch(self) -> nn.MultiheadAttention:
        """The framework's module with these weights, batch first, in the same dtype, on the same device.

        Raises:
            ValueError: shared keys and values, or rotary positions, which the framework's module has not.
        """
        if self.rotary or self.key_value_heads != self.heads:
            raise ValueError(f"rotary is {self.rotary}, key_value_heads is {self.key_value_heads}: in the "
                             f"framework's module rotary is False and key_value_heads is heads, {self.heads}")
        projections = (self.query_projection, self.key_projection, self.value_projection)
        width = self.query_projection.in_features
        module = nn.MultiheadAttention(width, self.heads, dropout=self.dropout, batch_first=True)
        module.to(self.query_projection.weight)
        with torch.no_grad():
            module.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
            module.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
            _copy(module.out_proj, self.output_projection.weight, self.output_projection.bias)
        return module.train(self.training)


def _in_order(mask: Tensor | None, queries: Tensor, keys: Tensor) -> Tensor:
    """The mask, without the keys that lie after a query."""
    order = causal_mask(queries.shape[-2], keys.shape[-2], device=queries.device)
    return order if mask is None else mask & order


def _copy(layer: nn.Linear, weight: Tensor, bias: Tensor | None) -> None:
    layer.weight.copy_(weight)
    layer.bias.copy_(torch.zeros_like(layer.bias) if bias is None else bias)


def _check_split(name: str, whole: int, parts_name: str, parts: int) -> None:
    if whole < 1 or parts < 1 or whole % parts:
        fitting = ", ".join(str(n) for n in range(1, whole + 1) if whole % n == 0)
        raise ValueError(f"{name} {whole} cannot be split over {parts_name} = {parts}: choose a number that "
                         f"divides it ({fitting})")
