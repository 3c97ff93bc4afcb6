"""The Vision Transformer: the public model weight for weight, the published sizes, and what a patch is."""

import itertools

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from transformers import ViTConfig, ViTForImageClassification, ViTModel

from attncourse.models import VIT_BASE, VIT_LARGE, VIT_SMALL, VIT_TINY, VisionTransformer
from attncourse.models.vision_transformer import LAYER, LAYER_BEFORE, POOLINGS

SIZES = {"channels": 2, "width": 8, "heads": 2, "layers": 2, "inner": 12}
EVERY_POOLING = pytest.mark.parametrize("pooling", POOLINGS)
# An epsilon so large that it is seen when it does not arrive.
CONFIG = {
    "hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 12,
    "image_size": 12, "patch_size": 4, "num_channels": 2, "layer_norm_eps": 0.1, "num_labels": 5,
}


def shaken(module: nn.Module, dtype=torch.float64) -> nn.Module:
    """Biases, gains and a class token that are not 0, 1 and 0, or a missing one would not be seen."""
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return module.to(dtype).eval()


def build(dtype=torch.float64, **options) -> VisionTransformer:
    torch.manual_seed(0)
    return shaken(VisionTransformer(5, **{"image": (8, 12), "patch": 4, **SIZES, **options}), dtype)


def pictures(batch=3, height=8, width=12, channels=2, dtype=torch.float64):
    random = torch.Generator().manual_seed(1)
    return torch.randn(batch, channels, height, width, generator=random, dtype=dtype)


# --- The public model, weight for weight -------------------------------------------------------------------


def public(kind=ViTForImageClassification, **changes):
    """Hugging Face's model from a config, with nothing downloaded."""
    config = ViTConfig(**{**CONFIG, **changes}, attn_implementation="eager")
    return shaken(kind(config), torch.float32), config.to_dict()


def as_stored_before(state):
    """The same weights as transformers 4 stored them, and as most checkpoints on the hub still hold them."""
    renamed = {}
    for name, value in state.items():
        for here in LAYER:
            part = f".{LAYER[here]}."
            if ".layers." in f".{name}" and part in name:
                name = name.replace("layers.", "encoder.layer.").replace(part, f".{LAYER_BEFORE[here]}.")
                break
        renamed[name] = value
    return renamed


@pytest.mark.parametrize("stored", [dict, as_stored_before], ids=["names of today", "names before"])
def test_it_is_the_public_model_weight_for_weight(stored):
    """Query and key swapped, post-norm, the tanh form of GELU, a position too few: each is nearly right."""
    theirs, config = public()
    ours = VisionTransformer.from_hugging_face(config, stored(theirs.state_dict()))
    images = pictures(3, 12, 12, dtype=torch.float32)
    expected = theirs(images, output_attentions=True)
    torch.testing.assert_close(ours(images), expected.logits, rtol=0, atol=1e-4)
    maps = torch.stack(expected.attentions, dim=1)
    torch.testing.assert_close(ours.attention_maps(images), maps, rtol=0, atol=1e-4)
    assert not ours.training, "stored weights are for use, not for training"


def test_the_names_before_are_those_that_transformers_itself_understands():
    """Spelt out once, since a wrong name would be wrong in the model and in the test's own renaming."""
    names = as_stored_before(public()[0].state_dict()).keys()
    for part in ("attention.attention.query", "attention.attention.key", "attention.attention.value",
                 "attention.output.dense", "intermediate.dense", "output.dense", "layernorm_before",
                 "layernorm_after"):
        assert f"vit.encoder.layer.2.{part}.weight" in names
    assert not [name for name in names if ".layers." in name]


