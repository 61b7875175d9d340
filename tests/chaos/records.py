"""Records of a chaos run, written and read back: one JSON object a line, one append a line.

Each line is one ``write`` to a file opened for appending, so a process that is killed leaves
whole lines behind and loses at most what it had not written.  Nothing of the engine is
imported.
"""

import itertools
import json
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from tests.judge.history import Attempt, Blow, Fault, History, Limit, Offer, Told

OFFERS_FILE = "offers.jsonl"
JOURNAL_FILE = "journal.jsonl"
OUTCOMES_FILE = "outcomes.jsonl"
ATTEMPTS_PATTERN = "attempts-*.jsonl"
LIMIT_OF_A_TENANT = Limit(per_s=30, burst=16)
"""With 16 partitions a share of one still has a burst of 1 and a start within a second."""


def now_us() -> int:
    """Return the moment: comparable between processes, also across a suspension."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000


def wall_us() -> int:
    """Return the wall clock, read past the engine's own clock."""
    return time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000


class Appender:
    """Appends lines to one file; usable from any thread."""

    def __init__(self, path: Path) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        self._descriptor = os.open(path, flags, 0o644)

    def write(self, line: dict[str, Any]) -> None:
        """Append one line; it is on record when this returns."""
        os.write(self._descriptor, json.dumps(line, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """Let go of the file."""
        os.close(self._descriptor)


class AttemptRecorder:
    """Writes down the attempts of one process of one node; usable from any thread."""

    def __init__(self, folder: Path, node: int, node_pid: int | None = None) -> None:
        """``node_pid`` is that of the node, where this is one of its processes."""
        self._node = node
        pid = os.getpid()
        self._pid, self._process = (pid, 0) if node_pid is None else (node_pid, pid)
        self._file = Appender(folder / f"attempts-{node}-{pid}.jsonl")
        self._lines = itertools.count(1)

    def start(
        self, task_id: str, ordering_id: str, due_wall_us: int, *, number: int, fence: int
    ) -> int:
        """Write that an attempt begins; return the number that ``end`` takes."""
        line = next(self._lines)
        self._file.write(
            {
                "line": line,
                "task_id": task_id,
                "ordering_id": ordering_id,
                "due_wall_us": due_wall_us,
                "number": number,
                "fence": fence,
                "node": self._node,
                "pid": self._pid,
                "process": self._process,
                "thread": threading.get_native_id(),
                "started_wall_us": wall_us(),
                "started_us": now_us(),
            }
        )
        return line

    def at_work(self, line: int) -> None:
        """Write that an attempt is at work."""
        self._file.write({"works": line, "at_us": now_us()})

    def end(self, line: int, task_id: str, *, succeeded: bool) -> None:
        """Write that it ended."""
        self._file.write(
            {"ends": line, "task_id": task_id, "ended_us": now_us(), "succeeded": succeeded}
        )


class Journal:
    """Writes down every fault while it happens, so that nothing is lost with the program."""

    def __init__(self, folder: Path) -> None:
        self._file = Appender(folder / JOURNAL_FILE)

    def begin(self, seed: int) -> None:
        """Write the seed, and both clocks at one moment."""
        self._file.write({"event": "run", "seed": seed, "wall_us": wall_us(), "at_us": now_us()})

    def started(self, node: int, pid: int) -> None:
        """Write that a process of a node was started."""
        self._file.write({"event": "start", "node": node, "pid": pid, "at_us": now_us()})

    def fault_begins(self, number: int, kind: str, target: str) -> None:
        """Write that a fault is about to begin."""
        line = {"event": "begin", "number": number, "kind": kind, "target": target}
        self._file.write({**line, "at_us": now_us(), "wall_us": wall_us()})

    def fault_ended(self, fault: Fault) -> None:
        """Write a fault that is over."""
        self._file.write({"event": "fault", **asdict(fault)})


def write_offer(file: Appender, offer: Offer) -> None:
    """Write down one offer and its answer."""
    file.write(asdict(offer))


def write_told(file: Appender, told: Told) -> None:
    """Write down one record of the topic of outcomes."""
    file.write(asdict(told))


def read_history(folder: Path) -> History:
    """Read everything a run wrote; a line that was cut off by a kill is left out."""
    faults, offset_us = _read_journal(folder / JOURNAL_FILE)
    return History(
        offers=[Offer(**line) for line in _lines(folder / OFFERS_FILE)],
        attempts=[
            attempt
            for path in sorted(folder.glob(ATTEMPTS_PATTERN))
            for attempt in _read_attempts(path)
        ],
        faults=faults,
        wall_minus_boot_us=offset_us,
        limit=LIMIT_OF_A_TENANT,
        told=_read_told(folder / OUTCOMES_FILE),
    )


class SuccessReader:
    """Reads which tasks have ended well while the records grow; each call reads on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_bytes: dict[Path, int] = {}
        self.task_ids: set[str] = set()

    def read(self) -> None:
        """Take in what came since the last call."""
        for path in self._folder.glob(ATTEMPTS_PATTERN):
            with path.open("rb") as file:
                file.seek(self._read_bytes.get(path, 0))
                for line in iter(file.readline, b""):
                    if not line.endswith(b"\n"):
                        break
                    self._read_bytes[path] = self._read_bytes.get(path, 0) + len(line)
                    if b'"succeeded":true' in line:
                        self.task_ids.add(str(json.loads(line)["task_id"]))


def _read_attempts(path: Path) -> list[Attempt]:
    begun: dict[int, Attempt] = {}
    for line in _lines(path):
        if "works" in line:
            begun[line["works"]] = replace(begun[line["works"]], alive_us=line["at_us"])
        elif "ends" in line:
            begun[line["ends"]] = replace(
                begun[line["ends"]], ended_us=line["ended_us"], succeeded=line["succeeded"]
            )
        else:
            number = line.pop("line")
            begun[number] = Attempt(**line)
    return list(begun.values())


def _read_journal(path: Path) -> tuple[list[Fault], int]:
    faults, offset_us = [], 0
    for line in _lines(path):
        event = line.pop("event")
        if event == "run":
            offset_us = line["wall_us"] - line["at_us"]
        elif event == "fault":
            faults.append(Fault(**{**line, "blows": [Blow(**blow) for blow in line["blows"]]}))
    return faults, offset_us


def _read_told(path: Path) -> list[Told] | None:
    return [Told(**line) for line in _lines(path)] if path.exists() else None


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)
