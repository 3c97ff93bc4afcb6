"""What the cache saves: a new word reads the keys and values before it, or all are computed again."""

import time

import pytest
import torch
from torch import nn

from attncourse.attention import KeysValues
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


def peer(model: Transformer):
    """The same weights in the framework's decoder, as tutorials decode with it: no cache at all.

    The encoder's vectors are kept; what the decoder makes of them is projected anew at every step.
    """
    layers = nn.ModuleList()
    for ours in model.decoder:
        width, inner = ours.feed_forward[0].in_features, ours.feed_forward[0].out_features
        layer = nn.TransformerDecoderLayer(width, ours.inside.heads, inner, dropout=0.0, batch_first=True)
        layer.self_attn, layer.multihead_attn = ours.inside.to_torch(), ours.between.to_torch()
        layer.linear1, layer.linear2 = ours.feed_forward[0], ours.feed_forward[3]
        around = (ours.around_inside, ours.around_between, ours.around_feed_forward)
        layer.norm1, layer.norm2, layer.norm3 = (part.norm for part in around)
        layers.append(layer)
    layers.eval()

    @torch.inference_mode()
    def decode(source: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        states, _ = model.encoder(model._placed(model.source_embedding(source)))
        said = torch.full((len(source), 1), START)
        for length in range(1, TARGET + 1):
            x = model._placed(model.target_embedding(said))
            order = nn.Transformer.generate_square_subsequent_mask(length)
            for layer in layers:
                x = layer(x, states, tgt_mask=order, tgt_is_causal=True)
            logits = x[:, -1] @ model.target_embedding.weight.T
            said = torch.cat([said, logits.argmax(-1, keepdim=True)], dim=1)
        return said

    return decode


def inputs(batch: int):
    return torch.randint(4, WORDS, (batch, SOURCE)), torch.full((batch,), SOURCE)


# One sentence alone is some forty small operations a layer, and those cost the same for one word as for many.
@pytest.mark.parametrize(("batch", "least"), [(1, 1.4), (8, 4), (32, 4)])
def test_a_hundred_words_with_and_without_the_cache(batch, least, ratio):
    torch.manual_seed(0)
    model = Transformer(WORDS, WORDS, dropout=0.0).eval()
    given = model, *inputs(batch)
    assert torch.equal(with_cache(*given), without_cache(*given))
    found = ratio(lambda: with_cache(*given), lambda: without_cache(*given), rounds=5)
    assert found >= least, f"the cache makes {TARGET} words {found:.2f} times as fast, not {least}"


@pytest.mark.parametrize(("batch", "least"), [(1, 3), (16, 4)])
def test_a_hundred_words_against_the_framework_s_decoder_without_a_cache(batch, least, ratio):
    """Three layers of width 256 on either side, and the same words from both."""
    torch.manual_seed(0)
    model = Transformer(WORDS, WORDS, width=256, heads=8, layers=3, dropout=0.0).eval()
    theirs, given = peer(model), inputs(batch)
    assert torch.equal(with_cache(model, *given), theirs(*given))
    found = ratio(lambda: with_cache(model, *given), lambda: theirs(*given), rounds=5)
    assert found >= least, f"{TARGET} words are {found:.2f} times as fast as theirs, not {least}"


@torch.inference_mode()
def test_a_step_copies_hardly_any_of_its_cache(monkeypatch):
    """400 words are known: what a step spends on putting one more behind them."""
    torch.manual_seed(0)
    model = Transformer(WORDS, WORDS, width=256, heads=8, layers=6, dropout=0.0).eval()
    memory, state = model.encode(*inputs(16))
    token, spent, put_behind = torch.full((16,), START), [], KeysValues.followed_by
    for _ in range(400):
        state = model.step(token, state, memory).state

    def timed(cache, new):
        start = time.process_time()
        longer = put_behind(cache, new)
        spent.append(time.process_time() - start)
        return longer

    monkeypatch.setattr(KeysValues, "followed_by", timed)
    start = time.process_time()
    for _ in range(40):
        state = model.step(token, state, memory).state
    share = sum(spent) / (time.process_time() - start)
    assert len(spent) == 40 * 6 and share <= 0.1, f"{share:.0%} of a step goes into copying the cache"
