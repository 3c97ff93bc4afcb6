"""A view on another page than its own: taken out of the outputs that a chapter has stored.

The cover shows what a trained model does, and no number of it is typed: `{from-chapter}` names the chapter
and what the output says of itself in plain text, such as AttentionView, and the page gets the HTML that is
stored there.
"""

import json
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive, directives


def stored_view(notebook: Path, shows: str, number: int = 1) -> str:
    """The HTML of the `number`-th output of a notebook whose plain text begins with `shows`.

    Raises:
        LookupError: the notebook stores fewer such outputs; the message names those it has.
    """
    cells = json.loads(notebook.read_text(encoding="utf8"))["cells"]
    data = [output.get("data", {}) for cell in cells for output in cell.get("outputs", ())]
    views = [view for view in data if "text/html" in view and "text/plain" in view]
    found = [view for view in views if "".join(view["text/plain"]).startswith(shows)]
    if len(found) < number:
        known = sorted({"".join(view["text/plain"]).split("(")[0][:40] for view in views})
        raise LookupError(f"{notebook.name} stores {len(found)} outputs that begin with {shows!r}, "
                          f"and number {number} was asked for; it has {', '.join(known) or 'none at all'}")
    return "".join(found[number - 1]["text/html"])


class FromChapter(Directive):
    required_arguments = 1
    option_spec = {"shows": directives.unchanged_required, "number": directives.positive_int}

    def run(self):
        env = self.state.document.settings.env
        notebook = Path(env.srcdir) / "chapters" / f"{self.arguments[0]}.ipynb"
        env.note_dependency(str(notebook))
        try:
            html = stored_view(notebook, self.options["shows"], self.options.get("number", 1))
        except (OSError, LookupError) as problem:
            raise self.error(str(problem)) from None
        return [nodes.raw("", html, format="html")]


def setup(app):
    app.add_directive("from-chapter", FromChapter)
