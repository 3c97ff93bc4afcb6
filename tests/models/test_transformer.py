"""The Transformer: the framework's layers weight for weight, the paper's sizes, and what may not see what."""

import itertools
import math
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attncourse.attention import (
    Alibi,
    KeysValues,
    LearnedPositions,
    MultiHeadAttention,
    Rotary,
    SoftmaxRead,
    padding_mask,
)
from attncourse.data.vocabulary import END, PAD, START
from attncourse.decoding import beam_search, greedy
from attncourse.models import BASE, BIG, Maps, Transformer
from attncourse.models.transformer import NORMS, DecoderLayer, Encoder, EncoderLayer, Residual

WIDTH, HEADS, INNER, WORDS = 8, 2, 12, 13
ROWS = [[4, 5, 6, 7, 8], [9, 10], [5, 4, 7]]
# Every way to tell it the order of words.
POSITIONS = {
    "sinusoid": {},
    "learned": {"positions": partial(LearnedPositions, longest=256)},
    "rotary": {"positions": None, "inside": Rotary(), "between": Rotary()},
    "rotary inside": {"positions": None, "inside": Rotary()},
    "alibi": {"positions": None, "inside": Alibi(), "between": Alibi()},
    "none": {"positions": None},
}
EVERY_NORM = pytest.mark.parametrize("norm", NORMS)
EVERY_KIND = pytest.mark.parametrize("positions", POSITIONS)


def shaken(module: nn.Module, dtype=torch.float64) -> nn.Module:
    """Biases, gains and shifts that are not 0, 1 and 0, or a missing or swapped one would not be seen."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return module.to(dtype)


def build(dtype=torch.float64, **options) -> Transformer:
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "heads": HEADS, "layers": 2, "inner": INNER, "dropout": 0.0}
    chosen = POSITIONS[options.pop("positions", "sinusoid")]
    return shaken(Transformer(WORDS, WORDS, **{**sizes, **chosen, **options}), dtype)


def padded(rows=ROWS):
    lengths = torch.tensor([len(row) for row in rows])
    source = torch.full((len(rows), int(lengths.max())), PAD)
    for i, row in enumerate(rows):
        source[i, : len(row)] = torch.tensor(row)
    return source, lengths


def targets(batch=3, length=6):
    words = torch.randint(4, WORDS, (batch, length - 1), generator=torch.Generator().manual_seed(2))
    return torch.cat([torch.full((batch, 1), START), words], dim=1)


def data(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def seen(module: nn.Module, call):
    """What goes into a module, and what comes out of it, while `call` runs."""
    found = []
    handle = module.register_forward_hook(lambda _, given, output: found.append((given[0], output)))
    call()
    handle.remove()
    return found[-1]


# --- The framework's layers, weight for weight -------------------------------------------------------------


def copy(ours: nn.Module, theirs: nn.Module) -> None:
    ours.load_state_dict(theirs.state_dict())


def take_encoder(ours: EncoderLayer, theirs: nn.TransformerEncoderLayer) -> EncoderLayer:
    ours.attention = MultiHeadAttention.from_torch(theirs.self_attn)
    first, _, _, second = ours.feed_forward
    copy(first, theirs.linear1), copy(second, theirs.linear2)
    copy(ours.around_attention.norm, theirs.norm1), copy(ours.around_feed_forward.norm, theirs.norm2)
    return ours


def take_decoder(ours: DecoderLayer, theirs: nn.TransformerDecoderLayer) -> DecoderLayer:
    ours.inside = MultiHeadAttention.from_torch(theirs.self_attn)
    ours.between = MultiHeadAttention.from_torch(theirs.multihead_attn)
    first, _, _, second = ours.feed_forward
    copy(first, theirs.linear1), copy(second, theirs.linear2)
    copy(ours.around_inside.norm, theirs.norm1), copy(ours.around_between.norm, theirs.norm2)
    copy(ours.around_feed_forward.norm, theirs.norm3)
    return ours


def torch_layer(kind, norm, **options):
    options = {"dim_feedforward": INNER, "dropout": 0.0, "batch_first": True, **options}
    return shaken(kind(WIDTH, HEADS, norm_first=norm == "pre", **options))


def hidden_future(count):
    """The framework's causal mask, where True hides."""
    return ~torch.ones(count, count, dtype=torch.bool).tril()


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize(("activation", "epsilon"), [("relu", 1e-5), ("gelu", 1e-12)])
@EVERY_NORM
def test_an_encoder_layer_is_the_framework_s(norm, activation, epsilon, need_weights):
    """Outputs and gradients, with padding; the activation and epsilon of a pretrained encoder too."""
    theirs = torch_layer(nn.TransformerEncoderLayer, norm, activation=activation, layer_norm_eps=epsilon)
    activation = {"relu": nn.ReLU, "gelu": nn.GELU}[activation]
    ours = EncoderLayer(WIDTH, HEADS, INNER, dropout=0.0, norm=norm, activation=activation, epsilon=epsilon)
    ours, mask = take_encoder(ours.double(), theirs), padding_mask(torch.tensor([5, 3]), 5)
    x = data(2, 5, WIDTH).requires_grad_()
    found, weights = ours(x, mask, need_weights=need_weights)
    expected = theirs(x, src_key_padding_mask=~mask[:, 0])
    torch.testing.assert_close(found, expected, msg=lambda text: (
        f"{norm}-norm: where do the norms stand, is something missing from a residual?\n{text}"))
    gradients = [torch.autograd.grad(out.square().sum(), x, retain_graph=True) for out in (found, expected)]
    torch.testing.assert_close(*gradients)
    assert (weights is not None) == need_weights


