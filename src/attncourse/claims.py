"""A claim of the book and its measurement, side by side: the sentence, the number, and whether it holds."""

import math
import numbers
from collections.abc import Sequence

# How a limit is said, and when a number keeps to it. What is not a number (NaN) keeps to none.
LIMITS = {
    "at_least": ("at least", lambda value, limit: value >= limit),
    "at_most": ("at most", lambda value, limit: value <= limit),
    "above": ("above", lambda value, limit: value > limit),
    "below": ("below", lambda value, limit: value < limit),
    "equal": ("exactly", lambda value, limit: value == limit),
}


def check(
    claim: str,
    measured,
    *,
    at_least: float | None = None,
    at_most: float | None = None,
    above: float | None = None,
    below: float | None = None,
    equal: float | None = None,
    unit: str = "",
    places: int = 2,
) -> None:
    """Print the claim with a tick, what was measured, and the limit it keeps to.

    `check("One call instead of fifty", times, at_least=1.5, unit="times as fast")` prints
    "✓ One call instead of fifty: 3.41 times as fast (at least 1.50)". A claim without a number is given as
    one truth value, and no limit.

    Args:
        claim: the sentence as the reader should remember it.
        measured: a number; a sequence of numbers, such as one a seed, each of which must keep to the limits;
            or one truth value (a bool, a NumPy bool, a 0-d boolean tensor).
        unit: what the number counts, said after it; "%" stands without a space.
        places: decimals of what is printed. The comparison is made with all of them.

    Raises:
        AssertionError: the claim does not hold; the message is the claim with its number and limit.
        TypeError: `measured` is neither numbers nor one truth value, or is a truth value with a limit.
        ValueError: numbers without a limit, which would hold whatever they are; no number at all.
    """
    given = {"at_least": at_least, "at_most": at_most, "above": above, "below": below, "equal": equal}
    limits = {name: _number(limit, name) for name, limit in given.items() if limit is not None}
    if _is_one_bool(measured):
        if limits:
            limit = next(iter(limits))
            raise TypeError(f"measured is {measured}, a truth value, and {limit} limits a number")
        if not measured:
            raise AssertionError(f"this claim does not hold: {claim}")
        print(f"✓ {claim}")
        return
    values = _numbers(measured)
    if not limits:
        raise ValueError(f"measured is {measured!r}, and nothing limits it: give one of {', '.join(LIMITS)}")
    holds = all(LIMITS[name][1](value, limit) for value in values for name, limit in limits.items())
    sentence = f"{claim}: {_said(values, unit, places)} ({_limits(limits, len(values), unit, places)})"
    if not holds:
        raise AssertionError(f"this claim does not hold: {sentence}")
    print(f"✓ {sentence}")


def _said(values: list[float], unit: str, places: int) -> str:
    return with_unit(", ".join(written(value, places) for value in values), unit)


def _limits(limits: dict[str, float], count: int, unit: str, places: int) -> str:
    each = "each " if count > 1 else ""
    percent = unit if unit == "%" else ""
    return each + " and ".join(
        f"{LIMITS[name][0]} {written(limit, places)}{percent}" for name, limit in limits.items()
    )


def written(value: float, places: int) -> str:
    """A number as the book writes it: a count is a count, 12,000 and not 12,000.00."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.{places}f}"


def with_unit(number: str, unit: str) -> str:
    """A written number and what it counts; "%" stands without a space."""
    return number + (unit if unit in ("", "%") else f" {unit}")


def _numbers(measured) -> list[float]:
    many = measured.tolist() if hasattr(measured, "tolist") else measured
    if isinstance(many, Sequence) and not isinstance(many, str | bytes):
        if not many:
            raise ValueError("measured is empty: nothing was measured, so nothing can hold")
        return [_number(value, "measured") for value in many]
    return [_number(many, "measured")]


def _number(value, name: str) -> float:
    value = value.item() if getattr(value, "shape", None) == () else value
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise TypeError(
            f"{name} must be a number, numbers, or one truth value (bool, or a 0-d boolean array or tensor), "
            f"not {value!r}: compare first, and say .all() or .any() where there are several"
        )
    if name in LIMITS and math.isnan(value):
        raise ValueError(f"{name} is NaN, which limits nothing")
    return value


def _is_one_bool(value: object) -> bool:
    # By shape and dtype, so that neither NumPy nor torch has to be imported to ask.
    zero_dimensional = getattr(value, "shape", None) == ()
    return isinstance(value, bool) or (zero_dimensional and str(value.dtype).endswith("bool"))
