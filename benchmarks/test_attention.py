"""`attend` with the scaled dot score beside the framework's fused kernel: what legibility costs."""

import pytest
import torch
from torch.nn import functional as F

from attncourse.attention import ScaledDotScore, attend


@pytest.mark.parametrize("length", [64, 128, 512, 2048])
def test_attend_against_the_fused_kernel(length, ratio):
    """The same numbers. `attend` holds all weights, so that they can be looked at; the kernel does not."""
    # Four axes, (batch, heads, length, width): with three the framework would not use its fused kernel.
    query, key, value = torch.randn(3, 1, 4, length, 64, generator=torch.Generator().manual_seed(0)).unbind(0)
    score = ScaledDotScore()
    times = max(1, 2**16 // length**2)  # enough work for the clock

    def ours():
        for _ in range(times):
            attend(query, key, value, score=score)

    def fused():
        for _ in range(times):
            F.scaled_dot_product_attention(query, key, value)

    torch.testing.assert_close(attend(query, key, value, score=score).context,
                               F.scaled_dot_product_attention(query, key, value))
    ratio(ours, fused)
