"""The process in which a submission runs: it reads the notebook, runs cells and calls functions when asked.

It is started anew for each submission, inside a sandbox, and knows nothing of questions, points or right
answers. Requests come in as lines of JSON, replies go out the same way. Below each request stands a line that
comes back below its reply: nothing more follows on this request. All that a submission can do in here is
spoil its own replies.
"""

import builtins
import json
import os
import sys
from pathlib import Path
from typing import Any

from attncourse.coursework.wire import NotSendable, decode, encode, to_tensors

LONGEST_WORDS = 400
OPEN_FILES = 256  # each may hold memory of the kernel's
MOST_CELLS = 2000
MOST_TAGS, LONGEST_NAME = 50, 100
MOST_LETTERS = 2_000_000  # in all cells together


class Missing(Exception):
    """The submission defines no such name."""


def main() -> None:
    """Serve requests.

    Arguments, all numbers: the open file of the notebook (-1: none), bytes of memory, bytes of a file, tasks
    (0: no limit), and whether this process has no walls around it.
    """
    notebook, memory, file_bytes, tasks, open_air = map(int, sys.argv[1:])
    if open_air:
        _stay_behind()
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # What cells print goes nowhere; what they ask for on the keyboard never comes.
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1, 2):
        os.dup2(nothing, standard)
    if sys.platform == "linux":  # elsewhere nothing is graded; a student's own check needs no limits
        _limit(memory, file_bytes, tasks)
    student, own = Student(notebook if notebook >= 0 else None), os.getpid()
    dump, load = json.dumps, json.loads  # kept: a submission may patch the module
    while line := requests.readline():
        request = load(line)
        token = request.pop("token")  # says which request a reply belongs to
        reply = getattr(student, request.pop("do"))(**request)
        if os.getpid() != own:
            os._exit(1)  # a copy that the submission forked has nothing to answer
        replies.write(dump({**reply, "token": token}).encode() + b"\n" + requests.readline())
        replies.flush()


def _stay_behind() -> None:
    """Go on in a child: whatever a submission starts and leaves to itself comes back to this process.

    Without walls nothing else would know of it, and it would outlive the grading.
    """
    if sys.platform != "linux":
        return
    import ctypes

    become_the_parent_of_orphans = 36
    ctypes.CDLL(None).prctl(become_the_parent_of_orphans, 1)
    child = os.fork()
    if not child:
        return
    for standard in (0, 1):
        os.close(standard)  # the answers are the child's
    _, status = os.waitpid(child, 0)
    from attncourse.coursework.bounds import end_all  # the grader may have been killed: this is the last look

    end_all(os.getpid())
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


def _limit(memory: int, file_bytes: int, tasks: int) -> None:
    import resource  # not there on Windows, where authors run their notebooks all the same

    bounds = {
        resource.RLIMIT_AS: memory,
        resource.RLIMIT_FSIZE: file_bytes,
        resource.RLIMIT_CORE: 1,  # with 0, some systems still start the program that collects them
        resource.RLIMIT_NOFILE: OPEN_FILES,
        **({resource.RLIMIT_NPROC: tasks} if tasks else {}),
    }
    for which, bound in bounds.items():
        resource.setrlimit(which, (bound, bound))
    os.nice(5)  # whoever looks after submissions goes first


