"""Stored tables: read, summarised, compared, continued; and what a run's numbers depend on.

One JSON file a table. In a checkout they lie in book/results, where runs are written too. An installed
package carries them; runs are then written into the reader's own folder, and continue what it carries.
"""

import json
import os
import platform
import re
import statistics
import subprocess
from collections.abc import Mapping
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import torch

from attncourse import __version__
from attncourse.training import pick_device

ROOT = Path(__file__).parents[3]
CHECKOUT = ROOT / "book" / "results"
CARRIED = files("attncourse") / "results"  # inside an installed package
OWN = "attncourse-results"  # the reader's folder, where there is no checkout


class Spread(NamedTuple):
    """Mean, sample standard deviation (0 for a single seed) and number of the seeds."""

    mean: float
    std: float
    count: int


def results_folder() -> Path:
    """Where runs are written: $ATTNCOURSE_RESULTS; or book/results of a checkout; or ./attncourse-results."""
    named = os.environ.get("ATTNCOURSE_RESULTS")
    if named:
        return Path(named).expanduser().absolute()
    return CHECKOUT if CHECKOUT.is_dir() else Path.cwd() / OWN


def book_folder():
    """Where the book's own tables are: in the checkout, or inside the package."""
    return CHECKOUT if CHECKOUT.is_dir() else CARRIED


def stored_runs(name: str, path: Path) -> list[dict]:
    """The runs to go on from: those of this file; without it, those of the book's own table; or none."""
    for file in (path, book_folder() / f"{name}.json"):
        if file.is_file():
            return json.loads(file.read_text("utf8"))["runs"]
    return []


def write_table(path: Path, name: str, what: str, rows: dict[str, dict[str, str]], runs: list[dict]) -> None:
    """Write a table with its summary; a half-written file never replaces a whole one."""
    table = Results({"name": name, "what": what, "rows": rows, "runs": runs})
    summary = {
        system: {metric: table.spread(system, metric)._asdict() for metric in table.metrics(system)}
        for system in table.systems
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(json.dumps({**table.content, "summary": summary}, indent=1) + "\n", "utf8")
    partial.replace(path)


def conditions() -> dict:
    """What a measured number depends on: the code's commit, the processor, device, threads, versions."""
    device = pick_device()
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.machine()
    return {
        "commit": commit(),
        "processor": processor(),
        "device": f"{device.type} ({name}, {torch.get_num_threads()} of {os.cpu_count()} threads)",
        "versions": {package: version(package) for package in ("attncourse", "torch", "sacrebleu")},
        "python": platform.python_version(),
    }


def commit() -> str:
    """The commit of the code that runs, marked where its files were changed; or the installed version."""
    if CHECKOUT.is_dir():  # else the package may lie in a folder of somebody's own repository
        try:
            head = _git("rev-parse", "HEAD")
            return head + (" and changes" if _git("status", "--porcelain", "--", "src") else "")
        except (OSError, subprocess.CalledProcessError):
            pass  # no git, or a copy without its history
    return f"installed {__version__}"


def _git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def processor() -> str:
    """The processor's name: another one may move the last digits of a number."""
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text("utf8"), re.MULTILINE)
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def shared(facts: Mapping[str, Mapping[str, str]]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """What all systems have in common, {name: value}, and what they do not, {name: {system: value}}."""
    names = dict.fromkeys(name for row in facts.values() for name in row)
    columns = {name: {system: row.get(name, "none") for system, row in facts.items()} for name in names}
    equal = {name: values[next(iter(values))] for name, values in columns.items()
             if len(set(values.values())) == 1}
    return equal, {name: values for name, values in columns.items() if name not in equal}


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

    def as_table(
        self, metrics: Mapping[str, str], systems: Mapping[str, str] | None = None, *, places: int = 1
    ) -> dict:
        """What `viewer.show_table` shows: means with their spread, then all that is not equal, and what is.

        Args:
            metrics: {heading of a column: name of the metric}.
            systems: {label of a row: name of the system}; all of them, under their own names, when omitted.
        """
        systems = systems or {name: name for name in self.systems}
        equal, unequal = self._columns(list(systems.values()))
        seeds = {self.spread(name, metric).count for name in systems.values() for metric in metrics.values()}
        rows = [
            [label, *[self._written(name, metric, places) for metric in metrics.values()],
             *[unequal[fact][name] for fact in unequal]]
            for label, name in systems.items()
        ]
        count = " or ".join(map(str, sorted(seeds)))
        runs = f"Mean ± standard deviation of {count} seeds" if max(seeds) > 1 else "One seed"
        return {
            "rows": rows,
            "columns": ["", *metrics, *unequal],
            "notes": f"{runs}; {_equal(equal)}.",
        }

    def _written(self, system: str, metric: str, places: int) -> str:
        mean, std, count = self.spread(system, metric)
        return f"{mean:,.{places}f}" + (f" ± {std:.{places}f}" if count > 1 else "")

    def equal(self) -> str:
        """One line: what is the same for all systems, and so no explanation of a difference."""
        return _equal(self._columns(self.systems)[0])

    def columns(self) -> dict[str, dict[str, str]]:
        """What is not equal, {column: {system: value}}: parameters, steps, seconds, learning rate ..."""
        return self._columns(self.systems)[1]

    def _columns(self, systems: list[str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
        for system in systems:
            self._runs(system)  # an unknown name is said in words
        facts = {system: dict(self.content["rows"][system]) for system in systems}
        for system, row in facts.items():
            known = self.metrics(system)
            if "parameters" in known:
                row["parameters"] = f"{self.spread(system, 'parameters').mean:,.0f}"
            clock = "processor seconds" if "processor seconds" in known else "seconds"
            row[clock] = f"{self.spread(system, clock).mean:,.0f}"
        return shared(facts)

    def _runs(self, system: str) -> list[dict]:
        runs = [run for run in self.content["runs"] if run["system"] == system]
        if not runs:
            raise ValueError(
                f"system {system!r} is not in {self.content['name']!r}: choose from {', '.join(self.systems)}"
            )
        return runs


def load_results(name: str) -> Results:
    """A stored table by name: the reader's own, which is said in a line, or else the book's.

    Raises:
        FileNotFoundError: no such table; the message lists those there are.
    """
    own, book = results_folder(), book_folder()
    for folder in (own, book):
        path = folder / f"{name}.json"
        if path.is_file():
            if folder != book:
                print(f"{name}: your own table, {path}; the book's is read where that file is not")
            return Results(json.loads(path.read_text("utf8")))
    stored = {path.name.removesuffix(".json") for folder in (own, book) if folder.is_dir()
              for path in folder.iterdir() if path.name.endswith(".json")}
    raise FileNotFoundError(
        f"no stored results are called {name!r}: there are {', '.join(sorted(stored)) or 'none'}; "
        f"`attncourse results {name}` measures them"
    )


def _equal(equal: Mapping[str, str]) -> str:
    return "equal for all: " + "; ".join(f"{name} {value}" for name, value in equal.items())


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
