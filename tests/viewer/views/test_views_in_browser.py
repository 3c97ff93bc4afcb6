"""The views in a real browser, from a file with the network off: mouse, keyboard, touch, phone, dark."""

import re

import pytest
import torch
from matplotlib.colors import to_hex

from attncourse.viewer import (
    AttentionView,
    DecodingView,
    DetectionView,
    DocumentView,
    HeadMaps,
    HeadsView,
    ImageAttentionView,
    PatchView,
    WeighView,
    WindowView,
    heatmap,
)
from attncourse.viewer.plots.figure import figure_html
from attncourse.viewer.style import WEIGHTS as SHADES
from attncourse.viewer.style import luminance

pytestmark = pytest.mark.browser

QUERIES, KEYS = ["le", "chat", "dort"], ["the", "cat", "<script>alert(1)</script>"]
WEIGHTS = [[[0.8, 0.2, 0.0], [0.1, 0.9, 0.0], [0.0, 0.0, 0.0]], [[0.5, 0.25, 0.25], [0, 0, 1], [1, 0, 0]]]
TWO_HEADS = AttentionView(WEIGHTS, QUERIES, KEYS, heads=["near", "far"], title="Each word finds its own")
LONG = AttentionView(
    torch.randn(1, 60, generator=torch.Generator().manual_seed(0)).softmax(-1), ["查询"],
    [f"word{i}" if i != 30 else "a" * 80 for i in range(60)], title="One query, sixty keys",
)
LOOKS = torch.zeros(3, 2, 2)
LOOKS[0, 0, 0], LOOKS[0, 1, 1], LOOKS[1, 0, 1] = 0.8, 0.2, 1.0  # the third word looks at nothing
SCENE = ImageAttentionView(
    torch.tensor([[0.0, 1.0], [0.2, 0.0]]).repeat_interleave(4, 0).repeat_interleave(4, 1), ["a", "two", "a"],
    {"soft": LOOKS, "hard": LOOKS.round()}, boxes=[None, (0, 4, 4, 8), None], title="Two looks up",
)
PLANE = WeighView(
    [1.6, 0.9], [[2, 0.4], [1, 1.7], [-1.6, 1]], [[1, 0], [0, 1], [-1, 0]], labels=["cat", "kitten", "rug"]
)
WINDOW = WindowView(
    [1.0, 3.0, 0.0, 1.0, 0.0, 0.5], ["the", "house", "is", "loved", "by", "extraordinarily"], centre=2,
    half_width=1, title="Move the window",
)
DOCUMENT = DocumentView(
    [["the", "plot"], ["it", "is", "dull", "it", "is"], ["fin"]],
    [[0.5, 0.5], [0.1, 0.1, 0.6, 0.2, 0.0], [1.0]], [0.25, 0.75, 0.0],
    title="What decides?", prediction="good", label="bad", deciding=1, deciding_words=[2],
)
ALONG, BACK, EVEN = torch.eye(3), torch.eye(3).roll(1, 0), torch.full((3, 3), 0.04) + 0.88 * torch.eye(3)
INSIDE = torch.stack([ALONG, BACK, EVEN, BACK, EVEN, ALONG]).view(2, 3, 3, 3)
BETWEEN = torch.tensor([[0.5, 0.25, 0.25], [0.0, 0.0, 0.0]]).expand(1, 2, 2, 3)
HEADS = HeadsView({
    "inside the source": HeadMaps(INSIDE, KEYS, KEYS, {(0, 1): "previous word"}),
    "between the two": (BETWEEN, QUERIES[:2], KEYS),
}, title="Six heads, one sentence")
DECODING = DecodingView(["the", "cat", "sleeps"], [
    ([("le", 0.7), ("un", 0.2)], "le", [0.8, 0.2, 0.0], [1.0]),
    ([("chat", 0.6), ("chien", 0.39)], "chat", [0.1, 0.9, 0.0], [0.4, 0.6]),
    ([("dort", 0.5), ("mange", 0.5)], "dort", [0.04, 0.04, 0.92], [0.1, 0.3, 0.6]),
    ([("</s>", 1.0)], "</s>", [0.03, 0.03, 0.94], [0.1, 0.2, 0.3, 0.4]),
], title="Word by word")
# Two layers of two heads over four patches and a class token: in the first head every token attends to the
# next, in the second all attend to the last patch; the second layer has the heads the other way round.
NEXT, LAST = torch.eye(5).roll(1, -1), torch.eye(5)[[4]].expand(5, 5)
PATCHES = PatchView(
    torch.tensor([[0.0, 1.0], [0.2, 0.0]]).repeat_interleave(4, 0).repeat_interleave(4, 1),
    torch.stack([NEXT, LAST, LAST, NEXT]).view(2, 2, 5, 5), prediction="7", label="1",
    title="Who looks where?",
)
MANY_PATCHES = PatchView(torch.rand(28, 28), torch.full((1, 1, 197, 197), 1 / 197))
SEEN = torch.zeros(4, 2, 2)
SEEN[0, 0, 0], SEEN[1, 0, 1], SEEN[1, 1, 1] = 1.0, 0.75, 0.25  # the third query attends to nothing
SEEN[3] = 0.25
DETECTED = DetectionView(
    torch.tensor([[0.0, 1.0], [0.2, 0.0]]).repeat_interleave(4, 0).repeat_interleave(4, 1),
    [[0, 0, 4, 4], [0, 4, 4.5, 8], [-2, 1, 3, 3], [1, 1, 3, 3]], ["<cat>", "dog"],
    [[0.1, 0.6, 0.3], [0.9, 0.05, 0.05], [0.2, 0.1, 0.7], [0.8, 0.1, 0.1]],
    {"layer 1": SEEN, "layer 2": SEEN.flip(-1)}, encoder_weights=torch.eye(4).roll(1, -1),
    true_boxes=[[0, 4, 4, 8]], true_labels=[0], title="Four queries, one truth",
)
LIGHT, DARK = "background: #fff; color: #222", "background: #121212; color: #dcdcdc"


