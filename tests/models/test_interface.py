"""What every sequence model must do, written once: a new model joins by one line in MODELS."""

import copy
import io
import pickle
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.utils.rnn import pad_sequence
from torch.utils._pytree import tree_flatten, tree_map_only

from attncourse.attention import Alibi, LearnedPositions, Rotary
from attncourse.data.vocabulary import END, PAD, START
from attncourse.decoding import beam_search, greedy, reorder
from attncourse.models import LuongTranslator, Output, RNNSearch, Seq2Seq, Step, Transformer

SOURCE, TARGET = 11, 13  # sizes of the vocabularies

MODELS = {
    "RNNSearch": partial(RNNSearch, hidden=6),
    "RNNSearch, another width": partial(RNNSearch, hidden=6, width=4),
    **{f"Seq2Seq, {context}": partial(Seq2Seq, hidden=6, context=context)
       for context in ("last", "mapped", "mean", "max")},
    "Seq2Seq, reversed": partial(Seq2Seq, hidden=6, reverse=True),
    **{f"LuongTranslator, {score}": partial(LuongTranslator, hidden=6, layers=2, score=score)
       for score in ("dot", "general", "concat", "location")},
    "LuongTranslator, input feeding": partial(LuongTranslator, hidden=6, layers=2, input_feeding=True),
    "LuongTranslator, read forwards": partial(LuongTranslator, hidden=6, reverse=False),
    "LuongTranslator, local-m": partial(LuongTranslator, hidden=6, centre="monotonic", half_width=1),
    **{f"LuongTranslator, {centre}, Gaussian {gaussian}": partial(
        LuongTranslator, hidden=6, centre=centre, half_width=1, gaussian=gaussian)
       for centre in ("predicted", "offset") for gaussian in ("outside", "inside")},
    "LuongTranslator, local and fed": partial(
        LuongTranslator, hidden=6, centre="monotonic", half_width=1, input_feeding=True),
    **{f"Transformer, {name}": partial(Transformer, width=8, heads=2, inner=12, dropout=0.0, **options)
       for name, options in {
           "post, sinusoid": {}, "post, none": {"positions": None},
           "post, rotary": {"positions": None, "inside": Rotary(), "between": Rotary()},
           "pre, sinusoid": {"norm": "pre"}, "pre, rotary inside": {"norm": "pre", "inside": Rotary()},
           "pre, learned": {"norm": "pre", "positions": partial(LearnedPositions, longest=256)},
           "pre, alibi": {"norm": "pre", "positions": None, "inside": Alibi(), "between": Alibi()},
       }.items()},
}
# One of each kind, where going through all variants would show nothing new.
KINDS = ["RNNSearch", "Seq2Seq, last", "LuongTranslator, general", "LuongTranslator, local-m",
         "Transformer, post, sinusoid"]

# Sums in another order differ in the last digits, by more on some processors than on others.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
ROWS = [[4, 5, 6, 7, 8], [9, 10], [], [5, 4, 7]]


def build(name, dtype=torch.float64, seed=0, tiny=False):
    """A small model whose weights are large enough for every part to matter."""
    torch.manual_seed(seed)
    if MODELS[name].func is Transformer:
        sizes = {"width": 4, "inner": 3} if tiny else {}
    else:
        sizes = {"embedding": 2, "hidden": 2} if tiny else {"embedding": 5}
    model = MODELS[name](SOURCE, TARGET, **sizes).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return model


