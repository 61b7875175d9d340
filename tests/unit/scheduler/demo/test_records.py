"""What executors write down is read back, also while it is being written."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from hourhand.scheduler.demo.records import Recorder, RecordReader, made_once


def test_starts_and_ends_become_runs(tmp_path: Path) -> None:
    """Each end finds its own start."""
    moments = iter(range(100, 200))
    recorder = Recorder(tmp_path, lambda: next(moments))
    first = recorder.start("one", "a, b\n", 5, attempt=2, fence=3)
    recorder.start("two", "b", 6, attempt=1, fence=3)
    recorder.end(first, succeeded=True)
    reader = RecordReader(tmp_path)

    (ended,) = reader.read()

    assert (ended.task_id, ended.ordering_id, ended.due_us) == ("one", "a, b\n", 5_000)
    assert (ended.attempt, ended.fence, ended.succeeded) == (2, 3, True)
    assert (ended.started_us, ended.ended_us) == (100, 102)
    (running,) = (run for run in reader.runs if run.task_id == "two")
    assert running.ended_us is None


def test_a_line_being_written_is_read_when_it_is_whole(tmp_path: Path) -> None:
    """A reader beside a running process never sees half a record."""
    recorder = Recorder(tmp_path, lambda: 7)
    number = recorder.start("one", "a", 5, attempt=1, fence=1)
    recorder.end(number, succeeded=False)
    (path,) = tmp_path.glob("attempts-*.jsonl")
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    reader = RecordReader(tmp_path)

    assert reader.read() == []

    path.write_bytes(whole)
    (ended,) = reader.read()
    assert not ended.succeeded
    assert reader.read() == []


def test_threads_that_ask_at_once_get_the_same_value() -> None:
    """Constructors of executors run at the same time, and a process has one file of records."""
    made: list[object] = []
    both = threading.Barrier(2)

    @made_once
    def make() -> object:
        with suppress(threading.BrokenBarrierError):
            # Met only where the other thread makes one too.
            both.wait(0.1)
        made.append(object())
        return made[-1]

    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(lambda _: make(), range(2))

    assert one is other and len(made) == 1