@EVERY_NORM
def test_a_decoder_layer_is_the_framework_s(norm):
    """Attention inside the target first, then between; the source's padding hidden, the future too."""
    theirs = torch_layer(nn.TransformerDecoderLayer, norm)
    ours = take_decoder(DecoderLayer(WIDTH, HEADS, INNER, dropout=0.0, norm=norm).double(), theirs)
    x, source, mask = data(2, 4, WIDTH), data(2, 5, WIDTH, seed=2), padding_mask(torch.tensor([5, 3]), 5)
    x.requires_grad_(), source.requires_grad_()
    read = ours.between.keys_values(source, source)
    nothing = KeysValues(*(data(2, HEADS, 0, WIDTH // HEADS) for _ in range(2)))
    found, cache, own, between = ours(x, nothing, read, mask, need_weights=True)
    expected = theirs(x, source, tgt_mask=hidden_future(4), memory_key_padding_mask=~mask[:, 0])
    torch.testing.assert_close(found, expected, msg=lambda text: (
        f"{norm}-norm: the order of the sub-layers, of the norms, or a residual?\n{text}"))
    gradients = [torch.autograd.grad(out.square().sum(), [x, source], retain_graph=True)
                 for out in (found, expected)]
    torch.testing.assert_close(*gradients)
    assert cache.keys.shape == cache.values.shape == (2, HEADS, 4, WIDTH // HEADS)
    assert own.shape == (2, HEADS, 4, 4) and between.shape == (2, HEADS, 4, 5)


@EVERY_NORM
def test_a_stack_is_the_framework_s(norm):
    """With pre-norm a last norm follows the last layer; with post-norm it has had its own."""
    last = nn.LayerNorm(WIDTH) if norm == "pre" else None
    theirs = shaken(nn.TransformerEncoder(
        torch_layer(nn.TransformerEncoderLayer, norm), 3, norm=last, enable_nested_tensor=False))
    ours = Encoder(3, WIDTH, HEADS, INNER, norm=norm, dropout=0.0).double()
    for layer, their_layer in zip(ours.layers, theirs.layers, strict=True):
        take_encoder(layer, their_layer)
    if last:
        copy(ours.norm, theirs.norm)
    x, mask = data(2, 5, WIDTH), padding_mask(torch.tensor([5, 3]), 5)
    torch.testing.assert_close(ours(x, mask)[0], theirs(x, src_key_padding_mask=~mask[:, 0]))


@EVERY_NORM
def test_the_whole_model_is_the_framework_s_between_two_embeddings(norm):
    """sqrt(d) times the embedding plus the position, both stacks, dot products with the target embeddings."""
    model, (source, lengths), target = build(norm=norm), padded(), targets()
    last = (nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)) if norm == "pre" else (None, None)
    encoder = nn.TransformerEncoder(
        torch_layer(nn.TransformerEncoderLayer, norm), 2, norm=last[0], enable_nested_tensor=False)
    decoder = nn.TransformerDecoder(torch_layer(nn.TransformerDecoderLayer, norm), 2, norm=last[1])
    shaken(encoder), shaken(decoder)
    for i in range(2):
        take_encoder(model.encoder.layers[i], encoder.layers[i])
        take_decoder(model.decoder[i], decoder.layers[i])
    if norm == "pre":
        copy(model.encoder.norm, encoder.norm), copy(model.decoder_norm, decoder.norm)
    x, y = (math.sqrt(WIDTH) * table(words) + model.positions(words.shape[1]) for table, words in
            ((model.source_embedding, source), (model.target_embedding, target)))
    hidden = ~padding_mask(lengths, 5)[:, 0]
    read = encoder(x, src_key_padding_mask=hidden)
    out = decoder(y, read, tgt_mask=hidden_future(6), memory_key_padding_mask=hidden)
    expected = out @ model.target_embedding.weight.T
    torch.testing.assert_close(model(source, lengths, target).logits, expected)


# --- The paper's sizes -------------------------------------------------------------------------------------


def parameters(words, width, layers, inner):
    """Table 3's columns, multiplied out: each matrix with its bias, each norm with a gain and a shift."""
    attention = 4 * (width * width + width)
    feed_forward = (width * inner + inner) + (inner * width + width)
    norm = 2 * width
    encoder = attention + feed_forward + 2 * norm
    decoder = 2 * attention + feed_forward + 3 * norm
    return words * width + layers * (encoder + decoder)


@pytest.mark.parametrize(("size", "exactly", "paper", "near"), [
    (BASE, 63_082_496, 65e6, 0.03), (BIG, 214_245_376, 213e6, 0.01),
], ids=["base", "big"])
def test_the_sizes_of_the_paper(size, exactly, paper, near):
    """With 37,000 words for both languages, as for English and German; the paper rounds to millions."""
    with torch.device("meta"):
        model = Transformer(37_000, 37_000, shared=True, **size)
    found = sum(parameter.numel() for parameter in model.parameters())
    assert found == parameters(37_000, size["width"], size["layers"], size["inner"]) == exactly
    assert found == pytest.approx(paper, rel=near)
    assert model.encoder.layers[0].attention.head_width == 64, "d_k = d_v = 64 in both sizes"


def test_a_final_norm_is_all_that_pre_norm_adds():
    count = {norm: sum(p.numel() for p in build(norm=norm).parameters()) for norm in NORMS}
    assert count["pre"] - count["post"] == 2 * (2 * WIDTH)


def test_the_middle_is_four_times_as_wide_if_not_given():
    assert Transformer(WORDS, WORDS, width=8, heads=2).encoder.layers[0].feed_forward[0].out_features == 32


@pytest.mark.parametrize("shared", [False, True])
def test_the_embeddings_are_one_matrix_where_the_paper_has_one(shared):
    """The output scores are dot products with the target embeddings: move one word, one score moves."""
    model, (source, lengths), target = build(shared=shared), padded(), targets()
    assert (model.source_embedding is model.target_embedding) == shared
    tables = [p for p in model.parameters() if p.shape == (WORDS, WIDTH)]
    assert len(tables) == (1 if shared else 2), "a matrix that should be shared is there twice"
    before = model(source, lengths, target).logits
    with torch.no_grad():
        model.target_embedding.weight[3] += 1.0  # a word that nobody reads
    moved = (model(source, lengths, target).logits - before).abs() > 1e-6
    assert moved[..., 3].all() and not moved[..., :3].any() and not moved[..., 4:].any()


@pytest.mark.parametrize("shared", [False, True])
def test_a_seed_gives_one_model(shared):
    """In an order that depends on where objects lie in memory, the draws would change from run to run."""
    models = []
    for _ in range(8):
        torch.manual_seed(5)
        models.append(Transformer(WORDS, WORDS, width=4, heads=2, layers=1, shared=shared).state_dict())
    for other in models[1:]:
        assert all(torch.equal(models[0][name], other[name]) for name in other)


def test_scaled_embeddings_start_with_variance_one():
    """As large as the positions, whose squares have mean 1/2: neither drowns the other."""
    torch.manual_seed(0)
    model = Transformer(2000, 2000, width=64, dropout=0.0)
    for table in (model.source_embedding, model.target_embedding):
        assert (8 * table.weight).std().item() == pytest.approx(1, abs=0.01)


# --- What enters -------------------------------------------------------------------------------------------


def entered(model, source, target):
    """The vectors that the two stacks read."""
    lengths = torch.full((len(source),), source.shape[1])
    call = lambda: model(source, lengths, target)  # noqa: E731
    decoder = []
    handle = model.decoder[0].register_forward_pre_hook(lambda _, given: decoder.append(given[0]))
    encoder = seen(model.encoder, call)[0]
    handle.remove()
    return encoder, decoder[0]


def test_words_are_scaled_by_the_root_of_the_width_and_positions_are_not():
    """Width 4, an embedding of ones: 2 + sin 0, 2 + cos 0, and so on."""
    model = build(width=4)
    nn.init.ones_(model.source_embedding.weight), nn.init.ones_(model.target_embedding.weight)
    for x in entered(model, *torch.full((2, 1, 1), 5)):
        assert x.flatten().tolist() == [2, 3, 2, 3], "2 (1, 1, 1, 1) + (0, 1, 0, 1)"


def test_a_position_is_added_along_the_words_not_along_the_batch():
    """A table added over the wrong axis gives each sentence its own vector, and each word the same."""
    model = build(width=4)
    nn.init.zeros_(model.source_embedding.weight), nn.init.zeros_(model.target_embedding.weight)
    for x in entered(model, *torch.full((2, 2, 3), 5)):
        assert x.shape == (2, 3, 4)
        assert torch.equal(x[0], x[1]), "the position depends on the row of the batch"
        assert (x[:, 1] != x[:, 0]).any() and torch.equal(x[0, 0], torch.tensor([0.0, 1, 0, 1]).double())


@pytest.mark.parametrize("norm", NORMS)
def test_without_positions_it_cannot_order_words(norm):
    """Shuffle the source: every logit stays, and the weights go with their words."""
    model, order = build(norm=norm, positions="none"), torch.tensor([3, 0, 4, 1, 2])
    source, lengths, target = torch.tensor([[4, 5, 6, 7, 8]]), torch.tensor([5]), targets(1)
    before, after = (model(words, lengths, target) for words in (source, source[:, order]))
    torch.testing.assert_close(after.logits, before.logits)
    torch.testing.assert_close(after.weights, before.weights[..., order])


@pytest.mark.parametrize("positions", [kind for kind in POSITIONS if kind != "none"])
def test_with_positions_of_any_kind_it_can(positions):
    """Else "dog bites man" is "man bites dog"."""
    model, lengths, target = build(positions=positions), torch.tensor([5]), targets(1)
    source, order = torch.tensor([[4, 5, 6, 7, 8]]), torch.tensor([3, 0, 4, 1, 2])
    moved = (model(source, lengths, target).logits - model(source[:, order], lengths, target).logits).abs()
    least = 0.001 if positions == "alibi" else 0.01  # two heads take off 1/16 and 1/256 a place, no more
    assert moved.max() > least, f"{positions}: the order of the source changes nothing"


def test_positions_between_target_and_source_are_a_choice():
    """"rotary inside" turns nothing between the two: its memory holds the keys as they were projected."""
    plain = {}
    for positions in ("rotary", "rotary inside"):
        model, (source, lengths) = build(positions=positions), padded()
        attentions = [layer.attention for layer in model.encoder.layers]
        attentions += [layer.inside for layer in model.decoder]
        assert all(isinstance(attention.positions, Rotary) for attention in attentions)
        states, _ = seen(model.encoder, lambda model=model: model.encode(*padded()))[1]
        keys = model.decoder[0].between.key_projection(states).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        plain[positions] = torch.allclose(model.encode(source, lengths)[0].layers[0].keys, keys)
    assert plain == {"rotary": False, "rotary inside": True}


@pytest.mark.parametrize("long", ["source", "target", "step"])
def test_a_sentence_longer_than_the_learned_positions_is_named(long):
    """Both numbers, wherever it happens; a sinusoid has no end."""
    model, words = shaken(Transformer(WORDS, WORDS, width=WIDTH, heads=HEADS, positions=partial(
        LearnedPositions, longest=5))), torch.full((1, 7), 4)
    short = words[:, :5]
    with pytest.raises(ValueError) as caught:
        if long == "step":
            memory, state = model.encode(short, torch.tensor([5]))
            for _ in range(6):
                state = model.step(torch.tensor([4]), state, memory).state
        else:
            source, target = (words, short) if long == "source" else (short, words)
            model(source, torch.tensor([source.shape[1]]), target)
    words = {
        "source": ["source has 7 positions", "longest is 5", "row 0 has 7 words"],
        "target": ["7 positions", "5 were learned", "longest"],
        "step": ["6 positions", "5 were learned", "longest"],
    }[long]
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert model(short, torch.tensor([5]), short).logits.isfinite().all(), "five are not too many"
    assert build()(torch.full((1, 400), 4), torch.tensor([400]), short).logits.isfinite().all()


# --- Norms and residuals -----------------------------------------------------------------------------------


def test_a_layer_norm_by_hand():
    """[2, 4] has mean 3 and standard deviation 1."""
    x, out = torch.tensor([2.0, 4.0]), torch.tensor([10.0, 0.0])
    post, pre = Residual(2, 0.0, "post", 1e-5), Residual(2, 0.0, "pre", 1e-5)
    normed = torch.tensor([-1.0, 1.0])
    torch.testing.assert_close(pre.before(x), normed, rtol=0, atol=1e-4)
    assert torch.equal(pre.after(x, out), x + out), "pre-norm leaves the sum as it is"
    assert torch.equal(post.before(x), x), "post-norm lets the sub-layer read x itself"
    torch.testing.assert_close(post.after(x, torch.zeros(2)), normed, rtol=0, atol=1e-4)
    torch.testing.assert_close(post.after(x, out), -normed, rtol=0, atol=1e-4, msg="it norms the sum")


@EVERY_NORM
def test_the_encoder_s_vectors_have_mean_0_and_variance_1_at_the_start(norm):
    """Without its last norm a pre-norm stack would hand on a sum that grows with every layer."""
    torch.manual_seed(0)
    model = Transformer(WORDS, WORDS, width=32, layers=4, norm=norm, dropout=0.0)
    x = seen(model.encoder, lambda: model.encode(*padded()))[1][0]
    torch.testing.assert_close(x.mean(-1), torch.zeros(3, 5), rtol=0, atol=1e-5)
    torch.testing.assert_close(x.var(-1, unbiased=False), torch.ones(3, 5), rtol=0, atol=1e-3)


@EVERY_NORM
def test_a_sub_layer_that_says_nothing_changes_nothing(norm):
    """Set its last matrix to 0: what is left is the residual, x itself or its norm."""
    layer = EncoderLayer(WIDTH, HEADS, INNER, dropout=0.0, norm=norm)
    for last in (layer.attention.output_projection, layer.feed_forward[3]):
        nn.init.zeros_(last.weight), nn.init.zeros_(last.bias)
    x = data(2, 5, WIDTH).float()
    expected = x if norm == "pre" else F.layer_norm(x, (WIDTH,))
    torch.testing.assert_close(layer(x)[0], expected, rtol=0, atol=1e-4)


# --- Who sees what -----------------------------------------------------------------------------------------


@EVERY_NORM
@EVERY_KIND
def test_no_gradient_comes_from_a_later_word(positions, norm):
    """Exactly 0: for each logit, from the embeddings of the target words after it; and not 0 before."""
    model, (source, lengths), target = build(positions=positions, norm=norm), padded(), targets()
    words = []
    model.target_embedding.register_forward_hook(lambda _, given, out: words.append(out.requires_grad_()))
    logits = model(source, lengths, target).logits
    for t in range(6):
        [gradient] = torch.autograd.grad(logits[:, t].square().sum(), words[0], retain_graph=True)
        assert (gradient[:, t + 1 :] == 0).all(), f"the logits of step {t} see a later word"
        assert (gradient[:, : t + 1] != 0).any(-1).all(), f"step {t} does not see all words before it"


@EVERY_NORM
@EVERY_KIND
def test_no_gradient_comes_from_padding_or_another_sentence(positions, norm):
    """Exactly 0, in both attentions that read the source."""
    model, (source, lengths), target = build(positions=positions, norm=norm), padded(), targets()
    words = []
    model.source_embedding.register_forward_hook(lambda _, given, out: words.append(out.requires_grad_()))
    logits = model(source, lengths, target).logits
    for row, length in enumerate(lengths.tolist()):
        [gradient] = torch.autograd.grad(logits[row].square().sum(), words[0], retain_graph=True)
        assert (gradient[row, length:] == 0).all(), "padding was read"
        assert (gradient[row, :length] != 0).any(-1).all(), "a word was not read"
        assert (gradient[torch.arange(3) != row] == 0).all(), "another sentence was read"


@pytest.mark.parametrize("batch", [3, 5])
def test_samples_of_a_batch_do_not_see_each_other(batch):
    """Five sentences of five words: where the two axes are one number, swapping them raises no error."""
    model, target = build(), targets(batch, 5)
    source = torch.arange(batch * 5).reshape(batch, 5) % 9 + 4
    together = model(source, torch.full((batch,), 5), target)
    for i in range(batch):
        alone = model(source[i : i + 1], torch.tensor([5]), target[i : i + 1])
        torch.testing.assert_close(together.logits[i : i + 1], alone.logits)
        torch.testing.assert_close(together.weights[i : i + 1], alone.weights)


@torch.no_grad()
@EVERY_NORM
@EVERY_KIND
def test_decoding_with_a_cache_is_the_whole_pass(positions, norm):
    """Thirty words, one after the other, in float32: each new word at its own place."""
    model, (source, lengths) = build(torch.float32, positions=positions, norm=norm), padded()
    target = targets(length=30)
    whole, (memory, state) = model(source, lengths, target), model.encode(source, lengths)
    for t in range(30):
        logits, state, weights = model.step(target[:, t], state, memory)
        torch.testing.assert_close(logits, whole.logits[:, t], rtol=0, atol=1e-5, msg=lambda text, t=t: (
            f"step {t}: which place has the new word, in what order is the cache?\n{text}"))
        torch.testing.assert_close(weights, whole.weights[:, t], rtol=0, atol=1e-5)
    for cache in state.layers:
        assert cache.keys.shape == cache.values.shape == (3, HEADS, 30, WIDTH // HEADS)


@torch.no_grad()
def test_a_memory_in_which_nothing_is_hidden_has_no_mask():
    """One sentence alone: each step would ask the mask of every layer for nothing."""
    model, (source, lengths), target = build(), padded(), targets()
    assert model.encode(source, lengths)[0].mask is not None
    memory, state = model.encode(source[:1], lengths[:1])
    assert memory.mask is None
    step = model.step(target[:1, 0], state, memory)
    expected = model(source, lengths, target)
    torch.testing.assert_close(step.logits, expected.logits[:1, 0])
    torch.testing.assert_close(step.weights, expected.weights[:1, 0])


def test_decoding_stops_where_the_learned_places_end():
    """The whole call would be lost for the one sentence that grows too long."""
    places = partial(LearnedPositions, longest=6)
    model = shaken(Transformer(WORDS, WORDS, width=WIDTH, heads=HEADS, positions=places))
    assert model.longest_source == model.longest_target == 6 and build().longest_target is None
    with torch.no_grad():
        model.target_embedding.weight[END] = 0.0  # never the best
    source, lengths = padded()
    for found in (greedy(model, source, lengths), [best for best, *_ in beam_search(model, source, lengths)]):
        assert all(len(each.tokens) <= 6 for each in found)
        assert any(not each.finished for each in found), "this model ends, and tests nothing"


def test_the_source_is_projected_once_however_long_the_target():
    model, (source, lengths) = build(), padded()
    calls = []
    for layer in model.decoder:
        layer.between.key_projection.register_forward_hook(lambda *_: calls.append("key"))
        layer.between.value_projection.register_forward_hook(lambda *_: calls.append("value"))
    memory, state = model.encode(source, lengths)
    for token in targets().unbind(1):
        state = model.step(token, state, memory).state
    assert calls == ["key", "value"] * 2, f"{len(calls)} projections of the source for 6 words and 2 layers"


# --- Maps --------------------------------------------------------------------------------------------------


@EVERY_NORM
@EVERY_KIND
def test_the_maps_show_every_layer_and_head(positions, norm):
    model, (source, lengths), target = build(positions=positions, norm=norm, layers=3), padded(), targets()
    maps = model.attention_maps(source, lengths, target)
    assert isinstance(maps, Maps)
    shapes = {"source": (5, 5), "target": (6, 6), "between": (6, 5)}
    for name, shape in shapes.items():
        weights = getattr(maps, name)
        assert weights.shape == (3, 3, HEADS, *shape), f"{name}: (batch, layers, heads, queries, keys)"
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=torch.float64))
    for row, length in enumerate(lengths.tolist()):
        assert (maps.source[row, ..., length:] == 0).all() and (maps.between[row, ..., length:] == 0).all()
        assert (maps.source[row, ..., :length] > 0).all() and (maps.between[row, ..., :length] > 0).all()
    assert torch.equal(maps.target != 0, torch.ones(6, 6, dtype=torch.bool).tril().expand_as(maps.target))
    layers = maps.between.unbind(1)
    assert all((one - other).abs().max() > 1e-3 for one, other in itertools.pairwise(layers))
    weights = model(source, lengths, target).weights
    torch.testing.assert_close(layers[-1].mean(1), weights, msg="`forward` shows the last layer's mean head")


@EVERY_NORM
def test_looking_changes_nothing(norm):
    """The maps are those of the model that translates: same vectors before the last matrix."""
    model, inputs = build(norm=norm), (*padded(), targets())
    fused, explicit = (seen(model.decoder_norm, lambda call=call: call(*inputs))[1]
                       for call in (model, model.attention_maps))
    torch.testing.assert_close(explicit, fused, rtol=0, atol=1e-10)


def test_the_maps_are_free_of_dropout():
    """In training too: rows sum to 1, and nothing visible is missing."""
    model, (source, lengths), target = build(dropout=0.5).train(), padded([[4, 5, 6], [7, 8, 9]]), targets(2)
    maps = model.attention_maps(source, lengths, target)
    for name, weights in maps._asdict().items():
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=torch.float64))
        visible = weights[..., torch.ones(weights.shape[-2:]).tril().bool()] if name == "target" else weights
        assert (visible > 0).all(), f"{name}: a weight is missing"
    weights = model(source, lengths, target).weights
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 6, dtype=torch.float64))


