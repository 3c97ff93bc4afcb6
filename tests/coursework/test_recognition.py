"""Which file is whose, which cell is what, and what is said of cells that are lost, doubled or changed."""

import json
import os
import socket
from pathlib import Path

import pytest
from handed_in import NAME, PROBLEMS, SOURCE, WORDS, HandedIn

from attncourse.coursework.driver import Student
from attncourse.coursework.problems import UNANSWERED, read_problem_sets
from attncourse.coursework.submissions import (
    Cell,
    find_submissions,
    folder_name,
    passed_over,
    recognise,
    remarks_on,
    which_set,
    words_for,
)

SETS = read_problem_sets(SOURCE)
PARTS = [
    (part, question.number)
    for question in PROBLEMS.questions
    for part in (["answer"] if question.by_hand else ["answer", "visible-check"])
]


@pytest.fixture
def delivered(tmp_path):
    """The cells of a notebook as the driver reads them from its file."""

    def deliver(handed_in) -> list[Cell]:
        reply = Student(handed_in.write(tmp_path / "notebook.ipynb")).read()
        return recognise(json.loads(json.dumps(reply))["cells"])

    return deliver


def raw(source="", kind="code", cell_id="", tags=()):
    return {"kind": kind, "source": source, "id": cell_id, "tags": list(tags)}


def of_the_set(cells) -> list[tuple[str, str]]:
    return [(cell.part, cell.number) for cell in cells if cell.part not in ("", "question")]


# --- Cells -------------------------------------------------------------------------------------------------

WAYS = {
    "as released": lambda handed_in: handed_in,
    "as Colab saves": HandedIn.as_colab_saves,
    "as VS Code saves": HandedIn.as_vs_code_saves,
    "Colab, then VS Code": lambda handed_in: handed_in.as_colab_saves().as_vs_code_saves(),
    "ids and tags lost": HandedIn.strip,
    "first lines lost": lambda handed_in: without_first_lines(handed_in),
    "first lines lost in Colab": lambda handed_in: without_first_lines(handed_in).as_colab_saves(),
}


def without_first_lines(handed_in):
    """Ids are all that is left."""
    for cell in handed_in.cells:
        if "answer" in cell["id"] or "check" in cell["id"]:
            cell["source"] = cell["source"].partition("\n")[2]
            cell["metadata"] = {}
    return handed_in


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_every_part_is_known_by_whichever_name_is_left(delivered, way):
    """An editor that drops ids, or keeps them elsewhere, must cost nobody a point."""
    assert of_the_set(delivered(way(HandedIn().solve()))) == PARTS


FIRST_LINES = {
    "# Question 02.1": ("answer", "02.1"),
    "# Question 11.4\r\nx = 1\r\n": ("answer", "11.4"),
    "# Question 02.1   \nx = 1": ("answer", "02.1"),
    "# Check 02.3\nassert x": ("visible-check", "02.3"),
    "**Your answer to question 02.4**\n\nBecause.": ("answer", "02.4"),
    "**Your answer to question 02.4**": ("answer", "02.4"),
    "# Question 02.1: my answer": ("", ""),
    "## Question 02.1: A title (3 points)": ("question", "02.1"),
    "# Question 2.1": ("", ""),
    "# Question 02x1": ("", ""),
    "x = 1\n# Question 02.1": ("", ""),
    "# Hidden check 02.1": ("", ""),
    "# Mistake 02.1: it forgets": ("", ""),
    "**Rubric 02.4**": ("", ""),
    "": ("", ""),
}


@pytest.mark.parametrize(("source", "expected"), FIRST_LINES.items(), ids=map(repr, FIRST_LINES))
def test_a_part_is_known_by_its_whole_first_line(source, expected):
    """A heading that speaks of a question is no answer to it."""
    [cell] = recognise([raw(source)])
    assert (cell.part, cell.number) == expected


