"""The notebooks keep the house's rules, and each rule is seen to fail on a notebook that breaks it."""

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from nbclient.exceptions import CellExecutionError

from attncourse.notebooks import METADATA, SETUP, WIDGET_VIEW, check, execute, find, publish
from attncourse.notebooks.reading import reading_minutes, state_reading_time

CHAPTERS = find([Path(__file__).parent.parent / "chapters"])
PIXEL = "data:image/png;base64,iVBORw0KGgo="


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_keeps_the_rules(path):
    problems = check(path)
    assert not problems, "\n".join(problems)


# --- Small notebooks to break ------------------------------------------------------------------------------


def code(source, *outputs):
    return nbformat.v4.new_code_cell(source, outputs=list(outputs))


def prose(source):
    return nbformat.v4.new_markdown_cell(source)


def shown(**data):
    """An output; `text_html` stands for text/html."""
    kinds = {kind.replace("_", "/", 1): text for kind, text in data.items()}
    return nbformat.v4.new_output("display_data", data=kinds)


def stream(text, name="stdout"):
    return nbformat.v4.new_output("stream", name=name, text=text)


@pytest.fixture
def written(tmp_path):
    """Write cells as a stored notebook that begins with the setup cell, and return its path."""

    def write(*cells, change=None, setup=True):
        notebook = nbformat.v4.new_notebook(metadata=nbformat.from_dict(METADATA))
        notebook.cells = [*([code(SETUP)] if setup else []), *cells]
        for number, cell in enumerate(notebook.cells):
            cell.id = f"cell-{number}"
        for count, cell in enumerate((c for c in notebook.cells if c.cell_type == "code"), start=1):
            cell.execution_count = count
        if change:
            change(notebook)
        path = tmp_path / "small.ipynb"
        path.write_text(nbformat.writes(notebook), encoding="utf-8")
        return path

    return write


GOOD = {
    "plain": [
        prose("# Title\n\n`code`, $a_i = \\text{softmax}(q)$, see [here](small.ipynb#title)."),
        code("x = 1"),
    ],
    "output": [code("print(1)", stream("1\n"))],
    "a figure with words": [code("show(f)", shown(text_html=f'<img alt="Two lines cross." src="{PIXEL}">'))],
    "a view of our own": [
        code(
            "view",
            shown(
                text_html='<div><svg aria-label="weights"></svg><script type="application/json">{"a": "https://x.org"}'
                '</script><script>const space = "http://www.w3.org/2000/svg"; // see https://x.org\n</script></div>',
                text_plain="AttentionView()",
            ),
        )
    ],
    "a new line in a formula": [prose("$$\n\\begin{aligned} a &= 1 \\\\\n\\beta &= 2 \\end{aligned}\n$$")],
    "links to the world": [
        prose("[paper](https://arxiv.org/abs/1409.0473), <a href='https://x.org'>there</a>")
    ],
    "maths like a path": [prose("$f: T \\to /tmp$, and/or, /k ae t/, https://x.org/home/me/page")],
    "a function defined": [code("def f():\n    return 1")],
    "an assignment and a call": [code("model.train()")],
    "a semicolon": [code("x;")],
}


@pytest.mark.parametrize("cells", GOOD.values(), ids=GOOD.keys())
def test_a_good_notebook_passes(written, cells):
    """A check that cries wolf is soon switched off."""
    assert check(written(*cells)) == []


ERROR = nbformat.v4.new_output("error", ename="ZeroDivisionError", evalue="division by zero", traceback=[])


def outside(html):
    return [code("v", shown(text_html=html))], "loads something from outside"


