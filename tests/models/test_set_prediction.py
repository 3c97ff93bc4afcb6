"""Set prediction: the cheapest pairs found by trying all, the loss by hand, and both against Hugging Face."""

import itertools
import math

import pytest
import torch

from attncourse.boxes import Objects, generalized_box_iou, to_corners
from attncourse.models import Detected, answers, match, set_loss
from attncourse.models.set_prediction import WEIGHTS, Weights

CLASSES, QUERIES = 3, 5
BOX = [0.5, 0.5, 0.2, 0.2]


def detected(batch=2, queries=QUERIES, classes=CLASSES, earlier=0, seed=0, dtype=torch.float64):
    """What a model might say, and what it would have said after each earlier layer."""
    random = torch.Generator().manual_seed(seed)
    layers = [
        Detected(
            torch.randn(batch, queries, classes + 1, generator=random, dtype=torch.float64).mul(2).to(dtype),
            torch.randn(batch, queries, 4, generator=random, dtype=torch.float64).sigmoid().to(dtype),
        )
        for _ in range(earlier + 1)
    ]
    return layers[-1]._replace(earlier=tuple(layers[:-1]))


def objects(*counts, classes=CLASSES, seed=1, dtype=torch.float64):
    """So many objects in each image."""
    random = torch.Generator().manual_seed(seed)
    return [
        Objects(
            torch.randint(classes, (count,), generator=random),
            torch.rand(count, 4, generator=random, dtype=torch.float64).mul(0.8).add(0.1).to(dtype),
        )
        for count in counts
    ]


def sure(*rows, boxes=None):
    """One image in which each query has these probabilities; its boxes are all the same if not given."""
    logits = torch.tensor([rows], dtype=torch.float64).log()
    boxes = [BOX] * len(rows) if boxes is None else boxes
    return Detected(logits, torch.tensor([boxes], dtype=torch.float64))


def shown(*labels, boxes=None):
    """One image with an object of each label."""
    boxes = [BOX] * len(labels) if boxes is None else boxes
    return [Objects(torch.tensor(labels, dtype=torch.int64),
                    torch.tensor(boxes, dtype=torch.float64).reshape(-1, 4))]


def pairs(found):
    """{object: query} of each image."""
    return [dict(zip(each.objects.tolist(), each.queries.tolist(), strict=True)) for each in found]


def learning(said):
    """The same answers, with a gradient to be had of logits and boxes of every layer."""
    layers = [Detected(layer.logits.clone().requires_grad_(), layer.boxes.clone().requires_grad_())
              for layer in (*said.earlier, said)]
    return layers[-1]._replace(earlier=tuple(layers[:-1]))


# --- Matching ----------------------------------------------------------------------------------------------


def cost(said, image, query, label, box, weights):
    """-p(label) + 5 |box - box'|_1 - 2 GIoU, of one pair, as eq. 1 and 2 and section 3.1 have it."""
    answered = said.boxes[image, query]
    overlap = generalized_box_iou(to_corners(answered[None]), to_corners(box[None])).item()
    distance = sum(abs(x - y) for x, y in zip(answered.tolist(), box.tolist(), strict=True))
    odds = [math.exp(x) for x in said.logits[image, query].tolist()]
    return -weights.label * odds[label] / sum(odds) + weights.distance * distance - weights.overlap * overlap


@pytest.mark.parametrize("weights", [WEIGHTS, Weights(4.0, 0.5, 1.0), Weights(1.0, 0.0, 0.0)])
@pytest.mark.parametrize("seed", range(4))
def test_no_other_pairing_costs_less(seed, weights):
    """Try all of them: every way to give three objects a query each."""
    said, images = detected(seed=seed), objects(3, 2, seed=seed + 10)
    for image, found in enumerate(match(said, images, weights)):
        labels, boxes = images[image]
        total = {
            chosen: sum(cost(said, image, query, int(labels[i]), boxes[i], weights)
                        for i, query in enumerate(chosen))
            for chosen in itertools.permutations(range(QUERIES), len(labels))
        }
        [query] = pairs([found])
        chosen = tuple(query[i] for i in range(len(labels)))
        assert total[chosen] == pytest.approx(min(total.values())), (
            f"image {image}: is every part of the cost there, with its sign and its weight?")


