"""Chapter 10: DETR. Learned queries look over an image, and each answers with one object or with none.

Carion et al. 2020, "End-to-end object detection with Transformers". The positions are added to queries and
keys in every layer; what is read carries none.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from attncourse.attention import GridPositions, MultiHeadAttention
from attncourse.models.interface import check_choice, check_images
from attncourse.models.set_prediction import Detected
from attncourse.models.transformer import NORMS, Encoder, FeedForward, Residual


class CellBackbone(nn.Module):
    """A small CNN: a grid of features, a cell for every 6 x 6 pixels.

    Like the paper's ResNet it is trained first, on labels of whole images: nobody tells it where things are.

    Args:
        features: length of a cell's vector.
        labels: number of kinds of things.
        channels: of the images.
    """

    def __init__(self, features: int = 64, labels: int = 10, channels: int = 1):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(channels, 32, 5, stride=3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
            nn.Conv2d(32, features, 3, stride=2, padding=1), nn.BatchNorm2d(features), nn.ReLU(),
            nn.Conv2d(features, features, 3, padding=1), nn.BatchNorm2d(features), nn.ReLU(),
        )
        self.features, self.channels = features, channels
        self.labels = nn.Conv2d(features, labels, 1)

    def forward(
        self, images: Float[Tensor, "batch channels height width"]
    ) -> Float[Tensor, "batch features rows columns"]:
        """The features of the cells.

        Raises:
            TypeError: images that are not floating-point numbers.
            ValueError: another shape, other channels, or fewer than 3 x 3 pixels, which make no cell.
        """
        check_images(images, self.channels, least=3)
        return self.layers(images)

    def label(self, images: Float[Tensor, "batch channels height width"]) -> Float[Tensor, "batch labels"]:
        """A logit for each label of the whole image, as in `CellAnnotator`: the cells' soft maximum."""
        cells = self.labels(self(images)).flatten(2)
        return cells.logsumexp(-1) - math.log(cells.shape[-1])


class QueryLayer(nn.Module):
    """Objects ask one another, then the image; feed-forward. No mask, no order: all at the same time.

    Args:
        width, heads, inner, dropout, norm: as in `EncoderLayer`.
    """

    def __init__(self, width: int, heads: int, inner: int, *, dropout: float, norm: str):
        super().__init__()
        check_choice("norm", norm, NORMS)
        self.inside = MultiHeadAttention(width, heads, dropout=dropout)
        self.between = MultiHeadAttention(width, heads, dropout=dropout)
        self.feed_forward = FeedForward(width, inner, dropout, nn.ReLU)
        self.around_inside = Residual(width, dropout, norm, 1e-5)
        self.around_between = Residual(width, dropout, norm, 1e-5)
        self.around_feed_forward = Residual(width, dropout, norm, 1e-5)

    def forward(
        self,
        x: Float[Tensor, "batch queries width"],
        queries: Float[Tensor, "queries width"],
        memory: Float[Tensor, "batch cells width"],
        positions: Float[Tensor, "cells width"],
        *,
        need_weights: bool = False,
    ) -> tuple[Float[Tensor, "batch queries width"], Float[Tensor, "batch heads queries cells"] | None]:
        """What the queries know after this layer, and where they looked.

        Args:
            x: what they know so far; at first nothing.
            queries: the learned vectors, which say who asks.
            memory: the encoded cells.
            positions: of the cells.
        """
        value = self.around_inside.before(x)
        asked = value + queries
        own = self.inside(asked, asked, value, need_weights=False)
        x = self.around_inside.after(x, own.context)
        asked = self.around_between.before(x) + queries
        read = self.between(asked, memory + positions, memory, need_weights=need_weights)
        x = self.around_between.after(x, read.context)
        x = self.around_feed_forward.after(x, self.feed_forward(self.around_feed_forward.before(x)))
        return x, read.weights


class DetectionMaps(NamedTuple):
    """Every weight over the image: which cells a cell reads, and which cells a query reads.

    Shapes: encoder (batch, layers, heads, cells, cells); decoder (batch, layers, heads, queries, cells).
    """

    encoder: Float[Tensor, "batch layers heads cells cells"]
    decoder: Float[Tensor, "batch layers heads queries cells"]


