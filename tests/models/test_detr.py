"""DETR: Hugging Face's model weight for weight, and what queries, cells and images may not know."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attncourse.attention import GridPositions, SoftmaxRead
from attncourse.boxes import Objects
from attncourse.models import DETR, CellBackbone, Detected, DetectionMaps, answers, match, set_loss
from attncourse.models.detr import QueryLayer
from attncourse.models.transformer import NORMS, Encoder, EncoderLayer

WIDTH, HEADS, INNER, QUERIES, CLASSES, FEATURES = 8, 2, 12, 5, 3, 6
EVERY_NORM = pytest.mark.parametrize("norm", NORMS)


def shaken(module: nn.Module, dtype=torch.float64) -> nn.Module:
    """Biases, gains and statistics that are not 0 and 1, or a missing or swapped one would not be seen."""
    torch.manual_seed(0)
    with torch.no_grad():
        for name, tensor in module.state_dict().items():
            if "running_var" in name:
                tensor.mul_(torch.rand_like(tensor) + 0.5)
            elif tensor.is_floating_point():
                tensor.add_(torch.randn_like(tensor) * 0.3)
    return module.to(dtype).eval()


def build(dtype=torch.float64, backbone=None, **options) -> DETR:
    torch.manual_seed(0)
    sizes = {"width": WIDTH, "heads": HEADS, "encoder_layers": 2, "decoder_layers": 3, "inner": INNER,
             "queries": QUERIES, "dropout": 0.0}
    backbone = CellBackbone(FEATURES, CLASSES) if backbone is None else backbone
    return shaken(DETR(backbone, FEATURES, CLASSES, **{**sizes, **options}), dtype)


def images(batch=2, height=24, width=30, channels=1, seed=1):
    """24 x 30 pixels are 4 x 5 cells."""
    random = torch.Generator().manual_seed(seed)
    return torch.rand(batch, channels, height, width, generator=random, dtype=torch.float64)


def grid(batch=2, rows=3, columns=4, seed=1):
    """Features of cells, for a model whose backbone hands on what it gets."""
    return images(batch, rows, columns, FEATURES, seed) - 0.5


def data(*shape, seed=1):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def layers(detected: Detected) -> list[Detected]:
    return [*detected.earlier, detected]


def same(one: Detected, other: Detected, message: str | None = None) -> None:
    """All answers of all layers."""
    for mine, theirs in zip(layers(one), layers(other), strict=True):
        torch.testing.assert_close(mine.logits, theirs.logits, msg=message)
        torch.testing.assert_close(mine.boxes, theirs.boxes, msg=message)


def picked(detected: Detected, *index) -> Detected:
    """Some images or queries of the answers of all layers."""
    *first, last = (Detected(layer.logits[index], layer.boxes[index]) for layer in layers(detected))
    return last._replace(earlier=tuple(first))


class Nowhere(nn.Module):
    """Positions that say nothing."""

    def forward(self, rows, columns, device=None):
        return torch.zeros(rows * columns, WIDTH, device=device)


# --- Hugging Face's model, weight for weight ---------------------------------------------------------------


@pytest.fixture(scope="module")
def theirs():
    """Built from a configuration: nothing is downloaded."""
    from transformers import DetrConfig, DetrForObjectDetection, ResNetConfig

    backbone = ResNetConfig(embedding_size=6, hidden_sizes=[6, 6, 8, FEATURES], depths=[1, 1, 1, 1],
                            layer_type="basic", out_features=["stage4"])
    config = DetrConfig(
        backbone=None, backbone_config=backbone, use_timm_backbone=False, use_pretrained_backbone=False,
        d_model=WIDTH, encoder_layers=2, decoder_layers=3, encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS, encoder_ffn_dim=INNER, decoder_ffn_dim=INNER, num_queries=QUERIES,
        num_labels=CLASSES, dropout=0.0, attn_implementation="eager",
    )
    return shaken(DetrForObjectDetection(config))


class Convolutions(nn.Module):
    """Their CNN, called as ours is: the features of the last stage, every pixel real."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, pictures):
        everywhere = torch.ones(len(pictures), *pictures.shape[-2:])
        return self.encoder(pictures, everywhere)[-1][0]


