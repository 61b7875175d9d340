"""A program under the shim of a machine sees the clock and the disk that the test wants it to."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.servers.machine import BROKEN, FULL, Machine, compile_machine
from tests.servers.preload import CannotPreload

WAIT_S = 60.0
HOUR_S, DAY_S = 3_600.0, 86_400.0
PROGRAM = """
import ctypes, os, pathlib, sqlite3, subprocess, sys, threading, time

libc = ctypes.CDLL(None)
condition, mutex = ctypes.create_string_buffer(48), ctypes.create_string_buffer(40)
disk, elsewhere = (os.open(path, os.O_RDWR | os.O_CREAT) for path in sys.argv[1:])

class Moment(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long)]

def wall():
    return time.time_ns()

def counting():
    return time.monotonic_ns()

def child():
    told = "import time; print(time.time_ns())"
    return int(subprocess.check_output([sys.executable, "-c", told]))

def sqlite():
    said = sqlite3.connect(":memory:").execute("select strftime('%s')").fetchone()[0]
    return int(said) * 1_000_000_000

def until(seconds):
    '''Wait until a time of the wall clock, as drivers in C do.'''
    began, at = time.monotonic(), time.time() + float(seconds)
    moment = Moment(int(at), int(at % 1 * 1e9))
    libc.pthread_mutex_lock(mutex)
    while libc.pthread_cond_timedwait(condition, mutex, ctypes.byref(moment)) == 0:
        pass
    libc.pthread_mutex_unlock(mutex)
    return round((time.monotonic() - began) * 1000)

def write(to):
    try:
        os.pwrite(disk if to == "disk" else elsewhere, b"x", 0)
    except OSError as error:
        return error.errno
    return 0

def sync(to):
    began = time.monotonic()
    os.fsync(disk if to == "disk" else elsewhere)
    return round((time.monotonic() - began) * 1000)

for line in sys.stdin:
    word, *rest = line.split()
    print(globals()[word](*rest), flush=True)
"""


class Program:
    """A program that does as it is told."""

    def __init__(self, machine: Machine, disk: Path, elsewhere: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(disk), str(elsewhere)],
            env={**os.environ, **machine.variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, line: str) -> int:
        """Have it do something, and return what it says."""
        self.tell(line)
        return self.hear()

    def tell(self, line: str) -> None:
        """Have it do something."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def hear(self) -> int:
        """Return what it says when it has done it."""
        assert self._process.stdout is not None
        return int(self._process.stdout.readline())

    def ahead_s(self, clock: str = "wall") -> float:
        """Return by how much its clock is ahead."""
        real = (
            time.monotonic_ns()
            if clock == "counting"
            else time.clock_gettime_ns(time.CLOCK_REALTIME)
        )
        return (self.ask(clock) - real) / 1e9

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(WAIT_S)
        self._process.stdout.close()


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine with a disk; CI has to have a compiler."""
    folder = tmp_path_factory.mktemp("machine")
    (folder / "disk").mkdir()
    try:
        return Machine(compile_machine(folder), folder / "machine", folder / "disk")
    except CannotPreload as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def program(machine: Machine) -> Iterator[Program]:
    """One program for all."""
    folder = Path(machine.variables["MACHINE_ROOT"])
    one = Program(machine, folder / "file", folder.with_name("elsewhere"))
    yield one
    one.close()


@pytest.mark.parametrize("ahead_s", [90.0, -90.0, 7 * HOUR_S, -7 * HOUR_S, 3 * DAY_S, -3 * DAY_S])
@pytest.mark.parametrize("clock", ["wall", "child", "sqlite"])
def test_the_wall_clock_is_set_for_the_program_and_what_it_starts(
    machine: Machine, program: Program, clock: str, ahead_s: float
) -> None:
    """Counted, and no clock that only counts is."""
    before = machine.touched.clock_read
    machine.set_clock(ahead_s)
    try:
        assert abs(program.ahead_s(clock) - ahead_s) < WAIT_S / 2
        assert abs(program.ahead_s("counting")) < WAIT_S / 2
        assert machine.touched.clock_read > before
    finally:
        machine.set_clock(0)
    assert abs(program.ahead_s()) < WAIT_S / 2


def test_a_wait_until_a_time_ends_when_the_clock_is_set_past_it(
    machine: Machine, program: Program
) -> None:
    """And lasts as long as it should on a clock that is wrong all the time."""
    program.tell(f"until {HOUR_S / 2}")
    threading.Event().wait(0.2)
    machine.set_clock(HOUR_S)
    try:
        assert program.hear() < WAIT_S * 1000
        assert 50 < program.ask("until 0.1") < WAIT_S * 1000
    finally:
        machine.set_clock(0)


@pytest.mark.parametrize("error", [FULL, BROKEN])
def test_writes_to_the_disk_fail_and_no_others(
    machine: Machine, program: Program, error: int
) -> None:
    """Until there is room again."""
    before = machine.touched.writes_refused
    with machine.failing_disk(error):
        assert program.ask("write disk") == error
        assert program.ask("write elsewhere") == 0

    assert program.ask("write disk") == 0
    assert machine.touched.writes_refused == before + 1


def test_a_sync_of_the_disk_takes_longer_and_no_other_does(
    machine: Machine, program: Program
) -> None:
    """Counted."""
    before = machine.touched.syncs_delayed
    with machine.slow_disk(0.1):
        assert program.ask("sync disk") >= 100
        program.ask("sync elsewhere")

    assert machine.touched.syncs_delayed == before + 1
