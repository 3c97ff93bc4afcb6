"""The book's tables as declarations: a list of rows each, from which the runs and their words come."""

from attncourse.experiments.tables import (
    captioners,
    costs,
    detection,
    documents,
    drawn,
    heads,
    images,
    translators,
)

EXPERIMENTS = {
    experiment.name: experiment
    for module in (translators, captioners, documents, drawn, heads, images, detection, costs)
    for experiment in module.EXPERIMENTS
}

__all__ = ["EXPERIMENTS"]
