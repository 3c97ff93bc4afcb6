"""What Luong's order of steps saves: no state waits for a context, so a known target is one call."""

import pytest
import torch
from torch.nn import functional as F

from attncourse.models import LuongTranslator

BATCH, WORDS, SOURCE, TARGET = 32, 50, 250, 320


class WordByWord(LuongTranslator):
    """The same model, told to go step by step, as it must with input feeding."""

    def forward(self, source, lengths, target):
        memory, state = self.encode(source, lengths)
        logits, weights = [], []
        for token in target.unbind(1):
            step = self.step(token, state, memory)
            state = step.state
            logits.append(step.logits)
            weights.append(step.weights)
        return torch.stack(logits, dim=1), torch.stack(weights, dim=1)


# Concat bends a hidden layer for every pair of words, and that work is the same either way.
@pytest.mark.parametrize(("score", "least"), [("dot", 1.5), ("general", 1.5), ("concat", 1.2)])
def test_one_call_against_a_step_per_word(score, least, ratio):
    """Without input feeding, forward and backward, on sentences of 50 words."""
    torch.manual_seed(0)
    ours = LuongTranslator(SOURCE, TARGET, score=score)
    peer = WordByWord(SOURCE, TARGET, score=score)
    peer.load_state_dict(ours.state_dict())
    source, target = torch.randint(4, SOURCE, (BATCH, WORDS)), torch.randint(4, TARGET, (BATCH, WORDS))
    batch = source, torch.full((BATCH,), WORDS), target
    for one, other in zip(ours(*batch), peer(*batch), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)

    def run(model):
        model.zero_grad()
        logits, _ = model(*batch)
        F.cross_entropy(logits.flatten(0, 1), target.flatten()).backward()

    found = ratio(lambda: run(ours), lambda: run(peer))
    assert found >= least, f"one call is {found:.2f} times as fast as a step per word, not {least}"