def padded(rows, width=None, filling=PAD):
    """(source, lengths): rows of ids as one tensor, padded at the right."""
    lengths = torch.tensor([len(row) for row in rows])
    source = torch.full((len(rows), width or max(map(len, rows))), filling)
    for i, row in enumerate(rows):
        source[i, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return source, lengths


def targets(batch, length=6, seed=0):
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(4, TARGET, (batch, length - 1), generator=generator)
    return torch.cat([torch.full((batch, 1), START), words], dim=1)


def by_step(model, source, lengths, target):
    """The same output as the whole pass, one `step` at a time."""
    memory, state = model.encode(source, lengths)
    logits, weights = [], []
    for token in target.unbind(1):
        step = model.step(token, state, memory)
        state = step.state
        logits.append(step.logits)
        weights.append(step.weights)
    return Output(torch.stack(logits, 1), None if weights[0] is None else torch.stack(weights, 1))


def assert_same(found, expected, advice, tolerance=1e-10):
    """Logits and, where there are any, weights."""
    for name, ours, theirs in zip(Output._fields, found, expected, strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance, msg=lambda text, name=name:
                                       f"{name}: {advice}\n{text}")


# --- Steps and whole passes --------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", MODELS)
def test_step_by_step_equals_teacher_forcing(name, dtype):
    """Train with one, decode with the other: a difference shows only as bad translations."""
    model, (source, lengths), target = build(name, dtype), padded(ROWS), targets(4)
    assert_same(by_step(model, source, lengths, target), model(source, lengths, target),
                "`step` and `forward` are two models; which of them uses another step's context or state?",
                TOLERANCE[dtype])


@pytest.mark.parametrize("name", MODELS)
def test_shapes_are_those_of_the_interface(name):
    model, (source, lengths), target = build(name), padded(ROWS), targets(4)
    memory, state = model.encode(source, lengths)
    step = model.step(target[:, 0], state, memory)
    output = model(source, lengths, target)
    assert isinstance(step, Step) and isinstance(output, Output)
    assert step.logits.shape == (4, TARGET) and output.logits.shape == (4, 6, TARGET)
    if step.weights is not None:
        assert step.weights.shape == (4, 5) and output.weights.shape == (4, 6, 5)
    for parts in (memory, state, step.state):
        assert hasattr(parts, "_fields"), "memory and state must be named tuples"
        there, _ = tree_flatten(tuple(parts))
        assert all(part.shape[0] == 4 for part in there if isinstance(part, torch.Tensor)), (
            "memory and state: batch first, for a beam")
    assert type(step.state) is type(state)


@pytest.mark.parametrize("name", MODELS)
def test_a_later_word_of_the_target_changes_nothing_before_it(name):
    """Else training peeks at the word that it should predict."""
    model, (source, lengths), target = build(name), padded(ROWS), targets(4)
    before = model(source, lengths, target)
    for place in range(1, target.shape[1]):
        changed = target.clone()
        changed[:, place] = 4 + (changed[:, place] - 3) % (TARGET - 4)
        after = model(source, lengths, changed)
        assert torch.equal(after.logits[:, :place], before.logits[:, :place]), (
            f"the word at step {place} changed an earlier step: is the target shifted by one?"
        )
        assert not torch.allclose(after.logits[:, place], before.logits[:, place]), "the word is never read"


@pytest.mark.parametrize("name", MODELS)
def test_the_end_is_one_position_after_the_last_word(name):
    """`target_in` begins with START, the answer at its last real position is END."""
    model, (source, lengths) = build(name), padded([[4, 5]])
    short, longer = (torch.tensor([[START, 5, 6]]), torch.tensor([[START, 5, 6, PAD]]))
    logits = model(source, lengths, longer).logits
    assert logits.shape[1] == 4, "one score row for each position of target_in"
    torch.testing.assert_close(logits[:, :3], model(source, lengths, short).logits,
                               msg="padding of the target changed the steps before it")


# --- Rows and padding --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_padding_the_source_changes_nothing(name):
    """More padding, or something else in it, must not move a logit or a weight."""
    model, target = build(name), targets(4)
    source, lengths = padded(ROWS)
    expected = model(source, lengths, target)
    for width, filling in ((5, 7), (8, PAD), (8, 10)):
        output = model(padded(ROWS, width, filling)[0], lengths, target)
        if output.weights is not None:
            assert (output.weights[..., 5:] == 0).all(), "padding was attended: is the mask missing?"
            output = output._replace(weights=output.weights[..., :5])
        assert_same(output, expected, "padding was read: is the final state that after the last real word?")


@pytest.mark.parametrize("name", MODELS)
def test_padding_gets_no_gradient(name):
    """A padding vector that learns is a padding vector that is read."""
    model, (source, lengths), target = build(name), padded(ROWS, 9), targets(4)
    model(source, lengths, target).logits.square().sum().backward()
    assert (model.source_embedding.weight.grad[PAD] == 0).all(), "the embedding of padding got a gradient"
    assert (model.source_embedding.weight.grad[4] != 0).any()


@pytest.mark.parametrize("name", MODELS)
def test_rows_may_come_in_any_order_of_length(name):
    """The packed way returns rows sorted by length, and the sentences of a batch are mixed up."""
    rows = [[4, 5], [6, 7, 8, 9, 10], [10, 9, 8]]
    model, (source, lengths), target = build(name), padded(rows), targets(3)
    together = model(source, lengths, target)
    for i, row in enumerate(rows):
        alone = model(torch.tensor([row]), torch.tensor([len(row)]), target[i : i + 1])
        here = Output(*(None if part is None else part[i : i + 1] for part in together))
        if here.weights is not None:
            here = here._replace(weights=here.weights[..., : len(row)])
        assert_same(here, alone, f"row {i} of the batch is not sentence {i} read alone")


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(list(MODELS)), dtype=st.sampled_from(list(TOLERANCE)), more=st.integers(0, 3),
    rows=st.lists(st.lists(st.integers(4, SOURCE - 1), max_size=7), min_size=1, max_size=5),
)
def test_a_row_does_not_depend_on_its_batch(name, dtype, more, rows):
    """Whatever the lengths, and however wide the padding: a row in a batch is the row alone."""
    model, target = build(name, dtype), targets(len(rows), 3)
    source, lengths = padded(rows, max(map(len, rows)) + more or 1)
    together = model(source, lengths, target)
    for i, row in enumerate(rows):
        alone = model(*padded([row]), target[i : i + 1])
        torch.testing.assert_close(together.logits[i : i + 1], alone.logits, rtol=0, atol=TOLERANCE[dtype])
        if alone.weights is not None:
            torch.testing.assert_close(together.weights[i, :, : len(row)], alone.weights[0, :, : len(row)],
                                       rtol=0, atol=TOLERANCE[dtype])
            assert (together.weights[i, :, len(row) :] == 0).all()


