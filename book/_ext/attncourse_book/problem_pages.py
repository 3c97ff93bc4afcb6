"""The problem sets in the book: their pages without solutions, and the table of all of them.

The sources, `chapters/problems/`, hold the solutions, so the book never reads them as pages. When a build
begins, the readers' versions are made from them in `book/problems/`, which git ignores. `{problem-sets}`
is the table: points and questions as the sources have them.
"""

from pathlib import Path

from docutils.parsers.rst import Directive

from attncourse.coursework.problems import ProblemSet, read_problem_sets
from attncourse.coursework.versions import build_pages
from attncourse_book.timetable import parsed

SOURCES, PAGES = "chapters/problems", "book/problems"
OF_THE_SOURCE = ("source-file-button", "source-edit-button")


def table(sets: dict[str, ProblemSet]) -> list[str]:
    """The table of all problem sets, as lines of Markdown."""
    lines = ["| problem set | points | questions |", "| --- | ---: | --- |"]
    for name, problem_set in sets.items():
        title = problem_set.title.removeprefix("Problem set ").replace(": ", " ", 1)
        asked = " · ".join(f"{question.title} ({question.points})" for question in problem_set.questions)
        lines.append(f"| [{title}](problems/{name}.ipynb) | {problem_set.points} | {asked} |")
    return lines


class ProblemSets(Directive):
    """The table of all problem sets."""

    def run(self):
        env = self.state.document.settings.env
        folder = Path(env.srcdir) / SOURCES
        for path in folder.glob("*.ipynb"):
            env.note_dependency(str(path))
        return parsed(self, table(read_problem_sets(folder)))


def _make_pages(app, config):
    build_pages(Path(app.srcdir) / SOURCES, Path(app.srcdir) / PAGES)


def _without_source(app, pagename, templatename, context, doctree):
    """What the theme calls the source of such a page is not in the repository."""
    if pagename.startswith(f"{PAGES}/"):
        for group in context.get("header_buttons", []):
            if "buttons" in group:
                group["buttons"] = [b for b in group["buttons"] if b.get("label") not in OF_THE_SOURCE]


def setup(app):
    app.add_directive("problem-sets", ProblemSets)
    app.connect("config-inited", _make_pages)
    app.connect("html-page-context", _without_source, priority=503)
