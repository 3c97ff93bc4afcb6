"""Honest and hostile submissions, graded together: nobody gains a point, nobody loses another's, all is said.

Each submission is one line of `cases`: who, what was done to the released notebook, the points of the three
questions that are judged automatically, and words that the report must hold (one of several, between bars).
All are graded in one run, with two side by side.
"""

import csv
import json
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest
from handed_in import ANSWERS, NAME, PROBLEMS, SOURCE, WORDS, HandedIn
from strangers import CELLS, FUNCTIONS, ODD, odd_notebooks, put_odd_files

from attncourse.coursework.grading import grade
from attncourse.coursework.sandbox import MEGABYTE, Limits
from attncourse.coursework.submissions import folder_name

FULL = (3, 2, 2)
NONE = (0, 0, 0)
# Short for what never ends, long for what is honest on a busy machine.
LIMITS = Limits(cell_seconds=10, call_seconds=10, submission_seconds=60)
SECOND_LOST = (3, 0, 2)


def solved() -> HandedIn:
    return HandedIn().solve()


def second(body: str, before: str = "") -> HandedIn:
    """Everything right, but question 02.2 answered by this function body."""
    function = "def search_step(word, state, annotations, W, U, v, A):\n" + textwrap.indent(body, "    ")
    return solved().answer("02.2", f"# Question 02.2\n{before}\n{function}")


def right_by(change: str) -> HandedIn:
    """The right answers of 02.2, changed on their way out."""
    body = "energy = ((state @ W.T)[:, None] + annotations @ U.T).tanh() @ v\nweights = energy.softmax(-1)\n"
    body += "context = (weights[..., None] * annotations).sum(1)\n"
    body += "new = torch.cat([word, context, state], -1).matmul(A.T).tanh()\n"
    return second(body + change)


def through_helper(number: str) -> str:
    """The right answer, whose every result goes through a function `helper`."""
    return re.sub(r"(?m)^(    return )(.+)$", r"\1helper((\2))", ANSWERS[number])


def in_a_cell_of(kind: str) -> HandedIn:
    """Everything right, and the words of question 02.4 in a cell of another kind."""
    notebook = solved()
    cell = notebook.cell("answer-02-4")
    cell["cell_type"] = kind
    if kind == "code":
        cell |= {"outputs": [], "execution_count": None}
    return notebook


@dataclass(frozen=True)
class Case:
    handed_in: HandedIn | str | bytes
    points: tuple[int, int, int] = FULL
    words: str = ""


def mistakes() -> dict[str, Case]:
    """One planted mistake of each question as the one fault of a submission."""
    cases = {}
    automatic = [question for question in PROBLEMS.questions if not question.by_hand]
    for index, question in enumerate(automatic):
        source = f"# Question {question.number}\n{question.mistakes[0].source}"
        points = tuple(0 if index == other else full for other, full in enumerate(FULL))
        wrong = solved().answer(question.number, source)
        cases[f"mistake in {question.number}"] = Case(wrong, points, question.mistakes[0].words)
    return cases


