"""What is written down is read back, also after a kill in the middle of a line."""

from pathlib import Path

from tests.chaos.records import (
    JOURNAL_FILE,
    OFFERS_FILE,
    OUTCOMES_FILE,
    Appender,
    AttemptRecorder,
    Journal,
    SuccessReader,
    read_history,
    write_offer,
    write_told,
)
from tests.judge.history import Blow, Fault, Offer, Told

OFFER = Offer("task-1", "id", 5_000_000, "plain", "accepted", 1_000_000, partition=3)


def begin(folder: Path) -> None:
    """Write what every run writes first."""
    Journal(folder).begin(seed=1)
    write_offer(Appender(folder / OFFERS_FILE), OFFER)


def test_offers_attempts_and_faults_are_read_back(tmp_path: Path) -> None:
    """Attempts of one task and number that overlap, too: each end belongs to its start."""
    begin(tmp_path)
    fault = Fault(1, "kind", "target", "nodes", 1, 2, 3, [Blow("killed", 1, 77, 1, 2, 2)])
    journal = Journal(tmp_path)
    journal.fault_begins(1, "kind", "target")
    journal.fault_ended(fault)
    recorder = AttemptRecorder(tmp_path, node=4)
    first = recorder.start("task-1", "id", 5_000_000, number=1, fence=9)
    second = recorder.start("task-1", "id", 5_000_000, number=1, fence=9)
    recorder.end(first, "task-1", succeeded=True)
    outcome = Told("task-1", "id", "success", partition=2, offset=7, at_us=9)
    write_told(Appender(tmp_path / OUTCOMES_FILE), outcome)

    history = read_history(tmp_path)

    assert history.offers == [OFFER]
    assert history.faults == [fault]
    assert history.told == [outcome]
    assert second != first
    ended, running = history.attempts
    assert (ended.node, ended.fence, ended.succeeded) == (4, 9, True)
    assert ended.ended_us is not None
    assert ended.started_us <= ended.ended_us
    assert running.ended_us is None
    assert abs(ended.started_us + history.wall_minus_boot_us - ended.started_wall_us) < 5_000_000


def test_a_line_cut_off_by_a_kill_is_left_out(tmp_path: Path) -> None:
    """Everything before it counts."""
    begin(tmp_path)
    for name in (OFFERS_FILE, JOURNAL_FILE, "attempts-1-2.jsonl"):
        with (tmp_path / name).open("ab") as file:
            file.write(b'{"task_id":"hal')

    history = read_history(tmp_path)

    assert history.offers == [OFFER]
    assert history.attempts == []


def test_successes_are_read_while_the_records_grow(tmp_path: Path) -> None:
    """A line that is being written is read when it is whole."""
    recorder = AttemptRecorder(tmp_path, node=1)
    reader = SuccessReader(tmp_path)
    for task_id, succeeded in (("good", True), ("bad", False)):
        line = recorder.start(task_id, "id", 0, number=1, fence=1)
        recorder.end(line, task_id, succeeded=succeeded)
    reader.read()
    assert reader.task_ids == {"good"}

    path = next(tmp_path.glob("attempts-*"))
    with path.open("ab") as file:
        file.write(b'{"ends":3,"task_id":"half","ended_us":1,')
    reader.read()
    assert reader.task_ids == {"good"}
    with path.open("ab") as file:
        file.write(b'"succeeded":true}\n')
    reader.read()

    assert reader.task_ids == {"good", "half"}
