"""What a program prints that runs a node and says nothing of logging, or little."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import logging, sys, threading
from datetime import UTC, datetime
from hourhand import RetryPolicy, Scheduler, Settings, Task, TaskExecutor

exec(sys.argv[2])
failed = threading.Event()

class Boom(TaskExecutor):
    retry = RetryPolicy(attempts_max=5)

    def execute(self, task):
        failed.set()
        raise KeyError("no such customer")

settings = Settings(embedded={"folder": sys.argv[1]})
with Scheduler(settings, executor=Boom) as scheduler:
    task = Task(ordering_id="a", scheduled_time=datetime.now(UTC), uniqueness_key="1")
    scheduler.schedule_task(task).result(timeout=60)
    assert failed.wait(60)
"""


def printed_by(folder: Path, setup: str, *, indented: bool = False) -> list[str]:
    """Run the program, and return the lines of its standard error: a stack's are indented."""
    command = [sys.executable, "-c", PROGRAM, str(folder), setup]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert not done.stdout
    return [each for each in done.stderr.splitlines() if indented or not each.startswith(" ")]


def test_a_program_without_logging_prints_its_failed_attempt_and_nothing_else(
    tmp_path: Path,
) -> None:
    """Python shows warnings all the same: the error, where it was raised, and its message."""
    line, *stack = printed_by(tmp_path, "pass", indented=True)

    assert line.startswith("AttemptFailed partition=") and ",a,1 attempt=1 " in line
    assert stack[0] == "  Traceback (most recent call last):"
    assert stack[-1] == "  KeyError: 'no such customer'"
    assert all(each.startswith("  ") for each in stack)


def test_one_start_and_stop_of_sixteen_partitions_is_a_handful_of_lines(tmp_path: Path) -> None:
    """Each partition has its own at DEBUG."""
    formed = "logging.basicConfig(level='INFO', format='%(name)s %(levelname)s %(message)s')"
    lines = printed_by(tmp_path, formed)

    infos = [line for line in lines if " INFO " in line]
    assert [line for line in infos if "16 partitions: 0-15" in line] == [
        "hourhand.node INFO works on 16 partitions: 0-15",
        "hourhand.node INFO let go of 16 partitions: 0-15",
    ]
    assert len(infos) <= 5, infos


def test_the_lines_of_each_partition_are_there_for_who_wants_them(tmp_path: Path) -> None:
    """With the logger turned up."""
    loud = "logging.basicConfig(level='DEBUG', format='%(name)s %(levelname)s %(message)s')"
    text = "\n".join(printed_by(tmp_path, loud))

    for partition in (0, 15):
        for event in ("PartitionAssigned", "PartitionRevoked"):
            assert f"hourhand.node DEBUG {event} partition={partition} " in text
        assert f"CatchUpEnded partition={partition} " in text
