"""The versions of the problem sets: complete, the same at every build, and without a byte of the author's."""

import json
import re
from pathlib import Path

import nbformat
import pytest
from handed_in import NAME, SETS, SOURCE, secret_lines

from attncourse.coursework.problems import read_problem_set
from attncourse.coursework.sandbox import Limits, Session
from attncourse.coursework.versions import (
    build,
    build_pages,
    nbgrader_version,
    reader_version,
    student_version,
)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    build(SOURCE, folder)
    return folder


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("version", ["student", "reader"])
def test_nothing_of_the_author_s_is_handed_out(built, name, version):
    """In sources, outputs or metadata: whoever opens the file in an editor sees everything."""
    text = (built / version / f"{name}.ipynb").read_text()
    lines = secret_lines(SETS[name])
    assert len(lines) > 20, "the search would find nothing"
    assert [line for line in lines if json.dumps(line, ensure_ascii=False)[1:-1] in text] == []
    assert not re.search(r"SOLUTION|rehearse|hidden-check|mistake\"|rubric\"", text)
    notebook = json.loads(text)
    assert all(not cell.get("outputs") and not cell.get("execution_count") for cell in notebook["cells"])
    assert {key for cell in notebook["cells"] for key in cell["metadata"]} <= {"tags", "mystnb"}


def test_the_search_finds_what_is_left(built):
    """A search that cannot fail protects nobody: the instructors' version is full of such lines."""
    text = (built / "instructor" / f"{NAME}.ipynb").read_text()
    lines = secret_lines(SETS[NAME])
    found = [line for line in lines if json.dumps(line, ensure_ascii=False)[1:-1] in text]
    assert len(found) > len(lines) / 3


def test_the_same_sources_give_the_same_bytes(built, tmp_path):
    build(SOURCE, tmp_path)
    files = [path for path in sorted(built.rglob("*")) if path.is_file()]
    assert len(files) == 4 * len(SETS) + 1
    for path in files:
        assert path.read_bytes() == (tmp_path / path.relative_to(built)).read_bytes(), path.name


def test_an_address_goes_into_every_version_and_nothing_else_changes(built, tmp_path):
    build(SOURCE, tmp_path, "ada/attncourse@autumn")
    for path in sorted(tmp_path.rglob("*.ipynb")):
        with_address = path.read_text()
        assert (
            with_address.replace("ada/attncourse@autumn", "")
            == (built / path.relative_to(tmp_path)).read_text()
        )
        assert "ada/attncourse@autumn" in with_address
    with pytest.raises(ValueError, match="OWNER/NAME"):
        build(SOURCE, tmp_path, "ada")


def test_a_page_that_would_not_change_is_not_touched(tmp_path):
    """The book would be built anew each time."""
    [first, *_] = build_pages(SOURCE, tmp_path)
    before = first.stat().st_mtime_ns
    build_pages(SOURCE, tmp_path)
    assert first.stat().st_mtime_ns == before


@pytest.mark.parametrize("name", SETS)
def test_the_released_notebook_runs_in_an_empty_folder(built, name, bubblewrap):
    """With the package and nothing else: its common cells run, and each check says what is missing."""
    notebook = built / "student" / f"{name}.ipynb"
    with Session(notebook, Limits()) as session:
        cells = session.ask("read", 10)["cells"]
        session.ask("begin", 120)
        for cell in cells:
            if cell["kind"] != "code":
                continue
            error = session.ask("run", 20, source=cell["source"]).get("error", "")
            if "visible-check" in cell["tags"]:
                assert re.match("AssertionError: .{10}|NotImplementedError: question|TypeError", error), error
            elif "answer" not in cell["tags"]:
                assert not error, f"a cell that everybody gets does not run: {error}"


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("version", ["student", "reader", "instructor", "nbgrader"])
def test_a_version_is_a_valid_notebook_with_ids_of_its_own(built, name, version):
    place = f"nbgrader/source/{name}" if version == "nbgrader" else version
    notebook = nbformat.read(built / place / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    ids = [cell.id for cell in notebook.cells]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", SETS)
def test_nbgrader_s_points_are_the_set_s(built, name):
    """No graded cell without points, no point without a cell."""
    notebook = nbformat.read(built / f"nbgrader/source/{name}/{name}.ipynb", as_version=4)
    points = {c.metadata.nbgrader.grade_id: c.metadata.nbgrader.get("points") for c in notebook.cells}
    graded = [c.metadata.nbgrader.grade_id for c in notebook.cells if c.metadata.nbgrader.grade]
    assert sum(points[grade_id] for grade_id in graded) == SETS[name].points
    assert all(points[grade_id] > 0 for grade_id in graded)


def test_a_picture_of_a_question_is_kept_and_one_of_a_solution_is_not():
    """A question that asks about a picture is empty without it."""
    question = read_problem_set(SOURCE / f"{NAME}.ipynb")
    cells = question.notebook.cells
    asked = next(cell for cell in cells if "question" in cell.metadata.get("tags", []))
    answer = [cell for cell in cells if "answer" in cell.metadata.get("tags", [])][-1]
    for cell, name in ((asked, "shown.png"), (answer, "solution.png")):
        cell["attachments"] = {name: {"image/png": "aGVsbG8="}}
        cell.source = cell.source.replace("<!-- END", f"![it](attachment:{name})\n<!-- END")
    asked.source += "\n\n![it](attachment:shown.png)"
    for version in (student_version, reader_version, nbgrader_version):
        kept = [name for cell in version(question).cells for name in cell.get("attachments", {})]
        assert "shown.png" in kept, version
        assert "solution.png" not in kept or version is nbgrader_version, version
