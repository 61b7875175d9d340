"""A node's report: read from what was counted, and from nothing else."""

from collections.abc import Sequence

import pytest

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.flow.flow import REST, LimitKey
from hourhand.actors.model.operations import events
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.oversight import (
    LATENESS_MS,
    LimitedFlow,
    LimitedTask,
    NodeReport,
    PartitionReport,
    RateShare,
    RunningCheckpoint,
)
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.checkpoint_value import (
    NO_ATTEMPT,
    AttemptCheckpoints,
    checkpoint_text,
)
from hourhand.actors.model.task.kind import with_kind
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.bucket import hour_of
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.node.holdings import Held
from hourhand.scheduler.node.limits.limiter import Limited
from hourhand.scheduler.node.limits.shares import NO_RATES, NodeRates
from hourhand.scheduler.observe.node_telemetry import NodeTelemetry
from hourhand.scheduler.observe.reporting import LISTED_MAX, Reported, Reporter
from tests.builders import NOW_MS, a_key, a_stored_task, an_attempt
from tests.promises.held_runner import HeldRunner

PARTITION = 3
RATES = ("own", "lent", "borrowed")
FAILED, BLOCKED, DONE = (a_key(uniqueness_key=name) for name in ("failed", "blocked", "done"))


class Works:
    """User code whose attempt ends when the runner says so."""

    attempt = 0
    fence = 0
    hourhand_checkpoints: AttemptCheckpoints = NO_ATTEMPT

    def execute(self, task: Task) -> Outcome | None:
        """Do nothing."""


def report_of(
    telemetry: NodeTelemetry,
    clock: VirtualClock,
    runner: HeldRunner | None = None,
    limited: Sequence[Limited] = (),
    rates: NodeRates = NO_RATES,
) -> NodeReport:
    """Return what a node that holds one partition reports."""
    config = OperatorConfig().with_pauses([Pause(PauseScope.ORDERING, PARTITION, "a")])
    held = runner or HeldRunner(clock=clock, gate=lambda _: True, telemetry=telemetry)
    reporter = Reporter(
        Reported(
            lambda: [Held(PARTITION, "running", 2, 40)],
            lambda: 9_000.0,
            lambda: config,
            "1",
            lambda: limited,
            rates=lambda: rates,
            attempt_now=held.runner.now,
        ),
        stores=open_memory_stores(MemoryStores()),
        runner=held.runner,
        telemetry=telemetry,
        clock=clock,
        interval_ms=1_000,
    )
    return reporter.report(clock.now_ms())


def fail(telemetry: Telemetry, attempt: int = 1) -> None:
    """Let an attempt fail."""
    result = AttemptResult.FAILURE
    event = events.AttemptFinished(PARTITION, FAILED, attempt, result, 5, NOW_MS, "ValueError")
    telemetry.emit(event)


def test_a_partition_of_which_nothing_is_known() -> None:
    """Null, never zero, where zero would be a statement."""
    clock = VirtualClock(NOW_MS)
    report = report_of(NodeTelemetry(clock), clock)

    assert report.partitions == (
        PartitionReport(
            PARTITION,
            "running",
            epoch=2,
            next_offset=40,
            paused_ids=1,
            running=0,
            failing=0,
            blocked_hours={},
        ),
    )


def test_gauges_counts_and_moments_of_a_partition() -> None:
    """As the events said."""
    clock = VirtualClock(NOW_MS)
    telemetry = NodeTelemetry(clock)
    for event in (
        events.PartitionAssigned(PARTITION, 2, 40, 40),
        events.CatchUpEnded(PARTITION, 7, complete=True),
        events.WindowLoaded(PARTITION, 1, NOW_MS + 60_000, 2.0),
        events.PartitionLoadReported(PARTITION, 10, 4),
        events.OrderingsMeasured(PARTITION, 5, 1, 2_500),
        events.WatermarkAdvanced(PARTITION, NOW_MS - 5, 2),
        events.AttemptStarted(PARTITION, DONE, 1, 3),
        events.TreeRebuilt("a bug", 1, 100),
    ):
        telemetry.emit(event)

    report = report_of(telemetry, clock)

    (partition,) = report.partitions
    assert (partition.waiting, partition.executing, partition.held) == (10, 4, 1)
    assert (partition.overdue_ms, partition.stragglers) == (2_500, 2)
    assert (partition.watermark_ms, partition.loaded_until_ms) == (NOW_MS - 5, NOW_MS + 60_000)
    assert (partition.assigned_ms, partition.catch_up_ms) == (NOW_MS, 7)
    assert (partition.started, partition.failed) == (1, 0)
    assert partition.lateness[LATENESS_MS.index(5)] == 1
    assert report.tree_failures == 1
    assert [each.what for each in report.moments] == ["assigned", "rebuilt"]

    telemetry.emit(events.WatermarkHeld(PARTITION, NOW_MS - 5, 9))
    assert report_of(telemetry, clock).partitions[0].stragglers == 9


