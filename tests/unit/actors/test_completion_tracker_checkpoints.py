"""CompletionTracker: checkpoints are durable before the outcome, and read with the attempts."""

from hourhand.actors.completion_tracker import CHECKPOINTS_AHEAD_MS
from hourhand.actors.messages import (
    FindStatuses,
    LoadStatuses,
    OutcomesRecorded,
    RecordCheckpoints,
    RecordOutcomes,
    StatusesFound,
)
from hourhand.actors.model.execution.attempts import CheckpointMade
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.values.errors import StoreUnavailable
from tests.builders import NOW_MS, an_attempt
from tests.unit.actors.completion_tracker_bench import WRITES, Bench, key_of, record_of
from tests.unit.probes import PARTITION

HOUR_MS = 3_600_000


def _checkpoint(number: int, body: bytes = b'{"value":1}') -> TaskCheckpoint:
    return TaskCheckpoint(key_of(number), 1, NOW_MS, body, 1)


def test_the_last_checkpoint_is_durable_before_the_outcome() -> None:
    """Or a crash in between would set the next attempt back."""
    bench = Bench()
    bench.requests.hold("insert_checkpoints", *WRITES)
    record = record_of(key_of(1))

    bench.tell(RecordOutcomes((), (record,), bench.asker, (_checkpoint(1),)))
    early = bench.requests.count("insert_attempts")
    bench.serve("insert_checkpoints")
    bench.serve("insert_attempts")

    assert early == 0
    assert bench.asker.take(OutcomesRecorded).records == (record,)
    assert bench.harness.data.checkpoints.of_key(PARTITION, key_of(1)) == [_checkpoint(1)]


def test_a_checkpoint_of_a_running_attempt_waits_for_no_outcome() -> None:
    """It is answered once it is durable, or once its write has failed; the tree goes on."""
    bench = Bench()
    answers: list[BaseException | None] = []
    bench.requests.hold("insert_checkpoints")
    for _ in range(2):
        made = CheckpointMade(an_attempt(), _checkpoint(1), answers.append)
        bench.tell(RecordCheckpoints((made,)))

    bench.serve("insert_checkpoints")
    failed = StoreUnavailable("down")
    bench.requests.take("insert_checkpoints").fail(failed)
    bench.harness.run()

    assert answers == [None, failed]
    bench.close(key_of(2))
    assert bench.asker.take(OutcomesRecorded).completions


def test_a_later_epochs_checkpoint_stands_against_one_that_comes_late() -> None:
    """An owner that was frozen may write when it wakes up."""
    bench = Bench()
    insert = bench.harness.effects.stores.checkpoints.insert_checkpoints
    insert(PARTITION, [_checkpoint(1, b"heir")], bench.harness.ownership.next_write_time() << 8)

    made = CheckpointMade(an_attempt(), _checkpoint(1, b"late"), lambda _: None)
    bench.tell(RecordCheckpoints((made,)))

    (found,) = bench.harness.data.checkpoints.of_key(PARTITION, key_of(1))
    assert found.body == b"heir"


def test_loads_bring_the_checkpoints_of_what_may_have_been_attempted() -> None:
    """By an earlier owner, too, whose clock is ahead.  What lies further ahead costs no read."""
    bench = Bench()
    late = TaskCheckpoint(TaskKey(NOW_MS + CHECKPOINTS_AHEAD_MS, "a", "u"), 1, NOW_MS, b"1")
    bench.harness.data.checkpoints.insert(PARTITION, late.key, late, 1)
    begin, end = first_key_at(NOW_MS + CHECKPOINTS_AHEAD_MS), first_key_at(NOW_MS + HOUR_MS)
    ahead_ms = NOW_MS + CHECKPOINTS_AHEAD_MS + 1

    bench.tell(LoadStatuses(begin, end))
    bench.tell(FindStatuses((late.key,), with_checkpoints=True))
    reads = [each for each in bench.requests.made if each.endswith("checkpoints")]
    bench.tell(LoadStatuses(first_key_at(ahead_ms), end))
    bench.tell(FindStatuses((TaskKey(ahead_ms, "a", "u"),), with_checkpoints=True))
    bench.tell(FindStatuses((late.key,)))
    later_reads = [each for each in bench.requests.made if each.endswith("checkpoints")]

    assert reads == later_reads == ["load_checkpoints", "find_checkpoints"]
    loaded = bench.harness.persistence.take(StatusesFound).statuses[late.key]
    found = bench.harness.persistence.take(StatusesFound).statuses[late.key]
    assert loaded.attempts.checkpoint == found.attempts.checkpoint == late
