"""Grade a folder of submissions: in parallel, each shut in alone, and again from where it was interrupted.

What is written to the folder OUT:

    grades_SET.csv       a row a student, for a learning platform or a spreadsheet
    feedback/STUDENT/    SET.html and SET.json, for the student; not_graded.html where no notebook can be read
    by_hand.csv          the answers that a person grades: fill in `points`, grade again, and they are added
    by_hand.html         those answers beside rubric and model answer
    changes.csv          every number of points that another run changed, with the time
    class.html           which question was right how often, and what was wrong
    reports/, secret     what has been judged, and the seed of the hidden inputs: not for students
"""

import contextlib
import csv
import hashlib
import io
import json
import os
import secrets
from collections.abc import Collection, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from threading import Lock, get_ident

import psutil
from tqdm import tqdm

from attncourse import __version__
from attncourse.coursework.by_hand import COLUMNS as BY_HAND
from attncourse.coursework.by_hand import Given, add_given, no_formula, read_given, row_as_given, row_for
from attncourse.coursework.feedback import by_hand_page, class_page, feedback_page, feedback_record
from attncourse.coursework.judge import Exam, Report, judge, prepare
from attncourse.coursework.problems import ProblemSet, UnsoundExam, read_problem_set, read_problem_sets
from attncourse.coursework.sandbox import MEGABYTE, Limits, opened, require_sandbox
from attncourse.coursework.submissions import (
    LONGEST_FIELD,
    HandedIn,
    costing_nobody_else,
    find_submissions,
    folder_name,
    readable_name,
)


@dataclass(frozen=True)
class Graded:
    """What became of a student's submission: a report for each problem set, and what could not be graded."""

    student: str
    reports: dict[str, Report]
    remarks: list[str]
    unsound: dict[str, str] = field(default_factory=dict)  # sets that cannot be graded, by no fault of theirs

    @property
    def folder(self) -> str:
        """What their folder and their report are called."""
        return folder_name(self.student)


def grade(
    submissions: Path,
    out: Path,
    *,
    source: Path,
    jobs: int = 1,
    secret: Path | None = None,
    limits: Limits | None = None,
    sandboxed: bool = True,
    again: Collection[str] = (),
) -> list[Graded]:
    """Grade every submission of a folder and write grades and feedback.

    Args:
        submissions: a folder with STUDENT.ipynb files, or a folder for each student.
        out: where the results go; what is there from an earlier run of the same submissions is kept.
        source: the folder with the problem sets' sources.
        jobs: how many submissions are graded at a time.
        secret: a file with the seed of the hidden inputs, made at random if missing; OUT/secret if None.
        limits: what a submission may take.
        sandboxed: whether each submission is shut in; False only by the lecturer's own decision.
        again: students who are judged again, though nothing of theirs has changed.

    Raises:
        FileNotFoundError, ValueError: there is nothing to grade, or no way to; the message says what.
        NoSandbox: submissions cannot be shut in here, and `sandboxed` is True.
    """
    limits = limits or Limits()
    handed_in, (sets, broken) = find_submissions(submissions), _read_sets(source)
    unknown = set(again) - {one.student for one in handed_in}
    if unknown:
        raise ValueError(f"nobody in {submissions} is called {', '.join(sorted(unknown))}")
    secret = secret or out / "secret"
    if sandboxed:
        require_sandbox(submissions, out, source, secret)
    read_given(out / "by_hand.csv", sets)  # what cannot be understood is said before hours of work
    for folder in (out, out / "reports", out / "feedback"):
        _private(folder)
    grader = _Grader(out / "reports", source, sets, broken, _secret(secret), limits, sandboxed)
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(grader.grade, one, one.student in again) for one in handed_in]
        try:
            done = tqdm(as_completed(waiting), total=len(waiting), desc="graded", unit="submission")
            graded = sorted((future.result() for future in done), key=lambda one: one.student)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    # Read now: somebody may have filled it in meanwhile.
    given = read_given(out / "by_hand.csv", sets)
    rest = add_given({one.student: one.reports.values() for one in graded}, given)
    for one in graded:
        with costing_nobody_else(one.remarks, "the feedback"):
            _write_feedback(out / "feedback", one, sets)
    _write(out, graded, sets, rest)
    return graded


def _read_sets(source: Path) -> tuple[dict[str, ProblemSet], dict[str, str]]:
    """Every problem set, and what is wrong with those that cannot be read: those keep their place, empty.

    Raises:
        FileNotFoundError, ValueError: there is none at all that can be read.
    """
    sets, broken = {}, {}
    for path in sorted(source.glob("*.ipynb")):
        try:
            sets[path.stem] = read_problem_set(path)
        except (OSError, ValueError) as error:
            sets[path.stem], broken[path.stem] = ProblemSet(path.stem, path.stem, None, []), str(error)
    return (sets, broken) if len(broken) < len(sets) else (read_problem_sets(source), {})


