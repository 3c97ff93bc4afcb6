"""Annotations in COCO's format, by hand: pixels and boxes describe the same picture, or it is refused."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from attncourse.boxes import to_corners
from attncourse.data import boxed_batches, coco_images

# --- Annotations -------------------------------------------------------------------------------------------


RED, BLUE = (255, 0, 0), (0, 51, 102)
IMAGES = {"wide.png": (40, 20, RED), "tall.png": (10, 30, BLUE), "sub/empty.png": (8, 8, BLUE)}
FILE = {
    "images": [{"id": 7, "file_name": "wide.png"}, {"id": 3, "file_name": "tall.png"},
               {"id": 99, "file_name": "sub/empty.png"}],
    "categories": [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}, {"id": 90, "name": "brush"}],
    "annotations": [
        {"id": 1, "image_id": 3, "category_id": 90, "bbox": [0, 0, 10, 30], "iscrowd": 0},
        {"id": 2, "image_id": 7, "category_id": 18, "bbox": [10, 5, 20, 10]},
        {"id": 3, "image_id": 7, "category_id": 1, "bbox": [30.0, 15.0, 20.0, 10.0], "iscrowd": 0},
        {"id": 4, "image_id": 7, "category_id": 1, "bbox": [0, 0, 4, 4], "iscrowd": 1},
        {"id": 5, "image_id": 7, "category_id": 1, "bbox": [5, 5, 0, 4], "iscrowd": 0},
        {"id": 6, "image_id": 3, "category_id": 1, "bbox": [-5, -15, 10, 30], "iscrowd": 0},
        {"id": 7, "image_id": 3, "category_id": 1, "bbox": [12, 5, 4, 4], "iscrowd": 0},
        {"id": 8, "image_id": 7, "category_id": 90, "bbox": [2, 3, 4, 5], "iscrowd": 0},
    ],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "sub").mkdir()
    for name, (width, height, colour) in IMAGES.items():
        Image.new("RGB", (width, height), colour).save(tmp_path / name)
    return tmp_path


def written(folder, content=FILE):
    path = folder / "instances.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf8")
    return path


def test_annotations_by_hand(folder):
    """Ids with gaps, in no order; an image's boxes among those of another; crowds, cut boxes, no area."""
    images, names = coco_images(written(folder), folder, side=12)
    assert names == ("person", "dog", "brush"), "in the order of the ids 1, 18, 90"
    wide, tall, empty = images
    assert wide.objects.labels.tolist() == [1, 0, 2] and tall.objects.labels.tolist() == [2, 0]
    torch.testing.assert_close(wide.objects.boxes, torch.tensor([
        [0.5, 0.5, 0.5, 0.5],          # 10 to 30 of 40, 5 to 15 of 20
        [0.875, 0.875, 0.25, 0.25],    # cut off at the right and at the bottom
        [0.1, 0.275, 0.1, 0.25],
    ]))
    torch.testing.assert_close(tall.objects.boxes, torch.tensor([
        [0.5, 0.5, 1.0, 1.0],
        [0.25, 0.25, 0.5, 0.5],        # cut off at the left and at the top; the next lay outside altogether
    ]))
    assert empty.objects.labels.shape == (0,) and empty.objects.boxes.shape == (0, 4)
    assert empty.objects.labels.dtype == torch.int64 and empty.objects.boxes.dtype == torch.float32


@pytest.mark.parametrize(("grey", "wide", "tall"), [
    (False, [1, 0, 0], [0, 0.2, 0.4]),
    (True, [76 / 255], [42 / 255]),    # .299 red + .587 green + .114 blue, as a whole number of 255
])
def test_pixels_are_squares_of_numbers_from_0_to_1(folder, grey, wide, tall):
    """Channels first: red before green before blue."""
    images, _ = coco_images(written(folder), folder, side=12, grey=grey)
    for boxed, colour in zip(images, (wide, tall, tall), strict=True):
        assert boxed.image.shape == (len(colour), 12, 12) and boxed.image.dtype == torch.float32
        expected = torch.tensor(colour)[:, None, None].float().expand(-1, 12, 12)
        torch.testing.assert_close(boxed.image, expected, rtol=0, atol=1e-6)
    assert len(next(iter(boxed_batches(images, size=3))).images) == 3


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "1"])
def test_files_of_every_kind_become_colour_or_grey(folder, mode):
    """A grey photograph among colours, a transparent drawing, a palette."""
    Image.new("RGB", (40, 20), "white").convert(mode).save(folder / "wide.png")
    path = written(folder)
    for grey, channels in ((False, 3), (True, 1)):
        image = coco_images(path, str(folder), side=8, grey=grey)[0][0].image
        assert image.shape == (channels, 8, 8) and image.min() == 1


