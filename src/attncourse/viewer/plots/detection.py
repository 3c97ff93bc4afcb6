"""The printed counterparts of `DetectionView`: images with their boxes, and where each query puts its own."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from attncourse.viewer.places import checked_image
from attncourse.viewer.plots.panels import sheet
from attncourse.viewer.style import figure_style, printable
from attncourse.viewer.views.detection.view import checked_corners
from attncourse.viewer.weights import checked_tokens

# Light lines between dark ones show on any picture, and in grey.
CASING = [withStroke(linewidth=3, foreground="#1d1d1d")]
FOUND = {"color": "#56B4E9", "linestyle": "-", "linewidth": 1.5, "path_effects": CASING}
TRUE = {"color": "#FFB000", "linestyle": (0, (3, 2)), "linewidth": 1.5, "path_effects": CASING}
# How the boxes of a query are marked: each kind has a colour, a shape and a greyness of its own.
KINDS = {"small": ("#E69F00", "."), "wide": ("#0072B2", "_"), "tall": ("#111111", "|")}


class BoxedPanel(NamedTuple):
    """One image with what was found in it and what is there.

    Boxes are (top, left, bottom, right) in pixels; `pixel_boxes` makes them from (cx, cy, w, h).

    Args:
        image: as `DetectionView` takes it.
        boxes: (boxes, 4), those that were found.
        names: the class of each.
        scores: how sure the detector is of each.
        true_boxes: (objects, 4).
        caption: a few words above the image.
    """

    image: Tensor
    boxes: Tensor | Sequence = ()
    names: Sequence[str] = ()
    scores: Sequence[float] = ()
    true_boxes: Tensor | Sequence = ()
    caption: str = ""


def draw_boxes(panels: Sequence[BoxedPanel], *, title: str, across: int = 4) -> Figure:
    """Images side by side: what was found, solid, with class and score; what is there, dashed.

    Args:
        panels: the images, with their boxes.
        title: a sentence that says what there is to see.
        across: panels in a row.

    Raises:
        ValueError, TypeError: no panels, or one whose parts do not fit each other; the error says which.
    """
    panels = [_checked(number, panel) for number, panel in enumerate(panels)]
    if not panels:
        raise ValueError("panels is empty: at least one image is needed")
    side = min(3.4, 7.2 / min(across, len(panels)))
    tall = max(panel.image.shape[0] / panel.image.shape[1] for panel in panels)
    legend = [Line2D([], [], label=name, **style) for name, style in (("found", FOUND), ("true", TRUE))]
    with figure_style():
        figure, place = sheet(len(panels), across, side, tall, title=title, legend=legend)
        for number, panel in enumerate(panels):
            _panel(place(number), panel)
    return figure


def _panel(axes: Axes, panel: BoxedPanel) -> None:
    height, width = panel.image.shape[:2]
    axes.imshow(panel.image.numpy(), cmap="gray", vmin=0, vmax=255, extent=(0, width, height, 0),
                interpolation="nearest")
    axes.axis("off")
    axes.set_title(panel.caption, fontsize=10, pad=3, fontweight="normal", parse_math=False)
    for box in panel.true_boxes.tolist():
        _box(axes, box, TRUE)
    [names] = printable(panel.names)
    for box, name, score in zip(panel.boxes.tolist(), names, panel.scores, strict=True):
        _box(axes, box, FOUND)
        top, left, _, right = box
        # A label stands above its box, or inside where there is no room; near the right rim it ends with it.
        at_right = left > 0.65 * width
        place = {"ha": "right" if at_right else "left", "va": "top" if top < 0.1 * height else "bottom"}
        x = min(right, width) if at_right else max(left, 0)
        axes.text(x, max(top, 0), f"{name}: {score:.2f}", **place, fontsize=8, color="white", zorder=5,
                  parse_math=False, bbox={"facecolor": "#1d1d1d", "edgecolor": "none", "pad": 1.2})


def _box(axes: Axes, box: Sequence[float], style: dict) -> None:
    top, left, bottom, right = box
    axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, zorder=4, **style))


def _checked(number: int, panel: BoxedPanel) -> BoxedPanel:
    where = f"panels[{number}]"
    if not isinstance(panel, BoxedPanel):
        raise TypeError(f"{where} must be a BoxedPanel, given {type(panel).__name__}")
    boxes = checked_corners(f"{where}: boxes", panel.boxes)
    names = checked_tokens("names", panel.names) if len(panel.names) else []
    scores = [float(score) for score in panel.scores]
    if not len(boxes) == len(names) == len(scores):
        raise ValueError(
            f"{where} has {len(boxes)} boxes, {len(names)} names and {len(scores)} scores: as many of each"
        )
    true_boxes = checked_corners(f"{where}: true_boxes", panel.true_boxes)
    return BoxedPanel(checked_image(panel.image), boxes, names, scores, true_boxes, panel.caption)


def query_boxes(boxes, *, title: str, across: int = 6) -> Figure:
    """Where each query puts its boxes: a panel a query, a mark an image (Carion et al. 2020, figure 7).

    A mark stands at the middle of the box. A dot is a small box, smaller than half of all boxes are; of the
    others, a line lies where the box is wider than tall, and stands where it is taller than wide.

    Args:
        boxes: (images, queries, 4), (cx, cy, w, h) in shares of the image, as the model predicts them.
        title: a sentence that says what there is to see.
        across: panels in a row.

    Raises:
        ValueError: another shape, or a number that is not finite.
    """
    boxes = torch.as_tensor(boxes).detach().to("cpu", torch.float64)
    if boxes.ndim != 3 or boxes.shape[-1] != 4 or 0 in boxes.shape:
        raise ValueError(f"boxes has shape {tuple(boxes.shape)}; it must be (images, queries, 4)")
    if not boxes.isfinite().all():
        raise ValueError("boxes holds a number that is not finite: has the training gone astray?")
    kinds = _kinds(boxes)
    queries = boxes.shape[1]
    legend = [Line2D([], [], color=colour, marker=mark, linestyle="", markersize=8, label=kind)
              for kind, (colour, mark) in KINDS.items()]
    with figure_style():
        side = min(2.0, 7.2 / min(across, queries))
        figure, place = sheet(queries, across, side, 1.0, title=title, legend=legend)
        for query in range(queries):
            own = {kind: mask[:, query] for kind, mask in kinds.items()}
            _query(place(query), query, boxes[:, query], own)
    return figure


def _kinds(boxes: Tensor) -> dict[str, Tensor]:
    """Which boxes are of which kind: {kind: (images, queries)}; every box is of one."""
    width, height = boxes[..., 2], boxes[..., 3]
    area = width * height
    small = area < area.median()
    return {"small": small, "wide": ~small & (width >= height), "tall": ~small & (width < height)}


def _query(axes: Axes, query: int, boxes: Tensor, kinds: dict[str, Tensor]) -> None:
    axes.set(xlim=(0, 1), ylim=(1, 0), aspect="equal", xticks=[], yticks=[])
    axes.grid(False)
    axes.spines[:].set_visible(True)
    axes.set_title(f"query {query + 1}", fontsize=10, pad=3, fontweight="normal", loc="center")
    for kind, (colour, mark) in KINDS.items():
        across, down = boxes[kinds[kind], :2].unbind(-1)
        axes.plot(across.numpy(), down.numpy(), color=colour, marker=mark, linestyle="", markersize=4,
                  markeredgewidth=0.5 if mark == "." else 1.0, alpha=0.6)
