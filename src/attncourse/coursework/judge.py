"""The judge: runs a submission cell by cell, asks it what the hidden checks ask, and compares the answers.

The judge never imports or unpickles anything of a submission's. It sends inputs to the submission's process
and receives numbers. Objects that equal everything, patched comparisons, edited checks and printed verdicts
stay in that process, where nothing is decided.

A process that loops, crashes or takes too much is ended and started anew without the step that ended it, so
that each fault costs what it touches and no more.
"""

import builtins
import contextlib
import io
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from attncourse.coursework.asking import Asked, cases_of, questions_from, run_cell, seed_for
from attncourse.coursework.comparing import difference
from attncourse.coursework.driver import LONGEST_WORDS
from attncourse.coursework.problems import ProblemSet, Question, UnsoundExam, part_of
from attncourse.coursework.sandbox import OF_ITS_OWN, Ended, Limits, Session
from attncourse.coursework.submissions import (
    Cell,
    read_cells,
    readable_name,
    remarks_on,
    which_set,
    words_for,
)
from attncourse.coursework.wire import decode

RIGHT = "right"
MOST_REMARKS = 40
LONGEST_ANSWER = 20_000
_ERRORS = {
    "Missing": "is not defined",
    "NotImplementedError": "is not answered yet",
    "NotSendable": "returns something that is no tensor, number, text, or list of these",
}


# Errors of a judged call that are told by name; any other is "an error".
TOLD = {
    "AssertionError",
    "AttributeError",
    "IndexError",
    "KeyError",
    "MemoryError",
    "NameError",
    "OSError",
    "RecursionError",
    "RuntimeError",
    "SystemExit",
    "TypeError",
    "ValueError",
}
# What ends a process while a hidden input is asked about is told without a number that it could choose.
_BY_ITSELF = "its process ended by itself"


@dataclass(frozen=True)
class Exam:
    """What is asked in one problem set, and the right answers."""

    problem_set: ProblemSet
    asked: dict[str, list[Asked]]
    right: dict[str, list[Any]]


@dataclass
class Verdict:
    """The judgement of one question. `earned` is None as long as a person has to give the points."""

    number: str
    title: str
    points: int
    earned: float | None
    cases: tuple[tuple[str, str], ...] = ()  # by name: right, or how it was not
    check: str = ""  # what the visible check says
    answer: str = ""  # what is graded by hand
    remark: str = ""  # what the person who grades by hand says


