"""Your own images with boxes, from a file of annotations in COCO's format ("instances").

A box is true of the picture that it was drawn on, and files leave open which one that was: a camera stores a
picture lying on its side and notes how to turn it, and some tools draw on what is stored, others on what is
shown. Pixels and boxes come out describing the same picture, or the picture is refused by name.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from attncourse.boxes import Objects, from_corners
from attncourse.data.detection import SIDE, BoxedImage

ORIENTATION = 0x0112  # the EXIF tag: 1 is upright, 2 to 4 are mirrored or upside down, 5 to 8 lie on a side
PHOTOMETRIC, WHITE_IS_ZERO = 262, 0  # a TIFF tag, and what it says of greys that are stored as negatives
LARGEST = 1e9  # no number of a bbox is larger, in pixels


class Entry(NamedTuple):
    """One image of the file: its name, the size that the file gives it, if any, and its annotations."""

    name: str
    size: tuple | None
    marks: list[dict[str, Any]]


class Picture(NamedTuple):
    """An image as it is shown: a square of pixels, its width and height before, and its EXIF orientation."""

    image: Float[Tensor, "channels side side"]
    size: tuple[int, int]
    turn: int


def coco_images(
    annotations: str | Path, folder: str | Path, *, side: int = SIDE, grey: bool = False
) -> tuple[list[BoxedImage], tuple[str, ...]]:
    """Your own images with boxes, from a file of annotations in COCO's format.

    Each image is turned as it is shown, and squeezed or stretched to a square; a box, which is a share of the
    image, stays as it is. Where the file gives the size that is stored and not the one that is shown, the
    boxes were drawn on what is stored, and are turned with the pixels; where the size does not tell, the
    other images of the file do, and else the boxes were drawn on what is shown. What is transparent is laid
    on white. A box that reaches outside the image is cut off there; what has no area then, and groups marked
    as crowds, are left out. COCO's category ids may have gaps: ours are counted from 0, in their order.

    Args:
        annotations: a JSON file with "images", "annotations" and "categories".
        folder: where the images lie, under the names that the file gives.
        side: of the squares, in pixels.
        grey: one channel instead of three.

    Returns:
        The images, in the order of the file, and the names of the labels.

    Raises:
        ValueError: not such a file, an id given twice, an annotation of an image or a category that the file
            does not name, a box that is not four finite numbers, an image of another size than the file says,
            or one that cannot be read, or whose numbers do not say what is black and what is white.
        FileNotFoundError: an image is not in the folder.
    """
    if side < 1:
        raise ValueError(f"side is {side}: it must be at least 1 pixel")
    path = Path(annotations)
    try:
        entries, label_of, names = _read_annotations(path)
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"annotations {annotations} is not a COCO file of instances, a JSON object with "
                         f"images, annotations and categories ({error!r})") from error
    pictures = [_read_picture(Path(folder) / entry.name, side, grey) for entry in entries]
    fits = [_drawn_on(path, entry, picture) for entry, picture in zip(entries, pictures, strict=True)]
    told = {fit for each in fits if len(each) == 1 for fit in each}
    stored = [fit == {"stored"} or (len(fit) == 2 and told == {"stored"}) for fit in fits]
    boxed = [
        BoxedImage(picture.image, _objects(entry.marks, label_of, picture, turn))
        for entry, picture, turn in zip(entries, pictures, stored, strict=True)
    ]
    return boxed, names


# --- Annotations -------------------------------------------------------------------------------------------


def _read_annotations(path: Path) -> tuple[list[Entry], dict[int, int], tuple[str, ...]]:
    """The file's images, the label of each category id, and the labels' names."""
    parts = json.loads(path.read_bytes())  # bytes, so that the mark that opens some files is no letter
    images, marks, categories = (parts[name] for name in ("images", "annotations", "categories"))
    for part, ids in {
        "images": [image["id"] for image in images],
        "annotations": [mark["id"] for mark in marks if "id" in mark],
        "categories": [category["id"] for category in categories],
    }.items():
        for given, count in Counter(ids).items():
            if count > 1:
                raise ValueError(f"annotations {path}: {part} has the id {given} {count} times; an id must "
                                 "belong to one")
    categories = sorted(categories, key=lambda category: category["id"])
    label_of = {category["id"]: label for label, category in enumerate(categories)}
    marks_of: dict[int, list[dict]] = {image["id"]: [] for image in images}
    for mark in marks:
        if mark["image_id"] not in marks_of or mark["category_id"] not in label_of:
            raise ValueError(f"annotations {path}: the annotation {mark.get('id')} names image "
                             f"{mark['image_id']} and category {mark['category_id']}; it must list both")
        _check_box(path, mark)
        marks_of[mark["image_id"]].append(mark)
    entries = [Entry(_text(image["file_name"]), _annotated_size(image), marks_of[image["id"]])
               for image in images]
    return entries, label_of, tuple(_text(category["name"]) for category in categories)


def _check_box(path: Path, mark: dict[str, Any]) -> None:
    box = mark["bbox"]
    numbers = isinstance(box, list) and len(box) == 4 and all(
        isinstance(number, int | float) and not isinstance(number, bool) and abs(number) < LARGEST
        for number in box
    )
    if not numbers or min(box[2:]) < 0:
        raise ValueError(f"annotations {path}: the annotation {mark.get('id')} has the bbox {box}; it must "
                         "be (left, top, width, height), four finite numbers, the last two 0 or more")


def _annotated_size(image: dict[str, Any]) -> tuple | None:
    size = image.get("width"), image.get("height")
    return None if size == (None, None) else size


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{given!r} is not a name")
    return given


def _drawn_on(path: Path, entry: Entry, picture: Picture) -> set[str]:
    """What the boxes can have been drawn on: the picture that is "shown", the one "stored", or either."""
    sizes = {"shown": picture.size, "stored": picture.size[:: -1 if picture.turn >= 5 else 1]}
    fits = {name for name, size in sizes.items() if entry.size in (None, size)}
    if not fits:
        given, shown = (" x ".join(map(str, size)) for size in (entry.size, picture.size))
        raise ValueError(f"annotations {path}: {entry.name} is given as {given} pixels, and the image has "
                         f"{shown}; boxes of another picture cannot be used: take the picture that they were "
                         "drawn on, or scale the boxes and correct width and height")
    return fits


def _objects(
    marks: list[dict[str, Any]], label_of: dict[int, int], picture: Picture, stored: bool
) -> Objects:
    """The boxes as shares of the picture that is shown, cut off at its border."""
    width, height = picture.size[:: -1 if stored and picture.turn >= 5 else 1]
    boxes = torch.tensor([mark["bbox"] for mark in marks], dtype=torch.float64).reshape(-1, 4)
    corners = torch.cat([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], dim=1)
    corners = (corners / torch.tensor([width, height, width, height])).clamp(0, 1)
    labels = torch.tensor([label_of[mark["category_id"]] for mark in marks], dtype=torch.long)
    crowds = torch.tensor([bool(mark.get("iscrowd")) for mark in marks], dtype=torch.bool)
    real = (corners[:, 2:] > corners[:, :2]).all(-1) & ~crowds
    boxes = from_corners(corners[real])
    return Objects(labels[real], (_turned(boxes, picture.turn) if stored else boxes).float())


def _turned(boxes: Float[Tensor, "boxes 4"], turn: int) -> Float[Tensor, "boxes 4"]:
    """Boxes of the stored picture, turned as EXIF's orientation turns the pixels."""
    if turn >= 5:
        boxes = boxes[:, [1, 0, 3, 2]]
    flipped = torch.tensor([turn in (2, 3, 6, 7), turn in (3, 4, 7, 8)])
    return torch.cat([torch.where(flipped, 1 - boxes[:, :2], boxes[:, :2]), boxes[:, 2:]], dim=1)


