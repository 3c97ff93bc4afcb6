"""The drawing of chapter 01: every word, every state and one context, inside the frame."""

from attncourse.viewer.drawings.seq2seq import SOURCE, TARGET, encoder_decoder


def written(figure) -> list:
    return figure.axes[0].texts


def test_every_word_has_its_state_and_there_is_one_context():
    """A word without a state, or a second c, would teach another model."""
    said = [text.get_text() for text in written(encoder_decoder())]
    assert {*SOURCE, *TARGET, "START"} <= set(said)
    assert [text for text in said if text.startswith("$h")] == [f"$h_{j + 1}$" for j in range(len(SOURCE))]
    assert [text for text in said if text.startswith("$s")] == [f"$s_{i + 1}$" for i in range(len(TARGET))]
    assert said.count("$c$") == 1
