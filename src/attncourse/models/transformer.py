"""Chapter 08: the Transformer. Attention inside the source, inside the target, and between the two.

Vaswani et al. 2017, "Attention is all you need". No recurrence: every position is computed at the same time.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from attncourse.attention import (
    HeadPositions,
    KeysValues,
    MultiHeadAttention,
    SinusoidPositions,
    padding_mask,
    values_can_be_read,
)
from attncourse.models.interface import Output, Step, check_choice, check_target, checked_source

# The two sizes of the paper (table 3): Transformer(vocabulary, vocabulary, shared=True, **BASE).
BASE = {"width": 512, "heads": 8, "layers": 6, "inner": 2048, "dropout": 0.1}
BIG = {"width": 1024, "heads": 16, "layers": 6, "inner": 4096, "dropout": 0.3}

NORMS = ("post", "pre")


class FeedForward(nn.Sequential):
    """Two layers, the same at every position: max(0, x W_1 + b_1) W_2 + b_2  (section 3.3, eq. 2)."""

    def __init__(self, width: int, inner: int, dropout: float, activation: Callable[[], nn.Module]):
        super().__init__(
            nn.Linear(width, inner), activation(), nn.Dropout(dropout), nn.Linear(inner, width)
        )


class Residual(nn.Module):
    """What surrounds a sub-layer: LayerNorm(x + f(x)) as published ("post"), or x + f(LayerNorm(x)) ("pre").

    Post-norm: Vaswani et al. 2017, section 3.1. Pre-norm: Xiong et al. 2020.
    """

    def __init__(self, width: int, dropout: float, norm: str, epsilon: float):
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(width, eps=epsilon), nn.Dropout(dropout)
        self.first = norm == "pre"

    def before(self, x: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch width"]:
        """What the sub-layer reads."""
        return self.norm(x) if self.first else x

    def after(
        self, x: Float[Tensor, "*batch width"], out: Float[Tensor, "*batch width"]
    ) -> Float[Tensor, "*batch width"]:
        """What becomes of x and of the sub-layer's output."""
        x = x + self.dropout(out)
        return x if self.first else self.norm(x)


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward (section 3.1).

    Args:
        width: d, of every vector between the layers.
        heads: of the attention.
        inner: width of the feed-forward layer's middle.
        dropout: on the weights, on each sub-layer's output, and inside the feed-forward layer.
        norm: "post" as published, or "pre".
        positions: what the attention's heads know of places, such as `Rotary()`.
        activation: of the feed-forward layer.
        epsilon: of the layer norms.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        dropout: float = 0.1,
        norm: str = "post",
        positions: HeadPositions | None = None,
        activation: Callable[[], nn.Module] = nn.ReLU,
        epsilon: float = 1e-5,
    ):
        super().__init__()
        check_choice("norm", norm, NORMS)
        self.attention = MultiHeadAttention(width, heads, dropout=dropout, positions=positions)
        self.feed_forward = FeedForward(width, inner, dropout, activation)
        self.around_attention = Residual(width, dropout, norm, epsilon)
        self.around_feed_forward = Residual(width, dropout, norm, epsilon)

    def forward(
        self,
        x: Float[Tensor, "batch source width"],
        mask: Bool[Tensor, "batch #source source"] | None = None,
        *,
        positions: Float[Tensor, "source width"] | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch source width"], Float[Tensor, "batch heads source source"] | None]:
        """The vectors of the next layer, and every head's weights if they are needed.

        `positions`, if given, are added to queries and keys, but not to what is read (chapter 10).
        """
        value = self.around_attention.before(x)
        asked = value if positions is None else value + positions
        read = self.attention(asked, asked, value, mask=mask, need_weights=need_weights)
        x = self.around_attention.after(x, read.context)
        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, read.weights


class Encoder(nn.Module):
    """A stack of encoder layers; with pre-norm a last layer norm follows, or its output would have no scale.

    Args:
        layers: N.
        width, heads, inner, options: of each `EncoderLayer`.
    """

    def __init__(self, layers: int, width: int, heads: int, inner: int, *, norm: str = "post", **options):
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderLayer(width, heads, inner, norm=norm, **options) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(width, eps=options.get("epsilon", 1e-5)) if norm == "pre" else nn.Identity()

    def forward(
        self,
        x: Float[Tensor, "batch source width"],
        mask: Bool[Tensor, "batch #source source"] | None = None,
        *,
        positions: Float[Tensor, "source width"] | None = None,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch source width"], list[Float[Tensor, "batch heads source source"] | None]]:
        """The last layer's vectors, and the weights of each layer; `positions` go to every one."""
        weights = []
        for layer in self.layers:
            x, seen = layer(x, mask, positions=positions, need_weights=need_weights)
            weights.append(seen)
        return self.norm(x), weights


class DecoderLayer(nn.Module):
    """Attention inside the target, attention between target and source, feed-forward (section 3.1).

    Args:
        width, heads, inner, dropout, norm: as in `EncoderLayer`.
        positions: what the heads inside the target know of places, such as `Rotary()`.
        between: the same between target and source.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        inner: int,
        *,
        dropout: float = 0.1,
        norm: str = "post",
        positions: HeadPositions | None = None,
        between: HeadPositions | None = None,
    ):
        super().__init__()
        check_choice("norm", norm, NORMS)
        self.inside = MultiHeadAttention(width, heads, dropout=dropout, positions=positions)
        self.between = MultiHeadAttention(width, heads, dropout=dropout, positions=between)
        self.feed_forward = FeedForward(width, inner, dropout, nn.ReLU)
        self.around_inside = Residual(width, dropout, norm, 1e-5)
        self.around_between = Residual(width, dropout, norm, 1e-5)
        self.around_feed_forward = Residual(width, dropout, norm, 1e-5)

    def forward(
        self,
        x: Float[Tensor, "batch target width"],
        past: KeysValues,
        source: KeysValues,
        mask: Bool[Tensor, "batch 1 source"] | None = None,
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch target width"], KeysValues, Tensor | None, Tensor | None]:
        """Go on from the positions in `past`: the whole target at once, or one new word.

        Args:
            x: (batch, target, width), the new positions.
            past: keys and values of the positions before them; none at the start.
            source: what `between.keys_values` made of the encoder's output.
            mask: True for the real positions of the source.

        Returns:
            The vectors of the next layer; the cache with the new positions; the weights inside the target and
            those between target and source, or None twice.
        """
        first = past.keys.shape[-2]
        asked = self.around_inside.before(x)
        known = past.followed_by(self.inside.keys_values(asked, asked, first=first))
        own = self.inside(asked, known=known, causal=True, first=first, need_weights=need_weights)
        x = self.around_inside.after(x, own.context)
        read = self.between(
            self.around_between.before(x), known=source, mask=mask, first=first, need_weights=need_weights
        )
        x = self.around_between.after(x, read.context)
        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, known, own.weights, read.weights


class SourceMemory(NamedTuple):
    """What the decoder reads of the source: keys and values for each layer, projected once, and the mask.

    Shapes: keys and values (batch, heads, source, head_width); mask (batch, 1, source), or None where every
    row is full.
    """

    layers: tuple[KeysValues, ...]
    mask: Bool[Tensor, "batch 1 source"] | None


class TargetCache(NamedTuple):
    """Keys and values of the target words so far, for each layer; each (batch, heads, target, head_width)."""

    layers: tuple[KeysValues, ...]


class Maps(NamedTuple):
    """Every weight of a Transformer: who reads whom inside the source, inside the target, and between.

    Shapes: (batch, layers, heads, queries, keys), with source x source, target x target, target x source.
    """

    source: Float[Tensor, "batch layers heads source source"]
    target: Float[Tensor, "batch layers heads target target"]
    between: Float[Tensor, "batch layers heads target source"]


class Transformer(nn.Module):
    """Encoder and decoder of N layers each (Vaswani et al. 2017, section 3 and figure 1).

    A word enters as its embedding times sqrt(d), plus its position's vector (sections 3.4, 3.5). The scores
    of the next word are dot products with the target embeddings themselves: one matrix for both.

    Args:
        source_vocabulary: number of source words, special symbols included.
        target_vocabulary: number of target words, special symbols included.
        width: d.
        heads: h of every attention.
        layers: N.
        inner: width of the feed-forward layers' middle; 4 d if not given.
        dropout: also on the sum of embedding and position.
        norm: "post" as published, or "pre".
        positions: makes, for a width, what gives each place a vector: `SinusoidPositions` as published,
            `partial(LearnedPositions, longest=...)`, or None, and nothing is added to the words.
        inside: what the heads inside the source and inside the target know of places, such as `Rotary()`.
        between: the same for the heads between the two.
        shared: one matrix for source and target words, as in the paper, whose vocabulary was one too.

    Raises:
        ValueError: an unknown norm, heads that do not divide the width or that the positions cannot turn, or
            one matrix for vocabularies of different sizes.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        *,
        width: int = 128,
        heads: int = 4,
        layers: int = 2,
        inner: int | None = None,
        dropout: float = 0.1,
        norm: str = "post",
        positions: Callable[[int], nn.Module] | None = SinusoidPositions,
        inside: HeadPositions | None = None,
        between: HeadPositions | None = None,
        shared: bool = False,
    ):
        super().__init__()
        if shared and source_vocabulary != target_vocabulary:
            raise ValueError(f"shared is True, for {source_vocabulary} source and {target_vocabulary} target "
                             "words: one matrix needs one vocabulary")
        inner = inner or 4 * width
        self.target_embedding = nn.Embedding(target_vocabulary, width)
        self.source_embedding = self.target_embedding if shared else nn.Embedding(source_vocabulary, width)
        for embedding in (self.target_embedding, self.source_embedding):
            nn.init.normal_(embedding.weight, std=width**-0.5)  # times sqrt(d), each number has variance 1
        self.positions = None if positions is None else positions(width)
        self.dropout = nn.Dropout(dropout)
        self.encoder = Encoder(layers, width, heads, inner, dropout=dropout, norm=norm, positions=inside)
        self.decoder = nn.ModuleList(
            DecoderLayer(width, heads, inner, dropout=dropout, norm=norm, positions=inside, between=between)
            for _ in range(layers)
        )
        self.decoder_norm = nn.LayerNorm(width) if norm == "pre" else nn.Identity()

    @property
    def longest_source(self) -> int | None:
        """How many places there are, if they are learned: the most that a sentence can have."""
        return getattr(self.positions, "longest", None)

    longest_target = longest_source  # both take their places from one table

    def encode(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, "batch"]
    ) -> tuple[SourceMemory, TargetCache]:
        """Read the source, and project it once for each layer of the decoder; the target's cache is empty.

        Raises:
            TypeError: `source` or `lengths` are not integers.
            ValueError: their shapes do not fit, or an id is outside the vocabulary.
        """
        memory, _ = self._encode(source, lengths, need_weights=False)
        if values_can_be_read(lengths) and bool((lengths == source.shape[1]).all()):
            memory = memory._replace(mask=None)  # nothing is hidden, and no step need ask again
        return memory, _nothing_yet(memory)

    def step(self, token: Int[Tensor, "batch"], state: TargetCache, memory: SourceMemory) -> Step:
        """Score the next word: one new query a layer, which reads the cache of all words before it."""
        logits, state, _, between = self._decode(token[:, None], state, memory, need_weights=False)
        return Step(logits.squeeze(1), state, between[-1].mean(1).squeeze(1))

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, "batch"],
        target: Int[Tensor, "batch target"],
    ) -> Output:
        """Score every next word of a known target at once; the weights are the last layer's mean head."""
        memory, _ = self._encode(source, lengths, need_weights=False)
        check_target(target, source, self.target_embedding)
        logits, _, _, between = self._decode(target, _nothing_yet(memory), memory, need_weights=False)
        return Output(logits, between[-1].mean(1))

    def attention_maps(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, "batch"],
        target: Int[Tensor, "batch target"],
    ) -> Maps:
        """Every weight of every head and layer, for a known target."""
        memory, inside_source = self._encode(source, lengths, need_weights=True)
        check_target(target, source, self.target_embedding)
        _, _, inside_target, between = self._decode(target, _nothing_yet(memory), memory, need_weights=True)
        return Maps(*(torch.stack(part, dim=1) for part in (inside_source, inside_target, between)))

    def _encode(self, source, lengths, *, need_weights: bool) -> tuple[SourceMemory, list[Tensor | None]]:
        longest = None if self.longest_source is None else ("longest", self.longest_source)
        source, lengths = checked_source(source, lengths, self.source_embedding, longest=longest)
        mask = padding_mask(lengths, source.shape[1], checked=True)
        states, weights = self.encoder(
            self._placed(self.source_embedding(source)), mask, need_weights=need_weights
        )
        read = tuple(layer.between.keys_values(states, states) for layer in self.decoder)
        return SourceMemory(read, mask), weights

    def _decode(self, target, state: TargetCache, memory: SourceMemory, *, need_weights: bool):
        """Logits of the new positions; and of each layer the longer cache and the weights."""
        x = self._placed(self.target_embedding(target), first=state.layers[0].keys.shape[-2])
        caches, inside, between = [], [], []
        for i, layer in enumerate(self.decoder):
            needed = need_weights or i + 1 == len(self.decoder)
            x, cache, own, read = layer(
                x, state.layers[i], memory.layers[i], memory.mask, need_weights=needed
            )
            for found, part in ((caches, cache), (inside, own), (between, read)):
                found.append(part)
        logits = F.linear(self.decoder_norm(x), self.target_embedding.weight)
        return logits, TargetCache(tuple(caches)), inside, between

    def _placed(self, words: Float[Tensor, "batch count width"], first: int = 0) -> Tensor:
        """sqrt(d) times the embedding, plus the position."""
        words = words * math.sqrt(words.shape[-1])
        if self.positions is not None:
            words = words + self.positions(words.shape[1], first)
        return self.dropout(words)


def _nothing_yet(memory: SourceMemory) -> TargetCache:
    return TargetCache(tuple(KeysValues(*(part[..., :0, :] for part in read[:2])) for read in memory.layers))
