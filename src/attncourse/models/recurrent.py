"""The parts that both recurrent translators share: reading a padded batch, and the deep output."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def checked_source(source: Tensor, lengths: Tensor) -> Int[Tensor, "batch source"]:
    """The source, if it is (batch, source) integers with one length per row; with one column at least.

    Raises:
        TypeError: ids that are not integers.
        ValueError: another shape, or a length that does not fit.
    """
    if source.is_floating_point():
        raise TypeError(f"source is {source.dtype}: it must hold integer token ids")
    if source.dim() != 2:
        raise ValueError(f"source has shape {tuple(source.shape)}: it must have shape (batch, source)")
    if lengths.shape != source.shape[:1]:
        raise ValueError(f"lengths have shape {tuple(lengths.shape)}: source has {source.shape[0]} rows, "
                         "and each needs one length")
    if lengths.numel() and not 0 <= int(lengths.min()) <= int(lengths.max()) <= source.shape[1]:
        raise ValueError(f"lengths lie between {int(lengths.min())} and {int(lengths.max())}: "
                         f"they must lie between 0 and the {source.shape[1]} positions of source")
    # A batch of empty sources has no columns. One more, hidden by the lengths, lets all that follows run as ever.
    return source if source.shape[1] else source.new_zeros(len(source), 1)


def read_sequence(
    rnn: nn.GRU, embedded: Float[Tensor, "batch source embedding"], lengths: Int[Tensor, "batch"]
) -> tuple[Float[Tensor, "batch source states"], Float[Tensor, "batch directions hidden"]]:
    """Run a one-layer GRU over each row up to its true length; rows may come in any order, and may be empty.

    Returns the states at every position (zero after the end of a row) and the final state of each direction
    (after the last word for the forward one, after the first word for the backward one; zero for an empty row).
    """
    # Packing refuses a row of length 0. Such a row is read as one padding word, then set to zero.
    packed = pack_padded_sequence(embedded, lengths.clamp(min=1).cpu(), batch_first=True, enforce_sorted=False)
    states, final = rnn(packed)
    states, _ = pad_packed_sequence(states, batch_first=True, total_length=embedded.shape[1])
    filled = (lengths > 0)[:, None, None]
    return states * filled, final.transpose(0, 1) * filled


class DeepOutput(nn.Module):
    """Next-word scores from state, previous word and context, through one maxout layer.

    t = max over pairs of (U s + V y + C c), logits = W t  (Bahdanau et al. 2015, appendix A.2.2; maxout from
    Goodfellow et al. 2013). The main text (eq. 4) reads the new state s_i, the appendix s_{i-1}: we follow eq. 4.

    Args:
        inputs: widths of state, embedding and context added up.
        width: number of maxout units; each is the larger of two linear ones.
        vocabulary: number of target words.
    """

    def __init__(self, inputs: int, width: int, vocabulary: int):
        super().__init__()
        self.pieces = nn.Linear(inputs, 2 * width)                  # U, V, C side by side
        self.words = nn.Linear(width, vocabulary)                   # W

    def forward(self, *parts: Float[Tensor, "*batch _"]) -> Float[Tensor, "*batch vocabulary"]:
        pieces = self.pieces(torch.cat(parts, dim=-1))
        return self.words(pieces.unflatten(-1, (-1, 2)).amax(-1))