@pytest.mark.parametrize(("height", "width"), [(20, 16), (8, 8), (12, 36), (36, 4)])
def test_stretched_positions_are_those_of_the_public_model(height, width):
    """Bicubic, by the places' middles; rows and columns not swapped; 36 x 4 has as many patches as before."""
    theirs, config = public()
    ours = VisionTransformer.from_hugging_face(config, theirs.state_dict())
    images = pictures(2, height, width, dtype=torch.float32)
    expected = theirs(images, interpolate_pos_encoding=True).logits
    torch.testing.assert_close(ours(images, interpolate=True), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize("pooler", [True, False])
def test_a_model_without_a_classifier_gives_the_class_token_s_vector(pooler):
    """`ViTModel` has other names, and a layer behind the encoder that is passed over."""
    theirs, config = public(lambda config: ViTModel(config, add_pooling_layer=pooler))
    ours = VisionTransformer.from_hugging_face(config, theirs.state_dict())
    images = pictures(2, 12, 12, dtype=torch.float32)
    expected = theirs(images).last_hidden_state[:, 0]
    torch.testing.assert_close(ours(images), expected, rtol=0, atol=1e-4)


def test_rectangular_images_and_other_channels_are_read_from_the_config():
    theirs, config = public(image_size=[8, 12], num_channels=1)
    ours = VisionTransformer.from_hugging_face(config, theirs.state_dict())
    images = pictures(2, 8, 12, 1, dtype=torch.float32)
    torch.testing.assert_close(ours(images), theirs(images).logits, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("config", "change", "message"), [
    ({"hidden_act": "gelu_new"}, {}, r"config\['hidden_act'\] is 'gelu_new': .* can only be 'gelu'"),
    ({"model_type": "deit"}, {}, "this model can only be 'vit'"),
    ({"qkv_bias": False}, {}, "this model can only be True"),
    ({}, {"vit.layers.2.mlp.fc2.bias": None}, "state lacks vit.layers.2.mlp.fc2.bias"),
    ({}, {"vit.embeddings.cls_token": None}, "state lacks vit.embeddings.cls_token"),
    ({"num_hidden_layers": 2}, {}, "state holds vit.layers.2.attention.k_proj.bias, .*no place"),
    ({}, {"decoder.0.weight": torch.zeros(1)}, "state holds decoder.0.weight"),
    ({"image_size": 16}, {}, r"position_embeddings'\] has shape \(1, 10, 8\): config asks for \(1, 17, 8\)"),
    ({"patch_size": 6, "image_size": 18}, {}, r"projection.weight'\] has shape \(8, 2, 4, 4\)"),
])
def test_another_model_is_refused(config, change, message):
    """A weight that is left at its random start, or not used, gives numbers that look like a result."""
    theirs, stored = public()
    state = {name: value for name, value in (theirs.state_dict() | change).items() if value is not None}
    with pytest.raises(ValueError, match=message):
        VisionTransformer.from_hugging_face(stored | config, state)


# --- The published sizes -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "count"), [
    (VIT_TINY, 5_717_416), (VIT_SMALL, 22_050_664), (VIT_BASE, 86_567_656), (VIT_LARGE, 304_326_632),
], ids=["Ti/16", "S/16", "B/16", "L/16"])
def test_the_published_sizes(size, count):
    """1,000 classes, 224 pixels, patches of 16. Built on no device: the largest would take 1.2 GB."""
    with torch.device("meta"):
        model = VisionTransformer(1_000, image=224, patch=16, **size)
    assert sum(parameter.numel() for parameter in model.parameters()) == count
    assert model.positions.shape == (1, 197, size["width"])
    assert model.encoder.layers[0].attention.head_width == 64


def test_the_defaults_are_the_paper_s():
    """GELU, not ReLU; the middle four times as wide; the epsilon of its code; a norm after the last layer."""
    model = VisionTransformer(5, image=8, patch=4, width=8, heads=2, layers=1)
    assert model.patches.in_channels == 3
    first, activation, _, _ = model.encoder.layers[0].feed_forward
    assert first.out_features == 32
    assert isinstance(activation, nn.GELU) and activation.approximate == "none"
    assert {m.eps for m in model.modules() if isinstance(m, nn.LayerNorm)} == {1e-6}
    assert isinstance(model.encoder.norm, nn.LayerNorm)


# --- Patches, class token, positions -----------------------------------------------------------------------


