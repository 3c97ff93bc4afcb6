"""How long a chapter takes, for those who plan a course: read from the chapters, never typed a second time.

Reading time, running time and what comes before stand in the list that opens a chapter, before its first
section; the exercises are counted in its section "Try it". `{timings}` makes one table of all chapters, and
`{course-plan}` adds up the weeks of a plan, whose lines say which chapters a week has, what is done in class
and what afterwards.
"""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

from attncourse_book.chapter_map import CHAPTERS

SECONDS = {"second": 1, "minute": 60, "hour": 3600}
PARTS = {"half": 1 / 2, "quarter": 1 / 4}
COUNTS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3}
DURATION = re.compile(
    r"\b(?:(?P<part>half) an?|(?P<count>\d+|an?|one|two|three)(?: and a (?P<before>half|quarter))?)"
    r" (?P<unit>second|minute|hour)s?(?: and a (?P<after>half|quarter))?\b"
)
# "- **Reading time:** about 45 minutes"; or a row of a table.
STATED = re.compile(r"^(?:- \*\*|\| )([^|:*]+?)(?::\*\*| \|) (.+?)(?: \|)?$", re.MULTILINE)
WEIGHTS = ("A minute", "Ten minutes", "An hour")
EXERCISE = re.compile(rf"^\*\*({'|'.join(WEIGHTS)})\b.*?(?=^\*\*(?:{'|'.join(WEIGHTS)})\b|\Z)",
                      re.DOTALL | re.MULTILINE)


def seconds(text: str) -> float:
    """The first duration that a sentence names, such as "about a minute and a half", in seconds.

    Raises:
        ValueError: there is none.
    """
    found = DURATION.search(text)
    if not found:
        raise ValueError(f"{text!r} names no time: write 'about 45 minutes' or 'about an hour and a half'")
    part, count, before, unit, after = found.group("part", "count", "before", "unit", "after")
    number = PARTS[part] if part else COUNTS.get(count) or int(count)
    return (number + PARTS.get(before or after, 0)) * SECONDS[unit]


def in_words(duration: float) -> str:
    """Seconds as a table shows them, with spaces that do not break: 50 s, 1.5 min, 45 min, 1 h 30 min."""
    if duration < 60:
        text = f"{duration:.0f} s"
    elif duration < 3600:
        text = f"{round(duration / 60, 1):g} min"
    else:
        hours, minutes = divmod(round(duration / 60), 60)
        text = f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


@dataclass(frozen=True)
class Effort:
    """What one chapter asks of its reader; times in seconds."""

    before: tuple[str, ...]      # numbers of the chapters that it builds on
    reading: float
    running: float
    exercises: tuple[int, ...]   # of a minute, of ten minutes, of an hour


def read_effort(notebook: Path) -> Effort:
    """The effort that a chapter states in its opening and in its exercises.

    Raises:
        ValueError: a row is missing, or names no time.
    """
    cells = [cell for cell in json.loads(notebook.read_text(encoding="utf8"))["cells"]
             if cell["cell_type"] == "markdown"]
    texts = ["".join(cell["source"]) for cell in cells]
    opening = "\n".join(texts).partition("\n## ")[0]
    rows = dict(STATED.findall(opening))
    needed = rows.get("Before this") or rows.get("You need", "")
    try:
        reading, running = (seconds(rows[row]) for row in ("Reading time", "Running time"))
    except (KeyError, ValueError) as problem:
        raise ValueError(f"{notebook.name}: what opens the chapter: {problem}") from None
    return Effort(tuple(re.findall(r"\]\((\d\d)_\w+\.ipynb", needed)), reading, running, _exercises(texts))


