"""Checks what changed, in a minute: ``python -m tests.check [--base main]``.

Decides which steps there are and how they are reported: format, lint, types, import contracts,
and the tests that ``selection.py`` chooses.  It is no proof that nothing else broke: the last
lines say which tests were left out, and the command that runs them.
"""

import argparse
import sys
import time
from pathlib import Path

import grimp.exceptions

from tests.check.changes import NothingToCompareError, changed_files
from tests.check.imports import Imports
from tests.check.report import counted, left_out, listed, result_line
from tests.check.selection import TIDY, select
from tests.check.steps import Step, run

ROOT = Path(__file__).parents[2]
NOTHING_TO_COMPARE = 2
INTERRUPTED = 130

_BIN = Path(sys.executable).parent
_RUFF = (sys.executable, "-m", "ruff")
# Types take longest, so they begin; the tests have the other core after what is done at once.
LINTERS = (
    Step("types", (sys.executable, "-m", "mypy", "--no-error-summary")),
    Step("format", (*_RUFF, "format", "--check")),
    Step("lint", (*_RUFF, "check", "--quiet", "--output-format", "concise")),
    Step("imports", (str(_BIN / "lint-imports"), "--config", "setup.cfg")),
)
QUICK = "not (integration or slow or long or cluster or containers or newcomer or browser)"
"""The tests of a chosen file that need no server and no minutes, as a choice of markers."""
NO_TEST_IS_QUICK = 5
"""What pytest ends with where it chose no test."""


def main() -> int:
    """Check; return 1 where a step failed, 2 where git cannot tell what changed."""
    parser = argparse.ArgumentParser(prog="python -m tests.check", description=__doc__)
    parser.add_argument("--base", default="HEAD", help="a commit or branch to compare with")
    base = parser.parse_args().base
    try:
        changed = changed_files(ROOT, base)
    except NothingToCompareError as error:
        sys.stderr.write(f"{error}\n")
        return NOTHING_TO_COMPARE
    try:
        return _check(changed, base)
    except KeyboardInterrupt:
        return INTERRUPTED


def _check(changed: list[str], base: str) -> int:
    began = time.monotonic()
    try:
        selection = select(changed, Imports(ROOT).importers, ROOT)
    except grimp.exceptions.SourceSyntaxError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    _say(f"{counted(len(changed), 'file')} changed since {base}")
    failed = []
    for result in run([*LINTERS, *tests_steps(selection.chosen)], ROOT):
        _say(result_line(result))
        if not result.passed:
            failed.append(result.step.name)
            _say(result.output)
    for line in left_out(selection):
        _say(f"left out: {line}")
    outcome = f"failed: {', '.join(failed)}" if failed else "passed"
    _say(f"{outcome}, {time.monotonic() - began:.1f} s")
    return 1 if failed else 0


def tests_steps(files: tuple[str, ...]) -> list[Step]:
    """Return the steps that run test files: those that read files as text have one of their own.

    By the time they begin the types are done, whose core they take.
    """
    text = tuple(each for each in files if each.startswith(TIDY))
    others = tuple(each for each in files if each not in text)
    return [_tests_step(name, some) for name, some in (("tests", others), ("text", text)) if some]


def _tests_step(name: str, files: tuple[str, ...]) -> Step:
    # The profile is known to the tests with invented inputs alone.
    few = ["--hypothesis-profile", "few"] if any(map(_has_invented_inputs, files)) else []
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "-m", QUICK, *few, *files)
    return Step(name, command, (0, NO_TEST_IS_QUICK), listed(files))


def _has_invented_inputs(file: str) -> bool:
    return file.startswith("tests/property/")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
