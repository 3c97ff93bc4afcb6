"""The command `attncourse`: what authors and lecturers do with the course, one word each."""

import argparse
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from attncourse import __version__

PROBLEMS = Path("chapters/problems")


def main(arguments: list[str] | None = None) -> int:
    """Run one command. Exit status: 0 all is well, 1 something was found or failed, 2 not understood."""
    chosen = _parser().parse_args(arguments)
    return chosen.run(chosen)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="attncourse", description="An interactive course on attention.")
    parser.add_argument("--version", action="version", version=f"attncourse {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    results = commands.add_parser("results", help="run the experiments behind the book's tables")
    results.add_argument("names", nargs="*", metavar="NAME", help="which ones (default: all)")
    results.add_argument("--list", action="store_true", help="print the names and stop")
    results.set_defaults(run=_results)

    notebooks = commands.add_parser("notebooks", help="execute notebooks and store their outputs in place")
    notebooks.add_argument("paths", nargs="*", type=Path, default=[Path("chapters")], metavar="PATH")
    notebooks.add_argument("--check", action="store_true", help="only say what is wrong with what is stored")
    notebooks.add_argument("--jobs", type=_positive, default=os.cpu_count(), help="how many run side by side")
    notebooks.set_defaults(run=_notebooks)

    publish = commands.add_parser("publish", help="write copies of the chapters for Colab")
    publish.add_argument("out", type=Path, metavar="OUT", help="the folder to write to")
    publish.add_argument("--address", required=True, metavar="OWNER/NAME[@BRANCH]", help="of this repository")
    publish.set_defaults(run=_publish)
    _add_coursework(
        commands.add_parser("coursework", help="build problem sets, check an answer, grade answers")
    )
    return parser


def _add_coursework(coursework: argparse.ArgumentParser) -> None:
    commands = coursework.add_subparsers(required=True, metavar="COMMAND")
    sources = {"type": Path, "default": PROBLEMS, "metavar": "FOLDER"}

    build = commands.add_parser(
        "build", help="write the readers', students', nbgrader's and instructors' versions"
    )
    build.add_argument("out", type=Path, metavar="OUT", help="the folder to write to")
    build.add_argument("--source", **sources, help="the problem sets' sources (default: %(default)s)")
    build.add_argument(
        "--address", default="", metavar="OWNER/NAME[@BRANCH]", help="from where Colab installs"
    )
    build.set_defaults(run=_coursework_build)

    grade = commands.add_parser("grade", help="grade a folder of submissions, each shut in alone")
    grade.add_argument(
        "submissions", type=Path, metavar="SUBMISSIONS", help="NAME.ipynb or a folder NAME for each"
    )
    grade.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the folder for grades and feedback"
    )
    grade.add_argument(
        "--jobs", type=_positive, default=1, metavar="N", help="how many at a time (default: 1)"
    )
    grade.add_argument("--source", **sources, help="the problem sets' sources (default: %(default)s)")
    grade.add_argument(
        "--secret", type=Path, metavar="FILE", help="the seed of the hidden inputs (default: DIR/secret)"
    )
    grade.add_argument(
        "--again", action="append", default=[], metavar="NAME", help="judge this student again"
    )
    grade.add_argument(
        "--limit",
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help="what a submission may take, as the guide names it: cell_seconds=60, or memory=3000 in MB",
    )
    grade.add_argument(
        "--no-sandbox",
        action="store_true",
        help="let submissions read this machine's files and use its network",
    )
    grade.set_defaults(run=_coursework_grade)

    check = commands.add_parser("check", help="run your own notebook and say which of its checks pass")
    check.add_argument("notebook", type=Path, metavar="NOTEBOOK")
    check.set_defaults(run=_coursework_check)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"a number of at least 1, not {text!r}")
    return int(text)


