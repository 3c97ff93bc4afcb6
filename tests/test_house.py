"""The house rules that no linter knows: what depends on what, what is written where, what is not in here."""

import ast
import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from collections import Counter
from pathlib import Path

import pytest

import attncourse
from attncourse import notebooks

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "attncourse"
MODULES = sorted(PACKAGE.rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# Each part may import itself and what stands here for it.
BELOW = {
    "devices": set(),
    "attention": set(),
    "atlas": {"attention"},
    "boxes": {"devices"},
    "data": {"boxes", "devices"},
    "claims": set(),
    "viewer": {"attention", "boxes", "claims"},
    "notebooks": set(),
    "models": {"attention", "boxes"},
    "training": {"attention", "models", "data", "devices"},
    "decoding": {"attention", "models", "data"},
    "metrics": {"attention", "boxes", "models", "data"},
    "experiments": {"attention", "boxes", "models", "data", "devices", "training", "decoding", "metrics"},
    "coursework": {"attention", "models", "data", "training", "decoding", "metrics", "claims", "notebooks"},
}
AT_THE_TOP = {"cli", "__init__"}


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def part(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imported_parts(path: Path) -> set[str]:
    """The parts of the package that a module imports, relative imports included."""
    package = ["attncourse", *path.relative_to(PACKAGE).parts[:-1]]
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            names += [f"{prefix}.{alias.name}" for alias in node.names]
    return {name.split(".")[1] for name in names if name.startswith("attncourse.")} - {"__version__"}


def committed() -> list[Path]:
    """Every file that is committed, or would be."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is not a git checkout")
    # It may belong to another user than the one who tests it, which git refuses unless told.
    git = ["git", "-c", "safe.directory=*", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(git, cwd=ROOT, stdout=subprocess.PIPE, encoding="utf-8", check=True)
    return [ROOT / name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]


# --- The package -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_downwards(path):
    """Attention that imports a model, or data that imports a plot, can no longer be read alone."""
    if part(path) in AT_THE_TOP:
        return
    allowed = BELOW.get(part(path))
    assert allowed is not None, f"{part(path)} has no place in the order of imports: add it to BELOW"
    above = imported_parts(path) - allowed - {part(path)}
    assert not above, f"{name_of(path)} imports {', '.join(sorted(above))}, which does not lie below it"


def test_an_import_that_points_upwards_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    module = tmp_path / "attention" / "equation.py"
    module.parent.mkdir()
    module.write_text(
        "import attncourse.viewer.plots\nfrom attncourse import models\nfrom ..data import pairs\n"
    )
    assert imported_parts(module) == {"viewer", "models", "data"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_opens_with_the_sentence_a_reader_needs(path):
    assert ast.get_docstring(ast.parse(path.read_text())), "the module has no opening docstring"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_what_is_public_says_what_it_is(path):
    """Public functions, classes and methods; `forward` is described by its class."""
    known = {"forward"}

    def undocumented(body, prefix=""):
        for node in body:
            is_definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
            if not is_definition or node.name.startswith("_") or node.name in known or _is_overload(node):
                continue
            if not ast.get_docstring(node):
                yield prefix + node.name
            if isinstance(node, ast.ClassDef):
                yield from undocumented(node.body, f"{node.name}.")

    missing = list(undocumented(ast.parse(path.read_text()).body))
    assert not missing, f"{name_of(path)} does not say what these are: {', '.join(missing)}"


def _is_overload(node) -> bool:
    return any(ast.unparse(decorator).endswith(("overload", ".setter")) for decorator in node.decorator_list)


def beyond_torch(module: str) -> float:
    """Seconds of the processor that importing a module takes once torch is there: the least of three runs."""
    clock = "time.process_time()"
    program = f"import torch, time; start = {clock}; import {module}; print({clock} - start)"
    command = [sys.executable, "-c", program]
    return min(float(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(3))


def test_import_adds_at_most_three_tenths_of_a_second_to_torch():
    assert beyond_torch("attncourse.attention") <= 0.3


def test_importing_the_package_imports_nothing_else():
    """What `import attncourse` drags in, every command and every notebook pays for."""
    program = "import sys; before = set(sys.modules); import attncourse; print(*set(sys.modules) - before)"
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout
    assert printed.split() == ["attncourse"]


# --- The tests themselves ----------------------------------------------------------------------------------

SKIPPING = """
import pytest

@pytest.mark.skipif(True, reason="needs a GPU")
def test_foreseen(): pass

@pytest.mark.skip(reason="the sun shines")
def test_decorated(): pass

def test_inside():
    pytest.skip("node is missing")

@pytest.fixture
def absent():
    pytest.importorskip("a_package_that_is_not_there")

def test_of_a_fixture(absent): pass

@pytest.mark.xfail
def test_expected_to_fail(): assert False
"""


def run_skipping(folder: Path, **environment: str) -> str:
    """What pytest says of `SKIPPING` and of a module that is skipped whole, under this project's conftest."""
    (folder / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    (folder / "test_small.py").write_text(SKIPPING)
    (folder / "test_whole.py").write_text("import pytest\npytest.importorskip('neither_is_this')")
    command = [sys.executable, "-m", "pytest", "-q", "--rootdir", folder, "--continue-on-collection-errors"]
    without = {name: value for name, value in os.environ.items() if name not in {"CI", "PYTEST_ADDOPTS"}}
    return subprocess.run(
        command, cwd=folder, env=without | environment, capture_output=True, text=True, timeout=120
    ).stdout


def test_ci_fails_on_a_skip_that_it_did_not_foresee(tmp_path):
    """A skip nobody foresaw stays green for months, and what it skips is broken by then."""
    printed = run_skipping(tmp_path, CI="true")
    assert "1 failed, 1 skipped, 1 xfailed, 3 errors" in printed.splitlines()[-1], printed
    for reason in ("the sun shines", "node is missing", "a_package_that_is_not_there", "neither_is_this"):
        assert reason in printed
    assert "or add the reason to FORESEEN" in printed


def test_elsewhere_a_skip_is_a_skip(tmp_path):
    assert "5 skipped, 1 xfailed" in run_skipping(tmp_path).splitlines()[-1]


@pytest.fixture
def bare_machine(tmp_path):
    """What .ci/run does where no font is there, the mirror answers the third time, and `make` only counts."""
    commands = {
        "apt-get": 'echo "$@" >> asked; [ $(wc -l < asked) -ge 3 ]',
        "dpkg-query": "exit 1",
        "sleep": "exit 0",
        "sudo": '"$@"',
        "make": """echo "make $* with CI=$CI"; [ "$1" = pretrained ] && exit
echo "== 3 passed, 1 failed, 2 skipped in 3.25s =="; echo "4 passed, 1 error in 62.01s (0:01:02)"; exit 2""",
    }
    for name, script in commands.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (tmp_path / ".ci").mkdir()
    (tmp_path / ".ci" / "run").write_text((ROOT / ".ci" / "run").read_text())
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", ".ci/run"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )


def test_ci_asks_a_mirror_that_stumbles_again(bare_machine):
    """One answer of 502 would make the whole run red."""
    assert bare_machine.stdout.count("== Once more") == 2
    assert "Not all of it could be installed" not in bare_machine.stdout
    assert "make pretrained with CI=true\nmake -k test with CI=true" in bare_machine.stdout


def test_ci_says_at_last_what_was_counted_and_fails_as_make_does(bare_machine):
    """Errors count as failures, and the status is not that of `tee`."""
    assert bare_machine.stdout.splitlines()[-1] == "7 passed, 2 failed, 2 skipped"
    assert bare_machine.returncode == 2


def test_what_is_started_first_is_there():
    """A file renamed would again be started last, and one worker would wait for the other for minutes."""
    named = re.findall(r'"((?:tests|chapters)/[\w./]+)"', (ROOT / "conftest.py").read_text())
    assert len(named) > 5 and [name for name in named if not (ROOT / name).is_file()] == []


def test_a_cell_may_be_slow_but_not_endless():
    """On a busy machine a cell of a minute takes five; the limit is one, for storing and for comparing."""
    assert notebooks.CELL_SECONDS == 900
    program = (
        "import conftest, types; config = types.SimpleNamespace(option=types.SimpleNamespace(nbval=True));"
        "conftest.pytest_configure(config); print(config.option.nbval_cell_timeout)"
    )
    printed = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert printed.stdout.split() == ["900"], printed.stderr
    assert "cell-timeout" not in (ROOT / "Makefile").read_text(), "a second limit would drift from the first"


# --- The project's files -----------------------------------------------------------------------------------


def test_the_version_is_said_once():
    assert importlib.metadata.version("attncourse") == attncourse.__version__
    assert "version" in PROJECT["dynamic"]


def test_the_metadata_has_lower_bounds_only():
    """A pin here would replace the torch that Colab brings, and with it gigabytes."""
    for requirement in PROJECT["dependencies"]:
        assert re.fullmatch(r"[\w.-]+>=[\d.]+", requirement), requirement


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    """On the author's machine everything is installed; on the first reader's it is not."""
    other_names = {"sklearn": "scikit-learn", "PIL": "pillow", "IPython": "ipython", "yaml": "pyyaml"}
    imported = set()
    for node in (node for path in MODULES for node in ast.walk(ast.parse(path.read_text()))):
        if isinstance(node, ast.Import):
            imported |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and not node.level:
            imported.add(node.module.split(".")[0])
    imported -= {"attncourse"} | sys.stdlib_module_names
    imported = {other_names.get(name, name.replace("_", "-")) for name in imported}
    declared = {line.split(">=")[0] for line in PROJECT["dependencies"]}
    extras = {
        line.split(">=")[0]
        for extra in ("coursework", "notebooks", "pretrained")
        for line in PROJECT["optional-dependencies"][extra]
    }
    assert imported - declared - extras == set(), "imported, but not declared in pyproject.toml"
    assert declared - imported == set(), "declared in pyproject.toml, but never imported"


def test_jupyter_book_stays_below_two():
    """Version 2 is another program, which does not build this book."""
    assert any(re.search(r"^jupyter-book\b.*<2$", line) for line in PROJECT["optional-dependencies"]["book"])
    assert re.search(r"^jupyter-book==1\.", (ROOT / "requirements.txt").read_text(), flags=re.MULTILINE)


def test_the_tested_set_is_pinned_and_comes_from_anywhere():
    """An address of a mirror or a path of one machine in here breaks every other one."""
    lines = [line.partition("#")[0].strip() for line in (ROOT / "requirements.txt").read_text().splitlines()]
    for line in filter(None, lines):
        assert re.fullmatch(r"[\w.-]+==[\w.]+( ?; ?.+)?", line), line


def test_the_tested_set_holds_every_requirement():
    names = {re.split(r"[>=<\[]", line)[0] for line in PROJECT["dependencies"]}
    for extra in PROJECT["optional-dependencies"].values():
        names |= {re.split(r"[>=<\[]", line)[0] for line in extra}
    canonical = {re.sub(r"[-_.]+", "-", name).lower() for name in names - {"attncourse"}}
    pinned = (ROOT / "requirements.txt").read_text().lower().replace("_", "-")
    missing = {name for name in canonical if not re.search(rf"^{name}==", pinned, flags=re.MULTILINE)}
    assert not missing


def test_the_commands_that_the_readme_shows_exist():
    text = "".join((ROOT / name).read_text() for name in ["README.md", "CONTRIBUTING.md"])
    makefile = (ROOT / "Makefile").read_text()
    shown = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, flags=re.MULTILINE))
    assert {"book", "test"} <= shown
    for target in shown:
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE), f"the Makefile has no {target}"


