"""Tables that need several seeds: run a system with each seed, keep every number, summarise when read.

One JSON file an experiment, in book/results/ of a checkout (where the runs write) or inside the installed
package (where Colab reads). A run that is already in the file is not repeated, so an interruption costs the
run it hit and no more.
"""

import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import torch

from attncourse.training import pick_device

CHECKOUT = Path(__file__).parents[3] / "book" / "results"


class Spread(NamedTuple):
    """Mean, sample standard deviation (0 for a single seed) and number of the seeds."""

    mean: float
    std: float
    count: int


@dataclass(frozen=True)
class Experiment:
    """A table to be measured.

    Attributes:
        name: of the table and its file.
        what: one sentence: data, budget, metric.
        systems: the rows.
        seeds: each system is run with each of them.
        run: (system, seed) -> numbers by name, possibly nested by group; "parameters" among them.
    """

    name: str
    what: str
    systems: Sequence[str]
    seeds: Sequence[int]
    run: Callable[[str, int], dict]

    def measure(self, folder: Path | None = None) -> Path:
        """Run what is missing, write after each run, and return the file."""
        path = (folder or CHECKOUT) / f"{self.name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        runs = json.loads(path.read_text("utf8"))["runs"] if path.exists() else []
        for seed in self.seeds:
            for system in self.systems:
                if any((run["system"], run["seed"]) == (system, seed) for run in runs):
                    continue
                start = time.perf_counter()
                numbers = self.run(system, seed)
                seconds = round(time.perf_counter() - start, 1)
                runs.append({"system": system, "seed": seed, "seconds": seconds, **numbers, **conditions()})
                self._write(path, runs)
                print(f"{self.name}: {system}, seed {seed}: {seconds} s", flush=True)
        return path

    def _write(self, path: Path, runs: list[dict]) -> None:
        table = Results({"name": self.name, "what": self.what, "runs": runs})
        summary = {
            system: {metric: table.spread(system, metric)._asdict() for metric in table.metrics(system)}
            for system in table.systems
        }
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps({**table.content, "summary": summary}, indent=1) + "\n", "utf8")
        partial.replace(path)


def conditions() -> dict:
    """What a measured number depends on besides the code: device, threads, versions."""
    device = pick_device()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "device": f"{device.type} ({name}, {torch.get_num_threads()} of {os.cpu_count()} threads)",
        "versions": {package: version(package) for package in ("attncourse", "torch", "sacrebleu")},
        "python": platform.python_version(),
    }


class Results:
    """A measured table: spreads by system and metric. A nested metric is named with a slash, `bleu/26-30`."""

    def __init__(self, content: dict):
        self.content = content

    @property
    def systems(self) -> list[str]:
        """The rows, in the order they were first run."""
        return list(dict.fromkeys(run["system"] for run in self.content["runs"]))

    def metrics(self, system: str) -> list[str]:
        """Names of all numbers recorded for a system."""
        return list(_numbers(self._runs(system)[0]))

    def groups(self, metric: str) -> list[str]:
        """The groups of a nested metric, in order: `groups("bleu")` -> ["3-6", "7-10", ...]."""
        run = self.content["runs"][0]
        if not isinstance(run.get(metric), dict):
            nested = [key for key, value in run.items() if isinstance(value, dict) and key != "versions"]
            raise ValueError(f"metric {metric!r} has no groups: choose from {', '.join(nested)}")
        return list(run[metric])

    def lines(self, metric: str, systems: dict[str, str]) -> dict[str, dict[str, list[float]]]:
        """A nested metric as `viewer.by_length` draws it: {label: {group: one value per seed}}.

        Args:
            metric: its name without a group, such as "bleu".
            systems: {label in the figure: name in the table}.
        """
        groups = [group for group in self.groups(metric) if group != "all"]
        return {
            label: {group: self.values(system, f"{metric}/{group}") for group in groups}
            for label, system in systems.items()
        }

    def values(self, system: str, metric: str) -> list[float]:
        """The number of each seed."""
        found = [_numbers(run).get(metric) for run in self._runs(system)]
        if None in found:
            raise ValueError(
                f"metric {metric!r} was not recorded: choose from {', '.join(self.metrics(system))}"
            )
        return found

    def spread(self, system: str, metric: str) -> Spread:
        """Mean, standard deviation and number of seeds."""
        values = self.values(system, metric)
        return Spread(
            statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0, len(values)
        )

    def _runs(self, system: str) -> list[dict]:
        runs = [run for run in self.content["runs"] if run["system"] == system]
        if not runs:
            raise ValueError(
                f"system {system!r} is not in {self.content['name']!r}: choose from {', '.join(self.systems)}"
            )
        return runs


def load_results(name: str) -> Results:
    """A stored table by name, from the checkout or the installed package.

    Raises:
        FileNotFoundError: no such table; the message lists those there are.
    """
    for folder in (CHECKOUT, files("attncourse") / "results"):
        path = folder / f"{name}.json"
        if path.is_file():
            return Results(json.loads(path.read_text("utf8")))
    stored = sorted(path.stem for path in CHECKOUT.glob("*.json"))
    raise FileNotFoundError(
        f"no stored results are called {name!r}: there are {', '.join(stored) or 'none'}; "
        f"`attncourse results {name}` measures them"
    )


def _numbers(run: dict) -> dict[str, float]:
    """All numbers of a run but its seed, nested names joined by a slash."""
    found = {}
    for name, value in run.items():
        if name == "seed":
            continue
        if isinstance(value, dict):
            found |= {f"{name}/{group}": v for group, v in value.items() if isinstance(v, int | float)}
        elif isinstance(value, int | float):
            found[name] = value
    return found