class DETR(nn.Module):
    """CNN, encoder, decoder over object queries, and two heads (Carion et al. 2020, section 3.2, figure 2).

    Args:
        backbone: images -> (batch, features, rows, columns), such as `CellBackbone`.
        features: that the backbone gives.
        classes: kinds of objects; "no object" is one more, the last.
        width: d of the Transformer, a multiple of 4.
        heads: of every attention.
        encoder_layers, decoder_layers: how many; the encoder may have none.
        inner: width of the feed-forward layers' middle.
        queries: the most objects an image can have.
        dropout, norm: as in `EncoderLayer`.

    Raises:
        ValueError: a width or number of heads that does not fit, an unknown norm, no class, no decoder layer,
            or no query.
    """

    def __init__(
        self,
        backbone: nn.Module,
        features: int,
        classes: int,
        *,
        width: int = 64,
        heads: int = 4,
        encoder_layers: int = 1,
        decoder_layers: int = 3,
        inner: int = 256,
        queries: int = 12,
        dropout: float = 0.1,
        norm: str = "post",
    ):
        super().__init__()
        least_one = {"classes": classes, "decoder_layers": decoder_layers, "queries": queries}
        for name, number in least_one.items():
            if number < 1:
                raise ValueError(f"{name} is {number}: it must be at least 1")
        self.backbone = backbone
        self.narrow = nn.Conv2d(features, width, 1)
        self.positions = GridPositions(width)
        self.encoder = Encoder(encoder_layers, width, heads, inner, dropout=dropout, norm=norm)
        self.queries = nn.Parameter(torch.randn(queries, width))
        self.decoder = nn.ModuleList(
            QueryLayer(width, heads, inner, dropout=dropout, norm=norm) for _ in range(decoder_layers)
        )
        self.decoder_norm = nn.LayerNorm(width)
        self.label_head = nn.Linear(width, classes + 1)
        self.box_head = nn.Sequential(
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)
        )

    def forward(self, images: Float[Tensor, "batch channels height width"]) -> Detected:
        """One answer a query; with those after each earlier layer, which the auxiliary losses judge.

        Raises:
            TypeError: images that are not floating-point numbers.
            ValueError: another shape, or what the backbone refuses; a backbone whose features do not fit.
        """
        known, _ = self._decode(images, need_weights=False)
        answers = [self._answer(x) for x in known]
        return answers[-1]._replace(earlier=tuple(answers[:-1]))

    def attention_maps(self, images: Float[Tensor, "batch channels height width"]) -> DetectionMaps:
        """The weights of all layers and heads over the cells of the image, row by row."""
        _, maps = self._decode(images, need_weights=True)
        return maps

    def _decode(self, images: Tensor, *, need_weights: bool) -> tuple[list[Tensor], DetectionMaps | None]:
        """What the queries know after each decoder layer."""
        cells = self.narrow(self._features(images))
        positions = self.positions(*cells.shape[-2:], device=cells.device).to(cells.dtype)
        memory, inside = self.encoder(
            cells.flatten(2).transpose(1, 2), positions=positions, need_weights=need_weights
        )
        x = torch.zeros_like(self.queries).expand(images.shape[0], -1, -1)
        known, between = [], []
        for layer in self.decoder:
            x, weights = layer(x, self.queries, memory, positions, need_weights=need_weights)
            known.append(x)
            between.append(weights)
        if not need_weights:
            return known, None
        between = torch.stack(between, dim=1)
        batch, _, heads, _, count = between.shape
        # Without an encoder there are 0 layers of maps.
        inside = torch.stack(inside, dim=1) if inside else between.new_zeros(batch, 0, heads, count, count)
        return known, DetectionMaps(inside, between)

    def _features(self, images: Tensor) -> Float[Tensor, "batch features rows columns"]:
        check_images(images)
        found, promised = self.backbone(images), self.narrow.in_channels
        if found.dim() != 4 or found.shape[1] != promised:
            raise ValueError(f"backbone gives shape {tuple(found.shape)}: with features = {promised} it must "
                             f"be (batch, {promised}, rows, columns)")
        return found

    def _answer(self, x: Float[Tensor, "batch queries width"]) -> Detected:
        x = self.decoder_norm(x)
        return Detected(self.label_head(x), self.box_head(x).sigmoid())
