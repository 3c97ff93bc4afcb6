"""Chapter 06: a classifier of documents that reads words into sentences, and sentences into a document.

Yang et al. 2016, "Hierarchical attention networks for document classification".
"""

from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.attention import Attended, AttentionPooling, masked_softmax, padding_mask
from attncourse.models.interface import IDS, WHOLE, check_choice, check_dtype, check_numbers
from attncourse.models.recurrent import read_sequence

POOLINGS = ("attention", "mean", "last")


class Classified(NamedTuple):
    """What a classifier says of documents, and how much each word and each sentence weighed.

    Shapes: logits (batch, classes); word_weights (batch, sentences, words), within each sentence;
    sentence_weights (batch, sentences). Weights of "mean" are even; "last" has None, since it is no weighted
    sum: one half of its vector comes from the last state, the other from the first.
    """

    logits: Float[Tensor, "batch classes"]
    word_weights: Float[Tensor, "batch sentences words"] | None
    sentence_weights: Float[Tensor, "batch sentences"] | None


class LevelEncoder(nn.Module):
    """One level of the hierarchy: a GRU in each direction reads the parts, then one vector is made of them.

    h_t = [forward GRU; backward GRU] (Yang et al. 2016, section 2.2); or, if not recurrent, the part itself:
    then nothing but the pooling can choose among them. What becomes of the states:

    - "attention": their sum weighted by `AttentionPooling`, eq. 5-7 for words and 8-10 for sentences.
    - "mean": their mean, which is attention with equal scores.
    - "last": where each GRU ends, [forward state of the last part; backward state of the first].

    Args:
        inputs: width of a part's vector.
        hidden: width of each GRU's state, so a state has width 2 hidden; None leaves the GRUs out.
        width: of the small network in the attention.
        pooling: "attention", "mean" or "last".
    """

    def __init__(self, inputs: int, hidden: int | None, width: int, pooling: str):
        super().__init__()
        self.recurrent, self.pooling = hidden is not None, pooling
        if self.recurrent:
            self.forward_reader = nn.GRU(inputs, hidden, batch_first=True)
            self.backward_reader = nn.GRU(inputs, hidden, batch_first=True)
        states = 2 * hidden if self.recurrent else inputs
        self.attention = AttentionPooling(states, width=width) if pooling == "attention" else None

    def forward(
        self, parts: Float[Tensor, "rows parts inputs"], lengths: Int[Tensor, "rows"]
    ) -> tuple[Float[Tensor, "rows d"], Float[Tensor, "rows parts"] | None]:
        """The vector of each row and the weights of its parts; a row of length 0 has the vector 0."""
        states, last = self.annotate(parts, lengths) if self.recurrent else (parts, None)
        if self.pooling == "last":
            return last, None
        mask = padding_mask(lengths, parts.shape[1], checked=True)
        if self.pooling == "attention":
            read = self.attention(states, mask=mask)
        else:
            weights = masked_softmax(torch.zeros_like(states[:, None, :, 0]), mask)
            read = Attended(weights @ states, weights)
        return read.context.squeeze(1), read.weights.squeeze(1)

    def annotate(
        self, parts: Float[Tensor, "rows parts inputs"], lengths: Int[Tensor, "rows"]
    ) -> tuple[Float[Tensor, "rows parts d"], Float[Tensor, "rows d"]]:
        """The states h_t, and the two final ones, each after all parts were read."""
        forwards, at_the_end = read_sequence(self.forward_reader, parts, lengths)
        backwards, at_the_start = read_sequence(self.backward_reader, parts, lengths, backward=True)
        return torch.cat([forwards, backwards], dim=-1), torch.cat([at_the_end, at_the_start], dim=-1)


