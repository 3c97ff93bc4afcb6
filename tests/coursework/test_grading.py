"""What grading writes, what it keeps, when it refuses, and the commands around it."""

import csv
import json
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from handed_in import NAME, SETS, SOURCE, WORDS, HandedIn, secret_lines

from attncourse.cli import main
from attncourse.coursework import bounds, grading, sandbox, submissions
from attncourse.coursework import judge as judging
from attncourse.coursework.grading import grade
from attncourse.coursework.problems import solution_alone

pytestmark = pytest.mark.usefixtures("bubblewrap")


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    """A folder with two submissions, graded: `ada` solved everything, `bob` the first question."""
    folder = tmp_path_factory.mktemp("graded")
    HandedIn().solve().write(folder / "submissions" / "ada.ipynb")
    HandedIn().solve("02.1").write(folder / "submissions" / "bob" / "anything.ipynb")
    again(folder)
    return folder


@pytest.fixture
def place(graded, tmp_path):
    """A copy of the graded folder: only what a test changes is judged again."""
    return shutil.copytree(graded, tmp_path / "place")


def rows(place, name=f"grades_{NAME}.csv") -> dict[str, dict]:
    with (place / "out" / name).open(encoding="utf-8-sig", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def again(place, **how):
    return grade(place / "submissions", place / "out", source=SOURCE, **how)


def fill_in(place, points: str, remark: str = "") -> None:
    path = place / "out" / "by_hand.csv"
    path.write_text(
        path.read_text(encoding="utf-8-sig").replace("02.4,3,,", f"02.4,3,{points},{remark}"),
        encoding="utf-8",
    )


def test_points_given_by_hand_are_added_and_stay(place):
    """A second run that loses them would cost an evening's work."""
    assert rows(place)["ada"] | {"points": "7", "still to grade by hand": "3"} == rows(place)["ada"]
    assert WORDS.partition("\n\n")[2] in (place / "out" / "by_hand.html").read_text()
    fill_in(place, "2.5", "one reason is missing")
    for _ in range(2):
        again(place)
        assert rows(place)["ada"] | {"points": "9.5", "still to grade by hand": "0"} == rows(place)["ada"]
        assert "one reason is missing" in (place / "out" / "feedback" / "ada" / f"{NAME}.html").read_text()


@pytest.mark.parametrize("points", ["4", "-1", "two"])
def test_points_that_cannot_be_are_refused_and_kept(place, points):
    """Overwriting the file would lose what was filled in beside the slip."""
    fill_in(place, points)
    written = (place / "out" / "by_hand.csv").read_text()
    with pytest.raises(ValueError, match=rf"line 2: points is '{points}', and not a number from 0 to 3"):
        again(place)
    assert (place / "out" / "by_hand.csv").read_text() == written


def test_points_of_a_student_who_is_not_there_this_time_are_kept(place):
    """Another folder graded into the same place must not cost what was filled in."""
    fill_in(place, "3")
    (place / "submissions" / "ada.ipynb").rename(place / "ada.ipynb")
    again(place)
    assert "ada" not in rows(place)
    (place / "ada.ipynb").rename(place / "submissions" / "ada.ipynb")
    again(place)
    assert rows(place)["ada"]["points"] == "10"


def test_a_fault_of_the_grader_costs_nobody_else_anything(place, monkeypatch):
    real = grading.judge
    shutil.rmtree(place / "out" / "reports")

    def faulty(path, student, *rest, **how):
        if student == "ada":
            raise TypeError("a mistake of ours")
        return real(path, student, *rest, **how)

    monkeypatch.setattr(grading, "judge", faulty)
    again(place)
    assert rows(place)["bob"]["points"] == "3"
    assert "by a fault of the grader: TypeError('a mistake of ours')" in rows(place)["ada"]["remarks"]
    monkeypatch.undo()
    again(place)
    assert rows(place)["ada"]["points"] == "7", "the fault is mended, and was remembered"


def fails_for(student: str, real, error: Exception):
    """A function that fails whenever it is about this student, and else does what it did."""

    def failing(*arguments, **keywords):
        if student in str(arguments[0]):
            raise error
        return real(*arguments, **keywords)

    return failing


OPERATIONS = [
    (grading, "opened"),
    (grading, "judge"),
    (grading, "_load"),
    (grading, "_write_whole"),
    (grading, "feedback_record"),
    (grading, "feedback_page"),
    (grading, "_private"),
    (grading.Report, "from_dict"),
    (submissions, "_files"),
    (submissions, "_take"),
    (judging, "read_cells"),
    (judging, "remarks_on"),
    (judging, "_Trial"),
    (judging, "_verdict"),
    (sandbox, "opened"),
]
FAULTS = [OSError(36, "File name too long"), ValueError("half a letter"), TypeError("a mistake of ours")]


@pytest.mark.parametrize(("where", "name"), OPERATIONS, ids=[name for _, name in OPERATIONS])
def test_whatever_fails_with_one_student_s_files_is_one_row(place, monkeypatch, where, name):
    """Each in turn: what is opened, read, judged, named or written outside the one `try` stops everybody."""
    (place / "submissions" / "ada.ipynb").rename(place / "submissions" / "ada-ada.ipynb")
    shutil.rmtree(place / "out" / "feedback")
    fault = FAULTS[len(name) % len(FAULTS)]
    about = "" if where is judging else "ada-ada"  # bob's is known, and nothing of it is judged
    monkeypatch.setattr(where, name, fails_for(about, getattr(where, name), fault))
    again(place)
    assert rows(place)["bob"]["points"] == "3"
    assert (place / "out" / "feedback" / "bob" / f"{NAME}.html").exists()
    assert rows(place)["ada-ada"]["remarks"], "nothing is said"


def test_one_unsound_set_leaves_the_others_alone(place, tmp_path, capsys):
    """A slip in one source, found when its first submission comes up, or before."""
    source = shutil.copytree(SOURCE, tmp_path / "source")
    for other, wrong in (("00_what_is_attention", "raise OSError"), ("01_seq2seq", "")):
        path = source / f"{other}.ipynb"
        content = json.loads(path.read_text())
        if wrong:
            answer = next(c for c in content["cells"] if "answer" in c["metadata"].get("tags", []))
            answer["source"] = "".join(answer["source"]).replace(
                "# BEGIN SOLUTION", f"# BEGIN SOLUTION\n{wrong}"
            )
        else:
            content["cells"] = []
        released = SOURCE / path.name
        (place / "submissions" / "bob" / path.name).write_text(released.read_text())
        path.write_text(json.dumps(content))
    words = ["coursework", "grade", str(place / "submissions"), "--out", str(place / "out")]
    assert main([*words, "--source", str(source)]) == 1
    assert rows(place)["bob"]["points"] == "3" and rows(place)["ada"]["points"] == "7"
    assert rows(place)["bob"]["remarks"].count("by no fault of its author") == 2
    assert "could not be graded, for anybody" in capsys.readouterr().err


def test_what_is_written_is_the_lecturer_s_alone(place):
    """A class server has many users, and grades and answers are between two people."""
    shutil.rmtree(place / "out")
    again(place)
    for path in [place / "out", *(place / "out").rglob("*")]:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, f"{path} can be read by others"


def test_a_secret_that_submissions_could_read_is_refused(place):
    """In a folder that the walls show, whoever reads it draws the hidden inputs."""
    secret = Path(sandbox.attncourse.__file__).parent / "secret"
    with pytest.raises(sandbox.NoSandbox, match="which every submission can read"):
        again(place, secret=secret)
    assert not secret.exists()


def test_two_runs_at_once_agree(place):
    """Both find no secret, no report and no table, and write them in the other's way."""
    shutil.rmtree(place / "out")
    words = ["grade", str(place / "submissions"), "--out", str(place / "out"), "--source", str(SOURCE)]
    command = [sys.executable, "-m", "attncourse.cli", "coursework", *words]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)]
    for run in runs:
        _, said = run.communicate()
        assert run.returncode == 0, said.decode()
    before = rows(place)
    again(place)
    assert rows(place) == before and before["ada"]["points"] == "7"
    assert not list((place / "out").rglob("*.part"))