IDS = {
    "answer-02-1": ("answer", "02.1"),
    "visible-check-11-4": ("visible-check", "11.4"),
    "answer-02-12": ("", ""),
    "my-answer-02-1": ("", ""),
    "answer-02-1-copy": ("", ""),
    "hidden-check-02-1": ("", ""),
    "x7": ("", ""),
    "": ("", ""),
}


@pytest.mark.parametrize(("cell_id", "expected"), IDS.items(), ids=map(repr, IDS))
def test_a_part_without_its_first_line_is_known_by_its_id(cell_id, expected):
    """Who writes a whole new function often replaces the comment above it."""
    [cell] = recognise([raw("def f(x):\n    return x", cell_id=cell_id)])
    assert (cell.part, cell.number) == expected


def test_the_first_line_counts_before_the_id():
    """A cell that was copied keeps the id of another; its first line was typed for it."""
    [cell] = recognise([raw("# Question 02.2\nx = 1", cell_id="answer-02-1")])
    assert (cell.part, cell.number) == ("answer", "02.2")


@pytest.mark.parametrize("name", [{"source": "# Question 02.1"}, {"cell_id": "answer-02-1"}])
@pytest.mark.parametrize(("tags", "tagged"), [(["answer"], True), (["hide-input"], False), ([], False)])
def test_lost_tags_are_noticed(name, tags, tagged):
    [cell] = recognise([raw(**name, tags=tags)])
    assert cell.part == "answer" and cell.tagged is tagged


def test_a_hidden_check_that_comes_back_is_known():
    """It is the author's own notebook that is graded first; its rehearsal must not be run as an answer."""
    [cell] = recognise([raw("# Question 02.1", tags=["hidden-check"])])
    assert (cell.part, cell.number) == ("hidden-check", "")


def test_windows_line_ends_are_gone(delivered):
    """A check whose every line ends in another sign would count as changed."""
    cells = delivered(HandedIn().solve().as_vs_code_saves())
    assert not any("\r" in cell.source for cell in cells)
    assert remarks_on(cells, PROBLEMS) == []


def test_what_a_student_adds_belongs_to_no_question(delivered):
    cells = delivered(HandedIn().insert("answer-02-1", "my_notes = 1"))
    [own] = [cell for cell in cells if cell.source == "my_notes = 1"]
    assert (own.part, own.number, own.kind) == ("", "", "code")
    assert remarks_on(cells, PROBLEMS) == []


# --- Which set ---------------------------------------------------------------------------------------------


def answers(*numbers):
    return [Cell("code", "", "answer", number) for number in numbers]


def test_a_notebook_is_known_by_its_cells_whatever_its_name(delivered, tmp_path):
    """Learning platforms rename what is handed in."""
    assert which_set(delivered(HandedIn().strip()), tmp_path / "upload (3).ipynb", SETS).name == NAME
    assert which_set(answers("02.1"), tmp_path / "03_hard_attention.ipynb", SETS).name == NAME


def test_most_cells_decide():
    """A cell from last week's problem set was copied for its imports."""
    cells = answers("03.1", "02.1", "02.2")
    assert which_set(cells, SOURCE, SETS).name == NAME
    assert which_set([*cells, *answers("03.2", "03.3")], SOURCE, SETS).name.startswith("03")


def test_cells_of_no_known_set_do_not_decide(tmp_path):
    cells = [*answers("97.1", "97.2", "97.3"), Cell("code", ""), *answers("02.1")]
    assert which_set(cells, tmp_path / "x.ipynb", SETS).name == NAME


@pytest.mark.parametrize("name", [f"{NAME}.ipynb", f"ada_{NAME}-final (2).ipynb"])
def test_a_notebook_without_known_cells_is_known_by_its_name(tmp_path, name):
    """Everything was copied into a new notebook, in one cell."""
    assert which_set([Cell("code", "x = 1")], tmp_path / name, SETS).name == NAME
    assert which_set([], tmp_path / name, SETS).name == NAME