class HierarchicalAttentionNetwork(nn.Module):
    """Words make sentence vectors, sentence vectors make a document vector, which is classified.

    v = the sentence level over the word level, p = softmax(W_c v + b_c)  (Yang et al. 2016, eq. 11).
    The three poolings share all but the step from states to one vector.

    Args:
        vocabulary: number of words, special symbols included.
        classes: number of classes.
        pooling: "attention", "mean" or "last", on both levels.
        embedding: width of a word vector.
        hidden: width of each GRU's state, so a sentence vector has width 2 hidden; None leaves the GRUs out,
            and words and sentences are as wide as the embedding.
        width: of the small network in the attention; as wide as a sentence vector if not given, as in the
            paper.

    Raises:
        ValueError: another pooling, or "last" without GRUs, which have a last state.
    """

    def __init__(
        self,
        vocabulary: int,
        classes: int,
        *,
        pooling: str = "attention",
        embedding: int = 32,
        hidden: int | None = 32,
        width: int | None = None,
    ):
        super().__init__()
        check_choice("pooling", pooling, POOLINGS)
        if pooling == "last" and hidden is None:
            raise ValueError("pooling is 'last' and hidden is None: only a GRU has a last state; "
                             "give hidden a width, or choose attention or mean")
        vector = embedding if hidden is None else 2 * hidden
        self.embedding = nn.Embedding(vocabulary, embedding)                # W_e
        self.words = LevelEncoder(embedding, hidden, width or vector, pooling)
        self.sentences = LevelEncoder(vector, hidden, width or vector, pooling)
        self.output = nn.Linear(vector, classes)                            # W_c, b_c

    def forward(
        self,
        documents: Int[Tensor, "batch sentences words"],
        words: Int[Tensor, "batch sentences"],
        sentences: Int[Tensor, "batch"],
    ) -> Classified:
        """Classify documents of padded sentences.

        Args:
            documents: ids of words.
            words: how many words of each sentence are real.
            sentences: how many sentences of each document are real.

        Raises:
            TypeError: ids or lengths that are not integers.
            ValueError: shapes or lengths that do not fit, or an id outside the vocabulary.
        """
        vectors, word_weights = self.read_words(documents, words, sentences)
        vector, sentence_weights = self.sentences(vectors, sentences.to(vectors.device, torch.int64))
        return Classified(self.output(vector), word_weights, sentence_weights)

    def read_words(
        self,
        documents: Int[Tensor, "batch sentences words"],
        words: Int[Tensor, "batch sentences"],
        sentences: Int[Tensor, "batch"],
    ) -> tuple[Float[Tensor, "batch sentences d"], Float[Tensor, "batch sentences words"] | None]:
        """A vector for each sentence, and the weights of its words; both are 0 for a sentence of padding."""
        documents, words, sentences = _checked(documents, words, sentences, self.embedding)
        # Every sentence of the batch is a row of its own: no word sees beyond its sentence.
        ids, lengths = documents.flatten(0, 1), _real(words, sentences).flatten()
        vectors, weights = self.words(self.embedding(ids), lengths)
        shape = documents.shape[:2]
        return vectors.unflatten(0, shape), None if weights is None else weights.unflatten(0, shape)


def _real(words: Tensor, sentences: Tensor) -> Int[Tensor, "batch sentences"]:
    """Words of each sentence, 0 for a sentence beyond the end of its document."""
    return words.masked_fill(~padding_mask(sentences, words.shape[1], checked=True).squeeze(1), 0)


def _checked(
    documents: Tensor, words: Tensor, sentences: Tensor, embedding: nn.Embedding
) -> tuple[Int[Tensor, "batch sentences words"], Int[Tensor, "batch sentences"], Int[Tensor, "batch"]]:
    """The three as they were given, the lengths as int64 on the documents' device, if they fit together."""
    check_dtype("documents is", documents, IDS, "it must hold integers, torch.int64 or torch.int32")
    if documents.dim() != 3 or 0 in documents.shape[1:]:
        raise ValueError(f"documents has shape {tuple(documents.shape)}: give (batch, sentences, words), "
                         "with one sentence and one word at least, be they padding")
    for name, lengths, axes in (("words", words, 2), ("sentences", sentences, 1)):
        check_dtype(f"{name} is", lengths, WHOLE, "it must hold integers")
        if lengths.shape != documents.shape[:axes]:
            raise ValueError(f"{name} has shape {tuple(lengths.shape)}: for documents of shape "
                             f"{tuple(documents.shape)} it must be {tuple(documents.shape[:axes])}")
    words, sentences = (lengths.to(documents.device, torch.int64) for lengths in (words, sentences))
    check_numbers(*(
        (f"{name} holds numbers", tensor, most, f"they must lie between 0 and {most}")
        for name, tensor, most in (("documents", documents, embedding.num_embeddings - 1),
                                   ("words", words, documents.shape[2]),
                                   ("sentences", sentences, documents.shape[1]))
    ))
    return documents, words, sentences
