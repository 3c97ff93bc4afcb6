"""Tables of what a layer and a step of a decoder cost; nothing is trained."""

import torch

from attncourse.attention import ATLAS, SIZES, mechanism
from attncourse.experiments.costs import (
    KEPT,
    LENGTHS,
    MOST_BYTES,
    STEPPING,
    milliseconds,
    peak_bytes,
    step_over,
)
from attncourse.experiments.declarations import Experiment, Row


def layer_cost(row: Row, seed: int) -> dict:
    """Milliseconds and megabytes of a layer by length, up to the length that would hold too much."""
    layer, numbers = mechanism(row.name), {"milliseconds": {}, "megabytes": {}}
    for length in LENGTHS:
        torch.manual_seed(seed)
        call = layer.on(*torch.randn(2, 1, length, SIZES.width))
        numbers["megabytes"][str(length)] = round(peak_bytes(call) / 1e6, 4)
        numbers["milliseconds"][str(length)] = round(milliseconds(call), 4)
        if 4e6 * numbers["megabytes"][str(length)] > MOST_BYTES:
            break
    return {"parameters": layer.parameters(), **numbers}


def step_cost(row: Row, seed: int) -> dict:
    """Milliseconds of one step, and kilobytes kept from step to step, by the number of words so far."""
    numbers = {"milliseconds": {}, "kilobytes": {}}
    for length in KEPT:
        torch.manual_seed(seed)
        kept, call = step_over(row.name, length)
        size = sum(tensor.numel() * tensor.element_size() for tensor in kept)
        numbers["kilobytes"][str(length)] = round(size / 1e3, 3)
        numbers["milliseconds"][str(length)] = round(milliseconds(call), 4)
    return numbers


ATLAS_COST = Experiment(
    "atlas_cost",
    f"One layer, forward, on n positions of width {SIZES.width}, {SIZES.heads} heads, D and r {SIZES.reach}, "
    "one thread: milliseconds of the processor (median of the calls in 0.1 s, or of 3) and the most "
    "megabytes held at one time. The seeds are repetitions.",
    [Row(row.name, run=layer_cost) for row in ATLAS],
)
ATLAS_STEP = Experiment(
    "atlas_step",
    f"One new word after n words, width {SIZES.width}, {SIZES.heads} heads, r {SIZES.reach}, one thread: "
    "milliseconds of the processor, and kilobytes kept from step to step. The seeds are repetitions.",
    [Row(name, run=step_cost) for name in STEPPING],
)

EXPERIMENTS = [ATLAS_COST, ATLAS_STEP]
