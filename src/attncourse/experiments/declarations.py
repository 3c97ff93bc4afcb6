"""A table is a list of rows; a row declares all that a run depends on but its seed.

From the rows come the runs, the sentence that a table prints about itself (`what`) and its columns of what
differs. So the text cannot say another budget, another part of the data or another rate than those that ran.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from attncourse.experiments.rates import Cosine, Rate
from attncourse.experiments.results import conditions, results_folder, shared, stored_runs, write_table
from attncourse.experiments.sequences import parameters


@dataclass(frozen=True)
class Training:
    """A budget: on which part a model is trained, how long and how fast, and which part chooses its weights.

    Attributes:
        steps: updates.
        size: items in a batch.
        rate: the learning rate.
        clip: longest gradient.
        smoothing: of the labels.
        on: the part that is learned from.
        items: how many of that part; None takes all.
        drawn_by: (part, items, seed) -> so many of it.
        evaluations: how often the weights are compared; with 0 the last ones are kept.
        chosen_on: the part they are compared on.
        label: of this training in a row that has several.
        extra: what the fit of this kind of model takes beside, by name.
    """

    steps: int
    size: int
    rate: Rate = Cosine(3e-3)
    clip: float = 1.0
    smoothing: float = 0.0
    on: str = "train"
    items: int | None = None
    drawn_by: Callable[[Any, int, int], Any] | None = None
    evaluations: int = 0
    chosen_on: str = "dev"
    label: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """As `train` takes them: steps, learning rate and clip."""
        rate = self.rate.peak if isinstance(self.rate, Cosine) else partial(self.rate, steps=self.steps)
        return {"steps": self.steps, "learning_rate": rate, "clip": self.clip}

    def parts_of(self, corpus: Any, seed: int) -> Any:
        """The corpus as this training sees it: `train` is what is learned from, `dev` what chooses."""
        if corpus is None:
            return None
        parts = {"train": getattr(corpus, self.on)}
        if self.items is not None:
            parts["train"] = self.drawn_by(parts["train"], self.items, seed)
        if self.evaluations:
            parts["dev"] = getattr(corpus, self.chosen_on)
        return dataclasses.replace(corpus, **parts)

    def facts(self) -> dict[str, str]:
        """Budget, rate and regularisation in words, by the name of a column."""
        settings = [f"{name.replace('_', ' ')} {value}" for name, value in self.extra.items()]
        return {
            "steps": f"{self.steps:,}",
            "batch": str(self.size),
            "learning rate": str(self.rate),
            "longest gradient": f"{self.clip:g}",
            "regularisation": f"label smoothing {self.smoothing:g}" if self.smoothing else "",
            "settings": ", ".join(settings),
            "trained on": self.on if self.items is None else f"{self.items:,} of {self.on}",
            "weights": f"best of {self.evaluations} on {self.chosen_on}" if self.evaluations else "the last",
        }


@dataclass(frozen=True)
class Choice:
    """Something that is chosen after the training, and the items of a part that choose it."""

    what: str
    on: str = "dev"
    count: int | None = None

    def of(self, corpus: Any) -> Sequence:
        """The items that choose."""
        return getattr(corpus, self.on)[: self.count]


@dataclass(frozen=True)
class Measure:
    """Numbers about a trained model, and the items that they are taken on.

    Attributes:
        words: what is measured.
        numbers: (model, corpus, items) -> numbers by name.
        on: the part of the corpus; or, in words, what `new` makes.
        new: (corpus) -> the items, where they are no part of it.
        count: how many items of the part; None takes all.
        after: only of the training with this label.
    """

    words: str
    numbers: Callable[[nn.Module, Any, Any], dict]
    on: str = "test"
    new: Callable[[Any], Any] | None = None
    count: int | None = None
    after: str | None = None

    def items(self, corpus: Any) -> Any:
        """What is measured on."""
        if self.new is not None:
            return self.new(corpus)
        part = getattr(corpus, self.on)
        return part if self.count is None else part[: self.count]

    def __str__(self) -> str:
        count = "" if self.count is None else f"{self.count:,} of "
        place = f"{count}the {self.on} part" if self.new is None else self.on
        return f"{self.words}, on {place}" + (f" (after training {self.after!r})" if self.after else "")


@dataclass(frozen=True)
class Row:
    """One system of a table.

    Attributes:
        name: of the system.
        build: (corpus, **options) -> a new model.
        options: what makes this system different.
        dropout: given to `build`; None where a model has none.
        corpus: (**data) -> the corpus; None where items are drawn on demand.
        data: options of the corpus.
        fit: (model, corpus, training, seed), which trains in place.
        trainings: usually one; each is a run from the start.
        before: the budget of a part that is trained first, by another loss.
        choices: what is chosen after the training.
        measures: what is measured, and on which part.
        run: (row, seed) -> numbers by name, possibly nested by group.
    """

    name: str
    build: Callable[..., nn.Module] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    dropout: float | None = None
    corpus: Callable[..., Any] | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
    fit: Callable[[nn.Module, Any, Training, int], Any] | None = None
    trainings: tuple[Training, ...] = ()
    before: Training | None = None
    choices: tuple[Choice, ...] = ()
    measures: tuple[Measure, ...] = ()
    run: Callable[["Row", int], dict] = field(default=lambda row, seed: run_row(row, seed))

    def get_corpus(self) -> Any:
        """The corpus of this row, or None."""
        return None if self.corpus is None else self.corpus(**self.data)

    def model(self, corpus: Any, seed: int) -> nn.Module:
        """A new model: the same at every call with the same seed."""
        options = dict(self.options) if self.dropout is None else {**self.options, "dropout": self.dropout}
        torch.manual_seed(seed)
        return self.build(corpus, **options)

    def measured(self, model: nn.Module, corpus: Any, label: str = "") -> dict:
        """All numbers of a trained model; nested by the label where one kind of number has several."""
        numbers = {}
        for measure in self.measures:
            if measure.after in (None, label):
                found = measure.numbers(model, corpus, measure.items(corpus))
                nested = label and measure.after is None
                numbers |= {name: {label: value} for name, value in found.items()} if nested else found
        return numbers

    def facts(self) -> dict[str, str]:
        """All that the row declares, in words, by the name of a column."""
        facts = {"model": _call(self.build, self.options)} if self.build else {}
        if self.corpus is not None:
            facts["data"] = _call(self.corpus, self.data)
        found = [training.facts() for training in self.trainings]
        for name in found[0] if found else ():
            facts[name] = " / ".join(dict.fromkeys(filter(None, (each[name] for each in found)))) or "none"
        if found and self.corpus is None:
            facts["trained on"] = "items drawn on demand"
        if found:
            held_back = [f"dropout {self.dropout:g}"] if self.dropout else []
            held_back += [each["regularisation"] for each in found[:1] if each["regularisation"]]
            facts["regularisation"] = " and ".join(held_back) or "none"
        if self.before is not None:
            facts["trained before"] = f"{self.before.steps:,} steps of {self.before.size}"
        for choice in self.choices:
            count = "" if choice.count is None else f"{choice.count:,} of "
            facts[f"{choice.what} chosen on"] = f"{count}{choice.on}"
        return facts


def run_row(row: Row, seed: int) -> dict:
    """Train as the row says and measure what it says; the processor's seconds are those of the trainings."""
    corpus, numbers, seconds = row.get_corpus(), {}, 0.0
    for training in row.trainings:
        model = row.model(corpus, seed)
        started = time.process_time()
        row.fit(model, training.parts_of(corpus, seed), training, seed)
        seconds += time.process_time() - started
        for name, value in row.measured(model, corpus, training.label).items():
            if isinstance(value, dict):
                numbers.setdefault(name, {}).update(value)
            else:
                numbers[name] = value
    return {"parameters": parameters(model), "processor seconds": round(seconds, 1), **numbers}


