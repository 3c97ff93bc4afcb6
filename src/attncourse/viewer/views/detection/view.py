"""Look inside a detector: each query's box, where it looked, and what each cell of the image attends to."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from attncourse.boxes import to_corners
from attncourse.viewer.places import checked_image, checked_places
from attncourse.viewer.views.component import component, table
from attncourse.viewer.views.packed import check_size, packed_image, packed_weights, rounded
from attncourse.viewer.views.patch.view import PARTS, checked_maps, map_data, square_grid, token_names
from attncourse.viewer.weights import checked_layers, checked_tokens, checked_weights, naming

NOTHING = "no object"


def pixel_boxes(boxes, image) -> Tensor:
    """(cx, cy, w, h) in shares of the image, as models predict it -> (top, left, bottom, right) in pixels.

    Args:
        boxes: (boxes, 4).
        image: the image they belong to, in any form that the views take.

    Raises:
        ValueError, TypeError: another shape, or no image.
    """
    height, width = checked_image(image).shape[:2]
    boxes = torch.as_tensor(boxes).detach().to("cpu", torch.float64)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"boxes has shape {tuple(boxes.shape)}; it must be (boxes, 4)")
    left, top, right, bottom = to_corners(boxes).unbind(-1)
    return torch.stack([top * height, left * width, bottom * height, right * width], dim=-1)


class DetectionView:
    """What a DETR found in an image, query by query, to be explored by mouse, touch or keyboard.

    The image shows the boxes whose score reaches a threshold, which a slider moves. A query, chosen from the
    list or by its box, shows its box alone, what it takes the object for, and the cells it attended to: these
    stay clear, the others recede into grey. Where the encoder's weights are given too, one can turn to them:
    a cell shows which cells it attends to, as a patch does in `PatchView`.

    Args:
        image: (height, width) in grey, (height, width, 3) or (3, height, width) in colour; floats from 0 to
            1, or bytes.
        boxes: (queries, 4), (top, left, bottom, right) in pixels, of every query; see `pixel_boxes`. What
            reaches outside the image is cut off in the picture.
        classes: names of the classes, without "no object".
        probabilities: (queries, classes + 1), "no object" last; a row sums to 1. A query's score is the
            largest but that one.
        query_weights: (queries, rows, columns), over the cells of the image; or several, {name: weights}. A
            row sums to 1.
        encoder_weights: (cells, cells) or (layers, heads, cells, cells), the cells row by row.
        true_boxes: (objects, 4), as `boxes`; drawn dashed when the reader asks for them.
        true_labels: for each of them the index of its class.
        threshold: where the slider stands at first.
        title: a sentence that says what there is to see.

    Raises:
        ValueError, TypeError: shapes that do not fit, NaN, rows that are not weights, boxes that end before
            they begin, or more than a page should carry (400 kB).
    """

    def __init__(
        self,
        image,
        boxes,
        classes: Sequence[str],
        probabilities,
        query_weights=None,
        *,
        encoder_weights=None,
        true_boxes=(),
        true_labels: Sequence[int] = (),
        threshold: float = 0.5,
        title: str | None = None,
    ):
        self.image = checked_image(image)
        self.boxes = checked_corners("boxes", boxes)
        self.classes = checked_tokens("classes", classes)
        queries = [f"query {number}" for number in range(1, len(self.boxes) + 1)]
        if not queries:
            raise ValueError("boxes is empty: at least one query is needed")
        self.probabilities = _checked_probabilities(probabilities, queries, self.classes)
        self.query_weights = _checked_maps(query_weights, queries, self.image)
        self.encoder_weights = self._checked_encoder(encoder_weights)
        check_size(self.image, "give fewer maps, or some of the encoder's layers or heads",
                   query_weights=sum(weights.numel() for weights in self.query_weights.values()),
                   encoder_weights=0 if self.encoder_weights is None else self.encoder_weights.numel())
        self.true_boxes = checked_corners("true_boxes", true_boxes)
        self.true_labels = _checked_labels(true_labels, len(self.true_boxes), len(self.classes))
        if not 0 <= threshold <= 1:
            raise ValueError(f"threshold is {threshold}; it must lie between 0 and 1")
        self.threshold, self.title = float(threshold), title

    def _checked_encoder(self, weights) -> Tensor | None:
        """The encoder's maps (layers, heads, cells, cells), and their grid as `self.grid`."""
        if weights is None:
            return None
        weights = torch.as_tensor(weights)
        weights = weights[None, None] if weights.ndim == 2 else weights
        maps, name = checked_maps("encoder_weights", weights), "encoder_weights"
        for given in self.query_weights.values():
            rows, columns = self.grid = tuple(given.shape[1:])
            if rows * columns != maps.shape[-1]:
                raise ValueError(
                    f"{name} has {maps.shape[-1]} cells, but query_weights has {rows} by {columns}"
                )
        if not self.query_weights:
            self.grid = square_grid(maps.shape[-1], self.image)
            if self.grid is None:
                height, width = self.image.shape[:2]
                raise ValueError(
                    f"{name} has {maps.shape[-1]} cells, and as many squares do not fill an image of "
                    f"{height} by {width} pixels"
                )
        cells = token_names(self.grid, False)
        return checked_layers(name, maps, cells, cells)

    def __repr__(self) -> str:
        true = f", true boxes: {len(self.true_boxes)}" if len(self.true_boxes) else ""
        return f"DetectionView({len(self.boxes)} queries, {len(self.classes)} classes{true})"

    def _repr_html_(self) -> str:
        encoder = None
        if self.encoder_weights is not None:
            encoder = map_data(self.encoder_weights, self.grid, False, what="cell")
        data = {
            "title": self.title,
            "image": packed_image(self.image),
            "classes": self.classes,
            "boxes": rounded(self.boxes),
            "probabilities": rounded(self.probabilities),
            "maps": [
                {"name": name, "grid": list(weights.shape[1:]), "weights": packed_weights(weights)}
                for name, weights in self.query_weights.items()
            ],
            "trueBoxes": rounded(self.true_boxes),
            "trueLabels": self.true_labels,
            "threshold": self.threshold,
            "encoder": encoder,
        }
        return component("detection", data, self._fallback(), inside=(*PARTS, "patch"))

    def _fallback(self) -> str:
        """A row for each query whose score reaches the threshold, the surest first."""
        scores, labels = self.probabilities[:, :-1].max(-1)
        order = scores.argsort(descending=True, stable=True).tolist()
        found = [query for query in order if scores[query] >= self.threshold]
        rows = [
            [f"query {q + 1}", self.classes[labels[q]], f"{scores[q]:.2f}", _box_name(self.boxes[q])]
            for q in found
        ]
        count = f"{len(found)} of {len(order)} queries with a score of at least {self.threshold:.2f}"
        caption = f"{self.title or 'What the queries found'} ({count})"
        return table(caption, ["query", "class", "score", "box, in pixels"], rows)