def _private(folder: Path) -> None:
    """Make a folder that nobody else on this machine can read."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    for left in folder.glob(".*.part"):  # by a run that was killed
        owner = left.name.split(".")[-2].partition("-")[0]
        if owner.isdecimal() and not psutil.pid_exists(int(owner)):
            left.unlink(missing_ok=True)


def _secret(path: Path) -> str:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        # Whole before it has its name, and never in place of another's: two runs may begin at once.
        beside = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.part")
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(16) + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(beside, path)
        beside.unlink()
    found = path.read_text().strip()
    if not found:
        raise ValueError(f"the secret in {path} is empty: remove the file, and a new one is made")
    return found


class _Grader:
    """Grades one submission after another; several threads share it."""

    def __init__(
        self, reports: Path, source: Path, sets, broken, secret: str, limits: Limits, sandboxed: bool
    ):
        self.reports, self.source, self.sets, self.secret = reports, source, sets, secret
        self.limits, self.sandboxed = limits, sandboxed
        self._exams: dict[str, Exam] = {}
        self._unsound: dict[str, str] = dict(broken)
        self._preparing = Lock()
        # Whatever the grades depend on: if it changes, what was judged before is judged again.
        sources = [(source / f"{name}.ipynb").read_bytes() for name in sets]
        settings = json.dumps([__version__, secret, asdict(limits), sandboxed]).encode()
        self.settings = hashlib.sha256(b"\0".join([settings, *sources])).hexdigest()

    def exam(self, name: str) -> Exam:
        """The exam of a problem set, made when its first submission comes up.

        Raises:
            UnsoundExam: it cannot be made; tried once only.
        """
        with self._preparing:
            if name not in self._exams and name not in self._unsound:
                path, how = self.source / f"{name}.ipynb", {"sandboxed": self.sandboxed}
                try:
                    self._exams[name] = prepare(path, self.sets[name], self.secret, self.limits, **how)
                except Exception as error:
                    self._unsound[name] = str(error) or repr(error)
            if name in self._unsound:
                raise UnsoundExam(self._unsound[name])
            return self._exams[name]

    def grade(self, handed_in: HandedIn, again: bool) -> Graded:
        """Everything of one student's: read, judged unless it was before, and kept in a report."""
        graded = Graded(handed_in.student, {}, list(handed_in.remarks))
        before, now = {}, {}
        stored = self.reports / f"{graded.folder}.json"
        with costing_nobody_else(graded.remarks, "the earlier report"):
            before = {} if again else _load(stored)
        for path in handed_in.notebooks[: self.limits.notebooks]:
            with costing_nobody_else(graded.remarks, readable_name(path.name)):
                key = self._key(path)
                # Judged before it is kept: a fault of the grader is not remembered.
                now[key] = before.get(key) or self._judge(path, handed_in.student)
                self._add(graded, readable_name(path.name), now[key])
        if len(handed_in.notebooks) > self.limits.notebooks:
            graded.remarks.append(
                f"there are more than {self.limits.notebooks} notebooks: the rest was not graded"
            )
        graded.unsound.update(self._unsound)
        with costing_nobody_else(graded.remarks, "the report"):
            if now != before:
                _write_whole(stored, json.dumps(now, ensure_ascii=False, indent=1))
        return graded

    def _key(self, path: Path) -> str:
        """What tells one judgement from another: the notebook, its name, and all that grades depend on."""
        key = hashlib.sha256(self.settings.encode() + os.fsencode(path.name))
        with os.fdopen(opened(path, self.limits.notebook), "rb") as file:
            while piece := file.read(MEGABYTE):
                key.update(piece)
        return key.hexdigest()

    def _judge(self, path: Path, student: str) -> dict | str:
        report = judge(path, student, self.sets, self.exam, self.limits, sandboxed=self.sandboxed)
        return report if isinstance(report, str) else report.as_dict()

    def _add(self, graded: Graded, name: str, judged: dict | str) -> None:
        if isinstance(judged, str):
            graded.remarks.append(judged)
            return
        report = Report.from_dict(judged)
        if report.problem_set in graded.reports:
            report.remarks.append(f"there are several notebooks for this problem set; {name} was graded")
        graded.reports[report.problem_set] = report


def _load(path: Path) -> dict:
    """The judgements of an earlier run, by key; none of those that another version wrote."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return {key: one for key, one in found.items() if len(key) == 64} if isinstance(found, dict) else {}


def _write_whole(path: Path, text: str) -> None:
    """Write a file for its owner alone, so that an interruption leaves the old one or the new one.

    Half of a pair of letters, which a submission can send and no file can hold, becomes a question mark.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}-{get_ident()}.part")
    number = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(number, "w", encoding="utf-8", errors="replace", newline="") as file:
        file.write(text)
    beside.replace(path)