def _exercises(texts: list[str]) -> tuple[int, ...]:
    """How many of each weight: a paragraph each, or a numbered list under one heading."""
    whole = "\n\n".join(texts)
    section = re.search(r"^## Try it$(.*?)(?=^## |\Z)", whole, re.DOTALL | re.MULTILINE)
    counts = dict.fromkeys(WEIGHTS, 0)
    for found in EXERCISE.finditer(section[1] if section else ""):
        asked = found[0].split("<details>")[0]
        counts[found[1]] += max(1, len(re.findall(r"^\d+\. ", asked, flags=re.MULTILINE)))
    return tuple(counts.values())


def efforts(folder: Path) -> dict[str, Effort]:
    """By the number of the chapter, for those that are there."""
    return {path.name[:2]: read_effort(path) for path in sorted(folder.glob("[0-9][0-9]_*.ipynb"))}


def timings(known: dict[str, Effort]) -> list[str]:
    """The table of all chapters, as lines of Markdown."""
    lines = ["| chapter | builds on | reading | running, one core | exercises: a minute, ten, an hour |",
             "| --- | --- | ---: | ---: | ---: |"]
    for number, effort in known.items():
        lines.append(_row(_link(number, known), ", ".join(effort.before) or "–", in_words(effort.reading),
                          in_words(effort.running), " · ".join(map(str, effort.exercises))))
    exercises = map(sum, zip(*(effort.exercises for effort in known.values()), strict=True))
    reading = sum(effort.reading for effort in known.values())
    running = sum(effort.running for effort in known.values())
    together = in_words(reading), in_words(running), " · ".join(map(str, exercises))
    lines.append(_row("**together**", "", *together))
    return lines


def read_plan(content: list[str]) -> list[tuple[tuple[str, ...], str, str]]:
    """The weeks of a plan: numbers of chapters, in class, afterwards."""
    weeks = []
    for line in filter(None, map(str.strip, content)):
        chapters, in_class, afterwards = (part.strip() for part in line.split("|"))
        weeks.append((tuple(chapters.split()), in_class, afterwards))
    return weeks


def course_plan(weeks, known: dict[str, Effort]) -> list[str]:
    """A plan with the reading of each week added up, as lines of Markdown."""
    lines = ["| week | chapters | reading | in class | afterwards |", "| ---: | --- | ---: | --- | --- |"]
    for week, (chapters, in_class, afterwards) in enumerate(weeks, start=1):
        reading = sum(known[number].reading for number in chapters if number in known)
        names = " · ".join(_link(number, known) for number in chapters)
        lines.append(_row(str(week), names, in_words(reading) if reading else "–", in_class, afterwards))
    return lines


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _link(number: str, known: dict[str, Effort]) -> str:
    """A chapter's name, leading to it where it is in the book."""
    chapter = next(chapter for group in CHAPTERS.values() for chapter in group if chapter.number == number)
    name = f"{number} {chapter.title}"
    return f"[{name}](../chapters/{chapter.page}.ipynb)" if number in known else f"{name} (coming)"


def parsed(directive: Directive, lines: list[str]) -> list[nodes.Node]:
    """What lines of Markdown become in the place of a directive."""
    box = nodes.Element()
    source = directive.state.document.current_source
    directive.state.nested_parse(StringList(lines, source), directive.content_offset, box)
    return box.children


class Timings(Directive):
    """The table of all chapters."""

    def lines(self, known):
        return timings(known)

    def run(self):
        env = self.state.document.settings.env
        folder = Path(env.srcdir) / "chapters"
        for notebook in folder.glob("[0-9][0-9]_*.ipynb"):
            env.note_dependency(str(notebook))
        in_book = {page.rpartition("/")[2][:2] for page in env.found_docs if page.startswith("chapters/")}
        try:
            known = {number: effort for number, effort in efforts(folder).items() if number in in_book}
            lines = self.lines(known)
        except ValueError as problem:
            raise self.error(str(problem)) from None
        return parsed(self, lines)


class CoursePlan(Timings):
    """A plan by weeks."""

    has_content = True

    def lines(self, known):
        return course_plan(read_plan(self.content), known)


def setup(app):
    app.add_directive("timings", Timings)
    app.add_directive("course-plan", CoursePlan)