FORGED = r"""
import json, os
right = json.dumps({"value": {"list": []}}).encode() + b"\n"
for fd in range(3, 40):
    try:
        os.write(fd, right * 50)
    except OSError:
        pass
print('{"value": {"list": []}}')
print("question 02.1: right (3 points)")
"""
PATCHED = """
import builtins, json, sys, torch
torch.allclose = torch.equal = lambda *a, **k: True
class Fake:
    def __getattr__(self, name):
        return lambda *a, **k: ""
sys.modules["attncourse.coursework.comparing"] = Fake()
real_import = builtins.__import__
builtins.__import__ = lambda name, *a, **k: Fake() if "coursework" in name else real_import(name, *a, **k)
"""
EQUAL = """
class Equal:
    shape, dtype, ndim = (2, 3), None, 0
    def __eq__(self, other): return True
    def __array__(self, *a, **k): raise ValueError
    def __getattr__(self, name): return self
    def __call__(self, *a, **k): return self
"""
# Answers in the driver's place, with the inputs as words.
WHISPER = r"""
import json, os, sys, time
frame, token = sys._getframe(), ""
while frame:
    token, frame = frame.f_locals.get("token", token), frame.f_back
line = json.dumps({"error": f"{annotations.tolist()}", "token": token}).encode() + b"\n"
for fd in range(3, 40):
    try:
        os.write(fd, line)
    except OSError:
        pass
time.sleep(1)
return state, state, state
"""
# Looks everywhere it can for the sources, and takes over the solutions that it finds.
THIEF = """
import glob, json, os
found = []
for root in ["/", "/tmp", os.getcwd(), {folder!r}, {folder!r} + "/solved"]:
    for path in glob.glob(root + "/*.ipynb"):
        if path != "/tmp/submission.ipynb":
            for cell in json.load(open(path))["cells"]:
                if "def search_step" in "".join(cell["source"]):
                    exec("".join(cell["source"]))
                    found.append(path)
if not found:
    raise ValueError("nothing found")
"""
PLANTED = "a key that only the lecturer has"
LONELY = "import os; raise ValueError(sorted(os.environ), os.getuid(), os.listdir('/tmp'))"


