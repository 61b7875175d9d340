"""Puts into a few lines what a check ran and what it left out; decides nothing else."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.check.selection import Selection
from tests.check.steps import Result

NAMES_MAX = 4
"""Of files in a line; of more, the line says how many there are."""


def result_line(result: Result) -> str:
    """Return the line of a step that ended."""
    outcome = "ok" if result.passed else f"failed, exit code {result.code}"
    last = result.output.rpartition("\n")[2] if result.step.says and result.passed else ""
    notes = "; ".join(note for note in (result.step.says, last) if note)
    return f"{result.step.name:<8}{result.seconds:6.1f} s  {outcome}{f': {notes}' * bool(notes)}"


def left_out(selection: Selection) -> Iterator[str]:
    """Yield a line for each kind of test that was not run, with the command that runs it."""
    if selection.too_many:
        yield f"{listed(selection.too_many)} of what imports the change: make test-unit"
    own = [test for test in selection.slow if test in selection.own]
    if own:
        yield f"{listed(own)}: .venv/bin/python -m pytest {' '.join(own)}"
    others = [test for test in selection.slow if test not in selection.own]
    if others:
        folders = Counter(Path(test).parts[1] for test in others)
        named = ", ".join(f"{count} in {name}" for name, count in sorted(folders.items()))
        yield f"{counted(len(others), 'slower test file')} ({named}) of what changed: make test"
    if selection.unjudged:
        yield f"tests of {listed(selection.unjudged)}, none is known: make test"


def listed(files: Sequence[str]) -> str:
    """Return the names of a few files, or the number of many."""
    if len(files) <= NAMES_MAX:
        return ", ".join(files)
    return counted(len(files), "test file")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 file``, ``2 files``."""
    return f"{number} {noun}{'s' * (number != 1)}"
