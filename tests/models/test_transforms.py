"""What PyTorch does to a module from outside: trace it, map it, hook it, replace its layers, move it.

Written once for all models; a new one joins by one line in MODELS.
"""

import copy
import math
import shutil
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from attncourse.decoding import beam_search, caption, greedy
from attncourse.models import (
    DETR,
    BertEncoder,
    CellAnnotator,
    CellBackbone,
    HierarchicalAttentionNetwork,
    LuongTranslator,
    RNNSearch,
    Seq2Seq,
    ShowAttendTell,
    Transformer,
    VisionTransformer,
)

SOURCE, TARGET, SIDE = 11, 13, 24  # sizes of the vocabularies, pixels of an image's side


def sentences(batch):
    """source, lengths, target; the first row fills its columns, the last is empty if there are several."""
    generator = torch.Generator().manual_seed(batch)
    lengths = torch.arange(5, 5 - batch, -1).clamp(min=0)
    return (torch.randint(4, SOURCE, (batch, 5), generator=generator), lengths,
            torch.randint(4, TARGET, (batch, 6), generator=generator))


def read(batch):
    return sentences(batch)[:2]


def pictures(batch):
    return (torch.rand(batch, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(batch)),)


def captioned(batch):
    return *pictures(batch), sentences(batch)[2]


def documents(batch):
    generator = torch.Generator().manual_seed(batch)
    ids = torch.randint(1, SOURCE, (batch, 2, 5), generator=generator)
    return ids, torch.tensor([[5, 2]]).repeat(batch, 1), torch.arange(batch) % 3


recurrent = {"embedding": 5, "hidden": 6}
luong = partial(LuongTranslator, SOURCE, TARGET, **recurrent, max_source=8)
network = partial(HierarchicalAttentionNetwork, SOURCE, 3, embedding=4, hidden=3)
vision = partial(VisionTransformer, image=SIDE, patch=8, channels=1, width=16, heads=2, layers=1)
# What builds a model, and a batch of so many rows for it.
MODELS = {
    "Seq2Seq": (partial(Seq2Seq, SOURCE, TARGET, **recurrent), sentences),
    "Seq2Seq, mean": (partial(Seq2Seq, SOURCE, TARGET, **recurrent, context="mean"), sentences),
    "Seq2Seq, max": (partial(Seq2Seq, SOURCE, TARGET, **recurrent, context="max"), sentences),
    "RNNSearch": (partial(RNNSearch, SOURCE, TARGET, **recurrent), sentences),
    **{f"LuongTranslator, {score}": (partial(luong, score=score, layers=2), sentences)
       for score in ("dot", "general", "concat", "location")},
    "LuongTranslator, fed": (partial(luong, input_feeding=True), sentences),
    "LuongTranslator, local": (partial(luong, centre="predicted", gaussian="inside"), sentences),
    "LuongTranslator, local and fed": (
        partial(luong, score="concat", centre="monotonic", input_feeding=True), sentences),
    "Transformer": (partial(Transformer, SOURCE, TARGET, width=16, heads=2, layers=1), sentences),
    "Transformer, pre": (
        partial(Transformer, SOURCE, TARGET, width=16, heads=2, layers=2, norm="pre"), sentences),
    "BertEncoder": (partial(BertEncoder, SOURCE, 16, 2, 1, 8, longest=9), read),
    "VisionTransformer": (partial(vision, 3), pictures),
    "VisionTransformer, mean": (partial(vision, 3, pooling="mean"), pictures),
    "DETR": (lambda: DETR(CellBackbone(6, 3), 6, 3, width=8, heads=2, inner=8, queries=4, decoder_layers=2),
             pictures),
    **{f"ShowAttendTell, {choice}": (
        lambda choice=choice: ShowAttendTell(
            CellAnnotator(6), TARGET, choice=choice, embedding=4, hidden=6, width=4), captioned)
       for choice in (None, "expectation", "sample", "gumbel")},
    **{f"HierarchicalAttentionNetwork, {pooling}": (partial(network, pooling=pooling), documents)
       for pooling in ("attention", "mean", "last")},
}
EVERY_MODEL = pytest.mark.parametrize("name", MODELS)
# `Module.__call__` runs a hook; a layer whose parameters serve another pass than `forward` has none to run.
APART = {"ShowAttendTell": {"annotator.labels"}, "DETR": {"backbone.labels"}}


def build(name, seed=0):
    """In evaluation mode, and with weights large enough for every part to matter."""
    torch.manual_seed(seed)
    model = MODELS[name][0]().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


def batch_for(name, rows=3):
    return MODELS[name][1](rows)


def tensors(output) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor)]


def same(found, expected, advice, tolerance=1e-5):
    found, expected = tensors(found), tensors(expected)
    assert len(found) == len(expected)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=tolerance, atol=tolerance,
                                   msg=lambda text: f"{advice}\n{text}")


# --- Reading numbers from a device -------------------------------------------------------------------------