def test_the_cheapest_query_for_one_may_be_needed_by_another():
    """Costs [[1, 2], [1, 10], [5, 3]]: query 0 for object 1 and 1 for 0 cost 3; greedily one would pay 4."""
    said = sure([0.50, 0.45, 0.05], [0.50, 0.05, 0.45], [0.30, 0.40, 0.30])  # p = (11 - cost) / 20
    found = match(said, shown(0, 1), Weights(20.0, 0.0, 0.0))
    assert pairs(found) == [{1: 0, 0: 1}]


def test_the_default_weights_are_the_paper_s():
    """Appendix A.4: 5 for the L1 distance, 2 for the generalised IoU."""
    assert WEIGHTS == (1.0, 5.0, 2.0)


def test_each_object_gets_one_query_and_no_query_two_objects():
    images = objects(4, 1, QUERIES, 0)
    for found, (labels, _) in zip(match(detected(4), images), images, strict=True):
        assert sorted(found.objects.tolist()) == list(range(len(labels)))
        assert len(set(found.queries.tolist())) == len(labels)
        assert found.queries.dtype == found.objects.dtype == torch.int64


def test_the_same_answer_twice_is_matched_once_and_the_same_object_twice_needs_two():
    """So a duplicate is told to say "no object", and that is why nothing has to be suppressed afterwards."""
    twice = sure([0.8, 0.2], [0.8, 0.2], [0.1, 0.9])
    [[query]] = [found.queries.tolist() for found in match(twice, shown(0))]
    assert query in (0, 1)
    assert sorted(pairs(match(twice, shown(0, 0)))[0].values()) == [0, 1]


def test_an_image_is_matched_with_its_own_objects():
    """The costs of all images lie side by side: each must read its own columns, also behind an empty one."""
    said, images = detected(4), objects(2, 0, 3, 1)
    together = match(said, images)
    for i, image in enumerate(images):
        alone = match(Detected(said.logits[i : i + 1], said.boxes[i : i + 1]), [image])
        assert pairs(alone) == pairs(together[i : i + 1]), f"image {i}"


def test_in_no_order():
    """Other numbers for the queries and the objects: the same pairs under other numbers."""
    said, images = detected(1), objects(3)
    queries, shuffled = torch.tensor([3, 0, 4, 2, 1]), torch.tensor([2, 0, 1])
    [before] = pairs(match(said, images))
    moved = Detected(said.logits[:, queries], said.boxes[:, queries])
    [after] = pairs(match(moved, [Objects(*(part[shuffled] for part in images[0]))]))
    assert {int(shuffled[i]): int(queries[q]) for i, q in after.items()} == before


@pytest.mark.parametrize("counts", [(0, 2), (2, 0), (0, 0)])
def test_an_image_may_be_empty(counts):
    """As may all of them."""
    images = objects(*counts)
    assert [len(found.queries) for found in match(detected(), images)] == list(counts)
    said = learning(detected(earlier=1))
    loss = set_loss(said, images)
    assert all(part.isfinite() for part in loss)
    loss.total.backward()
    for layer in (said, *said.earlier):
        assert layer.logits.grad.isfinite().all() and layer.boxes.grad.isfinite().all()
    if not any(counts):
        assert loss.distance == loss.overlap == 0
        nothing = -said.logits.log_softmax(-1)[..., -1].mean()
        torch.testing.assert_close(loss.label, nothing, msg="every query is asked for 'no object'")


