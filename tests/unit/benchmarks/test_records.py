"""What executors note, and what is refused as a figure."""

import threading
from pathlib import Path

import pytest

from benchmarks.records import Execution, Records, exactly_once


def test_notes_of_many_threads_are_all_there_for_another_reader(tmp_path: Path) -> None:
    """The reader opens the file by itself, as another process does."""
    records = Records(tmp_path / "records", 400)

    def note_from(first: int) -> None:
        for number in range(first, first + 100):
            records.note(number)

    threads = [threading.Thread(target=note_from, args=(first,)) for first in range(0, 400, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    seen = Records(tmp_path / "records", 400)

    seen.wait_for(400, timeout_s=30)
    assert sorted(each.number for each in seen) == list(range(400))


def test_waiting_for_what_never_runs_ends_and_counts(tmp_path: Path) -> None:
    """A lost task must not hang the benchmark."""
    records = Records(tmp_path / "records", 3)
    records.note(7)

    with pytest.raises(TimeoutError, match="1 of 2"):
        records.wait_for(2, timeout_s=0.0)


def test_notes_of_several_processes_are_counted_together(tmp_path: Path) -> None:
    """Each has a file of its own; one that begins later is found, too, and no other file."""
    path = tmp_path / "records"
    records = Records(path, 4)
    first, other = Records(path.with_name("records.1"), 4), Records(tmp_path / "records_2", 4)
    first.note(1)
    other.note(9)
    assert (records.has(1), records.has(2)) == (True, False)

    later = Records(path.with_name("records.2"), 4)
    for number in (0, 2, 3):
        later.note(number)

    records.wait_for(4, timeout_s=30)
    assert sorted(each.number for each in records) == [0, 1, 2, 3]
    assert not records.has(5)


@pytest.mark.parametrize("numbers", [[0, 1], [0, 1, 1], [0, 1, 2, 2]])
def test_a_lost_or_repeated_task_makes_no_figure(numbers: list[int]) -> None:
    """Neither hides behind the other."""
    with pytest.raises(RuntimeError, match="once each"):
        exactly_once([Execution(number, 1.0) for number in numbers], 3)
