"""Chapter 01: the encoder-decoder without attention. All the decoder knows of the source is one vector c.

Cho et al. 2014, "Learning phrase representations using RNN encoder-decoder"; Sutskever et al. 2014.
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.attention import masked_softmax, padding_mask
from attncourse.models.interface import Output, Step, check_choice, check_target, checked_source
from attncourse.models.recurrent import DeepOutput, read_sequence

CONTEXTS = ("last", "mapped", "mean", "max")


class FixedContext(NamedTuple):
    """The memory of a fixed-context model: c (batch, hidden), the same for every output word."""

    context: Float[Tensor, "batch hidden"]


class DecoderState(NamedTuple):
    """Where the decoder stands: s (batch, hidden)."""

    hidden: Float[Tensor, "batch hidden"]


class Seq2Seq(nn.Module):
    """Encoder-decoder with one fixed context vector c (Cho et al. 2014, eq. 1-3 and appendix A).

    Encoder: h_t = GRU(x_t, h_{t-1}), c = q(h_1 ... h_T). Decoder: s_t = GRU([y_{t-1}; c], s_{t-1}),
    p(y_t | y_<t, X) = g(s_t, y_{t-1}, c), with s_0 = tanh(V c).

    Args:
        source_vocabulary: number of source words, special symbols included.
        target_vocabulary: number of target words, special symbols included.
        embedding: width of a word vector.
        hidden: width of h, s and c.
        context: how c is made from h_1 ... h_T: "last" (h_T), "mapped" (tanh(W h_T)), "mean" or "max".
        reverse: read the source backwards (Sutskever et al. 2014, section 3.3).

    Raises:
        ValueError: an unknown `context`.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        *,
        embedding: int = 64,
        hidden: int = 128,
        context: str = "last",
        reverse: bool = False,
    ):
        super().__init__()
        check_choice("context", context, CONTEXTS)
        self.context, self.reverse = context, reverse
        self.source_embedding = nn.Embedding(source_vocabulary, embedding)
        self.target_embedding = nn.Embedding(target_vocabulary, embedding)
        self.encoder = nn.GRU(embedding, hidden, batch_first=True)
        self.mapping = nn.Linear(hidden, hidden) if context == "mapped" else None  # W
        self.start = nn.Linear(hidden, hidden)                                     # V
        self.decoder = nn.GRU(embedding + hidden, hidden, batch_first=True)
        self.output = DeepOutput(hidden + embedding + hidden, hidden, target_vocabulary)

    def encode(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, "batch"]
    ) -> tuple[FixedContext, DecoderState]:
        """Press the source into c; return it with the decoder's first state.

        Raises:
            TypeError: `source` or `lengths` are not integers.
            ValueError: their shapes do not fit, or an id is outside the vocabulary.
        """
        source, lengths = checked_source(source, lengths, self.source_embedding)
        words = self.source_embedding(source)
        states, last = read_sequence(self.encoder, words, lengths, backward=self.reverse)
        c = self._summary(states, last, lengths)
        return FixedContext(c), DecoderState(self.start(c).tanh())

    def _summary(self, states: Tensor, last: Tensor, lengths: Tensor) -> Float[Tensor, "batch hidden"]:
        """c = q(h_1 ... h_T): one vector, whatever T is."""
        if self.context == "last":
            return last
        if self.context == "mapped":
            return self.mapping(last).tanh()
        mask = padding_mask(lengths, states.shape[1], checked=True).squeeze(1)
        if self.context == "mean":  # attention with equal scores: every word weighs 1/T
            weights = masked_softmax(torch.zeros_like(states[..., 0]), mask)
            return (weights[:, None, :] @ states).squeeze(1)
        highest = states.masked_fill(~mask[..., None], -torch.inf).amax(1)
        return highest.masked_fill((lengths == 0)[:, None], 0.0)

    def step(self, token: Int[Tensor, "batch"], state: DecoderState, memory: FixedContext) -> Step:
        """Score the next word. The context is the same at every step: there are no weights to report."""
        logits, hidden = self._decode(token[:, None], state, memory)
        return Step(logits[:, 0], DecoderState(hidden), None)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, "batch"],
        target: Int[Tensor, "batch target"],
    ) -> Output:
        """Score every next word of a known target in one pass over it (teacher forcing)."""
        memory, state = self.encode(source, lengths)
        check_target(target, source, self.target_embedding)
        return Output(self._decode(target, state, memory)[0], None)

    def _decode(self, target: Tensor, state: DecoderState, memory: FixedContext) -> tuple[Tensor, Tensor]:
        words = self.target_embedding(target)
        context = memory.context[:, None].expand(-1, target.shape[1], -1)
        states, final = self.decoder(torch.cat([words, context], dim=-1), state.hidden[None].contiguous())
        return self.output(states, words, context), final[0]