def test_the_readme_s_example_runs():
    [example] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})


def test_no_file_has_a_name_that_says_nothing():
    """In utils, helpers, common and misc nobody finds anything."""
    vague = re.compile(r"^(utils?|helpers?|common|misc)(\.|$)")
    assert [path for path in committed() if any(vague.match(p) for p in path.relative_to(ROOT).parts)] == []


def test_no_large_file():
    assert [path for path in committed() if path.stat().st_size > 2_000_000] == []


def of_this_machine(*paths: str) -> re.Pattern:
    """Finds these paths as whole names; one of a single part, such as /usr or /src, says nothing."""
    own = {path for path in paths if len(Path(path).parts) > 2} - {"/usr/local"}
    return re.compile(rf"(?<![\w.~/-])(?:{'|'.join(map(re.escape, sorted(own))) or '(?!)'})(?![\w-]|\.\w)")


def test_nothing_names_the_machine_it_was_written_on():
    """A path of one machine works on one machine."""
    pattern = of_this_machine(str(ROOT), str(Path.home()), sys.prefix, sys.base_prefix)
    named = []
    for path in committed():
        try:
            found = pattern.search(path.read_text(encoding="utf-8"))
        except UnicodeDecodeError:
            continue
        named += [f"{path.relative_to(ROOT)}: {found[0]}"] if found else []
    assert not named