def test_an_image_is_not_turned_over(folder):
    """Rows are rows: a dark right half, a box around it."""
    picture = np.full((10, 20), 255, np.uint8)
    picture[:5, 10:] = 0
    Image.fromarray(picture).save(folder / "half.png")
    file = {"images": [{"id": 1, "file_name": "half.png"}], "categories": [{"id": 5, "name": "dark"}],
            "annotations": [{"id": 1, "image_id": 1, "category_id": 5, "bbox": [10, 0, 10, 5]}]}
    [boxed], _ = coco_images(written(folder, file), folder, side=20, grey=True)
    left, top, right, bottom = (to_corners(boxed.objects.boxes)[0] * 20).round().int().tolist()
    assert (left, top, right, bottom) == (10, 0, 20, 10)
    dark = boxed.image[0] < 0.5
    assert dark[top:bottom, left:right].float().mean() > 0.9 and dark.sum() <= 110


def without(key):
    return {name: part for name, part in FILE.items() if name != key}


def changed(**fields):
    return {**FILE, "annotations": [*FILE["annotations"], {**FILE["annotations"][0], "id": 9, **fields}]}


def lacking(part, field):
    first, *rest = FILE[part]
    return {**FILE, part: [{name: value for name, value in first.items() if name != field}, *rest]}


def twice(part):
    return {**FILE, part: [*FILE[part], {**FILE[part][0], "file_name": "tall.png", "name": "cat"}]}


@pytest.mark.parametrize(("content", "words"), [
    ("{not json", ["instances.json is not a COCO file of instances", "images, annotations and categories"]),
    ("", ["is not a COCO file"]),
    ("[1, 2]", ["is not a COCO file"]),
    ({"images": 3, "annotations": [], "categories": []}, ["is not a COCO file"]),
    (without("categories"), ["is not a COCO file", "'categories'"]),
    (without("annotations"), ["is not a COCO file", "'annotations'"]),
    (lacking("annotations", "bbox"), ["is not a COCO file", "'bbox'"]),
    (lacking("annotations", "image_id"), ["is not a COCO file", "'image_id'"]),
    (lacking("images", "file_name"), ["is not a COCO file", "'file_name'"]),
    (lacking("categories", "name"), ["is not a COCO file", "'name'"]),
    (changed(image_id=4), ["annotation 9", "image 4", "must list both"]),
    (changed(category_id=2), ["annotation 9", "category 2", "must list both"]),
    (changed(bbox=[1, 2, 3]), ["annotation 9", "[1, 2, 3]", "left, top, width, height"]),
    (changed(bbox=[]), ["annotation 9", "[]", "left, top, width, height"]),
    (changed(bbox=None), ["annotation 9", "None", "left, top, width, height"]),
    (changed(bbox=[1, None, 3, 4]), ["annotation 9", "[1, None, 3, 4]", "finite"]),
    (changed(bbox=[1, 2, "3", 4]), ["annotation 9", "'3'", "finite"]),
    (changed(bbox=[1, 2, True, 4]), ["annotation 9", "True", "finite"]),
    (changed(bbox=[1, 2, float("inf"), 4]), ["annotation 9", "inf", "finite"]),
    (changed(bbox=[float("nan"), 2, 3, 4]), ["annotation 9", "nan", "finite"]),
    (changed(bbox=[1, 2, 10**400, 4]), ["annotation 9", "finite"]),
    (changed(bbox=[5, 5, -3, 4]), ["annotation 9", "[5, 5, -3, 4]", "0 or more"]),
    (changed(bbox={"x": 1}), ["annotation 9", "left, top, width, height"]),
    (changed(id=3), ["annotations has the id 3 2 times"]),
    (twice("images"), ["images has the id 7 2 times"]),
    (twice("categories"), ["categories has the id 18 2 times"]),
    ({**FILE, "images": [{"id": 7, "file_name": 5}], "annotations": []}, ["5 is not a name"]),
    ({**FILE, "images": ["wide.png"]}, ["is not a COCO file"]),
])
def test_a_file_that_cannot_be_read_is_named(folder, content, words):
    """Captions have no categories, results no images: the file is named, and what it should hold."""
    path = written(folder, content)
    with pytest.raises(ValueError) as caught:
        coco_images(path, folder)
    assert all(word in str(caught.value) for word in [str(path), *words]), str(caught.value)


