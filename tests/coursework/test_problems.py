"""A problem set is read whole or refused with file and cell; students receive what surrounds a solution.

Each rule of `read_problem_set` is seen to fail on a small set of two questions that breaks it.
"""

import ast
import json

import nbformat
import pytest

from attncourse.coursework.problems import (
    Mistake,
    part_of,
    read_problem_set,
    read_problem_sets,
    without_solution,
)

ANSWER = """\
# Question 03.1
def forget(x, rate):
    \"\"\"Let go of a part.\"\"\"
    # BEGIN SOLUTION
    kept = 1 - rate
    return x * kept
    # END SOLUTION"""
WORDS = """\
**Your answer to question 03.2**

<!-- BEGIN SOLUTION -->
Because it forgets.
<!-- END SOLUTION -->"""
RUBRIC = "**Rubric 03.2**\n\n- 1 point: it is said that it forgets\n- 2 points: and why"


def cells() -> dict[str, nbformat.NotebookNode]:
    """A problem set in order; every cell is named by its id."""
    new = nbformat.v4
    tagged = {
        "title": (new.new_markdown_cell, "# Problem set 03: Forgetting\n\nTwo questions, 5 points."),
        "imports": (new.new_code_cell, "import torch"),
        "q1": (
            new.new_markdown_cell,
            "## Question 03.1: Let go (2 points)\n\nWrite `forget`.",
            "question",
            "implement",
        ),
        "a1": (new.new_code_cell, ANSWER, "answer"),
        "v1": (
            new.new_code_cell,
            "# Check 03.1\nassert forget(1, 0) == 1, 'nothing to forget'",
            "visible-check",
        ),
        "h1": (
            new.new_code_cell,
            "# Hidden check 03.1\ndef cases(draw, ask):\n    ask('one', 'forget', draw.normal(3), 0.5)",
            "hidden-check",
        ),
        "m1": (
            new.new_raw_cell,
            "# Mistake 03.1: nothing to forget\ndef forget(x, rate):\n    return x * rate",
            "mistake",
        ),
        "q2": (new.new_markdown_cell, "## Question 03.2: Why? (3 points)", "question", "explain"),
        "a2": (new.new_markdown_cell, WORDS, "answer"),
        "r2": (new.new_markdown_cell, RUBRIC, "rubric"),
    }
    return {
        name: make(source, id=name, metadata={"tags": list(tags)} if tags else {})
        for name, (make, source, *tags) in tagged.items()
    }


@pytest.fixture
def written(tmp_path):
    """Write the set after `change(cells)`, and return its path."""

    def write(change=None, name="03_forgetting.ipynb"):
        named = cells()
        if change:
            change(named)
        path = tmp_path / name
        path.write_text(
            nbformat.writes(nbformat.v4.new_notebook(cells=list(named.values()))), encoding="utf-8"
        )
        return path

    return write


# --- Reading -----------------------------------------------------------------------------------------------


def test_a_whole_set_is_read(written):
    problems = read_problem_set(written())
    assert (problems.name, problems.title, problems.points) == (
        "03_forgetting",
        "Problem set 03: Forgetting",
        5,
    )
    first, second = problems.questions
    assert (first.number, first.title, first.points, first.kind) == ("03.1", "Let go", 2, "implement")
    assert first.answer == ANSWER and first.visible.startswith("# Check") and "cases(" in first.hidden
    assert first.mistakes == (Mistake("nothing to forget", cells()["m1"].source),)
    assert not first.by_hand and second.by_hand
    assert (second.answer, second.rubric, second.visible, second.hidden) == (WORDS, RUBRIC, "", "")


def test_several_mistakes_keep_their_order(written):
    def more(named):
        named["m1b"] = nbformat.from_dict(named["m1"] | {"id": "m1b"})
        named["m1b"].source = "# Mistake 03.1: all of it: gone\nforget = None"
        for name in ("q2", "a2", "r2"):
            named[name] = named.pop(name)

    mistakes = read_problem_set(written(more)).questions[0].mistakes
    assert [mistake.words for mistake in mistakes] == ["nothing to forget", "all of it: gone"]