def test_a_run_that_is_killed_leaves_no_half_and_nothing_running(place):
    """At any moment: the next run goes on, and removes what the killed one could not."""
    shutil.rmtree(place / "out")
    words = ["grade", str(place / "submissions"), "--out", str(place / "out"), "--source", str(SOURCE)]
    command = [sys.executable, "-m", "attncourse.cli", "coursework", *words]
    for seconds in (2.5, 5.0, 7.5):
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(seconds)
        run.kill()
        run.communicate()
    again(place)
    assert {who: row["points"] for who, row in rows(place).items()} == {"ada": "7", "bob": "3"}
    left = [folder for base in bounds._bases() for folder in base.glob(f"attncourse-{run.pid}-*")]
    assert not left, "a control group is left"


def test_a_second_run_judges_nothing_twice(place, monkeypatch):
    before = {path: path.read_bytes() for path in (place / "out").rglob("*") if path.is_file()}
    monkeypatch.setattr(grading, "judge", lambda *_, **__: pytest.fail("judged again"))
    again(place)
    assert {path: path.read_bytes() for path in (place / "out").rglob("*") if path.is_file()} == before


def test_an_interrupted_run_goes_on(place, monkeypatch, capsys):
    """What was judged before the interruption is kept; the rest is judged then."""
    real, judged = grading.judge, []
    shutil.rmtree(place / "out")

    def interrupted(path, student, *rest, **how):
        judged.append(student)
        if student == "bob" and judged.count("bob") == 1:
            raise KeyboardInterrupt
        return real(path, student, *rest, **how)

    monkeypatch.setattr(grading, "judge", interrupted)
    words = ["coursework", "grade", str(place / "submissions"), "--out", str(place / "out")]
    assert main([*words, "--source", str(SOURCE)]) == 130
    assert "the same command goes on from here" in capsys.readouterr().err
    again(place)
    assert sorted(judged) == ["ada", "bob", "bob"]
    assert {who: row["points"] for who, row in rows(place).items()} == {"ada": "7", "bob": "3"}


