"""Multi-head attention beside the framework's module, and what it costs to look at the weights."""

import pytest
import torch
from torch import nn

from attncourse.attention import MultiHeadAttention

BATCH, WIDTH, HEADS = 4, 256, 8


@pytest.fixture
def ours():
    torch.manual_seed(0)
    return MultiHeadAttention(WIDTH, HEADS)


@pytest.fixture
def x(request):
    return torch.randn(BATCH, request.param, WIDTH, generator=torch.Generator().manual_seed(0))


def step(attention: nn.Module, x: torch.Tensor, **options):
    """Self-attention forward and backward; the input is another layer's output and needs a gradient too."""

    def run():
        attention.zero_grad()
        given = x.detach().requires_grad_()
        attention(given, given, given, **options)[0].sum().backward()

    return run


@pytest.mark.parametrize("x", [512, 1024], indirect=True, ids=lambda length: f"length {length}")
def test_the_fused_path_against_the_framework_s_module(ours, x, ratio):
    theirs = ours.to_torch()
    context = ours(x, x, x, need_weights=False).context
    torch.testing.assert_close(context, theirs(x, x, x, need_weights=False)[0], rtol=0, atol=1e-5)
    found = 1 / ratio(step(ours, x, need_weights=False), step(theirs, x, need_weights=False))
    assert found <= 1.10, f"our module takes {found:.2f} times as long as the framework's"


@pytest.mark.parametrize("x", [1024], indirect=True, ids=lambda length: f"length {length}")
def test_the_fused_path_against_the_explicit_one(ours, x, ratio):
    """The explicit path writes every weight down, forwards and backwards; the kernel never holds them all."""
    found = 1 / ratio(step(ours, x, need_weights=False), step(ours, x))
    assert found <= 0.5, f"without weights it still takes {found:.2f} of the time"


@pytest.mark.parametrize("x", [512, 1024, 2048], indirect=True, ids=lambda length: f"length {length}")
def test_with_weights_against_the_framework_s_module(ours, x, ratio):
    """Every head's weights from both; the framework's own default, their mean, costs it one pass more."""
    theirs = ours.to_torch()
    wanted = theirs(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(tuple(ours(x, x, x)), wanted, rtol=0, atol=1e-5)
    found = 1 / ratio(step(ours, x), step(theirs, x, average_attn_weights=False), rounds=7)
    assert found <= 1.0, f"with weights our module takes {found:.2f} times as long as the framework's"
