"""What the cache saves: a new word reads the keys and values before it, or all are computed again."""

import pytest
import torch

from attncourse.data.vocabulary import START
from attncourse.models import Transformer

WORDS, SOURCE, TARGET = 320, 30, 100


@torch.inference_mode()
def with_cache(model: Transformer, source: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """A hundred words, the best one at each step."""
    memory, state = model.encode(source, lengths)
    said = [torch.full((len(source),), START)]
    for _ in range(TARGET):
        step = model.step(said[-1], state, memory)
        state = step.state
        said.append(step.logits.argmax(-1))
    return torch.stack(said, dim=1)


@torch.inference_mode()
def without_cache(model: Transformer, source: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """The same words; the source is read once too, but all words so far go through the decoder again."""
    memory, nothing = model.encode(source, lengths)
    said = torch.full((len(source), 1), START)
    for _ in range(TARGET):
        logits, *_ = model._decode(said, nothing, memory, need_weights=False)
        said = torch.cat([said, logits[:, -1:].argmax(-1)], dim=1)
    return said


# One sentence alone is some forty small operations a layer, and those cost the same for one word as for many.
@pytest.mark.parametrize(("batch", "least"), [(1, 1.4), (8, 4), (32, 4)])
def test_a_hundred_words_with_and_without_the_cache(batch, least, ratio):
    torch.manual_seed(0)
    model = Transformer(WORDS, WORDS, dropout=0.0).eval()
    source, lengths = torch.randint(4, WORDS, (batch, SOURCE)), torch.full((batch,), SOURCE)
    inputs = model, source, lengths
    assert torch.equal(with_cache(*inputs), without_cache(*inputs))
    found = ratio(lambda: with_cache(*inputs), lambda: without_cache(*inputs), rounds=5)
    assert found >= least, f"the cache makes {TARGET} words {found:.2f} times as fast, not {least}"