# --- The loss ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("no_object", "expected"), [(0.1, 0.5575), (1.0, 0.2523)])
def test_the_label_loss_by_hand(no_object, expected):
    """One matched query at 0.5, three empty ones at 0.9: the mean is weighted, above and below the line."""
    loss = set_loss(sure([0.5, 0.5], *[[0.1, 0.9]] * 3), shown(0), no_object=no_object)
    by_hand = (math.log(2) - 3 * no_object * math.log(0.9)) / (1 + 3 * no_object)
    assert by_hand == pytest.approx(expected, abs=5e-5)
    assert loss.label.item() == pytest.approx(by_hand), "sum of weighted terms / sum of the weights"
    assert loss.total.item() == pytest.approx(by_hand), "the boxes are right and cost nothing"


def test_the_box_loss_by_hand():
    """Twice the width and height: .2 + .2 away, a quarter of the area shared; the other image is right."""
    said = Detected(torch.zeros(2, 1, 2), torch.tensor([[BOX], [BOX]]))
    images = [Objects(torch.tensor([0]), torch.tensor([[0.5, 0.5, 0.4, 0.4]])),
              Objects(torch.tensor([0]), torch.tensor([BOX]))]
    loss = set_loss(said, images)
    assert loss.distance.item() == pytest.approx(0.4 / 2), "summed over numbers, divided by 2 objects"
    assert loss.overlap.item() == pytest.approx((1 - 0.25) / 2)
    assert loss.label.item() == pytest.approx(math.log(2))
    assert loss.total.item() == pytest.approx(math.log(2) + 5 * 0.2 + 2 * 0.375)


def test_the_boxes_are_divided_by_the_objects_of_the_batch_and_not_of_an_image():
    """Three objects 0.4 away and one that costs nothing: 1.2 / 4, and neither 1.2 / 2 nor (0.4 + 0) / 2."""
    large = [0.5, 0.5, 0.4, 0.4]
    said = Detected(torch.zeros(2, 3, 2), torch.tensor([[BOX] * 3] * 2))
    images = [Objects(torch.tensor([0, 0, 0]), torch.tensor([large] * 3)),
              Objects(torch.tensor([0]), torch.tensor([BOX]))]
    loss = set_loss(said, images)
    assert loss.distance.item() == pytest.approx(1.2 / 4)
    assert loss.overlap.item() == pytest.approx(3 * 0.75 / 4)


@pytest.mark.parametrize("weights", [Weights(2.0, 0.0, 3.0), Weights(0.5, 1.0, 0.0)])
def test_the_weights_count_in_the_total_and_not_in_the_parts(weights):
    said, images = detected(seed=1), objects(2, 3)
    loss = set_loss(said, images, weights=weights)
    total = sum(weight * part for weight, part in zip(weights, loss[1:], strict=True))
    torch.testing.assert_close(loss.total, total)
    found = match(said, images, weights)
    assert pairs(found) != pairs(match(said, images)), "other weights, other pairs"
    distance = sum(
        (said.boxes[i, each.queries] - images[i].boxes[each.objects]).abs().sum()
        for i, each in enumerate(found)
    )
    torch.testing.assert_close(loss.distance, distance / 5, msg="the loss uses the pairs of these weights")


def test_no_object_is_the_last_outcome():
    """3 classes have 4 logits: 0, 1, 2, and 3 for nothing. One off, and every empty query is a dog."""
    right = sure([1e-9, 1e-9, 1, 1e-9], *[[1e-9, 1e-9, 1e-9, 1]] * 2)
    assert set_loss(right, shown(2)).total < 1e-6
    for outcome in range(3):
        row = [1e-9] * 4
        row[outcome] = 1
        assert set_loss(sure([1e-9, 1e-9, 1, 1e-9], row, row), shown(2)).label > 1


