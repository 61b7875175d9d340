"""The supervisor over real, cheap processes, which only speak on their lifelines."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hourhand.scheduler.cli.process_running import ChildProcess

WAIT_S = 60

_SUPERVISOR = """
import logging, random, sys
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.cli.process_running import RestartPauses, Supervisor
logging.basicConfig(format="%(message)s")
logging.getLogger("hourhand").setLevel(logging.INFO)
child = [sys.executable, "-I", "-S", sys.argv[1]]
supervisor = Supervisor(
    lambda number, descriptor: [*child, str(number), str(descriptor)],
    2,
    clock=SystemClock(),
    stop_ms=int(sys.argv[2]),
    make_pauses=lambda: RestartPauses(pause_min_ms=1, pause_max_ms=2),
)
sys.exit(supervisor.run())
"""
_WELL = """
import os, signal, socket, sys
# A node that works drains on a signal as at the end of its line; here only the line counts.
signal.signal(signal.SIGTERM, signal.SIG_IGN)
def say(*words):
    os.write(2, (" ".join(map(str, words)) + "\\n").encode())
line = socket.socket(fileno=int(sys.argv[2]))
line.sendall(b"-\\n")
say("up", sys.argv[1], os.getpid())
"""
_UNTIL_ENDED = """
try:
    while line.recv(1): pass
except OSError:  # the supervisor was killed before it read what it was told
    pass
say("drained", sys.argv[1])
"""


@contextmanager
def supervised(
    folder: Path, child: str, stop_ms: int = 1_000 * WAIT_S
) -> Iterator["subprocess.Popen[str]"]:
    """Run two children under a supervisor in a process of its own."""
    (folder / "child.py").write_text(textwrap.dedent(child))
    program = folder / "supervisor.py"
    program.write_text(_SUPERVISOR)
    root = str(Path(__file__).parents[4])
    process = subprocess.Popen(
        [sys.executable, program, folder / "child.py", str(stop_ms)],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": root},
    )
    assert process.stderr is not None
    try:
        yield process
    finally:
        process.kill()
        process.wait(WAIT_S)
        process.stderr.close()


def said(process: "subprocess.Popen[str]", wanted: str, count: int = 1) -> list[tuple[str, ...]]:
    """Read on until so many lines match, and return what their groups hold."""
    found: list[tuple[str, ...]] = []
    assert process.stderr is not None
    for line in process.stderr:
        if matched := re.search(wanted, line):
            found.append(matched.groups())
        if len(found) == count:
            return found
    raise AssertionError(f"the supervisor ended; {found} of {count} lines match {wanted!r}")


def test_one_signal_lets_all_children_drain(tmp_path: Path) -> None:
    """And the command ends well."""
    with supervised(tmp_path, _WELL + _UNTIL_ENDED) as process:
        said(process, r"up (\d)", 2)

        process.send_signal(signal.SIGTERM)

        assert {number for (number,) in said(process, r"drained (\d)", 2)} == {"1", "2"}
        assert process.wait(WAIT_S) == 0


def test_a_child_that_was_killed_comes_back_in_its_place(tmp_path: Path) -> None:
    """Its sibling lives on."""
    with supervised(tmp_path, _WELL + _UNTIL_ENDED) as process:
        second = next(pid for number, pid in said(process, r"up (\d) (\d+)", 2) if number == "2")
        os.kill(int(second), signal.SIGKILL)

        said(process, r"process 2 was ended by SIGKILL; it is started again in")
        ((number, pid),) = said(process, r"up (\d) (\d+)")

        assert number == "2"
        assert pid != second
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S) == 0


def test_a_second_signal_kills_children_that_do_not_end(tmp_path: Path) -> None:
    """With the exit code of a node that was stopped at once."""
    with supervised(tmp_path, _WELL + "while True: signal.pause()") as process:
        said(process, r"up (\d)", 2)
        process.send_signal(signal.SIGTERM)
        said(process, "all processes wait")

        process.send_signal(signal.SIGTERM)

        assert process.wait(WAIT_S) == 130


@pytest.mark.parametrize("up", [True, False])
def test_a_child_that_is_frozen_is_killed_when_its_time_is_over(up: bool, tmp_path: Path) -> None:
    """It hears neither its line nor a signal; its sibling drains, and what was cut off is said."""
    frozen = "os.kill(os.getpid(), signal.SIGSTOP)"
    first, second = ("pass", frozen) if up else (frozen, "pass")
    freeze = "if sys.argv[1] == '1': "
    before, after = _WELL.split("line.sendall")
    child = f"{before}say('begins', sys.argv[1])\n{freeze}{first}\nline.sendall{after}"
    with supervised(tmp_path, f"{child}\n{freeze}{second}\n{_UNTIL_ENDED}", 1_500) as process:
        said(process, r"begins (\d)", 2)

        process.send_signal(signal.SIGTERM)

        said(process, "process 1 did not end within 1500 ms: killed")
        assert process.wait(WAIT_S) == 130


def test_children_drain_when_the_supervisor_was_killed(tmp_path: Path) -> None:
    """Nobody is there to tell them: the system closes its end of their lifelines."""
    with supervised(tmp_path, _WELL + _UNTIL_ENDED) as process:
        said(process, r"up (\d)", 2)

        process.kill()

        assert {number for (number,) in said(process, r"drained (\d)", 2)} == {"1", "2"}


@pytest.mark.parametrize("code", [2, 3])
def test_a_first_start_that_cannot_succeed_ends_the_command(tmp_path: Path, code: int) -> None:
    """With the child's exit code; there is nothing to be gained by another try."""
    with supervised(tmp_path, f"import sys\nsys.exit({code})") as process:
        assert process.wait(WAIT_S) == code


@pytest.mark.parametrize("end", ["sys.exit(0)", "os.kill(os.getpid(), 9)"])
def test_what_ends_in_any_other_way_is_tried_again(tmp_path: Path, end: str) -> None:
    """As often as it takes."""
    with supervised(tmp_path, f"import os, sys\n{end}") as process:
        said(process, "it is started again", 6)

        process.send_signal(signal.SIGTERM)

        assert process.wait(WAIT_S) == 0


def test_a_child_that_has_ended_unseen_is_stopped_and_killed() -> None:
    """The system tells of two ends at once, and the first of them stops the other child."""

    async def stop_what_has_ended() -> None:
        child = ChildProcess(1, lambda _number, _descriptor: ())
        child._process = await asyncio.create_subprocess_exec(sys.executable, "-I", "-S", "-c", "")
        await child._process.wait()
        child.stop()
        child.kill()

    asyncio.run(stop_what_has_ended())
