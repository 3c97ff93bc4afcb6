"""For Colab, which opens a notebook alone: a repository's address in its first cell."""

import re
from pathlib import Path

import nbformat

from attncourse.notebooks.form import SETUP, find


def publish(out: Path, address: str, chapters: Path = Path("chapters")) -> list[Path]:
    """Write copies of the chapters that install the package from a repository when Colab opens them.

    Problem sets are left out: their sources hold the solutions.

    Args:
        out: the folder that receives `chapters/...`.
        address: OWNER/NAME of a GitHub repository, or OWNER/NAME@BRANCH.
        chapters: the folder with the notebooks.

    Raises:
        ValueError: the address has another form, or a notebook does not begin with the setup cell.
    """
    _check_address(address)
    written = []
    for path in find([chapters]):
        notebook = nbformat.read(path, as_version=4)
        if any("question" in cell.metadata.get("tags", []) for cell in notebook.cells):
            continue
        try:
            with_address(notebook, address)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
        target = out / "chapters" / path.relative_to(chapters)
        target.parent.mkdir(parents=True, exist_ok=True)
        nbformat.write(notebook, target)
        written.append(target)
    return written


def with_address(notebook: nbformat.NotebookNode, address: str) -> nbformat.NotebookNode:
    """Fill the address from which Colab installs the package into a notebook's setup cell.

    Raises:
        ValueError: the address is not OWNER/NAME or OWNER/NAME@BRANCH, or there is no setup cell.
    """
    _check_address(address)
    setup = next((cell for cell in notebook.cells if cell.cell_type == "code"), None)
    if setup is None or setup.source != SETUP:
        raise ValueError("the first code cell is not the setup cell, which takes the address")
    setup.source = SETUP.replace('ADDRESS = ""', f'ADDRESS = "{address}"')
    return notebook


def _check_address(address: str) -> None:
    if not re.fullmatch(r"[\w.-]+/[\w.-]+(@[\w./-]+)?", address):
        raise ValueError(f"address is OWNER/NAME or OWNER/NAME@BRANCH, not {address!r}")