def take(theirs) -> DETR:
    """Our model with their weights."""
    ours = build(backbone=Convolutions(theirs.model.backbone))

    def copy(here, there):
        here.load_state_dict(there.state_dict())

    def copy_attention(here, there):
        for name, short in {"query": "q", "key": "k", "value": "v", "output": "o"}.items():
            copy(getattr(here, f"{name}_projection"), getattr(there, f"{short}_proj"))

    def copy_feed_forward(here, there):
        copy(here[0], there.fc1), copy(here[3], there.fc2)

    model = theirs.model
    copy(ours.narrow, model.input_projection)
    for here, there in zip(ours.encoder.layers, model.encoder.layers, strict=True):
        copy_attention(here.attention, there.self_attn)
        copy_feed_forward(here.feed_forward, there.mlp)
        copy(here.around_attention.norm, there.self_attn_layer_norm)
        copy(here.around_feed_forward.norm, there.final_layer_norm)
    for here, there in zip(ours.decoder, model.decoder.layers, strict=True):
        copy_attention(here.inside, there.self_attn)
        copy_attention(here.between, there.encoder_attn)
        copy_feed_forward(here.feed_forward, there.mlp)
        copy(here.around_inside.norm, there.self_attn_layer_norm)
        copy(here.around_between.norm, there.encoder_attn_layer_norm)
        copy(here.around_feed_forward.norm, there.final_layer_norm)
    ours.queries.data.copy_(model.query_position_embeddings.weight)
    copy(ours.decoder_norm, model.decoder.layernorm)
    copy(ours.label_head, theirs.class_labels_classifier)
    for here, there in zip(ours.box_head[::2], theirs.bbox_predictor.layers, strict=True):
        copy(here, there)
    return ours


@pytest.mark.parametrize(("height", "width"), [(96, 128), (64, 64), (33, 160)])
def test_answers_and_maps_are_hugging_face_s(theirs, height, width):
    """Features, positions, encoder, decoder, heads, and where each looks; cells in rows of another length.

    Their positions are divided by the number of cells + 1e-6, so nothing is equal to the last digit. Their
    earlier answers are made from the hidden states: with `auxiliary_loss` on, their decoder hands each layer
    the normalised states of the one before, which the published code does not.
    """
    ours, pictures = take(theirs), images(2, height, width, channels=3)
    with torch.no_grad():
        found, maps = ours(pictures), ours.attention_maps(pictures)
        expected = theirs(pictures, output_attentions=True, output_hidden_states=True)
        known = [theirs.model.decoder.layernorm(x) for x in expected.decoder_hidden_states[1:-1]]
        steps = [(theirs.class_labels_classifier(x), theirs.bbox_predictor(x).sigmoid()) for x in known]
    assert len(steps) == len(found.earlier) == 2
    torch.testing.assert_close(found.logits, expected.logits, rtol=0, atol=1e-4)
    torch.testing.assert_close(found.boxes, expected.pred_boxes, rtol=0, atol=1e-5)
    for layer, (logits, boxes) in zip(found.earlier, steps, strict=True):
        torch.testing.assert_close(layer.logits, logits, rtol=0, atol=1e-4)
        torch.testing.assert_close(layer.boxes, boxes, rtol=0, atol=1e-5)
    inside, between = (torch.stack(part, dim=1) for part in (
        expected.encoder_attentions, expected.cross_attentions))
    torch.testing.assert_close(maps.encoder, inside, rtol=0, atol=1e-5)
    torch.testing.assert_close(maps.decoder, between, rtol=0, atol=1e-5)
    assert inside.shape[-1] > 1 and inside.std() > 1e-3, "weights that are all equal would prove little"


# --- The layers --------------------------------------------------------------------------------------------


@EVERY_NORM
def test_positions_go_to_the_encoder_s_queries_and_keys_and_not_to_what_is_read(norm):
    """The layer by hand, with the framework's attention."""
    layer = shaken(EncoderLayer(WIDTH, HEADS, INNER, dropout=0.0, norm=norm))
    x, positions = data(2, 6, WIDTH), data(6, WIDTH, seed=2)
    read = x if norm == "post" else layer.around_attention.norm(x)
    asked = read + positions
    context, weights = layer.attention.to_torch()(asked, asked, read, average_attn_weights=False)
    y = x + context if norm == "pre" else layer.around_attention.norm(x + context)
    norms = layer.around_feed_forward.norm
    expected = y + layer.feed_forward(norms(y)) if norm == "pre" else norms(y + layer.feed_forward(y))
    found, seen = layer(x, positions=positions, need_weights=True)
    torch.testing.assert_close(seen, weights, msg="are the positions added to queries and keys?")
    torch.testing.assert_close(found, expected, msg="what is read carries no position")


