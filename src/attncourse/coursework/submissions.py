"""What students hand in: which files, whose they are, and which cell answers which question.

Names of files are somebody else's text: no UTF-8, too long, or those of a pipe. Nothing is opened here.

A notebook has been through Jupyter, Colab or VS Code, and through its author's hands. Its cells are known by
the first line of each part or by their ids, whichever is left; what is lost or doubled is said.
"""

import contextlib
import hashlib
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from attncourse.coursework.problems import FIRST_LINES, HEADING, UNANSWERED, ProblemSet, Question, UnsoundExam
from attncourse.coursework.sandbox import Session

# What is handed in in place of a notebook, and must not be passed over in silence.
BY_MISTAKE = {
    *(".7z", ".bz2", ".gz", ".rar", ".tar", ".tgz", ".xz", ".zip"),
    *(".doc", ".docx", ".htm", ".html", ".odt", ".pages", ".pdf", ".rtf"),
    *(".json", ".py"),
}
# What systems and editors leave in folders and archives.
NOBODY_S = {"__macosx", "desktop.ini", "thumbs.db", "$recycle.bin"}
MOST_ENTRIES = 10_000  # in one student's folder
# A field of a table: beyond this, spreadsheets cut it and some readers of CSV refuse the whole file.
LONGEST_FIELD = 2000
LONGEST_NAME = 100  # bytes, for files that are called after a student
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

    Whatever is wrong with one student's files is one of their remarks.

    Raises:
        FileNotFoundError: there is no such folder, or nothing in it.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"SUBMISSIONS is a folder with one entry a student, and {folder} is none")
    entries: dict[str, list[Path]] = {}
    for entry in sorted(folder.iterdir()):
        if not _nobody_s(entry.name) and (whose := _whose(entry)):
            entries.setdefault(whose, []).append(entry)
    if not entries:
        raise FileNotFoundError(f"no submission in {folder}: a student is NAME.ipynb, or a folder NAME")
    readable = {name: readable_name(name) for name in entries}
    alike = {name for name, count in Counter(readable.values()).items() if count > 1}
    return [
        _handed_in(f"{readable[name]} ({_mark(name)})" if readable[name] in alike else readable[name], found)
        for name, found in entries.items()
    ]


def passed_over(folder: Path) -> list[str]:
    """The files of a folder that are nobody's submission and nothing that a system left there."""
    names = (e.name for e in sorted(folder.iterdir()) if not _nobody_s(e.name) and not _whose(e))
    return [readable_name(name) for name in names]


def readable_name(name: str) -> str:
    """The name of a file as text that can be written everywhere: bytes that are no UTF-8 become "\\xff"."""
    text = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(letter if letter.isprintable() else "\ufffd" for letter in text)


def folder_name(student: str) -> str:
    """What a student's folder is called: the name, or its beginning and a mark of its own."""
    plain = student.encode("utf-8", "replace")
    if len(plain) <= LONGEST_NAME and not student.startswith(".") and "/" not in student:
        return student
    start = plain[: LONGEST_NAME // 2].decode("utf-8", "ignore").lstrip(".").replace("/", "_")
    return f"{start}-{_mark(student)}"


def _mark(name: str) -> str:
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]


def _nobody_s(name: str) -> bool:
    return name.startswith(".") or name.lower() in NOBODY_S


def _looks_handed_in(name: str) -> bool:
    """Whether a file is a notebook, or what students hand in for one: "ada.ipynb.txt", an archive, a PDF."""
    return ".ipynb" in name.lower() or Path(name).suffix.lower() in BY_MISTAKE


def _whose(entry: Path) -> str:
    """The student to whom an entry belongs; "" if it looks like nobody's submission."""
    try:
        if stat.S_ISDIR(entry.lstat().st_mode):
            return entry.name
    except OSError:  # gone, or out of reach: said where it is looked through
        pass
    if not _looks_handed_in(entry.name) and not entry.is_symlink():
        return ""
    name = Path(entry.name)
    while name.stem and name.suffix.lower() in {".ipynb", ".txt", *BY_MISTAKE}:
        name = Path(name.stem)
    return str(name)


def _handed_in(student: str, entries: list[Path]) -> HandedIn:
    notebooks, remarks = [], []
    for entry in entries:
        with costing_nobody_else(remarks, readable_name(entry.name)):
            for path in _files(entry, remarks):
                _take(path, entry, notebooks, remarks)
    return HandedIn(student, notebooks, remarks if notebooks or remarks else ["there is no notebook"])


@contextlib.contextmanager
def costing_nobody_else(remarks: list[str], what: str) -> Iterator[None]:
    """Whatever fails with one student's files becomes a remark of theirs, and costs nobody else anything.

    All that is done with a student's files, from their names to their feedback, is done inside of this.
    """
    try:
        yield
    except UnsoundExam as error:
        remarks.append(f"{what} could not be graded, by no fault of its author: {error}"[:LONGEST_FIELD])
    except (OSError, ValueError) as error:
        remarks.append(f"{what} could not be read or written ({_why(error)})"[:LONGEST_FIELD])
    except Exception as error:
        remarks.append(f"{what} could not be judged, by a fault of the grader: {error!r}"[:LONGEST_FIELD])


def _why(error: Exception) -> str:
    """What went wrong, without the paths of this machine."""
    return (error.strerror or type(error).__name__) if isinstance(error, OSError) else str(error)


def _files(entry: Path, remarks: list[str]) -> Iterator[Path]:
    """A file, or everything below a folder that is no folder itself, in one order; links are not followed."""
    if not stat.S_ISDIR(entry.lstat().st_mode):
        yield entry
        return
    count = 0

    def said(error: OSError) -> None:
        remarks.append(f"a folder cannot be read ({_why(error)})")

    found = []
    for place, folders, files in os.walk(entry, onerror=said):
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        folders[:] = [name for name in folders if name not in links and not _nobody_s(name)]
        count += len(folders) + len(files)
        if count > MOST_ENTRIES:
            remarks.append(f"there are more than {MOST_ENTRIES} files: the rest was not looked at")
            break
        found += [Path(place, name) for name in [*files, *links] if not _nobody_s(name)]
    yield from sorted(found)


def _take(path: Path, entry: Path, notebooks: list[Path], remarks: list[str]) -> None:
    """Take a file in as a notebook, or say why not; a student's own data and pictures need no word."""
    name, kind = readable_name(path.name), path.lstat().st_mode
    wanted = path.suffix.lower() == ".ipynb"
    if stat.S_ISLNK(kind):
        if wanted or path == entry:
            which = "the submission" if path == entry else name
            remarks.append(f"{which} is a link to another file, and was not opened")
    elif wanted and stat.S_ISREG(kind):
        notebooks.append(path)
    elif wanted:
        remarks.append(f"{name} is no regular file, and was not opened")
    elif _looks_handed_in(path.name):
        remarks.append(f"{name} is no notebook")


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
    """What a student wrote under a question that is graded by hand, in its cell or in new ones below it.

    Words in a code cell are words as well, if they stand in the answer's own cell or nowhere else.
    """
    texts, in_code, below = [], [], False
    for cell in cells:
        if cell.part:
            below = cell.number == question_number
        if below and cell.part != "question":
            own = cell.kind in ("markdown", "raw") or cell.part == "answer"
            text = re.sub(_HEADING, "", cell.source).replace(UNANSWERED, "").strip()
            (texts if own else in_code).append(text)
    return "\n\n".join(filter(None, texts)) or "\n\n".join(filter(None, in_code))
