"""The drawing of chapter 06: a learned query beside self-attention; the weights follow from the scores."""


import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attncourse.viewer.drawings.pooling import (
    ASKING,
    POOLING_SCORES,
    SELF_SCORES,
    WORDS,
    attention_pooling,
    self_attention,
)

DRAWINGS = {"pooling": (attention_pooling, POOLING_SCORES), "self": (self_attention, SELF_SCORES)}


@pytest.fixture(params=DRAWINGS)
def drawn(request):
    """A figure, the scores it was drawn from, and every text with its box in pixels."""
    draw, scores = DRAWINGS[request.param]
    figure = draw()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    texts = [(text.get_text(), text.get_window_extent(canvas.renderer)) for text in figure.axes[0].texts]
    return figure, scores, texts


def test_the_weights_are_the_softmax_of_the_scores(drawn):
    """A sketch whose numbers do not follow from its scores teaches another mechanism."""
    _, scores, texts = drawn
    weights = [float(text) for text, _ in texts if text.startswith(".")]
    assert weights == pytest.approx(torch.tensor(scores).softmax(-1).tolist(), abs=0.0051)
    [word] = [box for text, box in texts if text == WORDS[0]]
    above = [text for text, box in texts if text.isdigit() and word.x0 < box.x0 + box.width / 2 < word.x1]
    assert above == [f"{scores[0]:.0f}"], "the score stands above its word"


def test_the_words_find_what_the_caption_says():
    assert WORDS[ASKING] == "it" and WORDS[SELF_SCORES.index(max(SELF_SCORES))] == "film"
    assert WORDS[POOLING_SCORES.index(max(POOLING_SCORES))] == "drags"


def test_as_many_vectors_come_out_as_went_in():
    names = [text.get_text() for text in self_attention().axes[0].texts]
    assert [name for name in names if name.startswith("$y")] == [f"$y_{i}$" for i in range(1, len(WORDS) + 1)]
    assert sum(text.get_text() == "$s$" for text in attention_pooling().axes[0].texts) == 1
