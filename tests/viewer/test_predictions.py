"""A prediction: what the reader committed to stands beside what was measured."""

import pytest
from bs4 import BeautifulSoup

from attncourse.viewer import predict


def test_an_answer_that_nobody_could_choose_is_refused(published):
    """A computed answer that is not on the list would make every reader wrong."""
    with pytest.raises(ValueError, match="'level', which nobody could choose: more, less"):
        predict("More or less?", ["more", "less"]).reveal("level")
    with pytest.raises(ValueError, match="101, which nobody could choose: the slider goes from 0 to 100"):
        predict("How many BLEU?", between=(0, 100)).reveal(101)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "either choices or between"),
        ({"choices": ["a", "b"], "between": (0, 1)}, "either choices or between"),
        ({"choices": ["a"]}, "two or more"),
        ({"choices": ["a", "a"]}, "no two alike"),
        ({"between": (1, 1)}, "the lower end comes first"),
    ],
    ids=str,
)
def test_a_question_without_two_answers_is_none(given, words):
    with pytest.raises(ValueError, match=words):
        predict("More or less?", **given)


def test_the_question_does_not_carry_its_answer(published):
    """Whoever looks at the source of the page before choosing should find nothing."""
    predict("More or <less>?", ["more", "less"]).reveal("more")
    asked = BeautifulSoup(published[0]["text/html"], "html.parser")
    assert asked.fieldset.p.text == "More or <less>?" and "answer=" not in str(asked.fieldset)
    assert [radio["value"] for radio in asked.select("input[type=radio]")] == ["more", "less"]
    told = BeautifulSoup(published[1]["text/html"], "html.parser").select_one(".attn-reveal")
    assert (told["data-of"], told["data-answer"]) == (asked.fieldset["id"], "more")
    assert told.text.strip() == "Measured: more."
    assert published[0]["text/plain"] == "Predict: More or <less>?\n  - more\n  - less"


def test_a_number_is_said_with_its_unit(published):
    predict("How many BLEU?", between=(0, 100), unit="BLEU").reveal(11.93, places=1)
    assert published[1]["text/plain"] == "Measured: 11.9 BLEU."


@pytest.mark.browser
def test_what_the_reader_said_stands_beside_what_was_measured(published, browser):
    """Nothing is committed to before a choice is made; then it cannot be changed any more."""
    predict("More or less?", ["more", "less"]).reveal("more")
    slider = predict("How many BLEU?", between=(0, 100), unit="BLEU")
    slider.reveal(12)
    page = browser.new_page()
    page.set_content("\n".join(content["text/html"] for content in published))
    page.evaluate("document.addEventListener('attn-committed', (e) => (window.heard = e.detail.answer))")
    first, second = page.locator(".attn-predict").all()
    assert first.locator("button").is_disabled()
    first.get_by_label("less").check()
    first.locator("button").click()
    assert page.evaluate("window.heard") == "less"
    assert first.get_by_label("more").is_disabled(), "an answer that can be changed is no prediction"
    first_answer, second_answer = page.locator(".attn-reveal").all()
    assert first_answer.inner_text() == "Measured: more. You said: less."
    second.locator("input").focus()
    page.keyboard.press("End")
    second.locator("button").click()
    assert second_answer.inner_text() == "Measured: 12 BLEU. You said: 100 BLEU."
    page.close()
