"""How long a chapter takes to read, by one rule: executing a notebook writes it into the opening.

Words are counted as a reader meets them: prose and questions, without formulas, code, and folded answers.
"""

import re

WORDS_A_MINUTE = 100      # read with care, some of it twice: what fresh readers of four chapters needed
FORMULA = 30              # seconds for a formula on a line of its own
PICTURE = 45              # seconds for a figure or a view
TABLE = 20
CODE_LINE = 3             # seconds for a line of open code, of the cell's own or of the package
QUESTION = 60             # seconds for an exercise of a minute
STEP = 5                  # minutes: what is stated is rounded to these

_FOLDED = re.compile(r"<details.*?</details>", re.DOTALL)
_FORMULA = re.compile(r"\$\$.*?\$\$", re.DOTALL)
_TABLE_ROW = re.compile(r"^\s*\|.*\|\s*$", re.MULTILINE)
_SHORT_EXERCISE = re.compile(r"^\*\*A minute\b", re.MULTILINE)
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
STATED = re.compile(r"^((?:- \*\*|\| )Reading time(?::\*\*| \|) )about [\w ]+?(?=[,;]| \||$)", re.MULTILINE)


def state_reading_time(cells: list[dict]) -> None:
    """Write the reading time into the line of the opening that states one, where there is such a line."""
    if cell := _stating(cells):
        cell["source"] = STATED.sub(rf"\g<1>about {reading_minutes(cells)} minutes", _source(cell))


def stated_minutes(cells: list[dict]) -> int | None:
    """The minutes that an opening states, 0 if not in figures; none where it states no time."""
    cell = _stating(cells)
    if cell is None:
        return None
    figures = re.search(r"about (\d+) minutes", STATED.search(_source(cell))[0])
    return int(figures[1]) if figures else 0


def _stating(cells: list[dict]) -> dict | None:
    """The cell of the opening that states a reading time."""
    markdown = (cell for cell in cells if cell["cell_type"] == "markdown")
    return next((cell for cell in markdown if STATED.search(_source(cell))), None)


def reading_minutes(cells: list[dict]) -> int:
    """Minutes for a chapter's words, formulas, pictures, open code and short questions, in steps of five."""
    prose = [_FOLDED.sub("", _source(cell)) for cell in cells if cell["cell_type"] == "markdown"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    seconds = (
        60 / WORDS_A_MINUTE * words("\n".join(prose))
        + FORMULA * sum(len(_FORMULA.findall(text)) for text in prose)
        + TABLE * sum(bool(_TABLE_ROW.search(text)) for text in prose)
        + QUESTION * sum(len(_SHORT_EXERCISE.findall(text)) for text in prose)
        + sum(map(_of_code, code[1:]))  # the first installs the package
    )
    return max(STEP, STEP * round(seconds / 60 / STEP))


def words(text: str) -> int:
    """How many words of prose a piece of Markdown holds: no formulas, no code, no tables, no addresses."""
    text = _TABLE_ROW.sub(" ", _FORMULA.sub(" ", text))
    text = re.sub(r"```.*?```|`[^`\n]*`|\$[^$\n]*\$|\]\([^)]*\)|<[^>]*>", " ", text, flags=re.DOTALL)
    return len(_WORD.findall(text))


def _source(cell: dict) -> str:
    return "".join(cell["source"])


def _of_code(cell: dict) -> float:
    outputs = [output.get("data", {}) for output in cell.get("outputs", [])]
    html = "".join("".join(data.get("text/html", "")) for data in outputs)
    sources = ["".join(data.get("text/plain", "")) for data in outputs if "text/markdown" in data]
    folded = {"fold", "hide-code"} & set(cell["metadata"].get("tags", []))
    read = "\n".join([*sources, *([] if folded else [_source(cell)])])
    lines = sum(bool(line.strip()) for line in read.splitlines())
    pictures = html.count('class="attn-figure"') + html.count("data-attn-view=")
    return CODE_LINE * lines + PICTURE * pictures
