"""The edges that all readings share: nothing to read, nobody who asks, what no reading can read."""

import pytest
import torch
from torch import nn
from torch.export import export

from attncourse.attention import (
    AdditiveScore,
    AttentionPooling,
    ConcatScore,
    CosineScore,
    DotScore,
    GaussianScore,
    GeneralScore,
    HardAttention,
    LinearScore,
    LocalAttention,
    LocationScore,
    ScaledDotScore,
    attend,
    attend_blockwise,
    linear_attend,
)
from attncourse.attention.hard import CHOICES

SCORES = {
    "dot": DotScore, "scaled dot": ScaledDotScore, "cosine": CosineScore, "gaussian": GaussianScore,
    "linear": LinearScore, "general": lambda: GeneralScore(4, 4), "additive": lambda: AdditiveScore(4, 4, 5),
    "concat": lambda: ConcatScore(4, 4, 5), "location": lambda: LocationScore(4, 9),
}


class Reading(nn.Module):
    """A mechanism as a program of query, key and value; weights and alpha beside the context, if any."""

    def __init__(self, layer, read):
        super().__init__()
        self.layer, self.how = layer, read

    def forward(self, query, key, value, **options):
        return tuple(part for part in self.how(self.layer, query, key, value, **options) if part is not None)


def by_score(read):
    return lambda score, q, k, v, **options: read(q, k, v, score=score, **options)


def locally(layer, q, k, v):
    return layer(q, k, v, lengths=torch.full((len(k),), k.shape[1]))


READINGS = {
    **{f"attend, {name}": lambda make=make: Reading(make(), by_score(attend))
       for name, make in SCORES.items()},
    **{f"in blocks, {name}": lambda make=make: Reading(make(), by_score(attend_blockwise))
       for name, make in SCORES.items() if name != "location"},
    **{f"hard, {choice}": lambda choice=choice: Reading(
        HardAttention(ScaledDotScore(), choice), lambda layer, *given, **options: layer(*given, **options))
       for choice in CHOICES},
    "linear, pairs": lambda: Reading(None, lambda _, *given, **options: linear_attend(*given, **options)),
    "linear, sums": lambda: Reading(
        None, lambda _, *given, **options: linear_attend(*given, need_weights=False, **options)),
    "local": lambda: Reading(LocalAttention(GeneralScore(4, 4), half_width=2), locally),
    "local-p": lambda: Reading(LocalAttention(
        GeneralScore(4, 4), half_width=2, centre="predicted", gaussian="inside", query_width=4), locally),
}
EVERY = pytest.mark.parametrize("name", READINGS)
ANY_KEYS = pytest.mark.parametrize("name", [name for name in READINGS if not name.startswith("local")])


def build(name, dtype=torch.float64):
    torch.manual_seed(0)
    return READINGS[name]().to(dtype)


def data(batch=2, queries=3, keys=5, dtype=torch.float64):
    generator = torch.Generator().manual_seed(1)
    sizes = ((queries, 4), (keys, 4), (keys, 3))
    return [torch.randn(batch, *size, generator=generator, dtype=torch.float64).to(dtype) for size in sizes]


@ANY_KEYS
def test_no_keys_are_read_as_zero(name):
    """An index error, or NaN from a softmax of nothing."""
    context, *maps = build(name)(*data(keys=0))
    assert context.shape == (2, 3, 3) and not context.any()
    assert all(weights.shape == (2, 3, 0) for weights in maps)


@EVERY
@pytest.mark.parametrize("size", [{"queries": 0}, {"batch": 0}], ids=["no queries", "no batch"])
def test_nobody_who_asks_reads_nothing(name, size):
    asked = data(**size)
    context, *maps = build(name)(*asked)
    assert context.shape == (*asked[0].shape[:2], 3) and all(m.shape == (*context.shape[:2], 5) for m in maps)


@EVERY
@pytest.mark.parametrize("part", ["query", "key", "value"])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool], ids=str)
def test_whole_numbers_are_refused_by_name(name, part, dtype):
    """One reading raised, two cut the fraction off, one gave 0 where the mean is 12.8."""
    asked = dict(zip(("query", "key", "value"), data(), strict=True))
    asked[part] = asked[part].to(dtype)
    with pytest.raises(TypeError, match=f"{part} is {dtype}: .* floating, such as torch.float32"):
        build(name)(**asked)


@ANY_KEYS
def test_what_does_not_fit_is_named_alike(name):
    """One check for all readings: they name the same mistake in the same words."""
    module, (query, key, value) = build(name), data()
    with pytest.raises(ValueError, match=r"query has shape \(4,\): it needs at least two dimensions"):
        module(query[0, 0], key, value)
    with pytest.raises(ValueError, match="key holds 5 vectors and value holds 4: every key needs"):
        module(query, key, value[:, :4])
    with pytest.raises(ValueError, match=r"mask has shape \(1, 6\), which does not broadcast"):
        module(query, key, value, mask=torch.ones(1, 6).bool())
    with pytest.raises(TypeError, match="mask is torch.float32: it must be boolean"):
        module(query, key, value, mask=torch.ones(1, 5))


@pytest.mark.parametrize("name", [name for name in READINGS if not name.startswith("hard")
                                  or "expectation" in name])
def test_second_derivatives_are_those_of_finite_differences(name):
    """Only a fused kernel has none; a score that is changed in place must not lose what they need."""
    asked = [x.requires_grad_() for x in data(1, 2, 3)]
    assert torch.autograd.gradgradcheck(lambda *given: build(name)(*given)[0], asked)


@EVERY
def test_a_reading_is_compiled_exported_and_mapped(name):
    """A look at values on the way stops all three."""
    if "sample" in name or "gumbel" in name:
        return  # another number each time
    module, asked = build(name, torch.float32).eval(), data(dtype=torch.float32)
    expected = module(*asked)
    torch.compiler.reset()  # every mechanism is compiled for the first time
    compiled = torch.compile(module, fullgraph=True, backend="eager")
    exported = export(module, tuple(asked), strict=False).module()
    for program in (compiled, exported):
        torch.testing.assert_close(program(*asked), expected)
    with torch.no_grad():
        mapped = torch.vmap(lambda *given: module(*(x[None] for x in given)))(*asked)
    torch.testing.assert_close(tuple(part[:, 0] for part in mapped), expected)


def test_pooling_refuses_whole_numbers_and_pools_nothing_to_zero():
    pool = AttentionPooling(4)
    assert not pool(torch.zeros(2, 0, 4)).context.any()
    assert pool(torch.zeros(0, 5, 4)).context.shape == (0, 1, 4)
    with pytest.raises(TypeError, match="int64"):
        pool(torch.zeros(2, 5, 4).long())
