"""Multi-head attention: several small readings side by side, instead of one large one.

    head_i = attend(Q W_i^Q, K W_i^K, V W_i^V)        output = [head_1; ...; head_h] W^O

The projections are `Heads`. How a head reads, and how it knows what stands where, are parts that can be
exchanged; the scaled dot product with a softmax, and no positions, are the paper's.
"""

from inspect import signature

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attncourse.attention.equation import Attended
from attncourse.attention.heads import Heads, KeysValues
from attncourse.attention.masks import check_mask
from attncourse.attention.positions import HeadPositions
from attncourse.attention.reads import Read, SoftmaxRead
from attncourse.attention.scores import ScaledDotScore


class MultiHeadAttention(Heads):
    """h heads of attention, each in d/h dimensions (Vaswani et al. 2017, section 3.2.2).

    Args:
        width: d, of queries, keys, values and output.
        heads: h, a divisor of the width.
        key_value_heads: heads that have keys and values of their own; each is shared by an equal number of
            query heads. `heads` if not given; 1 is multi-query attention (Shazeer 2019), anything between is
            grouped-query attention (Ainslie et al. 2023).
        read: how a head reads, any callable (queries, keys, values, *, mask, causal, need_weights) ->
            `Attended`; `SoftmaxRead` if not given. Others are `WindowRead`, `linear_attend`,
            `DifferentialRead`.
        positions: what the heads know of places, such as `Rotary()` or `Alibi()`; nothing if not given.
        dropout: share of the weights dropped in training, where no `read` is given.

    Raises:
        ValueError: heads that do not divide the width, key_value_heads that do not divide the heads, heads
            of a width that the positions cannot turn, or a dropout beside a `read`.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        key_value_heads: int | None = None,
        read: Read | None = None,
        positions: HeadPositions | None = None,
        dropout: float = 0.0,
    ):
        super().__init__(width, heads, key_value_heads)
        if read is not None and dropout:
            raise ValueError(f"dropout is {dropout} and read is given: it is the read that drops weights, "
                             "SoftmaxRead(dropout=...)")
        self.read = SoftmaxRead(dropout=dropout) if read is None else read
        self.positions = HeadPositions() if positions is None else positions
        self.positions.check(width, heads)
        _check_bias(self.read, self.positions)

    def forward(
        self,
        query: Float[Tensor, "*batch queries width"],
        key: Float[Tensor, "*batch keys width"] | None = None,
        value: Float[Tensor, "*batch keys width"] | None = None,
        *,
        known: KeysValues | None = None,
        mask: Bool[Tensor, "*#batch #queries #keys"] | None = None,
        causal: bool = False,
        first: int | None = None,
        need_weights: bool = True,
    ) -> Attended:
        """Read the values with every head; for self-attention, query, key and value are the same tensor.

        Args:
            query: (*batch, queries, width).
            key, value: (*batch, keys, width), projected here; or none of them, and
            known: what `keys_values` projected before, such as a cache.
            mask: boolean, True = may be attended, the same for all heads.
            causal: hide from each query the keys after it; the last query is aligned with the last key.
            first: place of the first query. If not given it is 0, or with `causal` the one that puts the
                last query at the last key.
            need_weights: without them the read may take a cheaper way, such as the fused kernel.

        Returns:
            The context (*batch, queries, width) and the weights (*batch, heads, queries, keys) or None.

        Raises:
            ValueError: a shape that does not fit, or both or none of key with value and known.
            TypeError: the mask is not boolean.
        """
        known = self._known(key, value, known)
        asking, keys = query.shape[-2] if query.dim() > 1 else 0, known.keys.shape[-2]
        if first is None:
            first = keys - asking if causal else 0
        queries = self.positions.turn(self.queries(query), first)
        mask = self._mask(mask, queries, known.keys)
        if asking == 1 <= keys:
            causal = False  # the last position sees all: a step over a cache needs no mask
        bias = self.positions.bias(queries, known.keys, first)
        context, weights = self.read(
            queries, self.for_every_head(known.keys), self.for_every_head(known.values),
            mask=mask, causal=causal, need_weights=need_weights, **({} if bias is None else {"bias": bias}),
        )
        return Attended(self.join(context), weights)

    def keys_values(
        self,
        key: Float[Tensor, "*batch keys width"],
        value: Float[Tensor, "*batch keys width"],
        *,
        first: int = 0,
    ) -> KeysValues:
        """Project keys and values, once per source or per new word; `first` is the place of the first."""
        keys, values, _ = super().keys_values(key, value)
        return KeysValues(self.positions.turn(keys, first), values)

    def _known(self, key: Tensor | None, value: Tensor | None, known: KeysValues | None) -> KeysValues:
        parts = {"key": key, "value": value, "known": known}
        given = [name for name, part in parts.items() if part is not None]
        if given not in (["key", "value"], ["known"]):
            raise ValueError(f"beside the query {' and '.join(given) or 'nothing'} was given: give key and "
                             "value, or known, which holds both as keys_values projected them")
        return self.keys_values(key, value) if known is None else known

    def _mask(self, mask: Tensor | None, queries: Tensor, keys: Tensor) -> Tensor | None:
        """The mask with an axis for the heads, which all see the same."""
        if mask is None:
            return None
        # Without an axis for the heads: all see the same.
        check_mask(mask, (*queries.shape[:-3], queries.shape[-2], keys.shape[-2]))
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
            ValueError: shared keys and values, positions, or another read, which the framework's module has
                not.
        """
        plain = isinstance(self.read, SoftmaxRead) and isinstance(self.read.score, ScaledDotScore)
        if self.key_value_heads != self.heads or type(self.positions) is not HeadPositions or not plain:
            raise ValueError(f"key_value_heads is {self.key_value_heads}, positions is {self.positions}, "
                             f"read is {self.read}: in the framework's module key_value_heads is heads, "
                             f"{self.heads}, positions is None and read is SoftmaxRead")
        projections = (self.query_projection, self.key_projection, self.value_projection)
        width = self.heads * self.head_width
        module = nn.MultiheadAttention(width, self.heads, dropout=self.read.dropout, batch_first=True)
        module.to(self.query_projection.weight)
        with torch.no_grad():
            module.in_proj_weight.copy_(torch.cat([projection.weight for projection in projections]))
            module.in_proj_bias.copy_(torch.cat([projection.bias for projection in projections]))
            _copy(module.out_proj, self.output_projection.weight, self.output_projection.bias)
        return module.train(self.training)


def _check_bias(read: Read, positions: HeadPositions) -> None:
    """Positions that add to the scores need a read that has scores to add to."""
    takes = signature(getattr(read, "forward", read)).parameters
    if type(positions).bias is not HeadPositions.bias and "bias" not in takes:
        raise ValueError(f"positions is {positions}, which adds a bias to the scores, and read takes none: "
                         f"{read}; choose SoftmaxRead, or positions that turn, such as Rotary()")


def _copy(layer: nn.Linear, weight: Tensor, bias: Tensor | None) -> None:
    layer.weight.copy_(weight)
    layer.bias.copy_(torch.zeros_like(layer.bias) if bias is None else bias)
