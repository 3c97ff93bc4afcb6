"""A chapter in a real JupyterLab: a student runs it top to bottom and moves a control."""

import json
import os
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import nbformat
import pytest

CHAPTER = Path(__file__).parents[2] / "chapters" / "00_what_is_attention.ipynb"


@pytest.fixture
def lab(tmp_path, unused_port):
    """A JupyterLab over a folder that holds one chapter and nothing else; its address."""
    work = tmp_path / "work"
    work.mkdir()
    chapter = nbformat.read(CHAPTER, as_version=4)
    for cell in chapter.cells:  # as handed out: nothing has been run
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(chapter, work / CHAPTER.name)
    # Every cell in the page at once: Lab otherwise draws only those on the screen.
    settings = tmp_path / "settings" / "@jupyterlab" / "notebook-extension"
    settings.mkdir(parents=True)
    (settings / "tracker.jupyterlab-settings").write_text(json.dumps({"windowingMode": "none"}))
    places = {"JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
              "JUPYTER_RUNTIME_DIR": "runtime", "JUPYTER_CONFIG_DIR": "config"}
    environment = os.environ | {name: str(tmp_path / folder) for name, folder in places.items()}
    with (tmp_path / "log.txt").open("w") as log:
        server = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={unused_port}", "--ip=127.0.0.1",
             "--IdentityProvider.token=", "--allow-root", f"--ServerApp.root_dir={work}"],
            stdout=log, stderr=log, env=environment,
        )
        try:
            address = f"http://127.0.0.1:{unused_port}/"
            _wait_for(address + "api", server, tmp_path / "log.txt")
            yield address
        finally:
            server.terminate()
            server.wait(20)


def _wait_for(address: str, server: subprocess.Popen, log: Path) -> None:
    for _ in range(120):
        if server.poll() is not None:
            pytest.fail("JupyterLab ended at once:\n" + log.read_text()[-2000:])
        try:
            urllib.request.urlopen(address, timeout=2).close()
            return
        except OSError:
            time.sleep(0.5)
    pytest.fail("JupyterLab did not answer within a minute")


def test_a_chapter_runs_and_its_explorer_answers(lab, browser):
    """Run all cells, then move a slider: the weights must be computed anew, and no cell may fail."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    page.goto(f"{lab}lab/tree/{CHAPTER.name}?reset")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for(timeout=60_000)
    # Before the kernel is there, Lab would ask which one to start.
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for(timeout=60_000)
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_text("Run All Cells", exact=True).click()
    last = page.locator(".jp-CodeCell").last.locator(".jp-InputPrompt")
    page.wait_for_function("e => /\\d+/.test(e.textContent)", arg=last.element_handle(), timeout=180_000)
    assert page.locator('[data-mime-type="application/vnd.jupyter.error"]').count() == 0, "a cell failed"

    explorer = page.locator(".jp-OutputArea-output", has=page.locator(".widget-slider")).last
    picture = explorer.locator("figure.attn-figure img")
    before = picture.get_attribute("alt")
    handle = explorer.locator(".noUi-handle").first
    handle.focus()
    for _ in range(5):
        handle.press("ArrowRight")
    page.wait_for_function("([e, old]) => e.querySelector('figure.attn-figure img').alt !== old",
                           arg=[explorer.element_handle(), before], timeout=60_000)
    page.close()
