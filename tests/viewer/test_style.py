"""The style: every mechanism stays apart in colour and in grey, and every token can be drawn."""

import itertools
import warnings

import matplotlib
import pytest

from attncourse.viewer.style import (
    MECHANISMS,
    OTHERS,
    WEIGHTS,
    drawable,
    figure_style,
    font_families,
    look_of,
    luminance,
    printable,
    text_colour,
)


@pytest.mark.parametrize("looks", [MECHANISMS.values(), OTHERS], ids=["mechanisms", "others"])
def test_looks_stay_apart_in_grey(looks):
    """Two lines that differ in colour only are one line on a grey printer."""
    for one, other in itertools.combinations(looks, 2):
        assert one.line != other.line and one.marker != other.marker, f"{one} and {other} meet in grey"


def test_every_line_is_seen_on_white():
    """A pale line, such as Okabe and Ito's yellow, is lost on paper."""
    for name, look in MECHANISMS.items():
        assert 1.05 / (luminance(look.colour) + 0.05) > 2, f"{name} is too pale for a line on white"


def test_names_beside_lines_can_be_read():
    for look in [*MECHANISMS.values(), *OTHERS]:
        assert 1.05 / (luminance(text_colour(look.colour)) + 0.05) >= 4.5


def test_weights_darken_steadily():
    """A colour map whose luminance turns back shows two weights as one grey."""
    greys = [luminance(WEIGHTS(i / 20)[:3]) for i in range(21)]
    assert greys[0] == 1.0
    assert all(pale > dark for pale, dark in itertools.pairwise(greys))


def test_a_mechanism_keeps_its_look_whatever_the_order():
    for order in (0, 5):
        assert look_of("additive attention", order) == MECHANISMS["additive attention"]
    assert look_of("soft attention", 3) == MECHANISMS["additive attention"], "two names of one mechanism"
    assert look_of("width 64", 1) == OTHERS[1]
    assert look_of("width 64", len(OTHERS) + 1) == OTHERS[1]


def test_style_leaves_no_trace():
    before = dict(matplotlib.rcParams)
    with figure_style():
        assert matplotlib.rcParams["figure.facecolor"] == "white"
    assert dict(matplotlib.rcParams) == before


def test_one_label_for_each_token():
    labels = printable(["a", " ", "", "\n", "<b>", "$x$"], ["b"])
    assert labels == [["a", "␣", "∅", "\\n", "<b>", "$x$"], ["b"]]


def test_without_a_chinese_font_one_hint_instead_of_empty_boxes(monkeypatch):
    """Without a fallback matplotlib warns once a glyph and draws boxes."""
    monkeypatch.setattr("attncourse.viewer.style.CJK_FONTS", ("A font that nobody has",))
    font_families.cache_clear()
    drawable.cache_clear()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            labels = printable(["我", "喜欢", "cats"], ["猫"])
        assert labels == [["[1]", "[2]", "cats"], ["[1]"]]
        assert len(caught) == 1
        hint = str(caught[0].message)
        assert "3 of the tokens" in hint and "A font that nobody has" in hint
    finally:
        monkeypatch.undo()
        font_families.cache_clear()
        drawable.cache_clear()
