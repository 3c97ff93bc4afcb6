"""Grade a folder of submissions: in parallel, each shut in alone, and again from where it was interrupted.

What is written to the folder OUT:

    grades_SET.csv       a row a student, for a learning platform or a spreadsheet
    feedback/STUDENT/    SET.html and SET.json, for the student; not_graded.html where no notebook can be read
    by_hand.csv          the answers that a person grades: fill in `points`, grade again, and they are added
    by_hand.html         those answers beside rubric and model answer
    reports/, secret     what has been judged, and the seed of the hidden inputs: not for students
"""

import csv
import hashlib
import io
import json
import os
import secrets
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock

from tqdm import tqdm

from attncourse import __version__
from attncourse.coursework.feedback import by_hand_page, feedback_page, feedback_record
from attncourse.coursework.judge import Exam, Report, UnsoundExam, judge, prepare
from attncourse.coursework.problems import ProblemSet, read_problem_sets
from attncourse.coursework.sandbox import Limits, require_sandbox
from attncourse.coursework.submissions import HandedIn, find_submissions

BY_HAND = ("student", "problem set", "question", "of", "points", "remark")


@dataclass(frozen=True)
class Graded:
    """What became of a student's submission: a report for each problem set, and what could not be graded."""

    student: str
    reports: dict[str, Report]
    remarks: list[str]


def grade(
    submissions: Path,
    out: Path,
    *,
    source: Path,
    jobs: int = 1,
    secret: Path | None = None,
    limits: Limits | None = None,
    sandboxed: bool = True,
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

    Raises:
        FileNotFoundError, ValueError: there is nothing to grade, or no way to; the message says what.
        NoSandbox: submissions cannot be shut in here, and `sandboxed` is True.
    """
    limits = limits or Limits()
    handed_in, sets = find_submissions(submissions), read_problem_sets(source)
    if sandboxed:
        require_sandbox(submissions, out, source)
    points_by_hand = _read_by_hand(out / "by_hand.csv")
    (out / "reports").mkdir(parents=True, exist_ok=True)
    seed = _secret(secret or out / "secret")
    grader = _Grader(out / "reports", source, sets, seed, limits, sandboxed)
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(grader.grade, one) for one in handed_in]
        try:
            done = tqdm(as_completed(waiting), total=len(waiting), desc="graded", unit="submission")
            graded = sorted((future.result() for future in done), key=lambda one: one.student)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    for one in graded:
        _add_by_hand(one, points_by_hand)
    _write(out, graded, sets, points_by_hand)
    return graded


def _secret(path: Path) -> str:
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(secrets.token_hex(16) + "\n")
    found = path.read_text().strip()
    if not found:
        raise ValueError(f"the secret in {path} is empty: remove the file, and a new one is made")
    return found


class _Grader:
    """Grades one submission after another; several threads share it."""

    def __init__(
        self, reports: Path, source: Path, sets: dict[str, ProblemSet], secret: str, limits, sandboxed
    ):
        self.reports, self.source, self.sets, self.secret = reports, source, sets, secret
        self.limits, self.sandboxed = limits, sandboxed
        self._exams: dict[str, Exam] = {}
        self._preparing = Lock()
        # Whatever the grades depend on: if it changes, what was judged before is judged again.
        sources = [(source / f"{name}.ipynb").read_bytes() for name in sets]
        settings = json.dumps([__version__, secret, asdict(limits), sandboxed]).encode()
        self.settings = hashlib.sha256(b"\0".join([settings, *sources])).hexdigest()

    def exam(self, name: str) -> Exam:
        """The exam of a problem set, made when its first submission comes up."""
        with self._preparing:
            if name not in self._exams:
                path = self.source / f"{name}.ipynb"
                self._exams[name] = prepare(
                    path, self.sets[name], self.secret, self.limits, sandboxed=self.sandboxed
                )
            return self._exams[name]

    def grade(self, handed_in: HandedIn) -> Graded:
        key = hashlib.sha256(self.settings.encode())
        for path in handed_in.notebooks:
            key.update(str(path.name).encode() + hashlib.sha256(path.read_bytes()).digest())
        stored = self.reports / f"{handed_in.student}.json"
        before = _load(stored)
        if before.get("key") != key.hexdigest():
            try:
                judged = [self._judge(path, handed_in) for path in handed_in.notebooks]
            except UnsoundExam:
                raise
            except Exception as error:  # a fault of ours must not cost the others their grades
                why = f"could not be judged, by a fault of the grader: {error!r}"
                return Graded(handed_in.student, {}, [*handed_in.remarks, why])
            before = {"key": key.hexdigest(), "judged": judged}
            _write_whole(stored, json.dumps(before, ensure_ascii=False, indent=1))
        reports, remarks = {}, list(handed_in.remarks)
        for path, judged in zip(handed_in.notebooks, before["judged"], strict=True):
            if isinstance(judged, str):
                remarks.append(judged)
                continue
            report = Report.from_dict(judged)
            if report.problem_set in reports:
                report.remarks.append(
                    f"there are several notebooks for this problem set; {path.name} was graded"
                )
            reports[report.problem_set] = report
        return Graded(handed_in.student, reports, remarks)

    def _judge(self, path: Path, handed_in: HandedIn) -> dict | str:
        report = judge(path, handed_in.student, self.sets, self.exam, self.limits, sandboxed=self.sandboxed)
        return report if isinstance(report, str) else report.as_dict()


def _load(path: Path) -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}


def _write_whole(path: Path, text: str) -> None:
    """Write a file so that an interruption leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.part")
    beside.write_text(text, encoding="utf-8", newline="")
    beside.replace(path)


# --- Points that a person gives ----------------------------------------------------------------------------


def _read_by_hand(path: Path) -> dict[tuple[str, str], dict]:
    """The rows that are filled in so far, by student and question.

    Raises:
        ValueError: points that are none, or more than the question has; the message names the row.
    """
    if not path.exists():
        return {}
    given = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=2):
            if not (row.get("points") or "").strip():
                continue
            try:
                fits = 0 <= _points(row) <= float(row["of"])
            except (KeyError, TypeError, ValueError):
                fits = False
            if not fits:
                allowed = f"a number from 0 to {row.get('of')}"
                raise ValueError(f"{path}, row {number}: points is {row['points']!r}, and not {allowed}")
            given[row["student"], row["question"]] = row
    return given


