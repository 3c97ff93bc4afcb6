"""Push an image about, and see what a Vision Transformer says and where a head looks."""

from collections.abc import Sequence

import torch
from torch import Tensor

from attncourse.viewer.views.explorer import explore, load_widgets, offer
from attncourse.viewer.views.patch.view import PatchView


def patch_explorer(model, images: Tensor, labels: Sequence[int], *, class_token: bool = True) -> None:
    """Choose an image, push it by some pixels, and see what a Vision Transformer says and where a head looks.

    Args:
        model: a `VisionTransformer` in evaluation mode: `model(images)` are the logits, and
            `model.attention_maps(images)` the weights (batch, layers, heads, tokens, tokens).
        images: (images, channels, height, width), from 0 to 1.
        labels: what each of them shows.
        class_token: whether the model's token 0 is one that stands for no patch.
    """
    if not len(images) or len(images) != len(labels):
        raise ValueError(
            f"images holds {len(images)} images for {len(labels)} labels: one for each, and at least one"
        )
    widgets = load_widgets()
    most = max(1, images.shape[-1] // 4)
    image = widgets.IntSlider(value=0, min=0, max=len(images) - 1, description="image")
    right = widgets.IntSlider(value=0, min=-most, max=most, description="push right")
    down = widgets.IntSlider(value=0, min=-most, max=most, description="push down")
    # What they offer is known when the model has answered for the first time.
    layer, head = (widgets.Dropdown(description=name) for name in ("layer", "head"))

    def answer(number: int, across: int, along: int, *_) -> str:
        pushed = _pushed(images[number], along, across)
        with torch.no_grad():
            odds, maps = model(pushed[None])[0].softmax(-1), model.attention_maps(pushed[None])[0]
        layers, heads = maps.shape[:2]
        offer(layer, range(1, layers + 1), layers)
        offer(head, (("mean of all", None), *[(str(h + 1), h) for h in range(heads)]), None)
        chosen = maps[layer.value - 1]
        chosen = chosen.mean(0, keepdim=True) if head.value is None else chosen[[head.value]]
        said = odds.argmax().item()
        view = PatchView(
            pushed, chosen[None], class_token=class_token, prediction=f"{said} ({odds[said]:.2f})",
            label=str(int(labels[number])), title=f"Layer {layer.value}, head: {head.label}",
        )
        return view._repr_html_()

    explore(answer, [image, right, down, layer, head])


def _pushed(image: Tensor, down: int, right: int) -> Tensor:
    """An image (channels, height, width) some pixels further; what leaves is lost, what enters is black."""
    pushed = image.roll((down, right), (-2, -1))
    for amount, dim in ((down, -2), (right, -1)):
        size = pushed.shape[dim]
        edge = slice(0, amount) if amount > 0 else slice(size + amount, size)
        pushed.transpose(dim, -1)[..., edge] = 0
    return pushed