def cases(folder: Path) -> dict[str, Case]:
    """Who handed in what. `folder` is where the submissions lie."""
    steal = THIEF.replace("{folder!r}", repr(str(folder)))
    return mistakes() | {
        # --- Honest ---
        "untouched": Case(HandedIn(), NONE, "search_step: the answer has other numbers in it"),
        "solved": Case(solved()),
        "王小明": Case(solved()),
        "Zoë Ünïcode's": Case(solved()),
        "float64": Case(right_by("return new.double(), context.double(), energy.double().softmax(-1)")),
        "one millionth off": Case(right_by("return new + 1e-6, context - 1e-6, weights * (1 + 1e-6)")),
        "another order of sums": Case(
            right_by("return new, (weights[..., None] * annotations).flip(1).cumsum(1)[:, -1], weights")
        ),
        "numpy arrays": Case(right_by("return new.numpy(), context.numpy(), weights.numpy()")),
        "a placeholder left below": Case(
            right_by("return new, context, weights\nraise NotImplementedError('question 02.2')")
        ),
        "only the first": Case(HandedIn().solve("02.1"), (3, 0, 0)),
        "saved by Colab": Case(solved().as_colab_saves()),
        "saved by VS Code": Case(solved().as_vs_code_saves()),
        "metadata stripped": Case(solved().strip(), FULL, "has lost its tags"),
        "own cells and plots": Case(
            solved().insert("answer-02-1", "%matplotlib inline\nprint('my notes')\n!ls\nfrom math import pi")
        ),
        "all in one cell": Case(
            HandedIn()
            .solve("02.4")
            .insert("answer-02-1", "\n\n".join(ANSWERS[n].partition("\n")[2] for n in list(ANSWERS)[:3]))
            .delete("answer-02-1")
            .delete("answer-02-2")
            .delete("answer-02-3"),
            FULL,
            "the answer cell of question 02.1 is not there: looked for by name",
        ),
        "asks for input": Case(
            second("return input('the answer? ')"), SECOND_LOST, "input() has nobody to ask"
        ),
        "a syntax error": Case(
            solved().answer("02.2", "# Question 02.2\ndef search_step(:"), SECOND_LOST, "SyntaxError"
        ),
        "a name that is missing": Case(
            solved().answer("02.2", "# Question 02.2"), SECOND_LOST, "is not defined"
        ),
        "NaN": Case(right_by("return new * float('nan'), context, weights"), SECOND_LOST, "has NaN in it"),
        "another shape": Case(right_by("return new[:1], context, weights"), SECOND_LOST, "has another shape"),
        "a generator": Case(
            right_by("return (x for x in (new, context, weights))"), SECOND_LOST, "no tensor, number, text"
        ),
        "a helper's name used twice": Case(
            solved()
            .answer("02.1", "# Question 02.1\ndef helper(x):\n    return x\n" + through_helper("02.1"))
            .answer("02.3", "# Question 02.3\ndef helper(x):\n    return None\n" + ANSWERS["02.3"]),
            FULL,
            "it was asked after its own cells",
        ),
        "words in a code cell": Case(in_a_cell_of("code"), FULL, "not graded yet|null"),
        "words in a raw cell": Case(in_a_cell_of("raw"), FULL, "null"),
        "a window's loop": Case(
            solved().answer("02.1", "# Question 02.1\n%matplotlib inline\n" + ANSWERS["02.1"])
        ),
        # --- Cells lost, doubled, changed ---
        "answer deleted": Case(
            solved().delete("answer-02-2"), SECOND_LOST, "the answer cell of question 02.2 is not there"
        ),
        "check deleted": Case(
            solved().delete("visible-check-02-2"), FULL, "check cell of question 02.2 is not there"
        ),
        "cells doubled": Case(
            solved().double("answer-02-1").double("visible-check-02-1").double("answer-02-4"),
            FULL,
            "the answer cell of question 02.1 is there 2 times",
        ),
        "check tampered with": Case(
            HandedIn().answer("02.4", WORDS).insert("answer-02-1", "x = 1"), NONE, "was changed"
        ),
        "not a notebook": Case("{'cells': [", NONE, "cannot be read as a notebook"),
        "not even text": Case(bytes(range(256)), NONE, "cannot be read as a notebook"),
        "an empty file": Case("", NONE, "cannot be read as a notebook"),
        "no cells": Case(
            '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}', NONE, "is not there"
        ),
        "cells that are none": Case('{"cells": [1, null, {"cell_type": 7}]}', NONE, "cannot be read"),
        "nested deeply": Case('{"cells":' + "[" * 100_000 + "]" * 100_000 + "}", NONE, "cannot be read"),
        # --- Endless, greedy, dying ---
        "endless cell": Case(
            solved().answer("02.2", "# Question 02.2\nwhile True:\n    pass"), SECOND_LOST, "longer than 10"
        ),
        "endless function": Case(second("while True:\n    pass"), SECOND_LOST, "longer than 10"),
        "endless recursion": Case(
            second("return search_step(word, state, annotations, W, U, v, A)"), SECOND_LOST, "RecursionError"
        ),
        "50 GB": Case(second("return torch.ones(50 * 2**28), 0, 0"), SECOND_LOST, "raises RuntimeError"),
        "memory, little by little": Case(
            second("kept = []\nwhile True:\n    kept.append(bytes(10**7) + b'x')"),
            SECOND_LOST,
            "MB of memory|longer than",
        ),
        "fork bomb": Case(
            second("import os\nwhile True:\n    os.fork()"),
            SECOND_LOST,
            "processes|MB of memory|BlockingIOError",
        ),
        "exit": Case(second("import os\nos._exit(0)"), SECOND_LOST, "ended by itself"),
        "killed": Case(
            second("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"), SECOND_LOST, "ended by itself"
        ),
        "polite exit": Case(second("import sys\nsys.exit(0)"), SECOND_LOST, "SystemExit"),
        "200 MB printed": Case(
            second("print('x' * 200_000_000)\nreturn state, state, state"), SECOND_LOST, "has other"
        ),
        "huge file": Case(
            second(
                "with open('big', 'wb') as f:\n    for _ in range(10_000):\n        f.write(bytes(10**6))"
            ),
            SECOND_LOST,
            "raises OSError",
        ),
        "threads that go on": Case(
            solved().insert(
                "answer-02-1",
                "import threading\ndef spin():\n    while True: pass\n"
                "threading.Thread(target=spin, daemon=True).start()",
            )
        ),
        "a process left behind": Case(
            solved().insert("answer-02-1", "import subprocess\nsubprocess.Popen(['sleep', '987654'])")
        ),
        "deletes everything": Case(
            solved().insert("answer-02-1", "import shutil\nshutil.rmtree('/', ignore_errors=True)")
        ),
        # --- Dishonest ---
        "network": Case(
            second("import socket\nsocket.create_connection(('1.1.1.1', 80), 2)"),
            SECOND_LOST,
            "raises OSError",
        ),
        "reads the sources": Case(
            solved().answer("02.2", "# Question 02.2\n" + steal.replace(str(folder), str(SOURCE))),
            SECOND_LOST,
            "nothing found",
        ),
        "reads the others": Case(
            solved().answer("02.2", "# Question 02.2\n" + steal), SECOND_LOST, "nothing found"
        ),
        "reads the lecturer's secrets": Case(
            solved().insert("answer-02-1", LONELY), FULL, "ATTNCOURSE_DEVICE"
        ),
        "equals everything": Case(second("return Equal()", EQUAL), SECOND_LOST, "no tensor, number, text"),
        "equal things": Case(second("return Equal(), Equal(), Equal()", EQUAL), SECOND_LOST, "no tensor"),
        "patched": Case(
            HandedIn().insert("answer-02-1", PATCHED).answer("02.4", WORDS), NONE, "is not answered yet"
        ),
        "json patched": Case(
            second('import json\njson.dumps = lambda *a, **k: \'{"value": {"list": []}}\'\nreturn 1, 2, 3'),
            SECOND_LOST,
            "has another shape",
        ),
        "forged answers": Case(
            HandedIn().solve("02.1").insert("answer-02-2", FORGED), (3, 0, 0), "wrote something of its own"
        ),
        "whispers the inputs": Case(second(WHISPER), SECOND_LOST, "wrote something of its own"),
        "whispers an end": Case(
            second(WHISPER.replace("error", "ended")), SECOND_LOST, "wrote something of its own"
        ),
        "whispers when asked": Case(
            second("if len(annotations) == 2:\n    return state, state, state\n" + WHISPER),
            SECOND_LOST,
            "wrote something of its own",
        ),
        "repeats the inputs": Case(
            second("raise ValueError(annotations.tolist())"), SECOND_LOST, "raises ValueError"
        ),
    }


