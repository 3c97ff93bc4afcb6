"""A problem set as its author writes it: one notebook, whose tagged cells say what each part is for.

After a cell tagged `question` follow that question's parts, until the next question. Cells without a tag
(introduction, imports, data) belong to every version.

    question       Markdown. Its heading: "## Question 02.1: A window ahead (3 points)". A second tag is the
                   kind: implement, experiment (run, and read off) or explain (in words, graded by hand).
    answer         Code, or Markdown for `explain`. What stands between a BEGIN SOLUTION and its END SOLUTION
                   is the author's; a student receives what stands around it. To hand out something to repair,
                   begin the solution with its lines behind "#: ".
    visible-check  Code that the student runs: asserts, whose messages name the likely mistake.
    hidden-check   Code that defines `cases(draw, ask)`: what is asked of the submission when it is graded.
    mistake        Raw: an answer with one mistake in it. The first line names the words with which the
                   visible check must meet it.
    rubric         Markdown: how the points of an `explain` are given.
"""

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode

KINDS = ("implement", "experiment", "explain")
PARTS = ("question", "answer", "visible-check", "hidden-check", "mistake", "rubric")
INSTRUCTORS = ("hidden-check", "mistake", "rubric")  # parts that no student sees
HEADING = re.compile(r"## Question (\d\d\.\d): (.+) \((\d+) points?\)")
# How the first line of each part names its question, so that a cell without its tags is still known.
FIRST_LINES = {
    "answer": r"# Question {}$|\*\*Your answer to question {}\*\*$",
    "visible-check": r"# Check {}$",
    "hidden-check": r"# Hidden check {}$",
    "mistake": r"# Mistake {}: .+",
    "rubric": r"\*\*Rubric {}\*\*$",
}
BEGIN, END = "BEGIN SOLUTION", "END SOLUTION"
# What editors and the book understand beside the parts and kinds; anything else is taken for a slip.
OTHER_TAGS = re.compile(r"(hide|remove|nbval|scroll)-.+|full-width|margin|parameters|popout|raises-exception")
# Marks of solutions and hidden tests, of this course and of other tools, however they are written.
_SECRET = r"(solution|hidden[\s_-]*tests?)"
MARKS = re.compile(
    rf"(begin|end)[\s_-]+{_SECRET}|^\s*(#+|<!--)\s*({_SECRET}|hidden)[^a-z]*$", flags=re.IGNORECASE
)
# First lines that only one part may have, however they are written.
_NAMED = r"(question|your answer to question|check|hidden[\s_-]*check|mistake|rubric)"
_NAMES = re.compile(rf"\W*{_NAMED}\s+\d\d?\W\d(\W*$|\W*:)")
UNANSWERED = "*Write your answer here.*"


class UnsoundExam(ValueError):
    """A problem set whose own solution does not answer."""


@dataclass(frozen=True)
class Mistake:
    """A wrong answer, and words of the message with which the visible check meets it."""

    words: str
    source: str


@dataclass
class Question:
    """One question with all its parts; `hidden` and `visible` are empty for what is graded by hand."""

    number: str
    title: str
    points: int
    kind: str
    answer: str = ""
    visible: str = ""
    hidden: str = ""
    rubric: str = ""
    mistakes: tuple[Mistake, ...] = ()

    @property
    def by_hand(self) -> bool:
        """Whether a person gives the points."""
        return self.kind == "explain"


@dataclass(frozen=True)
class ProblemSet:
    """A problem set, read and found whole."""

    name: str
    title: str
    notebook: NotebookNode
    questions: list[Question]

    @property
    def points(self) -> int:
        """All points together."""
        return sum(question.points for question in self.questions)


def part_of(cell: NotebookNode) -> str:
    """Which of PARTS a cell is tagged as, or ""."""
    return next((tag for tag in cell.metadata.get("tags", []) if tag in PARTS), "")


def read_problem_sets(folder: Path) -> dict[str, ProblemSet]:
    """Every problem set of a folder, by name.

    Raises:
        FileNotFoundError: there is no folder, or no notebook in it.
        ValueError: a notebook is no problem set; the message names the cell.
    """
    paths = sorted(folder.glob("*.ipynb"))
    if not paths:
        raise FileNotFoundError(
            f"no problem set in {folder}: name the folder with the sources, --source FOLDER"
        )
    return {path.stem: read_problem_set(path) for path in paths}


def read_problem_set(path: Path) -> ProblemSet:
    """Read one problem set and check that each question has what it needs.

    Raises:
        ValueError: something is missing, doubled or out of place; the message names file and cell.
    """
    try:
        notebook = nbformat.read(path, as_version=4)
    except (AttributeError, KeyError, TypeError, ValueError, nbformat.ValidationError):
        raise ValueError(f"{path.name}: this is not a notebook") from None
    questions: list[Question] = []
    for number, cell in enumerate(notebook.cells, start=1):
        part = part_of(cell)
        try:
            if part == "question":
                questions.append(_question(cell))
            elif part:
                _add(questions, part, cell)
            _check_for_slips(part, cell)
        except (ValueError, SyntaxError) as error:
            raise ValueError(f"{path.name}, cell {number} ({cell.get('id', 'no id')}): {error}") from None
    try:
        _check_whole(path.stem, questions)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    title = next(
        (line[2:] for cell in notebook.cells for line in cell.source.splitlines() if line[:2] == "# "), ""
    )
    return ProblemSet(path.stem, title, notebook, questions)


def _question(cell: NotebookNode) -> Question:
    heading = HEADING.match(cell.source)
    kinds = [tag for tag in cell.metadata.tags if tag in KINDS]
    if not heading:
        raise ValueError('a question begins with "## Question 02.1: Its title (3 points)"')
    if len(kinds) != 1:
        raise ValueError(f"a question has one kind of {', '.join(KINDS)}, not {len(kinds)}")
    return Question(heading[1], heading[2], int(heading[3]), kinds[0])


