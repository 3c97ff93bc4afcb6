"""How speed is measured here: against a peer, in turns, in the same run. Only the ratio means anything.

Peer and ours are timed A B A B, and the ratio is the median over the pairs, so that a machine that grows slow
half-way slows both. Time is that of the processor, on one thread: other people's programs do not count.
"""

import statistics
import time

import pytest
import torch

TABLE = []


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def ratio(benchmark, request):
    """ratio(ours, peer): how many times as long as ours the peer takes."""
    benchmark._timer = time.process_time

    def measure(ours, peer, rounds: int = 11) -> float:
        peers = []

        def take_turns():
            start = time.process_time()
            peer()
            peers.append(time.process_time() - start)

        ours(), peer()  # the first run of anything is slow
        benchmark.pedantic(ours, setup=take_turns, rounds=rounds)
        pairs = [theirs / mine for theirs, mine in zip(peers, benchmark.stats.stats.data, strict=True)]
        found = statistics.median(pairs)
        benchmark.extra_info["ratio"] = round(found, 2)
        low, _, high = statistics.quantiles(pairs, n=4)
        TABLE.append((request.node.name, statistics.median(benchmark.stats.stats.data), found, low, high))
        return found

    return measure


def pytest_terminal_summary(terminalreporter):
    """The table that `make bench` is for."""
    terminalreporter.section("ratios: time of the peer / our time (median of the pairs, and their quartiles)")
    for name, seconds, found, low, high in TABLE:
        ours = f"ours {1e3 * seconds:8.2f} ms"
        terminalreporter.write_line(f"{name:<56} {found:5.2f}  ({low:.2f} - {high:.2f})  {ours}")