def _results(chosen: argparse.Namespace) -> int:
    from attncourse import experiments

    known = list(experiments.names())
    unknown = [name for name in chosen.names if name not in known]
    if unknown:
        return _refuse(f"no experiment is called {', '.join(unknown)}: choose from {', '.join(known)}")
    if chosen.list:
        print("\n".join(known))
        return 0
    for name in chosen.names or known:
        experiments.run(name)
    return 0


def _notebooks(chosen: argparse.Namespace) -> int:
    from attncourse import notebooks

    try:
        paths = notebooks.find(chosen.paths)
    except FileNotFoundError as error:
        return _refuse(error)
    if not chosen.check:
        return _execute(paths, chosen.jobs)
    problems = [f"{path}: {problem}" for path in paths for problem in notebooks.check(path)]
    print("\n".join(problems) or f"nothing is wrong with {len(paths)} notebook(s)")
    return 1 if problems else 0


def _execute(paths: list[Path], jobs: int) -> int:
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    from attncourse import notebooks

    def report(path: Path) -> bool:
        try:
            print(f"{notebooks.execute(path):6.1f} s  {path}", flush=True)
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            print(f"failed    {path}\n{error}", file=sys.stderr, flush=True)
            return False
        return True

    with ThreadPoolExecutor(jobs) as pool:
        succeeded = list(pool.map(report, paths))
    return 0 if all(succeeded) else 1


def _publish(chosen: argparse.Namespace) -> int:
    from attncourse import notebooks
    from attncourse.coursework import versions

    try:
        written = notebooks.publish(chosen.out, chosen.address)
        if PROBLEMS.is_dir():
            written += versions.build_pages(PROBLEMS, chosen.out / "book" / "problems", chosen.address)
    except (FileNotFoundError, ValueError) as error:
        return _refuse(error)
    print("\n".join(map(str, written)))
    return 0


def _coursework_build(chosen: argparse.Namespace) -> int:
    from attncourse.coursework import versions

    try:
        written = versions.build(chosen.source, chosen.out, chosen.address)
    except (FileNotFoundError, ValueError) as error:
        return _refuse(error)
    print("\n".join(map(str, written)))
    return 0


def _coursework_grade(chosen: argparse.Namespace) -> int:
    from attncourse.coursework import grading, sandbox, submissions

    sys.stdout.reconfigure(errors="backslashreplace")  # names of every language, on any terminal
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what was started, as Ctrl-C does
    try:
        graded = grading.grade(
            chosen.submissions,
            chosen.out,
            source=chosen.source,
            jobs=chosen.jobs,
            secret=chosen.secret,
            limits=sandbox.limits_from(chosen.limit),
            sandboxed=not chosen.no_sandbox,
            again=chosen.again,
        )
    except (FileNotFoundError, ValueError, sandbox.NoSandbox) as error:
        return _refuse(error)
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from here", file=sys.stderr)
        return 130
    for one in graded:
        points = ", ".join(
            f"{name} {report.earned:g}/{report.points}" for name, report in one.reports.items()
        )
        print(f"{one.student}: {points or 'nothing could be graded'}")
    print(f"grades and feedback are in {chosen.out}")
    if passed_over := submissions.passed_over(chosen.submissions):
        print(f"nobody's submission, and not graded: {', '.join(passed_over)}")
    unsound = {why for one in graded for why in one.unsound.values()}
    for why in sorted(unsound):
        print(f"attncourse: could not be graded, for anybody: {why}", file=sys.stderr)
    return 1 if unsound else 0


def _coursework_check(chosen: argparse.Namespace) -> int:
    from attncourse.coursework import self_check

    try:
        checks = self_check.run_checks(chosen.notebook)
    except (FileNotFoundError, ValueError) as error:
        return _refuse(error)
    for check in checks:
        print(f"{'✗' if check.words else '✓'} {check.name}{check.words and ': '}{check.words}")
    return 1 if any(check.words for check in checks) else 0


def _refuse(reason: object) -> int:
    print(f"attncourse: {reason}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    raise SystemExit(main())
