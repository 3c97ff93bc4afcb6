"""A claim of the book and its measurement, side by side: the sentence, and whether it holds."""


def check(claim: str, holds: bool) -> None:
    """Print the claim with a tick if it holds.

    Args:
        claim: the sentence as the reader should remember it.
        holds: what was measured, already compared: a bool, a NumPy bool, or a 0-d boolean tensor.

    Raises:
        AssertionError: the claim does not hold; the message is the claim.
        TypeError: `holds` is not one truth value. A number, or an array of several comparisons, would be
            "true" too easily.
    """
    if not _is_one_bool(holds):
        raise TypeError(
            f"holds must be one truth value (bool, or a 0-d boolean array or tensor), not {holds!r}: "
            "compare first, and say .all() or .any() where there are several"
        )
    if not holds:
        raise AssertionError(f"this claim does not hold: {claim}")
    print(f"✓ {claim}")


def _is_one_bool(value: object) -> bool:
    # By shape and dtype, so that neither NumPy nor torch has to be imported to ask.
    zero_dimensional = getattr(value, "shape", None) == ()
    return isinstance(value, bool) or (zero_dimensional and str(value.dtype).endswith("bool"))