@pytest.mark.parametrize("name", MODELS)
def test_an_empty_source_among_others_is_finite_and_translates_to_nothing(name):
    """A softmax over no word is NaN, and one NaN spoils the gradient of a whole batch."""
    model, (source, lengths), target = build(name), padded(ROWS), targets(4)
    output = model(source, lengths, target)
    assert output.logits.isfinite().all(), "an empty source gave NaN"
    if output.weights is not None:
        assert (output.weights[2] == 0).all(), "there is no word to weigh"
    output.logits.square().mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters()), "a gradient is NaN"
    found = greedy(model, source, lengths, max_length=5)
    assert len(found) == 4 and found[2].tokens == () and found[2].finished, "the empty row must stay in place"
    alone = greedy(model, source[3:], lengths[3:], max_length=5)
    assert found[3].tokens == alone[0].tokens, "the rows after an empty one moved"


@pytest.mark.parametrize("name", MODELS)
def test_a_batch_of_empty_sources_has_no_columns_and_works(name):
    model, target = build(name), targets(2)
    none = model(torch.zeros(2, 0, dtype=torch.int64), torch.tensor([0, 0]), target)
    some = model(torch.zeros(2, 3, dtype=torch.int64), torch.tensor([0, 0]), target)
    torch.testing.assert_close(none.logits, some.logits, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_nothing_is_kept_from_one_call_to_the_next(name):
    """A state left in the module makes results depend on what was translated before."""
    model, (source, lengths), target = build(name), padded(ROWS), targets(4)
    before = model(source, lengths, target)
    model(*padded([[7, 7, 7]]), targets(1, seed=5))
    greedy(model, source, lengths, max_length=3)
    assert torch.equal(model(source, lengths, target).logits, before.logits)


@pytest.mark.parametrize("name", MODELS)
def test_memory_and_state_can_be_reordered(name):
    """Beam search carries on some rows twice and drops others: all that a row knows must go with it."""
    model, (source, lengths), target = build(name), padded(ROWS), targets(4)
    memory, state = model.encode(source, lengths)
    state = model.step(target[:, 0], state, memory).state
    rows = torch.tensor([3, 0, 0, 1])
    expected = reorder(model.step(target[:, 1], state, memory), rows)
    found = model.step(target[rows, 1], reorder(state, rows), reorder(memory, rows))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", MODELS)
def test_a_decoded_sentence_scores_what_teacher_forcing_gives_it(name):
    model, (source, lengths) = build(name), padded(ROWS[:2])
    for row, [best] in enumerate(beam_search(model, source, lengths, width=3, max_length=8)):
        said = [*best.tokens, *([END] if best.finished else [])]
        target = torch.tensor([[START, *said[:-1]]])
        logits = model(source[row : row + 1, : lengths[row]], lengths[row : row + 1], target).logits[0]
        total = logits.log_softmax(-1)[range(len(said)), said].sum()
        assert best.score == pytest.approx(total.item(), abs=1e-5)


# --- Gradients ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_learns(name):
    """A layer that is made and never used, or cut off by a detach, stays as it was drawn."""
    model, (source, lengths), target = build(name), padded(ROWS), targets(4)
    model(source, lengths, target).logits.log_softmax(-1)[..., 5].sum().backward()
    # A bias of the keys adds one number to all scores of a query, and the softmax takes it out again.
    idle = [name for name, parameter in model.named_parameters() if not name.endswith("key_projection.bias")
            and (parameter.grad is None or not (parameter.grad.abs() > 1e-9).any())]
    assert not idle, f"without a gradient: {', '.join(idle)}"


@pytest.mark.parametrize("name", MODELS)
def test_gradients_are_those_of_finite_differences(name):
    """An operation in place that spoils what the backward pass needs would show here."""
    model = build(name, tiny=True)
    source, lengths = padded([[4, 5, 6], [], [7]])
    target = targets(3, 3)
    names, values = zip(*model.named_parameters(), strict=True)
    # The embeddings' rows are many and alike: leave them at their values, test what lies above them.
    free = [i for i, name in enumerate(names) if "embedding" not in name]

    def logits(*chosen):
        weights = dict(zip((names[i] for i in free), chosen, strict=True))
        return torch.func.functional_call(model, weights, (source, lengths, target)).logits[..., 4:7]

    values = [values[i].detach().requires_grad_() for i in free]
    assert torch.autograd.gradcheck(logits, values, fast_mode=True)


# --- Where it lives, and what it is given ------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_everything_moves_with_the_model(name):
    """A table kept as a plain attribute stays on the CPU when the model moves."""
    model = build(name).to("meta")
    held = [(key, value) for module in model.modules() for key, value in vars(module).items()
            if isinstance(value, torch.Tensor)]
    assert not held, f"tensors that are neither parameter nor buffer: {held}"
    assert all(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])