def test_perfect_answers_cost_nothing_and_every_mistake_something():
    boxes = [[0.2, 0.2, 0.2, 0.2], [0.7, 0.6, 0.3, 0.4], [0.5, 0.5, 0.9, 0.9]]
    images = shown(0, 1, boxes=boxes[:2])
    rows = [[1, 1e-9, 1e-9], [1e-9, 1, 1e-9], [1e-9, 1e-9, 1]]
    assert set_loss(sure(*rows, boxes=boxes), images).total < 1e-6
    wrong_box = [[0.3, 0.2, 0.2, 0.2], *boxes[1:]]
    assert set_loss(sure(*rows, boxes=wrong_box), images).total > 0.5
    for mistaken in ([rows[2], *rows[1:]], [rows[1], *rows[1:]], [*rows[:2], rows[0]]):
        assert set_loss(sure(*mistaken, boxes=boxes), images).total > 0.5


def test_an_empty_query_s_box_learns_nothing_and_its_label_does():
    """Nobody asks where "nothing" is."""
    said, images = learning(detected()), objects(2, 3)
    set_loss(said, images).total.backward()
    assert (said.logits.grad != 0).all()
    for i, found in enumerate(match(said, images)):
        moved = said.boxes.grad[i].ne(0).any(-1)
        assert moved.nonzero().flatten().tolist() == found.queries.tolist()


def test_the_loss_does_not_depend_on_any_order():
    said, images = detected(1), objects(3)
    queries, shuffled = torch.tensor([3, 0, 4, 2, 1]), torch.tensor([2, 0, 1])
    moved = Detected(said.logits[:, queries], said.boxes[:, queries])
    loss = set_loss(moved, [Objects(*(part[shuffled] for part in images[0]))])
    for found, expected in zip(loss, set_loss(said, images), strict=True):
        torch.testing.assert_close(found, expected)


def test_gradients_are_those_of_finite_differences():
    said, images = learning(detected(queries=4)), objects(2, 1)
    inputs = said.logits, said.boxes
    assert torch.autograd.gradcheck(lambda *given: set_loss(Detected(*given), images).total, inputs)


def test_half_precision_is_matched_in_single():
    """Answers under autocast: the same pairs, and a loss that is nearly the same."""
    said, images = detected(dtype=torch.bfloat16), objects(2, 3, dtype=torch.float32)
    whole = Detected(said.logits.float(), said.boxes.float())
    assert pairs(match(said, images)) == pairs(match(whole, images))
    torch.testing.assert_close(set_loss(said, images).total.float(), set_loss(whole, images).total,
                               rtol=0.02, atol=0)
    close = Detected(torch.tensor([[[8, 0.5], [8, 0]]]).bfloat16(), torch.tensor([[BOX, BOX]]).bfloat16())
    assert pairs(match(close, shown(0))) == [{0: 1}], "0.9994 and 0.9997 are both 1 in bfloat16"


# --- Auxiliary losses --------------------------------------------------------------------------------------


def test_the_total_is_that_of_all_layers_and_the_parts_are_the_last_s():
    """Six layers, five of them earlier; each costs as much as if it were alone."""
    said, images = detected(earlier=5), objects(2, 3)
    loss = set_loss(said, images, no_object=0.3)
    alone = [set_loss(layer._replace(earlier=()), images, no_object=0.3) for layer in (*said.earlier, said)]
    assert len(alone) == 6
    torch.testing.assert_close(loss.total, sum(each.total for each in alone))
    for part in ("label", "distance", "overlap"):
        torch.testing.assert_close(getattr(loss, part), getattr(alone[-1], part))
    weighted = alone[-1].label + 5 * alone[-1].distance + 2 * alone[-1].overlap
    torch.testing.assert_close(alone[-1].total, weighted, msg="without earlier layers one loss is left")


def test_each_layer_is_matched_anew():
    """An earlier layer may have found the object with another query; forced to the last's, it would pay."""
    last, images = sure([0.9, 0.1], [0.1, 0.9]), shown(0)
    earlier = sure([0.1, 0.9], [0.9, 0.1])
    both = set_loss(last._replace(earlier=(earlier,)), images)
    torch.testing.assert_close(both.total, 2 * set_loss(last, images).total)


