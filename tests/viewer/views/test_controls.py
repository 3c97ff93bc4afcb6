"""What the scripts of the views share, run in node: which weights are said, names, and arrow keys."""

import pytest

CONTROLS = ("controls.js",)


def test_the_largest_weights_are_said_from_the_largest_down(in_node):
    """Sorted as text, 0.1 would come before 0.09, and a place would be lost with its weight."""
    found = in_node("largestOf(weights, 0.05, 3)", scripts=CONTROLS, weights=[0.09, 0.1, 0.04, 0.5, 0.27])
    assert found == [[0.5, 3], [0.27, 4], [0.1, 1]]
    assert in_node("largestOf([0.01, 0], 0.05, 3)", scripts=CONTROLS) == []


def test_a_word_that_occurs_twice_is_named_with_its_place(in_node):
    found = in_node("words.map((_, i) => named(words, i))", scripts=CONTROLS, words=["a", "b c", "a", ""])
    assert found == ["“a” (1)", "“b␣c”", "“a” (3)", "“∅”"]


@pytest.mark.parametrize(("key", "place", "to"), [
    ("ArrowRight", [0, 0], [0, 1]), ("ArrowRight", [0, 3], [0, 3]), ("ArrowLeft", [1, 0], [1, 0]),
    ("ArrowDown", [0, 2], [1, 2]), ("ArrowDown", [1, 2], [1, 2]), ("ArrowUp", [0, 2], [0, 2]),
    ("Home", [1, 2], [1, 0]), ("End", [1, 2], [1, 3]), ("x", [1, 2], None),
])
def test_arrow_keys_stay_in_the_grid(in_node, key, place, to):
    """A step over the rim would lead to no button, and the focus be lost."""
    found = in_node("stepInGrid(key, place, [2, 4]) ?? null", scripts=CONTROLS, key=key, place=place)
    assert found == to