def test_a_cell_is_known_by_its_tags_alone(written):
    """A cell of the introduction may speak of a question and an answer, and be neither."""
    named = cells()
    assert [part_of(cell) for cell in named.values()] == [
        *("", "", "question", "answer", "visible-check", "hidden-check", "mistake"),
        *("question", "answer", "rubric"),
    ]
    assert part_of(nbformat.v4.new_markdown_cell("x", metadata={"tags": ["explain", "hide-input"]})) == ""


def test_every_set_of_a_folder_is_read_by_name(written, tmp_path):
    written()
    (tmp_path / "notes.txt").write_text("no problem set")
    assert list(read_problem_sets(tmp_path)) == ["03_forgetting"]


@pytest.mark.parametrize("folder", ["nowhere", "empty"])
def test_a_folder_without_sets_is_named(tmp_path, folder):
    """Graded against no set at all, everyone would be told that they answer none."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=f"no problem set in .*{folder}.*--source"):
        read_problem_sets(tmp_path / folder)


# --- Rules -------------------------------------------------------------------------------------------------


def source(cell, old, new):
    """A change of one cell's source."""

    def change(named):
        assert old in named[cell].source
        named[cell].source = named[cell].source.replace(old, new)

    return change


def added(cell, line):
    """A change that adds a last line to a cell."""
    return lambda named: named[cell].update(source=f"{named[cell].source}\n{line}")


def tags(cell, *new):
    return lambda named: named[cell].metadata.update(tags=list(new))


def without(*names):
    return lambda named: [named.pop(name) for name in names]


def doubled(name):
    def change(named):
        later = list(named)[list(named).index(name) + 1 :]
        named["again"] = nbformat.from_dict(named[name] | {"id": "again"})
        for other in later:
            named[other] = named.pop(other)

    return change


def kind(cell, make):
    def change(named):
        old = named[cell]
        named[cell] = make(old.source, id=cell, metadata=old.metadata)

    return change


def first(cell, line):
    """A change of one cell's first line."""

    def change(named):
        named[cell].source = "\n".join([line, *named[cell].source.splitlines()[1:]])

    return change


