"""Explorers: the reader's input goes through the package, and a page without a kernel shows one sentence."""

import subprocess
import sys

import pytest
import torch
from ipywidgets.widgets.widget import _instances

from attncourse.viewer import (
    DocumentView,
    HeadMaps,
    document_explorer,
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


@pytest.mark.parametrize("explorer", [
    score_explorer,
    lambda: translation_explorer(translate, ["a b"]),
    lambda: window_explorer(windowed, ["a b"], systems=["plain"], half_width=1, widest=2),
    lambda: scene_explorer(pictured, ["two"], ["soft"], start={4: "two"}),
    lambda: document_explorer(read, {"one": "a b"}, systems=["mean"]),
    lambda: pretrained_explorer(heads_of, ["a b"]),
    lambda: transformer_explorer(transformed, ["a b"]),
])
def test_the_static_page_gets_one_sentence(explore, explorer):
    data, _ = explore(explorer)
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


def windowed(text, system, half_width):
    """Each word reads its neighbours; the published form keeps half of the weight."""
    words = text.split()
    near = torch.ones(len(words), len(words)).triu(-half_width).tril(half_width)
    near = near / near.sum(-1, keepdim=True)
    return words, words, near / 2 if system == "printed" else near


def test_every_control_of_the_window_explorer_computes_anew(explore):
    """A slider that is not observed moves, and the picture stays."""
    _, box = explore(window_explorer, windowed, ["a b c d", "e f"], systems=["plain", "printed"],
                     half_width=1, widest=3, known=set("abcdef"))
    example, sentence, system, width, _ = box.children
    assert '"weights":[[[0.5,0.5,0.0,0.0],' in html_of(box)
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
    assert "none says" in html_of(box) and '"weights":[[0.0],[0.0]]' in html_of(box), "it looks at nothing"
    grid.children[0].value = "four"
    assert html_of(box) == "<p>at most &lt;two&gt; things</p>"
    for place in grid.children:
        place.value = ""
    assert html_of(box) == "<p>Put something into the picture.</p>"


def test_a_typed_document_is_read(explore):
    _, box = explore(document_explorer, read, {"one": "a b\nc", "two": "d"}, systems=["mean", "first"])
    example, document, system, _ = box.children
    assert '"words":[["a","b"],["c"]]' in html_of(box)
    assert '"sentenceWeights":[0.66667,0.33333]' in html_of(box)
    system.value = "first"
    assert '"sentenceWeights":[1.0,0.0]' in html_of(box)
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
    assert '"weights":[[[0.3,0.0,0.0,0.7],' in html_of(box) and "never met: <b>e</b>" in html_of(box)
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


def test_without_ipywidgets_the_error_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(ImportError, match="pip install ipywidgets"):
        score_explorer()


def test_importing_the_viewer_loads_no_widgets():
    code = "import sys, attncourse.viewer; sys.exit('ipywidgets' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
    code = "import sys, attncourse; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0
