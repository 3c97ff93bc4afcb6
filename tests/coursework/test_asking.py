"""Hidden inputs come from a secret and nothing else; a rehearsal finds what could not be graded."""

import numpy as np
import pytest
import torch

from attncourse.coursework import compare_here, rehearse
from attncourse.coursework.asking import Ask, Draw, cases_of, questions_from, seed_for
from attncourse.coursework.driver import Student
from attncourse.coursework.wire import decode

# --- Drawing -----------------------------------------------------------------------------------------------

DRAWS = {
    "normal": lambda draw: draw.normal(3, 4),
    "uniform": lambda draw: draw.uniform(3, 4),
    "integers": lambda draw: draw.integers(0, 10**6, 3, 4),
    "an integer": lambda draw: torch.tensor([draw.integers(0, 10**6)]),
    "mask": lambda draw: draw.mask(6, 8),
}


@pytest.mark.parametrize("drawn", DRAWS.values(), ids=DRAWS.keys())
def test_one_seed_gives_one_input_and_another_another(drawn):
    """Drawn from torch's generator, the inputs would depend on what ran before."""
    first, other = drawn(Draw(7)), drawn(Draw(8))
    torch.manual_seed(1), np.random.seed(1)
    assert torch.equal(first, drawn(Draw(7))), "the same seed drew another input: graded again, another grade"
    assert not torch.equal(first, other), "the secret changes nothing"
    draw = Draw(7)
    assert not torch.equal(drawn(draw), drawn(draw)), "all cases have the same input"


@pytest.mark.parametrize("shape", [(), (3,), (2, 0, 4), (2, 3, 4)], ids=str)
def test_a_draw_has_the_shape_that_was_asked_for(shape):
    for drawn in (Draw(0).normal(*shape), Draw(0).uniform(*shape)):
        assert drawn.shape == shape and drawn.dtype == torch.float32
    if shape:
        assert Draw(0).integers(0, 3, *shape).shape == shape == Draw(0).mask(*shape).shape


def test_draws_are_what_their_names_say():
    normal, uniform = Draw(0).normal(10_000), Draw(0).uniform(10_000)
    assert abs(normal.mean()) < 0.05 and abs(normal.std() - 1) < 0.05
    assert uniform.min() >= 0 and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.02
    whole = Draw(0).integers(2, 5, 1000)
    assert whole.dtype == torch.int64 and set(whole.tolist()) == {2, 3, 4}
    one = Draw(0).integers(2, 5)
    assert type(one) is int and 2 <= one < 5, "a length of shape () is no number of Python's"


@pytest.mark.parametrize("visible", [0.0, 0.3, 0.7, 1.0])
def test_every_row_of_a_mask_shows_its_first_key(visible):
    """A row that shows no key has no right answer: its softmax is NaN, or whatever one makes of it."""
    mask = Draw(0).mask(50, 20, 8, visible=visible)
    assert mask.dtype == torch.bool and mask[..., 0].all()
    assert abs(mask[..., 1:].float().mean() - visible) < 0.03
    assert Draw(3).mask(1).tolist() == [True]


def test_seeds_differ_by_question_and_by_secret():
    """The inputs of one question would tell those of the next, and this year's those of the last."""
    seeds = [seed_for(secret, q) for secret in ("autumn", "spring") for q in ("02.1", "02.2", "12.1", "")]
    assert len(set(seeds)) == len(seeds)
    assert seed_for("a", "b\nc") != seed_for("ab", "c")
    assert seed_for("autumn", "02.1") == seeds[0] and 0 <= seeds[0] < 2**64
    Draw(seeds[0]).normal(1)


# --- Asking ------------------------------------------------------------------------------------------------


def forget(x, rate, mask=None):
    return x * (1 - rate)


def forget_cases(draw, ask):
    ask("two batches", "forget", draw.normal(2, 3), rate=0.5)
    ask.gradient("its gradient", "forget", draw.normal(3), 0.25, mask=draw.mask(3))
    ask.value("what you read off", "largest")


def test_what_is_asked_arrives_as_it_was_drawn():
    """A keyword that gets lost asks for the default, which most wrong answers get right."""
    first, second, third = questions_from(forget_cases, 5)
    draw = Draw(5)
    assert [case.label for case in (first, second, third)] == [
        "two batches",
        "its gradient",
        "what you read off",
    ]
    [x], rest = decode(first.request["arguments"]), decode(first.request["keywords"])
    assert (first.what, first.request["name"], first.request["gradient"]) == ("call", "forget", False)
    assert np.array_equal(x, draw.normal(2, 3)) and rest == {"rate": 0.5}
    (x, rate), rest = decode(second.request["arguments"]), decode(second.request["keywords"])
    assert second.request["gradient"] and rate == 0.25 and np.array_equal(x, draw.normal(3))
    assert np.array_equal(rest["mask"], draw.mask(3)) and rest["mask"].dtype == bool
    assert (third.what, third.request) == ("value", {"name": "largest"})


