"""Explorers: the reader's input goes through the package, and a page without a kernel shows one sentence."""

import base64
import re
import subprocess
import sys
import warnings
from types import SimpleNamespace

import pytest
import torch
from ipywidgets.widgets.widget import _instances

from attncourse import attention
from attncourse.viewer import (
    DocumentView,
    HeadMaps,
    PatchView,
    detection_explorer,
    document_explorer,
    patch_explorer,
    pretrained_explorer,
    scene_explorer,
    score_explorer,
    transformer_explorer,
    translation_explorer,
    window_explorer,
)

WIDGET = "application/vnd.jupyter.widget-view+json"


def translate(text):
    words = text.split()
    if "stop" in words:
        raise ValueError("a <sentence> may not contain 'stop'")
    return [word.upper() for word in words], words, torch.eye(len(words))


def windowed(text, system, half_width):
    """Each word reads its neighbours; the published form keeps half of the weight."""
    words = text.split()
    near = torch.ones(len(words), len(words)).triu(-half_width).tril(half_width)
    near = near / near.sum(-1, keepdim=True)
    return words, words, near / 2 if system == "printed" else near


def pictured(held, specimen, system):
    """A picture of 3 by 3 pixels, bright where something stands; the words name what stands there."""
    if len(held) > 2:
        raise ValueError("at most <two> things")
    image = torch.zeros(3, 3)
    image.view(-1)[list(held)] = 1 / (1 + specimen)
    weights = None if system == "none" else torch.eye(9)[list(held)]
    return image, list(held.values()), weights, f"{system} says: <{' '.join(held.values())}>"


def read(text, system):
    """Every word alike, or all on the first word of the first sentence."""
    sentences = [line.split() for line in text.splitlines()]
    if any("stop" in sentence for sentence in sentences):
        raise ValueError("a <document> may not contain 'stop'")
    weights = [torch.full((len(sentence),), 1 / sum(map(len, sentences))) for sentence in sentences]
    if system == "first":
        weights = [torch.zeros(len(sentence)) for sentence in sentences]
        weights[0][0] = 1
    return DocumentView(sentences, weights)


def heads_of(text):
    """Two heads: the first reads the first word, the second reads all alike."""
    words = text.split()
    if "stop" in words:
        raise ValueError("a <sentence> may not contain 'stop'")
    if "own" in words:
        raise ImportError("the <encoder> is not installed: type this")
    first = torch.zeros(len(words), len(words))
    first[:, 0] = 1
    return words, torch.stack([first, torch.full_like(first, 1 / len(words))])[None]


def transformed(text):
    """Two layers of two heads; each puts its own share on the first key, and the rest on the last."""
    written, read, _ = translate(text)
    written = [] if "nothing" in read else written
    target = ["<start>", *written]

    def maps(queries, keys):
        weights = torch.zeros(2, 2, len(queries), len(keys))
        weights[..., 0] += torch.tensor([[0.1, 0.2], [0.3, 0.4]])[..., None]
        weights[..., -1] += 1 - weights.sum(-1)
        return HeadMaps(weights, queries, keys)

    return written, read, {"inside the source": maps(read, read), "inside the target": maps(target, target)}


class PatchModel:
    """It says where the brightest patch of an image is; the heads of a layer attend to their own patch."""

    def __call__(self, images):
        return 10 * torch.nn.functional.avg_pool2d(images, 2).flatten(1)

    def attention_maps(self, images):
        maps = torch.zeros(len(images), 2, 3, 5, 5)
        for layer in range(2):
            for head in range(3):
                maps[:, layer, head, :, layer + head] = 1
        assert not torch.is_grad_enabled(), "the explorer needs no gradient, and should not pay for one"
        return maps


class BoxModel:
    """Its first query finds the brightest pixel, the second never finds anything."""

    def __call__(self, images):
        row, column = divmod(images[0, 0].argmax().item(), 8)
        boxes = torch.tensor([[(column + 0.5) / 8, (row + 0.5) / 8, 0.25, 0.125], [0.5, 0.5, 1.0, 1.0]])
        logits = torch.tensor([[0.0, 3.0, 0.0], [0.0, 0.0, 3.0]])
        return SimpleNamespace(logits=logits[None], boxes=boxes[None])

    def attention_maps(self, images):
        decoder = torch.zeros(1, 2, 2, 2, 4)
        decoder[0, 0, :, :, 3] = 1
        decoder[0, 1, 0, :, 1] = decoder[0, 1, 1, :, 2] = 1
        return SimpleNamespace(decoder=decoder, encoder=torch.eye(4).expand(1, 1, 3, 4, 4))