def test_failing_and_blocked_tasks_until_their_keys_are_closed() -> None:
    """A partition that was given up takes them along."""
    clock = VirtualClock(NOW_MS)
    telemetry = NodeTelemetry(clock)
    fail(telemetry)
    fail(telemetry, attempt=2)
    telemetry.emit(events.RetriesExhausted(PARTITION, BLOCKED, "block"))

    report = report_of(telemetry, clock)
    assert (report.failing_count, report.blocked_count) == (1, 1)
    (failing,), (blocked,) = report.failing, report.blocked
    assert (failing.key, failing.attempts, failing.error) == (str(FAILED), 2, "ValueError")
    assert blocked.key == str(BLOCKED)
    (partition,) = report.partitions
    assert (partition.failed, partition.failing) == (2, 1)
    assert partition.blocked_hours == {hour_of(BLOCKED.scheduled_ms): 1}

    telemetry.emit(events.TaskClosed(PARTITION, FAILED, CompletionResult.SUCCESS))
    assert report_of(telemetry, clock).failing == ()
    telemetry.emit(events.PartitionRevoked(PARTITION, drained=True))
    empty = report_of(telemetry, clock)
    assert (empty.blocked, empty.partitions[0].blocked_hours) == ((), {})


def test_a_task_in_trouble_is_told_with_its_kind() -> None:
    """One that is held for a node which knows its kind is blocked, by the class of that error."""
    clock = VirtualClock(NOW_MS)
    telemetry = NodeTelemetry(clock)
    result = AttemptResult.FAILURE
    telemetry.emit(
        events.AttemptFinished(PARTITION, FAILED, 1, result, 5, NOW_MS, "ValueError", "mail")
    )
    telemetry.emit(
        events.TaskHeld(PARTITION, BLOCKED, "charge", "no executor of kind 'charge'", "UnknownKind")
    )

    report = report_of(telemetry, clock)

    (failing,), (blocked,) = report.failing, report.blocked
    assert (failing.kind, failing.error) == ("mail", "ValueError")
    assert (blocked.kind, blocked.error) == ("charge", "UnknownKind")


def test_what_an_earlier_owner_saw_fail_is_told_since_then() -> None:
    """Blocked, held or failing again: none of it begins with this process."""
    clock = VirtualClock(NOW_MS)
    telemetry = NodeTelemetry(clock)
    since_ms, result = NOW_MS - 60_000, AttemptResult.FAILURE
    for event in (
        events.RetriesExhausted(PARTITION, BLOCKED, "block", 3, since_ms, "KeyError", "mail"),
        events.TaskHeld(PARTITION, DONE, "charge", "no executor", "UnknownKind", since_ms),
        events.AttemptFinished(
            PARTITION, FAILED, 4, result, 5, NOW_MS, "ValueError", "mail", since_ms
        ),
    ):
        telemetry.emit(event)

    report = report_of(telemetry, clock)

    told = {each.key: each for each in (*report.blocked, *report.failing)}
    assert {each.since_ms for each in told.values()} == {since_ms}
    blocked = told[str(BLOCKED)]
    assert (blocked.attempts, blocked.error, blocked.kind) == (3, "KeyError", "mail")


def test_what_runs_is_counted_apart_from_what_was_handed_on() -> None:
    """A task behind a blocked one of its ordering id was handed on, and does not run."""
    clock = VirtualClock(NOW_MS)
    telemetry = NodeTelemetry(clock)
    telemetry.emit(events.PartitionLoadReported(PARTITION, 10, 4))
    runner = HeldRunner(clock=clock, gate=lambda _: True, telemetry=telemetry)
    runner.runner.start([(an_attempt(partition=PARTITION), Works())], lambda _ended: None)
    runner.begin()

    (partition,) = report_of(telemetry, clock, runner).partitions

    assert (partition.executing, partition.running) == (4, 1)


def test_what_runs_is_told_with_its_kind_and_its_start() -> None:
    """The longest first, so that those which are left out are the newest."""
    clock = VirtualClock(NOW_MS)
    telemetry = NodeTelemetry(clock)
    runner = HeldRunner(clock=clock, gate=lambda _: True, telemetry=telemetry)
    for number in range(LISTED_MAX + 1):
        task = a_stored_task(ordering_id=f"id-{number:03}", data=with_kind(b"{}", "mail"))
        runner.runner.start(
            [(an_attempt(task=task, partition=PARTITION), Works())], lambda _ended: None
        )
        runner.begin()
        clock.advance(1_000)

    report = report_of(telemetry, clock, runner)

    assert (report.running_count, len(report.running)) == (LISTED_MAX + 1, LISTED_MAX)
    first, second = report.running[:2]
    assert (first.kind, first.started_ms, second.started_ms) == ("mail", NOW_MS, NOW_MS + 1_000)
    assert "id-000" in first.key


