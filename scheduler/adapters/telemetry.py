"""Events as lines of the program's log.

Decides the logger and the level of an event: events of single tasks are DEBUG, those that an
operator should look at are WARNING or above. The logger is named after the role that emits it
(``hourhand.task_executor``), so the level of one role can be changed alone. A failed attempt is
logged with its exception; of equal ones, one a second. It formats an event only if a handler wants
it, and never raises.
"""

import logging
from collections.abc import Callable
from logging import DEBUG, ERROR, INFO, WARNING
from operator import attrgetter
from typing import Any

from hourhand.actors.model.operations import events
from hourhand.actors.model.operations.events import Event
from hourhand.actors.model.task.definition import ordering_id_parts
from hourhand.actors.model.task.status import AttemptResult
from hourhand.actors.model.values.display import (
    class_name_of,
    has_frames,
    log_raised,
    logged_stack,
    message_of,
    stack_of,
)
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.observe.repeated_events import RepeatedEvents
from hourhand.scheduler.runtime.user_code import is_interrupt

_STACK_CHARS_MAX = 100_000
_NEVER = 1
"""Below every level: events for counts only, which would be a line of numbers for each batch."""

_DESTINATIONS: dict[type, tuple[str, int]] = {
    # A node logs these in one line for all partitions.
    events.PartitionAssigned: ("node", DEBUG),
    events.PartitionRevoked: ("node", DEBUG),
    events.PartitionLost: ("node", DEBUG),
    events.CatchUpEnded: ("partition_supervisor", DEBUG),
    events.TreeRebuilt: ("topic_supervisor", WARNING),
    events.BatchPersisted: ("task_persistence", DEBUG),
    events.TasksStored: ("task_persistence", _NEVER),
    events.RecordPoisoned: ("partition_supervisor", WARNING),
    events.RecordMisplaced: ("partition_supervisor", WARNING),
    events.PartitionHeld: ("partition_supervisor", WARNING),
    events.PartitionReleased: ("partition_supervisor", INFO),
    events.WindowLoaded: ("task_persistence", DEBUG),
    events.WindowShrunk: ("throughput_controller", INFO),
    events.PartitionLoadReported: ("throughput_controller", DEBUG),
    events.AttemptStarted: ("task_executor", DEBUG),
    events.AttemptFinished: ("task_executor", DEBUG),
    events.AttemptFailed: ("task_executor", DEBUG),
    # A node that stops refuses each waiting task; the lines of the stop say so once.
    events.AttemptRefused: ("task_executor", DEBUG),
    events.AttemptStuck: ("task_executor", WARNING),
    events.AttemptAbandoned: ("task_executor", WARNING),
    events.WorkersExhausted: ("runner", WARNING),
    events.WorkersFreed: ("runner", INFO),
    events.LoopBlocked: ("runner", WARNING),
    events.LoopFreed: ("runner", INFO),
    events.RetriesExhausted: ("task_executor", ERROR),
    events.TaskHeld: ("task_executor", WARNING),
    events.TaskClosed: ("completion_tracker", DEBUG),
    events.TasksSucceeded: ("task_executor", DEBUG),
    events.CommandDecided: ("partition_supervisor", INFO),
    events.WatermarkAdvanced: ("task_persistence", DEBUG),
    events.WatermarkHeld: ("task_persistence", WARNING),
    events.OutcomesTold: ("outcomes", DEBUG),
    events.OutcomesHeld: ("outcomes", WARNING),
    events.OutcomeRefused: ("outcomes", ERROR),
    events.RelayRecordRefused: ("relay", DEBUG),
    events.MessageRelayed: ("relay", DEBUG),
    events.TimerPopped: ("timers", DEBUG),
    events.TimerTagChanged: ("timers", DEBUG),
    events.TaskEnqueued: ("client", DEBUG),
    events.BulkEnqueued: ("client", INFO),
    events.AssignmentReceived: ("node", DEBUG),
    events.OrderingsMeasured: ("partition_executor", DEBUG),
    events.StoreCalled: ("store", DEBUG),
    events.LogCalled: ("log", DEBUG),
    events.SelfChecked: ("self_check", DEBUG),
    events.PromiseDoubted: ("self_check", ERROR),
    events.OwnerBegan: ("buckets", DEBUG),
    events.TransactionCommitted: ("buckets", DEBUG),
    events.BucketSplit: ("buckets", INFO),
    events.LimitChanged: ("runner", INFO),
}
"""For each class of event, the role whose logger gets it, and its usual level."""


def _raised_level(event: Event) -> int:
    """Return the level of an event whose level depends on its content."""
    match event:
        case events.AttemptFinished():
            # The error of a failed attempt was already logged.
            return WARNING if event.result is AttemptResult.RETRY else 0
        case events.AttemptFailed():
            # ``drop_on`` lists expected errors, which are logged like any other end.
            return DEBUG if event.result is AttemptResult.DROPPED else WARNING
        case events.CatchUpEnded(complete=False):
            return WARNING
        case _:
            return 0


_UNSAID = frozenset({"is_showable", "stack", "failed_ms"})
"""Fields that are not logged: they are for the stack below the line, or for counts."""
_DEPENDS = frozenset({events.AttemptFailed, events.AttemptFinished, events.CatchUpEnded})


