"""One decoding step of local attention beside one of global attention, over longer and longer sources."""

import pytest
import torch

from attncourse.attention import GeneralScore, LocalAttention, attend, padding_mask

HIDDEN, HALF_WIDTH, SHORT = 96, 10, 256


def steps(kind: str, batch: int, length: int):
    """Twenty decoding steps over a source of this length; the keys are projected beforehand."""
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(batch, 1, HIDDEN, generator=generator)
    memory = torch.randn(batch, length, HIDDEN, generator=generator)
    lengths = torch.full((batch,), length)
    score = GeneralScore(HIDDEN, HIDDEN)
    local = LocalAttention(
        score, half_width=HALF_WIDTH, centre="predicted", gaussian="inside", query_width=HIDDEN
    )
    projected, mask = score.project_keys(memory).detach(), padding_mask(lengths, length)

    @torch.no_grad()
    def run():
        for _ in range(20):
            if kind == "local":
                local.look(query, memory, memory, lengths=lengths, projected_keys=projected)
            else:
                attend(query, memory, memory, score=score, projected_keys=projected, mask=mask)

    return run


@pytest.mark.parametrize("batch", [1, 8])
@pytest.mark.parametrize("length", [1024, 4096])
def test_a_local_step_does_not_grow_with_the_source(batch, length, ratio):
    grown = 1 / ratio(steps("local", batch, length), steps("local", batch, SHORT))
    assert grown <= 1.3, f"a local step over {length} words takes {grown:.2f} times that over {SHORT}"


@pytest.mark.parametrize("batch", [1, 8])
def test_a_global_step_grows_with_the_source(batch, ratio):
    grown = 1 / ratio(steps("global", batch, 4096), steps("global", batch, SHORT))
    assert grown >= 2, f"a global step over 4096 words takes only {grown:.2f} times that over {SHORT}"


# For one sentence at a time global attention stays ahead for longer: its few large products run at full
# speed, and to gather a window costs some ten small operations, whatever the length.
def test_at_4096_words_local_is_faster_than_global(ratio):
    found = ratio(steps("local", 8, 4096), steps("global", 8, 4096))
    assert found >= 2, f"at 4096 words a local step is only {found:.2f} times as fast as a global one"
