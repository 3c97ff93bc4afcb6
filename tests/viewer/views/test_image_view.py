"""ImageAttentionView and its printed counterpart: the pixels arrive whole, and errors say where."""

import base64
import re

import matplotlib.image
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from attncourse.viewer import ImageAttentionView, image_heatmaps
from attncourse.viewer.places import checked_image
from attncourse.viewer.plots.figure import figure_html

IMAGE = torch.tensor([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.2, 0.0]])
WORDS = ["a", "two"]
WEIGHTS = torch.tensor([[[0.1, 0.2], [0.3, 0.4]], [[1.0, 0.0], [0.0, 0.0]]])
BOXES = [None, (0, 1, 2, 4)]


def test_the_pixels_arrive_row_by_row(data_of):
    """Columns before rows, or a colour picture by channel, would show a scrambled picture."""
    grey = data_of(ImageAttentionView(IMAGE, WORDS, WEIGHTS))["image"]
    assert (grey["height"], grey["width"], grey["channels"]) == (2, 4, 1)
    assert list(base64.b64decode(grey["bytes"])) == [0, 255, 0, 0, 0, 0, 51, 0]
    colours = torch.zeros(3, 2, 4)
    colours[0, 0, 1], colours[2, 1, 3] = 1.0, 1.0  # red, then blue
    for given in (colours, colours.permute(1, 2, 0)):
        image = data_of(ImageAttentionView(given, WORDS, WEIGHTS))["image"]
        assert image["channels"] == 3
        assert [i for i, byte in enumerate(base64.b64decode(image["bytes"])) if byte] == [3, 23]


@pytest.mark.parametrize("given", [IMAGE[None], IMAGE[..., None], (IMAGE * 255).round().to(torch.uint8),
                                   IMAGE.half(), IMAGE.tolist()])
def test_an_image_is_taken_in_any_usual_form(given):
    assert (checked_image(given).int() - checked_image(IMAGE).int()).abs().max() <= 1


def test_flat_places_are_read_row_by_row(data_of):
    """(words, places) with the rows and columns exchanged points at the wrong side of the picture."""
    flat = data_of(ImageAttentionView(IMAGE, WORDS, WEIGHTS.flatten(1)))
    assert flat == data_of(ImageAttentionView(IMAGE, WORDS, WEIGHTS))
    wide = data_of(ImageAttentionView(IMAGE, WORDS, WEIGHTS.flatten(1), grid=(1, 4)))
    assert wide["systems"][0]["grid"] == [1, 4]
    assert wide["systems"][0]["weights"] == [pytest.approx([0.1, 0.2, 0.3, 0.4]), [1, 0, 0, 0]]


def test_the_same_data_give_the_same_bytes():
    first, second = (ImageAttentionView(IMAGE, WORDS, WEIGHTS)._repr_html_() for _ in range(2))
    assert first == second


def test_nothing_is_asked_of_the_network_and_nothing_ends_the_script():
    html = ImageAttentionView(IMAGE, ["</script><b>", "two"], WEIGHTS, title="<!-- 1")._repr_html_()
    assert set(re.findall(r"https?://[^\s\"']+", html)) == {"http://www.w3.org/2000/svg"}
    assert html.count("</script>") == 2 and "<b>" not in html and "<!--" not in html
    assert "@import" not in html and "src=" not in html and "fetch(" not in html


def test_readers_without_scripts_find_the_largest_cells_in_a_table():
    html = ImageAttentionView(IMAGE, WORDS, {"soft": WEIGHTS, "hard": torch.zeros(2, 2, 2)})._repr_html_()
    assert "<th scope=\"col\">soft looks at</th><th scope=\"col\">hard looks at</th>" in html
    assert "row 2, column 2: 0.40; row 2, column 1: 0.30; row 1, column 2: 0.20</td><td>nothing</td>" in html
    assert '<th scope="row">two</th><td>row 1, column 1: 1.00</td>' in html


def test_repr_has_no_address():
    assert repr(ImageAttentionView(IMAGE, WORDS, WEIGHTS)) == "ImageAttentionView(2 words over 2 by 4 pixels)"
    both = ImageAttentionView(IMAGE, WORDS, {"soft": WEIGHTS, "hard": WEIGHTS})
    assert repr(both) == "ImageAttentionView(2 words over 2 by 4 pixels, soft beside hard)"