def _add(questions: list[Question], part: str, cell: NotebookNode) -> None:
    if not questions:
        raise ValueError(f"this {part} stands before the first question")
    question = questions[-1]
    first = cell.source.partition("\n")[0]
    if not re.match(FIRST_LINES[part].replace("{}", re.escape(question.number)), first):
        raise ValueError(f"the first line of this {part} does not name question {question.number}: {first!r}")
    if part == "mistake":
        question.mistakes += (Mistake(first.partition(": ")[2], cell.source),)
        return
    name = {"visible-check": "visible", "hidden-check": "hidden"}.get(part, part)
    if getattr(question, name):
        raise ValueError(f"question {question.number} has a second {part}")
    setattr(question, name, cell.source)
    if part == "answer":
        without_solution(cell.source)
        if (cell.cell_type == "markdown") != question.by_hand:
            raise ValueError(f"the answer to an {question.kind} is not a {cell.cell_type} cell")


def _check_for_slips(part: str, cell: NotebookNode) -> None:
    """Refuse what would hand out a solution or a hidden check because a tag or a mark is misspelt."""
    tags = cell.metadata.get("tags", [])
    for tag in tags:
        if tag not in (*PARTS, *KINDS) and not OTHER_TAGS.fullmatch(tag):
            raise ValueError(f"there is no tag {tag!r}: choose from {', '.join((*PARTS, *KINDS))}")
    if len(set(tags) & set(PARTS)) > 1:
        raise ValueError(f"a cell is one part, and this one is tagged {', '.join(tags)}")
    first = cell.source.partition("\n")[0]
    if not part and _NAMES.match(first.lower()):
        raise ValueError(f"it begins with {first!r}, and has no tag that says which part it is")
    for line in cell.source.splitlines():
        right = part == "answer" and (BEGIN in line or END in line)
        if MARKS.search(line) and not right:
            raise ValueError(
                f"{line.strip()!r} is a mark outside its place: a solution stands in an answer, between "
                f"{BEGIN} and {END}; hidden tests have a cell of their own, tagged hidden-check"
            )


def _check_whole(name: str, questions: list[Question]) -> None:
    if not questions:
        raise ValueError("it has no question: a question's cell is tagged `question`")
    expected = [f"{name[:2]}.{count}" for count in range(1, len(questions) + 1)]
    if [question.number for question in questions] != expected:
        raise ValueError(f"its questions are numbered otherwise than {', '.join(expected)}")
    for question in questions:
        needed = ("answer", "rubric") if question.by_hand else ("answer", "visible", "hidden", "mistakes")
        missing = [part for part in needed if not getattr(question, part)]
        if missing:
            raise ValueError(f"question {question.number} has no {missing[0]}")
        if question.by_hand and _rubric_points(question.rubric) != question.points:
            raise ValueError(
                f"the rubric of question {question.number} does not add up to its {question.points}"
            )
        if question.hidden and "def cases(" not in question.hidden:
            raise ValueError(f"the hidden check of question {question.number} defines no cases(draw, ask)")
        if question.points < 1:
            raise ValueError(f"question {question.number} has no points")


def _rubric_points(rubric: str) -> int:
    return sum(int(points) for points in re.findall(r"^- (\d+) points?:", rubric, flags=re.MULTILINE))


def without_solution(source: str) -> str:
    """The answer's cell as a student receives it.

    Inside a function a solution becomes an error that names the question. At the top level, where a student
    stores what was measured, each name of the solution becomes `name = ...`. Lines behind "#: " are handed
    out as they are.

    Raises:
        ValueError: no solution, or a BEGIN SOLUTION without its END SOLUTION.
    """
    kept, inside, found = [], None, False
    for line in source.splitlines():
        if (BEGIN in line and inside is not None) or (END in line and inside is None):
            raise ValueError(f"in an answer each {BEGIN} is followed by one {END}")
        if BEGIN in line:
            inside, found = [], True
        elif END in line:
            kept += _placeholder(source, inside)
            inside = None
        elif inside is None:
            kept.append(line)
        else:
            inside.append(line)
    if inside is not None or not found:
        raise ValueError(f"an answer has a {BEGIN} and, after it, an {END}")
    return "\n".join(kept)


def solution_alone(source: str) -> str:
    """An answer's cell with its solution, without marks and without what is handed out."""
    lines = source.splitlines()
    marks = (BEGIN, END)
    kept = (n for n in lines if not n.lstrip().startswith("#: ") and not any(mark in n for mark in marks))
    return "\n".join(kept)


def _placeholder(source: str, inside: list[str]) -> list[str]:
    if source.startswith("**"):
        return [UNANSWERED]
    handed_out = [line.replace("#: ", "", 1) for line in inside if line.lstrip().startswith("#: ")]
    if handed_out:
        return handed_out
    first = next((line for line in inside if line.strip()), None)
    if first is None:
        raise ValueError(f"between a {BEGIN} and its {END} stands nothing")
    indent = first[: len(first) - len(first.lstrip())]
    if indent:
        number = source.partition("\n")[0].removeprefix("# Question ")
        return [f"{indent}# Write your code here.", f'{indent}raise NotImplementedError("question {number}")']
    names = [
        name.id
        for statement in ast.parse("\n".join(inside)).body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
        for target in getattr(statement, "targets", None) or [statement.target]
        for name in (target.elts if isinstance(target, ast.Tuple) else [target])
        if isinstance(name, ast.Name)
    ]
    return [f"{name} = ...  # write your answer here" for name in names]
