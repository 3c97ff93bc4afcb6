"""What all notebooks have in common: the first cell, how they are run, the metadata, and where they lie."""

from collections.abc import Iterable
from pathlib import Path

SETUP = '''\
# The course's package: in Colab this cell installs it; where it is installed, the cell does nothing.
import importlib.util

ADDRESS = ""
if importlib.util.find_spec("attncourse") is None:
    if not ADDRESS:
        raise ModuleNotFoundError(
            "attncourse is missing: type `pip install -e .` in the course's folder, then restart the kernel"
        )
    %pip install -q "attncourse @ git+https://github.com/{ADDRESS}"'''

# One thread per kernel, so that two notebooks run side by side on two cores and sums keep their order; the
# processor and no progress bars, so that what is stored does not depend on the machine or on its speed.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "ATTNCOURSE_DEVICE": "cpu", "ATTNCOURSE_QUIET": "1"}

# The limit guards against a cell that never ends, not against a slow one on a busy machine.
CELL_SECONDS = 900
CELL_LINES = 30

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "pygments_lexer": "ipython3",
    },
}
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"


def find(paths: Iterable[Path]) -> list[Path]:
    """Every notebook named or lying in a folder named, without Jupyter's checkpoints and built copies.

    Raises:
        FileNotFoundError: a path that is not there, or no notebook in any of them.
    """
    found = []
    for path in paths:
        if not path.exists():
            raise FileNotFoundError(f"there is no {path}: go to the course's folder, or name the notebooks")
        # Only below the folder: the course itself may lie in one that is called _build.
        inside = sorted(path.rglob("*.ipynb")) if path.is_dir() else [path]
        found += [p for p in inside if not {".ipynb_checkpoints", "_build"} & set(p.relative_to(path).parts)]
    if not found:
        raise FileNotFoundError(f"no notebook in {', '.join(map(str, paths))}")
    return found
