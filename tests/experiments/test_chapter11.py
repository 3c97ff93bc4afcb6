"""Costs: what is measured is what was held and spent, and the stored tables say what the atlas says."""

import math

import pytest
import torch

from attncourse import experiments
from attncourse.attention import ATLAS, mechanism
from attncourse.experiments import chapter11, load_results
from attncourse.experiments.chapter11 import (
    KEPT,
    LENGTHS,
    LOOKED_UP_BY,
    STEPPING,
    atlas_cost,
    atlas_step,
    cost_by_length,
    fit_linear_lookup,
    found_again,
    linear_lookup,
    milliseconds,
    peak_bytes,
    step_over,
)

MEGABYTE = 2**20


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
    monkeypatch.setattr(chapter11.time, "process_time", lambda: now[0])

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
    monkeypatch.setattr(chapter11, "LENGTHS", (64, 128, 256))
    monkeypatch.setattr(chapter11, "MOST_BYTES", 10_000_000)
    monkeypatch.setattr(chapter11, "milliseconds", lambda call: 1.0)
    numbers = atlas_cost("soft", 0)
    assert list(numbers["megabytes"]) == list(numbers["milliseconds"]) == ["64", "128"], "256 holds 17 MB"
    assert list(atlas_cost("linear", 0)["megabytes"]) == ["64", "128", "256"]
    assert numbers["parameters"] == mechanism("soft").parameters()


def test_what_is_kept_from_step_to_step(monkeypatch):
    """Keys and values of every word, of few heads, of the window; or two sums."""
    monkeypatch.setattr(chapter11, "KEPT", (64, 128))
    monkeypatch.setattr(chapter11, "milliseconds", lambda call: call() is None)
    kept = {system: atlas_step(system, 0)["kilobytes"] for system in STEPPING}
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
    layer = mechanism(system).build(chapter11.SIZES)
    words, new = torch.randn(1, 40, 64), torch.randn(1, 1, 64)
    seen = words[:, -17:] if system == "sliding window" else words
    expected = layer(new, seen, seen).context
    read = call()
    torch.testing.assert_close(read if system == "linear" else read.context, expected)


@pytest.mark.parametrize("kind", LOOKED_UP_BY)
def test_a_looker_up_trains_with_either_score(kind):
    model, history = fit_linear_lookup(kind, 8, steps=3, device="cpu", progress=False)
    assert len(history.loss) == 3 and model.score.__class__ is LOOKED_UP_BY[kind]
    found = found_again(model, 50)
    assert 0 <= found["accuracy"] <= 1 and 1 / 16 <= found["largest weight"] <= 1


def test_systems_of_a_lookup_say_their_score_and_width(monkeypatch):
    asked = []

    def fit(kind, width, seed):
        asked.append((kind, width, seed))
        return torch.nn.Linear(2, 3), None

    monkeypatch.setattr(chapter11, "fit_linear_lookup", fit)
    monkeypatch.setattr(chapter11, "found_again", lambda model: {"accuracy": 0.5})
    assert linear_lookup("linear, d = 16", 2) == {"parameters": 9, "accuracy": 0.5}
    assert asked == [("linear", 16, 2)]


# --- The stored tables -------------------------------------------------------------------------------------


def test_the_experiments_of_this_chapter_are_registered():
    assert {"atlas_cost", "atlas_step", "linear_lookup"} <= set(experiments.names())


def test_costs_are_stored_for_every_mechanism():
    table = load_results("atlas_cost")
    assert table.systems == [row.name for row in ATLAS]
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


def test_the_lookup_is_stored_for_every_width():
    assert load_results("linear_lookup").systems == [
        f"{kind}, d = {width}" for width in (8, 16, 32, 64) for kind in LOOKED_UP_BY]