def test_dropout_acts_in_training_and_at_every_place_of_the_paper():
    """On the sums of embedding and position, on each sub-layer, in the middle, and on the weights."""
    model, inputs = build(dropout=0.3), (*padded(), targets())
    expected = model.eval()(*inputs).logits
    assert torch.equal(model(*inputs).logits, expected), "dropout in evaluation"
    places = [(module, "p") for module in model.modules() if isinstance(module, nn.Dropout)]
    assert len(places) == 1 + 2 * (2 + 1) + 2 * (3 + 1), "input; 2 or 3 sub-layers and a middle in each layer"
    places += [(module, "dropout") for module in model.modules() if isinstance(module, SoftmaxRead)]
    assert [getattr(*place) for place in places] == [0.3] * len(places)
    for module, _ in places:  # each alone
        module.train()
        assert not torch.allclose(model(*inputs).logits, expected), f"nothing is dropped by {module}"
        module.eval()


# --- Where it lives, and what it is given ------------------------------------------------------------------


@EVERY_KIND
def test_everything_moves_with_the_model(positions):
    """Positions, masks and caches too: nothing is made on the CPU while it runs elsewhere."""
    model = build(positions=positions).to("meta")
    assert all(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])
    x = torch.zeros(2, 3, WIDTH, dtype=torch.float64, device="meta")
    assert model._placed(x, first=2).is_meta
    states, _ = model.encoder(x, torch.ones(2, 1, 3, dtype=torch.bool, device="meta"))
    layer = model.decoder[0]
    known = layer.between.keys_values(states, states)
    nothing = KeysValues(known.keys[..., :0, :], known.values[..., :0, :])
    assert all(part.is_meta for part in [*layer(x, nothing, known, need_weights=True)[1][:2], states])