def test_another_notebook_is_known_as_none(tmp_path):
    """The folder's name must not decide: all of a student's notebooks lie in it."""
    assert which_set([Cell("code", "x = 1")], tmp_path / NAME / "holidays.ipynb", SETS) is None


# --- Remarks -----------------------------------------------------------------------------------------------


def changed(cell_id, change):
    def do(handed_in):
        cell = handed_in.cell(cell_id)
        cell["source"] = change(cell["source"])
        return handed_in

    return do


REMARKS = {
    "untouched": (lambda h: h, []),
    "a check with spaces at its ends": (
        changed("visible-check-02-1", lambda s: "\n" + s.replace("\n", "  \n") + "\n\n"),
        [],
    ),
    "no answer": (
        lambda h: h.delete("answer-02-1"),
        ["the answer cell of question 02.1 is not there: looked for by name"],
    ),
    "no words": (lambda h: h.delete("answer-02-4"), ["the answer cell of question 02.4 is not there"]),
    "two answers": (
        lambda h: h.double("answer-02-2"),
        ["the answer cell of question 02.2 is there 2 times: the last counts"],
    ),
    "three words": (
        lambda h: h.double("answer-02-4").double("answer-02-4"),
        ["the answer cell of question 02.4 is there 3 times"],
    ),
    "no check": (
        lambda h: h.delete("visible-check-02-3"),
        ["the check cell of question 02.3 is not there: the original was run"],
    ),
    "two checks": (
        lambda h: h.double("visible-check-02-1"),
        ["the check cell of question 02.1 is there 2 times: it was run once"],
    ),
    "a check changed": (
        changed("visible-check-02-1", lambda s: s + "\nprint('all is well')"),
        ["the check cell of question 02.1 was changed: the original was run instead"],
    ),
    "a check emptied": (
        changed("visible-check-02-1", lambda s: s.partition("\n")[0] + "\nif False:\n    pass"),
        ["the check cell of question 02.1 was changed: the original was run instead"],
    ),
    "an answer's tags lost": (
        lambda h: h.cell("answer-02-1").update(metadata={}) or h,
        ["the answer cell of question 02.1 has lost its tags: known by what is left"],
    ),
    "a check's tags lost": (lambda h: h.cell("visible-check-02-1").update(metadata={}) or h, []),
    "several things": (
        lambda h: h.delete("visible-check-02-1").delete("answer-02-2").double("visible-check-02-3"),
        [
            "the check cell of question 02.1 is not there: the original was run",
            "the answer cell of question 02.2 is not there: looked for by name",
            "the check cell of question 02.3 is there 2 times: it was run once",
        ],
    ),
}


@pytest.mark.parametrize(("change", "expected"), REMARKS.values(), ids=REMARKS.keys())
def test_what_happened_to_the_cells_is_said(delivered, change, expected):
    """Silence costs an e-mail, and a remark without a cause costs two."""
    assert remarks_on(delivered(change(HandedIn().solve())), PROBLEMS) == expected


def test_an_empty_notebook_is_remarked_on_cell_by_cell():
    remarks = remarks_on([], PROBLEMS)
    assert len(remarks) == len(PARTS) and all("is not there" in remark for remark in remarks)


# --- Words -------------------------------------------------------------------------------------------------

HEADING = "**Your answer to question 02.4**"
WRITTEN = {
    "words": ("\n\nTwo losses.\n", "Two losses."),
    "several paragraphs": ("\n\nOne.\n\n- two\n- three", "One.\n\n- two\n- three"),
    "nothing": ("", ""),
    "the placeholder": (f"\n\n{UNANSWERED}", ""),
    "the placeholder above": (f"\n\n{UNANSWERED}\n\nTwo losses.", "Two losses."),
    "spaces": ("\n\n   \n", ""),
    "bold words": ("\n\nTwo **losses**.", "Two **losses**."),
    "a bold paragraph": ("\n\n**Two losses.**", "**Two losses.**"),
    "on the heading's line": (" Two **losses**, **shared**.", "Two **losses**, **shared**."),
    "its own words again": (f"\n\nSee {HEADING}", f"See {HEADING}"),
}