# --- Pixels ------------------------------------------------------------------------------------------------


def _read_picture(path: Path, side: int, grey: bool) -> Picture:
    from PIL import Image, ImageOps  # only who brings images needs it

    try:
        with Image.open(path) as opened:
            turn = opened.getexif().get(ORIENTATION)
            shown = ImageOps.exif_transpose(opened)
            read = _deep_grey if shown.mode in ("I", "F") or shown.mode.startswith("I;16") else _bytes
            pixels = read(opened, shown, side, grey)
    except (FileNotFoundError, PermissionError, IsADirectoryError):
        raise  # they name the file
    except Exception as error:  # an image can be broken in as many ways as its format has decoders
        raise ValueError(f"{path} cannot be read as an image ({error}): save it anew, for example as a PNG "
                         "of 8 bits, or leave it out") from error
    return Picture(torch.from_numpy(pixels).float(), shown.size, turn if turn in range(2, 9) else 1)


def _bytes(opened: Any, shown: Any, side: int, grey: bool) -> np.ndarray:
    """Channels of 8 bits as numbers from 0 to 1, on white where they are transparent."""
    from PIL import Image

    if shown.has_transparency_data:
        shown = shown.convert("RGBA")
        shown = Image.alpha_composite(Image.new("RGBA", shown.size, "white"), shown)
    pixels = np.array(shown.convert("L" if grey else "RGB").resize((side, side)), dtype=np.float32) / 255
    return pixels[None] if grey else pixels.transpose(2, 0, 1).copy()


def _deep_grey(opened: Any, shown: Any, side: int, grey: bool) -> np.ndarray:
    """Greys of 16 bits, or floating-point numbers from 0 to 1; of others nobody knows what white is."""
    from PIL import Image

    if "transparency" in opened.info:
        raise ValueError("it has greys of more than 8 bits, and one of them is transparent")
    greys = np.asarray(shown, dtype=np.float32)
    if shown.mode.startswith("I;16") or (shown.mode == "I" and opened.format in ("PNG", "PPM")):
        greys = greys / 65535
    if not (greys.min() >= 0 and greys.max() <= 1):  # so that NaN is refused too
        raise ValueError(f"its greys go from {greys.min():g} to {greys.max():g}: it must have 8 or 16 bits, "
                         "or numbers from 0 to 1")
    if opened.format == "TIFF" and opened.tag_v2.get(PHOTOMETRIC) == WHITE_IS_ZERO:
        greys = 1 - greys
    small = np.array(Image.fromarray(greys).resize((side, side))).clip(0, 1)  # what is smoothed may overshoot
    return small[None].repeat(1 if grey else 3, axis=0)
