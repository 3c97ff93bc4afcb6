"""What DETR's loss costs: pairs are found on the processor, image by image, for every decoder layer."""

import pytest
import torch

from attncourse.boxes import Objects
from attncourse.models import DETR, CellBackbone, Detected, match, set_loss

BATCH, SIDE, CLASSES, OBJECTS = 32, 48, 10, 3


@pytest.fixture
def detr():
    torch.manual_seed(0)
    return DETR(CellBackbone(), 64, CLASSES)


@pytest.fixture
def batch():
    """As in the chapter: scenes of 48 x 48 pixels, three digits each."""
    random = torch.Generator().manual_seed(0)
    images = torch.rand(BATCH, 1, SIDE, SIDE, generator=random)
    labels = torch.randint(CLASSES, (BATCH, OBJECTS), generator=random)
    boxes = torch.rand(BATCH, OBJECTS, 4, generator=random) / 3 + 0.2
    return images, [Objects(*shown) for shown in zip(labels, boxes, strict=True)]


def answered(detr, images):
    """The answers of all layers, cut off from the model: a gradient ends here."""
    found = detr(images)
    *earlier, last = (Detected(layer.logits.detach().requires_grad_(), layer.boxes.detach().requires_grad_())
                      for layer in (*found.earlier, found))
    return last._replace(earlier=tuple(earlier))


def test_the_loss_is_a_small_part_of_a_step(detr, batch, ratio):
    """Three layers are matched and judged, and all of it goes back, while the model does the same once."""
    images, objects = batch
    said = answered(detr, images)

    def model():
        detr.zero_grad()
        found = detr(images)
        sum(layer.logits.sum() + layer.boxes.sum() for layer in (*found.earlier, found)).backward()

    found = ratio(lambda: set_loss(said, objects).total.backward(), model)
    assert found >= 2, f"the model takes {found:.1f} times as long as its loss, not 2"


def test_one_table_of_costs_for_the_whole_batch(detr, batch, ratio):
    """Each image reads its own columns of it; the peer makes 32 small tables."""
    images, objects = batch
    said = answered(detr, images)
    parts = [(Detected(said.logits[i : i + 1], said.boxes[i : i + 1]), [shown])
             for i, shown in enumerate(objects)]
    found = ratio(lambda: match(said, objects), lambda: [match(*part) for part in parts])
    assert found >= 2.5, f"one table is {found:.1f} times as fast as {BATCH}, not 2.5"
