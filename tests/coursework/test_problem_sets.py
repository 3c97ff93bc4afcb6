"""Every problem set: its solutions pass, its mistakes are met by name, and its student's version is empty."""

import contextlib
import io
from pathlib import Path

import pytest

import attncourse
from attncourse.coursework.asking import cases_of, questions_from, run_cell
from attncourse.coursework.comparing import difference
from attncourse.coursework.driver import Student
from attncourse.coursework.problems import KINDS, part_of, read_problem_set, without_solution
from attncourse.coursework.wire import decode

FOLDER = Path(__file__).parents[2] / "chapters" / "problems"
SETS = {path.stem: read_problem_set(path) for path in sorted(FOLDER.glob("*.ipynb"))}
AUTOMATIC = [(s, q) for s in SETS.values() for q in s.questions if not q.by_hand]
MISTAKES = [(s, q, m) for s, q in AUTOMATIC for m in q.mistakes]


def name_of(value):
    return getattr(value, "number", None) or getattr(value, "words", None) or value.name


def run(source: str, names: dict) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        run_cell(source, names)


def begun(problem_set, *, solved: bool) -> dict:
    """The names after the notebook's common cells and all its answers."""
    names = {"__name__": "__main__"}
    for cell in problem_set.notebook.cells:
        part = part_of(cell)
        if cell.cell_type == "code" and part in ("", "answer"):
            # What is only measured on the way to an answer may fail where nothing is answered yet.
            with contextlib.nullcontext() if solved else contextlib.suppress(Exception):
                run(cell.source if solved or not part else without_solution(cell.source), names)
    return names


def answers(question, names: dict) -> list:
    """What the names answer to the hidden check, on its own inputs; an error is answered by its name."""
    asked, student = questions_from(cases_of(question.hidden, names), seed=1), Student(None, names)
    replies = [getattr(student, one.what)(**one.request) for one in asked]
    return [decode(reply["value"]) if "value" in reply else reply["error"] for reply in replies]


@pytest.mark.parametrize("problem_set", SETS.values(), ids=name_of)
def test_a_set_has_its_points_and_its_three_kinds(problem_set):
    """Points that do not add up are a promise to students that grading breaks."""
    assert 8 <= problem_set.points <= 12
    assert {question.kind for question in problem_set.questions} == set(KINDS)
    said = next(c.source for c in problem_set.notebook.cells if c.cell_type == "markdown")
    assert f"{problem_set.points} points" in said, "the introduction gives another sum of points"


@pytest.mark.parametrize("problem_set", SETS.values(), ids=name_of)
def test_what_is_asked_for_is_not_in_the_package(problem_set):
    """A question that `import` answers tests nothing."""
    source = "".join(path.read_text() for path in Path(attncourse.__file__).parent.rglob("*.py"))
    for question in problem_set.questions:
        for line in question.answer.splitlines():
            if line.startswith(("def ", "class ")):
                name = line.split()[1].partition("(")[0].rstrip(":")
                assert f"def {name}(" not in source and f"class {name}(" not in source, name


@pytest.mark.parametrize(("problem_set", "question"), AUTOMATIC, ids=name_of)
def test_a_solution_passes_its_check_and_repeats_itself(problem_set, question):
    """A solution that draws at random would not equal itself when it is graded."""
    names = begun(problem_set, solved=True)
    run(question.visible, names)
    first, second = answers(question, names), answers(question, begun(problem_set, solved=True))
    assert not any(isinstance(answer, str) and answer.endswith("Error") for answer in first), first
    assert difference(first, second) == ""


@pytest.mark.parametrize(("problem_set", "question"), AUTOMATIC, ids=name_of)
def test_nothing_written_passes_nothing(problem_set, question):
    """The released notebook as it is must not earn a point."""
    names = begun(problem_set, solved=False)
    with pytest.raises((AssertionError, NotImplementedError, TypeError)):
        run(question.visible, names)
    assert difference(answers(question, begun(problem_set, solved=True)), answers(question, names))


@pytest.mark.parametrize(("problem_set", "question", "mistake"), MISTAKES, ids=name_of)
def test_a_mistake_is_met_by_name_and_loses_the_point(problem_set, question, mistake):
    """A check that only says "wrong" teaches nothing."""
    names = begun(problem_set, solved=True)
    right = answers(question, names)
    run(mistake.source, names)
    with pytest.raises(AssertionError) as met:
        run(question.visible, names)
    assert mistake.words in str(met.value)
    assert difference(right, answers(question, names)), "the hidden check does not see this mistake"
