"""What every drawing keeps to: nothing collides, nothing leaves the picture, two runs give the same bytes."""

from functools import partial
from itertools import combinations

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attncourse.viewer.drawings.detr import bipartite_matching, detr
from attncourse.viewer.drawings.linear import matches_first, sums_first
from attncourse.viewer.drawings.local import global_and_local
from attncourse.viewer.drawings.luong import bahdanau_step, luong_step
from attncourse.viewer.drawings.multi_head import one_head, several_heads
from attncourse.viewer.drawings.pooling import attention_pooling, self_attention
from attncourse.viewer.drawings.rnnsearch import rnnsearch_step
from attncourse.viewer.drawings.seq2seq import encoder_decoder
from attncourse.viewer.drawings.show_attend_tell import show_attend_tell_step, soft_beside_hard
from attncourse.viewer.drawings.three_steps import three_steps
from attncourse.viewer.drawings.transformer import decoder, encoder
from attncourse.viewer.drawings.vision_transformer import vision_transformer
from attncourse.viewer.plots.figure import figure_html

THREE = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
# A new drawing joins by its name.
DRAWINGS = {
    **{draw.__name__: draw for draw in (
        bipartite_matching, detr, matches_first, sums_first, global_and_local, bahdanau_step, luong_step,
        one_head, several_heads, attention_pooling, self_attention, rnnsearch_step, encoder_decoder,
        show_attend_tell_step, soft_beside_hard, encoder, decoder, vision_transformer,
    )},
    "three_steps": partial(three_steps, ["dog", "ran", "home"], THREE[0], THREE, THREE),
}


@pytest.mark.parametrize("draw", DRAWINGS.values(), ids=DRAWINGS)
def test_nothing_collides_and_nothing_leaves_the_picture(draw):
    """A label moved a little runs over its neighbour, or loses its last letters at the rim."""
    figure = draw()
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    frame, texts = figure.bbox, [text for text in figure.axes[0].texts if text.get_text()]
    words = [(text.get_text(), text.get_window_extent(canvas.renderer)) for text in texts]
    for text, box in words:
        assert frame.x0 <= box.x0 and box.x1 <= frame.x1, f"{text!r} is cut off at a side"
        assert frame.y0 <= box.y0 and box.y1 <= frame.y1, f"{text!r} is cut off above or below"
    for (first, a), (second, b) in combinations(words, 2):
        assert not a.overlaps(b), f"{first!r} and {second!r} overlap"


@pytest.mark.parametrize("draw", DRAWINGS.values(), ids=DRAWINGS)
def test_drawn_twice_the_bytes_are_equal(draw):
    """A date or a version in the file would change the stored notebook."""
    first = figure_html(draw(), "alt")
    assert first == figure_html(draw(), "alt") and len(first) < 250_000