@EVERY_NORM
def test_without_positions_the_encoder_is_the_old_one(norm):
    layer, x = shaken(EncoderLayer(WIDTH, HEADS, INNER, dropout=0.0, norm=norm)), data(2, 6, WIDTH)
    torch.testing.assert_close(layer(x, positions=torch.zeros(6, WIDTH))[0], layer(x)[0])
    assert not torch.allclose(layer(x, positions=data(6, WIDTH, seed=2))[0], layer(x)[0])


@EVERY_NORM
def test_every_layer_of_the_encoder_gets_the_positions(norm):
    """Added once, at the input, they would fade; and then the values would carry them."""
    encoder = shaken(Encoder(3, WIDTH, HEADS, INNER, dropout=0.0, norm=norm))
    x, positions = data(2, 6, WIDTH), data(6, WIDTH, seed=2)
    y = x
    for layer in encoder.layers:
        y, _ = layer(y, positions=positions)
    torch.testing.assert_close(encoder(x, positions=positions)[0], encoder.norm(y))


@EVERY_NORM
def test_a_query_layer_by_hand(norm):
    """The queries' vectors are added where is asked, the cells' where is looked up; values carry neither."""
    layer = shaken(QueryLayer(WIDTH, HEADS, INNER, dropout=0.0, norm=norm))
    x, queries = data(2, QUERIES, WIDTH), data(QUERIES, WIDTH, seed=2)
    memory, positions = data(2, 6, WIDTH, seed=3), data(6, WIDTH, seed=4)

    def around(residual, x, sub_layer):
        if norm == "pre":
            return x + sub_layer(residual.norm(x))
        return residual.norm(x + sub_layer(x))

    inside, between, weights = layer.inside.to_torch(), layer.between.to_torch(), []

    def ask_image(x):
        context, seen = between(x + queries, memory + positions, memory, average_attn_weights=False)
        weights.append(seen)
        return context

    y = around(layer.around_inside, x, lambda x: inside(x + queries, x + queries, x)[0])
    y = around(layer.around_between, y, ask_image)
    y = around(layer.around_feed_forward, y, layer.feed_forward)
    found, seen = layer(x, queries, memory, positions, need_weights=True)
    torch.testing.assert_close(found, y)
    torch.testing.assert_close(seen, weights[0], msg="the weights shown are those over the image")
    assert layer(x, queries, memory, positions)[1] is None


# --- Who sees what -----------------------------------------------------------------------------------------


@EVERY_NORM
def test_an_image_does_not_depend_on_the_others_of_its_batch(norm):
    model, pictures = build(norm=norm), images(QUERIES)
    together = model(pictures)
    for i in range(QUERIES):
        same(model(pictures[i : i + 1]), picked(together, slice(i, i + 1)))


@EVERY_NORM
def test_queries_have_no_order(norm):
    """Other numbers for the learned vectors: the same answers under other numbers, after every layer."""
    model, pictures, order = build(norm=norm), images(), torch.tensor([3, 0, 4, 2, 1])
    before, looked = model(pictures), model.attention_maps(pictures)
    model.queries.data = model.queries.data[order]
    same(model(pictures), picked(before, slice(None), order))
    torch.testing.assert_close(model.attention_maps(pictures).decoder, looked.decoder[..., order, :])
    torch.testing.assert_close(model.attention_maps(pictures).encoder, looked.encoder)


@EVERY_NORM
def test_queries_ask_one_another_and_nobody_waits(norm):
    """No causal mask: a change of the last learned vector reaches the first answer, and the other way."""
    for changed in (0, QUERIES - 1):
        model, pictures = build(norm=norm), images()
        before = model(pictures)
        with torch.no_grad():
            model.queries[changed] += 1.0
        moved = (model(pictures).logits - before.logits).abs().amax(-1)
        assert (moved > 1e-6).all(), f"query {changed} is not heard by {(moved == 0).nonzero().tolist()}"


@EVERY_NORM
def test_cells_have_no_order_but_their_positions(norm):
    """Without positions a shuffled image is the same image; with them it is another."""
    model, cells = build(backbone=nn.Identity(), norm=norm), grid()
    order = torch.randperm(12, generator=torch.Generator().manual_seed(3))
    shuffled = cells.flatten(2)[..., order].view_as(cells)
    assert (model(cells).boxes - model(shuffled).boxes).abs().max() > 1e-4, "do the positions say nothing?"
    model.positions = Nowhere()
    same(model(shuffled), model(cells))
    before, after = model.attention_maps(cells), model.attention_maps(shuffled)
    torch.testing.assert_close(after.decoder, before.decoder[..., order])
    torch.testing.assert_close(after.encoder, before.encoder[..., order, :][..., order])


