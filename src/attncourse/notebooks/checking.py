"""What a reader in Jupyter, in Colab or in the static book would stumble over, said in words."""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

from IPython.core.inputtransformer2 import TransformerManager

from attncourse.notebooks.form import CELL_LINES, METADATA, SETUP, WIDGET_VIEW
from attncourse.notebooks.reading import STEP, reading_minutes, stated_minutes


@dataclass(frozen=True)
class _Cell:
    name: str
    id: str | None
    kind: str
    source: str
    count: int | None
    outputs: list[dict]

    def texts(self) -> Iterator[tuple[str, str]]:
        """Every piece of text in the outputs, as (kind, text), without the pictures' bytes."""
        for output in self.outputs:
            yield "stream", _joined(output.get("text", ""))
            for kind, value in output.get("data", {}).items():
                if kind.startswith("text/") or kind == "image/svg+xml":
                    yield kind, re.sub(r"data:[\w/+.-]+;base64,[\w+/=]+", "data:", _joined(value))

    def tree(self) -> ast.Module:
        """The code as Python, IPython's own lines translated; an empty module if it is neither."""
        try:
            return ast.parse(TransformerManager().transform_cell(self.source))
        except SyntaxError:
            return ast.Module([], [])


@dataclass(frozen=True)
class _Notebook:
    path: Path
    metadata: dict
    cells: list[_Cell]
    content: list[dict]  # the cells as they are stored

    @property
    def code(self) -> list[_Cell]:
        return [cell for cell in self.cells if cell.kind == "code"]

    @property
    def prose(self) -> list[_Cell]:
        return [cell for cell in self.cells if cell.kind == "markdown"]


def check(path: Path) -> list[str]:
    """What is wrong with a notebook, one sentence each; an empty list if nothing is."""
    try:
        notebook = _read(Path(path))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return [f"this is not a notebook: {error!r}"]
    return [problem for rule in _RULES for problem in rule(notebook)]


def _read(path: Path) -> _Notebook:
    # Not by nbformat, which repairs doubled ids while it reads.
    content = json.loads(path.read_text(encoding="utf-8"))
    cells = [
        _Cell(
            name=f"cell {number} ({cell.get('id', 'no id')})",
            id=cell.get("id"),
            kind=cell["cell_type"],
            source=_joined(cell["source"]),
            count=cell.get("execution_count"),
            outputs=cell.get("outputs", []),
        )
        for number, cell in enumerate(content["cells"], start=1)
    ]
    return _Notebook(path, content["metadata"], cells, content["cells"])