@dataclass(frozen=True)
class Experiment:
    """A table to be measured.

    Attributes:
        name: of the table and its file.
        task: what the systems are to do, and on what data; no budget, which the rows say.
        rows: the systems.
        seeds: each system is run with each of them.
    """

    name: str
    task: str
    rows: Sequence[Row]
    seeds: Sequence[int] = (0, 1, 2)

    @property
    def systems(self) -> list[str]:
        """The names of the rows."""
        return [row.name for row in self.rows]

    def facts(self) -> dict[str, dict[str, str]]:
        """What each row declares, by system and column: stored with the runs."""
        return {row.name: row.facts() for row in self.rows}

    @property
    def what(self) -> str:
        """The table about itself: task, what is held equal, what is not, what is measured on which part."""
        said = [self.task, *budgets(self.facts())]
        measures: dict[str, list[str]] = {}
        for row in self.rows:
            for measure in row.measures:
                measures.setdefault(str(measure), []).append(row.name)
        whose = {
            words: "" if len(systems) == len(self.rows) else f" (only {_listed(systems)})"
            for words, systems in measures.items()
        }
        if measures:
            said.append("Measured: " + "; ".join(words + who for words, who in whose.items()) + ".")
        said.append(f"Seed {self.seeds[0]}." if len(self.seeds) == 1 else f"Seeds {_and(self.seeds)}.")
        return " ".join(said)

    def missing(self, runs: Sequence[dict]) -> list[tuple[Row, int]]:
        """The rows and seeds that are not among these runs."""
        done = {(run["system"], run["seed"]) for run in runs}
        return [(row, seed) for seed in self.seeds for row in self.rows if (row.name, seed) not in done]

    def measure(self, folder: Path | None = None) -> Path:
        """Run what is missing, write after each run, and return the file.

        A table that the package carries is continued in the reader's own folder (`results_folder`).
        """
        path = (folder or results_folder()) / f"{self.name}.json"
        runs = stored_runs(self.name, path)
        missing = self.missing(runs)
        if not missing:
            print(f"{self.name}: nothing is missing, all {len(runs)} runs are stored", flush=True)
        for row, seed in missing:
            start = time.perf_counter()
            numbers = row.run(row, seed)
            seconds = round(time.perf_counter() - start, 1)
            runs.append({"system": row.name, "seed": seed, "seconds": seconds, **numbers, **conditions()})
            write_table(path, self.name, self.what, self.facts(), runs)
            print(f"{self.name}: {row.name}, seed {seed}: {seconds} s; in {path}", flush=True)
        return path


