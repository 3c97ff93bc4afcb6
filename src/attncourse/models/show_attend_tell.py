"""Chapter 03: Show, Attend and Tell. A small CNN annotates the cells of an image; a decoder looks and speaks.

Xu et al. 2015, "Show, attend and tell: neural image caption generation with visual attention".
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from attncourse.attention import AdditiveScore, HardAttention
from attncourse.models.interface import Step, check_images, check_target

LABELS = 10


class CellAnnotator(nn.Module):
    """A CNN that turns an image into a grid of features, one vector for each cell of 4 x 4 pixels.

    It is trained before the decoder, to tell which digits an image holds: an image counts as showing a digit
    if any of its cells does. Nobody tells it where. In the paper this part is a VGG network trained on
    ImageNet, also frozen afterwards.

    Args:
        width: length of a feature vector.
        labels: number of things an image may hold.
    """

    def __init__(self, width: int = 64, labels: int = LABELS):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
        )
        self.labels = nn.Conv2d(width, labels, 1)

    def forward(self, images: Float[Tensor, "batch 1 height width"]) -> Float[Tensor, "batch cells features"]:
        """The features, row by row from the top left cell.

        Raises:
            TypeError: images that are not floating-point numbers.
            ValueError: another shape, or other channels.
        """
        return self._grid(images).flatten(2).transpose(1, 2)

    def label(self, images: Float[Tensor, "batch 1 height width"]) -> Float[Tensor, "batch labels"]:
        """A logit for each label: that of the cell which shows it best, softly, so that all cells learn.

        The logarithm of the mean of exp over the cells (Pinheiro and Collobert 2015, eq. 6, with r = 1).
        """
        cells = self.labels(self._grid(images)).flatten(2)
        return cells.logsumexp(-1) - math.log(cells.shape[-1])

    def _grid(self, images: Tensor) -> Float[Tensor, "batch features rows columns"]:
        check_images(images, 1)
        return self.layers(images)


class Picture(NamedTuple):
    """The memory: an annotation a_i for each cell, its projection U a_i for the score, and their mean.

    Shapes: annotations (batch, cells, d); projected (batch, cells, width); mean (batch, d).
    """

    annotations: Float[Tensor, "batch cells d"]
    projected: Float[Tensor, "batch cells width"]
    mean: Float[Tensor, "batch d"]


class LSTMState(NamedTuple):
    """Where the decoder stands: h and c, each (batch, hidden)."""

    hidden: Float[Tensor, "batch hidden"]
    cell: Float[Tensor, "batch hidden"]


class CaptionOutput(NamedTuple):
    """All steps of a known caption: `Output`, the probabilities alpha of the choices, and the gates beta.

    Shapes: logits (batch, target, vocabulary); weights and alpha (batch, target, cells), None without
    attention; gates (batch, target).
    """

    logits: Float[Tensor, "batch target vocabulary"]
    weights: Float[Tensor, "batch target cells"] | None
    alpha: Float[Tensor, "batch target cells"] | None
    gates: Float[Tensor, "batch target"]


class ShowAttendTell(nn.Module):
    """Captions by attention (Xu et al. 2015, section 3 and 4).

    At each step: alpha_t = softmax(f_att(a_i, h_{t-1})); z_t = beta_t times what was read with it, beta_t =
    sigmoid(f_beta(h_{t-1})); h_t = LSTM([E y_{t-1}; z_t], h_{t-1}); p(y_t) = softmax(L_o (E y_{t-1} + L_h h_t
    + L_z z_t)). The start, h_0 and c_0, is made from the mean annotation.

    Args:
        annotator: image -> features of its cells; it is frozen here, and used in evaluation mode.
        vocabulary: number of words, special symbols included.
        choice: how a place is chosen, as in `HardAttention`; None reads the mean annotation at every step.
        temperature: of the choice "gumbel".
        embedding: width m of a word vector.
        hidden: width n of h and c.
        width: width d of an annotation, and of the score's hidden layer.
    """

    def __init__(
        self,
        annotator: CellAnnotator,
        vocabulary: int,
        *,
        choice: str | None = "expectation",
        temperature: float = 1.0,
        embedding: int = 64,
        hidden: int = 128,
        width: int = 64,
    ):
        super().__init__()
        self.annotator = annotator.requires_grad_(False)
        self.annotate = nn.Linear(annotator.labels.in_channels + 2, width)
        self.words = nn.Embedding(vocabulary, embedding)                            # E
        self.start_hidden = nn.Sequential(nn.Linear(width, hidden), nn.Tanh())      # f_init,h
        self.start_cell = nn.Sequential(nn.Linear(width, hidden), nn.Tanh())        # f_init,c
        score = AdditiveScore(hidden, width, width)                                # f_att
        self.attention = HardAttention(score, choice, temperature=temperature) if choice else None
        self.gate = nn.Linear(hidden, 1)                                            # f_beta
        self.cell = nn.LSTMCell(embedding + width, hidden)
        self.from_hidden = nn.Linear(hidden, embedding, bias=False)                 # L_h
        self.from_context = nn.Linear(width, embedding, bias=False)                 # L_z
        self.output = nn.Linear(embedding, vocabulary)                              # L_o

    def train(self, mode: bool = True) -> "ShowAttendTell":
        """Training mode for all but the annotator, whose statistics are as frozen as its weights."""
        super().train(mode)
        self.annotator.eval()
        return self

    def encode(self, images: Float[Tensor, "batch 1 height width"]) -> tuple[Picture, LSTMState]:
        """Annotate the cells of the images; start from the mean annotation.

        Raises:
            TypeError: images that are not floating-point numbers.
            ValueError: another shape, other channels, or images that are not square.
        """
        check_images(images, square=True)
        features = self.annotator(images)
        # A convolution sees what lies in a cell, not where the cell lies: it is told.
        places = cell_places(features.shape[1]).to(features).expand(features.shape[0], -1, -1)
        annotations = self.annotate(torch.cat([features, places], dim=-1)).relu()
        mean = annotations.mean(1)
        projected = self.attention.score.project_keys(annotations) if self.attention else mean
        state = LSTMState(self.start_hidden(mean), self.start_cell(mean))
        return Picture(annotations, projected, mean), state

    def step(self, token: Int[Tensor, "batch"], state: LSTMState, memory: Picture) -> Step:
        """Look at the image, then score the next word."""
        word = self.words(token)
        state, context, weights, _, _ = self._advance(word, state, memory)
        return Step(self._scores(word, state.hidden, context), state, weights)

    def forward(
        self, images: Float[Tensor, "batch 1 height width"], target: Int[Tensor, "batch target"]
    ) -> CaptionOutput:
        """Score every next word of a known caption, which begins with the start symbol.

        Raises:
            TypeError: images that are not floating-point numbers, or ids that are not integers.
            ValueError: shapes that do not fit, or an id outside the vocabulary.
        """
        memory, state = self.encode(images)
        check_target(target, images, self.words, of="images")
        words = self.words(target)
        steps = []
        for word in words.unbind(1):
            state, *found = self._advance(word, state, memory)
            steps.append((state.hidden, *found))
        hidden, context, weights, alpha, gates = (
            None if parts[0] is None else torch.stack(parts, dim=1) for parts in zip(*steps, strict=True)
        )
        return CaptionOutput(self._scores(words, hidden, context), weights, alpha, gates)

    def _advance(self, word: Tensor, state: LSTMState, memory: Picture) -> tuple:
        """h_{t-1} -> alpha_t, s_t, beta_t -> z_t -> h_t."""
        context, weights, alpha = memory.mean, None, None
        if self.attention is not None:
            query, a = state.hidden[:, None], memory.annotations
            read = self.attention(query, a, a, projected_keys=memory.projected)
            context, weights, alpha = (part.squeeze(1) for part in read)
        gate = self.gate(state.hidden).sigmoid()
        context = gate * context
        state = LSTMState(*self.cell(torch.cat([word, context], dim=-1), state))
        return state, context, weights, alpha, gate.squeeze(-1)

    def _scores(self, word: Tensor, hidden: Tensor, context: Tensor) -> Tensor:
        """Deep output (eq. 7)."""
        return self.output(word + self.from_hidden(hidden) + self.from_context(context))


def cell_places(cells: int) -> Float[Tensor, "cells 2"]:
    """Row and column of each cell of a square grid, from -1 (top, left) to 1."""
    side = torch.linspace(-1.0, 1.0, round(cells**0.5))
    return torch.cartesian_prod(side, side)


def doubly_stochastic_penalty(
    alpha: Float[Tensor, "batch steps cells"], real: Bool[Tensor, "batch steps"]
) -> Float[Tensor, ""]:
    """sum over cells of (1 - sum over steps of alpha)^2, mean over the batch (Xu et al. 2015, eq. 14).

    Each row of alpha sums to 1 over the cells; this asks each cell to be looked at about once, too.

    Args:
        alpha: attention at each step.
        real: False for steps that are padding.
    """
    looked = (alpha * real[..., None]).sum(1)
    return (1 - looked).square().sum(-1).mean()
