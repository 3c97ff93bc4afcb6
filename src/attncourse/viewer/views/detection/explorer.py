"""Put one more thing into a scene and move it about: the model detects anew each time."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from attncourse.viewer.places import checked_image
from attncourse.viewer.views.detection.view import DetectionView, pixel_boxes
from attncourse.viewer.views.explorer import explore, load_widgets
from attncourse.viewer.views.patch.view import square_grid


def detection_explorer(
    model,
    scenes: Tensor,
    classes: Sequence[str],
    things: Mapping[str, Tensor],
) -> None:
    """Choose a scene, put one more thing into it and move that about: the model detects anew each time.

    Args:
        model: a `DETR` in evaluation mode: `model(images)` has `logits` (batch, queries, classes + 1) and
            `boxes` (batch, queries, 4) as (cx, cy, w, h) in shares of the image, and
            `model.attention_maps(images)` has `decoder` (batch, layers, heads, queries, cells) and `encoder`
            (batch, layers, heads, cells, cells).
        scenes: (scenes, channels, height, width), from 0 to 1.
        classes: their names, without "no object".
        things: {name: (channels, height, width)}, small pictures, white on black, that can be added.
    """
    if not len(scenes):
        raise ValueError("scenes is empty: give at least one to begin with")
    if not things:
        raise ValueError("things is empty: give at least one that can be put into a scene")
    widgets = load_widgets()
    scene = widgets.IntSlider(value=0, min=0, max=len(scenes) - 1, description="scene")
    thing = widgets.Dropdown(options=["(nothing)", *things], description="add")
    across, down = (
        widgets.IntSlider(value=50, min=0, max=100, description=name, continuous_update=False)
        for name in ("across, %", "down, %")
    )
    threshold = widgets.FloatSlider(value=0.5, min=0, max=1, step=0.05, description="score from")

    def answer(number: int, added: str, left: int, top: int, least: float) -> str:
        image = scenes[number]
        if added in things:
            image = _with(image, things[added], top / 100, left / 100)
        return _detected(model, image, classes, least)

    explore(answer, [scene, thing, across, down, threshold])


def _with(scene: Tensor, thing: Tensor, down: float, across: float) -> Tensor:
    """A scene with one more thing at a share of the way; where both have ink, the brighter one shows."""
    scene = scene.clone()
    height, width = thing.shape[-2:]
    top, left = round(down * (scene.shape[-2] - height)), round(across * (scene.shape[-1] - width))
    under = scene[:, top : top + height, left : left + width]
    under.copy_(torch.maximum(under, thing.to(scene)))
    return scene


def _detected(model, image: Tensor, classes: Sequence[str], threshold: float) -> str:
    """The HTML that answers one image."""
    with torch.no_grad():
        found, maps = model(image[None]), model.attention_maps(image[None])
    probabilities = found.logits[0].softmax(-1)
    decoder = maps.decoder[0].mean(1)  # (layers, queries, cells)
    grid = square_grid(decoder.shape[-1], checked_image(image))
    if grid is None:
        raise ValueError(
            f"scenes are {image.shape[-2]} by {image.shape[-1]} pixels, which {decoder.shape[-1]} square "
            "cells do not fill"
        )
    view = DetectionView(
        image, pixel_boxes(found.boxes[0], image), classes, probabilities,
        {f"layer {i + 1}": layer.unflatten(-1, grid) for i, layer in enumerate(decoder)},
        encoder_weights=maps.encoder[0], threshold=threshold, title="What the queries find",
    )
    return view._repr_html_()