class Student:
    """One submission: its cells, and the names that they have defined so far."""

    def __init__(self, notebook: Path | int | None, names: dict[str, Any] | None = None):
        self.notebook = notebook
        self.shell = None
        self.names = {} if names is None else names

    def read(self) -> dict:
        """The cells without their outputs, which may be long; or what is wrong with the file."""
        try:
            with open(self.notebook, encoding="utf-8-sig") as file:
                cells = [_cell(cell) for cell in json.load(file)["cells"]]
            if len(cells) > MOST_CELLS or sum(len(cell["source"]) for cell in cells) > MOST_LETTERS:
                return {"error": f"more than {MOST_CELLS} cells or {MOST_LETTERS} letters in them"}
            return {"cells": cells}
        except RecursionError:
            return {"error": "nested too deeply"}
        except MemoryError:
            return {"error": "too large to be read"}
        except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            return {"error": f"{type(error).__name__}: {error}"[:LONGEST_WORDS]}

    def begin(self) -> dict:
        """Load what every submission needs, so that its first cell is not charged with it."""
        import torch  # noqa: F401

        self.shell = _new_shell()
        self.names = self.shell.user_ns
        return {}

    def run(self, source: str) -> dict:
        """Run one cell as Jupyter would; the reply is {} or says what it raised."""
        _seed()
        result = self.shell.run_cell(source, store_history=False)
        error = result.error_before_exec or result.error_in_exec
        return {"error": _words(error)} if error is not None else {}

    def call(self, name: str, arguments: Any, keywords: Any, gradient: bool) -> dict:
        """Call a function of the submission; `gradient` asks for that of the summed result as well."""
        arguments, keywords = to_tensors(decode(arguments)), to_tensors(decode(keywords))
        _seed()
        try:
            if gradient:
                arguments = [_leaf(argument) for argument in arguments]
            result = self._named(name)(*arguments, **keywords)
            if gradient:
                result.sum().backward()
                gradients = [a.grad for a in arguments if getattr(a, "requires_grad", False)]
                result = [result, *gradients]
            return {"value": encode(result)}
        except BaseException as error:
            return {"error": _kind(error)}

    def value(self, name: str) -> dict:
        """What a name stands for."""
        try:
            return {"value": encode(self._named(name))}
        except BaseException as error:
            return {"error": _kind(error)}

    def _named(self, name: str) -> Any:
        if name not in self.names:
            raise Missing
        found = self.names[name]
        if found is ...:
            raise NotImplementedError
        return found


def _cell(cell: dict) -> dict:
    source, metadata = cell.get("source", ""), cell.get("metadata") or {}
    return {
        "kind": _name(cell["cell_type"]),
        "id": _name(cell.get("id") or metadata.get("id") or ""),  # Colab keeps it in the metadata
        "tags": [_name(tag) for tag in list(metadata.get("tags") or [])[:MOST_TAGS]],
        "source": source if isinstance(source, str) else "".join(source),
    }


def _name(value: Any) -> str:
    """A name of a few letters: what is longer, or no text at all, is none that anybody looks for."""
    return value[:LONGEST_NAME] if isinstance(value, str) else ""


def _new_shell():
    from IPython.core.history import HistoryManager
    from IPython.core.interactiveshell import InteractiveShell

    HistoryManager.enabled = False
    builtins.input = _no_input
    shell = InteractiveShell.instance()
    shell.ask_exit = lambda: None  # exit() ends a kernel, and there is none
    shell.enable_gui = lambda gui=None: None  # %matplotlib inline asks for a window's loop, and there is none
    shell.showtraceback = lambda *args, **kwargs: None  # nobody reads it, and a deep one takes seconds
    return shell


def _no_input(prompt=""):
    raise RuntimeError("input() has nobody to ask while a notebook is graded: write the value into the cell")


def _seed() -> None:
    """The same random numbers at every run, whatever ran before."""
    import random

    import numpy as np

    random.seed(0)
    np.random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def _leaf(argument: Any) -> Any:
    floating = getattr(argument, "is_floating_point", None)
    return argument.requires_grad_() if floating and argument.is_floating_point() else argument


def _words(error: BaseException) -> str:
    """An error of a cell, in the words of the one who raised it; hidden inputs are not in here yet."""
    try:
        return f"{type(error).__name__}: {error}"[:LONGEST_WORDS]
    except BaseException:
        return "an error that cannot be printed"


def _kind(error: BaseException) -> str:
    """An error of a judged call, by the name that Python gave it: its words might repeat the hidden input."""
    if isinstance(error, NotSendable | Missing):
        return type(error).__name__
    known = (kind.__name__ for kind in type(error).__mro__ if kind.__module__ == "builtins")
    return next(known, "Exception")


if __name__ == "__main__":
    main()