@dataclass
class Report:
    """The judgement of one notebook."""

    student: str
    problem_set: str
    points: int
    verdicts: list[Verdict]
    remarks: list[str]

    @property
    def earned(self) -> float:
        """The points so far."""
        return sum(verdict.earned or 0 for verdict in self.verdicts)

    def as_dict(self) -> dict:
        """The report as JSON holds it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, content: dict) -> "Report":
        """The report that `as_dict` wrote."""
        verdicts = [
            Verdict(**{**one, "cases": tuple(map(tuple, one["cases"]))}) for one in content["verdicts"]
        ]
        return cls(**{**content, "verdicts": verdicts})


def prepare(path: Path, problem_set: ProblemSet, secret: str, limits: Limits, *, sandboxed: bool) -> Exam:
    """Draw the hidden inputs, and let the author's solutions answer them as a submission would.

    Raises:
        UnsoundExam: a solution does not answer.
    """
    names = _common_names(problem_set)
    asked = {
        question.number: questions_from(cases_of(question.hidden, names), seed_for(secret, question.number))
        for question in problem_set.questions
        if not question.by_hand
    }
    with Session(path, limits, sandboxed=sandboxed) as session:
        cells = read_cells(session, limits.cell_seconds)
    trial = _Trial(cells, problem_set, asked, limits, sandboxed)
    right = {}
    for number, cases in asked.items():
        replies = trial.answers(number)
        wrong = [
            f"{case.label}: {reply}"
            for case, reply in zip(cases, replies, strict=True)
            if "value" not in reply
        ]
        if wrong:
            raise UnsoundExam(
                f"{problem_set.name}: the solution of question {number} does not answer {wrong[0]}"
            )
        right[number] = [reply["value"] for reply in replies]
    return Exam(problem_set, asked, right)


def _common_names(problem_set: ProblemSet) -> dict[str, Any]:
    """The names that a hidden check may use: those of the cells that belong to every version."""
    names: dict[str, Any] = {}
    for cell in problem_set.notebook.cells:
        if cell.cell_type == "code" and not part_of(cell):
            with contextlib.redirect_stdout(io.StringIO()):
                run_cell(cell.source, names)
    return names


def judge(
    path: Path,
    student: str,
    sets: dict[str, ProblemSet],
    exam_of: Callable[[str], Exam],
    limits: Limits,
    *,
    sandboxed: bool,
) -> Report | str:
    """Judge one notebook; a notebook that cannot be judged gives the reason, in words."""
    try:
        with Session(path, limits, sandboxed=sandboxed) as session:
            cells = read_cells(session, limits.cell_seconds)
    except (ValueError, Ended) as error:
        return f"{readable_name(path.name)} cannot be read as a notebook ({error})"
    problem_set = which_set(cells, path, sets)
    if problem_set is None:
        return f"{readable_name(path.name)} answers none of the problem sets"
    exam = exam_of(problem_set.name)
    try:
        trial = _Trial(cells, problem_set, exam.asked, limits, sandboxed, exam.right)
    except Ended as end:
        return f"{readable_name(path.name)} could not be run on this machine: {end}"
    moved = list(_asked_in_place(trial, exam, cells, limits, sandboxed))
    verdicts = [_verdict(question, exam, trial, cells) for question in problem_set.questions]
    remarks = _few([*remarks_on(cells, problem_set), *moved, *trial.remarks()])
    return Report(student, problem_set.name, problem_set.points, verdicts, remarks)


def _asked_in_place(
    trial: "_Trial", exam: Exam, cells: list[Cell], limits: Limits, sandboxed: bool
) -> Iterator[str]:
    """Ask once more, after its own cells alone, what a later cell gave another meaning; a remark for each.

    All else is asked at the end: what is asked in between, a later cell could tell its author.
    """
    for number in trial.given_another_meaning():
        last = max(index for index, cell in enumerate(cells) if cell.number == number)
        seconds = trial.until - time.monotonic()
        if seconds <= 1:
            return
        asked, right = {number: exam.asked[number]}, {number: exam.right[number]}
        shorter = replace(limits, submission_seconds=round(seconds))
        with contextlib.suppress(Ended):
            own = _Trial(cells[: last + 1], exam.problem_set, asked, shorter, sandboxed, right)
            trial.outcomes |= {step: reply for step, reply in own.outcomes.items() if step[0] == "ask"}
            yield f"a cell below question {number} changes what it uses: it was asked after its own cells"


def _few(remarks: list[str]) -> list[str]:
    rest = len(remarks) - MOST_REMARKS
    return remarks if rest <= 0 else [*remarks[:MOST_REMARKS], f"{rest} more of this kind"]


def _verdict(question: Question, exam: Exam, trial: "_Trial", cells: list[Cell]) -> Verdict:
    verdict = Verdict(question.number, question.title, question.points, 0)
    if question.by_hand:
        verdict.answer = words_for(question.number, cells)
        if (length := len(verdict.answer)) > LONGEST_ANSWER:
            verdict.answer = f"{verdict.answer[:LONGEST_ANSWER]}\n\n(cut here: it is {length} letters long)"
        verdict.earned = None if verdict.answer else 0
        return verdict
    verdict.cases = tuple(
        (case.label, reply.get("words") or _words_for_none(case, reply))
        for case, reply in zip(exam.asked[question.number], trial.answers(question.number), strict=True)
    )
    verdict.earned = question.points if all(words == RIGHT for _, words in verdict.cases) else 0
    reply = trial.outcomes.get(("check", question.number), {})
    verdict.check = str(reply.get("ended") or reply.get("error") or "").removeprefix("AssertionError: ")
    return verdict


def _words_for_none(case: Asked, reply: dict) -> str:
    """What is said of a case to which there is no answer."""
    if "ended" in reply:
        return reply["ended"]
    return f"{case.request['name']} {_ERRORS.get(reply['error'], 'raises ' + reply['error'])}"


def _compared(case: Asked, right: Any, given: Any) -> str:
    how = difference(right, given)
    return f"{case.request['name']}: the answer {how}" if how else RIGHT


def _name(error: Any) -> str:
    """An error as a student is told it: by one of few names, since the submission chooses it."""
    if error in _ERRORS:
        return error
    known = getattr(builtins, error, None) if isinstance(error, str) else None
    ancestors = (kind.__name__ for kind in getattr(known, "__mro__", ()))
    return next((name for name in ancestors if name in TOLD), "an error")


class _Trial:
    """One submission's steps, carried out in as many processes as it takes.

    A step is ("cell", index), ("check", question), ("again", question), the check once more below all cells,
    or ("ask", question, case). `outcomes` holds the reply to each, or {"ended": why} for what ended its
    process. An answer is compared as it comes, with what is `right`, and not kept; the author's own, where
    nothing is right yet, stays as {"value": ...}.
    """

    def __init__(self, cells, problem_set, asked, limits, sandboxed, right=None):
        self.cells, self.asked, self.limits, self.right = cells, asked, limits, right
        self.questions = {question.number: question for question in problem_set.questions}
        self.outcomes: dict[tuple, dict] = {}
        self.until: float | None = None
        steps = list(self._steps())
        while self._open(steps):
            with Session(None, limits, sandboxed=sandboxed) as session:
                if self.until is None:  # the first start is not the submission's doing; others it pays for
                    session.ask("begin", limits.start_seconds)
                    self.until = time.monotonic() + limits.submission_seconds
                else:
                    self._begin_again(steps, session, self.until)
                self._carry_out(steps, session, self.until)

    def given_another_meaning(self) -> list[str]:
        """The questions whose check passed in its place, and fails after the cells below."""
        passed = [step[1] for step, reply in self.outcomes.items() if step[0] == "check" and not reply]
        return [number for number in passed if "error" in self.outcomes.get(("again", number), {})]

    def answers(self, number: str) -> list[dict]:
        """The replies to everything that is asked in one question."""
        return [self.outcomes["ask", number, index] for index in range(len(self.asked[number]))]

    def remarks(self) -> Iterator[str]:
        """The cells that failed, in words."""
        for step, reply in self.outcomes.items():
            if step[0] == "cell" and (why := reply.get("ended") or reply.get("error")):
                cell = self.cells[step[1]]
                of = f" (question {cell.number})" if cell.number else ""
                yield f"cell {step[1] + 1}{of}: {why}"

    def _steps(self) -> Iterator[tuple]:
        """The code cells in order, each check once in its place, then everything that is asked."""
        checked = set()
        for index, cell in enumerate(self.cells):
            words = cell.part == "answer" and cell.number not in self.asked
            if cell.kind != "code" or cell.part == "hidden-check" or words:
                continue
            if cell.part != "visible-check" or cell.number not in self.asked:
                yield ("cell", index)
            elif cell.number not in checked:
                checked.add(cell.number)
                yield ("check", cell.number)
        for number in sorted(self.asked.keys() - checked):
            yield ("check", number)
        yield from (("again", number) for number in sorted(checked))
        for number, cases in self.asked.items():
            yield from (("ask", number, index) for index in range(len(cases)))

    def _open(self, steps: list[tuple]) -> list[tuple]:
        return [step for step in steps if step not in self.outcomes]

    def _close(self, steps: list[tuple], why: str) -> None:
        self.outcomes |= {step: {"ended": why} for step in steps}

    def _begin_again(self, steps: list[tuple], session: Session, until: float) -> None:
        try:
            session.ask("begin", max(0.0, until - time.monotonic()))
        except Ended:
            if time.monotonic() < until:
                raise
            self._time_is_over(steps)

    def _time_is_over(self, steps: list[tuple]) -> None:
        whole = f"{self.limits.submission_seconds:g} seconds"
        self._close(self._open(steps), f"the {whole} of a submission were over")

    def _carry_out(self, steps: list[tuple], session: Session, until: float) -> None:
        """Go through the steps until one ends the process. Cells done before are done again, to no effect."""
        done = []
        for step in steps:
            before = self.outcomes.get(step)
            if before is not None and ("ended" in before or step[0] == "ask"):
                continue
            if time.monotonic() >= until:
                self._time_is_over(steps)
                return
            done.append(step)
            try:
                reply = self._ask(step, session, until)
                self.outcomes.setdefault(step, reply)
            except Ended as end:
                if time.monotonic() >= until:
                    self._time_is_over(steps)
                    return
                if 0 < end.ago < len(done):  # this step is asked again, in a process without that one
                    step = done[-1 - end.ago]
                why = _BY_ITSELF if step[0] == "ask" and str(end).startswith(_BY_ITSELF) else str(end)
                # A question whose check or case ends the process is not asked again.
                rest = [other for other in self._open(steps) if other[:2] == ("ask", step[1])]
                self._close([step, *rest], why)
                return

    def _ask(self, step: tuple, session: Session, until: float) -> dict:
        kind, which = step[:2]
        seconds = self.limits.call_seconds if kind == "ask" else self.limits.cell_seconds
        seconds = min(seconds, until - time.monotonic())
        if kind == "ask":
            return self._asked(self.asked[which][step[2]], step, session, seconds)
        source = self.cells[which].source if kind == "cell" else self.questions[which].visible
        reply = session.ask("run", seconds, source=source)
        return {"error": str(reply["error"])[:LONGEST_WORDS]} if "error" in reply else {}

    def _asked(self, case: Asked, step: tuple, session: Session, seconds: float) -> dict:
        """What came back for one case. Its words may repeat the hidden input: only names of errors go on."""
        reply = session.ask(case.what, seconds, **case.request)
        if "value" not in reply:
            return {"error": _name(reply.get("error"))}
        try:
            given = decode(reply["value"])
        except ValueError:
            raise Ended(OF_ITS_OWN) from None  # the driver sends no such thing
        if self.right is None:
            return {"value": given}
        return {"words": _compared(case, self.right[step[1]][step[2]], given)}
