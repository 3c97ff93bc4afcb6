"""The versions of a problem set: for readers, students, nbgrader and instructors, all from one source.

`build` writes, for each problem set:

    reader/SET.ipynb            the page of the book: the student's version, its checks folded
    student/SET.ipynb           what is handed out: no solution, no hidden check, no rubric, no output
    instructor/SET.ipynb        questions, solutions, checks and rubrics, with their outputs
    nbgrader/source/SET/...     an nbgrader course, with nbgrader_config.py

The same sources give the same bytes.
"""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from attncourse.coursework.problems import (
    BEGIN,
    END,
    INSTRUCTORS,
    ProblemSet,
    Question,
    part_of,
    read_problem_sets,
    solution_alone,
    without_solution,
)
from attncourse.notebooks import METADATA, with_address

_CHAPTER = re.compile(r"\[([^\]]+)\]\(\.\./(\w+\.ipynb[^)]*)\)")
NBGRADER_CONFIG = Path(__file__).with_name("nbgrader_config.txt")


def build(source: Path, out: Path, address: str = "") -> list[Path]:
    """Write every version of every problem set.

    Args:
        source: the folder with the sources.
        out: the folder to write to; files of an earlier build are replaced.
        address: `OWNER/NAME` or `OWNER/NAME@BRANCH`, where Colab installs the package from; "" is none.

    Raises:
        FileNotFoundError, ValueError: no source, one that is not whole, or no address; the message says it.
    """
    written = []
    for name, problem_set in read_problem_sets(source).items():
        versions = {
            f"reader/{name}.ipynb": reader_version(problem_set),
            f"student/{name}.ipynb": student_version(problem_set),
            f"instructor/{name}.ipynb": instructor_version(problem_set),
            f"nbgrader/source/{name}/{name}.ipynb": nbgrader_version(problem_set),
        }
        for place, notebook in versions.items():
            written.append(_write(out / place, notebook, address))
    config = out / "nbgrader" / "nbgrader_config.py"
    shutil.copyfile(NBGRADER_CONFIG, config)
    return [*written, config]


def build_pages(source: Path, out: Path, address: str = "") -> list[Path]:
    """Write the readers' versions alone, as the book and Colab show them.

    A file that would not change is not touched. Raises what `build` raises.
    """
    sets = read_problem_sets(source)
    return [_write(out / f"{name}.ipynb", reader_version(one), address) for name, one in sets.items()]


def _write(path: Path, notebook: NotebookNode, address: str) -> Path:
    text = nbformat.writes(with_address(notebook, address) if address else notebook) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path


def student_version(problem_set: ProblemSet) -> NotebookNode:
    """What is handed out: nothing of the author's is left in sources, outputs or metadata."""
    return _assembled(_student_cells(problem_set, chapters=""))


def reader_version(problem_set: ProblemSet) -> NotebookNode:
    """The student's version as a page of the book: checks are folded, and links lead to the chapter."""
    notebook = _assembled(_student_cells(problem_set, chapters="../../chapters/"))
    for cell in notebook.cells:
        if part_of(cell) == "visible-check":
            cell.metadata.tags.append("hide-input")
            cell.metadata["mystnb"] = {"code_prompt_show": "Show the check", "code_prompt_hide": "Hide it"}
    return notebook


def _student_cells(problem_set: ProblemSet, chapters: str) -> Iterator[NotebookNode]:
    """The cells that a student sees; links lead to the folder `chapters`, or are none if it is ""."""
    for part, number, cell in _parts(problem_set):
        if part in INSTRUCTORS:
            continue
        source = without_solution(cell.source) if part == "answer" else cell.source
        if cell.cell_type == "markdown":
            source = _CHAPTER.sub(rf"[\1]({chapters}\2)" if chapters else r"\1", source)
        kept = _new_cell(cell.cell_type, source, _id(part, number) or cell.id)
        _attach(kept, cell)
        if part:
            kept.metadata["tags"] = [part]
        yield kept