def test_what_runs_is_told_with_its_progress_and_no_value() -> None:
    """As far as its checkpoint says it and anybody may read that; and whether it is stuck."""
    clock = VirtualClock(NOW_MS)
    telemetry = NodeTelemetry(clock)
    runner = HeldRunner(clock=clock, gate=lambda _: True, telemetry=telemetry)
    texts = {
        "far": checkpoint_text({"done": 1, "total": 4}),
        "other": checkpoint_text("page 3"),
        "sealed": b'{"hourhand.sealed":{"steps":[{"codec":"c","key":"k"}],"data":"AAEC"}}',
        "none": None,
    }
    for name, text in texts.items():
        attempt = an_attempt(task=a_stored_task(ordering_id=name), partition=PARTITION)
        runner.runner.start([(attempt, Works())], lambda _ended: None)
        runner.begin()
        clock.advance(1_000)
        running = runner.running[-1][0]
        if text is not None:
            running.make(text)
        else:
            runner.runner.calls.stuck.add(running, 500)

    told = {each.key.split(",")[1]: each for each in report_of(telemetry, clock, runner).running}

    assert told["far"].checkpoint == RunningCheckpoint(NOW_MS + 1_000, 1, 4)
    assert told["other"].checkpoint == RunningCheckpoint(NOW_MS + 2_000)
    assert told["sealed"].checkpoint == RunningCheckpoint(NOW_MS + 3_000)
    assert told["none"].checkpoint is None
    assert [name for name, each in told.items() if each.stuck] == ["none"]


def test_what_waits_because_of_a_limit() -> None:
    """Its reason, how many wait for the same, and a gauge that goes back to zero."""
    clock = VirtualClock(NOW_MS)
    telemetry = NodeTelemetry(clock)
    attempts = [
        an_attempt(task=a_stored_task(ordering_id=each), partition=PARTITION) for each in "abc"
    ]
    waiting = [
        Limited("mail#1", value, attempt, waited_ms)
        for value, attempt, waited_ms in zip("xyy", attempts, (9.0, 5.0, 3.0), strict=True)
    ]

    report = report_of(telemetry, clock, limited=waiting)
    gauge = telemetry.meters["limited_tasks"]["mail#1"].value
    report_of(telemetry, clock)

    assert report.limited_count == 3
    assert report.limited[0] == LimitedTask(
        str(attempts[0].task.key), PARTITION, "mail#1", "x", NOW_MS - 9
    )
    assert report.limited_flows == (
        LimitedFlow("mail#1", "y", 2, NOW_MS - 5),
        LimitedFlow("mail#1", "x", 1, NOW_MS - 9),
    )
    assert gauge == 3 and telemetry.meters["limited_tasks"]["mail#1"].value == 0


def test_what_a_node_may_start_of_rates() -> None:
    """By limit and value where it lends or borrows, and by limit in metrics."""
    clock = VirtualClock(NOW_MS)
    telemetry = NodeTelemetry(clock)
    shares = [
        RateShare("mail#1", "acme", 0.1, 0.4, 0.0),
        RateShare("mail#1", "big", 0.5, 0.0, 0.3),
        RateShare("mail#1", "small", 0.2, 0.3, 0.0),
        *(RateShare("other#1", str(number), 0.5, 0.0, 0.1) for number in range(LISTED_MAX)),
    ]

    report = report_of(
        telemetry, clock, rates=NodeRates({LimitKey("mail#1", REST): 50.0}, 0.5, shares)
    )
    values = {name: telemetry.meters[f"limit_rate_{name}"]["mail#1"].value for name in RATES}
    report_of(telemetry, clock, rates=NodeRates({LimitKey("mail#1", REST): 20.0}, 0.5, ()))

    assert report.rate_share == 0.5
    assert [each.value for each in report.rate_shares[:3]] == ["acme", "big", "small"]
    assert len(report.rate_shares) == LISTED_MAX
    assert values == pytest.approx({"own": 25, "lent": 35, "borrowed": 15})
    assert [telemetry.meters[f"limit_rate_{name}"]["mail#1"].value for name in RATES] == [10, 0, 0]
    assert report_of(telemetry, clock).rate_share is None


def test_what_a_limit_asked_for_is_not_late() -> None:
    """It has a metric of its own, so that no alert for lateness hears of it."""
    telemetry = NodeTelemetry(VirtualClock(NOW_MS))

    telemetry.emit(events.AttemptStarted(PARTITION, DONE, 1, 60_003, 60_000))

    assert telemetry.lateness_of(PARTITION)[LATENESS_MS.index(5)] == 1
    assert telemetry.meters.only("attempt_limited_seconds").total == 60_000
