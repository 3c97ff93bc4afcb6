"""Chapter 11's tables: what each mechanism of the atlas costs as texts grow, and what linear attention pays.

Time is the processor's, on one thread, the median of many calls: other programs do not count. Memory is the
most that a call holds at one time beyond its inputs and parameters, from the allocator's own record of every
block it gave and took back, those inside a fused kernel included. It is the same in every run.
"""

import os
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from attncourse.attention import (
    ATLAS,
    SIZES,
    LinearScore,
    LinearState,
    ScaledDotScore,
    feature_map,
    mechanism,
)
from attncourse.experiments.chapter07 import Drawn, LookUp, draw_lists, lookup_loss
from attncourse.experiments.results import Experiment, Results
from attncourse.experiments.sequences import parameters
from attncourse.training import History, train

SEEDS = (0, 1, 2)

# --- Time and memory of a layer ----------------------------------------------------------------------------

LENGTHS = (64, 128, 256, 512, 1024, 2048, 4096)
MOST_BYTES = 10**9  # a length that would hold more is left out


def peak_bytes(call: Callable[[], object]) -> int:
    """The most bytes that a call holds at one time, beyond what was there before."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # or the profiler's log ends up in the notebook
    with torch.no_grad(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        call()
    events = [e for e in record.profiler.kineto_results.events() if e.name() == "[memory]"]
    held = most = 0
    for event in sorted(events, key=lambda event: event.start_ns()):
        held += event.nbytes()  # negative where memory was given back
        most = max(most, held)
    return most


def milliseconds(call: Callable[[], object], *, total: float = 0.1, least: int = 3) -> float:
    """Processor time of a call: the median of as many as fit into `total` seconds, of `least` at least."""
    with torch.no_grad():
        call()  # the first run of anything is slow
        spent, end = [], time.process_time() + total
        while len(spent) < least or time.process_time() < end:
            start = time.process_time()
            call()
            spent.append(time.process_time() - start)
    return 1_000 * statistics.median(spent)


def atlas_cost(system: str, seed: int) -> dict:
    """Milliseconds and megabytes of a layer by length, up to the length that would hold too much."""
    row, numbers = mechanism(system), {"milliseconds": {}, "megabytes": {}}
    for length in LENGTHS:
        torch.manual_seed(seed)
        call = row.on(*torch.randn(2, 1, length, SIZES.width))
        numbers["megabytes"][str(length)] = round(peak_bytes(call) / 1e6, 4)
        numbers["milliseconds"][str(length)] = round(milliseconds(call), 4)
        if 4e6 * numbers["megabytes"][str(length)] > MOST_BYTES:
            break
    return {"parameters": row.parameters(), **numbers}


def cost_by_length(table: Results, system: str, metric: str) -> dict[int, float]:
    """The median over the repetitions, for every length at which a system was measured."""
    found = [name for name in table.metrics(system) if name.startswith(f"{metric}/")]
    return {int(name.split("/")[1]): statistics.median(table.values(system, name)) for name in found}


# --- A step of a decoder -----------------------------------------------------------------------------------

KEPT = (64, 256, 1024, 4096, 16384)
STEPPING = ("multi-head", "grouped-query", "multi-query", "sliding window", "linear")


def step_over(system: str, length: int) -> tuple[tuple[Tensor, ...], Callable[[], object]]:
    """What is kept after `length` words, and a call that reads it for one new word.

    Args:
        system: one of `STEPPING`.
        length: how many words are known.
    """
    layer = mechanism(system).build(SIZES).eval()
    words, new = torch.randn(1, length, SIZES.width), torch.randn(1, 1, SIZES.width)
    with torch.no_grad():
        if system == "linear":
            keys, values, _ = layer.keys_values(words, words)
            state = LinearState.of(feature_map(keys), values)
            return tuple(state), lambda: layer.join(state.read(feature_map(layer.queries(new))))
        if system == "sliding window":
            words = words[:, -SIZES.reach - 1 :]  # what lies further back is never read again
        known = layer.keys_values(words, words)
    return tuple(known[:2]), lambda: layer(new, known=known, need_weights=False)


def atlas_step(system: str, seed: int) -> dict:
    """Milliseconds of one step, and kilobytes kept from step to step, by the number of words so far."""
    numbers = {"milliseconds": {}, "kilobytes": {}}
    for length in KEPT:
        torch.manual_seed(seed)
        kept, call = step_over(system, length)
        size = sum(tensor.numel() * tensor.element_size() for tensor in kept)
        numbers["kilobytes"][str(length)] = round(size / 1e3, 3)
        numbers["milliseconds"][str(length)] = round(milliseconds(call), 4)
    return numbers


# --- What linear attention pays ----------------------------------------------------------------------------

LOOKED_UP_BY = {"softmax": ScaledDotScore, "linear": LinearScore}
LOOKUP_STEPS = 600


def fit_linear_lookup(
    kind: str, width: int, *, steps: int = LOOKUP_STEPS, seed: int = 0, **options
) -> tuple[LookUp, History]:
    """Chapter 07's task, find one of 16 items, with one of `LOOKED_UP_BY`; `options` go to `train`."""
    torch.manual_seed(seed)
    model = LookUp(LOOKED_UP_BY[kind](), width)
    history = train(model, lookup_loss, Drawn(draw_lists, 32, seed), steps=steps, seed=seed, **options)
    return model, history


@torch.no_grad()
def found_again(model: LookUp, count: int = 2_000) -> dict[str, float]:
    """Share of right labels on new lists, and the mean of the largest weight."""
    new = draw_lists(count, torch.Generator().manual_seed(999))
    said, weights = model.cpu()(new)
    return {
        "accuracy": round((said.argmax(-1) == new.answer).float().mean().item(), 4),
        "largest weight": round(weights.max(-1).values.mean().item(), 4),
    }


def linear_lookup(system: str, seed: int) -> dict:
    """Right labels of a trained model."""
    kind, width = system.split(", d = ")
    model, _ = fit_linear_lookup(kind, int(width), seed=seed)
    return {"parameters": parameters(model), **found_again(model)}


EXPERIMENTS = [
    Experiment(
        "atlas_cost",
        f"One layer, forward, on n positions of width {SIZES.width}, {SIZES.heads} heads, D and r "
        f"{SIZES.reach}, one thread: milliseconds of the processor (median of the calls in 0.1 s, or of 3) "
        "and the most megabytes held at one time. The seeds are repetitions.",
        tuple(row.name for row in ATLAS),
        SEEDS,
        atlas_cost,
    ),
    Experiment(
        "atlas_step",
        f"One new word after n words, width {SIZES.width}, {SIZES.heads} heads, r {SIZES.reach}, one thread: "
        "milliseconds of the processor, and kilobytes kept from step to step. The seeds are repetitions.",
        STEPPING,
        SEEDS,
        atlas_step,
    ),
    Experiment(
        "linear_lookup",
        f"Find the asked one of 16 items and say its label, {LOOKUP_STEPS} steps of 32 lists; share of right "
        "labels on 2,000 new lists (guessing: 1 in 8), and the mean of the largest weight.",
        tuple(f"{kind}, d = {width}" for width in (8, 16, 32, 64) for kind in LOOKED_UP_BY),
        SEEDS,
        linear_lookup,
    ),
]
