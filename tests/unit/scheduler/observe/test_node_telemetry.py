"""Events become the numbers that the catalogue promises, and no others; each is counted once."""

import threading

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations import events
from hourhand.actors.model.operations.events import Event
from hourhand.actors.model.operations.oversight import LATENESS_MS
from hourhand.actors.model.task.status import AttemptResult
from hourhand.scheduler.adapters.observing.counted import registry_of
from hourhand.scheduler.observe.meters import Meters
from hourhand.scheduler.observe.metric_catalogue import CATALOGUE, KINDS_MAX, PREFIX, Kind, Metric
from hourhand.scheduler.observe.node_telemetry import NodeTelemetry
from hourhand.scheduler.testing import RecordingTelemetry
from tests.builders import NOW_MS, a_key
from tests.unit.scheduler.adapters.test_telemetry import EVENT_CLASSES, an_event

_COUNTED_ELSEWHERE = {
    events.AssignmentReceived,
    events.TasksStored,
    events.AttemptFailed,
    events.LoopFreed,
}
"""Begins what another event ends; is of the hourly counts alone; is counted where it finished;
ends what another event began."""


def test_a_loop_is_blocked_until_it_is_freed() -> None:
    """The gauge goes back; the counter stays."""
    telemetry, registry = counting()

    telemetry.emit(events.LoopBlocked(1, a_key(), "a.py:1", 1_000))
    blocked = samples(registry)
    telemetry.emit(events.LoopFreed(2_000))

    assert blocked["hourhand_loop_blocked", ()] == 1
    assert samples(registry)["hourhand_loop_blocked", ()] == 0
    assert samples(registry)["hourhand_loop_blocks_total", ()] == 1


def counting() -> tuple[NodeTelemetry, CollectorRegistry]:
    """Return a telemetry, and the registry that shows what it counted."""
    telemetry = NodeTelemetry(VirtualClock(NOW_MS))
    return telemetry, registry_of(telemetry.meters)


def samples(registry: CollectorRegistry) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return every sample, by name and label values."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for metric in registry.collect()
        for sample in metric.samples
    }


@pytest.mark.parametrize("kind", [each for each in EVENT_CLASSES if each not in _COUNTED_ELSEWHERE])
def test_every_event_changes_a_metric(kind: type) -> None:
    """An event nobody counts would be a blind spot."""
    telemetry, registry = counting()
    before = samples(registry)

    telemetry.emit(an_event(kind))

    assert samples(registry) != before


def test_the_gap_of_a_rebalance_ends_when_tasks_may_start() -> None:
    """From the group's word to the end of catching up, whatever lies between."""
    clock = VirtualClock(NOW_MS)
    telemetry = NodeTelemetry(clock)

    telemetry.emit(events.AssignmentReceived(3))
    clock.advance(1_500)
    telemetry.emit(events.CatchUpEnded(3, 20, complete=True))

    found = samples(registry_of(telemetry.meters))
    assert found["hourhand_rebalance_gap_seconds_sum", ()] == 1.5


def test_error_classes_are_bounded() -> None:
    """User code that makes up exception classes cannot fill the memory of a node."""
    telemetry, registry = counting()

    for number in range(60):
        telemetry.emit(
            events.AttemptFinished(
                0, a_key(), 1, AttemptResult.FAILURE, 5, NOW_MS, f"Error{number}"
            )
        )

    found = {
        key: count
        for key, count in samples(registry).items()
        if key[0] == "hourhand_attempts_total" and key[1][1]
    }
    assert len(found) == 51
    assert found["hourhand_attempts_total", ("failure", "other")] == 10


def test_a_partition_that_left_has_no_gauges() -> None:
    """A dashboard would otherwise add up what two nodes say of one partition."""
    telemetry, registry = counting()
    telemetry.emit(events.PartitionAssigned(4, 1, 0, 0))
    telemetry.emit(events.PartitionLoadReported(4, 10, 2))
    telemetry.emit(events.OrderingsMeasured(4, 3, 1, 2_500))
    assert samples(registry)["hourhand_oldest_overdue_seconds", ("4",)] == 2.5

    telemetry.emit(events.PartitionRevoked(4, drained=False))

    found = samples(registry)
    assert not [key for key in found if key[1] == ("4",)]
    assert found["hourhand_owned_partitions", ()] == 0
    assert found["hourhand_drains_unfinished_total", ()] == 1


def test_the_age_of_the_watermark_is_of_the_oldest_one() -> None:
    """And grows by itself between two scrapes."""
    clock = VirtualClock(NOW_MS)
    telemetry = NodeTelemetry(clock)
    registry = registry_of(telemetry.meters)
    assert ("hourhand_watermark_age_seconds", ()) not in samples(registry)

    telemetry.emit(events.WatermarkAdvanced(1, NOW_MS - 60_000, 0))
    telemetry.emit(events.WatermarkAdvanced(2, NOW_MS - 90_000, 0))
    clock.advance(10_000)

    assert samples(registry)["hourhand_watermark_age_seconds", ()] == 100