@pytest.mark.parametrize("draw", [ImageAttentionView, lambda *a, **k: image_heatmaps(*a, **k, title="t")])
@pytest.mark.parametrize(("change", "error", "message"), [
    ({"image": torch.zeros(4)}, ValueError, r"image has shape \(4,\); it must be \(height, width\)"),
    ({"image": torch.zeros(2, 4, 2)}, ValueError, r"image has shape \(2, 4, 2\)"),
    ({"image": IMAGE * 255}, ValueError, "image runs from 0 to 255: floats must lie between 0 and 1"),
    ({"image": IMAGE * torch.nan}, ValueError, "image runs from nan to nan"),
    ({"image": IMAGE.int()}, TypeError, "image holds torch.int32: give floats"),
    ({"words": "two"}, TypeError, "words must be a list of tokens"),
    ({"words": ["a"]}, ValueError, r"weights.* has shape \(2, 2, 2\), but there are 1 words"),
    ({"weights": torch.full((2, 6), 1 / 6)}, ValueError, "6 places, which do not fill a grid of 2 by 2"),
    ({"weights": torch.full((2, 4), 0.25), "grid": (3, 2)}, ValueError, "do not fill a grid of 3 by 2"),
    ({"grid": (1, 4)}, ValueError, r"has \(2, 2\) cells, but grid is \(1, 4\)"),
    ({"weights": torch.full((2, 9), 1 / 9)}, ValueError, r"\(3, 3\) cells, more than the image \(2, 4\)"),
    ({"weights": -WEIGHTS}, ValueError, r"query 'a' \(0\), key 'row 1, column 1' \(0\): a weight is never"),
    ({"weights": 2 * WEIGHTS}, ValueError, r"row of query 'a' \(0\) sums to 2"),
    ({"weights": {}}, ValueError, "weights"),
    ({"boxes": [None]}, ValueError, "boxes holds 1 boxes for 2 words"),
    ({"boxes": [None, (0, 0, 2, 5)]}, ValueError, r"for 'two'; a box is \(top, left, bottom, right\)"),
    ({"boxes": [None, (1, 0, 1, 4)]}, ValueError, "inside the image's 2 by 4"),
])
def test_errors_name_the_argument(draw, change, error, message):
    given = {"image": IMAGE, "words": WORDS, "weights": WEIGHTS, **change}
    with pytest.raises(error, match=message):
        draw(given.pop("image"), given.pop("words"), given.pop("weights"), **given)


def test_at_most_three_systems_stand_side_by_side():
    with pytest.raises(ValueError, match="weights names 4 systems: 1 to 3"):
        ImageAttentionView(IMAGE, WORDS, dict.fromkeys("abcd", WEIGHTS))


# ---- the printed figure ----


def small_multiples():
    both = {"soft": WEIGHTS, "hard": WEIGHTS}
    return image_heatmaps(IMAGE, WORDS, both, title="Two looks up", boxes=BOXES)


def test_each_system_and_each_word_has_its_picture():
    figure = small_multiples()
    assert [axes.get_title() for axes in figure.axes] == ["the image", "a", "two"] * 2
    assert [text.get_text() for text in figure.texts] == ["Two looks up", "soft", "hard"]
    many = image_heatmaps(IMAGE, ["w"] * 16, torch.full((16, 4), 0.25), title="Sixteen")
    assert len(many.axes) == 17
    canvas = FigureCanvasAgg(many)
    canvas.draw()
    for axes in many.axes:
        box = axes.get_tightbbox(canvas.renderer)
        assert many.bbox.x0 <= box.x0 and box.x1 <= many.bbox.x1 and many.bbox.y0 <= box.y0, "cut off"
        assert box.y1 <= many.texts[0].get_window_extent(canvas.renderer).y0, "a picture runs into the title"


def test_the_outlined_cells_are_those_that_were_read():
    """Rows and columns exchanged outline another cell, and the box of another thing."""
    upper_right = torch.tensor([[[0.0, 1.0], [0.0, 0.0]]])
    figure = image_heatmaps(IMAGE, ["two"], upper_right, title="t", boxes=[(0, 1, 2, 4)])
    cell, box = (patch.get_bbox() for patch in figure.axes[1].patches)
    assert cell.bounds == pytest.approx((2, 0, 2, 1)), "row 1, column 2 of 2 by 2 cells, on 2 by 4 pixels"
    assert box.extents == pytest.approx((1, 0, 4, 2)), "x is the column: (top, left, bottom, right)"


def test_what_is_not_read_recedes_into_grey(tmp_path):
    """The veil upside down, or over the cells that were read, hides what the figure is to show."""
    white = torch.ones(2, 2)
    figure = image_heatmaps(white, ["w"], torch.tensor([[[1.0, 0.0], [0.0, 0.0]]]), title="t")
    figure.savefig(tmp_path / "figure.png", dpi=100)
    pixels = matplotlib.image.imread(tmp_path / "figure.png")[..., 0]
    (x0, y0), (x1, y1) = (figure.axes[1].get_position().get_points() * pixels.shape[::-1]).round().astype(int)
    panel = pixels[pixels.shape[0] - y1 : pixels.shape[0] - y0, x0:x1]
    quarter = len(panel) // 4
    assert panel[quarter, quarter] > 0.99
    for y, x in ((1, 3), (3, 1), (3, 3)):
        grey = panel[y * quarter, x * quarter]
        assert 0.5 < grey < 0.75, f"the cell at {y, x} was not read, and is not grey"


def test_drawn_twice_the_bytes_are_equal():
    first, second = figure_html(small_multiples(), "alt"), figure_html(small_multiples(), "alt")
    assert first == second and len(first) < 250_000