SPOT = torch.zeros(1, 1, 4, 4)
SPOT[0, 0, 0, 1] = 1.0
SCENES = torch.zeros(2, 1, 8, 8)
SCENES[0, 0, 5, 2], SCENES[1, 0, 0, 7] = 0.6, 0.6
DOT = torch.full((1, 2, 2), 0.5)
DOT[0, 0, 0] = 0.9


@pytest.fixture
def explore(published):
    """Run an explorer; return what it published and the box of controls behind it."""
    def explore(explorer, *arguments, **options):
        explorer(*arguments, **options)
        content = published[-1]
        return content, _instances[content[WIDGET]["model_id"]]

    return explore


def html_of(box) -> str:
    return box.children[-1].outputs[0]["data"]["text/html"]


EXPLORERS = {
    "score": lambda of: score_explorer(),
    "translation": lambda of: translation_explorer(of(translate), ["a b"]),
    "window": lambda of: window_explorer(of(windowed), ["a b"], systems=["plain"], half_width=1, widest=2),
    "scene": lambda of: scene_explorer(of(pictured), ["two"], ["soft"], start={4: "two"}),
    "document": lambda of: document_explorer(of(read), {"one": "a b"}, systems=["mean"]),
    "pretrained": lambda of: pretrained_explorer(of(heads_of), ["a b"]),
    "transformer": lambda of: transformer_explorer(of(transformed), ["a b"]),
    "patch": lambda of: patch_explorer(of(PatchModel()), SPOT.expand(2, -1, -1, -1), [0, 1]),
    "detection": lambda of: detection_explorer(of(BoxModel()), SCENES, ["cat", "dog"], {"dot": DOT}),
}
TYPED = ["translation", "window", "document", "pretrained", "transformer"]


@pytest.fixture
def trouble(monkeypatch):
    """What every model made by `of` raises from now on; nothing while `error` is None."""
    class Troubled:
        error = None

        def of(self, model):
            def call(*arguments, **options):
                if self.error is not None:
                    raise self.error
                return model(*arguments, **options)

            call.attention_maps = getattr(model, "attention_maps", None)
            return call

    trouble = Troubled()
    monkeypatch.setattr("attncourse.attention.attend", trouble.of(attention.attend))
    return trouble


def question(box):
    """The control that the reader turns to first: the line to type in, or else the first that moves."""
    *controls, _ = box.children
    return next((c for c in controls if type(c).__name__ in ("Text", "Textarea")),
                next((c for c in controls if type(c).__name__.endswith("Slider")), None))


def another(control):
    """Something else that may stand in a control."""
    if isinstance(control.value, str):
        return "b a"
    return control.value + (1 if isinstance(control.value, int) else 0.5)


@pytest.mark.parametrize("name", EXPLORERS)
@pytest.mark.parametrize("kind", [ValueError, TypeError, ImportError, KeyError, RuntimeError, AssertionError])
def test_what_a_model_raises_is_said_and_the_controls_stay_alive(explore, trouble, name, kind):
    """One explorer that lets an error through looks dead: the old answer stays under the new question."""
    _, box = explore(EXPLORERS[name], trouble.of)
    whole, control = html_of(box), question(box)
    before, asked = control.value, another(control)
    trouble.error = kind("no <word> of it")
    control.value = asked
    assert "no &lt;word&gt; of it" in html_of(box), "the reader is not told what went wrong"
    assert control.value == asked, "what the reader asked is lost"
    if kind not in (ValueError, TypeError, ImportError):
        assert kind.__name__ in html_of(box), "a fault that nobody foresaw is named"
        assert "Traceback" in html_of(box), "and says where it arose"
    trouble.error = None
    control.value = before
    assert html_of(box) == whole, "after an error the explorer no longer answers"


@pytest.mark.parametrize("name", EXPLORERS)
@pytest.mark.parametrize("kind", [ValueError, KeyError])
def test_an_explorer_that_begins_with_an_error_lives_and_warns(explore, trouble, name, kind):
    """Said only in the explorer, it would be overlooked when the chapter is run with nobody there."""
    trouble.error = kind("no <word> of it")
    with pytest.warns(UserWarning, match=f"the explorer begins with {kind.__name__}: .*no <word> of it"):
        _, box = explore(EXPLORERS[name], trouble.of)
    assert "no &lt;word&gt; of it" in html_of(box)
    trouble.error = None
    question(box).value = another(question(box))
    assert "no &lt;word&gt;" not in html_of(box) and ("<script" in html_of(box) or "<img" in html_of(box))