def strangers() -> dict[str, Case]:
    """What strangers try in cells and functions of their own, and in the file itself."""
    cases = {
        who: Case(solved().insert("answer-02-1", cell), FULL, said) for who, (cell, said) in CELLS.items()
    }
    cases |= {who: Case(second(body), SECOND_LOST, said) for who, (body, said) in FUNCTIONS.items()}
    cases |= {
        who: Case(one, FULL if full else NONE, said) for who, (one, full, said) in odd_notebooks().items()
    }
    return cases


@pytest.fixture(scope="module")
def place(tmp_path_factory, bubblewrap) -> Path:
    """All submissions, graded once."""
    folder = tmp_path_factory.mktemp("coursework")
    submissions = folder / "submissions"
    handed_in = cases(submissions) | strangers()
    # The check of question 02.1 says what its student would like to hear.
    handed_in["check tampered with"].handed_in.cell("visible-check-02-1")["source"] = (
        "# Check 02.1\nprint('✓ 02.1')"
    )
    for who, case in handed_in.items():
        path = submissions / who / f"{NAME}.ipynb"
        if isinstance(case.handed_in, HandedIn):
            case.handed_in.write(path)
        else:
            path.parent.mkdir(parents=True)
            content = case.handed_in
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
    long = _add_long_output(submissions / "200 MB stored" / f"{NAME}.ipynb")
    put_odd_files(submissions)
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("API_KEY", PLANTED)
        grade(submissions, folder / "graded", source=SOURCE, jobs=2, limits=LIMITS)
    long.unlink()  # pytest keeps its folders
    (submissions / "closed folder").chmod(0o700)
    return folder


