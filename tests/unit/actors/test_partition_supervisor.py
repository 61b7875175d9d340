"""PartitionSupervisor: when a partition may start tasks, and how it is let go."""

from actors.messages import (
    DrainTasks,
    LogCaughtUp,
    MeetSiblings,
    PartitionDrained,
    RevokePartitions,
    StartTasks,
    TasksDrained,
    WatermarkMeasured,
)
from actors.model.events import CatchUpEnded
from actors.model.ownership import Assignment, initial_watermark
from actors.model.settings import RecoverySettings, TreeSettings
from actors.partition_supervisor import WATERMARK_WAIT_MS, PartitionSupervisor
from tests.builders import NOW_MS
from tests.unit.probes import PARTITION, Harness, Probe, ProbeActor, ProbedChildren

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
    drained_early = bench.topic.has(PartitionDrained)
    bench.tell(TasksDrained())

    assert isinstance(bench.child(SCHEDULER).messages[-1], DrainTasks)
    assert not drained_early and bench.topic.take(PartitionDrained).partition == PARTITION


def test_a_drained_partition_waits_for_its_last_watermark_but_not_for_a_slow_store() -> None:
    """The next owner only has more to read without it."""
    bench = Bench()

    bench.tell(RevokePartitions((PARTITION,), 1_000))
    bench.tell(TasksDrained())
    bench.harness.advance(WATERMARK_WAIT_MS - 1)
    drained_early = bench.topic.has(PartitionDrained)
    bench.harness.advance(1)

    assert isinstance(bench.child(PERSISTENCE).messages[-1], DrainTasks)
    assert not drained_early and bench.topic.has(PartitionDrained)