def test_an_error_without_a_message_has_a_name(explore, trouble):
    _, box = explore(EXPLORERS["translation"], trouble.of)
    trouble.error = ValueError()
    question(box).value = "b"
    assert "<p>ValueError</p>" in html_of(box), "an empty line explains nothing"


@pytest.mark.parametrize("name", TYPED)
@pytest.mark.parametrize("blank", ["", "  ", "\n\t"])
def test_nothing_typed_asks_for_something(explore, name, blank):
    """A model that is asked to read nothing divides by a length of 0, or answers with nothing at all."""
    def never(model):
        def call(text, *others):
            assert text.strip(), "the model was asked to read nothing"
            return model(text, *others)
        return call

    _, box = explore(EXPLORERS[name], never)
    question(box).value = blank
    assert re.fullmatch(r"<p>Type a (sentence|document)[^<]*</p>", html_of(box))
    question(box).value = "b a"
    assert "<script" in html_of(box)


@pytest.mark.parametrize(("explorer", "model", "options"), [
    (translation_explorer, translate, {}), (transformer_explorer, transformed, {}),
    (window_explorer, windowed, {"systems": ["plain"], "half_width": 1, "widest": 2}),
])
def test_an_unknown_word_is_named_and_answered(explore, explorer, model, options):
    """Read as any other word, it is one vector for all that was never met: the reader should know."""
    _, box = explore(explorer, model, ["a b"], known={"a", "b"}, **options)
    assert "never met" not in html_of(box)
    question(box).value = "a <zebra> b <zebra>"
    assert "never met: <b>&lt;zebra&gt;</b>." in html_of(box) and "<script" in html_of(box)
    question(box).value = "b a"
    assert "never met" not in html_of(box)


@pytest.mark.parametrize("name", TYPED)
def test_a_word_that_a_model_refuses_is_named(explore, name):
    def strict(model):
        def call(text, *others):
            if "zebra" in text:
                raise ValueError("the <encoder> has never met 'zebra'")
            return model(text, *others)
        return call

    _, box = explore(EXPLORERS[name], strict)
    question(box).value = "a zebra"
    assert html_of(box) == "<p>the &lt;encoder&gt; has never met &#x27;zebra&#x27;</p>"
    assert question(box).value == "a zebra"


@pytest.mark.parametrize(("scenes", "classes", "message"), [
    (SCENES[..., :6], ["cat", "dog"], "scenes are 8 by 6 pixels, which 4 square cells do not fill"),
    (SCENES, ["cat"], "probabilities has shape (2, 3), but there are 2 boxes and 1 classes"),
])
def test_what_does_not_fit_a_detector_is_said_in_the_explorer(explore, scenes, classes, message):
    with pytest.warns(UserWarning, match="the explorer begins with ValueError"):
        _, box = explore(detection_explorer, BoxModel(), scenes, classes, {"dot": DOT})
    assert message in html_of(box)


@pytest.mark.parametrize("explorer", EXPLORERS.values(), ids=EXPLORERS)
def test_the_static_page_gets_one_sentence(explore, explorer):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data, _ = explore(explorer, lambda model: model)
    assert set(data) == {WIDGET, "text/html", "text/plain"}
    assert data["text/html"] == (
        '<p class="attn-live">This explorer needs a running kernel: '
        '<span class="attn-launch">open the chapter in Colab or run it locally</span>.</p>'
    )
    assert "VBox" not in data["text/plain"]


def test_a_typed_sentence_is_translated_and_viewed(explore):
    _, box = explore(translation_explorer, translate, ["the cat", "a dog"], known={"the", "cat", "a", "dog"})
    example, sentence, _ = box.children
    assert '"queries":["THE","CAT"]' in html_of(box)
    sentence.value = "the zebra"
    assert '"queries":["THE","ZEBRA"]' in html_of(box)
    assert "never met: <b>zebra</b>" in html_of(box)
    example.value = "a dog"
    assert sentence.value == "a dog"
    assert '"queries":["A","DOG"]' in html_of(box) and "never met" not in html_of(box)