code, markdown, raw = nbformat.v4.new_code_cell, nbformat.v4.new_markdown_cell, nbformat.v4.new_raw_cell
# What is changed, the cell that is named ("" for the whole file), and words of the message.
BROKEN = {
    "no points in a heading": (first("q1", "## Question 03.1: Let go"), "q1", "a question begins with"),
    "no title": (first("q1", "## Question 03.1: (2 points)"), "q1", "a question begins with"),
    "another level": (first("q1", "### Question 03.1: Let go (2 points)"), "q1", "a question begins with"),
    "one digit": (first("q1", "## Question 3.1: Let go (2 points)"), "q1", "a question begins with"),
    "half a point": (first("q1", "## Question 03.1: Let go (2.5 points)"), "q1", "a question begins with"),
    "no kind": (tags("q1", "question"), "q1", "one kind of implement, experiment, explain, not 0"),
    "two kinds": (tags("q1", "question", "implement", "explain"), "q1", "not 2"),
    "a part before its question": (
        lambda named: named.update(q1=named.pop("q1")),
        "a1",
        "this answer stands before the first question",
    ),
    "an answer to another": (
        first("a1", "# Question 03.2"),
        "a1",
        "does not name question 03.1: '# Question",
    ),
    "an answer without a name": (first("a1", "def forget(x):"), "a1", "the first line of this answer"),
    "a name and more": (first("a1", "# Question 03.1 and more"), "a1", "the first line of this answer"),
    "a dot that is none": (first("a1", "# Question 03x1"), "a1", "the first line of this answer"),
    "words without a name": (first("a2", "Your answer"), "a2", "does not name question 03.2"),
    "a check of another": (first("v1", "# Check 03.2"), "v1", "the first line of this visible-check"),
    "a hidden check as a check": (first("h1", "# Check 03.1"), "h1", "the first line of this hidden-check"),
    "a mistake without words": (first("m1", "# Mistake 03.1"), "m1", "the first line of this mistake"),
    "a rubric of another": (first("r2", "**Rubric 03.1**"), "r2", "the first line of this rubric"),
    "an empty cell": (lambda named: named["v1"].update(source=""), "v1", "does not name question 03.1: ''"),
    "two answers": (doubled("a1"), "again", "question 03.1 has a second answer"),
    "two checks": (doubled("v1"), "again", "question 03.1 has a second visible-check"),
    "two hidden checks": (doubled("h1"), "again", "question 03.1 has a second hidden-check"),
    "two rubrics": (doubled("r2"), "again", "question 03.2 has a second rubric"),
    "code in words": (kind("a1", markdown), "a1", "is not a markdown cell"),
    "words in code": (kind("a2", code), "a2", "is not a code cell"),
    "no solution": (source("a1", " SOLUTION", ""), "a1", "has a BEGIN SOLUTION and, after it, an END"),
    "no end": (source("a1", "    # END SOLUTION", ""), "a1", "has a BEGIN SOLUTION and, after it, an END"),
    "no beginning": (
        source("a1", "# BEGIN SOLUTION", ""),
        "a1",
        "each BEGIN SOLUTION is followed by one END",
    ),
    "two beginnings": (
        source("a1", "kept = 1 - rate", "# BEGIN SOLUTION"),
        "a1",
        "each BEGIN SOLUTION is followed by one END",
    ),
    "nothing in a solution": (
        source("a1", "    kept = 1 - rate\n    return x * kept\n", "\n"),
        "a1",
        "between a BEGIN SOLUTION and its END SOLUTION stands nothing",
    ),
    "a solution that is no Python": (
        first("a1", "# Question 03.1\n# BEGIN SOLUTION\nlargest = = 3\n# END SOLUTION"),
        "a1",
        "invalid syntax",
    ),
    # Slips that would hand out what students must not see.
    "a second solution in lower case": (
        added("a1", "    # begin solution\n    x\n    # end solution"),
        "a1",
        "'# begin solution' is a mark outside its place",
    ),
    "a solution with underscores": (added("a1", "# Begin_Solution"), "a1", "is a mark outside its place"),
    "another tool's solution": (added("a1", "# SOLUTION"), "a1", "'# SOLUTION' is a mark"),
    "a solution in a check": (added("v1", "# BEGIN SOLUTION\n# END SOLUTION"), "v1", "is a mark outside"),
    "a solution in no part": (added("imports", "x = 1  # BEGIN SOLUTION"), "imports", "is a mark outside"),
    "a solution in a question": (added("q1", "<!-- End Solution -->"), "q1", "is a mark outside"),
    "hidden tests in a check": (
        added("v1", "### BEGIN HIDDEN TESTS\nassert 1"),
        "v1",
        "'### BEGIN HIDDEN TESTS'",
    ),
    "a hidden test of one line": (added("v1", "# HIDDEN"), "v1", "'# HIDDEN' is a mark"),
    "hidden tests in lower case": (added("v1", "### end hidden test"), "v1", "is a mark outside its place"),
    "a mistake without its tag": (tags("m1"), "m1", "'# Mistake 03.1: nothing to forget', and has no tag"),
    "a mistake of many": (tags("m1", "mistakes"), "m1", "there is no tag 'mistakes'"),
    "a mistake in capitals": (tags("m1", "Mistake"), "m1", "there is no tag 'Mistake'"),
    "a hidden check without its tag": (tags("h1"), "h1", "and has no tag that says which part"),
    "a hidden check with an underscore": (tags("h1", "hidden_check"), "h1", "there is no tag 'hidden_check'"),
    "a second hidden check": (
        lambda named: (doubled("h1")(named), tags("again", "visible-checks")(named)),
        "again",
        "there is no tag 'visible-checks'",
    ),
    "a rubric without its tag": (tags("r2"), "r2", "and has no tag that says which part"),
    "an answer without its tag": (tags("a1"), "a1", "'# Question 03.1', and has no tag"),
    "a name in capitals": (
        lambda named: (tags("m1")(named), first("m1", "# MISTAKE 3.1")(named)),
        "m1",
        "no tag",
    ),
    "two parts": (tags("a1", "answer", "mistake"), "a1", "a cell is one part"),
    "no question": (lambda named: named.clear(), "", "it has no question"),
    "no answer": (without("a1"), "", "question 03.1 has no answer"),
    "no check": (without("v1"), "", "question 03.1 has no visible"),
    "no hidden check": (without("h1"), "", "question 03.1 has no hidden"),
    "no mistake": (without("m1"), "", "question 03.1 has no mistakes"),
    "no words": (without("a2"), "", "question 03.2 has no answer"),
    "no rubric": (without("r2"), "", "question 03.2 has no rubric"),
    "a rubric of fewer points": (
        source("r2", "- 2 points", "- 1 point"),
        "",
        "the rubric of question 03.2 does not add up to its 3",
    ),
    "a rubric of more points": (source("r2", "- 1 point", "- 3 points"), "", "does not add up to its 3"),
    "a rubric in prose": (source("r2", "- ", "* "), "", "does not add up to its 3"),
    "no points": (source("q1", "(2 points)", "(0 points)"), "", "question 03.1 has no points"),
    "a number left out": (
        lambda named: (
            [source("q2", "03.2", "03.3")(named), source("a2", "03.2", "03.3")(named)]
            + [source("r2", "03.2", "03.3")(named)]
        ),
        "",
        "numbered otherwise than 03.1, 03.2",
    ),
}


