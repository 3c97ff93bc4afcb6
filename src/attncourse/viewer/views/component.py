"""A view that lives in a page by itself: its data, a table for readers without scripts, and one small script.

The result is a piece of HTML that asks nothing of the network. The script draws into a shadow root, so the
page's styles and the view's do not meet, and the fallback table, which stays outside it, disappears.
"""

import hashlib
import json
from functools import cache
from html import escape
from importlib.resources import files


@cache
def asset(name: str) -> str:
    """The text of a script or style sheet, by its path below this folder: "controls.js", "weigh/view.js"."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8").strip()


def component(view: str, data: dict, fallback: str, *, inside: tuple[str, ...] = ()) -> str:
    """The HTML of one view: `view` names its folder, `fallback` is plain HTML.

    `inside` names other views that this one draws within itself; their scripts and style sheets come along.
    The id is a hash of the data: the same data give the same bytes, run after run.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    # Inside a script element only "<" can end the element or open a comment.
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    kind = f"{view}_view"
    identity = hashlib.sha256(f"{kind}:{text}".encode()).hexdigest()[:12]
    folders = (*inside, view)
    sheets = [asset("view.css"), *[asset(f"{folder}/view.css") for folder in folders]]
    styles = json.dumps("\n".join(sheets)).replace("<", "\\u003c")
    # attention/view.js defines attentionView, and so on.
    script = "\n".join([
        asset("attention_math.js"), asset("controls.js"), *[asset(f"{folder}/view.js") for folder in folders],
        f'start("{kind}", {styles}, {view}View);',
    ])
    return (
        f'<div class="attn-view" id="attn-{identity}" data-attn-view="{kind}">\n'
        f'<script type="application/json">{text}</script>\n{fallback}\n</div>\n'
        f"<script>(() => {{\n{script}\n}})();</script>"
    )


def table(caption: str, columns: list[str], rows: list[list[str]]) -> str:
    """A plain HTML table with a caption, the first cell of each row its heading; it scrolls when too wide."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "\n".join(
        f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for name, *cells in rows
    )
    return (
        f'<div style="overflow-x:auto"><table>\n<caption>{escape(caption)}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )
