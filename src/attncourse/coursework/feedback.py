"""What a student reads after grading, and what a person needs who grades by hand.

Feedback names the question, the case and the kind of fault. It never holds hidden inputs, expected values, or
a line of a hidden check.
"""

from collections import Counter
from collections.abc import Iterable
from html import escape

from attncourse.coursework.judge import RIGHT, Report, Verdict
from attncourse.coursework.problems import ProblemSet, solution_alone

_STYLE = """
html { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .3rem; }
.points { float: right; font-weight: 400; } li { margin: .2rem 0; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: inherit; }
pre { border-left: 3px solid; padding-left: .8rem; }
"""


def feedback_record(report: Report, title: str) -> dict:
    """One student's feedback as JSON holds it; the title is that of the problem set."""
    return {
        "student": report.student,
        "problem set": title,
        "points": report.earned,
        "of": report.points,
        "questions": [_question(verdict) for verdict in report.verdicts],
        "remarks": report.remarks,
    }


def _question(verdict: Verdict) -> dict:
    record = {
        "number": verdict.number,
        "title": verdict.title,
        "points": verdict.earned,
        "of": verdict.points,
    }
    if verdict.cases:
        record["cases"] = dict(verdict.cases)
        record["check"] = "" if verdict.earned else verdict.check
        record |= {"remark": verdict.remark} if verdict.remark else {}
    elif verdict.answer:
        record["remark"] = verdict.remark
    else:
        record["remark"] = verdict.remark or "nothing is written here"
    return record


def feedback_page(record: dict) -> str:
    """The feedback of `feedback_record` as a page that needs nothing beside it."""
    body = [f"<h1>{escape(record['problem set'])}</h1>"]
    body.append(
        f"<p>{escape(record['student'])}: <strong>{record['points']:g} of {record['of']} points</strong>"
    )
    if any(question["points"] is None for question in record["questions"]):
        body.append(" so far; what is written in words has yet to be graded")
    body.append("</p>")
    for question in record["questions"]:
        body += _question_lines(question)
    if record["remarks"]:
        body += ["<h2>About the notebook</h2>", "<ul>"]
        body += [f"<li>{escape(remark)}</li>" for remark in record["remarks"]]
        body.append("</ul>")
    return _page(record["problem set"], body)


def _question_lines(question: dict) -> list[str]:
    given = "not graded yet" if question["points"] is None else f"{question['points']:g} of {question['of']}"
    title = f"{question['number']} {question['title']}"
    lines = [f'<h2>{escape(title)} <span class="points">{given}</span></h2>']
    if "cases" in question:
        lines.append("<ul>")
        for label, words in question["cases"].items():
            lines.append(f"<li>{'✓' if words == RIGHT else '✗'} {escape(label)}: {escape(words)}</li>")
        lines.append("</ul>")
    if question.get("check"):
        lines += ["<p>The check in your notebook says:</p>", f"<pre>{escape(question['check'])}</pre>"]
    if question.get("remark"):
        lines.append(f"<p>{escape(question['remark'])}</p>")
    return lines


def by_hand_page(answers: Iterable[tuple[str, str, Verdict]], sets: dict[str, ProblemSet]) -> str:
    """Every answer in words, by question, beside rubric and model answer: for the person who grades."""
    answers = list(answers)
    body = ["<h1>To grade by hand</h1>", "<p>Write the points into by_hand.csv, and grade again.</p>"]
    for problem_set in sets.values():
        for question in problem_set.questions:
            mine = [
                (student, v) for student, _, v in answers if v.number == question.number and question.by_hand
            ]
            if not mine:
                continue
            body.append(f"<h2>{question.number} {escape(question.title)} ({question.points} points)</h2>")
            body += [
                f"<pre>{escape(question.rubric)}</pre>",
                f"<pre>{escape(solution_alone(question.answer))}</pre>",
            ]
            body += [
                f"<h3>{escape(student)}</h3><pre>{escape(verdict.answer)}</pre>" for student, verdict in mine
            ]
    return _page("To grade by hand", body)


def class_page(reports: Iterable[Report], sets: dict[str, ProblemSet]) -> str:
    """For each question, how many had all its points, and what was wrong, the most frequent first."""
    by_set: dict[str, list[Report]] = {}
    for report in reports:
        by_set.setdefault(report.problem_set, []).append(report)
    body = ["<h1>The class</h1>"]
    for name, of_set in by_set.items():
        mean = sum(report.earned for report in of_set) / len(of_set)
        body.append(
            f"<h2>{escape(sets[name].title)}: {mean:.1f} of {of_set[0].points} points on average</h2>"
        )
        for verdicts in zip(*(report.verdicts for report in of_set), strict=True):
            body += _class_lines(verdicts)
    return _page("The class", body)


def _class_lines(verdicts: tuple[Verdict, ...]) -> list[str]:
    graded = [verdict for verdict in verdicts if verdict.earned is not None]
    whole = sum(verdict.earned == verdict.points for verdict in graded)
    title = f"{verdicts[0].number} {verdicts[0].title}"
    lines = [f"<p>{escape(title)}: all points for {whole} of {len(graded)}</p>", "<ul>"]
    wrong = [verdict for verdict in graded if not verdict.earned and verdict.cases]
    said = Counter(map(_what_was_wrong, wrong))
    lines += [
        f"<li>{count} time{'s' * (count > 1)}: {escape(words)}</li>" for words, count in said.most_common(5)
    ]
    return [*lines, "</ul>"]


def _what_was_wrong(verdict: Verdict) -> str:
    """The mistake as the visible check names it, or else the first case that was not right."""
    of_cases = (f"{case}: {words}" for case, words in verdict.cases if words != RIGHT)
    return verdict.check or next(of_cases, verdict.remark)


def _page(title: str, body: list[str]) -> str:
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head += f"<title>{escape(title)}</title>"
    return (
        f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n'
        + "\n".join([*body, "</body></html>\n"])
    )