def test_the_same_cell_is_told_apart_by_its_place():
    """An empty image: all features are alike, and rows and columns of the maps are not."""
    model = build(backbone=nn.Identity())
    maps = model.attention_maps(torch.ones(1, FEATURES, 3, 4, dtype=torch.float64))
    rows = maps.encoder[0, 0, 0]
    assert all(not torch.allclose(a, b, atol=1e-6) for a, b in itertools.combinations(rows, 2))
    model.positions = Nowhere()
    even = model.attention_maps(torch.ones(1, FEATURES, 3, 4, dtype=torch.float64))
    torch.testing.assert_close(even.encoder, torch.full_like(even.encoder, 1 / 12))


def test_the_first_layer_s_queries_know_nothing_to_tell_one_another():
    """They start from 0, so all they hand over is the same; the paper says that this part can be left out."""
    model = build()
    with torch.no_grad():
        model.queries.mul_(3.0)
    heard = []
    model.decoder[0].inside.register_forward_hook(lambda *call: heard.append(call[-1].context))
    model(images())
    torch.testing.assert_close(heard[0], heard[0][:, :1].expand_as(heard[0]))


# --- Answers -----------------------------------------------------------------------------------------------


@EVERY_NORM
def test_an_earlier_answer_is_that_of_a_model_with_fewer_layers(norm):
    """One norm and two heads for all layers; prediction is the last layer's, with or without the others."""
    model, pictures = build(norm=norm), images()
    found = model(pictures)
    assert len(found.earlier) == 2 and all(layer.earlier == () for layer in found.earlier)
    for count in (1, 2):
        shorter = build(norm=norm)
        shorter.load_state_dict(model.state_dict())
        shorter.decoder = shorter.decoder[:count]
        same(shorter(pictures), found.earlier[count - 1]._replace(earlier=found.earlier[: count - 1]))
    assert all((one.logits - other.logits).abs().max() > 1e-3
               for one, other in itertools.pairwise(layers(found))), "the layers should differ"


@pytest.mark.parametrize(("height", "width"), [(48, 48), (24, 30), (61, 37)])
@EVERY_NORM
def test_one_answer_a_query_whatever_the_size_of_the_image(norm, height, width):
    """4 logits for 3 classes, and a box inside (0, 1)."""
    found = build(norm=norm)(images(2, height, width))
    for layer in layers(found):
        assert layer.logits.shape == (2, QUERIES, CLASSES + 1) and layer.boxes.shape == (2, QUERIES, 4)
        assert layer.logits.isfinite().all() and ((layer.boxes > 0) & (layer.boxes < 1)).all()


def test_a_view_of_another_memory_layout_is_read_alike():
    model, pictures = build(), images(2, 30, 24)
    turned = pictures.transpose(-1, -2)
    assert not turned.is_contiguous()
    same(model(turned), model(turned.contiguous()))
    same(model(turned.to(memory_format=torch.channels_last)), model(turned))


@EVERY_NORM
def test_every_parameter_learns(norm):
    """Backbone, queries, both heads and all layers, by the loss of all layers."""
    model = build(norm=norm)
    objects = [Objects(torch.tensor([0, 2]), torch.rand(2, 4).double() / 2 + 0.2),
               Objects(torch.tensor([1]), torch.rand(1, 4).double() / 2 + 0.2)]
    set_loss(model(images()), objects).total.backward()
    # Queries that know nothing yet tell one another the same: how they ask makes no difference.
    silent = {f"decoder.0.inside.{name}" for name in (
        "query_projection.weight", "query_projection.bias", "key_projection.weight", "key_projection.bias")}
    silent |= {"post": {"decoder.0.inside.value_projection.weight"},
               "pre": {"decoder.0.around_inside.norm.weight"}}[norm]  # each of these is multiplied by 0
    for name, parameter in model.named_parameters():
        if name.startswith("backbone.labels."):
            assert parameter.grad is None, "the labels of whole images have no part in detection"
        elif name.endswith("key_projection.bias"):
            continue  # added to all scores of a row alike: the softmax does not see it
        elif name in silent:
            assert parameter.grad.abs().max() < 1e-12
        else:
            assert parameter.grad is not None, f"{name} has no part in the loss"
            assert parameter.grad.abs().max() > 1e-9, f"{name} learns nothing"