def test_what_goes_wrong_is_said_in_the_explorer(explore):
    _, box = explore(translation_explorer, translate, ["a"])
    sentence = box.children[1]
    sentence.value = "  "
    assert "Type a sentence" in html_of(box)
    sentence.value = "stop"
    assert "a &lt;sentence&gt; may not contain" in html_of(box)


def test_an_explorer_without_examples_is_refused():
    with pytest.raises(ValueError, match="examples is empty"):
        translation_explorer(translate, [])


def test_every_control_of_the_window_explorer_computes_anew(explore):
    """A slider that is not observed moves, and the picture stays."""
    _, box = explore(window_explorer, windowed, ["a b c d", "e f"], systems=["plain", "printed"],
                     half_width=1, widest=3, known=set("abcdef"))
    example, sentence, system, width, _ = box.children
    assert '"weights":[[[0.5,0.5,0,0],' in html_of(box)
    width.value = 3
    assert '"weights":[[[0.25,0.25,0.25,0.25],' in html_of(box)
    system.value = "printed"
    assert '"weights":[[[0.125,0.125,0.125,0.125],' in html_of(box), "a row may sum to less than 1"
    example.value = "e f"
    assert sentence.value == "e f" and '"keys":["e","f"]' in html_of(box)


def test_a_window_explorer_without_a_choice_is_refused():
    with pytest.raises(ValueError, match="systems is empty"):
        window_explorer(windowed, ["a"], systems=[], half_width=1, widest=2)
    with pytest.raises(ValueError, match="half_width is 3; it must lie between 1 and widest, 2"):
        window_explorer(windowed, ["a"], systems=["plain"], half_width=3, widest=2)


def test_every_control_of_the_score_explorer_computes_anew(explore):
    _, box = explore(score_explorer)
    score, temperature, x, _, _ = box.children
    seen = {html_of(box)}
    for name in score.options:
        score.value = name
        seen.add(html_of(box))
    assert len(seen) == len(score.options), "two scores drew the same picture"
    assert 'alt="LocationScore at temperature 1.00: k1 ' in html_of(box)
    score.value = "DotScore"
    before = html_of(box)
    temperature.value = 8
    flat = html_of(box)
    x.value = -2
    assert len({before, flat, html_of(box)}) == 3


def test_a_picture_is_put_together_and_captioned(explore):
    _, box = explore(scene_explorer, pictured, ["two", "four"], ["soft", "none"], start={4: "two"})
    grid, specimen, system, _ = box.children
    assert '"words":["two"]' in html_of(box) and "soft says: &lt;two&gt;" in html_of(box)
    grid.children[8].value = "four"
    assert '"words":["two","four"]' in html_of(box)
    before = html_of(box)
    specimen.value = 1
    assert html_of(box) != before, "another specimen is another picture"
    system.value = "none"
    assert "none says" in html_of(box) and '"weights":[[0],[0]]' in html_of(box), "it looks at nothing"
    grid.children[0].value = "four"
    assert html_of(box) == "<p>at most &lt;two&gt; things</p>"
    for place in grid.children:
        place.value = ""
    assert html_of(box) == "<p>Put something into the picture.</p>"


def test_a_typed_document_is_read(explore):
    _, box = explore(document_explorer, read, {"one": "a b\nc", "two": "d"}, systems=["mean", "first"])
    example, document, system, _ = box.children
    assert '"words":[["a","b"],["c"]]' in html_of(box)
    assert '"sentenceWeights":[0.6667,0.3333]' in html_of(box)
    system.value = "first"
    assert '"sentenceWeights":[1,0]' in html_of(box)
    example.value = "d"
    assert document.value == "d" and '"words":[["d"]]' in html_of(box)
    document.value = "e f\ng h"
    assert '"words":[["e","f"],["g","h"]]' in html_of(box)
    document.value = "stop"
    assert html_of(box) == "<p>a &lt;document&gt; may not contain &#x27;stop&#x27;</p>"
    document.value = " "
    assert "Type a document" in html_of(box)


def test_a_document_explorer_without_a_choice_is_refused():
    with pytest.raises(ValueError, match="examples is empty"):
        document_explorer(read, {}, systems=["mean"])
    with pytest.raises(ValueError, match="systems is empty"):
        document_explorer(read, {"one": "a"}, systems=[])


