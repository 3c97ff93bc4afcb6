"""The nbgrader course: released, graded and given back by nbgrader itself."""

import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import nbformat
import pytest
from handed_in import NAME, PROBLEMS, SOURCE, WORDS, secret_lines
from nbgrader.api import Gradebook

from attncourse.coursework.problems import solution_alone
from attncourse.coursework.versions import build

# What the student `wrong` wrote, who has the solutions.
WRITTEN = "\n".join(
    f"{solution_alone(q.answer)}\n{m.source}" for q in PROBLEMS.questions for m in q.mistakes[:1]
)


@pytest.fixture(scope="module", autouse=True)
def activated():
    """nbgrader calls alembic by its name, which an environment that is not activated does not know."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
        yield


def run(folder: Path, *words: str) -> None:
    environment = {**os.environ, "HOME": str(folder), "IPYTHONDIR": str(folder / ".ipython")}
    command = [sys.executable, "-m", "nbgrader", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """One assignment released, handed in by three, graded, and given back."""
    built = tmp_path_factory.mktemp("built")
    build(SOURCE, built)
    course = built / "nbgrader"
    run(course, "generate_assignment", NAME)
    released = course / "release" / NAME / f"{NAME}.ipynb"
    for student in ("untouched", "wrong"):
        notebook = nbformat.read(released, as_version=4)
        for cell in notebook.cells:
            if student != "untouched" and cell.id.startswith("answer-"):
                number = cell.id.removeprefix("answer-").replace("-", ".")
                question = next(q for q in PROBLEMS.questions if q.number == number)
                wrong = student == "wrong" and number == "02.2"
                cell.source = question.mistakes[0].source if wrong else solution_alone(question.answer)
                cell.source = WORDS if question.by_hand else cell.source
        path = course / "submitted" / student / NAME / f"{NAME}.ipynb"
        path.parent.mkdir(parents=True)
        nbformat.write(notebook, path)
    for word in ("autograde", "generate_feedback"):
        run(course, word, NAME)
    return course


def test_nbgrader_gives_the_points_that_were_earned(course):
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}") as gradebook:
        scores = {one.student.id: one.score for one in gradebook.assignment_submissions(NAME)}
    assert scores == {"untouched": 0, "wrong": 5}


@pytest.mark.parametrize("folder", ["release", "feedback"])
def test_nbgrader_hands_nothing_of_the_author_s_out(course, folder):
    """nbgrader restores hidden tests before it grades; its feedback would print them."""
    files = [path for path in (course / folder).rglob("*") if path.suffix in (".ipynb", ".html")]
    assert len(files) == (1 if folder == "release" else 2)
    for path in files:
        text = unescape(re.sub(r"<[^>]+>", "", path.read_text()))
        own = set() if "wrong" not in path.parts else {line.strip() for line in WRITTEN.splitlines()}
        assert [line for line in secret_lines(PROBLEMS) - own if line in text] == []