def test_what_is_asked_is_a_request_that_the_driver_understands():
    student = Student(None, {"forget": forget, "largest": 3})
    replies = [getattr(student, case.what)(**case.request) for case in questions_from(forget_cases, 5)]
    values = [decode(reply["value"]) for reply in replies]
    assert np.allclose(values[0], Draw(5).normal(2, 3) / 2)
    assert np.allclose(values[1][1], [0.75, 0.75, 0.75]), "the gradient of the sum for the first argument"
    assert values[2] == 3


def test_an_input_that_changes_afterwards_is_asked_as_it_was():
    """A hidden check that goes on with its own tensor must not change the case before."""
    ask, x = Ask(), torch.zeros(2)
    ask("before", "forget", x)
    x += 1
    ask("after", "forget", x)
    asked = [decode(case.request["arguments"])[0].tolist() for case in ask.asked]
    assert asked == [[0.0, 0.0], [1.0, 1.0]]


HIDDEN = """\
# Hidden check 03.1
from attncourse.coursework import rehearse
size = width + 1
def cases(draw, ask):
    ask("one", "forget", draw.normal(size), 0.5)
{}
"""


@pytest.mark.parametrize(
    "rehearsal", ["rehearse(cases, globals())", "done = rehearse(cases, {})", "rehearse(cases, missing)"]
)
def test_the_rehearsal_is_left_out_when_cases_are_read(rehearsal):
    """The judge has no solution among its names: rehearsed there, each grading would begin with an error."""
    names = {"width": 4}
    cases = cases_of(HIDDEN.format(rehearsal), names)
    [case] = questions_from(cases, 0)
    assert decode(case.request["arguments"])[0].shape == (5,)
    assert names == {"width": 4}, "the names of one question reach the next"


@pytest.mark.parametrize("statement", ["raise KeyError(width)", "print(missing)", "undone(rehearse)"])
def test_only_the_rehearsal_is_left_out(statement):
    with pytest.raises((KeyError, NameError)):
        cases_of(HIDDEN.format(statement), {"width": 4})


# --- Rehearsing --------------------------------------------------------------------------------------------


def test_a_rehearsal_prints_the_shapes_of_what_is_answered(capsys):
    def cases(draw, ask):
        forget_cases(draw, ask)
        ask("in two parts", "both", draw.normal(2, 1))
        ask("by name", "named")

    names = {
        "forget": forget,
        "largest": 3,
        "both": lambda x: (x, [x.sum(), None]),
        "named": lambda: {"a": 1.5},
    }
    rehearse(cases, names)
    assert capsys.readouterr().out.splitlines() == [
        "two batches: (2, 3)",
        "its gradient: (3,), (3,)",
        "what you read off: int",
        "in two parts: (2, 1), (), NoneType",
        "by name: dict",
    ]


def twice(draw, ask):
    ask("the same", "forget", draw.normal(2), 0.1)
    ask("another", "forget", draw.normal(2), 0.1)
    ask.value("the same", "largest")


@pytest.mark.parametrize("cases", [lambda draw, ask: None, twice], ids=["no case", "two of one label"])
def test_no_case_and_two_of_one_label_are_refused(cases):
    """No case, and everyone is right. Two of one label, and nobody knows which of them was wrong."""
    with pytest.raises(ValueError, match="at least once, each time under a name of its own"):
        rehearse(cases, {"forget": forget, "largest": 3})


UNGRADABLE = {
    "a NaN": torch.tensor([1.0, torch.nan]),
    "an infinity": torch.tensor(-torch.inf),
    "a half NaN": torch.tensor([torch.nan]).half(),
    "a NaN of NumPy's": np.array([np.nan]),
    "a NaN of Python's": float("nan"),
    "an infinity of Python's": float("inf"),
    "a NaN of several": (torch.ones(2), [None, torch.tensor([torch.nan])]),
    "a NaN by name": {"loss": 1.0, "rest": [float("nan")]},
}


