"""The parts that both recurrent translators share: reading a padded batch, and the deep output."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from attncourse.attention import padding_mask


def read_sequence(
    rnn: nn.GRU,
    embedded: Float[Tensor, "batch source embedding"],
    lengths: Int[Tensor, "batch"],
    *,
    backward: bool = False,
) -> tuple[Float[Tensor, "batch source hidden"], Float[Tensor, "batch hidden"]]:
    """Run a one-layer GRU over each row up to its true length; rows may come in any order, and may be empty.

    Reads a row from its first word to its last or, if `backward`, from its last word to its first.

    Returns:
        The states, each at the position of the word that was read (zero after the end of a row), and the
        final state, when all words are read (zero for an empty row).
    """
    # In the order of reading all padding comes last, so no word's state depends on it. A packed batch would
    # not compute it at all; but on a CPU the gradient of a packed batch takes twice as long.
    if backward:
        embedded = mirror(embedded, lengths)
    # The framework would start from these zeros, too; but given them, it also runs inside `torch.func.vmap`.
    states, _ = rnn(embedded, embedded.new_zeros(1, embedded.shape[0], rnn.hidden_size))
    if backward:
        states = mirror(states, lengths)
    states = states.masked_fill(~padding_mask(lengths, states.shape[1], checked=True).transpose(1, 2), 0.0)
    last = torch.zeros_like(lengths) if backward else (lengths - 1).clamp(min=0)
    return states, states[torch.arange(states.shape[0], device=states.device), last]


def mirror(
    vectors: Float[Tensor, "batch source width"], lengths: Int[Tensor, "batch"]
) -> Float[Tensor, "batch source width"]:
    """Each row with its real positions in reverse order; the padding stays where it is."""
    position = torch.arange(vectors.shape[1], device=vectors.device)
    opposite = lengths[:, None] - 1 - position
    order = torch.where(opposite >= 0, opposite, position)
    return vectors.gather(1, order[..., None].expand_as(vectors))


class DeepOutput(nn.Module):
    """Next-word scores from state, previous word and context, through one maxout layer.

    t = max over pairs of (U s + V y + C c), logits = W t  (Bahdanau et al. 2015, appendix A.2.2; maxout from
    Goodfellow et al. 2013). The main text (eq. 4) reads the new state s_i, the appendix s_{i-1}: we follow
    eq. 4.

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
