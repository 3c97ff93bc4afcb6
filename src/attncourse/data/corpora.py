"""What every corpus has: three parts, numbers of items that can be, and one way to say what it holds."""

from operator import index

PARTS = ("train", "dev", "test")


class ThreeParts:
    """The items to learn from, to choose settings by, and to report on: `train`, `dev` and `test`."""

    def __repr__(self) -> str:
        """The sizes; the items themselves would fill the page."""
        name = f" {self.name!r}" if hasattr(self, "name") else ""
        sizes = ", ".join(f"{self._count(getattr(self, part)):,} {part}" for part in PARTS)
        return f"{type(self).__name__}{name}: {sizes} {self._holds()}"

    @staticmethod
    def _count(part) -> int:
        return len(part)

    def _holds(self) -> str:
        """What the items are, and what belongs to them."""
        raise NotImplementedError


def check_some(**items) -> None:
    """Refuse an empty sequence, under the name that the caller knows it by.

    Raises:
        ValueError: nothing in it.
    """
    for name, given in items.items():
        if not len(given):
            raise ValueError(f"{name} is empty: at least one is needed")


def check_counts(least: int, **counts: int) -> None:
    """Refuse numbers of items, sizes and seeds that cannot be.

    Args:
        least: what each of them must be at least.
        counts: the numbers, under the names that the caller knows them by.

    Raises:
        ValueError: a number below `least`.
        TypeError: not a whole number.

    >>> check_counts(1, train=0)
    Traceback (most recent call last):
    ValueError: train is 0: it must be at least 1
    """
    for name, count in counts.items():
        try:
            whole = index(count)
        except TypeError:
            raise TypeError(f"{name} is {count!r}: it must be a whole number") from None
        if whole < least:
            raise ValueError(f"{name} is {count}: it must be at least {least}")
