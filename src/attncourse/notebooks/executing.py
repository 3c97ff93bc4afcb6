"""A notebook is committed with its outputs, so what is stored must be the same on every run."""

import os
import subprocess
import tempfile
import time
from pathlib import Path

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient

from attncourse.notebooks.form import CELL_SECONDS, ENVIRONMENT, METADATA, WIDGET_VIEW
from attncourse.notebooks.reading import state_reading_time

# What Jupyter and Colab write into a cell for themselves.
_EDITORS_NOTES = {"collapsed", "colab", "execution", "executionInfo", "outputId", "scrolled", "trusted"}


def execute(path: Path) -> float:
    """Run a notebook from a clean kernel in an empty folder, and store its outputs in place.

    Two runs on one machine write the same bytes, as long as the cells themselves are seeded.

    Returns:
        The seconds it took.

    Raises:
        nbclient.exceptions.CellExecutionError: a cell failed; the file is left as it was.
    """
    notebook = nbformat.read(path, as_version=4)
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as empty_folder:
        client = NotebookClient(
            notebook,
            km=_this_python(),
            timeout=CELL_SECONDS,
            record_timing=False,
            store_widget_state=False,
            coalesce_streams=True,
            resources={"metadata": {"path": empty_folder}},
        )
        client.execute(cleanup_kc=True, env={**os.environ, **ENVIRONMENT}, stderr=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    _keep_what_is_stable(notebook)
    state_reading_time(notebook.cells)
    nbformat.write(notebook, path)
    return seconds


def _this_python() -> AsyncKernelManager:
    # No kernel folders: a "python3" that the user once registered may belong to another environment.
    return AsyncKernelManager(kernel_name="python3", kernel_spec_manager=KernelSpecManager(kernel_dirs=[]))


def _keep_what_is_stable(notebook: nbformat.NotebookNode) -> None:
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        for key in _EDITORS_NOTES & cell.metadata.keys():
            del cell.metadata[key]
        for output in cell.get("outputs", []):
            # A live control needs a kernel. Where a sentence for the page lies beside it, we keep that.
            if "text/html" in output.get("data", {}):
                output["data"].pop(WIDGET_VIEW, None)
