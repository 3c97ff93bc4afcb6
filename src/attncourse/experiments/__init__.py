"""The runs behind the book's tables: a module a chapter, and one where a table has tools of its own."""

from attncourse.experiments import (
    chapter01,
    chapter02,
    chapter03,
    chapter04,
    chapter05,
    chapter06,
    chapter07,
    chapter08,
    chapter09,
    chapter10,
    chapter11,
    heads,
    longer_inputs,
    pretrained_heads,
)
from attncourse.experiments.results import CHECKOUT, Experiment, Results, Spread, load_results

_MODULES = (
    chapter01, chapter02, chapter03, chapter04, chapter05, chapter06, longer_inputs, chapter07, heads,
    pretrained_heads, chapter08, chapter09, chapter10, chapter11,
)
_ALL = {experiment.name: experiment for module in _MODULES for experiment in module.EXPERIMENTS}


def names() -> list[str]:
    """The experiments, in the order of the chapters."""
    return list(_ALL)


def run(name: str):
    """Measure what is missing in one table; return the path of its file.

    Raises:
        ValueError: no such experiment.
    """
    if name not in _ALL:
        raise ValueError(f"no experiment is called {name!r}: choose from {', '.join(_ALL)}")
    return _ALL[name].measure()


__all__ = ["CHECKOUT", "Experiment", "Results", "Spread", "load_results", "names", "run"]