def test_a_path_is_found_wherever_the_course_lies():
    """In /tmp/x, "/tmp/x.pt" names another file; /usr and /src, as on Debian and in containers, nothing."""
    found = of_this_machine("/tmp/x", "/usr", "/src", "/", "/home/ada/a course").search
    assert found("see /tmp/x.") and found("'/tmp/x/y'") and found("in /home/ada/a course now")
    assert not any(map(found, ["/tmp/x.pt", "/tmp/xy", "a/tmp/x", "/usr/bin/env", "book/src/x", "/home/ada"]))
    assert not of_this_machine("/", "/usr").search("/usr/bin")


def test_the_wheel_carries_what_the_package_reads(tmp_path):
    """A data file that is forgotten in the wheel is missed only by those who install it."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        ".",
        "--no-deps",
        "--no-build-isolation",
        "-q",
        "-w",
        tmp_path,
    ]
    subprocess.run(command, cwd=ROOT, check=True, env={**os.environ, "PIP_NO_INDEX": "1"})
    [wheel] = tmp_path.glob("attncourse-*.whl")
    inside = set(zipfile.ZipFile(wheel).namelist())
    assert all(name.startswith("attncourse") for name in inside), (
        "something beside the package would be installed"
    )
    ours = [p for p in committed() if p.is_relative_to(PACKAGE)]
    assert {f"attncourse/{name_of(path)}" for path in ours} <= inside
    results = {f"attncourse/results/{path.name}" for path in (ROOT / "book" / "results").glob("*.json")}
    assert results <= inside
    assert {"LICENSE", "LICENSE-TEXT"} <= {Path(name).name for name in inside}


def test_no_two_files_of_tests_have_one_name():
    """pytest imports them by name alone: run together, the second is an error, and run alone, all is well."""
    seen = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in seen.items() if count > 1] == []