BAD = {
    "executed out of order": (
        [code("x = 1")],
        "execution count 7",
        lambda n: n.cells[1].update(execution_count=7),
    ),
    "never executed": ([code("x = 1")], "never executed", lambda n: n.cells[1].update(execution_count=None)),
    "empty cell": ([code("")], "is empty"),
    "error": ([code("1/0", ERROR)], "ended in an error: ZeroDivisionError"),
    "stderr": ([code("x = 1", stream("Warning!", "stderr"))], "a warning or a progress bar"),
    "missing print": ([code("print(1)")], "no output is stored"),
    "missing figure": ([code("viewer.show(figure, alt='x')")], "no output is stored"),
    "missing check": ([code("check('it holds', True)")], "no output is stored"),
    "missing value": ([code("x = 1\nx")], "no output is stored"),
    "home in an output": (
        [code("print(p)", stream("/home/ada/course\n"))],
        "path of one machine (stream): /home/ada",
    ),
    "tmp in a source": ([code("p = '/tmp/x.pt'")], "path of one machine (text): /tmp/x.pt"),
    "Colab's folder in prose": (
        [prose("Look into /content/data.")],
        "path of one machine (text): /content/data",
    ),
    "a Mac's folder in HTML": (
        [code("v", shown(text_html="<p>/Users/ada/x</p>"))],
        "path of one machine (text/html)",
    ),
    "Windows' folder": ([code("print(p)", stream("C:\\Users\\ada"))], "path of one machine"),
    "address in memory": ([code("v", shown(text_plain="<View at 0x7f3a5c0d2e50>"))], "an address in memory"),
    "live control alone": ([code("v", shown(**{WIDGET_VIEW: {"model_id": "1"}}))], "a live control"),
    "bare script": ([code("v", shown(**{"application/javascript": "alert(1)"}))], "a bare script"),
    "bare picture": ([code("v", shown(**{"image/png": "iVBORw0KGgo="}))], "without alternative text"),
    "widget state": ([code("x = 1")], "metadata.widgets", lambda n: n.metadata.update(widgets={})),
    "another kernel": (
        [code("x = 1")],
        "metadata is not what",
        lambda n: n.metadata.kernelspec.update(name="venv"),
    ),
    "directive": ([prose("```{note}\nRead this.\n```")], "a MyST directive"),
    "colon directive": ([prose(":::{admonition} Look\n:::")], "a MyST directive"),
    "role": ([prose("As {cite:p}`bahdanau2015` show")], "a MyST role"),
    "label": ([prose("(soft-attention)=\n# Soft attention")], "a MyST label"),
    "a formula escaped twice": ([prose(r"$\\alpha_i$")], "two backslashes before a command"),
    "myst_nb": ([code("from myst_nb import glue")], "imports myst_nb"),
    "long cell": ([code("\n".join(f"x{i} = {i}" for i in range(31)))], "has 31 lines, over 30"),
    "open": ([code("text = open('data.txt').read()")], "reads a file by its path, 'data.txt'"),
    "torch.load": ([code("w = torch.load('weights.pt')")], "reads a file by its path"),
    "Path": ([code("text = Path('book/results/x.json').read_text()")], "reads a file by its path"),
    "sys.path": ([code("import sys\nsys.path.append('..')")], "imports from a folder"),
    "relative import": ([code("from . import data")], "imports from a folder"),
    "run": ([code("%run other.ipynb")], "imports from a folder"),
    "img without alt": (
        [code("v", shown(text_html=f'<img src="{PIXEL}">'))],
        "an image without alternative text",
    ),
    "img with empty alt": (
        [code("v", shown(text_html=f'<img alt=" " src="{PIXEL}">'))],
        "an image without alternative",
    ),
    "img in prose": ([prose(f'<img src="{PIXEL}">')], "an image without alternative text"),
    "markdown image without alt": ([prose(f"![]({PIXEL})")], "an image without alternative text"),
    "markdown image beside it": ([prose("![A cat](cat.png)")], "an image that is not inside the notebook"),
    "svg without a name": ([code("v", shown(text_html="<svg><path/></svg>"))], "a drawing (svg) without"),
    "link to nowhere": ([prose("See [chapter 13](13_nothing.ipynb).")], "links to 13_nothing.ipynb"),
    "script from a CDN": outside('<script src="https://cdn.x.org/d3.js"></script>'),
    "script without a scheme": outside('<script src="//cdn.x.org/d3.js"></script>'),
    "style from a CDN": outside('<link rel="stylesheet" href="https://x.org/a.css">'),
    "import in a script": outside('<script type="module">import "https://x.org/d3"</script>'),
    "font in a style": outside("<style>@import url(https://x.org/f.css)</style>"),
    "image from elsewhere": (
        [prose('<img alt="A cat" src="https://x.org/cat.png">')],
        "loads something from outside",
    ),
}


@pytest.mark.parametrize("case", BAD.values(), ids=BAD.keys())
def test_a_rule_is_seen_failing(written, case):
    """A rule that cannot fail protects nobody."""
    cells, expected, change = (*case, None)[:3]
    problems = check(written(*cells, change=change))
    assert any(expected in problem for problem in problems), problems