def watched(context):
    """A page of this context that notes what it complains of, and whatever it asks of another machine."""
    page = context.new_page()
    page.complaints, page.refused = [], []
    page.on("console", lambda said: said.type in ("error", "warning") and page.complaints.append(said.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("request", lambda asked: asked.url.startswith("http") and page.refused.append(asked.url))
    return page


@pytest.fixture
def page(browser):
    """A desktop browser."""
    context = browser.new_context()
    yield watched(context)
    context.close()


@pytest.fixture
def visit(tmp_path):
    """Open views in a page on disk; the page must stay on the machine and not complain."""
    visited = []

    def visit(page, *views, colours=LIGHT, width=860):
        file = tmp_path / "page.html"
        body = "\n".join(view if isinstance(view, str) else view._repr_html_() for view in views)
        file.write_text(
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f'<title>Views</title><body style="margin: 12px; {colours}">{body}</body></html>',
            encoding="utf-8",
        )
        page.set_viewport_size({"width": width, "height": 800})
        page.context.set_offline(True)
        page.set_default_timeout(30_000)  # guards against never, not against late
        page.goto(file.as_uri())
        visited.append(page)
        return page

    yield visit
    for page in visited:
        assert page.complaints == [] and page.refused == []


@pytest.fixture
def touch_page(browser):
    """A phone: narrow, and touched rather than pointed at."""
    context = browser.new_context(has_touch=True, is_mobile=True, viewport={"width": 380, "height": 800})
    yield watched(context)
    context.close()


def weights_shown(page, side: str) -> list[float]:
    return page.eval_on_selector_all(
        f".{side} .chip", "all => all.map((chip) => Number(chip.style.getPropertyValue('--w')))"
    )


def readout(page) -> str:
    return page.locator(".readout").inner_text()


def slide(page, value: float):
    page.locator("input[type=range]").evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
    )


def no_overflow(page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


# ---- AttentionView ----

def test_it_opens_on_the_first_query_and_shows_the_words_as_text(page, visit):
    visit(page, TWO_HEADS)
    assert weights_shown(page, "keys") == [0.8, 0.2, 0]
    assert readout(page) == "“le” reads “the” 0.80, “cat” 0.20"
    assert page.locator(".keys .word").all_inner_texts() == KEYS
    assert page.locator("path").count() == 2, "one line for each key that is read, none for a hidden one"
    assert not page.locator("table").is_visible(), "the fallback table stays for readers without scripts"


def test_hover_shows_and_leaving_restores(page, visit):
    visit(page, TWO_HEADS)
    page.locator(".queries .chip").nth(1).hover()
    assert weights_shown(page, "keys") == [0.1, 0.9, 0]
    page.locator(".keys .chip").nth(1).hover()
    assert weights_shown(page, "queries") == [0.2, 0.9, 0], "a key shows which queries read it"
    assert readout(page) == "“cat” is read by “chat” 0.90, “le” 0.20"
    page.mouse.move(5, 5)
    assert weights_shown(page, "keys") == [0.8, 0.2, 0]


def test_a_query_that_sees_nothing_says_so(page, visit):
    visit(page, TWO_HEADS)
    page.locator(".queries .chip").nth(2).click()
    assert readout(page) == "“dort” reads nothing: every key is hidden from it"
    page.locator(".keys .chip").nth(2).click()
    assert readout(page) == "“<script>alert(1)</script>” is read by no query"


def test_the_head_selector_changes_the_weights(page, visit):
    visit(page, TWO_HEADS)
    page.get_by_label("far", exact=True).check()
    assert weights_shown(page, "keys") == [0.5, 0.25, 0.25]
    page.keyboard.press("ArrowLeft")
    assert weights_shown(page, "keys") == [0.8, 0.2, 0], "radio buttons follow the arrow keys"


def test_one_head_has_no_selector(page, visit):
    visit(page, LONG)
    assert page.locator("input[type=radio]").count() == 0


def test_temperature_sharpens_flattens_and_comes_back(page, visit):
    visit(page, TWO_HEADS)
    slide(page, -1)  # T = 1/2 squares the weights before they are normalised
    assert weights_shown(page, "keys") == pytest.approx([0.64 / 0.68, 0.04 / 0.68, 0], abs=1e-4)
    assert page.locator("input[type=range]").get_attribute("aria-valuetext") == "T = 0.50"
    slide(page, 3)
    flat = weights_shown(page, "keys")
    assert 0.5 < flat[0] < 0.6 and flat[2] == 0, "what is hidden stays hidden"
    page.locator(".reading").click()
    assert weights_shown(page, "keys") == [0.8, 0.2, 0], "T = 1 is exactly what was given"


def test_temperature_from_scores(page, visit):
    scores = torch.tensor([[2.0, 0.0, -torch.inf]])
    visit(page, AttentionView(scores.softmax(-1), ["q"], ["a", "b", "c"], scores=scores))
    slide(page, 1)
    assert weights_shown(page, "keys") == pytest.approx((scores / 2).softmax(-1)[0].tolist(), abs=1e-4)


def test_the_keyboard_reaches_everything(page, visit):
    visit(page, TWO_HEADS)
    focused = "document.querySelector('.attn-view').shadowRoot.activeElement"
    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.type") == "radio"
    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.type") == "range"
    page.keyboard.press("ArrowRight")
    assert page.locator(".reading").inner_text().startswith("T = 1.07")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert readout(page) == "“le” reads “the” 0.80, “cat” 0.20"
    page.keyboard.press("ArrowRight")
    assert readout(page).startswith("“chat” reads “cat” 0.90")
    page.keyboard.press("ArrowDown")
    assert readout(page).startswith("“cat” is read by")
    page.keyboard.press("Home")
    assert readout(page).startswith("“the” is read by")
    assert page.evaluate(f"{focused}.getAttribute('aria-pressed')") == "true"
    assert page.locator(".readout").get_attribute("aria-live") == "polite"
    assert page.locator(".queries [tabindex='0']").count() == 1, "a row of words is one stop of the Tab key"


def test_a_partial_row_says_its_sum_and_has_no_temperature(page, visit):
    weights = [[0.5, 0.2], [0.0, 0.0], [0.003, 0.0]]
    visit(page, AttentionView(weights, ["a", "b", "c"], ["x", "y"], partial=True))
    assert readout(page) == "“a” reads “x” 0.50, “y” 0.20; the row sums to 0.70"
    assert page.locator("input[type=range]").count() == 0, "a temperature would need what the Gaussian took"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert readout(page) == "“b” reads nothing: every key is hidden from it"
    page.keyboard.press("ArrowRight")
    assert readout(page) == "“c” reads next to nothing; the row sums to 0.00"


def test_words_that_occur_twice_are_told_apart(page, visit):
    visit(page, AttentionView([[0.5, 0.5]], ["a"], ["the", "the"]))
    assert readout(page) == "“a” reads “the” (1) 0.50, “the” (2) 0.50"


def test_two_views_on_one_page_do_not_mix(page, visit):
    visit(page, TWO_HEADS, LONG, PLANE)
    page.locator(".attn-view").nth(0).get_by_label("far", exact=True).check()
    chip = page.locator(".attn-view").nth(1).locator(".keys .chip").first
    shown = float(chip.evaluate("chip => chip.style.getPropertyValue('--w')"))
    assert shown == pytest.approx(LONG.weights[0, 0, 0].item(), abs=1e-4)


def test_touch(touch_page, visit):
    page = visit(touch_page, TWO_HEADS, width=380)
    page.locator(".queries .chip").nth(1).tap()
    assert readout(page).startswith("“chat” reads “cat” 0.90")
    page.locator(".keys .chip").nth(0).tap()
    assert readout(page).startswith("“the” is read by “le” 0.80")


def test_without_scripts_the_table_is_there(browser, visit):
    context = browser.new_context(java_script_enabled=False)
    page = visit(watched(context), TWO_HEADS, PLANE)
    assert page.locator("table").nth(0).is_visible() and page.locator("table").nth(1).is_visible()
    assert page.locator("td", has_text="0.80").is_visible()
    context.close()


# ---- WeighView ----

def context_said(page) -> list[float]:
    found = re.search(r"= \(([−\d.]+), ([−\d.]+)\)\.$", readout(page))
    return [float(x.replace("−", "-")) for x in found.groups()]


def test_the_numbers_are_the_package_s(page, visit):
    visit(page, PLANE)
    scores = PLANE.keys @ PLANE.query / 2**0.5
    weights = scores.softmax(-1)
    shown = [float(text) for text in page.locator(".cell.weight span").all_inner_texts()]
    assert shown == pytest.approx(weights.tolist(), abs=0.006)
    assert context_said(page) == pytest.approx((weights @ PLANE.values).tolist(), abs=0.006)


def drag(page, start, end):
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    page.mouse.move(*end)
    page.mouse.up()


def middle(page, selector: str) -> tuple[float, float]:
    box = page.locator(selector).first.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def query(page) -> str:
    return page.locator(".handle").get_attribute("aria-valuetext")


def test_dragging_the_query_moves_the_context(page, visit):
    visit(page, PLANE)
    before = context_said(page)
    drag(page, middle(page, ".handle"), middle(page, ".plane"))
    assert query(page) == "(0.00, 0.00)"
    shown = page.locator(".cell.weight span").all_inner_texts()
    assert shown == ["0.33"] * 3, "a query of zeros prefers no key"
    assert context_said(page) != before
    frame = page.locator(".plane").first.bounding_box()
    drag(page, middle(page, ".handle"), (frame["x"] + frame["width"] + 300, frame["y"] + 20))
    x = float(query(page).split(",")[0].strip("("))
    assert x == pytest.approx(2.6, abs=0.01), "the query stays inside the plane"


def test_the_arrow_keys_move_the_query(page, visit):
    visit(page, PLANE)
    page.locator(".handle").focus()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowUp")
    assert query(page) == "(1.54, 0.97)"  # the plane reaches to 2.6; a step is a fortieth of it
    page.keyboard.press("Shift+ArrowLeft")
    assert query(page) == "(1.22, 0.97)"


def test_a_finger_drags_the_query_and_the_page_stays(touch_page, visit):
    page = visit(touch_page, PLANE, "<p style='height: 3000px'>below</p>", width=380)
    session = page.context.new_cdp_session(page)
    (x, y), before = middle(page, ".handle"), query(page)
    for kind, by in [("touchStart", 0), ("touchMove", 30), ("touchMove", 60), ("touchEnd", None)]:
        points = [] if by is None else [{"x": x - by / 2, "y": y - by}]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert query(page) != before
    assert page.evaluate("window.scrollY") == 0, "the drag moved the page and not the query"


def test_the_score_and_the_temperature_are_chosen(page, visit):
    visit(page, PLANE)
    page.get_by_label("distance", exact=True).check()
    distance = (PLANE.keys - PLANE.query).square().sum(-1)
    scores = [float(t.replace("−", "-")) for t in page.locator(".cell.score span").all_inner_texts()]
    assert scores == pytest.approx((-distance / 2).tolist(), abs=0.006)
    slide(page, 2)
    weights = [float(text) for text in page.locator(".cell.weight span").all_inner_texts()]
    assert weights == pytest.approx((-distance / 8).softmax(-1).tolist(), abs=0.006)


def test_a_key_can_be_hidden(page, visit):
    visit(page, PLANE)
    for label in ["cat", "kitten"]:
        page.get_by_label(f"{label} is visible").uncheck()
    assert page.locator(".cell.weight span").all_inner_texts() == ["0.00", "0.00", "1.00"]
    page.get_by_label("rug is visible").uncheck()
    assert page.locator(".cell.weight span").all_inner_texts() == ["0.00"] * 3
    assert context_said(page) == [0, 0], "nothing visible: the context is zero, not a mean"


def test_the_three_steps_and_play(page, visit):
    visit(page, PLANE)
    page.emulate_media(reduced_motion="reduce")
    page.get_by_role("button", name="1 Score").click()
    assert readout(page).startswith("1. Score.")
    assert page.locator(".cell.weight .track").first.evaluate("n => getComputedStyle(n).opacity") == "0"
    page.get_by_role("button", name="2 Normalise").click()
    assert page.locator(".cell.weight .track").first.evaluate("n => getComputedStyle(n).opacity") == "1"
    assert page.locator(".arrow.context").evaluate("n => getComputedStyle(n).opacity") == "0"
    page.get_by_role("button", name="Play").click()
    assert readout(page).startswith("1. Score.")
    page.get_by_text("3. Weigh.").wait_for(timeout=10_000)
    page.get_by_role("button", name="Play").wait_for(timeout=10_000)


# ---- WindowView ----

def moved(page, name: str, value: float):
    page.get_by_role("slider", name=name).evaluate(
        "(slider, value) => { slider.value = value; slider.dispatchEvent(new Event('input')); }", value
    )


def lanes(page) -> list[list[float]]:
    """The four rows of weights as they are drawn: the heights of their bars."""
    heights = page.locator(".row[role=img]").evaluate_all(
        "rows => rows.map((row) => [...row.querySelectorAll('.bar')].map((bar) => bar.style.transform))"
    )
    return [[float(re.search(r"[\d.]+", height)[0]) for height in row] for row in heights]


def expected(centre: float, half_width: int) -> list[list[float]]:
    view = WindowView(WINDOW.scores, WINDOW.source, centre=centre, half_width=half_width)
    kinds = [view._local(gaussian).tolist() for gaussian in ("none", "outside", "inside")]
    return [WINDOW.scores.softmax(-1).tolist(), *kinds]


def test_the_window_opens_as_it_was_given(page, visit):
    visit(page, WINDOW)
    assert torch.tensor(lanes(page)) == pytest.approx(torch.tensor(expected(2, 1)), abs=1e-4)
    assert not page.locator("table").is_visible()
    assert readout(page).startswith("p = 2.0, D = 1. The window holds 3 of 6 words, “house” to “loved”.")


def test_both_sliders_compute_anew(page, visit):
    visit(page, WINDOW)
    moved(page, "Centre", 3.6)
    assert torch.tensor(lanes(page)) == pytest.approx(torch.tensor(expected(3.6, 1)), abs=1e-4)
    assert "holds 2 of 6 words, “loved” to “by”" in readout(page), "a centre between words sees one word less"
    moved(page, "Half-width", 3)
    assert torch.tensor(lanes(page)) == pytest.approx(torch.tensor(expected(3.6, 3)), abs=1e-4)
    assert page.get_by_role("slider", name="Half-width").get_attribute("aria-valuetext") == "D = 3, σ = 1.5"
    total = sum(expected(3.6, 3)[2])
    assert f"as printed {total:.2f}" in readout(page)
    assert page.locator(".sum").nth(2).inner_text() == f"sum {total:.2f}"


def test_a_window_off_the_source_reads_nothing(page, visit):
    visit(page, WINDOW)
    moved(page, "Centre", 7)
    assert lanes(page)[1:] == [[0.0] * 6] * 3 and sum(lanes(page)[0]) == pytest.approx(1, abs=1e-3)
    assert "lies off the source: every weight is 0" in readout(page)
    assert not page.locator(".band").is_visible()


def test_the_window_follows_keyboard_mouse_and_finger(page, touch_page, visit):
    visit(page, WINDOW)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert readout(page).startswith("p = 2.1,")
    page.locator(".plot").click(position={"x": 5, "y": 20})
    assert readout(page).startswith("p = 0.0,"), "the left end of the plot is before the first word's middle"
    assert page.get_by_role("slider", name="Centre").input_value() == "0"
    visit(touch_page, WINDOW, width=380)
    frame = touch_page.locator(".plot").bounding_box()
    touch_page.touchscreen.tap(frame["x"] + frame["width"] * 0.75, frame["y"] + 20)
    assert readout(touch_page).startswith("p = 4.0,")
    assert touch_page.locator(".stage.upright").count() == 1, "words wider than their column stand upright"


# ---- ImageAttentionView ----

def veils(page, system: int) -> list[float]:
    """How far each cell of one picture recedes, row by row."""
    return page.locator(".frame").nth(system).locator(".cell").evaluate_all(
        "all => all.map((cell) => Number(cell.style.getPropertyValue('--veil')))"
    )


def test_the_pixels_are_drawn_where_they_are(page, visit):
    orange = torch.eye(3)[..., None] * torch.tensor([1.0, 0.2, 0.0])
    visit(page, SCENE, ImageAttentionView(orange, ["a"], [[1.0]]))
    canvas = page.locator("canvas")
    read = "canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
    (grey, colour), width = (canvas.nth(i).evaluate(read) for i in (0, 2)), 8
    assert grey[4 * (1 * width + 6) :][:4] == [255, 255, 255, 255]
    assert grey[4 * (6 * width + 1) :][:4] == [51, 51, 51, 255]
    assert colour[4 * 4 :][:4] == [255, 51, 0, 255] and colour[4:8] == [0, 0, 0, 255]
    assert canvas.nth(0).evaluate("canvas => getComputedStyle(canvas).imageRendering") == "pixelated"
    first, second, third = (page.locator(".cell").nth(i).bounding_box() for i in range(3))
    assert second["x"] > first["x"] and second["y"] == first["y"], "cells run along the row first"
    assert third["y"] > first["y"] and third["x"] == first["x"]


def test_a_word_shows_where_it_looked(page, visit):
    visit(page, SCENE)
    assert veils(page, 0) == [0, 1, 1, 0.75] and veils(page, 1) == [0, 1, 1, 1]
    looks = "“a” (1) (soft) looks at row 1, column 1: 0.80; row 2, column 2: 0.20"
    assert readout(page).split("\n")[0] == looks
    assert page.locator(".cell.read").count() == 3, "a quarter of the largest weight is outlined"
    page.locator(".chip").nth(1).click()
    assert veils(page, 0) == [1, 0, 1, 1]
    assert readout(page).endswith("What it names is in row 1, column 2 (dashed)")
    box, frame = page.locator(".object").first.bounding_box(), page.locator(".frame").first.bounding_box()
    assert box["x"] == pytest.approx(frame["x"] + frame["width"] / 2, abs=1)
    assert box["y"] == pytest.approx(frame["y"], abs=1), "(top, left, bottom, right), in pixels of the image"
    page.locator(".chip").nth(2).click()
    assert "“a” (3) (soft) looks at nothing" in readout(page)
    assert not page.locator(".object").first.is_visible()


def test_a_cell_shows_which_words_looked_there(page, visit):
    visit(page, SCENE)
    page.locator(".frame").nth(0).locator(".cell").nth(3).hover()
    assert readout(page) == "row 2, column 2 (soft) was looked at by “a” (1) 0.20"
    assert page.locator(".value").all_inner_texts() == ["0.20", "", ""]
    page.locator(".frame").nth(1).locator(".cell").nth(2).click()
    assert readout(page) == "row 2, column 1 (hard) was looked at by no word"
    page.mouse.move(5, 5)
    assert readout(page).startswith("row 2, column 1 (hard)"), "what was chosen stays when the mouse has gone"


def test_the_keyboard_reaches_words_and_cells(page, visit):
    visit(page, SCENE)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert readout(page).startswith("“two” (soft) looks at row 1, column 2: 1.00")
    page.keyboard.press("ArrowDown")
    assert readout(page).startswith("row 1, column 1 (soft) was looked at by “a” (1) 0.80")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert readout(page).startswith("row 2, column 2 (soft)")
    page.keyboard.press("ArrowDown")
    assert readout(page).startswith("row 2, column 2 (soft)"), "the last row is the last"
    page.keyboard.press("Tab")
    assert readout(page).startswith("row 1, column 1 (hard)"), "a picture is one stop of the Tab key"
    page.keyboard.press("ArrowUp")
    assert readout(page).startswith("“a” (1)")
    assert page.locator(".readout").get_attribute("aria-live") == "polite"
    assert page.locator(".cell").nth(1).get_attribute("aria-label") == "row 1, column 2"


def test_a_picture_is_touched(touch_page, visit):
    page = visit(touch_page, SCENE, width=380)
    page.locator(".chip").nth(1).tap()
    assert readout(page).startswith("“two”")
    page.locator(".frame").nth(1).locator(".cell").nth(0).tap()
    assert readout(page) == "row 1, column 1 (hard) was looked at by “a” (1) 1.00"
    left, right = (page.locator(".frame").nth(i).bounding_box() for i in (0, 1))
    assert left["y"] == right["y"] and left["width"] > 130, "two systems stand side by side on a phone too"
    assert no_overflow(page)


# ---- DocumentView ----

def shades(page) -> list[float]:
    return page.eval_on_selector_all(
        ".chip", "all => all.map((chip) => Number(chip.style.getPropertyValue('--w')))"
    )


def test_a_document_opens_on_its_heaviest_sentence(page, visit):
    visit(page, DOCUMENT)
    words = "“dull” 0.60, “it” (4) 0.20, “it” (1) 0.10, “is” (2) 0.10"
    assert readout(page) == f"Sentence 2 weighs 0.75; its words: {words}"
    assert shades(page) == [0.5, 0.5, 0.1, 0.1, 0.6, 0.2, 0, 1]
    assert page.locator(".head .value").all_inner_texts() == ["0.25", "0.75", "0.00"]
    assert not page.locator("table").is_visible()


def test_a_word_says_what_it_counts_for(page, visit):
    visit(page, DOCUMENT)
    page.locator(".chip").nth(4).hover()
    assert readout(page) == "“dull” weighs 0.60 in sentence 2, which weighs 0.75: 0.45 of the document"
    page.locator(".head").nth(2).click()
    page.mouse.move(5, 5)
    assert readout(page) == "Sentence 3 weighs 0.00; its words: “fin” 1.00", "what was chosen stays"


def test_the_switch_multiplies_by_the_sentence(page, visit):
    visit(page, DOCUMENT)
    page.get_by_label("word × sentence").check()
    assert shades(page) == [0.125, 0.125, 0.075, 0.075, 0.45, 0.15, 0, 0]
    assert page.locator(".chip .value").all_inner_texts() == ["0.13", "0.13", "", "", "0.45", "0.15", "", ""]
    page.locator(".head").nth(2).click()
    assert readout(page) == "Sentence 3 weighs 0.00; its words: next to nothing"


def test_weights_over_all_words_open_as_they_were_given(page, visit):
    """Shares within a sentence that hardly counts would be as dark as those in one that does."""
    visit(page, DocumentView([["a", "b"], ["c"]], [[0.7, 0.2], [0.1]]))
    assert shades(page) == [0.7, 0.2, 0.1]
    assert page.get_by_label("word × sentence").is_checked()
    page.get_by_label("word weight").check()
    assert shades(page) == [0.7778, 0.2222, 1]


def test_the_truth_is_shown_when_asked_for(page, visit):
    visit(page, DOCUMENT)
    assert page.locator(".said").inner_text() == "The model says good."
    assert page.locator(".deciding").count() == 0, "the reader may guess first"
    page.get_by_label("show the truth").check()
    truth = "In truth: bad. Sentence 2 decides by “dull” (dashed)."
    assert page.locator(".said").inner_text().endswith(truth)
    assert page.locator(".chip.deciding .word").all_inner_texts() == ["dull"]
    assert page.locator(".sentence.deciding").get_attribute("aria-label") == "Sentence 2"
    visit(page, DocumentView([["a"]], [[1.0]], [1.0]))
    assert page.get_by_label("show the truth").count() == 0, "where no truth is known nothing is offered"


def test_the_keyboard_walks_about_in_a_document(page, visit):
    visit(page, DOCUMENT)
    for _ in range(3):  # the switch, the truth, the document
        page.keyboard.press("Tab")
    assert readout(page).startswith("Sentence 2")
    for key, said in [("ArrowDown", "Sentence 3"), ("ArrowRight", "“fin”"), ("ArrowUp", "“it” (1)"),
                      ("End", "“is” (5)"), ("ArrowRight", "Sentence 3"), ("ArrowUp", "Sentence 2"),
                      ("End", "“is” (5)"), ("ArrowUp", "“plot”"), ("Home", "Sentence 1"),
                      ("ArrowLeft", "Sentence 1")]:
        page.keyboard.press(key)
        assert readout(page).startswith(said), f"after {key}"
    assert page.locator("[tabindex='0']").count() == 1, "a document is one stop of the Tab key"
    assert page.locator(".readout").get_attribute("aria-live") == "polite"


def test_a_document_is_touched(touch_page, visit):
    page = visit(touch_page, DOCUMENT, width=380)
    page.locator(".chip").nth(0).tap()
    assert readout(page).startswith("“the” weighs 0.50 in sentence 1")
    page.locator(".head").nth(1).tap()
    assert readout(page).startswith("Sentence 2 weighs 0.75")
    assert no_overflow(page)


# ---- HeadsView ----

def pixels(page, number: int) -> list[str]:
    """The colours of one small map, row by row."""
    read = "canvas => [...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
    values = page.locator(".map:visible canvas").nth(number).evaluate(read)
    return ["#" + bytes(values[i : i + 3]).hex() for i in range(0, len(values), 4)]


def head_shown(page) -> str:
    return page.locator(".which:visible").inner_text().replace("\n", " ")


def said(page) -> str:
    return page.locator(".readout:visible").inner_text()


def test_the_small_maps_are_the_heads(page, visit):
    visit(page, HEADS)
    white, full, thin = "#ffffff", "#06263d", to_hex(SHADES(round(0.2 * 32) / 32))
    assert page.locator(".map:visible").count() == 6 and not page.locator("table").is_visible()
    assert pixels(page, 1) == [white, white, full, full, white, white, white, full, white], "a row is a query"
    assert pixels(page, 2)[1] == thin, "a weight of 1/25 is drawn like a fifth"
    assert page.locator(".map:visible").nth(4).get_attribute("aria-label") == "layer 2, head 2"
    assert page.locator(".map:visible").nth(1).get_attribute("aria-label") == "layer 1, head 2: previous word"


def test_another_head_answers_for_the_same_word_at_the_same_temperature(page, visit):
    """A view built anew for every head would forget what the reader was comparing."""
    visit(page, HEADS)
    assert head_shown(page) == "Layer 1, head 1 largest weight of a row, on average 1.00"
    page.locator(".queries .chip:visible").nth(1).click()
    assert said(page) == "“cat” reads “cat” 1.00"
    page.locator(".map:visible").nth(1).click()
    assert said(page) == "“cat” reads “the” 1.00"
    assert head_shown(page) == "Layer 1, head 2: previous word largest weight of a row, on average 1.00"
    page.locator(".map:visible").nth(2).click()
    page.locator("input[type=range]:visible").evaluate(
        "slider => { slider.value = 3; slider.dispatchEvent(new Event('input')); }"
    )
    flat = (EVEN[1].log() / 8).softmax(-1)
    assert f"“cat” {flat[1]:.2f}" in said(page)
    page.locator(".map:visible").nth(4).click()
    assert f"“cat” {flat[1]:.2f}" in said(page)
    assert page.locator(".map[aria-pressed=true]:visible").count() == 1
    assert head_shown(page) == "Layer 2, head 2 largest weight of a row, on average 0.92"


def test_a_relation_is_chosen_and_found_again_as_it_was(page, visit):
    visit(page, HEADS)
    page.locator(".map:visible").nth(5).click()
    page.get_by_label("between the two", exact=True).check()
    assert page.locator(".map:visible").count() == 2
    assert pixels(page, 0)[3:] == ["#ffffff"] * 3, "two rows of three keys"
    assert page.locator(".map:visible canvas").first.evaluate("node => [node.width, node.height]") == [3, 2]
    assert said(page) == "“le” reads “the” 0.50, “cat” 0.25, “<script>alert(1)</script>” 0.25"
    assert head_shown(page).endswith("on average 0.50"), "a row of zeros has no largest weight to count"
    page.get_by_label("inside the source", exact=True).check()
    assert head_shown(page).startswith("Layer 2, head 3")


def test_the_arrow_keys_move_among_the_heads(page, visit):
    visit(page, HEADS)
    focused = "document.querySelector('.attn-view').shadowRoot.activeElement"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.getAttribute('aria-label')") == "layer 1, head 1"
    for key, *place in [("ArrowRight", 1, 2), ("ArrowDown", 2, 2), ("End", 2, 3), ("ArrowRight", 2, 3),
                        ("ArrowUp", 1, 3), ("Home", 1, 1), ("ArrowUp", 1, 1), ("ArrowDown", 2, 1)]:
        page.keyboard.press(key)
        assert head_shown(page).startswith("Layer {}, head {}".format(*place)), f"{key} leads elsewhere"
    assert page.evaluate(f"{focused}.getAttribute('aria-pressed')") == "true"
    assert page.locator(".map[tabindex='0']:visible").count() == 1, "the grid is one stop of the Tab key"
    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.type") == "range"


def test_a_head_is_touched(touch_page, visit):
    page = visit(touch_page, HEADS, width=380)
    page.locator(".map:visible").nth(4).tap()
    assert head_shown(page).startswith("Layer 2, head 2")
    least = page.locator(".map:visible").nth(4).bounding_box()
    assert min(least["width"], least["height"]) >= 24, "too small for a finger"


def test_twelve_heads_scroll_inside_the_view(page, visit):
    many = torch.full((1, 12, 3, 3), 1 / 3)
    visit(page, HeadsView({"one": (many, KEYS, KEYS)}), width=320)
    assert no_overflow(page) and page.locator("input[type=radio]").count() == 0
    assert page.locator(".scroll").evaluate("node => node.scrollWidth > node.clientWidth")


# ---- PatchView ----

def marked(page, kind: str) -> list[str]:
    """Which cells of the picture are outlined ("read") or chosen."""
    return page.locator(f".cell.{kind}:visible").evaluate_all("all => all.map((cell) => cell.ariaLabel)")


def focus(page) -> str:
    """The name of what has the focus."""
    return page.evaluate(
        "(node => node?.ariaLabel ?? node?.innerText.trim())"
        "(document.querySelector('.attn-view').shadowRoot.activeElement)"
    )


def test_the_class_token_opens_and_says_where_it_looks(page, visit):
    """On the first screen stands what the answer was read from: the class token in the last layer."""
    visit(page, PATCHES)
    answer, measure = readout(page).split("\n")
    assert answer == "The class token attends most to row 1, column 1: 0.50; row 2, column 2: 0.50"
    assert measure == "layer 2, mean of the heads; an even share is 0.20"
    assert page.locator(".said").inner_text() == "The model says 7. In truth: 1."
    assert veils(page, 0) == [0, 1, 1, 0] and marked(page, "read") == ["row 1, column 1", "row 2, column 2"]
    assert page.locator(".token.chosen").inner_text() == "0.00\nclass token"
    assert not page.locator("table").is_visible()


def test_a_patch_shows_what_it_attends_to(page, visit):
    visit(page, PATCHES)
    page.get_by_role("button", name="layer 1, head 1").click()
    page.locator(".cell").nth(2).hover()
    looks = "The patch in row 2, column 1 attends most to row 2, column 2: 1.00"
    assert readout(page).startswith(f"{looks}\nlayer 1, head 1;")
    assert veils(page, 0) == [1, 1, 1, 0] and marked(page, "chosen") == ["row 2, column 1"]
    page.locator(".cell").nth(3).hover()
    assert readout(page).startswith("The patch in row 2, column 2 attends most to the class token: 1.00")
    assert veils(page, 0) == [1] * 4 and page.locator(".token.read").inner_text().startswith("1.00")
    page.mouse.move(5, 5)
    assert readout(page).startswith("The class token attends most to row 1, column 1: 1.00"), "back again"
    page.get_by_role("button", name="layer 1, head 2").click()
    page.locator(".cell").nth(3).click()
    assert readout(page).startswith("The patch in row 2, column 2 attends most to itself: 1.00")


def test_the_class_token_counts_when_the_patches_are_measured(page, visit):
    """Measured among themselves, patches that are hardly read would stand out as if they were the answer."""
    weights = torch.tensor([0.8, 0.2, 0.0, 0.0, 0.0]).expand(1, 1, 5, 5)
    visit(page, PatchView(torch.ones(2, 2), weights))
    assert veils(page, 0) == [0.75, 1, 1, 1] and marked(page, "read") == []
    assert page.locator(".token.read").inner_text().startswith("0.80")


def test_the_question_can_be_turned_round(page, visit):
    """A column in place of the row: who attends to this patch?"""
    visit(page, PATCHES)
    page.get_by_role("button", name="layer 1, head 1").click()
    page.locator(".cell").nth(0).click()
    page.get_by_label("is attended to by").check()
    by = "the class token: 1.00"
    assert readout(page).startswith(f"The patch in row 1, column 1 is attended to most by {by}")
    page.get_by_role("button", name="layer 1, head 2").click()
    assert readout(page).startswith("The patch in row 1, column 1 is attended to by nothing")
    assert veils(page, 0) == [1] * 4 and marked(page, "read") == []


def test_the_small_maps_are_those_of_the_chosen_patch(page, visit):
    visit(page, PATCHES)
    white, full = "#ffffff", "#06263d"
    names = page.locator(".map").evaluate_all("all => all.map((map) => map.ariaLabel)")
    heads = ("mean of the heads", "head 1", "head 2")
    assert names == [f"layer {layer}, {head}" for layer in (1, 2) for head in heads]
    mean, first, second, _, third, _ = (pixels(page, number) for number in range(6))
    assert first == [full, white, white, white] and second == [white, white, white, full]
    assert mean == [full, white, white, full]
    assert third == second, "the second layer has its own heads"
    page.locator(".cell").nth(3).hover()
    assert pixels(page, 1) == [white] * 4, "all of its weight is on the class token"


def test_where_all_weights_are_alike_nothing_is_outlined(page, visit):
    visit(page, MANY_PATCHES)
    page.locator(".cell").nth(30).click()
    assert marked(page, "read") == [] and set(veils(page, 0)) == {0}
    assert "an even share is 0.005" in readout(page)
    assert page.locator(".map").count() == 0, "one map needs no choice"


def test_the_keyboard_reaches_patches_and_maps(page, visit):
    visit(page, PATCHES)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert readout(page).startswith("The class token is attended to")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Tab")
    assert focus(page).endswith("class token")
    page.keyboard.press("ArrowDown")
    assert focus(page) == "row 1, column 1"
    for key, name in [("ArrowRight", "row 1, column 2"), ("ArrowDown", "row 2, column 2"),
                      ("Home", "row 2, column 1"), ("ArrowDown", "row 2, column 1")]:
        page.keyboard.press(key)
        assert focus(page) == name, f"after {key}"
        assert readout(page).startswith(f"The patch in {name} attends")
    page.keyboard.press("Tab")
    assert focus(page) == "layer 2, mean of the heads"
    for key, head in [("ArrowRight", "head 1"), ("End", "head 2"), ("Home", "mean of the heads")]:
        page.keyboard.press(key)
        assert focus(page) == f"layer 2, {head}" and f"layer 2, {head};" in readout(page)
    page.keyboard.press("ArrowUp")
    assert focus(page).startswith("layer 1")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    assert focus(page).endswith("class token"), "above the first row stands the class token"
    assert page.locator(".readout").get_attribute("aria-live") == "polite"


def test_a_patch_is_touched_and_none_is_too_small(touch_page, visit):
    page = visit(touch_page, PATCHES, MANY_PATCHES, width=380)
    first = page.locator(".attn-view").nth(0)
    first.locator(".cell").nth(1).tap()
    assert first.locator(".readout").inner_text().startswith("The patch in row 1, column 2 attends most to")
    first.get_by_role("button", name="layer 1, head 1").tap()
    assert "layer 1, head 1" in first.locator(".readout").inner_text()
    sizes = page.locator("button:visible, input[type=radio]").evaluate_all(
        "all => all.map((node) => node.getBoundingClientRect()).map((box) => Math.min(box.width, box.height))"
    )
    assert len(sizes) > 200 and min(sizes) >= 24, "too small for a finger"
    assert no_overflow(page)


# ---- DetectionView ----

def shown_boxes(page) -> list[str]:
    return page.locator(".found:visible .tag").all_inner_texts()


def looked(page) -> list[float]:
    """How far each cell recedes; none where no query is chosen."""
    return page.locator(".boxes .cell:visible").evaluate_all(
        "all => all.map((cell) => Number(cell.style.getPropertyValue('--veil')))"
    )


def query_named(page, number: int):
    return page.locator(".queries .chip", has_text=f"query {number}")


def at(page, row: float, column: float) -> dict:
    """A point of the image, by its pixels, as a position within the frame."""
    frame = page.locator(".boxes .frame").bounding_box()
    return {"x": column / 8 * frame["width"], "y": row / 8 * frame["height"]}


def test_the_boxes_above_the_threshold_are_shown(page, visit):
    visit(page, DETECTED)
    assert shown_boxes(page) == ["dog: 0.60", "<cat>: 0.80", "<cat>: 0.90"], "the surest on top"
    assert looked(page) == [] and page.locator(".object:visible").count() == 0
    assert [text.split("\n")[-1] for text in page.locator(".queries .chip").all_inner_texts()] == [
        "all boxes", "query 2", "query 4", "query 1", "query 3"], "the surest first"
    assert said(page) == ("3 of 4 queries have a score of at least 0.50: “<cat>” 0.90 (query 2); "
                             "“<cat>” 0.80 (query 4); “dog” 0.60 (query 1)")
    box, frame = (page.locator(s).bounding_box() for s in (".found:has-text('0.90')", ".boxes .frame"))
    assert (box["x"] - frame["x"]) / frame["width"] == pytest.approx(0.5, abs=0.02)
    assert box["height"] / frame["height"] == pytest.approx(4.5 / 8, abs=0.02), "(top, left, bottom, right)"


def test_the_threshold_counts_what_is_left(page, visit):
    visit(page, DETECTED)
    slider = page.get_by_role("slider", name="Threshold of the score")
    for value, left, shown in [("0.85", 1, ["<cat>: 0.90"]), ("0.95", 0, []), ("0", 4, None)]:
        slider.fill(value)
        assert slider.get_attribute("aria-valuetext").endswith(f": {left} of 4 boxes are left")
        assert shown is None or shown_boxes(page) == shown
        assert page.locator(".chip.unsure").count() == 4 - left
    assert said(page).startswith("4 of 4 queries")
    slider.focus()
    page.keyboard.press("ArrowRight")
    assert page.locator(".threshold .reading").inner_text() == "0.01: 4 of 4 boxes"


def test_a_query_shows_its_box_and_where_it_looked(page, visit):
    visit(page, DETECTED)
    query_named(page, 2).hover()
    assert shown_boxes(page) == ["<cat>: 0.90"] and looked(page) == [1, 0, 1, pytest.approx(2 / 3, abs=1e-3)]
    answer, box, looks = said(page).split("\n")
    assert answer == "Query 2 answers “<cat>” 0.90, “dog” 0.05, no object 0.05"
    assert box == "Its box: rows 0.0 to 4.5, columns 4.0 to 8.0"
    assert looks == "It attends most to the cells in row 1, column 2: 0.75; row 2, column 2: 0.25"
    page.mouse.move(5, 5)
    assert said(page).startswith("3 of 4 queries"), "nothing was chosen, so all boxes come back"
    query_named(page, 3).click()
    assert shown_boxes(page) == ["<cat>: 0.20"], "a query below the threshold can be asked all the same"
    assert said(page).split("\n")[0] == "Query 3 answers no object 0.70, “<cat>” 0.20, “dog” 0.10"
    assert "Its box: rows −2.0 to 3.0" in said(page) and said(page).endswith("It attends to no cell")
    query_named(page, 1).click()
    page.mouse.move(5, 5)
    page.get_by_label("layer 2", exact=True).check()
    assert looked(page) == [1, 0, 1, 1] and "row 1, column 2: 1.00" in said(page)
    page.get_by_role("button", name="all boxes").click()
    assert len(shown_boxes(page)) == 3 and looked(page) == []


def test_the_truth_is_drawn_dashed_when_asked_for(page, visit):
    visit(page, DETECTED)
    page.get_by_label("show the true boxes").check()
    box, frame = (page.locator(s).bounding_box() for s in (".object:visible", ".boxes .frame"))
    assert (box["x"] - frame["x"]) / frame["width"] == pytest.approx(0.5, abs=0.02)
    assert page.locator(".object:visible").evaluate("node => getComputedStyle(node).borderStyle") == "dashed"
    assert said(page).endswith("In truth (dashed): “<cat>”")


def test_a_box_leads_to_its_query(page, visit):
    """Of two boxes around a point the smaller is meant: the larger can be reached beside it."""
    visit(page, DETECTED)
    frame = page.locator(".boxes .frame")
    frame.hover(position=at(page, 2, 2))
    assert said(page).startswith("Query 4")
    frame.hover(position=at(page, 3.5, 0.5))
    assert said(page).startswith("Query 1")
    frame.click(position=at(page, 2, 6))
    page.mouse.move(5, 5)
    assert said(page).startswith("Query 2")
    frame.click(position=at(page, 7, 1))
    assert said(page).startswith("3 of 4 queries"), "beside all boxes a click leads back"


def test_the_encoder_s_cells_are_asked(page, visit):
    visit(page, DETECTED)
    page.get_by_label("the encoder’s cells").check()
    assert not page.locator(".queries").is_visible()
    page.locator(".patches .cell").nth(3).click()
    page.mouse.move(5, 5)
    assert said(page).startswith("The cell in row 2, column 2 attends most to row 1, column 1: 1.00")
    page.get_by_label("the object queries").check()
    assert page.locator(".queries").is_visible() and not page.locator(".patches").is_visible()


def test_the_keyboard_walks_through_the_queries(page, visit):
    visit(page, DETECTED)
    for _ in range(5):  # the panel, the threshold, the layer, the truth, the list
        page.keyboard.press("Tab")
    assert focus(page) == "all boxes"
    for key, number in [("ArrowRight", 2), ("ArrowDown", 4), ("End", 3), ("ArrowRight", 3), ("ArrowLeft", 1)]:
        page.keyboard.press(key)
        assert said(page).startswith(f"Query {number} "), f"after {key}"
    assert page.locator(".queries .chip[tabindex='0']").count() == 1, "the list is one stop of the Tab key"
    assert page.locator(".queries .chip[aria-pressed=true]").inner_text().endswith("query 1")
    page.keyboard.press("Home")
    assert said(page).startswith("3 of 4 queries")
    assert page.locator(".readout:visible").get_attribute("aria-live") == "polite"


def test_boxes_are_touched(touch_page, visit):
    page = visit(touch_page, DETECTED, width=380)
    query_named(page, 2).tap()
    assert said(page).startswith("Query 2")
    frame = page.locator(".boxes .frame").bounding_box()
    page.touchscreen.tap(frame["x"] + frame["width"] / 4, frame["y"] + frame["height"] / 4)
    assert said(page).startswith("Query 4")
    sizes = page.locator(".queries .chip").evaluate_all("all => all.map((chip) => chip.offsetHeight)")
    assert min(sizes) >= 24 and no_overflow(page)


# ---- DecodingView ----

def candidates(page) -> list[str]:
    return [line.replace("\n", " ") for line in page.locator(".candidates li").all_inner_texts()]


def target(page) -> list[str]:
    pieces = page.locator("[aria-label='Target so far'] li:visible").all_inner_texts()
    return [piece.replace("\n", " ") for piece in pieces]


def test_decoding_opens_at_the_first_step(page, visit):
    visit(page, DECODING)
    step, reads, comes = re.split("(?<=4\\.) |; ", readout(page))
    assert (step, reads) == ("Step 1 of 4.", "“<s>” reads “the” 0.80, “cat” 0.20")
    assert comes == "next comes “le” (0.70), ahead of “un” (0.20)."
    assert candidates(page) == ["le 0.70", "un 0.20", "all other words 0.10"]
    assert page.locator(".candidates .chosen").inner_text().startswith("le")
    assert target(page) == ["<s> 1.00 q k v", "le chosen"], "what is not written yet must not be seen"
    once = "before this step, once, the keys and values of 3 source words"
    assert once in page.locator(".cache").inner_text()
    assert not page.locator("table").is_visible()


def test_a_step_forward_and_a_step_back(page, visit):
    visit(page, DECODING)
    page.get_by_role("button", name="Next step").click()
    assert readout(page).startswith("Step 2 of 4. “le” reads “cat” 0.90, “the” 0.10; next comes “chat”")
    assert target(page) == ["<s> 0.40 k v", "le 0.60 q k v", "chat chosen"]
    shown = page.locator("[aria-label=Source] li").evaluate_all(
        "all => all.map((piece) => Number(piece.style.getPropertyValue('--w')))"
    )
    assert shown == [0.1, 0.9, 0]
    computed, kept, saved = page.locator(".cache li").all_inner_texts()
    assert computed == "Computed now in every layer: query, key and value of “le”"
    assert kept == "Kept in the cache keys and values of 1 target word and of 3 source words"
    assert saved.endswith("has computed 2 words so far; without the cache it would be 3 words")
    for _ in range(2):
        page.get_by_role("button", name="Previous step").press("Enter")
    assert readout(page).startswith("Step 1 of 4."), "before the first step there is none"


def test_the_keyboard_walks_through_the_steps(page, visit):
    visit(page, DECODING)
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    for step in (2, 3, 4, 4):
        page.keyboard.press("Enter")
        assert readout(page).startswith(f"Step {step} of 4.")
    focused = page.evaluate("document.querySelector('.attn-view').shadowRoot.activeElement?.ariaLabel")
    assert focused == "Next step", "a button that is disabled at the end loses the focus"
    assert candidates(page) == ["</s> 1.00"], "where nothing is left over there is no bar for it"
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("Home")
    assert readout(page).startswith("Step 1 of 4.")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert readout(page).startswith("Step 3 of 4. “chat” reads “sleeps” 0.92; next comes “dort” (0.50)")
    assert page.get_by_role("slider", name="Step").get_attribute("aria-valuetext") == "step 3 of 4"
    assert page.locator(".readout").get_attribute("aria-live") == "polite"


def test_play_walks_to_the_end_and_starts_again(page, visit):
    page.clock.install()
    visit(page, DECODING)
    page.clock.run_for(10_000)
    assert readout(page).startswith("Step 1 of 4."), "nothing plays by itself"
    page.get_by_role("button", name="Play").click()
    assert readout(page).startswith("Step 2 of 4.")
    page.clock.run_for(1700)
    assert readout(page).startswith("Step 3 of 4.")
    page.get_by_role("button", name="Stop").click()
    page.clock.run_for(10_000)
    assert readout(page).startswith("Step 3 of 4.")
    page.get_by_role("button", name="Play").click()
    assert readout(page).startswith("Step 4 of 4.")
    page.get_by_role("button", name="Play").click()
    assert readout(page).startswith("Step 1 of 4."), "at the end, play begins anew"


def test_who_asks_for_less_motion_walks_by_hand(page, visit):
    page.emulate_media(reduced_motion="reduce")
    visit(page, DECODING)
    assert page.get_by_role("button").all_inner_texts() == ["‹ Previous", "Next ›"]


# ---- all of them, and the figures ----

@pytest.mark.parametrize("width", [320, 380, 620, 1200])
def test_no_page_is_wider_than_its_screen(page, visit, width):
    words = ["word"] * 12
    figure = heatmap(torch.eye(12), words, words, title="Each reads itself")
    visit(page, TWO_HEADS, LONG, PLANE, WINDOW, SCENE, DOCUMENT, HEADS, DECODING, figure_html(figure, "alt"),
          width=width)
    assert no_overflow(page)


def test_no_picture_is_wider_than_its_screen(page, visit):
    """Many patches, none smaller than a finger needs: on a narrow screen they scroll inside the view."""
    visit(page, PATCHES, MANY_PATCHES, DETECTED)
    for width in (1200, 620, 380, 320):
        page.set_viewport_size({"width": width, "height": 800})
        assert no_overflow(page), f"{width} pixels"
    assert page.locator(".wide").nth(1).evaluate("node => node.scrollWidth > node.clientWidth")


def luminance_of(rgb: str) -> float:
    """Of a computed colour, rgb(...) in 255ths or color(srgb ...) in parts of one."""
    values = [float(x) for x in re.findall(r"[\d.]+", rgb.replace("srgb", ""))[:3]]
    scale = 1 if "srgb" in rgb else 255
    return luminance([value / scale for value in values])


@pytest.mark.parametrize(("colours", "ground"), [(LIGHT, "rgb(255, 255, 255)"), (DARK, "rgb(18, 18, 18)")])
def test_bars_and_words_stand_out_in_light_and_dark(page, visit, colours, ground):
    visit(page, TWO_HEADS, PLANE, WINDOW, DOCUMENT, colours=colours)
    for selector, name, least in [(".cell:not(.hidden) .value", "color", 7), (".plot .curve", "stroke", 3),
                                  (".centre span", "color", 4.5), (".head .bar", "backgroundColor", 3),
                                  (".said", "color", 7),
                                  (".word", "color", 7), (".queries .bar", "backgroundColor", 3),
                                  (".weight .bar", "backgroundColor", 3), (".arrow.query line", "stroke", 3)]:
        colour = page.locator(selector).first.evaluate(f"node => getComputedStyle(node).{name}")
        pair = sorted([luminance_of(colour), luminance_of(ground)])
        contrast = (pair[1] + 0.05) / (pair[0] + 0.05)
        assert contrast >= least, f"{selector} {colour} on {ground} has a contrast of {contrast:.1f}"


# Every element with a text of its own: the text, its colour and the one behind it, opacities counted in.
TEXTS = """ground => {
    const parts = (colour) => {
        const numbers = colour.match(/[\\d.]+(e-?\\d+)?/g).map(Number);
        const scale = colour.startsWith("color(") ? 1 : 255;
        return [...numbers.slice(0, 3).map((x) => x / scale), numbers[3] ?? 1];
    };
    const over = ([r, g, b, a], below) => [r, g, b].map((x, i) => a * x + (1 - a) * below[i]);
    const found = [];
    for (const host of document.querySelectorAll(".attn-view")) {
        for (const node of host.shadowRoot.querySelectorAll(".view *:not(style)")) {
            const own = [...node.childNodes].filter((child) => child.nodeType === Node.TEXT_NODE);
            const text = own.map((child) => child.data).join("").trim();
            if (!text || !node.checkVisibility() || node.closest("[aria-disabled=true], :disabled")) continue;
            const above = [];
            for (let up = node; up; up = up.parentElement) above.unshift(getComputedStyle(up));
            let [behind, opacity] = [ground, 1];
            for (const style of above) {
                opacity *= Number(style.opacity);
                const [r, g, b, a] = parts(style.backgroundColor);
                behind = over([r, g, b, a * opacity], behind);
            }
            const [r, g, b, a] = parts(getComputedStyle(node).color);
            found.push([text, over([r, g, b, a * opacity], behind), behind]);
        }
    }
    return found;
}"""


def assert_readable(found, expected: set[str]):
    """Of every text in `found`, which must hold the expected ones, the contrast is at least 4.5."""
    assert expected <= {text for text, *_ in found}
    for text, *pair in found:
        low, high = sorted(map(luminance, pair))
        contrast = (high + 0.05) / (low + 0.05)
        assert contrast >= 4.5, f"{text!r} has a contrast of {contrast:.1f}"


@pytest.mark.parametrize(("colours", "ground"), [(LIGHT, [1, 1, 1]), (DARK, [18 / 255] * 3)])
def test_every_text_of_a_transformer_s_views_can_be_read(page, visit, colours, ground):
    visit(page, HEADS, DECODING, colours=colours)
    page.get_by_role("button", name="Next step").click()
    page.wait_for_timeout(200)  # until the transitions have ended
    expected = {"Six heads, one sentence", "head 1", "Layer 1, head 1", "chat", "chosen", "k v"}
    assert_readable(page.evaluate(TEXTS, ground), expected)


@pytest.mark.parametrize(("colours", "ground"), [(LIGHT, [1, 1, 1]), (DARK, [18 / 255] * 3)])
def test_every_text_of_the_views_of_images_can_be_read(page, visit, colours, ground):
    """Also where the class token has all the weight, and where a query is below the threshold."""
    visit(page, PATCHES, DETECTED, colours=colours)
    page.get_by_role("button", name="layer 1, head 1").click()
    page.locator(".cell[aria-label='row 2, column 2']").first.click()
    page.get_by_label("show the true boxes").check()
    # The numbers in the cells stand on the picture, with a dark edge around each.
    page.locator(".cell").evaluate_all("all => all.forEach((cell) => { cell.textContent = ''; })")
    expected = {"class token", "1.00", "head 1", "query 3", "0.50: 3 of 4 boxes", "the encoder’s cells"}
    assert_readable(page.evaluate(TEXTS, ground), expected)
