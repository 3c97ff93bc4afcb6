"""The drawing of chapter 01: every word, every state and one context, inside the frame."""

from attncourse.viewer.drawings.seq2seq import SOURCE, TARGET, encoder_decoder
from attncourse.viewer.plots.figure import figure_html


def written(figure) -> list:
    return figure.axes[0].texts


def test_every_word_has_its_state_and_there_is_one_context():
    """A word without a state, or a second c, would teach another model."""
    said = [text.get_text() for text in written(encoder_decoder())]
    assert {*SOURCE, *TARGET, "START"} <= set(said)
    assert [text for text in said if text.startswith("$h")] == [f"$h_{j + 1}$" for j in range(len(SOURCE))]
    assert [text for text in said if text.startswith("$s")] == [f"$s_{i + 1}$" for i in range(len(TARGET))]
    assert said.count("$c$") == 1


def test_nothing_is_cut_off():
    """A word at the rim that lost its first letters."""
    figure = encoder_decoder()
    figure.draw_without_rendering()
    frame = figure.bbox
    for text in written(figure):
        box = text.get_window_extent()
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1, f"{text.get_text()!r} is cut off sideways"
        assert frame.y0 <= box.y0 and box.y1 <= frame.y1, f"{text.get_text()!r} is cut off"


def test_drawn_twice_the_bytes_are_equal():
    """A date or a version in the file would change the stored notebook."""
    assert figure_html(encoder_decoder(), "alt") == figure_html(encoder_decoder(), "alt")
