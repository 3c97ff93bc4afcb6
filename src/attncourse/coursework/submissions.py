"""What students hand in: which files, whose they are, and which cell answers which question.

A notebook has been through Jupyter, Colab or VS Code, and through its author's hands. Its cells are known by
the first line of each part or by their ids, whichever is left; what is lost or doubled is said.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from attncourse.coursework.problems import FIRST_LINES, HEADING, UNANSWERED, ProblemSet, Question
from attncourse.coursework.sandbox import Session

# What is handed in in place of a notebook, and must not be passed over in silence.
BY_MISTAKE = {".7z", ".docx", ".gz", ".html", ".pdf", ".py", ".rar", ".zip"}
NUMBER = r"(\d\d\.\d)"
_LINES = {part: re.compile(FIRST_LINES[part].replace("{}", NUMBER)) for part in ("answer", "visible-check")}
_HEADING = rf"\A\*\*Your answer to question {NUMBER}\*\*"
_ID = re.compile(r"(answer|visible-check)-(\d\d)-(\d)$")


@dataclass(frozen=True)
class HandedIn:
    """One student's notebooks, as files."""

    student: str
    notebooks: list[Path]
    remarks: list[str]


def find_submissions(folder: Path) -> list[HandedIn]:
    """Every student's notebooks: STUDENT.ipynb, or a folder STUDENT with notebooks anywhere in it.

    Raises:
        FileNotFoundError: there is no such folder, or nothing in it.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"SUBMISSIONS is a folder with one entry a student, and {folder} is none")
    found = [_handed_in(entry) for entry in sorted(folder.iterdir()) if not entry.name.startswith(".")]
    found = [one for one in found if one is not None]
    if not found:
        raise FileNotFoundError(f"no submission in {folder}: a student is NAME.ipynb, or a folder NAME")
    names = Counter(one.student for one in found)
    doubled = [name for name, count in names.items() if count > 1]
    if doubled:
        raise ValueError(f"{folder} has a file and a folder for {doubled[0]}: which one counts?")
    return found


def _handed_in(entry: Path) -> HandedIn | None:
    if entry.is_symlink():
        return HandedIn(entry.stem, [], ["the submission is a link to another file, and was not opened"])
    if entry.is_dir():
        found = (path for path in sorted(entry.rglob("*.ipynb")) if path.is_file() or path.is_symlink())
        inside = [path for path in found if ".ipynb_checkpoints" not in path.parts]
        links = [
            path for path in inside if path.is_symlink() or not path.resolve().is_relative_to(entry.resolve())
        ]
        remarks = [f"{path.name} is a link to another file, and was not opened" for path in links]
        notebooks = [path for path in inside if path not in links]
        return HandedIn(entry.name, notebooks, remarks if notebooks or remarks else ["there is no notebook"])
    if entry.suffix.lower() == ".ipynb":
        return HandedIn(entry.stem, [entry], [])
    if entry.suffix.lower() in BY_MISTAKE:
        return HandedIn(entry.stem, [], [f"{entry.name} is no notebook"])
    return None


@dataclass(frozen=True)
class Cell:
    """One cell of a submission, and which part of the problem set it is ("" for one of the student's own)."""

    kind: str
    source: str
    part: str = ""
    number: str = ""
    tagged: bool = True


def read_cells(session: Session, seconds: float) -> list[Cell]:
    """The cells of a session's notebook, read in its own process, before anything of it has run.

    Raises:
        ValueError: the file is no notebook; the message says why.
        Ended: it cannot be read in time, or in the memory there is.
    """
    reply = session.ask("read", seconds)
    if "cells" not in reply:
        raise ValueError(reply["error"])
    return recognise(reply["cells"])


def recognise(cells: Iterable[Mapping]) -> list[Cell]:
    """The cells that the driver read, each with its part and question where they can be told."""
    return [_recognise(cell) for cell in cells]


def _recognise(cell: Mapping) -> Cell:
    kind, source, tags = str(cell["kind"]), str(cell["source"]).replace("\r\n", "\n"), cell["tags"]
    if "hidden-check" in tags:
        return Cell(kind, source, "hidden-check")
    first = source.partition("\n")[0].rstrip()
    if heading := HEADING.match(first):
        return Cell(kind, source, "question", heading[1])
    for part, line in _LINES.items():
        # A student's own Markdown may begin with "# Check 02.1" as well: as a heading.
        if (found := line.match(first)) and (kind == "code" or first.startswith("**")):
            return Cell(kind, source, part, found[found.lastindex], tagged=part in tags)
    if found := _ID.match(cell["id"]):
        return Cell(kind, source, found[1], f"{found[2]}.{found[3]}", tagged=found[1] in tags)
    return Cell(kind, source)


def which_set(cells: list[Cell], path: Path, known: Mapping[str, ProblemSet]) -> ProblemSet | None:
    """The problem set that a notebook answers: by its cells, or else by the file's name."""
    by_number = {problem_set.name[:2]: problem_set for problem_set in known.values()}
    counted = Counter(cell.number[:2] for cell in cells if cell.number[:2] in by_number)
    if counted:
        return by_number[counted.most_common(1)[0][0]]
    return next((problem_set for name, problem_set in known.items() if name in path.name), None)


def remarks_on(cells: list[Cell], problem_set: ProblemSet) -> list[str]:
    """What is missing, doubled, stripped or changed, one sentence each."""
    remarks = []
    for question in problem_set.questions:
        answers = [cell for cell in cells if (cell.part, cell.number) == ("answer", question.number)]
        checks = [cell for cell in cells if (cell.part, cell.number) == ("visible-check", question.number)]
        named = f"the answer cell of question {question.number}"
        if not answers:
            remarks.append(f"{named} is not there" + ("" if question.by_hand else ": looked for by name"))
        if len(answers) > 1:
            remarks.append(
                f"{named} is there {len(answers)} times" + ("" if question.by_hand else ": the last counts")
            )
        if any(not cell.tagged for cell in answers):
            remarks.append(f"{named} has lost its tags: known by what is left")
        remarks += _remarks_on_checks(checks, question)
    return remarks


def _remarks_on_checks(checks: list[Cell], question: Question) -> list[str]:
    if question.by_hand:
        return []
    named = f"the check cell of question {question.number}"
    remarks = [] if checks else [f"{named} is not there: the original was run"]
    if len(checks) > 1:
        remarks.append(f"{named} is there {len(checks)} times: it was run once")
    if any(_plain(cell.source) != _plain(question.visible) for cell in checks):
        remarks.append(f"{named} was changed: the original was run instead")
    return remarks


def _plain(source: str) -> list[str]:
    return [line.rstrip() for line in source.strip().splitlines()]


def words_for(question_number: str, cells: list[Cell]) -> str:
    """What a student wrote under a question that is graded by hand, in its cell or in new ones below it."""
    texts, below = [], False
    for cell in cells:
        if cell.part:
            below = cell.number == question_number
        if below and cell.part != "question" and cell.kind == "markdown":
            texts.append(re.sub(_HEADING, "", cell.source).replace(UNANSWERED, "").strip())
    return "\n\n".join(filter(None, texts))