def _add_long_output(path: Path) -> Path:
    handed_in = solved()
    output = {"output_type": "stream", "name": "stdout", "text": "@"}
    handed_in.cell("visible-check-02-1")["outputs"] = [output]
    handed_in.write(path)
    path.write_text(path.read_text().replace('"@"', '"' + "x" * (200 * MEGABYTE) + '"'))
    return path


ALL = cases(Path("submissions")) | strangers() | {"200 MB stored": Case("", FULL)}
ALL |= {who: Case("", FULL if full else NONE, said) for who, (full, said) in ODD.items()}


def test_there_are_enough_of_them():
    assert len(ALL) >= 110


@pytest.mark.parametrize("who", ALL)
def test_a_submission_gets_what_it_earned_and_is_told_why(place, who):
    """A point more is a hole in the grader; a point less, an injustice; silence, an e-mail."""
    case = ALL[who]
    row = next(line for line in grades(place) if line["student"].lstrip("'") == who)
    earned = tuple(int(row[number]) for number in ("02.1", "02.2", "02.3"))
    assert earned == case.points, f"{earned}, and {case.points} were earned: {row['remarks']}"
    assert feedback(place, who), "the student gets no feedback"
    report = row["remarks"] + feedback(place, who)
    assert any(words in report for words in case.words.split("|")), report[:2000]
    assert "through" not in report, "it got through: " + report[:2000]


def test_what_was_done_to_one_changes_no_other(place, tmp_path):
    """Alone, a submission gets what it got among the others."""
    for who in ("solved", "mistake in 02.1"):
        path = place / "submissions" / who / f"{NAME}.ipynb"
        (tmp_path / who).mkdir(parents=True)
        (tmp_path / who / path.name).write_bytes(path.read_bytes())
    grade(
        tmp_path, tmp_path.parent / "alone", source=SOURCE, secret=place / "graded" / "secret", limits=LIMITS
    )
    alone = tmp_path.parent / "alone"
    for who in ("solved", "mistake in 02.1"):
        assert feedback(place, who) == (alone / "feedback" / who / f"{NAME}.json").read_text()


def test_nothing_of_the_lecturer_s_is_in_any_feedback(place):
    """A key of the environment, or where things lie on this machine."""
    private = [PLANTED, str(place), str(SOURCE), str(Path.home() / "."), sys.prefix]
    for page in filter(Path.is_file, (place / "graded" / "feedback").rglob("*.*")):
        text = page.read_text()
        assert not [words for words in private if words in text], page


def test_no_table_is_longer_than_its_readers_take(place):
    """One field of 150,000 letters, and a spreadsheet or Python's own reader refuses all students."""
    for row in grades(place):
        assert all(len(value) < 2100 and value.isprintable() for value in row.values()), row["student"]


def test_nothing_is_left_running(place):
    """A process that outlives its grading would run beside the next submission's."""
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert "987654" not in running
    assert not (place / "submissions" / "solved" / "big").exists()
    assert (SOURCE / f"{NAME}.ipynb").exists()


@pytest.mark.parametrize(
    "who", ["repeats the inputs", "whispers the inputs", "whispers an end", "whispers when asked"]
)
def test_feedback_gives_no_hidden_input_away(place, who):
    """Numbers of a hidden input would let the next student write an answer for them alone."""
    page = (place / "graded" / "feedback" / who / f"{NAME}.html").read_text()
    # What the check in the notebook says is about numbers that everybody can see.
    cases = re.findall(r"<li>.*?</li>", page)
    assert len(cases) >= 8 and not any(re.search(r"\d\.\d{3}", line) for line in cases), cases


def grades(place: Path) -> list[dict]:
    with (place / "graded" / f"grades_{NAME}.csv").open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def feedback(place: Path, who: str) -> str:
    folder = place / "graded" / "feedback" / folder_name(who)
    return "".join(path.read_text() for path in folder.glob("*.json"))


def test_the_points_are_the_same_in_every_file(place):
    for row in grades(place):
        told = feedback(place, row["student"].lstrip("'"))
        assert json.loads(told)["points"] == int(row["points"])
