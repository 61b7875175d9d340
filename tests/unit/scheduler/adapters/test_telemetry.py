"""Events become log lines and metrics, whatever they hold and whoever fails."""

import logging
import re
import typing
import urllib.request
from pathlib import Path

import pytest
from msgspec.structs import fields
from prometheus_client import CollectorRegistry

from actors.model import events
from actors.model.codec import CommandKind
from actors.model.events import Event
from actors.model.status import AttemptResult, CommandOutcome, CompletionResult
from scheduler.adapters.metrics import PrometheusTelemetry
from scheduler.adapters.telemetry import CompositeTelemetry, LoggingTelemetry
from tests.builders import NOW_MS, a_key

EVENT_CLASSES = typing.get_args(Event)

_VALUES: dict[str, object] = {
    "key": a_key(),
    "drained": True,
    "complete": True,
    "cause": "boom",
    "reason": "poison",
    "on_exhausted": "skip",
    "error_class": None,
    "kind": CommandKind.CANCEL,
    "outcome": CommandOutcome.APPLIED,
}


def an_event(kind: type) -> Event:
    """Return an event of a class, with any values of the right types."""
    values = {field.name: _VALUES.get(field.name, 3) for field in fields(kind)}
    if kind is events.AttemptFinished:
        values["result"] = AttemptResult.SUCCESS
    if kind is events.TaskClosed:
        values["result"] = CompletionResult.SUCCESS
    return typing.cast("Event", kind(**values))


def samples(registry: CollectorRegistry) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return every sample but the times of creation, by name and label values."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for metric in registry.collect()
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }


@pytest.mark.parametrize("kind", EVENT_CLASSES)
def test_every_event_is_one_line_of_its_role(kind: type, caplog: pytest.LogCaptureFixture) -> None:
    """The line begins with the event's name and names every field."""
    caplog.set_level(logging.DEBUG, "hourhand")

    LoggingTelemetry().emit(an_event(kind))

    (record,) = caplog.records
    assert record.getMessage().split(" ")[0] == kind.__name__
    assert all(f" {field.name}=" in record.getMessage() for field in fields(kind))
    assert record.name.startswith("hourhand.")


@pytest.mark.parametrize("kind", EVENT_CLASSES)
def test_every_event_changes_a_metric(kind: type) -> None:
    """An event nobody counts would be a blind spot."""
    telemetry = PrometheusTelemetry()
    before = samples(telemetry.registry)

    telemetry.emit(an_event(kind))

    assert samples(telemetry.registry) != before


def test_a_failed_attempt_is_a_warning_and_a_good_one_is_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Per-task chatter stays below the level an operator reads."""
    caplog.set_level(logging.INFO, "hourhand")
    telemetry = LoggingTelemetry()

    telemetry.emit(events.AttemptFinished(0, a_key(), 1, AttemptResult.SUCCESS, 5, NOW_MS))
    telemetry.emit(events.AttemptFinished(0, a_key(), 1, AttemptResult.FAILURE, 5, NOW_MS, "Boom"))

    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_a_line_break_in_an_event_makes_no_second_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Ids and error texts come from outside; they may not forge a line."""
    caplog.set_level(logging.DEBUG, "hourhand")

    LoggingTelemetry().emit(events.TreeRebuilt("a\nERROR forged", 1, 100))

    assert "\n" not in caplog.records[0].getMessage()


def test_error_classes_are_bounded() -> None:
    """User code that makes up exception classes cannot fill the memory of a node."""
    telemetry = PrometheusTelemetry()

    for number in range(60):
        telemetry.emit(
            events.AttemptFinished(
                0, a_key(), 1, AttemptResult.FAILURE, 5, NOW_MS, f"Error{number}"
            )
        )

    labels = [key[1] for key in samples(telemetry.registry) if key[0] == "hourhand_attempts_total"]
    assert len(labels) == 51
    assert samples(telemetry.registry)["hourhand_attempts_total", ("failure", "other")] == 10


def test_a_partition_that_left_has_no_gauges() -> None:
    """A dashboard would otherwise add up what two nodes say of one partition."""
    telemetry = PrometheusTelemetry()
    telemetry.emit(events.PartitionAssigned(4, 1, 0, 0))
    telemetry.emit(events.PartitionLoadReported(4, 10, 2))

    telemetry.emit(events.PartitionRevoked(4, drained=False))

    found = samples(telemetry.registry)
    assert ("hourhand_waiting_tasks", ("4",)) not in found
    assert found["hourhand_owned_partitions", ()] == 0
    assert found["hourhand_drains_unfinished_total", ()] == 1


def test_metrics_are_served_until_closed() -> None:
    """What is served is this registry, in Prometheus' text format."""
    telemetry = PrometheusTelemetry()
    telemetry.emit(events.BulkEnqueued(7, 1.0))

    port, close = telemetry.serve(0, "127.0.0.1")
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
            text = answer.read().decode()
    finally:
        close()

    assert "hourhand_records_enqueued_total 7.0" in text
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5)


class _Failing:
    def emit(self, event: Event) -> None:
        raise RuntimeError("telemetry down")


def test_one_failing_telemetry_does_not_silence_the_other() -> None:
    """And whoever emits hears nothing of it."""
    counting = PrometheusTelemetry()

    CompositeTelemetry(_Failing(), counting).emit(events.BulkEnqueued(7, 1.0))

    assert samples(counting.registry)["hourhand_records_enqueued_total", ()] == 7


def test_the_page_of_metrics_names_each_and_no_other() -> None:
    """A dashboard is written from the page."""
    page = Path(__file__).parents[4] / "docs" / "metrics.md"
    documented = re.findall(r"^\| `(\w+)` \| (\w+) \|", page.read_text("utf-8"), re.MULTILINE)
    registered = {
        (metric.name + ("_total" if metric.type == "counter" else ""), metric.type)
        for metric in PrometheusTelemetry().registry.collect()
    }

    assert set(documented) == registered
