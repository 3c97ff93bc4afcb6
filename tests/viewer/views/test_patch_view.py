"""PatchView as HTML: every weight arrives in its place, a page stays small, errors say what does not fit."""

import base64
import re

import numpy as np
import pytest
import torch

from attncourse.viewer import PatchView
from attncourse.viewer.views.packed import MOST
from attncourse.viewer.views.patch.view import square_grid

IMAGE = torch.linspace(0, 1, 16).view(4, 4)


def weights(layers=2, heads=3, tokens=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(layers, heads, tokens, tokens, generator=generator).mul(2).softmax(-1)


MAPS = weights()


def unpacked(text: str) -> torch.Tensor:
    steps = np.frombuffer(base64.b64decode(text), dtype="<u2").astype("float64")
    return torch.from_numpy(steps) / 65535


def test_every_weight_arrives_in_its_place(data_of):
    """Layers and heads exchanged, or queries and keys, would show one patch under another's name."""
    data = data_of(PatchView(IMAGE, MAPS))
    assert (data["layers"], data["heads"], data["grid"], data["classToken"]) == (2, 3, [2, 2], True)
    assert unpacked(data["weights"]).view(2, 3, 5, 5) == pytest.approx(MAPS, abs=1e-5)


def test_the_pixels_arrive_row_by_row(data_of):
    image = data_of(PatchView(IMAGE, MAPS))["image"]
    assert (image["height"], image["width"], image["channels"]) == (4, 4, 1)
    assert list(base64.b64decode(image["bytes"])) == (IMAGE * 255).round().flatten().tolist()
    colours = torch.zeros(3, 4, 4)
    colours[2, 0, 1] = 1
    image = data_of(PatchView(colours, MAPS))["image"]
    assert image["channels"] == 3
    assert [i for i, byte in enumerate(base64.b64decode(image["bytes"])) if byte] == [5], "blue of pixel 1"


@pytest.mark.parametrize(("places", "height", "width", "grid"), [
    (16, 8, 8, (4, 4)), (196, 224, 224, (14, 14)), (8, 28, 56, (2, 4)), (8, 56, 28, (4, 2)),
    (6, 30, 20, (3, 2)), (1, 9, 9, (1, 1)), (64, 8, 8, (8, 8)), (17, 8, 8, None), (15, 8, 8, None),
    (0, 8, 8, None), (8, 8, 8, None), (195, 224, 224, None), (256, 8, 8, None),
])
def test_square_patches_fill_an_image_in_one_way_or_not_at_all(places, height, width, grid):
    """13 by 15 patches are nearly a square: with one token miscounted every patch would be misplaced."""
    assert square_grid(places, torch.zeros(height, width)) == grid


def test_without_a_class_token_every_token_is_a_patch(data_of):
    view = PatchView(IMAGE, weights(tokens=4), class_token=False)
    assert data_of(view)["grid"] == [2, 2] and not data_of(view)["classToken"]
    assert repr(view) == "PatchView(2 by 2 patches, 2 layers of 3 heads)"
    assert repr(PatchView(IMAGE, MAPS)) == "PatchView(2 by 2 patches and a class token, 2 layers of 3 heads)"


@pytest.mark.parametrize("make", [torch.Tensor.tolist, torch.Tensor.half, torch.Tensor.requires_grad_])
def test_lists_and_tensors_of_any_kind_are_taken(data_of, make):
    found = unpacked(data_of(PatchView(IMAGE, make(weights())))["weights"])
    assert found.view_as(MAPS) == pytest.approx(MAPS, abs=2e-3)


def test_the_same_data_give_the_same_bytes():
    first, second = (PatchView(IMAGE, MAPS, title="t")._repr_html_() for _ in range(2))
    assert first == second


def test_fourteen_by_fourteen_patches_fit_and_a_page_is_not_flooded():
    """ViT-B has 144 maps of 197 by 197: written out they would be a page of 15 MB."""
    image, one = torch.zeros(56, 56), torch.full((1, 1, 197, 197), 1 / 197)
    html = PatchView(image, one.expand(1, 3, 197, 197))._repr_html_()
    assert len(html.encode()) < MOST + 40_000
    message = r"maps 465,708 weights: that is 1,246 kB as text, but a view carries at most 400 kB: give some"
    with pytest.raises(ValueError, match=message):
        PatchView(image, one.expand(4, 3, 197, 197))
    with pytest.raises(ValueError, match=r"image holds 360,000 bytes, .* or a smaller image"):
        PatchView(torch.zeros(600, 600), MAPS)


def test_readers_without_scripts_find_the_last_layer_in_a_table():
    maps = torch.zeros(2, 2, 5, 5)
    maps[0, :, :, 1] = 1  # not shown
    maps[1, 0, :, 3], maps[1, 1, :, 0] = 1, 1
    html = PatchView(IMAGE, maps, prediction="7", label="1", title="Where to?")._repr_html_()
    told = "(the model says: 7; in truth: 1; layer 2, mean of the heads)"
    assert f"<caption>Where to? {told}</caption>" in html
    row = "<td>class token: 0.50; row 2, column 1: 0.50</td>"
    for name in ("class token", "row 1, column 2"):
        assert f'<th scope="row">{name}</th>{row}' in html


def test_the_picture_and_the_small_maps_come_along_and_stay_what_they_are():
    """Copies of their scripts would drift away."""
    html = PatchView(IMAGE, MAPS)._repr_html_()
    for function in ("picture(image", "painted(", "thumbnail(", "patchView(data)"):
        assert html.count(f"function {function}") == 1
    assert 'start("patch_view",' in html and 'start("image_view",' not in html


def test_nothing_is_asked_of_the_network_and_nothing_becomes_markup():
    bad = "</script><b>"
    html = PatchView(IMAGE, MAPS, title=bad, prediction=bad, label=bad)._repr_html_()
    assert set(re.findall(r"https?://[^\s\"'`]+", html)) == {"http://www.w3.org/2000/svg"}
    assert "<b>" not in html and html.count("<script") == 2
    assert "src=" not in html and "fetch(" not in html and "@import" not in html


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"image": torch.zeros(4)}, ValueError, r"image has shape \(4,\)"),
    ({"image": IMAGE * 255}, ValueError, "image runs from 0 to 255"),
    ({"maps": MAPS[0]}, ValueError,
     r"maps has shape \(3, 5, 5\); it must be \(layers, heads, tokens, tokens\)$"),
    ({"maps": MAPS[None]}, ValueError, r"maps has shape \(1, 2, 3, 5, 5\); .*: choose one image of"),
    ({"maps": MAPS[..., 1:]}, ValueError, r"maps has shape \(2, 3, 5, 4\)"),
    ({"maps": MAPS[:0]}, ValueError, r"maps has shape \(0, 3, 5, 5\)"),
    ({"class_token": False}, ValueError, r"5 tokens, 5 patches, which do not fill .*: is class_token True\?"),
    ({"maps": MAPS[..., 1:, 1:]}, ValueError,
     r"maps has 4 tokens, 3 patches and a class token, which do not fill an image of 4 by 4 .* False\?"),
    ({"maps": weights(tokens=7)}, ValueError, "6 patches and a class token, .*; the image must be cut into"),
    ({"maps": MAPS.log()}, ValueError, "maps, layer 0: weights holds .* query 'class token' .* before the s"),
    ({"maps": MAPS.roll(1, -1) * torch.tensor([1, 2.0])[:, None, None, None]}, ValueError,
     r"maps, layer 1: weights: the row of head 0, query 'class token' \(0\) sums to 2"),
    ({"maps": MAPS * torch.nan}, ValueError, "maps, layer 0: weights holds nan"),
])
def test_errors_say_what_does_not_fit(change, error, message):
    given = {"image": IMAGE, "maps": MAPS, **change}
    with pytest.raises(error, match=message):
        PatchView(given.pop("image"), given.pop("maps"), **given)
