"""The commands that the instructors' guide shows are run as they stand there."""

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from handed_in import SETS, secret_lines

from attncourse.coursework.sandbox import MEGABYTE, Limits

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "book" / "grading.md").read_text()
EXAMPLE, PUBLISHING = re.findall(r"```bash\n(.*?)```", GUIDE, flags=re.DOTALL)[:2]
# These two take minutes, and this environment is what they would make.
INSTALL = ["python3 -m venv .venv", ".venv/bin/pip install -r requirements.txt -e ."]


@pytest.fixture(scope="module")
def course(tmp_path_factory, bubblewrap) -> Path:
    """The course's folder, after the ten commands were typed into an empty one."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    folder = tmp_path_factory.mktemp("lecturer")
    commands = EXAMPLE.strip().splitlines()
    assert len(commands) == 10 and commands[2:4] == INSTALL
    commands[2:4] = [f"mkdir -p .venv && ln -s {shlex.quote(str(Path(sys.executable).parent))} .venv/bin"]
    run(folder, "\n".join(commands))
    return folder / "course"


def run(folder: Path, commands: str) -> str:
    environment = {
        **os.environ,
        "GIT_CONFIG_COUNT": "4",
        "GIT_CONFIG_KEY_0": f"url.{ROOT}/.git.insteadOf",
        "GIT_CONFIG_VALUE_0": "https://github.com/OWNER/NAME",
        "GIT_CONFIG_KEY_1": "user.name",
        "GIT_CONFIG_VALUE_1": "Lecturer",
        "GIT_CONFIG_KEY_2": "user.email",
        "GIT_CONFIG_VALUE_2": "lecturer@example.org",
        "GIT_CONFIG_KEY_3": "safe.directory",  # the checkout may be another user's
        "GIT_CONFIG_VALUE_3": "*",
    }
    shell = ["bash", "-euo", "pipefail", "-c", commands]
    done = subprocess.run(shell, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_ten_commands_lead_from_an_empty_folder_to_a_table(course):
    with (course / "graded" / "grades_02_soft_attention.csv").open(encoding="utf-8-sig", newline="") as file:
        points = {
            row["student"]: (row["points"], row["still to grade by hand"]) for row in csv.DictReader(file)
        }
    assert points == {"ada": ("0", "0"), "bob": ("7", "3")}
    assert "Ada has 0 of 10 points. Bob has 7, and 3 are left to grade by hand." in GUIDE


def test_students_read_the_limits_that_hold():
    """A limit that was changed in the code and not on the page costs points that nobody understands."""
    text = " ".join((ROOT / "book" / "problem_sets.md").read_text().split())
    limits = Limits()
    assert (
        f"A cell may take {limits.cell_seconds:g} seconds, a call of a function {limits.call_seconds:g},"
        in text
    )
    assert limits.submission_seconds == 120 and "everything together two minutes" in text
    assert f"and {limits.memory / 1024 / MEGABYTE:g} GB of memory" in text
    assert f"*took longer than {limits.call_seconds:g} seconds*" in text


def test_the_published_branch_holds_the_package_and_no_solution(course):
    """Deleted from the branch but left in its history, solutions are one click away."""
    branch = run(course, "git branch --show-current").strip()
    run(course, PUBLISHING.replace("--source main", f"--source {branch or 'HEAD'}"))
    files = run(course, "git ls-files").splitlines()
    assert "pyproject.toml" in files and "02_soft_attention.ipynb" in files
    assert not {Path(name).parts[0] for name in files} & {"handout", "graded", "submissions", "tests"}
    assert not [name for name in files if name.startswith("chapters/problems")]
    assert run(course, "git rev-list --count students").strip() == "1"
    # Package and chapters say in their own way what a solution says as well; nothing else may. A short line,
    # such as `return written`, is nobody's.
    outside = [name for name in files if not name.startswith(("src/", "chapters/"))]
    text = "\n".join((course / name).read_text(errors="ignore") for name in outside)
    lines = {line for one in SETS.values() for line in secret_lines(one) if len(line) >= 40}
    found = {line for line in lines if line in text}
    assert not found, found
