"""The symbols of the chapters' formulas are on the page that explains them."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTATION = (ROOT / "book" / "notation.md").read_text(encoding="utf8")
CHAPTERS = sorted((ROOT / "chapters").glob("[0-9][0-9]_*.ipynb"))

CODE = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\\$])\$(?!\s)([^$]+?)(?<!\s)\$", re.DOTALL)
# Words in a formula, and the frames of LaTeX: no symbols.
WORDS = re.compile(r"\\(?:mathrm|text|operatorname|begin|end)\s*\{[^{}]*\}")
GREEK = "alpha beta gamma delta epsilon eta theta kappa lambda mu pi rho sigma tau phi omega ell"
LETTERS = rf"\\(?:{GREEK.replace(' ', '|')})(?![A-Za-z])"
ABOVE = r"\\(?:tilde|hat|bar|overrightarrow|overleftarrow|mathbb)(?![A-Za-z])"
COMMAND = re.compile(rf"(?!{LETTERS}|{ABOVE})\\[A-Za-z]+")
SYMBOL = re.compile(rf"(?P<above>{ABOVE}\s*)?\{{?(?P<letter>{LETTERS}|[A-Za-z])\}}?")
# A letter that is a subscript, as in h_t or x_{ij}, is an index or part of a name: its own row explains it.
SUBSCRIPT = re.compile(r"_(?:\{(?:[^{}]|\{[^{}]*\})*\}|\\[A-Za-z]+|[A-Za-z0-9])")
IN_CHAPTERS = re.compile(r"in chapters? (\d\d)(?:(?: (to|and) |, )(\d\d))?", re.IGNORECASE)


def symbols(text: str) -> set[str]:
    """The letters of all formulas in a text, each with what stands above it, without subscripts."""
    found = set()
    for display, inline in FORMULA.findall(text):
        formula = COMMAND.sub(" ", SUBSCRIPT.sub(" ", WORDS.sub(" ", display or inline)))
        for match in SYMBOL.finditer(formula):
            found.add(f"{(match['above'] or '').strip()}{' ' if match['above'] else ''}{match['letter']}")
    return found


def numbers(words: re.Match | None) -> set[str]:
    """The chapters that "in chapters 03 to 08" names; all where nothing is named."""
    if not words:
        return {path.name[:2] for path in CHAPTERS}
    first, link, last = words.groups()
    if link == "to":
        return {f"{number:02}" for number in range(int(first), int(last) + 1)}
    return {first} | ({last} if last else set())


def explained() -> dict[str, set[str]]:
    """For each symbol of the notation page the chapters in which it has the meaning that is given there."""
    known: dict[str, set[str]] = {}
    paragraph = ""
    for line in NOTATION.splitlines():
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if re.fullmatch(r"\d\d", cells[0]):
                named, chapters = cells[1], {cells[0]}
            else:
                where = next(filter(None, (IN_CHAPTERS.match(cell) for cell in cells)), None)
                above = re.match(r"In [^.]*\(chapter (\d\d)\)", paragraph)
                named, chapters = cells[0], {above[1]} if above and not where else numbers(where)
            for symbol in symbols(named):
                known.setdefault(symbol, set()).update(chapters)
        elif line.strip():
            paragraph = line
    return known


def prose(path: Path) -> str:
    """The Markdown of a chapter without code, and without exercises: these name letters of their own."""
    cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    whole = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return CODE.sub(" ", re.sub(r"^## Try it$.*?(?=^## )", "", whole, flags=re.DOTALL | re.MULTILINE))


def test_symbols_are_found_in_formulas_and_nowhere_else():
    text = r"A $W_{s1} \tilde h_t + \alpha_{ij}$ of $d_k Xk$ $$\mathrm{PE}(t) = \sin(\omega_i t)$$ costs \$5."
    assert symbols(text) == {"W", r"\tilde h", r"\alpha", "d", "X", "k", "t", r"\omega"}


@pytest.mark.parametrize("notebook", CHAPTERS, ids=lambda notebook: notebook.stem)
def test_a_chapter_s_symbols_are_explained(notebook):
    """A letter that only the author knows, or one that means something else in another chapter."""
    known = explained()
    chapter = notebook.name[:2]
    missing = {symbol for symbol in symbols(prose(notebook)) if chapter not in known.get(symbol, ())}
    assert not missing, (
        f"book/notation.md does not say what these mean in chapter {chapter}: {', '.join(sorted(missing))}; "
        "add a row, with the chapter's number where the letter means something else in others"
    )


def test_what_is_explained_for_one_chapter_is_used_there():
    """A row left behind when a formula changed."""
    rows = re.findall(r"^\| (\d\d) \| (.+?) \|", NOTATION, flags=re.MULTILINE)
    used = {path.name[:2]: symbols(prose(path)) for path in CHAPTERS}
    idle = [f"{chapter}: {symbol}" for chapter, named in rows if chapter in used
            for symbol in symbols(named) - used[chapter]]
    assert not idle, f"no formula of the chapter has them: {', '.join(idle)}"