def _joined(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def _first_cell_is_the_setup(notebook: _Notebook) -> Iterator[str]:
    if not notebook.code or notebook.code[0].source != SETUP:
        yield "the first code cell is not attncourse.notebooks.SETUP: the notebook would not start in Colab"


def _metadata_is_what_we_store(notebook: _Notebook) -> Iterator[str]:
    if "widgets" in notebook.metadata:
        yield "metadata.widgets is stored: GitHub may refuse to show the notebook; run `attncourse notebooks`"
    elif notebook.metadata != METADATA:
        yield "the notebook's metadata is not what `attncourse notebooks` stores"


def _ids_are_unique(notebook: _Notebook) -> Iterator[str]:
    seen = set()
    for cell in notebook.cells:
        if cell.id is None:
            yield f"{cell.name} has no id"
        elif cell.id in seen:
            yield f"{cell.name} has the id of an earlier cell"
        seen.add(cell.id)


def _executed_in_order(notebook: _Notebook) -> Iterator[str]:
    for expected, cell in enumerate(notebook.code, start=1):
        if not cell.source.strip():
            yield f"{cell.name} is empty"
        elif cell.count is None:
            yield f"{cell.name} was never executed"
        elif cell.count != expected:
            yield f"{cell.name} has execution count {cell.count}; a run from a clean kernel gives {expected}"


def _outputs_are_clean(notebook: _Notebook) -> Iterator[str]:
    for cell in notebook.code:
        for output in cell.outputs:
            if output["output_type"] == "error":
                yield f"{cell.name} ended in an error: {output.get('ename')}"
            if output.get("name") == "stderr":
                yield f"{cell.name} stores a warning or a progress bar (stderr)"
            kinds = output.get("data", {}).keys()
            if WIDGET_VIEW in kinds:
                yield f"{cell.name} stores a live control, dead in the page: show text/html beside it"
            if "application/javascript" in kinds:
                yield f"{cell.name} stores a bare script: put it into the view's text/html"
            if kinds & {"image/png", "image/jpeg", "image/svg+xml"}:
                yield f"{cell.name} stores a figure without alternative text: viewer.show(figure, alt=...)"


def _nothing_is_missing(notebook: _Notebook) -> Iterator[str]:
    for cell in notebook.code[1:]:
        if not cell.outputs and _must_print(cell):
            yield f"{cell.name} shows something, but no output is stored"


# What always leaves something on the page.
_SHOWING = {"check", "display", "predict", "print", "reveal", "show", "show_table"}


def _must_print(cell: _Cell) -> bool:
    body = cell.tree().body
    calls = [s.value for s in body if isinstance(s, ast.Expr | ast.Assign) and isinstance(s.value, ast.Call)]
    if any(_called(call) in _SHOWING for call in calls):
        return True
    ends_in_a_value = bool(body) and isinstance(body[-1], ast.Expr) and body[-1].value not in calls
    return ends_in_a_value and not cell.source.rstrip().endswith((";", '"""'))


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _code_cells_are_short(notebook: _Notebook) -> Iterator[str]:
    for cell in notebook.code:
        lines = len(cell.source.splitlines())
        if lines > CELL_LINES:
            yield f"{cell.name} has {lines} lines, over {CELL_LINES}: does that code belong in the package?"


def _reading_time_is_computed(notebook: _Notebook) -> Iterator[str]:
    stated = stated_minutes(notebook.content)
    right = reading_minutes(notebook.content)
    if stated is not None and abs(stated - right) > STEP:
        yield f"the opening says {stated} minutes of reading, the rule {right}: run `attncourse notebooks`"


_OF_A_MACHINE = re.compile(
    r"(?<![\w.~/-])/(?:home|root|Users|tmp|var/folders|private|mnt|opt|content|work|workspaces?|usr/\w+)/[\w.-]+"
    r"|\b[A-Z]:\\+Users\\+\w+"
)
_ADDRESS_IN_MEMORY = re.compile(r"\bat 0x[0-9a-fA-F]{6,}")


def _knows_no_machine(notebook: _Notebook) -> Iterator[str]:
    for cell in notebook.cells:
        for where, text in [("text", cell.source), *cell.texts()]:
            if path := _OF_A_MACHINE.search(text):
                yield f"{cell.name} holds a path of one machine ({where}): {path[0]}"
        for where, text in cell.texts():
            if address := _ADDRESS_IN_MEMORY.search(text):
                yield f"{cell.name} holds an address in memory, new at every run ({where}): {address[0]}"


# What reads a file by the name it is given. Colab opens the notebook alone: nothing lies beside it.
_READERS = {"open", "Path", "load", "read_csv", "read_json", "imread", "loadtxt", "genfromtxt", "fromfile"}


def _reads_no_file_beside_it(notebook: _Notebook) -> Iterator[str]:
    for cell in notebook.code[1:]:
        for call in (node for node in ast.walk(cell.tree()) if isinstance(node, ast.Call)):
            literal = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
            if _called(call) in _READERS and isinstance(literal, str) and "://" not in literal:
                yield f"{cell.name} reads a file by its path, {literal!r}: Colab has the notebook alone"
        if re.search(r"sys\.path\b|^\s*%(?:run|load)\b|^\s*from \.", cell.source, flags=re.MULTILINE):
            yield f"{cell.name} imports from a folder: only the installed package is there in Colab"


_MYST = {
    "directive": re.compile(r"^\s*(?:`{3,}|~{3,}|:{3,})\s*\{[\w:+.-]+\}", re.MULTILINE),
    "role": re.compile(r"(?<![\\\w])\{[A-Za-z][\w:+.-]*\}`[^`\n]+`"),
    "label": re.compile(r"^\([\w.:-]+\)=\s*$", re.MULTILINE),
}


def _prose_is_plain_markdown(notebook: _Notebook) -> Iterator[str]:
    for cell in notebook.prose:
        for name, pattern in _MYST.items():
            if found := pattern.search(cell.source):
                yield f"{cell.name} has a MyST {name}, which Jupyter and Colab show raw: {found[0].strip()}"
    for cell in notebook.code:
        if re.search(r"^\s*(?:import|from) myst_nb\b", cell.source, flags=re.MULTILINE):
            yield f"{cell.name} imports myst_nb, which only the book has"


# In a formula two backslashes begin a new line: \\alpha is a line break and the word "alpha".
_DOUBLED = re.compile(r"(?<!\\)\\\\[A-Za-z]{2,}")


def _formulas_are_not_escaped_twice(notebook: _Notebook) -> Iterator[str]:
    for cell in notebook.prose:
        if found := _DOUBLED.search(cell.source):
            yield f"{cell.name} has two backslashes before a command, which prints its name: {found[0]}"


_FENCES_CODE_MATHS = re.compile(r"```.*?```|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]*\$", re.DOTALL)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")


def _links_resolve(notebook: _Notebook) -> Iterator[str]:
    for cell in notebook.prose:
        for is_image, words, target in _LINK.findall(_FENCES_CODE_MATHS.sub("", cell.source)):
            has_scheme = re.match(r"[a-z][a-z0-9+.-]*:", target)
            file = unquote(target.partition("#")[0])
            if is_image and not words.strip():
                yield f"{cell.name} has an image without alternative text: {target}"
            if is_image and not target.startswith(("data:", "attachment:")):
                yield f"{cell.name} shows an image that is not inside the notebook: {target}"
            elif not is_image and not has_scheme and file and not (notebook.path.parent / file).exists():
                yield f"{cell.name} links to {target}, which is not there"


def _html_is_complete(notebook: _Notebook) -> Iterator[str]:
    for cell in notebook.cells:
        prose = [("markdown", _FENCES_CODE_MATHS.sub("", cell.source))] if cell.kind == "markdown" else []
        for kind, text in [*prose, *cell.texts()]:
            if kind in {"markdown", "text/html", "text/markdown"}:
                page = _Page()
                page.feed(text)
                yield from (f"{cell.name} {problem}" for problem in page.problems)


class _Page(HTMLParser):
    """A piece of HTML, read for what would be blank without a network or without eyes."""

    _LOADED = re.compile(r"""["'`(](?:https?:)?//(?!www\.w3\.org/)[\w.-]+""")

    def __init__(self):
        super().__init__()
        self.problems: list[str] = []
        self._inside: str | None = None
        self._svg_has_a_name = True

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        if tag == "img" and not (given.get("alt") or "").strip():
            self.problems.append("has an image without alternative text")
        if tag == "svg":
            self._svg_has_a_name = bool(given.keys() & {"aria-label", "aria-labelledby", "aria-hidden"})
        if tag == "title":
            self._svg_has_a_name = True
        address = given.get("src") or (given.get("href") if tag == "link" else None) or ""
        if re.match(r"(?:https?:)?//", address):
            self.problems.append(f"loads something from outside: {address}")
        if tag in {"script", "style"} and given.get("type") != "application/json":
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == "svg" and not self._svg_has_a_name:
            self.problems.append("has a drawing (svg) without a title or aria-label")
        self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside and (found := self._LOADED.search(data)):
            self.problems.append(f"loads something from outside, in a {self._inside}: {found[0]}")


_RULES = (
    _first_cell_is_the_setup,
    _metadata_is_what_we_store,
    _ids_are_unique,
    _executed_in_order,
    _outputs_are_clean,
    _nothing_is_missing,
    _code_cells_are_short,
    _reading_time_is_computed,
    _knows_no_machine,
    _reads_no_file_beside_it,
    _prose_is_plain_markdown,
    _formulas_are_not_escaped_twice,
    _links_resolve,
    _html_is_complete,
)