def test_the_setup_cell_comes_first(written):
    assert "SETUP" in check(written(code("x = 1"), setup=False))[0]


def test_doubled_and_missing_ids_are_named(written):
    """A copied cell keeps its id. nbformat mends that silently while it reads: the check must not use it."""
    path = written(code("x = 1"), code("y = 2"))
    text = path.read_text()
    path.write_text(text.replace('"cell-2"', '"cell-1"'))
    assert check(path) == ["cell 3 (cell-1) has the id of an earlier cell"]
    path.write_text(text.replace('   "id": "cell-2",\n', ""))
    assert check(path) == ["cell 3 (no id) has no id"]


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"cells": [1], "metadata": {}}'])
def test_what_is_no_notebook_is_said_in_words(tmp_path, text):
    path = tmp_path / "broken.ipynb"
    path.write_text(text)
    assert "this is not a notebook" in check(path)[0]


# --- Execution ---------------------------------------------------------------------------------------------

EXPLORER = f"""\
from IPython.display import display
display({{"text/plain": "Explorer()", "text/html": "<p>Start the page to play.</p>",
         "{WIDGET_VIEW}": {{"model_id": "1"}}}}, raw=True)"""


def test_two_runs_write_the_same_bytes(written):
    random = "import torch\ntorch.manual_seed(0)\nprint(torch.randn(2))"
    path = written(code(random), code(EXPLORER), code("1 + 1"))
    execute(path)
    first = path.read_bytes()
    execute(path)
    assert path.read_bytes() == first
    assert check(path) == []


def test_editors_traces_and_dead_controls_are_not_stored(written):
    """A stored slider moves in the static page and changes nothing, which misleads."""

    def soiled(notebook):
        notebook.metadata.update(widgets={"state": {}}, colab={"provenance": []})
        notebook.cells[1].metadata.update(
            tags=["nbval-ignore-output"], executionInfo={"elapsed": 3}, scrolled=True
        )

    path = written(code(EXPLORER), change=soiled)
    execute(path)
    stored = nbformat.read(path, as_version=4)
    assert stored.metadata == METADATA
    assert stored.cells[1].metadata == {"tags": ["nbval-ignore-output"]}
    assert set(stored.cells[1].outputs[0].data) == {"text/plain", "text/html"}
    assert check(path) == []


def test_a_notebook_runs_in_an_empty_folder_on_one_thread_of_the_processor(written):
    source = (
        "import os, torch\nprint(os.listdir('.'), torch.get_num_threads(), os.environ['ATTNCOURSE_DEVICE'])"
    )
    path = written(code(source))
    execute(path)
    assert nbformat.read(path, as_version=4).cells[1].outputs[0].text == "[] 1 cpu\n"


def test_a_failing_cell_leaves_the_file_as_it_was(written):
    path = written(code("1 / 0"))
    before = path.read_bytes()
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        execute(path)
    assert path.read_bytes() == before


# --- The setup cell ----------------------------------------------------------------------------------------

WITHOUT_THE_PACKAGE = """
import importlib.util
present = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "attncourse" else present(name)
class Shell:
    def run_line_magic(self, name, line, *_, **__):
        print("%" + name, line.format(**globals()))
get_ipython = Shell
"""


def run_setup(address="", before=""):
    source = SETUP.replace('ADDRESS = ""', f"ADDRESS = {address!r}")
    program = before + TransformerManager().transform_cell(source)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)


def test_setup_does_nothing_where_the_package_is():
    finished = run_setup("ada/attention")
    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


def test_setup_says_what_to_type_where_the_package_is_missing():
    finished = run_setup(before=WITHOUT_THE_PACKAGE)
    assert finished.returncode != 0 and finished.stdout == ""
    assert "ModuleNotFoundError: attncourse is missing: type `pip install -e .`" in finished.stderr


def test_setup_installs_from_the_address_and_leaves_torch_alone():
    finished = run_setup("ada/attention@main", before=WITHOUT_THE_PACKAGE)
    assert finished.stdout == '%pip install -q "attncourse @ git+https://github.com/ada/attention@main"\n'


def test_setup_names_the_problem_in_a_real_kernel(written, tmp_path, monkeypatch):
    """The first cell stops with the sentence, not the tenth with a traceback."""
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\npresent = u.find_spec\n"
        "u.find_spec = lambda name, *rest: None if name == 'attncourse' else present(name, *rest)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(CellExecutionError, match="attncourse is missing: type `pip install -e .`"):
        execute(written(code("x = 1")))