def test_a_submission_that_changed_is_judged_again(place):
    HandedIn().solve("02.1", "02.2").write(place / "submissions" / "bob" / "anything.ipynb")
    again(place)
    assert rows(place)["bob"]["points"] == "5"


def test_the_secret_is_kept_to_the_lecturer(place):
    """Whoever reads the seed can draw the hidden inputs."""
    secret = place / "out" / "secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600 and len(secret.read_text().strip()) == 32
    for path in (place / "out" / "feedback").rglob("*.*"):
        assert secret.read_text().strip() not in path.read_text()


def test_no_line_of_the_author_s_is_in_any_feedback(place):
    lines = secret_lines(SETS[NAME])
    own = {
        line.strip()
        for question in SETS[NAME].questions
        for line in solution_alone(question.answer).split("\n")
    }
    pages = list((place / "out" / "feedback").rglob("*.*"))
    assert len(pages) == 4
    for page in pages:
        text = page.read_text()
        assert [line for line in lines - own if json.dumps(line)[1:-1] in text or line in text] == []


def test_several_sets_in_one_folder_have_a_table_each(place):
    """A folder of a whole term: each notebook is known by its cells, whatever its name."""
    other = "00_what_is_attention"
    released = (SOURCE / f"{other}.ipynb").read_text()
    (place / "submissions" / "bob" / "another.ipynb").write_text(released)
    HandedIn().solve().write(place / "submissions" / "bob" / "zz the final one.ipynb")
    again(place, jobs=2)
    assert rows(place)["bob"]["points"] == "7"
    assert "several notebooks for this problem set; zz the final one.ipynb" in rows(place)["bob"]["remarks"]
    second = rows(place, f"grades_{other}.csv")
    assert second["ada"]["remarks"] == "no notebook for this problem set"
    automatic = sum(question.points for question in SETS[other].questions if not question.by_hand)
    assert second["bob"]["points"] == str(automatic)


def test_markup_in_names_and_errors_stays_text(place):
    """A student's page is opened in the lecturer's browser."""
    evil = "<script>alert(1)</script>"
    HandedIn().insert("answer-02-1", f"raise ValueError('{evil}')").write(
        place / "submissions" / "<img src=x onerror=alert(1)>.ipynb"
    )
    again(place)
    for page in (place / "out").rglob("*.html"):
        assert "<script" not in page.read_text() and "<img" not in page.read_text()


def test_one_student_is_judged_again_and_what_changed_is_logged(place, monkeypatch):
    """A complaint is settled, and months later somebody asks what was changed, and when."""
    judged = []
    real = grading.judge
    monkeypatch.setattr(
        grading, "judge", lambda path, who, *rest, **how: judged.append(who) or real(path, who, *rest, **how)
    )
    again(place, again=["bob"])
    assert judged == ["bob"] and not (place / "out" / "changes.csv").exists()
    fill_in(place, "2.5")
    again(place)
    with (place / "out" / "changes.csv").open(encoding="utf-8-sig", newline="") as file:
        [change] = csv.DictReader(file)
    expected = {"student": "ada", "problem set": NAME, "question": "02.4", "before": "", "after": "2.5"}
    assert change.items() >= expected.items() and change["time"]
    with pytest.raises(ValueError, match="nobody in .* is called eve"):
        again(place, again=["eve"])