def test_it_learns_one_batch_by_heart():
    """Squares of two kinds: if it cannot, a box, a label or a query is wired wrongly."""
    torch.manual_seed(1)
    pictures, objects = torch.zeros(4, 1, 24, 24), []
    for i, row in enumerate([[(0, 0, 0)], [(1, 12, 12)], [(0, 12, 0), (1, 0, 12)], []]):
        for label, top, left in row:
            pictures[i, 0, top : top + 12, left : left + 12] = 1.0 - 0.6 * label
        boxes = [[(left + 6) / 24, (top + 6) / 24, 0.5, 0.5] for _, top, left in row]
        objects.append(Objects(torch.tensor([label for label, _, _ in row], dtype=torch.int64),
                               torch.tensor(boxes).reshape(-1, 4)))
    model = DETR(CellBackbone(16, 2), 16, 2, width=16, heads=2, decoder_layers=2, inner=32, queries=3,
                 dropout=0.0)
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(90):
        optimiser.zero_grad()
        set_loss(model(pictures), objects, no_object=0.5).total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
    found = model(pictures)
    for i, (said, pair, shown) in enumerate(zip(answers(found), match(found, objects), objects, strict=True)):
        assert len(said.above(0.5).labels) == len(shown.labels), f"image {i}: {said}"
        assert said.labels[pair.queries].tolist() == shown.labels[pair.objects].tolist(), f"image {i}"
        assert torch.allclose(said.boxes[pair.queries], shown.boxes[pair.objects], atol=0.1), f"image {i}"


# --- Maps --------------------------------------------------------------------------------------------------


@EVERY_NORM
def test_the_maps_show_every_layer_and_head(norm):
    maps = build(norm=norm).attention_maps(images())
    assert isinstance(maps, DetectionMaps)
    assert maps.encoder.shape == (2, 2, HEADS, 20, 20), "(batch, layers, heads, cells, cells)"
    assert maps.decoder.shape == (2, 3, HEADS, QUERIES, 20), "(batch, layers, heads, queries, cells)"
    for weights in maps:
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=torch.float64))
        assert (weights > 0).all(), "nothing is masked"
        for axis in (0, 1, 2):
            assert all((one - other).abs().max() > 1e-4
                       for one, other in itertools.pairwise(weights.unbind(axis))), f"axis {axis} repeats"


def test_cells_are_counted_row_by_row():
    """The one cell that is not like the others lies at row * columns + column."""
    model, cells = build(backbone=nn.Identity()), torch.zeros(1, FEATURES, 3, 4, dtype=torch.float64)
    cells[0, :, 1, 2] = 1.0
    model.positions = Nowhere()
    for weights in model.attention_maps(cells):
        others = torch.cat([weights[..., :6], weights[..., 7:]], dim=-1)
        torch.testing.assert_close(others, others[..., :1].expand_as(others))
        assert (weights[..., 6] - weights[..., 0]).abs().min() > 1e-6


@EVERY_NORM
def test_looking_changes_nothing(norm):
    """The maps are those of the model that answers."""
    model, pictures, known = build(norm=norm), images(), []
    for layer in model.decoder:
        layer.register_forward_hook(lambda *call: known.append(call[-1][0]))
    model(pictures), model.attention_maps(pictures)
    assert len(known) == 6
    for fused, explicit in zip(known[:3], known[3:], strict=True):
        torch.testing.assert_close(explicit, fused, rtol=0, atol=1e-10)


def test_the_maps_are_free_of_dropout():
    """Shown in training too: rows sum to 1, and nothing is missing."""
    model = build(dropout=0.5)
    model.decoder.train(), model.encoder.train()
    for weights in model.attention_maps(images()):
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1], dtype=torch.float64))
        assert (weights > 0).all()


def test_dropout_acts_in_training_and_at_every_place():
    """On the weights, on each sub-layer's output, and in the middle of the feed-forward layers."""
    model, pictures = build(dropout=0.3), images()
    expected = model(pictures).logits
    assert torch.equal(model(pictures).logits, expected), "dropout in evaluation"
    places = [(module, "p") for module in model.modules() if isinstance(module, nn.Dropout)]
    assert len(places) == 2 * (2 + 1) + 3 * (3 + 1)
    places += [(module, "dropout") for module in model.modules() if isinstance(module, SoftmaxRead)]
    assert [getattr(*place) for place in places] == [0.3] * len(places)


