"""Chapter 02: RNNsearch, the first translator with attention. It looks back at the source for every word.

Bahdanau, Cho and Bengio 2015, "Neural machine translation by jointly learning to align and translate".
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attncourse.attention import AdditiveScore, attend, padding_mask, project_keys
from attncourse.models.interface import Output, Step, check_target, checked_source
from attncourse.models.recurrent import DeepOutput, read_sequence
from attncourse.models.seq2seq import DecoderState


class Annotations(NamedTuple):
    """The memory of RNNsearch: one annotation h_j per source word, its projection U h_j, and the mask.

    Shapes: annotations (batch, source, 2 hidden); projected (batch, source, width); mask (batch, 1, source).
    """

    annotations: Float[Tensor, "batch source d_k"]
    projected: Float[Tensor, "batch source width"] | None
    mask: Bool[Tensor, "batch 1 source"]


class RNNSearch(nn.Module):
    """Encoder-decoder with soft attention (Bahdanau et al. 2015, section 3 and appendix A).

    Encoder: h_j = [forward GRU; backward GRU]. Decoder, for each i, in this order: e_ij = a(s_{i-1}, h_j),
    alpha_i = softmax(e_i), c_i = sum_j alpha_ij h_j, s_i = GRU([y_{i-1}; c_i], s_{i-1}),
    p(y_i | y_<i, X) = g(s_i, y_{i-1}, c_i). The score reads the previous state: the new one needs c_i first.

    Args:
        source_vocabulary: number of source words, special symbols included.
        target_vocabulary: number of target words, special symbols included.
        embedding: width of a word vector.
        hidden: width of s and of each direction of h, so an annotation has width 2 hidden.
        width: width of the additive score's hidden layer; `hidden` if not given.
    """

    def __init__(
        self,
        source_vocabulary: int,
        target_vocabulary: int,
        *,
        embedding: int = 64,
        hidden: int = 96,
        width: int | None = None,
    ):
        super().__init__()
        self.source_embedding = nn.Embedding(source_vocabulary, embedding)
        self.target_embedding = nn.Embedding(target_vocabulary, embedding)
        self.forward_encoder = nn.GRU(embedding, hidden, batch_first=True)
        self.backward_encoder = nn.GRU(embedding, hidden, batch_first=True)
        self.start = nn.Linear(hidden, hidden)                           # W_s
        self.score = AdditiveScore(hidden, 2 * hidden, width or hidden)  # a
        self.cell = nn.GRUCell(embedding + 2 * hidden, hidden)           # f
        self.output = DeepOutput(hidden + embedding + 2 * hidden, hidden, target_vocabulary)  # g

    def encode(
        self, source: Int[Tensor, "batch source"], lengths: Int[Tensor, "batch"]
    ) -> tuple[Annotations, DecoderState]:
        """Annotate every source word; project the annotations once; start from the backward state at word 1.

        Raises:
            TypeError: `source` or `lengths` are not integers.
            ValueError: their shapes do not fit, or an id is outside the vocabulary.
        """
        source, lengths = checked_source(source, lengths, self.source_embedding)
        words = self.source_embedding(source)
        forwards, _ = read_sequence(self.forward_encoder, words, lengths)
        backwards, at_word_1 = read_sequence(self.backward_encoder, words, lengths, backward=True)
        annotations = torch.cat([forwards, backwards], dim=-1)
        mask = padding_mask(lengths, source.shape[1], checked=True)
        memory = Annotations(annotations, project_keys(self.score, annotations), mask)
        return memory, DecoderState(self.start(at_word_1).tanh())

    def step(self, token: Int[Tensor, "batch"], state: DecoderState, memory: Annotations) -> Step:
        """Look back at the source, then score the next word."""
        word = self.target_embedding(token)
        hidden, context, weights = self._advance(word, state.hidden, memory)
        return Step(self.output(hidden, word, context), DecoderState(hidden), weights)

    def forward(
        self,
        source: Int[Tensor, "batch source"],
        lengths: Int[Tensor, "batch"],
        target: Int[Tensor, "batch target"],
    ) -> Output:
        """Score every next word of a known target; the states depend on each other, so this is a loop."""
        memory, (hidden,) = self.encode(source, lengths)
        check_target(target, source, self.target_embedding)
        words = self.target_embedding(target)
        steps = []
        for word in words.unbind(1):
            hidden, context, weights = self._advance(word, hidden, memory)
            steps.append((hidden, context, weights))
        states, contexts, weights = (torch.stack(part, dim=1) for part in zip(*steps, strict=True))
        # The output layer needs no loop: all steps at once.
        return Output(self.output(states, words, contexts), weights)

    def _advance(self, word: Tensor, hidden: Tensor, memory: Annotations) -> tuple[Tensor, Tensor, Tensor]:
        """s_{i-1} -> alpha_i -> c_i -> s_i."""
        h, projected = memory.annotations, memory.projected
        read = attend(hidden[:, None], h, h, score=self.score, mask=memory.mask, projected_keys=projected)
        context, weights = read.context.squeeze(1), read.weights.squeeze(1)
        return self.cell(torch.cat([word, context], dim=-1), hidden), context, weights