@pytest.mark.parametrize(("below", "expected"), WRITTEN.values(), ids=WRITTEN.keys())
def test_words_are_what_stands_below_the_heading(below, expected):
    """An answer that arrives empty gets no point, and no person ever sees it."""
    cells = recognise([raw(HEADING + below, "markdown", "answer-02-4")])
    assert words_for("02.4", cells) == expected
    assert words_for("02.3", cells) == ""


def test_words_without_their_heading_are_found_by_id():
    cells = recognise([raw("Two losses.", "markdown", "answer-02-4")])
    assert words_for("02.4", cells) == "Two losses."


def test_words_in_several_cells_are_put_together():
    """The first cell was left as it was, and the answer written into its copy; or half of it in each."""
    texts = [f"{HEADING}\n\n{UNANSWERED}", f"{HEADING}\n\nOne.", f"{HEADING}\n\nTwo."]
    cells = [raw(text, "markdown") for text in texts]
    assert words_for("02.4", recognise(cells)) == "One.\n\nTwo."
    assert words_for("02.4", recognise(cells[:1])) == ""
    assert words_for("02.4", []) == ""


def test_words_in_a_new_cell_below_are_found():
    """Many students add a cell and write there; the next question's cells are not theirs."""
    question = "## Question 02.4: Good links, worse words (3 points)"
    texts = [
        question,
        f"{HEADING}\n\n{UNANSWERED}",
        "One.",
        "Two.",
        "## Question 02.5: Another (1 point)",
        "Three.",
    ]
    cells = recognise(raw(text, "markdown") for text in texts)
    assert words_for("02.4", cells) == "One.\n\nTwo."
    assert words_for("02.4", cells[:1] + cells[2:]) == "One.\n\nTwo.", "the answer's own cell was deleted"


def test_a_heading_of_the_student_s_own_is_no_check():
    """Notes under "# Check 02.1" would be reported as a second, changed check."""
    assert recognise([raw("# Check 02.1\nIt passes.", "markdown")])[0].part == ""


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_words_survive_every_editor(delivered, way):
    expected = WORDS.partition("\n\n")[2]
    assert words_for("02.4", delivered(way(HandedIn().solve()))) == expected
    assert words_for("02.4", delivered(way(HandedIn()))) == ""


# --- Files -------------------------------------------------------------------------------------------------


def put(folder, *paths):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("{}")


def found(folder) -> dict[str, tuple[list[str], list[str]]]:
    """Each student's notebooks and remarks."""
    return {
        one.student: ([str(path.relative_to(folder)) for path in one.notebooks], one.remarks)
        for one in find_submissions(folder)
    }


def test_files_and_folders_are_students(tmp_path):
    put(
        tmp_path,
        "王小明.ipynb",
        "ada/02.ipynb",
        "ada/more/deep/03.ipynb",
        "b. o'neil/x y.ipynb",
        "ada/notes.txt",
    )
    assert found(tmp_path) == {
        "ada": (["ada/02.ipynb", "ada/more/deep/03.ipynb"], []),
        "b. o'neil": (["b. o'neil/x y.ipynb"], []),
        "王小明": (["王小明.ipynb"], []),
    }


def test_students_come_in_one_order(tmp_path):
    """The order of the disk would give another table on another machine."""
    put(tmp_path, "c.ipynb", "a.ipynb", "b/2.ipynb", "b/1.ipynb")
    assert list(found(tmp_path)) == ["a", "b", "c"]
    assert found(tmp_path)["b"][0] == ["b/1.ipynb", "b/2.ipynb"]