@EVERY_NORM
def test_it_works_without_an_encoder(norm):
    """The queries then read the CNN's cells; there are 0 layers of maps, and their shape says so."""
    model = build(encoder_layers=0, norm=norm)
    assert model(images()).logits.isfinite().all()
    maps = model.attention_maps(images())
    assert maps.encoder.shape == (2, 0, HEADS, 20, 20) and maps.decoder.shape == (2, 3, HEADS, QUERIES, 20)


# --- The backbone ------------------------------------------------------------------------------------------


def test_a_cell_is_6_by_6_pixels():
    """Ink moved by 6 pixels moves the features by one cell, away from the border."""
    backbone = shaken(CellBackbone(FEATURES))
    pictures = torch.zeros(3, 1, 48, 48, dtype=torch.float64)
    pictures[0, 0, 20:27, 14:19] = pictures[1, 0, 20:27, 20:25] = pictures[2, 0, 26:33, 14:19] = 1.0
    features = backbone(pictures)
    assert features.shape == (3, FEATURES, 8, 8)
    torch.testing.assert_close(features[0, :, 2:6, 2:5], features[1, :, 2:6, 3:6])
    torch.testing.assert_close(features[0, :, 2:5, 2:6], features[2, :, 3:6, 2:6])
    assert (features[0] - features[1]).abs().max() > 0.01, "the ink should be seen"


def test_an_image_shows_a_label_if_one_of_its_cells_does():
    """log mean exp: one cell at 100 is worth 100 - log 64, wherever it lies."""
    backbone, cells = CellBackbone(features=3, labels=2, channels=3).eval(), torch.zeros(1, 3, 8, 8)
    cells[0, 0, 5, 2] = 100.0
    backbone.layers = nn.Identity()
    with torch.no_grad():
        backbone.labels.weight.zero_(), backbone.labels.bias.zero_()
        backbone.labels.weight[0, 0] = 1.0
    torch.testing.assert_close(
        backbone.label(cells), torch.tensor([[100.0, 0.0]]) - torch.tensor([64.0, 1.0]).log()
    )


# --- Where it lives, and what it is given ------------------------------------------------------------------


@EVERY_NORM
def test_everything_moves_with_the_model(norm):
    """Positions and queries too: nothing is made on the CPU while it runs elsewhere."""
    model, pictures = build(norm=norm).to("meta"), images().to("meta")
    assert all(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])
    assert all(part.is_meta for layer in layers(model(pictures)) for part in layer[:2])
    assert all(weights.is_meta for weights in model.attention_maps(pictures))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_everything_takes_the_model_s_dtype(dtype):
    """Positions are computed in float64 and must not drag the rest along."""
    found = build(dtype)(images().to(dtype))
    assert found.logits.dtype == found.boxes.dtype == dtype
    exact = build()(images())
    torch.testing.assert_close(found.boxes.double(), exact.boxes, rtol=0, atol=0.1)


def test_the_positions_are_not_learned_and_the_queries_are():
    model = build()
    assert isinstance(model.positions, GridPositions) and not list(model.positions.parameters())
    assert isinstance(model.queries, nn.Parameter) and model.queries.shape == (QUERIES, WIDTH)
    assert F.cosine_similarity(model.queries[:1], model.queries[1:]).max() < 0.99, "queries must differ"


@pytest.mark.parametrize(("options", "words"), [
    ({"width": 6}, ["width is 6", "multiple of 4"]),
    ({"heads": 3}, ["width 8", "heads = 3", "1, 2, 4, 8"]),
    ({"norm": "both"}, ["norm is 'both'", "post, pre"]),
    ({"norm": "both", "encoder_layers": 0}, ["norm is 'both'", "post, pre"]),
    ({"decoder_layers": 0}, ["decoder_layers is 0", "at least 1"]),
    ({"queries": 0}, ["queries is 0", "at least 1"]),
    ({"classes": 0}, ["classes is 0", "at least 1"]),
])
def test_choices_that_cannot_work_are_named(options, words):
    with pytest.raises(ValueError) as caught:
        DETR(nn.Identity(), FEATURES, **{"classes": CLASSES, "width": 8, "heads": 2, **options})
    assert all(word in str(caught.value) for word in words), str(caught.value)