class Reads(TorchFunctionMode):
    """Counts what makes Python wait for a device: a tensor's number, or a shape that depends on numbers."""

    WAITS = {"item", "tolist", "__bool__", "__int__", "__float__", "__index__", "numpy",
             "nonzero", "cpu", "equal", "allclose", "unique", "masked_select"}

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        name = getattr(function, "__name__", "")
        chosen = name == "__getitem__" and any(
            isinstance(part, Tensor) and part.dtype == torch.bool for part in tree_leaves(args[1]))
        if name in self.WAITS or chosen:
            self.seen.append(name)
        return function(*args, **(kwargs or {}))


def test_the_counter_sees_every_way_to_read():
    ways = (lambda x: x.item(), lambda x: int(x), lambda x: float(x), lambda x: bool(x), lambda x: x.tolist(),
            lambda x: 1 if x > 0 else 0, lambda x: x.cpu(), lambda x: x[x > 0], lambda x: x.nonzero())
    for way in ways:
        with Reads() as reads:
            way(torch.tensor(1))
        assert len(reads.seen) == 1, reads.seen


@EVERY_MODEL
def test_a_pass_reads_numbers_from_the_device_twice_at_most(name):
    """Every read makes a GPU wait: once for what is read, once for the target that is known."""
    model, batch = build(name), batch_for(name)
    with Reads() as reads:
        model(*batch)
    looks = [read for read in reads.seen if read != "cpu"]
    assert len(looks) <= 2, f"{len(looks)} reads: {', '.join(looks)}"
    # The framework packs with lengths on the CPU: they are brought there, and it looks whether they were.
    assert reads.seen.count("cpu") in (0, 2)
    if MODELS[name][1] is pictures:
        assert not reads.seen, "images hold no numbers that must be looked at"


@pytest.mark.parametrize("name", [name for name in MODELS if hasattr(MODELS[name][0](), "step")])
def test_a_step_reads_nothing(name):
    """Checked in `encode`, 60 steps later still right."""
    model, (*source, target) = build(name), batch_for(name)
    memory, state = model.encode(*source)
    with Reads() as reads:
        for token in target.unbind(1):
            state = model.step(token, state, memory).state
    assert not reads.seen, f"{target.shape[1]} steps made {len(reads.seen)} reads: {', '.join(reads.seen)}"


# --- Compiled, exported, mapped ----------------------------------------------------------------------------


@pytest.fixture
def compiler():
    """Nothing compiled before, nothing kept."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


# The framework compiles no `nn.GRU` and no `nn.LSTM`, unless a switch of its own is set.
@pytest.mark.parametrize("name", [name for name in MODELS if not any(
    isinstance(module, nn.RNNBase) for module in MODELS[name][0]().modules())])
def test_compiles_as_one_graph(name, compiler):
    """A number read on the way, for a check, breaks the graph in two."""
    model, batch = build(name), batch_for(name)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    same(compiled(*batch), model(*batch), "the compiled model gives something else")


@pytest.mark.skipif(not any(map(shutil.which, ("g++", "clang++", "c++"))), reason="there is no C++ compiler")
@pytest.mark.parametrize("name", ["Transformer", "VisionTransformer"])
def test_compiles_to_machine_code(name, compiler):
    model, batch = build(name), batch_for(name)
    with torch.no_grad():
        same(torch.compile(model, fullgraph=True)(*batch), model(*batch), "the compiled model differs")


@EVERY_MODEL
def test_is_exported_for_batches_of_any_size(name):
    """`len(x)` is a number for good: the exported model then takes batches of that size alone."""
    model, batch = build(name), batch_for(name)
    rows = torch.export.Dim("rows", min=2, max=64)
    exported = torch.export.export(model, batch, dynamic_shapes=tuple({0: rows} for _ in batch)).module()
    same(exported(*batch), model(*batch), "the exported model gives something else")
    larger = batch_for(name, 5)
    same(exported(*larger), model(*larger), "another batch size gives something else")


def loss(model, parameters, batch):
    """Squares of all logits of one example: every parameter has a part in it."""
    state = (parameters, dict(model.named_buffers()))
    output = torch.func.functional_call(model, state, tuple(part[None] for part in batch))
    return tensors(output)[0].square().mean()


@EVERY_MODEL
def test_gradients_of_each_example_can_be_mapped(name):
    """Per-sample gradients, as differential privacy and the noise scale need them."""
    model, batch = build(name), batch_for(name)
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    gradient = torch.func.grad(lambda chosen, *parts: loss(model, chosen, parts))
    of_each = torch.func.vmap(gradient, in_dims=(None, *(0 for _ in batch)))(parameters, *batch)
    for row in range(len(batch[0])):
        alone = gradient(parameters, *(part[row] for part in batch))
        for key in alone:
            near = 1e-5 * max(1.0, alone[key].abs().max().item())
            torch.testing.assert_close(of_each[key][row], alone[key], rtol=1e-4, atol=near,
                                       msg=lambda text, key=key, row=row: f"{key}, example {row}: {text}")


# --- Hooks, and layers that are replaced -------------------------------------------------------------------


@EVERY_MODEL
def test_every_layer_is_called(name):
    """A hook sees calls. A weight that is read past its layer is seen by none, and cannot be replaced."""
    model, batch, fired = build(name), batch_for(name), set()
    owners = {key for key, module in model.named_modules() if any(True for _ in module.parameters(False))}
    for key, module in model.named_modules():
        module.register_forward_hook(lambda *_, key=key: fired.add(key))
    model(*batch)
    apart = APART.get(name.partition(",")[0], set())
    assert owners - fired == apart, f"hooks that never ran: {', '.join(sorted(owners - fired - apart))}"


@EVERY_MODEL
def test_attention_modules_are_called(name):
    """Whoever collects maps by hooks, as every tutorial teaches, gets nothing, and no word of it."""
    model, batch, fired = build(name), batch_for(name), set()
    attentions = {key for key, module in model.named_modules()
                  if type(module).__name__.endswith(("Attention", "Score", "Pooling"))}
    for key in attentions:
        model.get_submodule(key).register_forward_hook(lambda *_, key=key: fired.add(key))
    model(*batch)
    assert attentions == fired, f"hooks that never ran: {', '.join(sorted(attentions - fired))}"


@EVERY_MODEL
def test_works_with_linear_layers_in_eight_bits(name):
    """There `weight` is a method: whoever reads it gets "'method' object is not subscriptable"."""
    model, batch = build(name), batch_for(name)
    small = torch.ao.quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8)
    for found, expected in zip(tensors(small(*batch)), tensors(model(*batch)), strict=True):
        if "sample" not in name and "gumbel" not in name:  # a choice may fall otherwise, and all after it
            near = 0.2 * max(1.0, expected.abs().max().item())
            torch.testing.assert_close(found, expected, rtol=0, atol=near)


class LowRank(nn.Module):
    """W x + B A x with W frozen (Hu et al. 2021): it takes a layer's place, and has no `weight` itself."""

    def __init__(self, layer: nn.Linear, rank: int = 2):
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.layer(x) + self.up(self.down(x))


