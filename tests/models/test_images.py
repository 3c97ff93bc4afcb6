"""What every reader of images refuses by name: one check, whatever the model."""

import pytest
import torch

from attncourse.models import DETR, CellAnnotator, CellBackbone, ShowAttendTell, VisionTransformer

TARGET = torch.tensor([[1, 4, 5], [1, 6, 7]])
captioner = ShowAttendTell(CellAnnotator(6), 9, embedding=4, hidden=6, width=4).eval()
detector = DETR(CellBackbone(6, 3), 6, 3, width=8, heads=2, inner=8, queries=4, decoder_layers=1).eval()
classifier = VisionTransformer(3, image=24, patch=8, channels=1, width=8, heads=2, layers=1).eval()
READERS = {
    "CellAnnotator": captioner.annotator,
    "CellAnnotator.label": captioner.annotator.label,
    "ShowAttendTell": lambda images: captioner(images, TARGET),
    "ShowAttendTell.encode": captioner.encode,
    "CellBackbone": detector.backbone,
    "CellBackbone.label": detector.backbone.label,
    "DETR": detector,
    "DETR.attention_maps": detector.attention_maps,
    "VisionTransformer": classifier,
    "VisionTransformer.attention_maps": classifier.attention_maps,
}
IMAGES = torch.rand(2, 1, 24, 24)
BAD = [
    (lambda x: (255 * x).to(torch.uint8), TypeError, ["images", "torch.uint8", "floating-point", "scale"]),
    (lambda x: x > 0.5, TypeError, ["images", "torch.bool", "floating-point"]),
    (lambda x: x.numpy(), TypeError, ["images", "ndarray", "floating-point"]),
    (lambda x: x[0], ValueError, ["images", "(1, 24, 24)", "(batch, channels, height, width)"]),
    (lambda x: x.expand(-1, 3, -1, -1), ValueError, ["images", "3 channels", "built for 1"]),
    (lambda x: x[:, :0], ValueError, ["images", "0 channels", "built for 1"]),
    (lambda x: x[..., :0], ValueError, ["images", "24 x 0", "at least"]),
]


@pytest.mark.parametrize(("change", "error", "words"), BAD)
@pytest.mark.parametrize("name", READERS)
def test_images_that_do_not_fit_are_named(name, change, error, words):
    """Not an error of a convolution that never heard of images."""
    with pytest.raises(error) as caught:
        READERS[name](change(IMAGES))
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("name", READERS)
def test_images_that_fit_are_read(name):
    READERS[name](IMAGES)


@pytest.mark.parametrize(("height", "width"), [(16, 24), (16, 64)])
def test_cells_that_are_no_square_are_refused(height, width):
    """4 x 16 cells are as many as 8 x 8: laid out as a square, each would be told the place of another."""
    with pytest.raises(ValueError, match=f"images are {height} x {width} pixels.* as high as they are wide"):
        captioner.encode(torch.rand(1, 1, height, width))
    assert detector(torch.rand(1, 1, height, width)).boxes.shape == (1, 4, 4)


@pytest.mark.parametrize("side", [1, 2])
def test_a_cell_needs_three_pixels(side):
    with pytest.raises(ValueError, match=f"images are 8 x {side} pixels: each side must have at least 3"):
        detector(torch.rand(1, 1, 8, side))
    assert detector(torch.rand(1, 1, 3, 3)).boxes.shape == (1, 4, 4), "one cell can be read"


@pytest.mark.parametrize(("change", "error", "words"), [
    (lambda x: x.float(), TypeError, ["target", "float32"]),
    (lambda x: x.to(torch.uint8), TypeError, ["target", "uint8", "torch.int64"]),
    (lambda x: x + 2, ValueError, ["target", "3 to 9", "ids 0 to 8"]),
    (lambda x: x - 2, ValueError, ["target", "-1 to 5", "ids 0 to 8"]),
    (lambda x: x[:1], ValueError, ["target has 1 rows", "images has 2"]),
    (lambda x: x[0], ValueError, ["target", "(3,)", "(batch, target)"]),
    (lambda x: x[:, :0], ValueError, ["target", "start symbol"]),
])
def test_a_caption_that_does_not_fit_is_named(change, error, words):
    with pytest.raises(error) as caught:
        captioner(IMAGES, change(TARGET))
    assert all(word in str(caught.value) for word in words), str(caught.value)


@pytest.mark.parametrize("features", [5, 7])
def test_a_backbone_that_breaks_its_promise_is_named(features):
    model = DETR(CellBackbone(6, 3), features, 3, width=8, heads=2)
    with pytest.raises(ValueError, match=rf"backbone gives shape \(2, 6, 4, 4\): with features = {features}"):
        model(IMAGES)
