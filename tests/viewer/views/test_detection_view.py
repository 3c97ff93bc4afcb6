"""DetectionView as HTML: boxes, classes and weights arrive in their places, and errors name the argument."""

import re

import pytest
import torch

from attncourse.boxes import from_corners
from attncourse.viewer import DetectionView, PatchView, pixel_boxes
from attncourse.viewer.views.packed import packed_weights

IMAGE = torch.linspace(0, 1, 24).view(4, 6)
CLASSES = ["cat", "dog"]
BOXES = [[0, 1, 2.5, 4], [1, 0, 3, 2], [-1, 5, 2, 7]]
PROBABILITIES = torch.tensor([[0.2, 0.7, 0.1], [0.05, 0.05, 0.9], [0.6, 0.3, 0.1]])
LOOKS = torch.tensor([[0.1, 0.2, 0, 0.3, 0.4, 0], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1.0]]).view(3, 2, 3)
ENCODER = torch.eye(6).roll(1, 0)


def view(**change):
    given = {"image": IMAGE, "boxes": BOXES, "classes": CLASSES, "probabilities": PROBABILITIES, **change}
    return DetectionView(given.pop("image"), given.pop("boxes"), given.pop("classes"),
                         given.pop("probabilities"), given.pop("query_weights", None), **given)


def test_shares_become_pixels_with_rows_first():
    """x before y, width taken for height, or a corner for the middle, puts every box elsewhere."""
    shares = torch.tensor([[0.5, 0.5, 1.0, 1.0], [0.25, 0.75, 0.5, 0.25]])
    assert pixel_boxes(shares, torch.zeros(40, 80)).tolist() == [[0, 0, 40, 80], [25, 0, 35, 40]]
    assert pixel_boxes(shares, torch.zeros(3, 40, 80)).tolist() == [[0, 0, 40, 80], [25, 0, 35, 40]], "colour"
    corners = torch.tensor([[0.1, 0.2, 0.3, 0.9]])  # left, top, right, bottom
    assert pixel_boxes(from_corners(corners), torch.zeros(10, 10))[0].tolist() == pytest.approx([2, 1, 9, 3])
    assert pixel_boxes(torch.zeros(0, 4), torch.zeros(3, 3)).shape == (0, 4)


def test_boxes_and_probabilities_arrive_query_by_query(data_of):
    data = data_of(view(true_boxes=[[0, 0, 2, 3]], true_labels=[1], threshold=0.25, title="t"))
    assert data["boxes"] == BOXES, "a query may point outside the image"
    assert data["classes"] == CLASSES
    assert torch.tensor(data["probabilities"]) == pytest.approx(PROBABILITIES)
    assert (data["trueBoxes"], data["trueLabels"]) == ([[0, 0, 2, 3]], [1])
    assert data["threshold"] == 0.25 and data["maps"] == [] and data["encoder"] is None


def test_one_map_or_several_by_name(data_of):
    [one] = data_of(view(query_weights=LOOKS))["maps"]
    assert one == {"name": "", "grid": [2, 3], "weights": packed_weights(LOOKS)}
    named = {"layer 1": LOOKS.flip(0), "layer 2": LOOKS}
    assert [part["name"] for part in data_of(view(query_weights=named))["maps"]] == ["layer 1", "layer 2"]
    assert data_of(view(query_weights=named))["maps"][1]["weights"] == one["weights"]


def test_the_encoder_s_cells_are_shown_as_patches_are(data_of):
    """Its grid is that of the queries' weights; without these, squares that fill the image."""
    encoder = data_of(view(query_weights=LOOKS, encoder_weights=ENCODER))["encoder"]
    shown = data_of(PatchView(IMAGE, ENCODER[None, None], class_token=False))
    for part in ("grid", "layers", "heads", "weights", "classToken", "shades"):
        assert encoder[part] == shown[part]
    assert (encoder["what"], shown["what"]) == ("cell", "patch")
    assert data_of(view(encoder_weights=ENCODER.expand(2, 3, 6, 6)))["encoder"]["heads"] == 3
    wide = LOOKS.view(3, 1, 6)
    assert data_of(view(query_weights=wide, encoder_weights=ENCODER))["encoder"]["grid"] == [1, 6]


def test_the_same_data_give_the_same_bytes():
    first, second = (view(query_weights=LOOKS, encoder_weights=ENCODER)._repr_html_() for _ in range(2))
    assert first == second


def test_what_the_model_gives_is_taken_as_it_is(data_of):
    """Half precision, gradients, and boxes on whatever device: no reader should have to detach."""
    given = {"boxes": torch.tensor(BOXES).half().requires_grad_(), "probabilities": PROBABILITIES.half(),
             "query_weights": LOOKS.requires_grad_()}
    assert data_of(view(**given))["boxes"] == BOXES


def test_readers_without_scripts_find_the_sure_queries_in_a_table():
    html = view(threshold=0.6, title="Who is there?")._repr_html_()
    count = "(2 of 3 queries with a score of at least 0.60)"
    assert f"<caption>Who is there? {count}</caption>" in html
    rows = re.findall(r'<th scope="row">(.*?)</th>(.*?)</tr>', html)
    assert rows == [
        ("query 1", "<td>dog</td><td>0.70</td><td>rows 0.0 to 2.5, columns 1.0 to 4.0</td>"),
        ("query 3", "<td>cat</td><td>0.60</td><td>rows -1.0 to 2.0, columns 5.0 to 7.0</td>"),
    ], "no object is no class, however likely"


