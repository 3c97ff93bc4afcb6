"""Type a document, and see which sentences and words it was read by."""

from collections.abc import Callable, Mapping, Sequence

from attncourse.viewer.views.document.view import DocumentView
from attncourse.viewer.views.explorer import checked_choice, explore, load_widgets, paragraph

NO_DOCUMENT = "Type a document, one sentence a line, and click outside the box."


def document_explorer(
    read: Callable[[str, str], DocumentView],
    examples: Mapping[str, str],
    *,
    systems: Sequence[str],
) -> None:
    """Type a document, one sentence a line, and see which sentences and words it was read by.

    Args:
        read: (text, system) -> the view of that document. What it raises is shown to the reader.
        examples: {name: text} to choose from; the first is shown.
        systems: names to choose from; the first is shown.
    """
    examples, systems = checked_choice("examples", examples.items()), checked_choice("systems", systems)
    widgets = load_widgets()
    wide = widgets.Layout(width="min(100%, 42em)")
    example = widgets.Dropdown(options=examples, description="Examples", layout=wide)
    document = widgets.Textarea(value=example.value, description="Document", continuous_update=False, rows=8,
                                layout=wide)
    widgets.dlink((example, "value"), (document, "value"))
    system = widgets.Dropdown(options=systems, description="System")

    def answer(text: str, chosen: str) -> str:
        return read(text, chosen)._repr_html_() if text.strip() else paragraph(NO_DOCUMENT)

    explore(answer, [document, system], shown=[example, document, system])