def test_limits_are_options():
    """A set that trains for half a minute is graded without an edit of the package."""
    limits = sandbox.limits_from(["cell_seconds=60.5", "memory=3000", "files=20"])
    assert (limits.cell_seconds, limits.memory, limits.files) == (60.5, 3000 * sandbox.MEGABYTE, 20)
    assert limits.call_seconds == sandbox.Limits().call_seconds
    for wrong in (
        "cells=3",
        "memory",
        "memory=",
        "memory=-1",
        "files=1.5",
        "cell_seconds=nan",
        "cell_seconds=inf",
    ):
        with pytest.raises(ValueError, match="limit"):
            sandbox.limits_from([wrong])


def test_the_class_page_says_which_question_and_which_mistake(place):
    """What went wrong most often is what the next lecture begins with."""
    page = (place / "out" / "class.html").read_text()
    assert "02.1 Two sources, one softmax" in page and "2 of 2" in page
    assert "02.2 In which order?" in page and "1 of 2" in page
    assert "1 time: another previous word moves the weights" in page


def test_without_bubblewrap_nothing_is_graded(place, monkeypatch, capsys):
    """A silent downgrade would run strangers' code with the lecturer's rights."""
    shutil.rmtree(place / "out")
    monkeypatch.setenv("PATH", "")
    words = ["coursework", "grade", str(place / "submissions"), "--out", str(place / "out")]
    assert main([*words, "--source", str(SOURCE)]) == 2
    said = capsys.readouterr().err
    assert "bubblewrap is not installed" in said and "--no-sandbox" in said
    assert not (place / "out").exists()


def test_whoever_says_so_grades_without_a_sandbox(place, capsys):
    shutil.rmtree(place / "submissions" / "bob")
    words = ["coursework", "grade", str(place / "submissions"), "--out", str(place / "out"), "--no-sandbox"]
    assert main([*words, "--source", str(SOURCE)]) == 0
    assert f"ada: {NAME} 7/10" in capsys.readouterr().out


def test_a_folder_that_submissions_can_read_is_refused(monkeypatch, place):
    """Installed into the folder of the sources, Python would show them to every submission."""
    monkeypatch.setattr(sandbox.sys, "prefix", str(SOURCE.parent))
    with pytest.raises(sandbox.NoSandbox, match="which every submission can read"):
        again(place)


@pytest.mark.parametrize(
    "words", [["nowhere", "--out", "o"], [".", "--out", "o"]], ids=["no folder", "empty"]
)
def test_nothing_to_grade_is_said(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["coursework", "grade", *words, "--source", str(SOURCE)]) == 2
    assert "submission" in capsys.readouterr().err.lower()


# --- The student's own check -------------------------------------------------------------------------------


def test_the_check_s_exit_status_tells(tmp_path, capsys):
    """A check that returns 0 on a failing notebook is worse than none."""
    path = HandedIn().solve().write(tmp_path / "mine.ipynb")
    assert main(["coursework", "check", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [f"✓ question 02.{n}" for n in (1, 2, 3)]
    HandedIn().solve("02.1").write(path)
    assert main(["coursework", "check", str(path)]) == 1
    said = capsys.readouterr().out
    assert "✓ question 02.1" in said and "✗ question 02.2: another previous word moves the weights" in said


def test_the_check_names_a_cell_that_failed(tmp_path, capsys):
    """A cell of one's own that fails takes the names of its other lines with it."""
    path = (
        HandedIn().solve().insert("answer-02-1", "%matplotlib inline\n1 / 0").write(tmp_path / "mine.ipynb")
    )
    assert main(["coursework", "check", str(path)]) == 1
    assert "✗ cell 5: ZeroDivisionError: division by zero" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no notebook"),
        ("{", "cannot be read as a notebook"),
        ('{"cells": []}', "has no check cell"),
    ],
    ids=["missing", "broken", "empty"],
)
def test_what_cannot_be_checked_is_named(content, words, tmp_path, capsys):
    path = tmp_path / "mine.ipynb"
    if content is not None:
        path.write_text(content)
    assert main(["coursework", "check", str(path)]) == 2
    assert words in capsys.readouterr().err


def test_on_windows_the_check_says_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("attncourse.coursework.self_check.sys.platform", "win32")
    assert main(["coursework", "check", str(tmp_path / "mine.ipynb")]) == 2
    assert "restart the kernel and run all cells" in capsys.readouterr().err


def test_building_says_what_it_wrote_and_what_it_lacks(tmp_path, capsys):
    assert main(["coursework", "build", str(tmp_path / "out"), "--source", str(SOURCE)]) == 0
    assert f"student/{NAME}.ipynb" in capsys.readouterr().out
    assert main(["coursework", "build", str(tmp_path / "out"), "--source", str(tmp_path / "none")]) == 2
    assert "no problem set in" in capsys.readouterr().err