def budgets(facts: Mapping[str, Mapping[str, str]]) -> list[str]:
    """One sentence on what is equal in all systems, and one on each thing that is not.

    Models are left out, which the names of the systems tell apart, and so is data that all share.
    """
    equal, different = shared(facts)
    listed = [f"{name} {value}" for name, value in equal.items()
              if name not in ("model", "data") and (name, value) != ("settings", "none")]
    start = "Equal for all: " if len(facts) > 1 else "Run with: "
    said = [start + "; ".join(listed) + "."] if listed else []
    for name, values in different.items():
        if name == "model":
            continue
        whose: dict[str, list[str]] = {}
        for system, value in values.items():
            whose.setdefault(value, []).append(system)
        most = max(whose, key=lambda value: len(whose[value]))
        others = [f"{value} for {_listed(systems)}" for value, systems in whose.items() if value != most]
        said.append(f"Not equal: {name} {most}; but {'; '.join(others)}.")
    return said


def _and(names: Sequence) -> str:
    *first, last = map(str, names)
    return f"{', '.join(first)} and {last}" if first else last


def _listed(systems: Sequence[str]) -> str:
    """Names that may hold commas and "and" themselves."""
    return ", ".join(f'"{system}"' for system in systems)


def _call(build: Callable, options: Mapping[str, Any]) -> str:
    """A call as it would be typed: `translation_corpus(longest=15)`."""
    typed = {name: getattr(value, "__name__", repr(value)) for name, value in options.items()}
    return f"{build.__name__}({', '.join(f'{name}={value}' for name, value in typed.items())})"