@pytest.mark.parametrize(("change", "cell", "words"), BROKEN.values(), ids=BROKEN.keys())
def test_a_rule_is_seen_failing(written, change, cell, words):
    """A rule that cannot fail protects nobody, and one that names no cell costs its author an evening."""
    path = written(change)
    with pytest.raises(ValueError) as broken:
        read_problem_set(path)
    assert words in str(broken.value)
    ids = [one.id for one in nbformat.read(path, as_version=4).cells]
    place = f"03_forgetting.ipynb, cell {ids.index(cell) + 1} ({cell}): " if cell else "03_forgetting.ipynb: "
    assert str(broken.value).startswith(place), "the message begins with file and cell"


def test_the_numbers_are_the_file_s(written):
    """A set copied for the next chapter keeps the old numbers: its grades would be filed under both."""
    with pytest.raises(ValueError, match=r"04_copied.ipynb: .*numbered otherwise than 04.1, 04.2"):
        read_problem_set(written(name="04_copied.ipynb"))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"cells": 1}', '"notebook"', "null"])
def test_what_is_no_notebook_is_said_in_words(tmp_path, text):
    path = tmp_path / "03_broken.ipynb"
    path.write_text(text)
    with pytest.raises(ValueError, match="^03_broken.ipynb: "):
        read_problem_set(path)


def test_a_cell_of_an_old_notebook_has_no_id_and_is_named_by_its_place(written):
    """Before format 4.5 cells have no ids."""
    path = written(first("v1", "# Check 03.7"))
    content = json.loads(path.read_text()) | {"nbformat_minor": 4}
    content["cells"] = [{key: cell[key] for key in cell if key != "id"} for cell in content["cells"]]
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"03_forgetting.ipynb, cell 5 \(no id\): the first line"):
        read_problem_set(path)


# --- What a student receives -------------------------------------------------------------------------------


def dedent(text):
    """A text from its second line on."""
    return text.removeprefix("\n").rstrip()


