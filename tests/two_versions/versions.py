"""Versions before kinds of tasks and before segments, from this repository's history, and nodes.

An old version is the real one, not a copy of its rules that could differ from it.  A clone
without history does not have it, so the tests that need it are skipped there and say why.
"""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import pytest

from hourhand import Settings
from tests.tidy.source import ROOT
from tests.waiting import until

BEFORE_KINDS = "9ab9cae2349bded9c8eef6e637886cf8b573db5f"
"""The last commit whose nodes know no kinds of tasks."""
BEFORE_SEGMENTS = "054ce7859dd3da4ce76294efa02ecf1b03dde63e"
"""The last commit whose nodes do not read completion segments in Cassandra."""
_PACKAGES = ("actors", "scheduler", "schema")
_PROGRAM = Path(__file__).with_name("node_program.py")
_RUNS_S, _STOPS_S = 60.0, 60.0


class Note(NamedTuple):
    """One run of a task, as its node noted it."""

    node: str
    executor: str
    """The kind that the executor is for; empty for the default executor."""
    ordering_id: str
    key: str
    data: dict[str, Any]


def unpacked(folder: Path, commit: str = BEFORE_KINDS) -> Path:
    """Unpack an old version into ``folder``; skips the test where git does not have it."""
    try:
        archive = subprocess.run(
            ["git", "archive", commit, *_PACKAGES], cwd=ROOT, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip(f"git does not have commit {commit[:8]}: run git fetch --unshallow")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        # Ours, so nothing in it is to be filtered; before 3.11.4 Python knows no filter.
        files.extractall(folder)  # noqa: S202 - made by git from this repository
    return folder


class NodeProcess:
    """One node in a process of its own; leaving the ``with`` block ends it in any case."""

    def __init__(
        self, name: str, source: Path, settings: Settings, folder: Path, kinds: str = ""
    ) -> None:
        self._name, self._source = name, source
        self._log: IO[bytes] = (folder / f"{name}.log").open("wb")
        chosen = settings.model_dump_json(exclude_defaults=True)
        # The versions of the history were imported by the name of their folder.
        package = "hourhand" if source == ROOT else "scheduler"
        self._process = subprocess.Popen(
            [sys.executable, _PROGRAM, name, folder / "notes", chosen, kinds, package],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def __enter__(self) -> Self:
        """Wait until it works, and make sure that it is of the version that was meant."""
        assert self._process.stdout is not None, "it was started with a pipe"
        used = self._process.stdout.readline().decode().strip()
        assert used, f"{self._name} did not start: {self._printed()}"
        assert Path(used).is_relative_to(self._source), f"{self._name} uses {used}"
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()
        self._log.close()

    def stop(self) -> None:
        """Stop it as an operator does: what it has under way may end."""
        self._process.communicate(timeout=_STOPS_S)
        assert self._process.returncode == 0, self._printed()

    def _printed(self) -> str:
        return Path(self._log.name).read_text(encoding="utf-8", errors="replace")[-4_000:]


def notes_in(folder: Path) -> list[Note]:
    """Return what was run so far, in the order in which it was."""
    path = folder / "notes"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [Note(**json.loads(line)) for line in lines]


def wait_for(folder: Path, keys: Iterable[str]) -> dict[str, Note]:
    """Wait until the tasks with these uniqueness keys have run; the last run of each."""
    wanted = set(keys)

    def all_ran() -> bool:
        return wanted <= {note.key for note in notes_in(folder)}

    until(all_ran, f"not all of {sorted(wanted)} ran", timeout_s=_RUNS_S)
    return {note.key: note for note in notes_in(folder)}