def test_checkpoints_and_hidden_files_are_nobody_s(tmp_path):
    """Jupyter keeps an older copy beside each notebook: graded after it, the copy would count."""
    put(tmp_path, "ada/02.ipynb", "ada/.ipynb_checkpoints/02-checkpoint.ipynb", ".ipynb_checkpoints/b.ipynb")
    put(tmp_path, ".hidden.ipynb", "README.md", "grades.csv")
    assert found(tmp_path) == {"ada": (["ada/02.ipynb"], [])}


def test_an_archive_or_a_pdf_is_reported(tmp_path):
    put(tmp_path, "ada.zip", "bo.PDF", "cy.ipynb")
    assert found(tmp_path) == {
        "ada": ([], ["ada.zip is no notebook"]),
        "bo": ([], ["bo.PDF is no notebook"]),
        "cy": (["cy.ipynb"], []),
    }


def test_a_student_without_a_notebook_is_in_the_table(tmp_path):
    """Handed in as a PDF, or in an archive: left out of the grades, it is found weeks later."""
    put(tmp_path, "ada/answers.pdf", "bo/.ipynb_checkpoints/02-checkpoint.ipynb")
    (tmp_path / "cy").mkdir()
    nothing = ([], ["there is no notebook"])
    assert found(tmp_path) == {"ada": ([], ["answers.pdf is no notebook"]), "bo": nothing, "cy": nothing}


def test_a_folder_with_a_notebook_s_name_is_no_notebook(tmp_path):
    """Archives unpack into folders named after themselves; reading one as a file would end the grading."""
    put(tmp_path, "ada/02.ipynb/02.ipynb", "bo.ipynb/03.ipynb")
    assert found(tmp_path) == {
        "ada": (["ada/02.ipynb/02.ipynb"], []),
        "bo.ipynb": (["bo.ipynb/03.ipynb"], []),
    }


def link(place, target):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(target)


def test_a_link_is_said_and_not_opened(tmp_path):
    """It may lead to another's submission, or to the solutions."""
    folder = tmp_path / "submissions"
    put(folder, "ada.ipynb", "cy/own.ipynb")
    put(tmp_path, "solutions/02.ipynb")
    link(folder / "bo.ipynb", folder / "ada.ipynb")
    link(folder / "cy" / "02.ipynb", tmp_path / "solutions" / "02.ipynb")
    link(folder / "dee" / "nowhere.ipynb", tmp_path / "missing.ipynb")
    link(folder / "eve", tmp_path / "solutions")
    link(folder / "fay" / "all", tmp_path / "solutions")
    students = found(folder)
    words = "is a link to another file, and was not opened"
    assert students.pop("fay")[0] == [], "a notebook behind a linked folder was taken in"
    assert students == {
        "ada": (["ada.ipynb"], []),
        "bo": ([], [f"the submission {words}"]),
        "cy": (["cy/own.ipynb"], [f"02.ipynb {words}"]),
        "dee": ([], [f"nowhere.ipynb {words}"]),
        "eve": ([], [f"the submission {words}"]),
    }


def test_a_student_s_own_link_is_not_opened_either(tmp_path):
    """Two names for one notebook: it would be graded twice, and said to be there several times."""
    put(tmp_path, "ada/02.ipynb")
    link(tmp_path / "ada" / "again.ipynb", tmp_path / "ada" / "02.ipynb")
    notebooks, [remark] = found(tmp_path)["ada"]
    assert notebooks == ["ada/02.ipynb"] and remark.startswith("again.ipynb is a link")


def test_submissions_may_lie_behind_a_link(tmp_path):
    """A course's folder is often a link to another disk; the lecturer made that one."""
    put(tmp_path, "disk/ada/02.ipynb")
    link(tmp_path / "here", tmp_path / "disk")
    assert found(tmp_path / "here") == {"ada": (["ada/02.ipynb"], [])}