def adapted(model):
    """Each linear layer with a small one beside it."""
    for module in list(model.modules()):
        for key, child in list(module.named_children()):
            if type(child) is nn.Linear and not isinstance(module, LowRank):
                setattr(module, key, LowRank(child))
    return model


@EVERY_MODEL
def test_works_with_a_low_rank_layer_beside_each_linear_one(name):
    """At the start nothing changes; and each new layer learns, so none is passed by."""
    model, batch = build(name), batch_for(name)
    expected = model(*batch)
    model = adapted(model)
    same(model(*batch), expected, "a layer that adds 0 changed the model")
    sum(part.square().sum() for part in tensors(model(*batch)) if part.is_floating_point()).backward()
    added = [(key, module) for key, module in model.named_modules() if isinstance(module, LowRank)]
    idle = [key for key, module in added if module.up.weight.grad is None]
    assert added and not idle, f"layers that are passed by: {', '.join(idle)}"


# --- Made without memory, then loaded ----------------------------------------------------------------------


@EVERY_MODEL
def test_a_model_made_on_meta_is_whole_once_it_is_loaded(name):
    """How large models are made: a table that is neither stored nor made on demand stays as memory was."""
    trained, batch = build(name), batch_for(name)
    with torch.device("meta"):
        model = MODELS[name][0]()
    model.to_empty(device="cpu")
    with torch.no_grad():
        for tensor in [*model.parameters(), *model.buffers()]:
            tensor.fill_(math.nan if tensor.is_floating_point() else -1)
    model.load_state_dict(trained.state_dict())
    same(model.eval()(*batch), trained(*batch), "something was not stored", tolerance=0.0)


# --- Nothing in the batch ----------------------------------------------------------------------------------


@EVERY_MODEL
def test_a_batch_of_nothing_gives_nothing(name):
    """What is left of a batch after a filter. It has shapes, and gradients of 0."""
    model, batch = build(name), batch_for(name, 0)
    output, one = tensors(model(*batch)), tensors(model(*batch_for(name, 1)))
    assert [part.shape[1:] for part in output] == [part.shape[1:] for part in one]
    assert all(part.shape[0] == 0 for part in output)
    output[0].sum().backward()
    assert all(parameter.grad is None or not parameter.grad.any() for parameter in model.parameters())


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name][1] is sentences])
def test_nothing_to_decode_gives_nothing(name):
    model, (source, lengths, _) = build(name), batch_for(name, 0)
    assert greedy(model, source, lengths) == beam_search(model, source, lengths) == []
    memory, state = model.encode(source, lengths)
    assert model.step(lengths, state, memory).logits.shape == (0, TARGET)


def test_no_image_has_no_caption():
    assert caption(build("ShowAttendTell, expectation"), *pictures(0)) == []
