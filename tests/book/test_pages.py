"""Every page as a browser shows it: whole, readable, and by itself."""

from urllib.parse import quote

import pytest

LIMIT = 1_500_000  # bytes of everything a page loads, uncompressed

def test_a_page_asks_nothing_of_other_machines(seen, path):
    assert not seen(path).light.refused, "a request left the site: a badge, a font, or a script from a CDN?"

def test_a_page_loads_whole_and_silently(seen, path):
    visit = seen(path).light
    assert not visit.failed, "the page asks for a file that is not in the built book"
    assert not visit.complaints, "the console complains"

def test_a_page_is_light(seen, path):
    received = seen(path).light.received
    total = sum(received.values())
    heaviest = sorted(received.items(), key=lambda item: -item[1])[:5]
    assert total <= LIMIT, f"{total:,} bytes; the heaviest are {heaviest}"

def test_a_phone_needs_no_sideways_scrolling(seen, path):
    probe = seen(path).dark_probe
    assert probe["overflow"] <= 0, f"wider than 380 px: {probe['sticksOut']}"

def test_text_can_be_read_in_the_light(seen, path):
    assert not seen(path).light_probe["hardToRead"], "contrast below 4.5 (3 for large text)"

def test_text_can_be_read_in_the_dark(seen, path):
    probe = seen(path).dark_probe
    assert probe["theme"] == "dark", "the page does not follow the system's dark mode"
    assert not probe["hardToRead"], "contrast below 4.5 (3 for large text)"

def test_pictures_have_words_and_a_white_ground(seen, path):
    light, dark = seen(path).light_probe, seen(path).dark_probe
    assert not light["withoutWords"], "an image without alternative text"
    assert not light["broken"], "an image that does not load"
    assert not dark["notOnWhite"], "in the dark a figure must keep the white it was drawn on"

def test_formulas_are_typeset_and_can_be_heard(seen, path):
    probe = seen(path).light_probe
    assert not probe["wrongFormulas"], "MathJax does not understand a formula"
    assert probe["typeset"] == probe["formulas"], "a formula was not typeset, or has no MathML beside it"

def test_a_page_is_open_to_everybody(seen, path):
    """A control without a name, a box that scrolls by mouse alone, a list that is none."""
    found = {where: audit for where, audit in seen(path).audits.items() if audit}
    assert not found, "axe-core: no serious or critical violation, please"

def test_the_audit_sees_a_violation(visit, cover):
    """An audit that finds nothing on a broken page protects nobody."""
    one = visit()
    page = one.open(cover)
    page.evaluate("() => document.querySelector('article').append(document.createElement('button'))")
    assert any(found.startswith("button-name") for found in one.audit())

def test_views_are_awake(seen, path):
    assert not seen(path).light_probe["asleep"], "a view did not start"

# Not the buttons that have nothing to do yet, such as "previous" at the first step.
CONTROLS = "button:enabled:not([aria-disabled=true]):visible, label:visible, input[type=range]:visible"

def test_views_react_to_a_pointer(visit, chapter):
    """Hover a control, and if that changes nothing, click it: some word or number of the view must change."""
    react(visit().open(chapter))

def test_the_view_on_the_cover_reacts_to_a_pointer(visit, cover):
    react(visit().open(cover))

def react(page):
    for host in page.locator("[data-attn-view]").all():
        before = host.evaluate("host => host.shadowRoot.innerHTML")
        now = before
        for control in host.locator(CONTROLS).all():
            control.hover()
            now = host.evaluate("host => host.shadowRoot.innerHTML")
            if now == before:
                control.click()
                now = host.evaluate("host => host.shadowRoot.innerHTML")
            if now != before:
                break
        assert now != before, f"{host.get_attribute('id')} does not react"

# Every JavaScript object has them; the search makes them small and cuts their endings off.
NAMES = "() => Object.getOwnPropertyNames(Object.prototype)"
ENDED = """() => /found|did not match/.test(document.querySelector(".search-summary")?.innerText)"""

@pytest.fixture
def search(visit):
    """Search for something: the links that are found, once the search has ended."""

    def ask(words):
        one = visit()
        page = one.open(f"search.html?q={quote(words)}")
        assert not one.errors, f"searching for {words!r} ended in an error"
        page.wait_for_function(ENDED, timeout=60_000)
        return [link.get_attribute("href") for link in page.locator("#search-results li a").all()]

    return ask

@pytest.mark.parametrize("words, page", [
    ("attention", "chapters/00_what_is_attention.html"), ("Rotary positions", "chapters/08_transformer.html"),
    ("DETR", "chapters/10_detr.html"), ("AdditiveScore", "book/api/attention.html"),
])
def test_search_finds_a_word(search, words, page):
    assert any(link.startswith(page) for link in search(words)), "the page is not among those found"

def test_a_word_that_every_object_of_javascript_has_is_a_word_like_others(search, visit, cover):
    """Looked up in a plain object, "constructor" is a function: the search broke, its page stayed empty."""
    names = visit().open(cover).evaluate(NAMES)
    assert {"constructor", "__proto__", "valueOf"} <= set(names)
    for words in [*names, "constructors", "attention constructor", "__proto__ attention"]:
        search(words)

def test_what_no_page_holds_is_said(search):
    assert search("zyzzyva") == []

def test_search_can_be_asked_from_a_page(visit, cover):
    page = visit().open(cover)
    buttons = page.locator(".search-button-field:visible, .search-button:visible")
    assert buttons.count() == 1, "the theme's second search button is back"
    page.keyboard.press("Control+k")
    page.locator("#pst-search-dialog input[type=search]").fill("query")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results li a", timeout=60_000)

def test_the_reader_can_choose_the_dark(visit, cover):
    page = visit().open(cover)
    for _ in range(3):
        page.locator(".theme-switch-button:visible").first.click()
        if page.evaluate("document.documentElement.dataset.theme") == "dark":
            break
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark", "the choice is forgotten"

def test_the_map_fits_the_screen(visit, cover):
    """One drawing at a time; its words are at least 11 px high on a phone, and its links work by keyboard."""
    for phone, shown in ((False, "wide"), (True, "narrow")):
        page = visit(phone=phone).open(cover)
        assert page.locator("svg.chapter-map:visible").count() == 1
        drawing = page.locator(f"svg.chapter-map.{shown}")
        smallest = drawing.evaluate(
            """svg => {
                const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
                const size = text => parseFloat(getComputedStyle(text).fontSize);
                return Math.min(...[...svg.querySelectorAll("text")].map(size)) * scale;
            }"""
        )
        assert smallest >= 11, f"{smallest:.1f} px"
        drawing.locator("a").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/chapters/00_*")

def test_the_book_works_from_a_folder(visit, book):
    """No server at all: a double click on the file."""
    one = visit(home=book.as_uri())
    one.open("book/notation.html")
    probe = one.probe()
    assert not one.complaints and not one.refused and not one.failed
    assert probe["typeset"] == probe["formulas"] > 0