def _box_name(box: Tensor) -> str:
    """A box in words."""
    top, left, bottom, right = box.tolist()
    return f"rows {top:.1f} to {bottom:.1f}, columns {left:.1f} to {right:.1f}"


def checked_corners(name: str, boxes) -> Tensor:
    """Boxes (top, left, bottom, right) as float64 (boxes, 4)."""
    boxes = torch.as_tensor(boxes).detach().to("cpu", torch.float64)
    if boxes.numel() == 0:
        return boxes.reshape(0, 4)
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"{name} has shape {tuple(boxes.shape)}; it must be (boxes, 4)")
    for i, (top, left, bottom, right) in enumerate(boxes.tolist()):
        if not (top <= bottom and left <= right) or not boxes[i].isfinite().all():
            raise ValueError(
                f"{name}[{i}] is ({top:.4g}, {left:.4g}, {bottom:.4g}, {right:.4g}); a box is (top, left, "
                "bottom, right) in pixels and may not end before it begins. Is it (cx, cy, w, h)? See "
                "pixel_boxes"
            )
    if 0 < boxes.max() <= 1:
        raise ValueError(
            f"{name} all lie within the first pixel: are they shares of the image? See pixel_boxes"
        )
    return boxes


def _checked_probabilities(probabilities, queries: list[str], classes: list[str]) -> Tensor:
    probabilities = torch.as_tensor(probabilities)
    if probabilities.shape != (len(queries), len(classes) + 1):
        raise ValueError(
            f"probabilities has shape {tuple(probabilities.shape)}, but there are {len(queries)} boxes and "
            f"{len(classes)} classes: it must be ({len(queries)}, {len(classes) + 1}), with {NOTHING!r} last"
        )
    with naming("probabilities"):
        return checked_weights(probabilities, queries, [*classes, NOTHING])[0]


def _checked_maps(weights, queries: list[str], image: Tensor) -> dict[str, Tensor]:
    """{name: (queries, rows, columns)}; nothing where no weights are given."""
    if weights is None:
        return {}
    if not isinstance(weights, Mapping):
        weights = {"": weights}
    checked = {}
    for name, given in weights.items():
        called = f"query_weights[{name!r}]" if name else "query_weights"
        given = torch.as_tensor(given)
        if given.ndim != 3:
            raise ValueError(f"{called} has shape {tuple(given.shape)}; it must be (queries, rows, columns)")
        checked[name] = checked_places(called, given, queries, image)
    return checked


def _checked_labels(labels: Sequence[int], objects: int, classes: int) -> list[int]:
    labels = [int(label) for label in labels]
    if len(labels) != objects or not all(0 <= label < classes for label in labels):
        raise ValueError(
            f"true_labels is {labels} for {objects} true boxes and {classes} classes: one index for each "
            f"box, from 0 to {classes - 1}"
        )
    return labels