def test_a_missing_image_or_file_is_named(folder):
    (folder / "tall.png").unlink()
    with pytest.raises(FileNotFoundError, match="tall.png"):
        coco_images(written(folder), folder)
    with pytest.raises(FileNotFoundError, match="nowhere.json"):
        coco_images(folder / "nowhere.json", folder)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_the_mark_that_opens_a_file_is_no_part_of_it(folder, encoding):
    """Editors on Windows write one."""
    path = folder / "instances.json"
    path.write_text(json.dumps({**FILE, "categories": [*FILE["categories"], {"id": 95, "name": "café"}]},
                               ensure_ascii=False), encoding=encoding)
    assert coco_images(path, folder, side=4)[1] == ("person", "dog", "brush", "café")


# --- Which picture the boxes were drawn on -----------------------------------------------------------------


UNDO = {2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_90",
        7: "TRANSVERSE", 8: "ROTATE_270"}


def stored(path, shown, orientation):
    """Save a picture as a camera does that was held so: what follows EXIF shows it as it is here."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    lying = shown.transpose(Image.Transpose[UNDO[orientation]]) if orientation in UNDO else shown
    lying.save(path, exif=exif, **({"quality": 100} if path.suffix == ".jpg" else {}))
    return lying


def one(name, bbox, **size):
    return {"images": [{"id": 1, "file_name": name, **size}], "categories": [{"id": 1, "name": "thing"}],
            "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": bbox}]}


def marked(width, height, box):
    """Black, with white where the box (left, top, width, height) is."""
    left, top, across, down = box
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[top : top + down, left : left + across] = 255
    return Image.fromarray(pixels)


def holds_what_is_white(boxed):
    """The box goes around all of the white, to the pixel."""
    side = boxed.image.shape[-1]
    left, top, right, bottom = (to_corners(boxed.objects.boxes)[0] * side).round().int().tolist()
    inside = torch.zeros(side, side, dtype=torch.bool)
    inside[top:bottom, left:right] = True
    return torch.equal(boxed.image[0] > 0.5, inside)


BOX = [4, 8, 12, 16]  # of 24 by 48 pixels, as shown
KINDS = pytest.mark.parametrize("kind", ["jpg", "png", "tif", "webp"])


@pytest.mark.parametrize("orientation", [*range(1, 9), 0, 9])
@pytest.mark.parametrize("size", [{}, {"width": 24, "height": 48}], ids=["no size", "the size shown"])
@KINDS
def test_boxes_on_what_is_shown_stay_where_they_are(tmp_path, orientation, kind, size):
    """A phone stores the photograph lying on its side; the tool that drew the boxes showed it upright."""
    stored(tmp_path / f"photo.{kind}", marked(24, 48, BOX), orientation)
    [boxed], _ = coco_images(written(tmp_path, one(f"photo.{kind}", BOX, **size)), tmp_path, side=24)
    assert holds_what_is_white(boxed), "pixels and box describe two pictures: is the orientation applied?"


def test_a_turned_photograph_by_hand(tmp_path):
    """40 x 20 pixels stored, 20 x 40 shown; the upper quarter, over the whole width."""
    stored(tmp_path / "a.jpg", Image.new("RGB", (20, 40)), 6)
    [boxed], _ = coco_images(written(tmp_path, one("a.jpg", [0, 0, 20, 10])), tmp_path)
    assert boxed.objects.boxes.tolist() == [[0.5, 0.125, 1.0, 0.25]]
    file = one("a.jpg", [0, 0, 20, 10], width=40, height=20)
    [boxed], _ = coco_images(written(tmp_path, file), tmp_path)
    assert boxed.objects.boxes.tolist() == [[0.75, 0.25, 0.5, 0.5]], "drawn on what is stored"


def on_stored(path, orientation, shape=(24, 48)):
    """The box around what is white in the stored pixels, and their size, as a script without EXIF writes."""
    lying = stored(path, marked(*shape, BOX), orientation)
    rows, columns = np.nonzero(np.asarray(lying)[..., 0])
    box = [columns.min(), rows.min(), np.ptp(columns) + 1, np.ptp(rows) + 1]
    return list(map(int, box)), dict(zip(("width", "height"), lying.size, strict=True))


@pytest.mark.parametrize("orientation", range(5, 9))
@KINDS
def test_boxes_on_what_is_stored_are_turned_with_the_pixels(tmp_path, orientation, kind):
    """A script that knows nothing of EXIF draws on the stored pixels: the size that it notes tells."""
    box, size = on_stored(tmp_path / f"photo.{kind}", orientation)
    [boxed], _ = coco_images(written(tmp_path, one(f"photo.{kind}", box, **size)), tmp_path, side=24)
    assert holds_what_is_white(boxed)


@pytest.mark.parametrize("orientation", range(2, 9))
def test_where_the_size_does_not_tell_the_other_images_do(tmp_path, orientation):
    """Upside down or square, a picture has one size both ways; one that lies on its side betrays the tool."""
    shape = (48, 48) if orientation >= 5 else (24, 48)
    box, size = on_stored(tmp_path / "open.png", orientation, shape)
    file, (told, told_size) = one("open.png", box, **size), on_stored(tmp_path / "told.png", 6)
    file["images"].append({"id": 2, "file_name": "told.png", **told_size})
    file["annotations"].append({"id": 2, "image_id": 2, "category_id": 1, "bbox": told})
    images, _ = coco_images(written(tmp_path, file), tmp_path, side=24)
    assert all(map(holds_what_is_white, images))


def test_where_the_other_images_contradict_each_other_what_is_shown_counts(tmp_path):
    """Two tools at work in one file: each picture that tells is read as it says."""
    stored(tmp_path / "open.png", marked(24, 48, BOX), 3)
    stored(tmp_path / "shown.png", marked(24, 48, BOX), 8)
    file, (box, size) = one("open.png", BOX, width=24, height=48), on_stored(tmp_path / "told.png", 6)
    file["images"] += [{"id": 2, "file_name": "told.png", **size},
                       {"id": 3, "file_name": "shown.png", "width": 24, "height": 48}]
    file["annotations"] += [{"id": i, "image_id": i, "category_id": 1, "bbox": bbox}
                            for i, bbox in ((2, box), (3, BOX))]
    assert all(map(holds_what_is_white, coco_images(written(tmp_path, file), tmp_path, side=24)[0]))


@pytest.mark.parametrize("size", [
    {"width": 48, "height": 96}, {"width": 25, "height": 48}, {"width": 24}, {"width": "24", "height": "48"},
])
def test_a_picture_of_another_size_is_refused(tmp_path, size):
    """Made smaller after the boxes were drawn: shares of another picture lie anywhere."""
    stored(tmp_path / "photo.png", marked(24, 48, BOX), 1)
    given = next(iter(size.values()))
    with pytest.raises(ValueError, match=f"photo.png is given as {given} x .*has 24 x 48"):
        coco_images(written(tmp_path, one("photo.png", BOX, **size)), tmp_path)


# --- Pixels that are what they look like -------------------------------------------------------------------


def read(folder, name, **options):
    [boxed], _ = coco_images(written(folder, one(name, [0, 0, 1, 1])), folder, **options)
    return boxed.image


@pytest.mark.parametrize("grey", [True, False])
@pytest.mark.parametrize("kind", ["png", "tif", "pgm"])
def test_greys_of_16_bits_keep_their_values(tmp_path, kind, grey):
    """Cut to 8 bits, everything above 255 of 65,535 is white."""
    Image.fromarray(np.array([[0, 1_000], [30_000, 65_535]], np.uint16)).save(tmp_path / f"deep.{kind}")
    image = read(tmp_path, f"deep.{kind}", side=2, grey=grey)
    expected = torch.tensor([[0, 1_000], [30_000, 65_535]]).expand(1 if grey else 3, 2, 2) / 65_535
    torch.testing.assert_close(image, expected, rtol=0, atol=1e-4)


def test_a_negative_of_16_bits_is_turned_round(tmp_path):
    """TIFF may write white as 0."""
    numbers = Image.fromarray(np.array([[0, 65_535]], np.uint16))
    numbers.save(tmp_path / "negative.tif", tiffinfo={262: 0})
    assert read(tmp_path, "negative.tif", side=2, grey=True)[0, 0].tolist() == [1, 0]


def test_floating_point_numbers_from_0_to_1_are_read_as_they_are(tmp_path):
    """As bytes, they are all black."""
    Image.fromarray(np.array([[0, 0.25], [0.5, 1]], np.float32)).save(tmp_path / "float.tif")
    image = read(tmp_path, "float.tif", side=2)
    torch.testing.assert_close(image, torch.tensor([[0, 0.25], [0.5, 1]]).expand(3, 2, 2))


def test_what_is_enlarged_stays_between_0_and_1(tmp_path):
    """A smooth curve through black and white overshoots."""
    Image.fromarray(np.array([[0, 1, 0, 1]], np.float32)).save(tmp_path / "float.tif")
    image = read(tmp_path, "float.tif", side=40)
    assert image.min() >= 0 and image.max() <= 1


@pytest.mark.parametrize("numbers", [
    np.array([[0, 255]], np.float32), np.array([[-1, 1]], np.float32), np.array([[0, np.nan]], np.float32),
    np.array([[0, np.inf]], np.float32), np.array([[0, 70_000]], np.int32),
])
def test_numbers_of_which_nobody_knows_what_is_white_are_refused(tmp_path, numbers):
    Image.fromarray(numbers).save(tmp_path / "float.tif")
    with pytest.raises(ValueError, match="float.tif cannot be read.*greys go from"):
        read(tmp_path, "float.tif")


@pytest.mark.parametrize("grey", [True, False])
@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "key", "PA"])
def test_what_is_transparent_is_white_and_its_colour_does_not_appear(tmp_path, mode, grey):
    """Under what is erased, programs leave the colours that were there."""
    opaque, erased = (0, 0, 0, 255), (200, 0, 0, 0)
    picture = Image.new("RGBA", (40, 40), opaque)
    picture.paste(erased, (20, 0, 40, 40))
    options = {}
    if mode in ("P", "key"):
        picture = picture.convert("RGB")
        picture, options = (picture.quantize(2) if mode == "P" else picture), {"transparency": (200, 0, 0)}
    if mode == "P":
        options = {"transparency": picture.getpixel((30, 5))}
    if mode in ("LA", "PA"):
        picture = picture.convert(mode)
    picture.save(tmp_path / ("clear.tif" if mode == "PA" else "clear.png"), **options)
    image = read(tmp_path, "clear.tif" if mode == "PA" else "clear.png", side=40, grey=grey)
    assert (image[:, :, :18] < 0.01).all() and (image[:, :, 22:] > 0.99).all()


def test_a_transparent_grey_of_16_bits_is_refused(tmp_path):
    Image.fromarray(np.array([[0, 1_000]], np.uint16)).save(tmp_path / "deep.png", transparency=1_000)
    with pytest.raises(ValueError, match="deep.png cannot be read.*one of them is transparent"):
        read(tmp_path, "deep.png")


def test_inks_and_other_colours_become_red_green_and_blue(tmp_path):
    for mode in ("CMYK", "YCbCr"):
        Image.new("RGB", (8, 8), (250, 120, 10)).convert(mode).save(tmp_path / "inks.tif")
        expected = torch.tensor([250, 120, 10]) / 255
        torch.testing.assert_close(read(tmp_path, "inks.tif", side=4)[:, 1, 1], expected, rtol=0, atol=0.02)


@pytest.mark.parametrize("kind", ["png", "jpg", "tif", "bmp", "gif", "webp", "ppm"])
@pytest.mark.parametrize("share", [0, 0.01, 0.6, 0.98])
def test_a_file_that_breaks_off_is_named(tmp_path, kind, share):
    """A copy that was interrupted; its lower part would be grey."""
    path = tmp_path / f"half.{kind}"
    noise = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(ValueError, match=f"half.{kind} cannot be read as an image"):
        read(tmp_path, path.name)


def test_what_is_no_image_is_named(tmp_path):
    (tmp_path / "letter.png").write_text("Dear reader")
    with pytest.raises(ValueError, match="letter.png cannot be read as an image"):
        read(tmp_path, "letter.png")
    with pytest.raises(ValueError, match="side is 0"):
        read(tmp_path, "letter.png", side=0)
