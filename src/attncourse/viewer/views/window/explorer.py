"""Type a sentence, and choose how far local attention sees."""

from collections.abc import Callable, Container, Sequence

from torch import Tensor

from attncourse.viewer.views.attention.explorer import translation_html
from attncourse.viewer.views.explorer import checked_choice, explore, load_widgets, sentence_controls


def window_explorer(
    translate: Callable[[str, str, int], tuple[Sequence[str], Sequence[str], Tensor]],
    examples: Sequence[str],
    *,
    systems: Sequence[str],
    half_width: int,
    widest: int,
    known: Container[str] | None = None,
) -> None:
    """Choose the system and the half-width D too, and see the window move.

    Args:
        translate: (text, system, D) -> (queries, keys, weights), as for `translation_explorer`; here a row of
            weights may sum to less than 1.
        examples: sentences to choose from; the first is shown.
        systems: names to choose from; the first is shown.
        half_width: D to begin with.
        widest: the largest D on offer.
        known: the words the model has met.
    """
    systems = checked_choice("systems", systems)
    if not 1 <= half_width <= widest:
        raise ValueError(f"half_width is {half_width}; it must lie between 1 and widest, {widest}")
    widgets = load_widgets()
    example, sentence = sentence_controls(examples)
    system = widgets.Dropdown(options=systems, description="Attention")
    width = widgets.IntSlider(value=half_width, min=1, max=widest, description="D", continuous_update=False)

    def answer(text: str, chosen: str, reach: int) -> str:
        return translation_html(lambda typed: translate(typed, chosen, reach), text, known, partial=True)

    explore(answer, [sentence, system, width], shown=[example, sentence, system, width])