# --- Hugging Face's DETR -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def published():
    """Their matcher and their loss, with the coefficients that their configuration has if nobody asks."""
    from transformers import DetrConfig
    from transformers.loss import loss_for_object_detection as theirs

    def loss(said, images, **options):
        layers = (*said.earlier, said)
        config = DetrConfig(backbone=None, use_timm_backbone=False, use_pretrained_backbone=False,
                            num_labels=CLASSES, auxiliary_loss=len(layers) > 1, decoder_layers=len(layers),
                            **options)
        matcher = theirs.HungarianMatcher(config.class_cost, config.bbox_cost, config.giou_cost)
        labels = [{"class_labels": labels, "boxes": boxes} for labels, boxes in images]
        found = matcher({"logits": said.logits, "pred_boxes": said.boxes}, labels)
        logits, boxes = (torch.stack([layer[part] for layer in layers]) for part in range(2))
        total, parts, _ = theirs.ForObjectDetectionLoss(
            said.logits, labels, said.logits.device, said.boxes, config, logits, boxes
        )
        return found, total, [parts[f"loss_{name}"] for name in ("ce", "bbox", "giou")]

    return loss


@pytest.mark.parametrize("counts", [(3, 1, 5), (0, 2, 4), (0, 0, 0)])
@pytest.mark.parametrize("earlier", [0, 2])
def test_pairs_losses_and_gradients_are_hugging_face_s(published, earlier, counts):
    """Same tensors, same labels and boxes; the default weights are theirs too."""
    said = learning(detected(3, earlier=earlier, dtype=torch.float32))
    images = objects(*counts, dtype=torch.float32)
    found, total, parts = published(said, images)
    expected = [dict(zip(j.tolist(), i.tolist(), strict=True)) for i, j in found]
    assert pairs(match(said, images)) == expected
    ours = set_loss(said, images)
    torch.testing.assert_close(ours.total, total, rtol=1e-5, atol=1e-5)
    for name, part, theirs in zip(("label", "distance", "overlap"), ours[1:], parts, strict=True):
        torch.testing.assert_close(part, theirs, rtol=1e-5, atol=1e-5, msg=f"{name}: {part} and {theirs}")
    inputs = [tensor for layer in (said, *said.earlier) for tensor in layer[:2]]
    gradients = (torch.autograd.grad(loss, inputs) for loss in (ours.total, total))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


def test_another_weight_of_no_object_is_hugging_face_s(published):
    said, images = detected(3, dtype=torch.float32), objects(2, 0, 1, dtype=torch.float32)
    _, total, _ = published(said, images, eos_coefficient=0.4)
    torch.testing.assert_close(set_loss(said, images, no_object=0.4).total, total, rtol=1e-5, atol=1e-5)


# --- Answers -----------------------------------------------------------------------------------------------


def test_every_query_answers_with_its_likeliest_class():
    """Also one that says "no object": its score is low, and a threshold leaves it out."""
    said = sure([0.2, 0.7, 0.1], [0.06, 0.04, 0.9], boxes=[BOX, [0.1, 0.2, 0.1, 0.1]])
    [found] = answers(said)
    assert found.labels.tolist() == [1, 0]
    assert found.scores.tolist() == pytest.approx([0.7, 0.06]), "of all outcomes, 'no object' counted"
    assert torch.equal(found.boxes, said.boxes[0])
    assert found.above(0.5).labels.tolist() == [1]
    assert [len(each.labels) for each in answers(detected(3))] == [QUERIES] * 3


# --- Errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("part", ["logits", "boxes"])
@pytest.mark.parametrize("judge", [match, set_loss])
def test_a_prediction_that_is_not_finite_is_named_with_its_image(judge, part, value):
    """SciPy says that a matrix is infeasible, or pairs what means nothing."""
    said = detected(3)
    getattr(said, part)[1, 2, 0] = value
    with pytest.raises(ValueError, match="non-finite prediction for image 1.*diverged"):
        judge(said, objects(1, 1, 1))


