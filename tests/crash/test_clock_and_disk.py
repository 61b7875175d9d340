"""An embedded node goes on, on time, when its clock is set and while its disk is slow or fails.

Its clock is set by minutes, hours and days both ways: what is new runs when that clock says so, and
none of it waits for the time that was skipped.  A failed write is told to who asked for it.
"""

import os
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.test_sigkill import assert_sound
from tests.servers.machine import BROKEN, FULL, Machine, compile_machine
from tests.servers.preload import CannotPreload
from tests.waiting import until

MINUTE_S, HOUR_S, DAY_S = 60.0, 3_600.0, 86_400.0
STEPS_S = [
    step_s
    for ahead_s in (7 * MINUTE_S, 5 * HOUR_S, 2 * DAY_S)
    for step_s in (ahead_s, 0.0, -ahead_s, 0.0)
]
TASKS = 20
SOON_MS = 150
LATER_MS = 3_000
SYNC_S = 0.05


class Surrounded:
    """The program, and what it said."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.said: dict[str, Counter[int]] = {
            word: Counter() for word in ("runs", "acknowledged", "refused", "started", "early")
        }
        self.reasons: set[str] = set()
        self._next = 1
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.surrounded", str(folder)],
            env={**os.environ, **machine.variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        until(lambda: self.said["runs"], "the node does not start")

    def schedule(self, count: int = TASKS, in_ms: int = SOON_MS) -> set[int]:
        """Have it schedule tasks, and return their numbers once each has an answer."""
        numbers = set(range(self._next, self._next + count))
        self._next += count
        assert self._process.stdin is not None
        self._process.stdin.write(f"{min(numbers)} {count} {in_ms}\n")
        self._process.stdin.flush()
        known = self.said["acknowledged"], self.said["refused"]
        until(lambda: numbers <= known[0].keys() | known[1].keys(), "it does not answer")
        return numbers

    def wait_for(self, numbers: set[int], when: str) -> None:
        """Wait until these have run."""
        started = self.said["started"]
        until(lambda: numbers <= started.keys(), f"not all tasks run: {when}")

    def close(self) -> int:
        """Stop it; return its exit code."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        code = self._process.wait(60)
        self._reader.join()
        self._process.stdout.close()
        return code

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, number, told = line.rstrip("\n").split(" ", 2)
            if word == "refused":
                self.reasons.add(told)
            self.said[word][int(number)] += 1


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with a disk; CI has to have a compiler."""
    (tmp_path / "disk").mkdir()
    try:
        return Machine(compile_machine(tmp_path), tmp_path / "machine", tmp_path / "disk")
    except CannotPreload as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture
def node(machine: Machine, tmp_path: Path) -> Iterator[Surrounded]:
    """A node on that machine; its folder is sound when it has stopped."""
    folder = tmp_path / "disk" / "folder"
    surrounded = Surrounded(machine, folder)
    code = None
    try:
        yield surrounded
    finally:
        machine.set_clock(0)
        code = surrounded.close()
    assert code == 0
    assert_sound(folder)


def test_new_tasks_run_on_time_however_the_clock_is_set(machine: Machine, node: Surrounded) -> None:
    """Each once, with its retries; so do those that were scheduled under another clock before."""
    asked = node.schedule()
    for step_s in STEPS_S:
        asked |= (before := node.schedule(in_ms=LATER_MS))
        machine.set_clock(step_s)
        asked |= (numbers := node.schedule())
        node.wait_for(numbers, f"{step_s:.0f} s")
        if step_s > 0:
            node.wait_for(before, f"scheduled before {step_s:.0f} s")
    # Some were scheduled for two days later, as their clock said.
    machine.set_clock(max(STEPS_S) + LATER_MS)
    node.wait_for(asked, "in the end")

    assert machine.touched.clock_read > 0
    assert not node.said["refused"]
    assert not node.said["early"]
    assert set(node.said["started"].values()) == {1}


def test_a_slow_disk_only_costs_time(machine: Machine, node: Surrounded) -> None:
    """Each task runs once."""
    asked = node.schedule()
    with machine.slow_disk(SYNC_S):
        for _ in range(2):
            asked |= node.schedule()
        node.wait_for(asked, "on a slow disk")

    assert machine.touched.syncs_delayed > 0
    assert not node.said["refused"]
    assert set(node.said["started"].values()) == {1}


@pytest.mark.parametrize("error", [FULL, BROKEN])
def test_a_disk_that_fails_for_a_while_loses_nothing(
    machine: Machine, node: Surrounded, error: int
) -> None:
    """A task that cannot be written is refused; acknowledged ones run, and the node goes on."""
    node.wait_for(node.schedule(), "before")
    under_way = node.schedule(in_ms=300)
    with machine.failing_disk(error):
        meanwhile = node.schedule()
        threading.Event().wait(1.0)
        meanwhile |= node.schedule()
    after = node.schedule()
    while refused := after & node.said["refused"].keys():
        after -= refused
        after |= node.schedule(len(refused))

    acknowledged = meanwhile & node.said["acknowledged"].keys()
    node.wait_for(under_way | acknowledged | after, "after the disk failed")
    assert machine.touched.writes_refused > 0
    assert node.said["refused"].keys() >= meanwhile - acknowledged
    assert not node.said["refused"].keys() & node.said["started"].keys()
    assert all("log.db" in each for each in node.reasons)
