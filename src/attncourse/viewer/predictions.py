"""A prediction is an act: the reader commits to an answer, then sees what was measured.

In the book what follows a prediction stays covered until the reader has chosen. In a notebook nothing has to
be covered: the answer is not there before the next cell has run.
"""

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files

from attncourse.claims import with_unit
from attncourse.viewer.publish import publish


class Prediction:
    """A question that is open, until `reveal` says what came out."""

    def __init__(self, question: str, choices: Sequence[str], between: tuple | None, unit: str):
        self.question, self.choices, self.between, self.unit = question, list(choices), between, unit
        asked = json.dumps([question, self.choices, between, unit], ensure_ascii=False)
        # Of the question alone, so that a run of the notebook changes no byte.
        self.id = f"attn-predict-{hashlib.sha256(asked.encode()).hexdigest()[:10]}"

    def reveal(self, answer: str | float, *, places: int = 0) -> None:
        """Show the answer as it was measured, and beside it what the reader had said.

        Args:
            answer: one of the choices; or for a number, the number.
            places: decimals of a number.

        Raises:
            ValueError: an answer that could not be chosen.
        """
        if self.between is None:
            offered, possible, said = ", ".join(self.choices), answer in self.choices, answer
        else:
            low, high = self.between
            offered, possible = f"the slider goes from {low} to {high}", low <= answer <= high
            said = with_unit(f"{answer:,.{places}f}", self.unit)
        if not possible:
            raise ValueError(f"answer is {answer!r}, which nobody could choose: {offered}")
        html = (
            f'<p class="attn-reveal" data-of="{self.id}" data-answer="{escape(str(said))}">'
            f"<b>Measured:</b> {escape(str(said))}.</p>\n{_script()}"
        )
        publish({"text/html": html, "text/plain": f"Measured: {said}."})


def predict(
    question: str,
    choices: Sequence[str] = (),
    *,
    between: tuple[float, float] | None = None,
    unit: str = "",
) -> Prediction:
    """Ask the reader to commit to one of the choices, or to a number, before the next cell shows what is so.

    Args:
        question: one sentence, ending in a question mark.
        choices: two or more answers, each a few words; no two alike.
        between: instead of choices, the ends of a slider for a number.
        unit: what that number counts.

    Raises:
        ValueError: neither choices nor ends, or both; choices that are too few or alike; ends out of order.
    """
    if (between is None) == (not choices):
        raise ValueError("give either choices or between: an answer is one of some, or a number")
    if between is None and (len(choices) < 2 or len(set(choices)) < len(choices)):
        raise ValueError(f"choices must be two or more, and no two alike; given {list(choices)}")
    if between is not None and not between[0] < between[1]:
        raise ValueError(f"between is {between}: the lower end comes first")
    asked = Prediction(question, choices, between, unit)
    ends = "" if between is None else f"a number from {between[0]} to {between[1]} {unit}".rstrip()
    options = [ends] if ends else asked.choices
    text = "\n".join([f"Predict: {question}", *[f"  - {option}" for option in options]])
    publish({"text/html": _html(asked), "text/plain": text})
    return asked


def _html(asked: Prediction) -> str:
    if asked.between is None:
        answers = "\n".join(
            f'<label><input type="radio" name="{asked.id}" value="{escape(choice)}"> {escape(choice)}</label>'
            for choice in asked.choices
        )
    else:
        low, high = asked.between
        unit = escape(asked.unit)
        answers = (
            f'<label><input type="range" min="{low:g}" max="{high:g}" step="any" '
            f'value="{(low + high) / 2:g}" aria-label="{escape(asked.question)}"> '
            f'<output data-unit="{unit}"></output></label>'
        )
    return (
        f'<fieldset class="attn-predict" id="{asked.id}">\n<legend>Predict</legend>\n'
        f"<p>{escape(asked.question)}</p>\n{answers}\n"
        '<button type="button" disabled>This is my answer</button>\n'
        f'<p class="attn-said" role="status"></p>\n</fieldset>\n{_script()}'
    )


@cache
def _script() -> str:
    code = files(__package__).joinpath("predictions.js").read_text(encoding="utf-8").strip()
    return f"<script>(() => {{\n{code}\n}})();</script>"