def instructor_version(problem_set: ProblemSet) -> NotebookNode:
    """The source as it is, without the planted mistakes."""
    cells = [cell for part, _, cell in _parts(problem_set) if part != "mistake"]
    return _assembled(nbformat.from_dict(cell) for cell in cells)


def nbgrader_version(problem_set: ProblemSet) -> NotebookNode:
    """The source as nbgrader wants it: solutions and hidden tests between marks, points in the metadata."""
    questions = {question.number: question for question in problem_set.questions}
    return _assembled(_nbgrader_cells(problem_set, questions))


def _nbgrader_cells(problem_set: ProblemSet, questions: dict[str, Question]) -> Iterator[NotebookNode]:
    for part, number, cell in _parts(problem_set):
        if part in ("mistake", "rubric"):
            continue
        made = _new_cell(cell.cell_type, cell.source, _id(part, number) or cell.id)
        _attach(made, cell)
        question = questions.get(number)
        graded = part == "hidden-check" or (part == "answer" and question.by_hand)
        if part == "hidden-check":
            made.source = _hidden_tests(problem_set, question)
        elif part == "answer":
            made.source = _marked_for_nbgrader(cell.source, question)
        made.metadata["nbgrader"] = {
            "grade": graded,
            "solution": part == "answer",
            "locked": part != "answer",
            "task": False,
            "grade_id": made.id,
            "schema_version": 3,
            "cell_type": cell.cell_type,
            **({"points": question.points} if graded else {}),
        }
        yield made


def _marked_for_nbgrader(source: str, question: Question) -> str:
    """The student's text, and below it between nbgrader's marks what it has to clear away."""
    cleared = solution_alone(source) + (f"\n\n{question.rubric}" if question.by_hand else "")
    return f"{without_solution(source)}\n\n\n### {BEGIN}\n{cleared}\n### {END}"


def _hidden_tests(problem_set: ProblemSet, question: Question) -> str:
    """nbgrader runs its tests inside the student's kernel: solution and cases travel in the hidden region."""
    code = [(part, c.source) for part, _, c in _parts(problem_set) if c.cell_type == "code"]
    solution = [solution_alone(source) for part, source in code if part in ("", "answer")]
    return "\n".join(
        [
            "### BEGIN HIDDEN TESTS",
            "from attncourse.coursework import compare_here",
            f"compare_here(globals(), {question.hidden!r}, {solution!r})",
            "### END HIDDEN TESTS",
        ]
    )


def _parts(problem_set: ProblemSet) -> Iterator[tuple[str, str, NotebookNode]]:
    """Each cell of the source with its part and the number of its question, both "" outside the questions."""
    numbers = iter(problem_set.questions)
    number = ""
    for cell in problem_set.notebook.cells:
        part = part_of(cell)
        if part == "question":
            number = next(numbers).number
        yield part, number if part else "", cell


def _id(part: str, number: str) -> str:
    return f"{part}-{number.replace('.', '-')}" if part else ""


def _new_cell(kind: str, source: str, cell_id: str) -> NotebookNode:
    make = {
        "code": nbformat.v4.new_code_cell,
        "markdown": nbformat.v4.new_markdown_cell,
        "raw": nbformat.v4.new_raw_cell,
    }
    return make[kind](source, id=cell_id)


def _attach(made: NotebookNode, cell: NotebookNode) -> None:
    """The pictures attached to a cell that its text still shows: those of a solution stay behind."""
    shown = {name: one for name, one in cell.get("attachments", {}).items() if f":{name}" in made.source}
    if shown:
        made["attachments"] = nbformat.from_dict(shown)


def _assembled(cells) -> NotebookNode:
    notebook = nbformat.v4.new_notebook(metadata=nbformat.from_dict(METADATA), cells=list(cells))
    notebook.nbformat_minor = 5
    return notebook
