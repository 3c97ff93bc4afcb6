"""What the small changes of chapter 11 save in time, and from which length on: layers beside each other."""

import pytest
import torch

from attncourse.attention import SIZES, mechanism


def layer(name: str, length: int):
    """One layer read forwards, again and again where once is too short for the clock."""
    torch.manual_seed(0)
    call = mechanism(name).on(*torch.randn(2, 1, length, SIZES.width))
    times = max(1, 512 // length)

    @torch.no_grad()
    def run():
        for _ in range(times):
            call()

    return run


@pytest.mark.parametrize(("length", "least"), [(256, 0.5), (1024, 2.0), (4096, 20.0)])
def test_linear_against_the_explicit_softmax(length, least, ratio):
    found = ratio(layer("linear", length), layer("multi-head", length), rounds=5)
    assert found >= least, f"at {length} linear attention is {found:.2f} times as fast"


@pytest.mark.parametrize(("length", "least"), [(1024, 1.0), (4096, 3.0)])
def test_linear_against_the_fused_kernel(length, least, ratio):
    found = ratio(layer("linear", length), layer("fused", length), rounds=5)
    assert found >= least, f"at {length} linear attention is {found:.2f} times as fast"


def test_for_a_sentence_the_fused_kernel_is_ahead(ratio):
    """Features, sums and the division are operations of their own, and each takes its time to start."""
    found = ratio(layer("fused", 64), layer("linear", 64), rounds=5)
    assert found >= 1.0, f"at 64 the kernel is {found:.2f} times as fast as linear attention"


def test_a_window_by_a_mask_saves_nothing(ratio):
    """Every score is computed, and then hidden."""
    found = ratio(layer("sliding window", 1024), layer("multi-head", 1024), rounds=5)
    assert found <= 1.1, f"a masked window is {found:.2f} times as fast as no window"


def test_in_blocks_against_the_whole_map(ratio):
    """One head, no projections: the blocks stay in the processor's cache, the map does not."""
    found = ratio(layer("in blocks", 4096), layer("self-attention", 4096), rounds=5)
    assert found >= 1.0, f"in blocks, 4,096 positions are {found:.2f} times as fast"
