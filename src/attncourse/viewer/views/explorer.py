"""Explorers for a live kernel: the reader's own input goes through the package itself.

They need Jupyter or Colab. In a page without a kernel a moved slider beside a number that stays would
mislead, so each explorer also carries one sentence of HTML, which is all that such a page shows. Every view's
explorer stands beside it; what they share is here.
"""

import traceback
import warnings
from collections.abc import Callable, Container, Sequence
from html import escape

from attncourse.viewer.publish import publish

STATIC = (
    '<p class="attn-live">This explorer needs a running kernel: '
    '<span class="attn-launch">open the chapter in Colab or run it locally</span>.</p>'
)
NO_SENTENCE = "Type a sentence and press Enter."
NOTHING_WRITTEN = "The model wrote nothing."


def explore(answer: Callable[..., str], controls: Sequence, *, shown: Sequence | None = None) -> None:
    """Show controls and, below them, what `answer` makes of their values, anew whenever one of them changes.

    What goes wrong is said where the answer would stand: the controls stay alive and keep what was typed. An
    explorer that begins with an error warns too, so that a chapter run by nobody does not hide it.

    Args:
        answer: the controls' values, in their order -> HTML.
        controls: the widgets whose values it asks for.
        shown: the widgets that stand on the page, where they are not simply the controls.
    """
    widgets = load_widgets()
    output = widgets.Output()
    answering = False

    def update(_=None) -> Exception | None:
        nonlocal answering
        if answering:  # an answer may change what a control offers; that is no new question
            return None
        answering, error = True, None
        try:
            html = answer(*[control.value for control in controls])
        except Exception as raised:
            html, error = _said(raised), raised
        finally:
            answering = False
        # Set as a value, so that it also holds where no front end listens.
        content = {"output_type": "display_data", "data": {"text/html": html}, "metadata": {}}
        output.outputs = (content,)
        return error

    for control in controls:
        control.observe(update, "value")
    if error := update():
        warnings.warn(f"the explorer begins with {type(error).__name__}: {error}", stacklevel=3)
    text = "This explorer needs a running kernel: open the chapter in Colab or run it locally."
    box = widgets.VBox([*(controls if shown is None else shown), output])
    publish({**box._repr_mimebundle_(), "text/html": STATIC, "text/plain": text})


def _said(error: Exception) -> str:
    """An error in HTML: its message where the package says what is wrong, else its kind and its trace."""
    if isinstance(error, ValueError | TypeError | ImportError) and str(error):
        return paragraph(str(error))
    kind = "".join(traceback.format_exception_only(error)).strip()
    trace = "".join(traceback.format_exception(error))
    return f"{paragraph(kind)}<details><summary>traceback</summary><pre>{escape(trace)}</pre></details>"


def load_widgets():
    """The module ipywidgets, loaded when the first explorer is asked for."""
    try:
        import ipywidgets
    except ImportError as error:
        raise ImportError("the explorer needs ipywidgets: install it with  pip install ipywidgets") from error
    return ipywidgets


def paragraph(text: str) -> str:
    """A sentence as a paragraph of HTML; nothing in it becomes markup."""
    return f"<p>{escape(text)}</p>"


def checked_choice(name: str, offered: Sequence) -> list:
    """What a control offers, or an error if it is nothing."""
    if not len(offered):
        raise ValueError(f"{name} is empty: give at least one to choose from")
    return list(offered)


def sentence_controls(examples: Sequence[str]) -> tuple:
    """A list of examples, and a line to type in which the chosen one appears."""
    widgets = load_widgets()
    examples = checked_choice("examples", examples)
    wide = widgets.Layout(width="min(100%, 42em)")
    example = widgets.Dropdown(options=examples, description="Examples", layout=wide)
    sentence = widgets.Text(value=examples[0], description="Sentence", continuous_update=False, layout=wide)
    widgets.dlink((example, "value"), (sentence, "value"))
    return example, sentence


def offer(dropdown, options: Sequence, value) -> None:
    """Let a dropdown offer these options; where they are other than before, `value` is chosen."""
    if list(dropdown.options) != list(options):
        dropdown.options, dropdown.value = options, value


def never_met(words: Sequence[str], known: Container[str] | None) -> str:
    """A note that names the words a model does not know; nothing if it knows them all."""
    unknown = [] if known is None else [word for word in dict.fromkeys(words) if word not in known]
    return f"<p>Words the model has never met: <b>{escape(', '.join(unknown))}</b>.</p>" if unknown else ""
