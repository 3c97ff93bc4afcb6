"""A student's own look at a notebook before handing it in: what passes, and what fails."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attncourse.coursework.sandbox import Ended, Limits, Session
from attncourse.coursework.submissions import Cell, read_cells


@dataclass(frozen=True)
class Checked:
    """One check and what it says; `words` is empty if it passes."""

    name: str
    words: str


def run_checks(notebook: Path, limits: Limits | None = None) -> list[Checked]:
    """Run a notebook from top to bottom in a new process, and collect what its check cells say.

    Raises:
        FileNotFoundError: there is no such notebook.
        ValueError: it cannot be read, has no check cell, or this is Windows, whose processes differ.
    """
    if sys.platform == "win32":
        raise ValueError("this check needs Linux or macOS: in Jupyter, restart the kernel and run all cells")
    if not notebook.is_file():
        raise FileNotFoundError(f"there is no notebook {notebook}")
    limits = limits or Limits()
    with Session(notebook, limits, sandboxed=False) as session:
        try:
            cells = read_cells(session, limits.cell_seconds)
        except (ValueError, Ended) as error:
            raise ValueError(f"{notebook} cannot be read as a notebook ({error})") from None
        if not any(cell.part == "visible-check" for cell in cells):
            raise ValueError(f"{notebook} has no check cell: is it a problem set?")
        return list(_run(session, cells, limits))


def _run(session: Session, cells: list[Cell], limits: Limits) -> Iterator[Checked]:
    session.ask("begin", limits.start_seconds)
    for index, cell in enumerate(cells, start=1):
        if cell.kind != "code":
            continue
        name = f"cell {index}" + (f" (question {cell.number})" if cell.number else "")
        try:
            words = session.ask("run", limits.cell_seconds, source=cell.source).get("error", "")
        except Ended as end:
            yield Checked(name, str(end))
            return
        if cell.part == "visible-check":
            yield Checked(f"question {cell.number}", words.removeprefix("AssertionError: "))
        elif words:
            yield Checked(name, words)
