"""Chapters 04 and 05: Luong's translator. It looks with its new state, at all of the source or at a window.

Luong, Pham and Manning 2015, "Effective approaches to attention-based neural machine translation".
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from attncourse.attention import (
    Attended,
    ConcatScore,
    DotScore,
    GeneralScore,
    LocalAttention,
    LocationScore,
    attend,
    padding_mask,
    project_keys,
    values_can_be_read,
)
from attncourse.models.interface import Output, Step, check_choice, check_target, checked_source
from attncourse.models.recurrent import mirror

SCORES = ("dot", "general", "concat", "location")


class LuongMemory(NamedTuple):
    """What the decoder looks at: the encoder's top states, their projections, and how many are real.

    Shapes: annotations (batch, source, hidden); projected the same, or None for a score without a key side;
    mask (batch, 1, source); lengths (batch,).
    """

    annotations: Float[Tensor, "batch source hidden"]
    projected: Float[Tensor, "batch source hidden"] | None
    mask: Bool[Tensor, "batch 1 source"]
    lengths: Int[Tensor, "batch"]


class LuongState(NamedTuple):
    """Where the decoder stands: hidden and cell of every layer, the attentional state, and t.

    Shapes: hidden and cell (batch, layers, hidden); attentional (batch, hidden); time (batch,).
    """

    hidden: Float[Tensor, "batch layers hidden"]
    cell: Float[Tensor, "batch layers hidden"]
    attentional: Float[Tensor, "batch hidden"]
    time: Int[Tensor, "batch"]


class LuongTranslator(nn.Module):
    """Encoder-decoder with global or local attention (Luong et al. 2015, section 3).

    Encoder: a stacked LSTM, whose top states are the annotations. Decoder, for each t, in this order: the new
    state h_t = LSTM(y_{t-1}, h_{t-1}), a_t = softmax(score(h_t, annotations)), c_t = sum_s a_ts annotation_s,
    the attentional state h~_t = tanh(W_c [c_t; h_t]), p(y_t | y_<t, X) = softmax(W_s h~_t).

    Args:
        source_vocabulary: number of source words, special symbols included.
        target_vocabulary: number of target words, special symbols included.
        embedding: width of a word vector.
        hidden: width of every state, annotation and context.
        layers: how many LSTMs lie on top of each other, in the encoder and in the decoder.
        score: "dot", "general", "concat" or "location" (eq. 7-8).
        centre: None looks at the whole source (global attention); "monotonic", "predicted" and "offset" look
            at a window, as `LocalAttention` does.
        half_width: D of the window.
        gaussian: "none", "outside" or "inside", as `LocalAttention` has it.
        input_feeding: h~_{t-1} is part of the LSTM's next input (section 3.3).
        max_source: longest source that the location score can weigh.
        reverse: read the source from its last word to its first, as the paper's systems with attention do, so
            that an annotation knows the words to the right of its own.

    Raises:
        ValueError: an unknown `score`, or a window that `LocalAttention` refuses.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        *,
        embedding: int = 64,
        hidden: int = 96,
        layers: int = 1,
        score: str = "general",
        centre: str | None = None,
        half_width: int = 4,
        gaussian: str = "none",
        input_feeding: bool = False,
        max_source: int = 64,
        reverse: bool = True,
    ):
        super().__init__()
        check_choice("score", score, SCORES)
        self.input_feeding, self.reverse = input_feeding, reverse
        self.longest = ("max_source", max_source) if score == "location" else None
        self.source_embedding = nn.Embedding(source_vocabulary, embedding)
        self.target_embedding = nn.Embedding(target_vocabulary, embedding)
        self.encoder = nn.LSTM(embedding, hidden, layers, batch_first=True)
        self.decoder = nn.LSTM(embedding + input_feeding * hidden, hidden, layers, batch_first=True)
        self.score = {
            "dot": lambda: DotScore(),
            "general": lambda: GeneralScore(hidden, hidden),
            "concat": lambda: ConcatScore(hidden, hidden, hidden),
            "location": lambda: LocationScore(hidden, max_source),
        }[score]()
        self.local = None if centre is None else LocalAttention(
            self.score, half_width=half_width, centre=centre, gaussian=gaussian, query_width=hidden
        )
        self.combine = nn.Linear(2 * hidden, hidden, bias=False)           # W_c
        self.words = nn.Linear(hidden, target_vocabulary, bias=False)      # W_s

    def encode(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, "batch"]
    ) -> tuple[LuongMemory, LuongState]:
        """Annotate every source word; the decoder goes on from the encoder's last states, layer by layer.

        Raises:
            TypeError: `source` or `lengths` are not integers.
            ValueError: their shapes do not fit, an id is outside the vocabulary, or a source is too long for
                the location score.
        """
        source, lengths = checked_source(source, lengths, self.source_embedding, longest=self.longest)
        annotations, hidden, cell = self._read(self.source_embedding(source), lengths)
        mask = padding_mask(lengths, source.shape[1], checked=True)
        memory = LuongMemory(annotations, project_keys(self.score, annotations), mask, lengths)
        return memory, LuongState(hidden, cell, torch.zeros_like(hidden[:, 0]), torch.zeros_like(lengths))

    def _read(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Top states, each at the place of its word, and hidden and cell of every layer when all is read."""
        if self.reverse:
            words = mirror(words, lengths)
        # Packing needs the lengths as numbers, and a row at least.
        run = self._packed if words.shape[0] and values_can_be_read(lengths) else self._word_by_word
        states, final = run(words, lengths)
        if self.reverse:
            states = mirror(states, lengths)
        real = (lengths > 0)[:, None, None]
        return states * real, *(part.transpose(0, 1) * real for part in final)

    def _packed(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        # The cell after the last word is not among the outputs of a padded run. An empty row cannot be
        # packed: it reads one padding word, and forgets it again.
        some = lengths.clamp(min=1).cpu()
        packed = pack_padded_sequence(words, some, batch_first=True, enforce_sorted=False)
        states, final = self.encoder(packed)
        return pad_packed_sequence(states, batch_first=True, total_length=words.shape[1])[0], final

    def _word_by_word(self, words: Tensor, lengths: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """The same without a look at the lengths: a row that has ended keeps its hidden and its cell."""
        layers, hidden = self.encoder.num_layers, self.encoder.hidden_size
        final = (words.new_zeros(layers, words.shape[0], hidden),) * 2
        states = []
        for place, word in enumerate(words.split(1, dim=1)):
            top, after = self.encoder(word, final)
            goes_on = (place < lengths)[:, None]
            final = tuple(torch.where(goes_on, new, old) for new, old in zip(after, final, strict=True))
            states.append(top * goes_on[..., None])
        return torch.cat(states, dim=1), final

    def step(self, token: Int[Tensor, "batch"], state: LuongState, memory: LuongMemory) -> Step:
        """Move on by one word, look at the source, then score the next word."""
        word = self.target_embedding(token[:, None])
        attentional, read, state = self._decode(word, state, memory)
        return Step(self.words(attentional[:, 0]), state, read.weights[:, 0])

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, "batch"],
        target: Int[Tensor, "batch target"],
    ) -> Output:
        """Score every next word of a known target: in one call, unless each step needs the one before it."""
        memory, state = self.encode(source, lengths)
        check_target(target, source, self.target_embedding)
        words = self.target_embedding(target)
        pieces = words.split(1, dim=1) if self.input_feeding else [words]
        states, weights = [], []
        for piece in pieces:
            attentional, read, state = self._decode(piece, state, memory)
            states.append(attentional)
            weights.append(read.weights)
        return Output(self.words(torch.cat(states, dim=1)), torch.cat(weights, dim=1))

    def _decode(
        self, words: Tensor, state: LuongState, memory: LuongMemory
    ) -> tuple[Float[Tensor, "batch steps hidden"], Attended, LuongState]:
        """h_t -> a_t -> c_t -> h~_t, for as many steps as `words` has; with input feeding, that is one."""
        if self.input_feeding:
            words = torch.cat([words, state.attentional[:, None].to(words.dtype)], dim=-1)
        before = tuple(part.transpose(0, 1).contiguous() for part in (state.hidden, state.cell))
        hidden, after = self.decoder(words, before)
        read = self._look(hidden, state.time, memory)
        attentional = self.combine(torch.cat([read.context, hidden], dim=-1)).tanh()
        hidden, cell = (part.transpose(0, 1) for part in after)
        return attentional, read, LuongState(hidden, cell, attentional[:, -1], state.time + words.shape[1])

    def _look(self, query: Tensor, time: Tensor, memory: LuongMemory) -> Attended:
        """Everywhere, or in a window."""
        h, projected = memory.annotations, memory.projected
        if self.local is None:
            return attend(query, h, h, score=self.score, mask=memory.mask, projected_keys=projected)
        return self.local(
            query, h, h, lengths=memory.lengths, time=time, projected_keys=projected, checked=True
        )
