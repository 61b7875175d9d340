"""PartitionSupervisor: when a partition may start tasks, and how it is let go."""

from hourhand.actors.messages import (
    DrainTasks,
    LogCaughtUp,
    MeetSiblings,
    PartitionHoldUpdated,
    PersistRecords,
    RevokePartitions,
    StartTasks,
    TasksDrained,
    WatermarkMeasured,
)
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.operations.events import CatchUpEnded, PartitionHeld, TaskClosed
from hourhand.actors.model.operations.ownership import Assignment, initial_watermark
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.actors.model.values.settings import RecoverySettings, TreeSettings
from hourhand.actors.partition_supervisor import WATERMARK_WAIT_MS, PartitionSupervisor
from tests.builders import NOW_MS, a_record, a_task
from tests.unit.probes import EPOCH, PARTITION, Harness, Probe, ProbeActor, ProbedChildren

PERSISTENCE, CONTROLLER, SCHEDULER, EXECUTOR, TRACKER = range(5)


class Supervisor(ProbedChildren, PartitionSupervisor):
    """The role with probes for its five children."""


class Bench:
    """A PartitionSupervisor with five probes below it."""

    def __init__(self) -> None:
        self.harness = Harness(TreeSettings(recovery=RecoverySettings(catch_up_deadline_ms=500)))
        self.topic = Probe()
        mark = initial_watermark(NOW_MS)
        assignment = Assignment(self.harness.ownership, mark, catch_up_offset=9, next_offset=0)
        self.role = Supervisor(self.harness.effects, assignment, self.topic)
        self.ref = self.harness.spawn(self.role, meets=False)

    def tell(self, message: object) -> None:
        """Let the role handle a message."""
        self.ref.tell(message)
        self.harness.run()

    def child(self, index: int) -> ProbeActor:
        """Return one of its five children."""
        return self.role.children[index]


class _Job(TaskExecutor):
    def execute(self, task: Task) -> Outcome | None:
        raise AssertionError(f"{task.key} was run by a fake")


def _starts(bench: Bench) -> int:
    return sum(isinstance(m, StartTasks) for m in bench.child(SCHEDULER).messages)


def test_all_five_meet_each_other_before_anything_else() -> None:
    """So none of them can be told something by a stranger."""
    bench = Bench()

    assert len(bench.role.children) == 5
    for child in bench.role.children:
        assert isinstance(child.messages[0], MeetSiblings)


def test_p4_nothing_starts_before_the_log_is_read_to_its_end() -> None:
    """And it is said how long that took."""
    bench = Bench()
    bench.harness.advance(100)
    before = _starts(bench)

    bench.tell(LogCaughtUp())
    bench.harness.advance(1_000)

    assert (before, _starts(bench)) == (0, 1)
    assert bench.harness.telemetry.of(CatchUpEnded) == [CatchUpEnded(PARTITION, 100, True)]


def test_p4_the_wait_for_the_logs_end_is_bounded_and_then_said() -> None:
    """A later end of the log changes nothing."""
    bench = Bench()

    bench.harness.advance(500)
    bench.tell(LogCaughtUp())

    assert _starts(bench) == 1
    assert bench.harness.telemetry.of(CatchUpEnded) == [CatchUpEnded(PARTITION, 500, False)]


def test_a_revocation_drains_from_the_scheduler_on() -> None:
    """Nothing more becomes due; the executor says when what runs has ended."""
    bench = Bench()

    bench.tell(RevokePartitions((PARTITION,), 1_000))
    bench.tell(WatermarkMeasured())
    drained_early = bench.topic.has(TasksDrained)
    bench.tell(TasksDrained(PARTITION))

    assert isinstance(bench.child(SCHEDULER).messages[-1], DrainTasks)
    assert not drained_early and bench.topic.take(TasksDrained).partition == PARTITION


def test_a_drained_partition_waits_for_its_last_watermark_but_not_for_a_slow_store() -> None:
    """The next owner only has more to read without it."""
    bench = Bench()

    bench.tell(RevokePartitions((PARTITION,), 1_000))
    bench.tell(TasksDrained(PARTITION))
    bench.harness.advance(WATERMARK_WAIT_MS - 1)
    drained_early = bench.topic.has(TasksDrained)
    bench.harness.advance(1)

    assert isinstance(bench.child(PERSISTENCE).messages[-1], DrainTasks)
    assert not drained_early and bench.topic.has(TasksDrained)


def test_the_five_that_it_makes_run_a_record_and_wait_for_a_store_that_cannot_be_read() -> None:
    """With what it gave them: the store whose reads are retried, the ownership, the budget (P7)."""
    harness, topic = Harness(make_executor=_Job), Probe()
    harness.requests.hold("load_tasks")
    for _ in range(EPOCH):
        claim = harness.effects.stores.ownership.claim(PARTITION, NOW_MS - 1_000).result(timeout=0)
    assignment = Assignment(harness.ownership, claim.watermark, catch_up_offset=1, next_offset=0)
    ref = harness.spawn(PartitionSupervisor(harness.effects, assignment, topic), meets=False)

    harness.requests.take("load_tasks").fail(StoreUnavailable("no answer"))
    harness.run()
    held = [each.held for each in topic.take_all(PartitionHoldUpdated)]
    told = harness.telemetry.of(PartitionHeld)
    harness.requests.hold_nothing()
    harness.advance(60_000)
    record = a_record(task=a_task(due_in_ms=60_000), offset=0)
    ref.tell(PersistRecords(1, (record,), {PARTITION: 1}))
    ref.tell(PersistRecords(2, (), {PARTITION: 1}))
    harness.advance(1_000)

    assert held == [True]
    assert [each.held for each in topic.take_all(PartitionHoldUpdated)] == [False]
    assert told[0].reason == "the store cannot be read: no answer"
    assert [started.attempt.epoch for started in harness.runner.started] == [EPOCH]
    assert harness.effects.memory.used_bytes > 0 and not harness.telemetry.of(TaskClosed)