@pytest.mark.parametrize(("options", "words"), [
    ({"norm": "both"}, ["norm", "'both'", "post, pre"]),
    ({"heads": 3}, ["width 8", "heads = 3", "1, 2, 4, 8"]),
    ({"heads": 8, "inside": Rotary()}, ["width 8", "heads = 8", "even"]),
    ({"shared": True, "target_vocabulary": 14}, ["shared", "13", "14", "one vocabulary"]),
])
def test_choices_that_cannot_work_are_named(options, words):
    with pytest.raises(ValueError) as caught:
        Transformer(WORDS, **{"target_vocabulary": WORDS, "width": 8, "heads": 2, **options})
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("layer", [EncoderLayer, DecoderLayer])
def test_a_layer_names_an_unknown_norm(layer):
    with pytest.raises(ValueError, match="norm is 'none': choose from post, pre"):
        layer(WIDTH, HEADS, INNER, norm="none")


# --- Learning, and numbers that may not move ---------------------------------------------------------------


@EVERY_NORM
def test_it_learns_one_batch_by_heart(norm):
    """Copy four rows: a model that cannot has a mask, a shift or a residual wrong."""
    torch.manual_seed(0)
    model = Transformer(WORDS, WORDS, width=16, heads=2, layers=1, dropout=0.0, norm=norm)
    source = torch.tensor([[4, 5, 6, 7], [7, 6, 5, 4], [8, 4, 8, 5], [5, 5, 9, 4]])
    target = torch.cat([torch.full((4, 1), START), source[:, :-1]], dim=1)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(60):
        logits = model(source, torch.full((4,), 4), target).logits
        loss = F.cross_entropy(logits.flatten(0, 1), source.flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.1, f"the loss is still {loss.item():.2f}"


def golden(norm) -> Transformer:
    model = Transformer(7, 6, width=4, heads=2, layers=1, inner=3, dropout=0.0, norm=norm).double()
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            values = 0.7 * (torch.linspace(-5, 7, parameter.numel()) + i).sin()
            parameter.copy_(values.reshape(parameter.shape))
    return model


@EVERY_NORM
def test_golden_values(norm):
    """Weights from a formula, padding in the batch: the numbers may not move from one version to the next."""
    source, lengths = torch.tensor([[4, 5, 6], [5, PAD, PAD]]), torch.tensor([3, 1])
    output = golden(norm)(source, lengths, torch.tensor([[START, 4], [START, 5]]))
    expected = torch.tensor(LOGITS[norm], dtype=torch.float64)
    torch.testing.assert_close(output.logits, expected, rtol=0, atol=1e-4)
    expected = torch.tensor(WEIGHTS[norm], dtype=torch.float64)
    torch.testing.assert_close(output.weights, expected, rtol=0, atol=1e-4)


LOGITS = {
    "post": [
        [[0.75019, -1.17154, 0.40623, 0.77056, -1.16684, 0.38122],
         [0.74493, -1.18292, 0.42271, 0.76566, -1.17849, 0.39761]],
        [[0.74240, -1.17806, 0.42045, 0.76304, -1.17364, 0.39545],
         [0.70117, -1.20265, 0.48595, 0.72297, -1.19959, 0.46113]],
    ],
    "pre": [
        [[0.81478, -0.88861, 0.06236, 0.82706, -0.87874, 0.04034],
         [0.72219, -0.87015, 0.13672, 0.73519, -0.86242, 0.11609]],
        [[0.81728, -0.88309, 0.05441, 0.82939, -0.87309, 0.03243],
         [0.06786, -0.43262, 0.35918, 0.07808, -0.43625, 0.35254]],
    ],
}
WEIGHTS = {
    "post": [[[0.37130, 0.32043, 0.30827], [0.29701, 0.34458, 0.35841]], [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]],
    "pre": [[[0.18085, 0.32958, 0.48958], [0.18553, 0.33010, 0.48437]], [[1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]],
}