def test_a_typed_sentence_shows_every_head(explore):
    _, box = explore(pretrained_explorer, heads_of, ["a b", "c d e f"], names={(0, 1): "broad"})
    example, sentence, _ = box.children
    assert '"queries":["a","b"],"keys":["a","b"]' in html_of(box)
    assert '"weights":[[[[1,0],[1,0]],[[0.5,0.5],[0.5,0.5]]]]' in html_of(box)
    assert '"names":[{"layer":0,"head":1,"name":"broad"}]' in html_of(box)
    example.value = "c d e f"
    assert sentence.value == "c d e f" and '"keys":["c","d","e","f"]' in html_of(box)
    sentence.value = "g h"
    assert '"keys":["g","h"]' in html_of(box)
    for text, answer in {
        "my own": "<p>the &lt;encoder&gt; is not installed: type this</p>",
        "stop": "<p>a &lt;sentence&gt; may not contain &#x27;stop&#x27;</p>",
        " ": "<p>Type a sentence and press Enter.</p>",
    }.items():
        sentence.value = text
        assert html_of(box) == answer
    sentence.value = "long " * 300
    assert "choose a shorter sentence" in html_of(box), "what the view refuses must be said too"


def test_a_pretrained_explorer_without_an_example_is_refused():
    with pytest.raises(ValueError, match="examples is empty"):
        pretrained_explorer(heads_of, [])


def test_every_control_of_the_transformer_explorer_computes_anew(explore):
    """The head that was chosen stays when another sentence is typed, so that one head can be followed."""
    _, box = explore(transformer_explorer, transformed, ["a b", "c d e"], known=set("abcd"))
    example, sentence, relation, layer, head, _ = box.children
    assert [list(control.options) for control in (relation, layer, head)] == [
        ["inside the source", "inside the target"], [1, 2], [1, 2]]
    assert "<p>A B</p>" in html_of(box), "the translation is shown whatever the relation"
    assert '"weights":[[[0.1,0.9],[0.1,0.9]]]' in html_of(box)
    head.value = 2
    assert '"weights":[[[0.2,0.8],[0.2,0.8]]]' in html_of(box) and "layer 1, head 2" in html_of(box)
    layer.value = 2
    assert '"weights":[[[0.4,0.6],[0.4,0.6]]]' in html_of(box) and "layer 2, head 2" in html_of(box)
    head.value = 1
    assert '"weights":[[[0.3,0.7],[0.3,0.7]]]' in html_of(box) and "layer 2, head 1" in html_of(box)
    relation.value = "inside the target"
    assert '"keys":["\\u003cstart>","A","B"]' in html_of(box)
    assert "never met" not in html_of(box), "what is written is no question to the source vocabulary"
    example.value = "c d e"
    assert sentence.value == "c d e" and '"keys":["\\u003cstart>","C","D","E"]' in html_of(box)
    assert '"weights":[[[0.3,0,0,0.7],' in html_of(box) and "never met: <b>e</b>" in html_of(box)
    answers = {" ": "Type a sentence", "stop": "a &lt;sentence&gt; may not", "nothing": "wrote nothing"}
    for text, answer in answers.items():
        sentence.value = text
        assert answer in html_of(box)


def test_a_transformer_explorer_without_an_example_is_refused():
    with pytest.raises(ValueError, match="examples is empty"):
        transformer_explorer(transformed, [])


@pytest.mark.parametrize(("start", "systems", "message"), [
    ({9: "two"}, ["soft"], "start puts 'two' at 9: places are 0 to 8"),
    ({0: "six"}, ["soft"], r"start puts 'six' at 0: places are 0 to 8, things are \['two'\]"),
    ({}, [], "systems is empty"),
])
def test_a_picture_that_cannot_start_is_refused(start, systems, message):
    with pytest.raises(ValueError, match=message):
        scene_explorer(pictured, ["two"], systems, start=start)


def bright(data: dict) -> dict[tuple[int, int], int]:
    """The pixels of the image shown that are not black, by (row, column)."""
    pixels = base64.b64decode(data["image"]["bytes"])
    return {divmod(i, data["image"]["width"]): byte for i, byte in enumerate(pixels) if byte}


