"""Everything that is written for a reader is spelled right, and in British English."""

import ast
import json
import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = re.compile(
    r"```.*?```|``.*?``|`[^`\n]*`|\$\$.*?\$\$|\$[^$\n]+\$|<[^>\n]+>|\]\([^)]*\)|https?://\S+", re.DOTALL
)
# American here is British too: a verb, a computer's program, "check" beside "cheque", and so on.
BRITISH_AS_WELL = {
    "biased", "check", "checks", "curb", "draft", "drafts", "license", "licensed", "licenses", "licensing",
    "math", "meter", "meters", "practice", "practices", "program", "programs", "stories", "story", "tire",
    "tires",
}


def notebook_prose(path: Path) -> str:
    cells = json.loads(path.read_text(encoding="utf8"))["cells"]
    return "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def docstrings(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf8"))
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return "\n\n".join(filter(None, (ast.get_docstring(n) for n in ast.walk(tree) if isinstance(n, kinds))))


@pytest.fixture(scope="module")
def prose() -> dict[str, str]:
    """What is written, by the file it stands in, without code, formulas and addresses."""
    texts = {path: notebook_prose(path) for path in (ROOT / "chapters").glob("[0-9][0-9]_*.ipynb")}
    pages = [*(ROOT / "book").rglob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    texts |= {path: path.read_text(encoding="utf8") for path in pages}
    for folder in ("src", "tests", "book/_ext", "benchmarks"):
        texts |= {path: docstrings(path) for path in (ROOT / folder).rglob("*.py")}
    return {str(path.relative_to(ROOT)): CODE.sub(" ", text) for path, text in sorted(texts.items())}


def american() -> dict[str, str]:
    """American spellings, each with the British one, from codespell's own list."""
    listed = files("codespell_lib").joinpath("data/dictionary_en-GB_to_en-US.txt").read_text("utf8")
    pairs = dict(reversed(line.split("->")) for line in listed.splitlines() if "," not in line)
    return {us: gb for us, gb in pairs.items() if us not in BRITISH_AS_WELL}


def test_nothing_is_misspelled(prose, tmp_path):
    """What looks like a mistake and is a name, or French, is listed in pyproject.toml, [tool.codespell]."""
    for name, text in prose.items():
        file = tmp_path / f"{name}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf8")
    command = [sys.executable, "-m", "codespell_lib", "--toml", ROOT / "pyproject.toml", "."]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_spelling_is_british(prose):
    """Mixed spelling looks like two authors who do not talk to each other."""
    british = american()
    assert british["color"] == "colour" and british["normalize"] == "normalise" and len(british) > 500
    found = [f"{name}: {word}, in British {british[word.lower()]}" for name, text in prose.items()
             for word in re.findall(r"[A-Za-z]+\b(?!\()", text) if word.lower() in british]
    assert not found, "\n".join(found)