def test_the_strided_convolution_is_one_matrix_for_every_patch():
    """Each patch laid out as a vector, times E: row by row from the top left, channel by channel inside."""
    model, images = build(pooling="mean"), pictures()
    matrix = model.patches.weight.flatten(1)
    vectors = []
    for row, column in itertools.product((0, 4), (0, 4, 8)):
        vectors.append(images[:, :, row : row + 4, column : column + 4].flatten(1) @ matrix.T)
    expected = torch.stack(vectors, dim=1) + model.patches.bias + model.positions
    torch.testing.assert_close(model.embed(images), expected)


def test_there_is_one_class_token_for_all_images_and_it_has_a_position():
    """A token per row of the batch could not be used with another batch size."""
    model = build()
    assert model.class_token.shape == (1, 1, 8)
    assert model.positions.shape == (1, 1 + 6, 8), "6 patches and the class token"
    entered = model.embed(pictures())
    torch.testing.assert_close(entered[:, 0], (model.class_token + model.positions[:, :1])[0].expand(3, 8))
    before = model(pictures())
    with torch.no_grad():
        model.positions[:, 0, 3] += 0.5  # one number: the norms would take out what is added to all alike
    moved = (model(pictures()) - before).abs().amax(-1)
    assert (moved > 1e-4).all(), "slot 0 changes nothing: does the class token get its position?"


def test_with_the_mean_there_is_no_class_token():
    model = build(pooling="mean")
    assert model.class_token is None and model.positions.shape == (1, 6, 8)
    vectors, _ = model.encoder(model.embed(pictures()))
    torch.testing.assert_close(model(pictures()), model.head(vectors.mean(1)))


def test_the_class_token_s_vector_is_read_after_the_last_norm():
    model = build()
    vectors, _ = model.encoder(model.embed(pictures()))
    torch.testing.assert_close(model(pictures()), model.head(vectors[:, 0]))
    torch.testing.assert_close(vectors, model.encoder.norm(_last_sum(model)))


def _last_sum(model):
    """What the last layer hands to the last norm."""
    found = []
    handle = model.encoder.norm.register_forward_pre_hook(lambda _, given: found.append(given[0]))
    model(pictures())
    handle.remove()
    return found[0]


@EVERY_POOLING
def test_patches_that_move_with_their_positions_change_nothing(pooling):
    """Attention sees a set: only the positions say where a patch lies."""
    model, images, order = build(pooling=pooling), pictures(), [4, 0, 5, 2, 1, 3]
    cut = F.unfold(images, 4, stride=4)
    shuffled = F.fold(cut[..., order], (8, 12), 4, stride=4)
    before = model(images)
    assert not torch.allclose(model(shuffled), before, atol=1e-3), "without its position a patch has no place"
    first = int(pooling == "class")
    with torch.no_grad():
        model.positions[:, first:] = model.positions[:, first:][:, order].clone()
    torch.testing.assert_close(model(shuffled), before)


@EVERY_POOLING
@pytest.mark.parametrize("grid", [(7, 9), (61, 61), (14, 14), (1, 1), (28, 7)])
def test_positions_are_stretched_to_exactly_the_grid(pooling, grid):
    """61 / 14 as a factor would give 60 rows. The class token's slot has no place, and stays as it is."""
    model = build(image=56, pooling=pooling)
    first, stretched = int(pooling == "class"), model.positions_on(*grid)
    assert stretched.shape == (1, first + grid[0] * grid[1], 8)
    assert torch.equal(stretched[:, :first], model.positions[:, :first])
    if grid == (14, 14):
        assert stretched is model.positions, "the same grid needs no interpolation"
    images = pictures(1, 4 * grid[0], 4 * grid[1])
    assert model.embed(images, interpolate=True).shape == stretched.shape


def test_stretching_by_hand():
    """Four rows twice as high: a quarter of the way from row 1 to row 2 a cubic weighs rows 0 to 3 so."""
    model = build(image=(16, 8), pooling="mean")
    rows = pictures(4, 1, 1, 8).view(4, 8)
    with torch.no_grad():
        model.positions.copy_(rows.repeat_interleave(2, dim=0)[None])  # both columns alike
        stretched = model.positions_on(8, 3).view(8, 3, 8)
    weights = torch.tensor([-27.0, 225.0, 67.0, -9.0], dtype=torch.float64) / 256
    for column in range(3):
        torch.testing.assert_close(stretched[3, column], weights @ rows)
        torch.testing.assert_close(stretched[4, column], weights.flip(0) @ rows)


