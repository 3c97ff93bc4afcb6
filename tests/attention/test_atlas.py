"""The atlas: what a row says is true of the mechanism that it builds, and every mechanism has a row."""

import inspect
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attncourse import attention
from attncourse.attention import ATLAS, Mechanism, Sizes, mechanism, window_mask
from attncourse.attention.atlas import SIZES

ROOT = Path(__file__).parents[2]
SMALL = Sizes(width=8, heads=2, key_value_heads=1, reach=2, longest=600, objects=5)
EVERY = pytest.mark.parametrize("row", ATLAS, ids=lambda row: row.name)
# Scores that have a table of their own, and modules that are no mechanism.
NOT_A_ROW = {"CosineScore", "GaussianScore", "LinearScore", "LearnedPositions", "SinusoidPositions",
             "GridPositions", "MovingAverage", "Heads"}
ASKED_FROM_OUTSIDE = {"soft", "hard", "global, dot", "global, general", "global, concat", "global, location",
                      "local-m", "local-p", "cross-attention"}


def data(n=9, width=8, seed=1):
    return torch.randn(1, n, width, generator=torch.Generator().manual_seed(seed))


def read(row: Mechanism, asking=None, source=None, *, need_weights=True, sizes=SMALL):
    """The same parameters each time."""
    torch.manual_seed(0)
    asking = data(seed=2) if asking is None else asking
    return row.on(asking, data() if source is None else source, sizes)(need_weights)


# --- The rows are true -------------------------------------------------------------------------------------


@EVERY
def test_weights_are_normalised_as_the_row_says(row):
    sums = read(row).weights.sum(-1)
    if row.normalise == "softmax, times a Gaussian":
        assert (sums < 1).all() and (sums > 0).any(), "a Gaussian takes weight away"
        return
    if row.name == "differential":
        assert (sums < 1).all() and (sums - sums.flatten()[0]).abs().max() < 1e-5, "all rows have 1 - lambda"
        return
    torch.testing.assert_close(sums, torch.ones_like(sums))
    one_hot = set(read(row).weights.unique().tolist()) == {0, 1}
    assert one_hot == (row.normalise == "one sample")


@EVERY
def test_those_keys_are_visible_that_the_row_says(row):
    weights, n, r = read(row).weights, 9, SMALL.reach
    seen = (weights != 0).flatten(0, -3).all(0) if weights.dim() > 3 else weights[0] != 0
    if row.normalise == "one sample" or "p_t" in row.visible:
        return  # which one, or where the window is, the query decides
    expected = torch.ones(seen.shape, dtype=torch.bool)
    if row.visible.startswith(r"$j \le i$"):
        expected = expected.tril()
    elif row.visible != "all":
        assert row.visible.startswith((r"$\lvert i - j \rvert \le r$", "$[t - D"))
        expected = window_mask(n, n, r)
    assert torch.equal(seen, expected), f"{row.name} says {row.visible}"


@EVERY
def test_the_query_comes_from_where_the_row_says(row):
    """From another sequence, from the sequence itself, or from nowhere: then it is learned."""
    asking, source = data(seed=2).requires_grad_(), data().requires_grad_()
    read(row, asking, source, need_weights=row.normalise == "one sample").context.square().sum().backward()
    outside = asking.grad is not None and bool(asking.grad.any())
    # A choice has no gradient: of hard attention, only that it reads the source can be seen here.
    assert outside == (row.name in ASKED_FROM_OUTSIDE - {"hard"})
    assert source.grad.any()
    inside = any(word in row.query for word in ("x_i", "learned"))
    assert inside != (row.name in ASKED_FROM_OUTSIDE) or row.name == "cross-attention"


@EVERY
def test_what_is_asked_for_changes_no_context(row):
    """With weights and without, it is one mechanism: what is measured is what is shown."""
    torch.testing.assert_close(read(row, need_weights=False).context, read(row).context)


@EVERY
def test_multiplications_grow_as_the_row_says(row):
    """Counted on products of matrices; a fused kernel multiplies as often, but where nobody counts."""
    need_weights = row.name in ("fused", "in blocks")

    def count(n):
        call = row.on(data(n, seed=2), data(n), SMALL)
        with FlopCounterMode(display=False) as counter:
            call(need_weights)
        return counter.get_total_flops()

    growth = count(512) / count(256)
    assert 3.5 < growth <= 4.1 if "n^2" in row.layer else 1.9 < growth < 2.1, f"{row.layer}: {growth:.2f}"
    if row.name not in ("attention pooling", "object queries"):  # there a layer has few queries, not n
        assert ("n^2" in row.layer) == ("n" in row.step.split())


def test_the_numbers_of_parameters_are_those_of_the_formulas():
    """At d = 8, h = 2: on paper, and counted."""
    d, longest, objects = SMALL.width, SMALL.longest, SMALL.objects
    heads = 4 * (d * d + d)
    expected = {
        "soft": 2 * d * d + d, "hard": 2 * d * d + d, "global, dot": 0, "global, general": d * d,
        "global, concat": 2 * d * d + d, "global, location": longest * d, "local-m": d * d,
        "local-p": 2 * d * d + d, "attention pooling": d * d + 2 * d, "self-attention": 0, "in blocks": 0,
        "object queries": heads + objects * d,
        "grouped-query": heads - (d * d + d), "multi-query": heads - (d * d + d),
        "differential": heads + 4 * d // 4 + d // 2,  # four vectors of half a head, and a gain
    }
    for row in ATLAS:
        assert row.parameters(SMALL) == expected.get(row.name, heads), row.name


# --- The rows are all there, and lead somewhere ------------------------------------------------------------


def test_every_mechanism_of_the_package_has_a_row():
    built = {type(part).__name__ for row in ATLAS for part in row.build(SIZES).modules()}
    ours = {name for name in attention.__all__
            if inspect.isclass(getattr(attention, name)) and issubclass(getattr(attention, name), nn.Module)}
    assert ours - built == NOT_A_ROW, "give a new mechanism a row of the atlas"


def test_names_are_different_and_found():
    assert len({row.name for row in ATLAS}) == len(ATLAS)
    assert all(mechanism(row.name) is row for row in ATLAS)
    with pytest.raises(ValueError, match="name is 'magic': choose from soft, hard, "):
        mechanism("magic")


@EVERY
def test_the_chapter_is_there(row):
    assert (ROOT / "chapters" / f"{row.chapter}.ipynb").is_file()


def test_formulas_of_scores_are_those_of_their_classes():
    """Written twice, they would drift apart."""
    for name, score in (("soft", "AdditiveScore"), ("global, location", "LocationScore"),
                        ("self-attention", "ScaledDotScore")):
        assert mechanism(name).score == f"${getattr(attention, score).formula}$"