@pytest.mark.parametrize("name", MODELS)
def test_inputs_need_not_be_contiguous(name):
    """A batch that was transposed on the way."""
    model, (source, lengths), target = build(name), padded(ROWS), targets(4)
    turned = source.T.contiguous().T, lengths.repeat_interleave(2)[::2], target.T.contiguous().T
    assert not turned[0].is_contiguous() and not turned[2].is_contiguous()
    assert_same(model(*turned), model(source, lengths, target), "the layout in memory mattered")
    memory, state = model.encode(source, lengths)
    loose = tree_map_only(torch.Tensor, lambda part: torch.stack([part, part], dim=-1)[..., 0], state)
    token = target[:, 0]
    found, expected = (tree_flatten(model.step(token, known, memory))[0] for known in (loose, state))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("name", MODELS)
def test_ids_may_be_any_integers(name):
    model, (source, lengths), target = build(name), padded(ROWS), targets(4)
    assert_same(model(source.int(), lengths.int(), target.int()), model(source, lengths, target), "int32")


@pytest.mark.parametrize("name", MODELS)
def test_lengths_may_be_small_integers(name):
    """An unsigned length of 0, less one, is 255."""
    model, (source, lengths), target = build(name), padded(ROWS), targets(4)
    for dtype in (torch.uint8, torch.int8, torch.int16):
        assert_same(model(source, lengths.to(dtype), target), model(source, lengths, target), str(dtype))