class LoggingTelemetry:
    """Writes each event as one line: its name, then ``field=value`` pairs.

    The record also carries ``event`` (the name), ``event_fields`` (a dict of plain values) and
    ``event_key`` (the task's, or None) for handlers that write JSON. Equal events of many tasks are
    logged at most once a second by ``clock``, with ``suppressed``, the number of those before it
    that were only counted.
    """

    def __init__(self, clock: Clock) -> None:
        self._repeated = RepeatedEvents(clock.monotonic_ms)
        self._destinations = {
            event: (
                logging.getLogger(f"hourhand.{role}"),
                level,
                event in _DEPENDS,
                _reader_of(event),
            )
            for event, (role, level) in _DESTINATIONS.items()
        }

    def emit(self, event: Event) -> None:
        """Write the event if its level is enabled."""
        try:
            kind = event.__class__
            log, level, depends, read = self._destinations[kind]
            if depends:
                level = max(level, _raised_level(event))
            if not log.isEnabledFor(level):
                if self._repeated.due_ms is not None:
                    self._tell_suppressed()
                return
            if isinstance(event, events.TasksSucceeded):
                for each in event.singles():
                    self.emit(each)
                return
            suppressed = self._repeated.take(event, level)
            if suppressed is None:
                return
            values = read(event)
            if isinstance(event, events.AttemptFailed):
                # Only an event with a kind shows one, as its last field.
                kind = values.pop("kind")
                values["error_message"] = message_of(event.error)
                if kind is not None:
                    values["kind"] = kind
            if suppressed:
                values["suppressed"] = suppressed
            log.handle(_line(log, level, event, values))
            if self._repeated.due_ms is not None:
                self._tell_suppressed()
        except BaseException as error:
            # The contract of the port: a broken log handler, or an error that cannot be shown, must
            # not stop the emitter's work.
            if is_interrupt(error):
                raise
            log_raised(logging.getLogger("hourhand"), "an event could not be logged", level=DEBUG)

    def close(self) -> None:
        """Log the numbers of suppressed events; more events may come."""
        try:
            self._tell_suppressed(all_of_them=True)
        except BaseException as error:
            if is_interrupt(error):
                raise
            log_raised(logging.getLogger("hourhand"), "a number could not be logged", level=DEBUG)

    def _tell_suppressed(self, *, all_of_them: bool = False) -> None:
        for each in self._repeated.overdue(all_of_them=all_of_them):
            log = self._destinations[each.event][0]
            if log.isEnabledFor(each.level):
                values = {"suppressed": each.number, **each.fields}
                log.handle(_record(log, each.level, each.event.__name__, values))


def roles_told() -> set[str]:
    """Return the roles whose loggers get events."""
    return {role for role, _ in _DESTINATIONS.values()}


def _reader_of(event: type[Event]) -> Callable[[Event], dict[str, Any]]:
    # Values that can be shown are shown, and the others are marked.
    names = [name for name in event.__struct_fields__ if name not in _UNSAID]
    if len(names) == 1:
        names = [*names, names[0]]
    get = attrgetter(*names)

    def read(value: Event) -> dict[str, Any]:
        return {name: _plain(found) for name, found in zip(names, get(value), strict=True)}

    return read


def _line(
    log: logging.Logger, level: int, event: Event, values: dict[str, object]
) -> logging.LogRecord:
    line = _record(log, level, event.__class__.__name__, values)
    line.event_key = getattr(event, "key", None)
    if isinstance(event, events.AttemptFailed) and _tells_stack(event):
        stack = event.stack or stack_of(event.error, _STACK_CHARS_MAX)
        # For errors that Hourhand raises before user code runs, such as a bad payload, the message
        # is enough.
        if has_frames(stack) or not isinstance(event.error, HourhandError):
            # Formatted once for all handlers and the history, and not under a handler's lock.
            line.exc_text = logged_stack(stack)
            line.exc_info = (type(event.error), event.error, event.error.__traceback__)
    return line


def _record(
    log: logging.Logger, level: int, name: str, values: dict[str, object]
) -> logging.LogRecord:
    shown = " ".join(f"{field}={_shown(value)}" for field, value in values.items())
    extra = {"event": name, "event_fields": values, "event_key": None}
    return log.makeRecord(log.name, level, __file__, 0, "%s %s", (name, shown), None, "emit", extra)


def _tells_stack(event: events.AttemptFailed) -> bool:
    """True if the log's handlers get the error, to show its stack or report it.

    Left out are errors that handlers cannot format, as they would print a trace of their own;
    errors of system tasks, whose message names the server that is away; and outcomes that
    ``drop_on`` expects.
    """
    if event.result is AttemptResult.DROPPED:
        return False
    return event.is_showable and ordering_id_parts(event.key.ordering_id) is None


def _plain(value: object) -> object:
    """Return a value that a JSON handler can write: keys and enumerations become their text."""
    if value is None or type(value) in (bool, int, float):
        return value
    return class_name_of(value) if isinstance(value, BaseException) else str(value)


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    # One event is one line, with any text of an exception or an id.
    if text.isprintable() and " " not in text and text:
        return text
    return repr(text)
