"""Put things into a picture, and see where each word of its caption looked."""

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from attncourse.viewer.views.explorer import (
    NOTHING_WRITTEN,
    checked_choice,
    explore,
    load_widgets,
    paragraph,
)
from attncourse.viewer.views.image.view import ImageAttentionView

PLACES = 9


def scene_explorer(
    look: Callable[[dict[int, str], int, str], tuple[Tensor, Sequence[str], Tensor | None, str]],
    things: Sequence[str],
    systems: Sequence[str],
    *,
    start: Mapping[int, str],
) -> None:
    """Put things into a picture, have it captioned, and see where each word looked.

    The picture has nine places, three by three, and each may hold one of the things.

    Args:
        look: (the things by place, 0 to 8; a number that chooses between specimens; the system's name) ->
            image, words and weights as `ImageAttentionView` takes them, and a sentence to show above. Weights
            None: the system does not attend. What it raises is shown to the reader.
        things: what a place may hold.
        systems: names to choose from.
        start: the things, by place, of the first picture.
    """
    systems = checked_choice("systems", systems)
    for place, thing in start.items():
        if not (place in range(PLACES) and thing in things):
            raise ValueError(f"start puts {thing!r} at {place}: places are 0 to 8, things are {list(things)}")
    widgets = load_widgets()
    narrow = widgets.Layout(width="6.5em")
    places = [
        widgets.Dropdown(options=[("(empty)", ""), *[(thing, thing) for thing in things]],
                         value=start.get(place, ""), layout=narrow)
        for place in range(PLACES)
    ]
    grid = widgets.GridBox(places, layout=widgets.Layout(grid_template_columns="repeat(3, 7em)"))
    specimen = widgets.IntSlider(value=0, min=0, max=30, description="specimen")
    system = widgets.Dropdown(options=systems, description="system")

    def answer(*values) -> str:
        *things, number, chosen = values
        held = {place: thing for place, thing in enumerate(things) if thing}
        return _picture(*look(held, number, chosen), chosen) if held else (
            paragraph("Put something into the picture."))

    explore(answer, [*places, specimen, system], shown=[grid, specimen, system])


def _picture(image, words: Sequence[str], weights: Tensor | None, sentence: str, system: str) -> str:
    """The HTML that answers one picture."""
    if not len(words):
        return paragraph(NOTHING_WRITTEN)
    if weights is None:  # the picture is shown all the same, with nothing read
        weights = torch.zeros(len(words), 1)
    return paragraph(sentence) + ImageAttentionView(image, words, weights, title=system)._repr_html_()