@pytest.mark.parametrize("answer", UNGRADABLE.values(), ids=UNGRADABLE.keys())
@pytest.mark.parametrize("way", ["value", "call"])
def test_a_solution_with_nan_is_refused(answer, way):
    """NaN equals nothing: not even the solution would earn this question's points."""

    def cases(draw, ask):
        ask.value("read off", "answer") if way == "value" else ask("read off", "function")

    with pytest.raises(ValueError, match="NaN or an infinity"):
        rehearse(cases, {"answer": answer, "function": lambda: answer})


def test_finite_answers_of_every_kind_are_rehearsed():
    answers = [
        0,
        1.5,
        True,
        None,
        "key",
        torch.tensor([True]),
        torch.arange(3),
        np.float32(2),
        np.zeros((0, 2)),
    ]

    def cases(draw, ask):
        ask.value("all", "answers")

    rehearse(cases, {"answers": answers})


RAISING = {
    "Missing": {},
    "NotImplementedError": {"forget": ...},
    "ZeroDivisionError": {"forget": lambda x, rate: 1 / 0},
    "NotSendable": {"forget": lambda x, rate: object()},
    "TypeError": {"forget": lambda x: x},
}


@pytest.mark.parametrize(("error", "names"), RAISING.items(), ids=RAISING.keys())
def test_a_solution_that_does_not_answer_is_refused_by_name(error, names):
    """A student would be compared with an error."""

    def cases(draw, ask):
        ask("one batch", "forget", draw.normal(2), 0.5)

    with pytest.raises(ValueError, match=f"one batch: the solution raises {error}"):
        rehearse(cases, names)


# --- Comparing in the kernel -------------------------------------------------------------------------------

SOLUTION = [
    "import torch",
    "width = 4",
    "# Question 03.1\ndef forget(x, rate):\n    return x * (1 - rate)",
]
CHECK = HIDDEN.format('    ask.value("read off", "width")\nrehearse(cases, globals())')


def test_the_solution_passes_in_another_s_kernel():
    """The comparison has names of its own: it must neither need nor change the student's."""
    names = {"forget": lambda x, rate: x - rate * x, "width": 4.0}
    before = dict(names)
    compare_here(names, CHECK, SOLUTION)
    assert names == before, "the student's names were changed: the solution may be among them"


WRONG = {
    "wrong numbers": (
        {"forget": lambda x, rate: x * rate + 1},
        "the answer of forget has other numbers in it",
    ),
    "another shape": ({"forget": lambda x, rate: x[:1]}, "the answer of forget has another shape"),
    "NaN": ({"forget": lambda x, rate: x * float("nan")}, "the answer of forget has NaN in it"),
    "an error": ({"forget": lambda x, rate: x.nothing}, "forget raises AttributeError"),
    "an error with the input": (
        {"forget": lambda x, rate: 1 / len(x.tolist()[:0])},
        "forget raises ZeroDivisionError",
    ),
    "its input in words": ({"forget": lambda x, rate: {}[str(x.tolist())]}, "forget raises KeyError"),
    "nothing": ({}, "forget raises Missing"),
    "not answered": ({"forget": ...}, "forget raises NotImplementedError"),
    "an object": ({"forget": lambda x, rate: object()}, "forget raises NotSendable"),
    "an exit": ({"forget": lambda x, rate: exit()}, "forget raises SystemExit"),
}


@pytest.mark.parametrize(("names", "words"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_answer_fails_without_its_inputs(names, words):
    """What nbgrader prints, the student reads: whoever knows an input writes an answer for it alone."""
    with pytest.raises(AssertionError) as failed:
        compare_here(names | {"width": 4}, CHECK, SOLUTION)
    assert str(failed.value) == f"one: {words}"


def test_a_wrong_value_fails_as_well():
    with pytest.raises(AssertionError, match="read off: the answer of width is another number"):
        compare_here({"forget": forget, "width": 5}, CHECK, SOLUTION)


def test_every_comparison_has_new_inputs():
    """An answer that repeats what it was shown the last time must fail."""
    seen = []

    def spying(x, rate):
        seen.append(x.clone())
        return x * (1 - rate)

    for _ in range(2):
        compare_here({"forget": spying, "width": 4}, CHECK, SOLUTION)
    assert not torch.equal(*seen)


def test_a_common_cell_may_have_a_magic_in_it():
    """Notebooks install with %pip, which is no Python."""
    compare_here({"forget": forget, "width": 4}, CHECK, ["if False:\n    %pip install attncourse", *SOLUTION])


def test_an_answer_cannot_change_the_solution_s_input():
    """One tensor for both, and x.zero_() makes them equal."""
    with pytest.raises(AssertionError, match="has other numbers"):
        compare_here({"forget": lambda x, rate: x.zero_(), "width": 4}, CHECK, SOLUTION)