def test_started_attempts_are_counted_once_with_their_lateness() -> None:
    """A bucket says "at most": exactly on its bound is inside."""
    telemetry, registry = counting()

    telemetry.emit(events.AttemptStarted(5, a_key(), 1, 10))
    telemetry.emit(events.AttemptStarted(5, a_key(), 2, 11))

    found = samples(registry)
    assert found["hourhand_attempts_started_total", ("5",)] == 2
    assert found["hourhand_attempt_retries_total", ()] == 1
    assert found["hourhand_attempt_delay_seconds_bucket", ("5", "0.01")] == 1
    assert found["hourhand_attempt_delay_seconds_bucket", ("5", "0.05")] == 2
    assert found["hourhand_attempt_delay_seconds_sum", ("5",)] == 0.021


def test_a_report_and_the_metric_read_one_count_of_lateness() -> None:
    """Whose bounds are those of both: 0.25 s is a bucket of the metric, 0.2 s one of the report."""
    telemetry, registry = counting()

    for delay_ms in (-3, 0, 1, 2, 5, 200, 201, 250, 251, 3_600_000, 3_600_001):
        telemetry.emit(events.AttemptStarted(5, a_key(), 1, delay_ms))

    lateness = dict(zip((*LATENESS_MS, "later"), telemetry.lateness_of(5), strict=True))
    assert {bound: count for bound, count in lateness.items() if count} == {
        1: 3,
        2: 1,
        5: 1,
        200: 1,
        500: 3,
        3_600_000: 1,
        "later": 1,
    }
    found = samples(registry)
    buckets = {
        labels[1]: count
        for (name, labels), count in found.items()
        if name == "hourhand_attempt_delay_seconds_bucket"
    }
    assert [buckets[bound] for bound in ("0.001", "0.005", "0.1", "0.25", "0.5")] == [3, 5, 5, 8, 9]
    assert (buckets["3600.0"], buckets["+Inf"]) == (10, 11)
    assert found["hourhand_attempts_started_total", ("5",)] == 11
    assert telemetry.lateness_of(6) == (0,) * (len(LATENESS_MS) + 1)


class _Failing:
    def emit(self, event: Event) -> None:
        raise RuntimeError("telemetry down")


def test_one_failing_telemetry_does_not_silence_the_others() -> None:
    """And whoever emits hears nothing of it; each other is handed every event once, in order."""
    first, second = RecordingTelemetry(), RecordingTelemetry()
    telemetry = NodeTelemetry(VirtualClock(NOW_MS), first, _Failing())
    telemetry.add_listener(second)
    happened: list[Event] = [
        events.BulkEnqueued(7, 1.0),
        events.PartitionLost(3, "a newer owner exists"),
    ]

    for event in happened:
        telemetry.emit(event)

    assert first.events == second.events == happened


def test_no_add_is_lost_between_threads() -> None:
    """Adds take no lock: workers, drivers and the dispatcher count at the same time."""
    telemetry, registry = counting()
    event = events.AttemptFinished(0, a_key(), 1, AttemptResult.SUCCESS, 5, NOW_MS)

    def count() -> None:
        for _ in range(20_000):
            telemetry.emit(event)

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)

    found = samples(registry)
    assert found["hourhand_attempts_total", ("success", "")] == 160_000
    assert found["hourhand_attempt_seconds_count", ("success",)] == 160_000


def test_prometheus_shows_the_whole_catalogue_and_nothing_else() -> None:
    """One table for all: what it does not name does not exist."""
    shown = {
        (metric.name + ("_total" if metric.type == "counter" else ""), metric.type)
        for metric in registry_of(Meters()).collect()
    }

    assert shown == {(PREFIX + m.name, m.kind.value) for m in CATALOGUE.values()}


@pytest.mark.parametrize("metric", CATALOGUE.values(), ids=lambda metric: metric.name)
def test_every_metric_is_named_and_bounded_as_the_rest(metric: Metric) -> None:
    """Counters end in total, histograms have buckets, fixed words belong to one label."""
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert bool(metric.buckets) == (metric.kind is Kind.HISTOGRAM)
    assert len(metric.labels) == 1 or not metric.words
    assert set(metric.labels) <= {
        "partition",
        "reason",
        "call",
        "error",
        "result",
        "error_class",
        "on_exhausted",
        "kind",
        "outcome",
        "change",
        "promise",
        "tag",
        "pool",
        "limit",
        "place",
    }


def test_attempts_are_counted_by_kind_within_a_bound() -> None:
    """What comes after the first hundred kinds is counted as other."""
    telemetry, registry = counting()

    for number in range(KINDS_MAX + 2):
        finished = events.AttemptFinished(0, a_key(), 1, AttemptResult.SUCCESS, 5, NOW_MS)
        telemetry.emit(replace(finished, kind=f"kind-{number}"))

    found = samples(registry)
    assert found["hourhand_kind_attempts_total", ("kind-0", "success")] == 1
    assert found["hourhand_kind_attempts_total", ("other", "success")] == 2