def test_an_image_is_pushed_and_the_model_looks_again(data_of, explore):
    """A slider that moves the picture, and not what the model sees, would explore nothing."""
    images = torch.cat([SPOT, SPOT.flip(-1, -2)])
    _, box = explore(patch_explorer, PatchModel(), images, [0, 3])
    image, right, down, layer, head, _ = box.children
    shown = data_of(html_of(box))
    assert bright(shown) == {(0, 1): 255}
    assert shown["label"] == "0" and shown["prediction"].startswith("0 (0.")
    right.value = 1
    assert bright(data_of(html_of(box))) == {(0, 2): 255}
    assert data_of(html_of(box))["prediction"].startswith("1 (0."), "the model must see the pushed image"
    down.value = 1
    assert bright(data_of(html_of(box))) == {(1, 2): 255}
    down.value = -1
    assert bright(data_of(html_of(box))) == {}, "what leaves the image does not come back on the other side"
    image.value, right.value, down.value = 1, -1, 0
    shown = data_of(html_of(box))
    assert bright(shown) == {(3, 1): 255}
    assert shown["label"] == "3" and shown["prediction"].startswith("2 (0.")
    assert images[1].sum() == 1 and SPOT[0, 0, 0, 1] == 1, "the reader's images stay as they were"


def test_the_layer_and_the_head_are_chosen(data_of, explore):
    _, box = explore(patch_explorer, PatchModel(), SPOT, [0])
    *_, layer, head, _ = box.children
    maps = PatchModel().attention_maps

    def given(weights) -> str:
        return data_of(PatchView(SPOT[0], weights[None, None])._repr_html_())["weights"]

    with torch.no_grad():
        all_maps = maps(SPOT)[0]
    assert layer.value == 2 and data_of(html_of(box))["weights"] == given(all_maps[1].mean(0))
    head.value = 1
    assert data_of(html_of(box))["weights"] == given(all_maps[1, 1])
    layer.value = 1
    assert data_of(html_of(box))["weights"] == given(all_maps[0, 1])
    assert "Layer 1, head: 2" in html_of(box)


def test_a_thing_is_moved_through_a_scene(data_of, explore):
    _, box = explore(detection_explorer, BoxModel(), SCENES, ["cat", "dog"], {"dot": DOT})
    scene, thing, across, down, threshold, _ = box.children
    shown = data_of(html_of(box))
    assert bright(shown) == {(5, 2): 153} and shown["classes"] == ["cat", "dog"]
    # The brightest pixel, (5, 2), with a width of 0.25 and a height of 0.125 of 8 pixels.
    assert shown["boxes"] == [[5, 1.5, 6, 3.5], [0, 0, 8, 8]]
    assert [part["name"] for part in shown["maps"]] == ["layer 1", "layer 2"]
    assert shown["maps"][0]["grid"] == [2, 2]
    assert (shown["encoder"]["heads"], shown["threshold"]) == (3, 0.5)
    thing.value = "dot"
    across.value, down.value = 100, 0
    shown = data_of(html_of(box))
    assert bright(shown) == {(0, 6): 229, (0, 7): 128, (1, 6): 128, (1, 7): 128, (5, 2): 153}
    assert shown["boxes"][0] == [0, 5.5, 1, 7.5], "the model must see what was added"
    scene.value = 1
    assert bright(data_of(html_of(box)))[0, 7] == 153, "where both have ink, the brighter shows"
    threshold.value = 0.95
    assert data_of(html_of(box))["threshold"] == 0.95
    thing.value = "(nothing)"
    assert bright(data_of(html_of(box))) == {(0, 7): 153}
    assert SCENES[1].count_nonzero() == 1, "the reader's scenes stay as they were"


@pytest.mark.parametrize(("explorer", "given", "message"), [
    (patch_explorer, (SPOT[:0], []), "images holds 0 images for 0 labels"),
    (patch_explorer, (SPOT, [1, 2]), "images holds 1 images for 2 labels: one for each"),
    (detection_explorer, (SCENES[:0], ["cat"], {"dot": DOT}), "scenes is empty"),
    (detection_explorer, (SCENES, ["cat"], {}), "things is empty"),
])
def test_images_that_cannot_be_explored_are_refused(explorer, given, message):
    model = PatchModel() if explorer is patch_explorer else BoxModel()
    with pytest.raises(ValueError, match=message):
        explorer(model, *given)


def test_without_ipywidgets_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match="pip install ipywidgets"):
        score_explorer()


def test_importing_the_viewer_loads_no_widgets():
    code = "import sys, attncourse.viewer; sys.exit('ipywidgets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
    code = "import sys, attncourse; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