def test_learned_positions_get_gradients_through_the_stretching():
    """Fine-tuning at a higher resolution trains them further."""
    model = build()
    model(pictures(2, 16, 16), interpolate=True).sum().backward()
    assert (model.positions.grad != 0).any(-1).all()


# --- Images do not see each other; maps show what was done -------------------------------------------------


@EVERY_POOLING
def test_an_image_s_logits_do_not_depend_on_its_batch(pooling):
    """One alone and five together; six patches and five images, so that swapped axes are seen."""
    model, images = build(pooling=pooling), pictures(5)
    together, maps = model(images), model.attention_maps(images)
    for i in range(5):
        torch.testing.assert_close(model(images[i : i + 1]), together[i : i + 1])
        torch.testing.assert_close(model.attention_maps(images[i : i + 1]), maps[i : i + 1])
    assert model(images[:0]).shape == (0, 5)


@EVERY_POOLING
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_the_maps_show_every_layer_and_head(pooling, dropout):
    """Every head, not their mean; in training no weight is missing and every row sums to 1."""
    model, tokens = build(pooling=pooling, layers=3, dropout=dropout).train(), 6 + (pooling == "class")
    maps = model.attention_maps(pictures())
    assert maps.shape == (3, 3, 2, tokens, tokens), "(batch, layers, heads, tokens, tokens)"
    torch.testing.assert_close(maps.sum(-1), torch.ones(maps.shape[:-1], dtype=torch.float64))
    assert (maps > 0).all()
    heads = maps.flatten(1, 2).unbind(1)
    assert all((one - other).abs().max() > 1e-3 for one, other in itertools.combinations(heads, 2))


def test_looking_changes_nothing():
    """The same logits from the explicit weights as from the fused kernel."""
    model, images = build(torch.float32), pictures(dtype=torch.float32)
    expected = model(images)
    vectors, _ = model.encoder(model.embed(images), need_weights=True)
    torch.testing.assert_close(model.head(vectors[:, 0]), expected, rtol=0, atol=1e-5)


def test_without_maps_the_fused_kernel_does_the_work(monkeypatch):
    calls = []
    fused = F.scaled_dot_product_attention
    monkeypatch.setattr(
        F, "scaled_dot_product_attention", lambda *given, **named: calls.append(1) or fused(*given, **named)
    )
    model = build()
    model(pictures())
    assert len(calls) == 2, "once a layer"
    model.attention_maps(pictures())
    assert len(calls) == 2, "the kernel has no weights to show"


def test_dropout_acts_in_training_only_and_on_what_enters_too():
    model = build(dropout=0.3)
    expected = model(pictures())
    assert torch.equal(model(pictures()), expected), "dropout in evaluation"
    model.dropout.train()
    assert (model.embed(pictures()) == 0).any(), "section 4 of the appendix drops from the sums, too"


# --- Numerics, memory layout, devices ----------------------------------------------------------------------


@EVERY_POOLING
def test_gradients_are_those_of_finite_differences(pooling):
    model = build(image=4, patch=2, channels=1, width=4, layers=1, inner=3, pooling=pooling)
    images, others = (pictures(2, height, 4, 1).requires_grad_() for height in (4, 6))
    assert torch.autograd.gradcheck(model, images)
    assert torch.autograd.gradcheck(lambda x: model(x, interpolate=True), others)


def test_memory_layout_does_not_matter():
    """A transposed image, channels last, every second image of a batch: nothing is contiguous."""
    model = build(image=8)
    images = pictures(4, 8, 8)
    for other in (images.transpose(-1, -2), images.to(memory_format=torch.channels_last), images[::2]):
        torch.testing.assert_close(model(other), model(other.contiguous()))