def test_an_earlier_layer_that_is_not_finite_is_named_too():
    said = detected(earlier=2)
    said.earlier[1].boxes[0, 0, 0] = math.nan
    with pytest.raises(ValueError, match="non-finite prediction for image 0"):
        set_loss(said, objects(1, 1))


@pytest.mark.parametrize(("said", "images", "error", "words"), [
    (detected(2), objects(1), ValueError, ["objects holds 1 images and detected 2"]),
    (detected(2), objects(1, QUERIES + 1), ValueError,
     ["objects[1] shows 6 objects", "5 queries", "build it with more"]),
    (detected(1), shown(3), ValueError,
     ["objects[0] has label 3", "3 classes", "0 to 2", "3 is 'no object'"]),
    (detected(2), objects(1) + shown(0, -1), ValueError, ["objects[1] has label -1", "3 classes"]),
    (detected(1), shown(0, boxes=[[0.5, 0.5, -0.1, 0.2]]), ValueError,
     ["objects[0] has the box [0.5, 0.5, -0.1, 0.2]", "no negative width or height"]),
    (detected(2), objects(1) + shown(0, boxes=[[0.5, math.nan, 0.1, 0.2]]), ValueError,
     ["objects[1] has the box [0.5, nan, 0.1, 0.2]", "finite"]),
    (detected(2), objects(1) + shown(0, 1, boxes=[BOX]), ValueError,
     ["objects[1] has labels of shape (2,) and boxes of shape (1, 4)", "one box each"]),
    (detected(1), [Objects(torch.zeros(0, dtype=torch.int64), torch.tensor([]))], ValueError,
     ["objects[0]", "boxes of shape (0,)", "(objects, 4)"]),
    (detected(2), objects(1) + [Objects(torch.tensor([]), torch.zeros(0, 4))], TypeError,
     ["objects[1] has labels of torch.float32", "torch.int64", "where there are none"]),
    (sure([0.5, 0.5], boxes=[[0.5, 0.5, 0.1, -0.1]]), shown(0), ValueError,
     ["detected", "negative width or height", "image 0", "sigmoid"]),
], ids=["images", "queries", "label too large", "label negative", "box turned", "box not finite",
        "fewer boxes", "no boxes' shape", "no labels' dtype", "answer turned"])
@pytest.mark.parametrize("judge", [match, set_loss])
def test_what_cannot_be_matched_is_named(judge, said, images, error, words):
    """The image, what was given, and what may be: not an index error, nor a device assert on a GPU."""
    with pytest.raises(error) as caught:
        judge(said, images)
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_single_object_is_divided_by_one():
    """A batch with nothing is divided by 1, too, and not every batch by 2."""
    said, there = detected(1), objects(1)
    [pair] = match(said, there)
    apart = (said.boxes[0, pair.queries] - there[0].boxes[pair.objects]).abs().sum()
    torch.testing.assert_close(set_loss(said, there).distance, apart)


def test_a_box_may_be_a_line():
    """A width of 0 is a width; only a negative one is none."""
    line = [0.5, 0.5, 0.0, 0.25]
    assert set_loss(sure([0.9, 0.1], boxes=[line]), shown(0, boxes=[line])).total.isfinite()


@pytest.mark.parametrize("dtype", [torch.int32, torch.uint8, torch.bool])
def test_labels_are_int64_and_nothing_else(dtype):
    """Booleans and bytes would pick by mask where integers pick by place."""
    [(labels, boxes)] = shown(0, 1)
    with pytest.raises(TypeError, match=rf"objects\[0\] has labels of {dtype}: they must be torch.int64"):
        match(detected(1), [Objects(labels.to(dtype), boxes)])