@pytest.mark.parametrize("name", MODELS)
def test_mixed_precision_gives_nearly_the_same(name):
    """Under autocast some layers compute in half precision, and all parts must still fit together."""
    model, (source, lengths), target = build(name, torch.float32), padded(ROWS), targets(4)
    expected = model(source, lengths, target).logits
    # Without oneDNN: on processors without bfloat16 its LSTM refuses to run.
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(source, lengths, target).logits
        by_steps = by_step(model, source, lengths, target).logits
    near = 0.15 * max(1.0, expected.std().item())
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=near)
    torch.testing.assert_close(by_steps.float(), expected, rtol=0, atol=near)


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_model_loads_without_trusting_the_file(name):
    """The default `torch.load` opens tensors and plain containers only."""
    model, file = build(name), io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    other = build(name, seed=1)
    other.load_state_dict(torch.load(file, weights_only=True))
    inputs = (*padded(ROWS), targets(4))
    assert torch.equal(model(*inputs).logits, other(*inputs).logits)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_can_be_pickled_and_copied(name):
    """A lambda inside would break workers that are spawned."""
    model, inputs = build(name), (*padded(ROWS), targets(4))
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert torch.equal(model(*inputs).logits, other(*inputs).logits)


GOOD = {"source": padded(ROWS)[0], "lengths": padded(ROWS)[1], "target": targets(4)}
BAD = [
    ("source", lambda x: x.float(), TypeError, ["source", "float32", "integer"]),
    ("source", lambda x: x > 5, TypeError, ["source", "bool", "integer"]),
    ("source", lambda x: x.to(torch.uint8), TypeError, ["source", "uint8", "torch.int64 or torch.int32"]),
    ("source", lambda x: x.cfloat(), TypeError, ["source", "complex64", "integer"]),
    ("source", lambda x: x.tolist(), TypeError, ["source", "list", "integer"]),
    ("lengths", lambda x: x.tolist(), TypeError, ["lengths", "list", "integers"]),
    ("source", lambda x: x[0], ValueError, ["source", "(5,)", "(batch, source)"]),
    ("source", lambda x: x + 7, ValueError, ["source", "17", "11", "0 to 10"]),
    ("source", lambda x: x - 1, ValueError, ["source", "-1", "0 to 10"]),
    ("lengths", lambda x: x.float(), TypeError, ["lengths", "float32", "integers"]),
    ("lengths", lambda x: x[:3], ValueError, ["lengths", "(3,)", "4 rows"]),
    ("lengths", lambda x: x[:, None], ValueError, ["lengths", "(4, 1)", "4 rows"]),
    ("lengths", lambda x: x + 1, ValueError, ["lengths", "6", "5"]),
    ("lengths", lambda x: x - 1, ValueError, ["lengths", "-1", "5"]),
    ("target", lambda x: x.double(), TypeError, ["target", "float64", "integer"]),
    ("target", lambda x: x[0], ValueError, ["target", "(6,)", "(batch, target)"]),
    ("target", lambda x: x[:2], ValueError, ["target", "2 rows", "4"]),
    ("target", lambda x: x[:, :0], ValueError, ["target", "start symbol"]),
    ("target", lambda x: x + 9, ValueError, ["target", "13", "0 to 12"]),
]


@pytest.mark.parametrize(("argument", "change", "error", "words"), BAD)
@pytest.mark.parametrize("name", KINDS)
def test_bad_input_is_named(name, argument, change, error, words):
    """Not an index error ten frames deeper, nor an assertion on a device."""
    with pytest.raises(error) as caught:
        build(name)(*{**GOOD, argument: change(GOOD[argument])}.values())
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_padding_of_the_tests_is_that_of_the_framework():
    source, _ = padded([[4, 5], [6]])
    assert torch.equal(source, pad_sequence([torch.tensor([4, 5]), torch.tensor([6])], batch_first=True))
