"""One telemetry made of several: who is handed an event, and what a failing one does."""

import logging
from collections.abc import Callable

import pytest

from actors.model import events
from actors.model.events import Event
from scheduler.adapters.telemetry import LoggingTelemetry
from scheduler.observe.composite_telemetry import CompositeTelemetry

BULK = events.BulkEnqueued(7, 1.0)
LOST = events.PartitionLost(3, "a newer owner exists")


class _Failing:
    def emit(self, event: Event) -> None:
        raise RuntimeError("telemetry down")


class _Recording:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


class _OnlyLost(_Recording):
    """Takes one class of events, and counts how often it was asked what it takes."""

    asked = 0

    def taker(self, kind: type[Event]) -> Callable[[Event], None] | None:
        self.asked += 1
        return self.events.append if kind is events.PartitionLost else None


def test_one_failing_telemetry_does_not_silence_the_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And whoever emits hears nothing of it."""
    caplog.set_level(logging.INFO, "hourhand")

    CompositeTelemetry(_Failing(), LoggingTelemetry()).emit(BULK)

    assert [record.levelno for record in caplog.records] == [logging.INFO]


def test_who_takes_some_events_is_handed_only_those() -> None:
    """And is asked once for each class, not for each event."""
    every, some = _Recording(), _OnlyLost()
    telemetry = CompositeTelemetry(every, some)

    for event in (BULK, LOST, BULK, LOST):
        telemetry.emit(event)

    assert every.events == [BULK, LOST, BULK, LOST]
    assert some.events == [LOST, LOST]
    assert some.asked == 2


def test_one_made_of_several_may_be_part_of_another() -> None:
    """Each innermost one is handed every event once, in order."""
    first, second, third = _Recording(), _Recording(), _Recording()

    CompositeTelemetry(CompositeTelemetry(first, second), third).emit(LOST)

    assert [each.events for each in (first, second, third)] == [[LOST]] * 3