# --- What is written ---------------------------------------------------------------------------------------


def _write_feedback(feedback: Path, one: Graded, sets: dict[str, ProblemSet]) -> None:
    records = {name: feedback_record(report, sets[name].title) for name, report in one.reports.items()}
    if not records:
        records["not_graded"] = feedback_record(Report(one.student, "", 0, [], one.remarks), "Not graded")
    folder = feedback / one.folder
    _private(folder)
    if "not_graded" not in records:  # in an earlier run, perhaps
        for suffix in (".json", ".html"):
            (folder / f"not_graded{suffix}").unlink(missing_ok=True)
    for name, record in records.items():
        _write_whole(folder / f"{name}.json", json.dumps(record, ensure_ascii=False, indent=1) + "\n")
        _write_whole(folder / f"{name}.html", feedback_page(record))


def _write(out: Path, graded: list[Graded], sets: dict[str, ProblemSet], rest: list[Given]) -> None:
    for name in sets:
        if any(name in one.reports for one in graded):
            _write_grades(out / f"grades_{name}.csv", sets[name], graded)
    by_hand = [
        (one.student, name, verdict)
        for one in graded
        for name, report in one.reports.items()
        for verdict in report.verdicts
        if verdict.answer
    ]
    rows = [row_for(*answer) for answer in by_hand]
    # What overrules the machine stays as well, and points for whoever is not in the folder this time.
    _write_csv(out / "by_hand.csv", BY_HAND, [*rows, *map(row_as_given, rest)], keep="by_hand_before.csv")
    _write_whole(out / "by_hand.html", by_hand_page(by_hand, sets))
    _write_whole(out / "class.html", class_page((r for one in graded for r in one.reports.values()), sets))


def _write_grades(path: Path, problem_set: ProblemSet, graded: list[Graded]) -> None:
    numbers = [question.number for question in problem_set.questions]
    rows = []
    for one in graded:
        report = one.reports.get(problem_set.name)
        if report is None:
            why = "; ".join(one.remarks) or "no notebook for this problem set"
            rows.append([one.student, 0, problem_set.points, *[0] * len(numbers), 0, why])
            continue
        waiting = sum(verdict.points for verdict in report.verdicts if verdict.earned is None)
        points = [_number(verdict.earned) for verdict in report.verdicts]
        remarks = "; ".join([*one.remarks, *report.remarks])
        rows.append([one.student, _number(report.earned), report.points, *points, waiting, remarks])
    heading = ["student", "points", "of", *numbers, "still to grade by hand", "remarks"]
    rows = [[_cell(field) for field in row] for row in rows]
    _write_changes(path, [dict(zip(heading, map(no_formula, row), strict=True)) for row in rows], numbers)
    _write_csv(path, heading, rows)


def _write_changes(path: Path, rows: list[dict[str, str]], numbers: list[str]) -> None:
    """Add to the log which points differ from those in the table that is about to be replaced."""
    log, time = path.with_name("changes.csv"), datetime.now().astimezone().isoformat(timespec="seconds")
    before = {row.get("student"): row for row in _rows(path)}
    changes = [
        [row["student"], path.stem.removeprefix("grades_"), number, old[number], row[number], time]
        for row in rows
        if (old := before.get(row["student"]))
        for number in numbers
        if old.get(number, row[number]) != row[number]
    ]
    if changes:
        heading = ["student", "problem set", "question", "before", "after", "time"]
        _write_csv(log, heading, [*(row.values() for row in _rows(log)), *changes])


def _rows(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
        return list(csv.DictReader(file))


def _number(points: float | None) -> str:
    return "" if points is None else f"{points:g}"


def _write_csv(path: Path, header: Iterable[str], rows: Iterable[Iterable], keep: str = "") -> None:
    """Write a table; a file that it replaces is kept under the name `keep`, if there is one."""
    table = io.StringIO(newline="")
    csv.writer(table).writerows([map(no_formula, row) for row in [header, *rows]])
    # With its mark, so that spreadsheets read names of every language.
    text = "\ufeff" + table.getvalue()
    if keep and path.exists() and path.read_bytes() != text.encode("utf-8", "replace"):
        before = path.with_name(keep)
        before.unlink(missing_ok=True)
        os.link(path, before)
    _write_whole(path, text)


def _cell(value: object) -> str:
    """A field of a table, of one line and of a length that every reader takes."""
    text = "".join(letter if letter.isprintable() else " " for letter in str(value))
    return text if len(text) <= LONGEST_FIELD else f"{text[:LONGEST_FIELD]} ..."