def test_repr_has_no_address():
    assert repr(view()) == "DetectionView(3 queries, 2 classes)"
    known = view(true_boxes=BOXES[:1], true_labels=[0])
    assert repr(known) == "DetectionView(3 queries, 2 classes, true boxes: 1)"


def test_nothing_is_asked_of_the_network_and_nothing_becomes_markup():
    bad = "</script><b>"
    html = view(classes=[bad, "dog"], title=bad, query_weights={bad: LOOKS}, threshold=0)._repr_html_()
    assert set(re.findall(r"https?://[^\s\"'`]+", html)) == {"http://www.w3.org/2000/svg"}
    assert "<b>" not in html and html.count("<script") == 2
    assert "src=" not in html and "fetch(" not in html and "@import" not in html


def test_a_page_is_not_flooded():
    """The full DETR has 25 by 34 cells: its encoder's weights alone would be megabytes."""
    cells = torch.full((1, 6, 625, 625), 1 / 625)
    with pytest.raises(ValueError, match=r"encoder_weights 2,343,750 weights: .* at most 400 kB: give fewer"):
        view(image=torch.zeros(25, 25), encoder_weights=cells)
    layers = {f"layer {i}": torch.full((3, 25, 25), 1 / 625) for i in range(100)}
    with pytest.raises(ValueError, match="query_weights 187,500 weights: that is 501 kB"):
        view(image=torch.zeros(25, 25), query_weights=layers)


@pytest.mark.parametrize(("change", "error", "message"), [
    ({"image": torch.zeros(4)}, ValueError, r"image has shape \(4,\)"),
    ({"boxes": [1, 2, 3, 4]}, ValueError, r"boxes has shape \(4,\); it must be \(boxes, 4\)"),
    ({"boxes": []}, ValueError, "boxes is empty"),
    ({"boxes": [[0.5, 0.5, 0.2, 0.2], *BOXES[1:]]}, ValueError,
     r"boxes\[0\] is \(0.5, 0.5, 0.2, 0.2\); .* Is it \(cx, cy, w, h\)\? See pixel_boxes"),
    ({"boxes": [[0.1, 0.1, 0.5, 1.0]] * 3}, ValueError, "boxes all lie within the first pixel: are they sh"),
    ({"boxes": [*BOXES[:2], [0, 0, torch.nan, 1]]}, ValueError, r"boxes\[2\] is .*nan"),
    ({"boxes": [*BOXES[:2], [0, 0, 1, torch.inf]]}, ValueError, r"boxes\[2\] is .*inf"),
    ({"classes": "cat"}, TypeError, "classes must be a list of tokens"),
    ({"probabilities": PROBABILITIES[:, :2]}, ValueError,
     r"probabilities has shape \(3, 2\), .* 3 boxes and 2 classes: it must be \(3, 3\), with 'no object'"),
    ({"probabilities": PROBABILITIES.log()}, ValueError,
     r"probabilities: .* query 'query 1' \(0\), key 'cat' .* before the softmax"),
    ({"probabilities": PROBABILITIES * 2}, ValueError, r"probabilities: .* query 'query 1' \(0\) sums to 2"),
    ({"query_weights": LOOKS.flatten(1)}, ValueError,
     r"query_weights has shape \(3, 6\); it must be \(queries, rows, columns\)"),
    ({"query_weights": {"last": LOOKS[:2]}}, ValueError, r"query_weights\['last'\] has shape \(2, 2, 3\)"),
    ({"query_weights": LOOKS * 2}, ValueError, r"query 'query 1' \(0\) sums to 2"),
    ({"encoder_weights": ENCODER[:5, :5]}, ValueError,
     "encoder_weights has 5 cells, and as many squares do not fill an image of 4 by 6 pixels"),
    ({"query_weights": LOOKS, "encoder_weights": torch.eye(24)}, ValueError,
     "encoder_weights has 24 cells, but query_weights has 2 by 3"),
    ({"encoder_weights": ENCODER[0]}, ValueError, r"encoder_weights has shape \(6,\)"),
    ({"encoder_weights": ENCODER / 2}, ValueError, "encoder_weights, layer 0: .* sums to 0.5"),
    ({"true_boxes": [[2, 2, 1, 1]]}, ValueError, r"true_boxes\[0\] is \(2, 2, 1, 1\)"),
    ({"true_boxes": BOXES}, ValueError,
     r"true_labels is \[\] for 3 true boxes and 2 classes: one index for each box"),
    ({"true_boxes": BOXES[:1], "true_labels": [2]}, ValueError, r"true_labels is \[2\] .* from 0 to 1"),
    ({"threshold": 50}, ValueError, "threshold is 50; it must lie between 0 and 1"),
])
def test_errors_name_the_argument(change, error, message):
    with pytest.raises(error, match=message):
        view(**change)


def test_shares_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"boxes has shape \(2, 3, 4\); it must be \(boxes, 4\)"):
        pixel_boxes(torch.zeros(2, 3, 4), IMAGE)
