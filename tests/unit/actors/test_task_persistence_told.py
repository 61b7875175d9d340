"""TaskPersistence: what others learn of batches, windows and commands."""

import pytest

from hourhand.actors.messages import WithdrawTask
from hourhand.actors.model.execution.commands import Withdrawal, WithdrawalResult
from hourhand.actors.model.operations.events import (
    BatchPersisted,
    CommandDecided,
    TasksStored,
    WatermarkAdvanced,
    WindowLoaded,
)
from hourhand.actors.model.operations.ownership import Straggler
from hourhand.actors.model.task.codec import Command, CommandKind
from hourhand.actors.model.task.status import CommandOutcome
from tests.builders import NOW_MS
from tests.unit.actors.task_persistence_bench import LAG_MS, TASK, Bench, task_due_in
from tests.unit.probes import PARTITION


def test_a_durable_batch_is_told_of_with_what_it_held_and_how_long_it_took() -> None:
    """The rows as well, for those who count what waits."""
    bench = Bench()
    bench.requests.hold("insert_tasks")
    bench.persist(task_due_in(10, offset=4), task_due_in(20, offset=5))
    early = bench.harness.telemetry.of(BatchPersisted)
    bench.harness.clock.advance(40)
    bench.serve("insert_tasks")

    assert not early
    assert bench.harness.telemetry.of(BatchPersisted) == [BatchPersisted(PARTITION, 2, 0, 40)]
    assert bench.harness.telemetry.of(TasksStored) == [
        TasksStored(PARTITION, (NOW_MS + 10, NOW_MS + 20), 5)
    ]


def test_a_batch_that_held_nothing_of_the_partition_is_not_told_of() -> None:
    """An empty poll asks the tree as well."""
    bench = Bench()

    bench.persist()

    assert bench.persisted() == [1] and not bench.harness.telemetry.of(BatchPersisted)


def test_a_loaded_window_is_told_of_with_its_end() -> None:
    """And how many tasks it brought."""
    bench = Bench()
    bench.store(task_due_in(10), task_due_in(20))

    bench.load(300_000)

    (event,) = bench.harness.telemetry.of(WindowLoaded)
    assert (event.partition, event.tasks, event.reached_ms) == (PARTITION, 2, NOW_MS + 300_000)


@pytest.mark.parametrize(
    ("kind", "withdrawal"),
    [
        (CommandKind.CANCEL, Withdrawal.CLOSE),
        (CommandKind.DROP, Withdrawal.CLOSE),
        (CommandKind.RESCHEDULE, Withdrawal.MOVE),
        (CommandKind.RUN_NOW, Withdrawal.MOVE),
        (CommandKind.RETRY, Withdrawal.RETRY),
    ],
)
def test_p12_a_command_says_why_its_key_is_withdrawn(
    kind: CommandKind, withdrawal: Withdrawal
) -> None:
    """A move is refused where a close is not."""
    bench = Bench()
    bench.store(TASK)
    to_ms = NOW_MS + 90_000 if kind is CommandKind.RESCHEDULE else None

    bench.persist(Command(kind, TASK.key, 10, NOW_MS, to_ms), next_offset=11)

    message = bench.scheduler.take(WithdrawTask)
    assert (message.key, message.withdrawal) == (TASK.key, withdrawal)


def test_p12_a_decided_command_is_told_of_and_recorded_after_what_it_wrote() -> None:
    """By the owner's own time, so that an older owner's outcome does not replace it."""
    bench = Bench()
    bench.persist(TASK)
    bench.persisted()

    bench.command(CommandKind.RESCHEDULE, WithdrawalResult.WITHDRAWN, to_ms=NOW_MS + 90_000)

    write_time, recorded = bench.harness.data.outcomes[PARTITION, 10]
    assert recorded.outcome is CommandOutcome.APPLIED
    assert write_time < bench.harness.ownership.next_write_time()
    assert bench.harness.telemetry.of(CommandDecided) == [
        CommandDecided(PARTITION, TASK.key, CommandKind.RESCHEDULE, CommandOutcome.APPLIED)
    ]


def test_an_advanced_watermark_is_told_of() -> None:
    """With how many ordering ids it passed."""
    bench = Bench()
    bench.load()
    bench.harness.clock.advance(2 * LAG_MS)

    bench.advance_watermark(held=(Straggler("x", NOW_MS - LAG_MS + 1),))

    (event,) = bench.harness.telemetry.of(WatermarkAdvanced)
    told = (event.partition, event.watermark_ms, event.stragglers)
    assert told == (PARTITION, bench.saved().watermark_ms, 1)
