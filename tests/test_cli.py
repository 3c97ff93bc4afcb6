"""The command line says what it did, and its exit status says whether all was well."""

import sys
import types

import nbformat
import pytest

from attncourse import __version__, experiments
from attncourse.cli import main
from attncourse.notebooks import METADATA, SETUP


@pytest.fixture
def chapters(tmp_path, monkeypatch):
    """A course of one small notebook, stored as it should be, in the current folder."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "chapters"
    folder.mkdir()
    notebook = nbformat.v4.new_notebook(metadata=nbformat.from_dict(METADATA))
    notebook.cells = [nbformat.v4.new_code_cell(SETUP), nbformat.v4.new_code_cell("x = 1")]
    for count, cell in enumerate(notebook.cells, start=1):
        cell.update(id=f"cell-{count}", execution_count=count)
    nbformat.write(notebook, folder / "small.ipynb")
    return folder


def change(path, source):
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[1].source = source
    nbformat.write(notebook, path)


def test_checking_a_good_notebook_returns_zero(chapters, capsys):
    assert main(["notebooks", "--check"]) == 0
    assert capsys.readouterr().out == "nothing is wrong with 1 notebook(s)\n"


def test_checking_a_bad_notebook_returns_non_zero(chapters, capsys):
    """A check that always returns zero is green in every workflow."""
    change(chapters / "small.ipynb", "print('/home/ada/course')")
    assert main(["notebooks", "--check", "chapters/small.ipynb"]) == 1
    assert "small.ipynb: cell 2 (cell-2) holds a path of one machine" in capsys.readouterr().out


def test_executing_stores_outputs_in_place(chapters, capsys):
    change(chapters / "small.ipynb", "print(6 * 7)")
    assert main(["notebooks", "--jobs", "1"]) == 0
    assert "small.ipynb" in capsys.readouterr().out
    assert nbformat.read(chapters / "small.ipynb", as_version=4).cells[1].outputs[0].text == "42\n"


def test_a_failing_notebook_is_named_and_the_others_still_run(chapters, capsys):
    good = (chapters / "small.ipynb").read_text()
    (chapters / "a_failing.ipynb").write_text(good)
    change(chapters / "a_failing.ipynb", "from attncourse.claims import check\ncheck('it is so', 1 > 2)")
    assert main(["notebooks"]) == 1
    printed = capsys.readouterr()
    assert "a_failing.ipynb" in printed.err and "this claim does not hold: it is so" in printed.err
    assert "small.ipynb" in printed.out


@pytest.mark.parametrize(
    "arguments", [["notebooks"], ["notebooks", "--check"], ["publish", "out", "--address", "a/b"]]
)
def test_outside_the_course_the_missing_folder_is_named(arguments, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    assert "there is no chapters: go to the course's folder" in capsys.readouterr().err


def test_publishing_fills_the_address_in(chapters, tmp_path):
    assert main(["publish", "out", "--address", "ada/attention"]) == 0
    text = (tmp_path / "out" / "chapters" / "small.ipynb").read_text()
    assert r"ADDRESS = \"ada/attention\"" in text


def test_publishing_to_no_address_is_refused(chapters, capsys):
    assert main(["publish", "out", "--address", "attention"]) == 2
    assert "address is OWNER/NAME or OWNER/NAME@BRANCH, not 'attention'" in capsys.readouterr().err


@pytest.fixture
def experiments_run(monkeypatch):
    """Two experiments that only note that they ran."""
    run = []
    monkeypatch.setattr(experiments, "names", lambda: ["one", "two"], raising=False)
    monkeypatch.setattr(experiments, "run", run.append, raising=False)
    return run


@pytest.mark.parametrize("arguments, expected", [([], ["one", "two"]), (["two"], ["two"]), (["--list"], [])])
def test_results_runs_what_is_named_or_all(experiments_run, arguments, expected, capsys):
    assert main(["results", *arguments]) == 0
    assert experiments_run == expected
    assert capsys.readouterr().out == ("one\ntwo\n" if "--list" in arguments else "")


def test_an_unknown_experiment_is_named_before_any_runs(experiments_run, capsys):
    """A slip in the second name must not cost the hour that the first takes."""
    assert main(["results", "one", "three"]) == 2
    assert experiments_run == []
    assert "no experiment is called three: choose from one, two" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["publish", "out"], ["notebooks", "--jobs", "0"]])
def test_what_is_not_understood_ends_with_two_and_the_usage(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: attncourse" in capsys.readouterr().err


def test_the_version_is_the_package_s(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0 and capsys.readouterr().out == f"attncourse {__version__}\n"


def test_asking_for_help_needs_no_torch(monkeypatch, capsys):
    """`attncourse --help` should answer at once, not after the second that torch takes."""
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("broken"))
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "notebooks" in capsys.readouterr().out
