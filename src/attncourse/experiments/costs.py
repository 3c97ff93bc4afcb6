"""What each mechanism of the atlas costs as texts grow: the instruments.

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

from attncourse.attention import SIZES, LinearState, feature_map, mechanism
from attncourse.experiments.results import Results

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