# --- Publishing and finding --------------------------------------------------------------------------------


def test_published_copies_carry_the_address(written, tmp_path):
    source = written(code("print(1)", stream("1\n")))
    chapters = tmp_path / "chapters"
    (chapters / "problems").mkdir(parents=True)
    source.rename(chapters / "problems" / "a.ipynb")
    before = (chapters / "problems" / "a.ipynb").read_bytes()
    question = prose("## Question 02.1: A title (2 points)")
    question.metadata["tags"] = ["question"]
    written(question, code("secret = 1")).rename(chapters / "problems" / "with_solutions.ipynb")
    [copy] = publish(tmp_path / "out", "ada/attention@main", chapters)
    assert copy == tmp_path / "out" / "chapters" / "problems" / "a.ipynb"
    published = nbformat.read(copy, as_version=4)
    assert 'ADDRESS = "ada/attention@main"\n' in published.cells[0].source
    assert published.cells[1].outputs[0].text == "1\n"
    assert (chapters / "problems" / "a.ipynb").read_bytes() == before


@pytest.mark.parametrize(
    "address", ["", "ada", "https://github.com/ada/attention", 'ada/x"; import os', "ada/a b"]
)
def test_an_address_of_another_form_is_refused(tmp_path, address):
    """What is filled in ends up in a command that runs on the reader's machine."""
    with pytest.raises(ValueError, match="address is OWNER/NAME"):
        publish(tmp_path / "out", address, tmp_path)


def test_a_notebook_without_the_setup_cell_is_not_published(written, tmp_path):
    written(code("x = 1"), setup=False)
    with pytest.raises(ValueError, match="the first code cell is not the setup cell"):
        publish(tmp_path / "out", "ada/attention", tmp_path)


def test_checkpoints_and_built_copies_are_not_found(tmp_path):
    """A course that itself lies in a folder called _build still has its notebooks."""
    course = tmp_path / "_build" / "course"
    for folder in [".ipynb_checkpoints", "_build/html", "problems"]:
        (course / folder).mkdir(parents=True)
        (course / folder / "a.ipynb").touch()
    notebook = course / "problems" / "a.ipynb"
    assert find([course]) == find([notebook]) == [notebook]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no .*nowhere"):
        find([tmp_path / "nowhere"])


HUNDRED = "word " * 100


def folded(source):
    return nbformat.v4.new_code_cell(source, metadata={"tags": ["fold"]})


@pytest.mark.parametrize(
    ("minutes", "cells"),
    [
        (5, [prose(HUNDRED * 5)]),
        (10, [prose(HUNDRED * 5 + "\n$$a = b$$" * 10)]),
        (5, [prose(f"{HUNDRED * 5}\n<details>{HUNDRED * 5}</details>\n```\n{HUNDRED * 5}```")]),
        (10, [prose("**A minute.** Why?\n\n" * 10)]),
        (10, [code(SETUP), code("x = 1\n" * 200)]),
        (5, [code(SETUP), folded("x = 1\n" * 200)]),
        (10, [code(SETUP), code("", shown(text_plain="x = 1\n" * 200, text_markdown="source"))]),
        (15, [code(SETUP), code("", *[shown(text_html='<figure class="attn-figure">')] * 10,
                                *[shown(text_html='<div data-attn-view="weigh">')] * 10)]),
    ],
    ids=["words", "formulas", "no answers", "questions", "open code", "folded code", "sources", "pictures"],
)
def test_reading_time_counts_what_is_read(minutes, cells):
    """Folded answers and folded code take no time of whoever reads on."""
    assert reading_minutes(cells) == minutes


@pytest.mark.parametrize(
    "line", ["| Reading time | {} |", "- **Reading time:** {}", "- **Reading time:** {}, and more"]
)
def test_reading_time_is_written_by_the_rule(line):
    cells = [prose("# 07"), prose(line.format("about an hour and a half") + "\n\n" + HUNDRED * 15)]
    state_reading_time(cells)
    assert cells[1]["source"].startswith(line.format("about 15 minutes"))


def test_a_reading_time_of_another_page_is_named(written):
    """A chapter that was cut by half goes on promising an hour."""
    path = written(prose("- **Reading time:** about 40 minutes"), prose(HUNDRED * 15))
    assert check(path) == ["the opening says 40 minutes of reading, the rule 15: run `attncourse notebooks`"]