def test_all_entries_of_one_student_are_put_together(tmp_path):
    """A notebook beside a PDF of the same name is handed in every term: refusing both stops everybody."""
    put(tmp_path, "ada.ipynb", "ada.pdf", "ada/03.IPYNB", "bo.ipynb")
    assert found(tmp_path) == {
        "ada": (["ada/03.IPYNB", "ada.ipynb"], ["ada.pdf is no notebook"]),
        "bo": (["bo.ipynb"], []),
    }


def test_every_file_that_was_handed_in_is_taken_or_named(tmp_path):
    """Browsers and office programs rename notebooks; passed over in silence, they are found weeks later."""
    wrong = ["a.ipynb.txt", "b.json", "c.tar.gz", "d.DOCX", "e/02.ipynb.txt", "f/old/all.ZIP"]
    put(tmp_path, *wrong, "g (1).ipynb", "README.md")
    students = found(tmp_path)
    assert list(students) == ["a", "b", "c", "d", "e", "f", "g (1)"]
    for (notebooks, remarks), path in zip(students.values(), wrong, strict=False):
        assert (notebooks, remarks) == ([], [f"{path.rpartition('/')[2]} is no notebook"])
    assert passed_over(tmp_path) == ["README.md"]


def test_what_an_archive_leaves_is_nobody_s(tmp_path):
    put(tmp_path, "__MACOSX/ada/._02.ipynb", "ada/__MACOSX/02.ipynb", "ada/._02.ipynb", "ada/02.ipynb")
    put(tmp_path, "Thumbs.db", "ada/Desktop.ini")
    assert found(tmp_path) == {"ada": (["ada/02.ipynb"], [])}


def test_any_name_can_be_written(tmp_path):
    """A name that is no UTF-8 cannot be printed, nor be part of a table: one of them stopped everybody."""
    for name in (b"caf\xe9.ipynb", b"\xff\xfe.ipynb", b"line\nbreak.ipynb", b"caf\\xe9.ipynb"):
        Path(os.fsdecode(os.path.join(os.fsencode(tmp_path), name))).write_text("{}")
    students = [one.student for one in find_submissions(tmp_path)]
    assert len(set(students)) == 4
    assert all(name.isprintable() and name.encode() for name in students), students
    for name in [*students, "x" * 255, "王" * 80, ".", "..", "a/b"]:
        folder = folder_name(name)
        assert len(f".{folder}.json.1234567-{2**48}.part".encode()) < 255
        assert folder.strip(".") and "/" not in folder


def test_what_is_no_regular_file_is_said_and_not_opened(tmp_path):
    """Whoever opens a pipe that nobody writes to waits for ever."""
    put(tmp_path, "ada/02.ipynb")
    os.mkfifo(tmp_path / "bo.ipynb")
    os.mkfifo(tmp_path / "ada" / "03.ipynb")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "cy.ipynb"))
        words = "is no regular file, and was not opened"
        assert found(tmp_path) == {
            "ada": (["ada/02.ipynb"], [f"03.ipynb {words}"]),
            "bo": ([], [f"bo.ipynb {words}"]),
            "cy": ([], [f"cy.ipynb {words}"]),
        }


@pytest.mark.parametrize("content", [[], ["README.md"], [".hidden.ipynb"], [".ipynb_checkpoints/a.ipynb"]])
def test_a_folder_with_no_submission_is_named(tmp_path, content):
    put(tmp_path, *content)
    with pytest.raises(FileNotFoundError, match="no submission in .*NAME.ipynb, or a folder NAME"):
        find_submissions(tmp_path)


@pytest.mark.parametrize("name", ["nowhere", "one.ipynb"])
def test_what_is_no_folder_is_named(tmp_path, name):
    """One notebook instead of the folder with all of them."""
    put(tmp_path, "one.ipynb")
    with pytest.raises(FileNotFoundError, match=f"SUBMISSIONS is a folder.*{name} is none"):
        find_submissions(tmp_path / name)