def _points(row: dict) -> float:
    return float(row["points"].replace(",", "."))


def _add_by_hand(graded: Graded, given: dict[tuple[str, str], dict]) -> None:
    for report in graded.reports.values():
        for verdict in report.verdicts:
            row = given.get((graded.student, verdict.number))
            if verdict.answer and row:
                verdict.earned, verdict.remark = _points(row), row.get("remark") or ""


# --- What is written ---------------------------------------------------------------------------------------


def _write(out: Path, graded: list[Graded], sets: dict[str, ProblemSet], given: dict) -> None:
    occurring = [name for name in sets if any(name in one.reports for one in graded)]
    for name in occurring:
        _write_grades(out / f"grades_{name}.csv", sets[name], graded)
    for one in graded:
        records = {name: feedback_record(report, sets[name].title) for name, report in one.reports.items()}
        if not records:
            nothing = Report(one.student, "", 0, [], one.remarks)
            records["not_graded"] = feedback_record(nothing, "Not graded")
        for name, record in records.items():
            folder = out / "feedback" / one.student
            _write_whole(folder / f"{name}.json", json.dumps(record, ensure_ascii=False, indent=1) + "\n")
            _write_whole(folder / f"{name}.html", feedback_page(record))
    by_hand = [
        (one.student, name, verdict)
        for one in graded
        for name, report in one.reports.items()
        for verdict in report.verdicts
        if verdict.answer
    ]
    rows = [
        [student, name, verdict.number, verdict.points, _number(verdict.earned), verdict.remark]
        for student, name, verdict in by_hand
    ]
    # Points for whoever is not in the folder this time stay as well.
    here = {(row[0], row[2]) for row in rows}
    rows += [[row.get(name) for name in BY_HAND] for key, row in given.items() if key not in here]
    _write_csv(out / "by_hand.csv", BY_HAND, rows)
    _write_whole(out / "by_hand.html", by_hand_page(by_hand, sets))


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
    _write_csv(path, ["student", "points", "of", *numbers, "still to grade by hand", "remarks"], rows)


def _number(points: float | None) -> str:
    return "" if points is None else f"{points:g}"


def _write_csv(path: Path, header: Iterable[str], rows: Iterable[Iterable]) -> None:
    table = io.StringIO(newline="")
    csv.writer(table).writerows([header, *rows])
    # With its mark, so that spreadsheets read names of every language.
    _write_whole(path, "\ufeff" + table.getvalue())
