"""Costs: what is measured is what was held and spent, and the stored tables say what the atlas says."""

import math

import pytest
import torch

from attncourse.attention import ATLAS, mechanism
from attncourse.experiments import costs, load_results
from attncourse.experiments.costs import (
    KEPT,
    LENGTHS,
    STEPPING,
    cost_by_length,
    milliseconds,
    peak_bytes,
    step_over,
)
from attncourse.experiments.tables import EXPERIMENTS
from attncourse.experiments.tables import costs as tables

MEGABYTE = 2**20


def measured(table, system):
    """The numbers of one row, first seed."""
    [row] = [row for row in EXPERIMENTS[table].rows if row.name == system]
    return row.run(row, 0)


def ones(megabytes):
    return torch.ones(megabytes * MEGABYTE // 4)


# --- The instruments ---------------------------------------------------------------------------------------


def test_the_peak_is_what_is_held_at_one_time_and_not_the_sum():
    """Four megabytes one after the other are one; two beside each other are two."""

    def one_after_the_other():
        for _ in range(4):
            ones(1)

    def beside_each_other():
        kept = ones(1)
        return kept, ones(1)

    assert peak_bytes(one_after_the_other) == MEGABYTE
    assert peak_bytes(beside_each_other) == 2 * MEGABYTE


def test_what_was_there_before_does_not_count_and_what_an_operation_hides_does():
    given = ones(4)
    assert peak_bytes(lambda: given + given) == 4 * MEGABYTE, "the sum, not what was added"
    assert peak_bytes(given.neg_) == 0, "in place nothing is held"
    assert peak_bytes(given.sort) > 8 * MEGABYTE, "values, indices, and what sorting needs inside"


def test_the_peak_of_attention_is_that_of_its_map():
    """Scores and weights, each (heads, n, n), live side by side for a moment."""
    call = mechanism("multi-head").on(*torch.randn(2, 1, 256, 64))
    maps = 4 * 256 * 256 * 4
    assert 2 * maps <= peak_bytes(call) <= 2.5 * maps


def test_the_profiler_writes_nothing_into_a_notebook(capfd):
    peak_bytes(lambda: ones(1))
    assert capfd.readouterr() == ("", "")


def test_the_time_is_the_median_of_calls_and_the_first_is_left_out(monkeypatch):
    """Calls of 9, then 1, 2, 6 seconds on a clock that only they move; then the time is up."""
    now, lasting, calls = [0.0], iter([9, 1, 2, 6]), []
    monkeypatch.setattr(costs.time, "process_time", lambda: now[0])

    def call():
        calls.append(1)
        now[0] += next(lasting)

    assert milliseconds(call, total=5, least=2) == 2_000 and len(calls) == 4


def test_no_gradient_is_kept_while_costs_are_measured():
    """With gradients every block would be held to the end."""
    seen = []
    for measure in (peak_bytes, milliseconds):
        measure(lambda: seen.append(torch.is_grad_enabled()))
    assert not any(seen)


# --- The runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ATLAS, ids=lambda row: row.name)
def test_memory_grows_as_the_atlas_says(row):
    """Twice the length: four times the memory where n^2 is held, twice where n is."""
    held = {n: peak_bytes(row.on(*torch.randn(2, 1, n, 64))) for n in (256, 512)}
    growth = held[512] / held[256]
    assert 3.6 <= growth <= 4.1 if "n^2" in row.held else 1.8 <= growth <= 2.2, f"{row.held}: {growth:.2f}"


def test_a_run_stops_before_it_holds_too_much(monkeypatch):
    monkeypatch.setattr(tables, "LENGTHS", (64, 128, 256))
    monkeypatch.setattr(tables, "MOST_BYTES", 10_000_000)
    monkeypatch.setattr(tables, "milliseconds", lambda call: 1.0)
    numbers = measured("atlas_cost", "soft")
    assert list(numbers["megabytes"]) == list(numbers["milliseconds"]) == ["64", "128"], "256 holds 17 MB"
    assert list(measured("atlas_cost", "linear")["megabytes"]) == ["64", "128", "256"]
    assert numbers["parameters"] == mechanism("soft").parameters()


def test_what_is_kept_from_step_to_step(monkeypatch):
    """Keys and values of every word, of few heads, of the window; or two sums."""
    monkeypatch.setattr(tables, "KEPT", (64, 128))
    monkeypatch.setattr(tables, "milliseconds", lambda call: call() is None)
    kept = {system: measured("atlas_step", system)["kilobytes"] for system in STEPPING}
    whole = 2 * 64 * 64 * 4 / 1000
    assert kept["multi-head"] == {"64": round(whole, 3), "128": round(2 * whole, 3)}
    assert kept["grouped-query"]["64"] == round(whole / 2, 3)
    assert kept["multi-query"]["64"] == round(whole / 4, 3)
    assert kept["sliding window"] == {n: round(2 * 17 * 64 * 4 / 1000, 3) for n in ("64", "128")}
    assert kept["linear"] == {n: round(4 * (16 * 16 + 16) * 4 / 1000, 3) for n in ("64", "128")}


@pytest.mark.parametrize("system", STEPPING)
def test_a_step_reads_what_the_last_place_of_a_causal_layer_reads(system):
    """Else the time would be that of something else."""
    torch.manual_seed(0)
    _, call = step_over(system, 40)
    torch.manual_seed(0)
    layer = mechanism(system).build(costs.SIZES)
    words, new = torch.randn(1, 40, 64), torch.randn(1, 1, 64)
    seen = words[:, -17:] if system == "sliding window" else words
    expected = layer(new, seen, seen).context
    read = call()
    torch.testing.assert_close(read if system == "linear" else read.context, expected)


# --- The stored tables -------------------------------------------------------------------------------------


def test_costs_are_stored_for_every_mechanism():
    table = load_results("atlas_cost")
    assert set(table.systems) == {row.name for row in ATLAS}
    for row in ATLAS:
        held = cost_by_length(table, row.name, "megabytes")
        assert list(held) == list(LENGTHS[: len(held)]) and len(held) >= 5
        assert cost_by_length(table, row.name, "milliseconds").keys() == held.keys()
        assert table.spread(row.name, "parameters").mean == row.parameters()


@pytest.mark.parametrize("row", ATLAS, ids=lambda row: row.name)
def test_stored_times_grow_as_the_atlas_says(row):
    """Over four doublings: a slope of about 2 where a layer costs n^2, of about 1 where it costs n."""
    times = list(cost_by_length(load_results("atlas_cost"), row.name, "milliseconds").values())
    slope = math.log2(times[-1] / times[-5]) / 4
    assert slope > 1.6 if "n^2" in row.layer else slope < 1.6, f"{row.layer}: {slope:.2f}"


def test_steps_are_stored_for_every_length():
    table = load_results("atlas_step")
    assert table.systems == list(STEPPING)
    assert all(list(cost_by_length(table, system, "kilobytes")) == list(KEPT) for system in STEPPING)
