"""Explorers: the reader's input goes through the package, and a page without a kernel shows one sentence."""

import subprocess
import sys

import pytest
import torch
from ipywidgets.widgets.widget import _instances

from attncourse.viewer import scene_explorer, score_explorer, translation_explorer, window_explorer

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
