"""Notebooks as students hand them in, made from the released version of one problem set."""

import json
from pathlib import Path

from attncourse.coursework.problems import (
    INSTRUCTORS,
    part_of,
    read_problem_sets,
    solution_alone,
    without_solution,
)
from attncourse.coursework.versions import student_version

SOURCE = Path(__file__).parents[2] / "chapters" / "problems"
NAME = "02_soft_attention"
SETS = read_problem_sets(SOURCE)
PROBLEMS = SETS[NAME]
ANSWERS = {question.number: question.answer for question in PROBLEMS.questions}
WORDS = "**Your answer to question 02.4**\n\nTwo losses share their steps. I would lower one."


class HandedIn:
    """A released notebook on its way through a student's hands: each method changes it and returns it."""

    def __init__(self):
        self.content = json.loads(json.dumps(student_version(PROBLEMS)))
        self.cells = self.content["cells"]

    def cell(self, cell_id: str) -> dict:
        return next(cell for cell in self.cells if cell.get("id") == cell_id)

    def answer(self, number: str, source: str) -> "HandedIn":
        self.cell(f"answer-{number.replace('.', '-')}")["source"] = source
        return self

    def solve(self, *numbers: str) -> "HandedIn":
        """Write the author's solutions, for all questions if none is named."""
        for number in numbers or ANSWERS:
            self.answer(number, WORDS if number == "02.4" else ANSWERS[number])
        return self

    def insert(self, before: str, source: str) -> "HandedIn":
        """A cell of the student's own before another."""
        place = self.cells.index(self.cell(before))
        own = {"cell_type": "code", "id": f"own-{len(self.cells)}", "metadata": {}, "source": source}
        self.cells.insert(place, {**own, "outputs": [], "execution_count": None})
        return self

    def delete(self, cell_id: str) -> "HandedIn":
        self.cells.remove(self.cell(cell_id))
        return self

    def double(self, cell_id: str) -> "HandedIn":
        self.cells.insert(self.cells.index(self.cell(cell_id)) + 1, dict(self.cell(cell_id)))
        return self

    def strip(self) -> "HandedIn":
        """Ids and metadata are gone, as after a round through another program."""
        for number, cell in enumerate(self.cells):
            cell["metadata"] = {}
            cell["id"] = f"x{number}"
        return self

    def as_colab_saves(self) -> "HandedIn":
        """Ids in the metadata, outputs with their times, format 4.0, widgets' state."""
        for cell in self.cells:
            cell["metadata"]["id"] = cell.pop("id")
            if cell["cell_type"] == "code":
                cell["metadata"]["executionInfo"] = {"status": "ok", "elapsed": 12}
                cell["metadata"]["colab"] = {"base_uri": "https://localhost:8080/"}
        self.content["metadata"] |= {"colab": {"provenance": []}, "accelerator": "GPU", "widgets": {}}
        self.content["nbformat_minor"] = 0
        return self

    def as_vs_code_saves(self) -> "HandedIn":
        """Sources as lists of lines with Windows' line ends, and notes of its own."""
        for cell in self.cells:
            cell["source"] = cell["source"].replace("\n", "\r\n").splitlines(keepends=True)
            cell["metadata"]["vscode"] = {"languageId": "python"}
        return self

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.write_text(json.dumps(self.content, ensure_ascii=False), encoding="utf-8")
        except UnicodeEncodeError:  # half a letter, which no editor writes
            path.write_text(json.dumps(self.content))
        return path


def secret_lines(problem_set) -> set[str]:
    """Lines of solutions, hidden checks, mistakes and rubrics that stand in nothing students see."""
    hidden, seen = [], []
    for cell in problem_set.notebook.cells:
        part = part_of(cell)
        if part in INSTRUCTORS:
            hidden += cell.source.splitlines()
        elif part == "answer":
            hidden += solution_alone(cell.source).splitlines()
            seen += without_solution(cell.source).splitlines()
        else:
            seen += cell.source.splitlines()
    public = {line.strip() for line in seen}
    everywhere = "\n".join(seen)
    return {
        line
        for line in map(str.strip, hidden)
        if len(line) >= 12 and line not in public and line not in everywhere
    }
