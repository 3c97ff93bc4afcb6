"""What the chapters train and measure, a module a subject; and the book's tables as declarations."""

from attncourse.experiments.declarations import Experiment
from attncourse.experiments.results import CHECKOUT, Results, Spread, load_results, results_folder


def names() -> list[str]:
    """The tables, by subject."""
    from attncourse.experiments.tables import EXPERIMENTS  # reading a table needs none of the models

    return list(EXPERIMENTS)


def run(name: str):
    """Measure what is missing in one table; return the path of its file.

    Raises:
        ValueError: no such table.
    """
    from attncourse.experiments.tables import EXPERIMENTS

    if name not in EXPERIMENTS:
        raise ValueError(f"no experiment is called {name!r}: choose from {', '.join(EXPERIMENTS)}")
    return EXPERIMENTS[name].measure()


__all__ = ["CHECKOUT", "Experiment", "Results", "Spread", "load_results", "names", "results_folder", "run"]