HANDED_OUT = {
    "a function": (
        ANSWER,
        """
# Question 03.1
def forget(x, rate):
    \"\"\"Let go of a part.\"\"\"
    # Write your code here.
    raise NotImplementedError("question 03.1")""",
    ),
    "a method": (
        """
# Question 03.1
class Gate:
    def __init__(self, rate):
        self.rate = rate

    def forward(self, x):
        # BEGIN SOLUTION
        if x is None:
            return None
        return x * self.rate
        # END SOLUTION

    width = 3""",
        """
# Question 03.1
class Gate:
    def __init__(self, rate):
        self.rate = rate

    def forward(self, x):
        # Write your code here.
        raise NotImplementedError("question 03.1")

    width = 3""",
    ),
    "two functions": (
        """
# Question 03.1
def first(x):
    # BEGIN SOLUTION
    return 1
    # END SOLUTION


def second(x):
    # BEGIN SOLUTION

    return 2
    # END SOLUTION""",
        """
# Question 03.1
def first(x):
    # Write your code here.
    raise NotImplementedError("question 03.1")


def second(x):
    # Write your code here.
    raise NotImplementedError("question 03.1")""",
    ),
    "names": (
        """
# Question 03.1
rates = [0.1, 0.5]
# BEGIN SOLUTION
lost = []
for rate in rates:
    one = 1 - rate
    lost.append(one)
most: float = max(lost)
least, where = min(lost), 1
a = b = 2
lost[0] = 3
# END SOLUTION
print(most)""",
        """
# Question 03.1
rates = [0.1, 0.5]
lost = ...  # write your answer here
most = ...  # write your answer here
least = ...  # write your answer here
where = ...  # write your answer here
a = ...  # write your answer here
b = ...  # write your answer here
print(most)""",
    ),
    "something to repair": (
        """
# Question 03.1
def forget(x, rate):
    # BEGIN SOLUTION
    #: kept = rate
    #: # Note: a comment
    #: return x * kept  #: here
    kept = 1 - rate
    return x * kept
    # END SOLUTION""",
        """
# Question 03.1
def forget(x, rate):
    kept = rate
    # Note: a comment
    return x * kept  #: here""",
    ),
    "a choice": (
        """
# Question 03.1
# BEGIN SOLUTION
#: first = ...  # "earlier" or "later"
first = "later"
# END SOLUTION""",
        """
# Question 03.1
first = ...  # "earlier" or "later\"""",
    ),
    "a function to repair beside one to write": (
        """
# Question 03.1
# BEGIN SOLUTION
#: def first(x):
#:     return -x
def first(x):
    return x
# END SOLUTION
def second(x):
    # BEGIN SOLUTION
    return 2
    # END SOLUTION""",
        """
# Question 03.1
def first(x):
    return -x
def second(x):
    # Write your code here.
    raise NotImplementedError("question 03.1")""",
    ),
    "words": (WORDS, "**Your answer to question 03.2**\n\n*Write your answer here.*"),
    "words around words": (
        "**Your answer to question 03.2**\n\nIn two sentences:\n"
        "<!-- BEGIN SOLUTION -->\n#: one\n\n    two\n<!-- END SOLUTION -->\n(Or three.)",
        "**Your answer to question 03.2**\n\nIn two sentences:\n*Write your answer here.*\n(Or three.)",
    ),
}


@pytest.mark.parametrize(("source", "expected"), HANDED_OUT.values(), ids=HANDED_OUT.keys())
def test_a_student_receives_what_stands_around_the_solution(source, expected):
    """One line too many and the answer is in everybody's hands; one too few and the cell does not run."""
    given = without_solution(dedent(source))
    assert given == dedent(expected)
    assert "SOLUTION" not in given
    if not given.startswith("**"):
        ast.parse(given)


def test_an_unanswered_function_says_which_question_it_is():
    """With `pass` for a body, the check would complain about None."""
    names = {}
    exec(without_solution(ANSWER), names)
    with pytest.raises(NotImplementedError, match="question 03.1"):
        names["forget"](1, 0.5)


@pytest.mark.parametrize(
    "source",
    [
        "# Question 03.1\nx = 1",
        "# Question 03.1\n# BEGIN SOLUTION\nx = 1",
        "# Question 03.1\nx = 1\n# END SOLUTION",
        "# Question 03.1\n# BEGIN SOLUTION\n# BEGIN SOLUTION\nx = 1\n# END SOLUTION",
        "# Question 03.1\n# BEGIN SOLUTION\nx = 1\n# END SOLUTION\ny = 2\n# END SOLUTION",
        "# Question 03.1\n# BEGIN SOLUTION\nx = 1\n# END SOLUTION\n# BEGIN SOLUTION\ny = 2",
        "# Question 03.1\n# BEGIN SOLUTION\n# END SOLUTION",
        "# Question 03.1\n# BEGIN SOLUTION\n\n   \n# END SOLUTION",
    ],
)
def test_marks_that_do_not_pair_are_refused(source):
    """A region that is never closed hands its solution out, or takes the rest of the cell away."""
    with pytest.raises(ValueError, match="SOLUTION"):
        without_solution(source)