@EVERY_POOLING
def test_everything_moves_with_the_model(pooling):
    """Nothing is made on the CPU while it runs elsewhere, and no check asks for a number."""
    model, images = build(pooling=pooling).to("meta"), pictures().to("meta")
    assert all(tensor.is_meta for tensor in [*model.parameters(), *model.buffers()])
    larger = pictures(2, 16, 20).to("meta")
    assert model(images).is_meta and model(larger, interpolate=True).is_meta
    assert model.attention_maps(images).is_meta


def test_half_precision_is_kept():
    model = build(torch.bfloat16)
    assert model(pictures(2, 16, 16, dtype=torch.bfloat16), interpolate=True).dtype == torch.bfloat16


def test_it_learns_one_batch_by_heart():
    torch.manual_seed(0)
    model = VisionTransformer(4, image=8, patch=4, channels=1, width=16, heads=2, layers=1)
    images, labels = pictures(8, 8, 8, 1, torch.float32), torch.arange(8) % 4
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(40):
        loss = F.cross_entropy(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert loss.item() < 0.1, f"the loss is still {loss.item():.2f}"


def test_at_the_start_a_position_is_as_long_as_that_of_a_word():
    """The class token begins with nothing, the positions as `LearnedPositions` do: 1 / sqrt(d) a number."""
    torch.manual_seed(0)
    model = VisionTransformer(5, image=64, patch=2, width=64, heads=2, layers=1)
    assert not model.class_token.any()
    assert model.positions.std().item() == pytest.approx(1 / 8, rel=0.02)


# --- What it is given --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("images", "error", "words"), [
    (torch.zeros(1, 2, 30, 30), ValueError, ["30 x 30", "patch is 8", "multiples"]),
    (torch.zeros(1, 2, 32, 30), ValueError, ["32 x 30", "patch is 8"]),
    (torch.zeros(1, 2, 32, 0), ValueError, ["32 x 0", "at least 8"]),
    (torch.zeros(1, 2, 48, 32), ValueError, ["48 x 32", "learned for 32 x 48", "interpolate=True"]),
    (torch.zeros(1, 2, 32, 64), ValueError, ["32 x 64", "learned for 32 x 48", "interpolate=True"]),
    (torch.zeros(1, 3, 32, 48), ValueError, ["3 channels", "built for 2"]),
    (torch.zeros(2, 32, 48), ValueError, ["(2, 32, 48)", "(batch, channels, height, width)"]),
    (torch.zeros(1, 2, 32, 48, dtype=torch.uint8), TypeError, ["torch.uint8", "floating-point"]),
])
def test_images_that_do_not_fit_are_named(images, error, words):
    """30 = 3 * 8 + 6: a strided convolution alone would silently cut 6 rows off."""
    model = build(torch.float32, image=(32, 48), patch=8)
    for call in (model, model.embed, model.attention_maps):
        with pytest.raises(error) as caught:
            call(images)
        assert all(word in str(caught.value) for word in words), str(caught.value)


def test_interpolation_does_not_excuse_a_patch_that_does_not_fit():
    with pytest.raises(ValueError, match="30 x 30 pixels, and patch is 8"):
        build(image=32, patch=8)(pictures(1, 30, 30), interpolate=True)


def test_a_rectangular_image_has_its_own_number_of_patches():
    """32 x 48 pixels in patches of 8: 4 rows of 6."""
    model = build(image=(32, 48), patch=8)
    assert model.grid == (4, 6) and model.positions.shape[1] == 25
    assert model(pictures(2, 32, 48)).shape == (2, 5)
    assert model.attention_maps(pictures(2, 32, 48)).shape == (2, 2, 2, 25, 25)


@pytest.mark.parametrize(("options", "words"), [
    ({"image": 30, "patch": 8}, ["image is 30 x 30", "patch is 8"]),
    ({"image": (32, 30), "patch": 8}, ["image is 32 x 30", "patch is 8"]),
    ({"patch": 0}, ["patch is 0"]),
    ({"pooling": "max"}, ["pooling is 'max'", "class, mean"]),
    ({"heads": 3}, ["width 8", "heads = 3", "1, 2, 4, 8"]),
])
def test_choices_that_cannot_work_are_named(options, words):
    with pytest.raises(ValueError) as caught:
        build(**options)
    assert all(word in str(caught.value) for word in words), str(caught.value)
