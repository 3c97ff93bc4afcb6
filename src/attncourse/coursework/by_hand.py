"""Points that a person gives, in a table for a spreadsheet, which changes it; nothing may be lost by that.

A row is found again by its key, of letters alone, which no spreadsheet takes for a number or a date. It also
tells whether the answer is still the one that was read. What cannot be understood is refused by line, and
stays as it is. A row for a question that the machine graded overrules the machine.
"""

import csv
import hashlib
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from attncourse.coursework.judge import Report, Verdict
from attncourse.coursework.problems import ProblemSet

COLUMNS = ("student", "problem set", "question", "of", "points", "remark", "key")
NEEDED = ("student", "question", "points")


@dataclass(frozen=True)
class Given:
    """One row that is filled in, as it stands; `points` is None if there is only a remark."""

    row: dict[str, str]
    number: str
    points: float | None

    @property
    def remark(self) -> str:
        """What the person says."""
        return self.row.get("remark", "")

    @property
    def key(self) -> tuple[str, str]:
        """The letters of student and question, and those of the answer that was read; "" without a key."""
        place, _, answer = self.row.get("key", "").partition("-")
        return place, answer


def read_given(path: Path, sets: Mapping[str, ProblemSet]) -> list[Given]:
    """The rows that are filled in so far; commas, semicolons and tabs all separate.

    Raises:
        ValueError: something cannot be understood; the message names file and line.
    """
    if not path.exists():
        return []
    lines = _lines(path)
    heading = [name.strip().lower() for name in lines[0][1]] if lines else []
    missing = [name for name in NEEDED if name not in heading]
    if missing:
        line = lines[0][0] if lines else 1
        raise ValueError(
            f"{path}, line {line}: there is no column {missing[0]!r} in the heading. It is "
            f"{', '.join(heading) or 'empty'}, and should be {', '.join(COLUMNS)}. Nothing was overwritten"
        )
    of = {question.number: question.points for one in sets.values() for question in one.questions}
    given: dict[tuple[str, str], tuple[int, Given]] = {}
    for number, fields in lines[1:]:
        row = {name: _as_written(field) for name, field in zip(heading, fields, strict=False)}
        row = {**dict.fromkeys(NEEDED, ""), **row}
        if not (row["points"] or row.get("remark")):
            continue
        try:
            found = _given(row, of, unread={name[:2] for name, one in sets.items() if not one.questions})
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}. Nothing was overwritten") from None
        before = given.setdefault((row["student"], found.number), (number, found))
        if before[1].points != found.points:
            raise ValueError(
                f"{path}, lines {before[0]} and {number}: two rows for question {found.number} of "
                f"{row['student']} give different points. Nothing was overwritten"
            )
    return [found for _, found in given.values()]


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The lines that hold something, split into fields, with their numbers."""
    content = path.read_bytes()
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ValueError(
            f"{path}, line {line}: these letters are not UTF-8: save it again as CSV with the character set "
            "UTF-8. Nothing was overwritten"
        ) from None
    first = next((line for line in text.splitlines() if line.strip() and line[:4] != "sep="), "")
    separator = max(",;\t", key=first.count)
    try:
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        fields = [(reader.line_num, row) for row in reader]
    except csv.Error as error:
        raise ValueError(f"{path}: {error}. Nothing was overwritten") from None
    return [(number, row) for number, row in fields if any(row) and not row[0].startswith("sep=")]


def no_formula(text: str) -> str:
    """A field that no spreadsheet computes, whatever it begins with."""
    return f"'{text}" if text[:1] in tuple("=+-@") else text


def _as_written(field: str) -> str:
    field = field.strip()
    return field[1:] if field[:1] == "'" and no_formula(field[1:]) == field else field


def _given(row: dict[str, str], of: dict[str, int], unread: set[str]) -> Given:
    number = row["question"].lower().removeprefix("question").strip().replace(",", ".")
    number = f"0{number}" if number[1:2] == "." else number
    if number not in of and number[:2] not in unread:
        raise ValueError(
            f"question is {row['question']!r}, and not one of the problem sets': write it as 'question 02.4'"
        )
    if not row["points"]:
        return Given(row, number, None)
    most = of.get(number, float("inf"))
    try:
        points = float(row["points"].replace(",", "."))
        fits = 0 <= points <= most
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"points is {row['points']!r}, and not a number from 0 to {most}")
    return Given(row, number, points)


def _letters(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "replace")).digest()
    return "".join(chr(ord("a") + byte % 26) for byte in digest[:10])


def _place(student: str, number: str) -> str:
    return _letters(f"{student}\n{number}")


def add_given(reports: Mapping[str, Iterable[Report]], given: list[Given]) -> list[Given]:
    """Add the points to the reports of each student; the rows that belong to no answer in words come back."""
    by_key = {one.key[0]: one for one in given if one.key[0]}
    by_name = {(one.row["student"], one.number): one for one in given}
    # A spreadsheet takes the zeros from the front of a number.
    bare = {(name.lstrip("0"), number): one for (name, number), one in by_name.items()}
    alone = [name.lstrip("0") for name in reports]
    for_answers = []
    for student, of_student in reports.items():
        for verdict in (verdict for report in of_student for verdict in report.verdicts):
            one = by_key.get(_place(student, verdict.number)) or by_name.get((student, verdict.number))
            if one is None and alone.count(student.lstrip("0")) == 1:
                one = bare.get((student.lstrip("0"), verdict.number))
            if one is None:
                continue
            if verdict.answer:
                for_answers.append(one)
                _add(verdict, one)
            elif one.points is not None:
                _overrule(verdict, one)
    return [one for one in given if one not in for_answers]


def _add(verdict: Verdict, one: Given) -> None:
    changed = one.key[1] and one.key[1] != _letters(verdict.answer)
    if changed and one.points is not None:
        words = f"the answer has changed since {one.points:g} points were given: to be graded again"
        verdict.earned, verdict.remark = None, f"{words}. {one.remark}".strip()
    else:
        verdict.earned, verdict.remark = one.points, one.remark


def _overrule(verdict: Verdict, one: Given) -> None:
    words = f"{one.points:g} points were given by a person, {verdict.earned or 0:g} by the machine"
    verdict.earned, verdict.remark = one.points, f"{words}. {one.remark}".strip()


def row_for(student: str, name: str, verdict: Verdict) -> list[str]:
    """The row of an answer in words; the name of its question is one that no spreadsheet changes."""
    points = "" if verdict.earned is None else f"{verdict.earned:g}"
    key = f"{_place(student, verdict.number)}-{_letters(verdict.answer)}"
    return [student, name, f"question {verdict.number}", str(verdict.points), points, verdict.remark, key]


def row_as_given(one: Given) -> list[str]:
    """A row that belongs to nobody here, or overrules the machine: as it stands."""
    row = {**one.row, "question": f"question {one.number}"}
    return [row.get(name, "") for name in COLUMNS]
