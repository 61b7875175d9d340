"""The records of the test kit: events, attempts with their errors, and refused tasks.

Decides the text of a failed assertion.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from textwrap import indent
from typing import Any, TypeVar

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.operations.events import (
    AttemptFailed,
    AttemptFinished,
    Event,
    single_events,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptResult
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.display import class_name_of, message_of, shown, stack_of
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.model.values.instant import from_millis
from hourhand.actors.model.values.public import public
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.client.client import SchedulerClient
from hourhand.scheduler.node.endings import ERROR_MESSAGE_CHARS_MAX, ERROR_STACK_CHARS_MAX

Told = TypeVar("Told", bound=Event)

LISTED_MAX = 5
"""Attempts and refusals in a message; if there are more it lists the last ones."""


@public("hourhand.testing")
@dataclass(frozen=True, slots=True)
class Execution:
    """One attempt that ran."""

    key: TaskKey
    attempt: int
    at: datetime
    """Virtual wall time at which it ended, in UTC."""
    result: AttemptResult
    error_class: str | None = None
    error_message: str | None = None
    """Message of the exception, at most 1,000 characters; None without one."""
    error_stack: str | None = None
    """Its traceback from your code on, as Python prints it, the last 8,000 characters."""
    task: Task | None = field(default=None, compare=False, repr=False)
    """The task as it is stored; for sealed data the members that are not sealed."""

    @property
    def kind(self) -> str | None:
        """The task's kind."""
        return None if self.task is None else self.task.kind

    @property
    def data(self) -> dict[str, Any]:
        """The task's data as it is stored."""
        return {} if self.task is None else self.task.data

    def __str__(self) -> str:
        """Return the attempt with its error and stack, in lines."""
        line = f"{self.key} attempt {self.attempt}: {self.result.value}"
        if self.error_class is None:
            return line
        line = f"{line}, {self.error_class}: {self.error_message}"
        stack = (self.error_stack or "").splitlines()
        if len(stack) > _STACK_LINES_MAX:
            stack = [f"… {len(stack) - _STACK_LINES_MAX} lines", *stack[-_STACK_LINES_MAX:]]
        return "\n".join((line, *(f"  {each}" for each in stack)))


_STACK_LINES_MAX = 40


class LastAttempts:
    """The words of a message about attempts: their number, and the last one of each task."""

    def __init__(self, attempts: Iterable[Execution]) -> None:
        self._attempts = list(attempts)

    def told(self, title: str) -> list[str]:
        """Return the lines, an empty list if there are no attempts."""
        if not self._attempts:
            return []
        last, counts = {each.key: each for each in self._attempts}, Counter[TaskKey]()
        counts.update(each.key for each in self._attempts)
        shown_last = sorted(last.values(), key=self._attempts.index)[-LISTED_MAX:]
        of = f"{len(self._attempts)} of {len(last)} tasks" if len(last) > 1 else len(self._attempts)
        lines = [f"{title}: {of}; the last one of {'each' if len(last) > 1 else 'them'}:"]
        if len(last) > LISTED_MAX:
            lines[0] = f"{title}: {of}; the last one of {LISTED_MAX} tasks:"
        return [*lines, *(indent(str(each), "  ") for each in shown_last)]


@public("hourhand.testing")
class RecordingTelemetry:
    """Keeps every event, in order, and passes it on to ``told``; implements ``Telemetry``."""

    def __init__(self, *listeners: Telemetry) -> None:
        self.events: list[Event] = []
        self._listeners = listeners

    def emit(self, event: Event) -> None:
        """Keep the event; an event about many tasks is kept as one for each."""
        self.events.extend(single_events(event))
        for telemetry in self._listeners:
            telemetry.emit(event)

    def of(self, kind: type[Told]) -> list[Told]:
        """Return the events of one kind, in order."""
        return [event for event in self.events if isinstance(event, kind)]


class Executions:
    """The attempts in the events; each event is read once."""

    def __init__(self, events: Sequence[Event]) -> None:
        self._events = events
        self._seen = 0
        self._begun: dict[tuple[TaskKey, int], Task] = {}
        self._failures: dict[tuple[TaskKey, int], AttemptFailed] = {}
        self._ran: list[Execution] = []

    def note_start(self, attempt: Attempt) -> None:
        """Keep the task of an attempt that begins, until it ends."""
        self._begun[attempt.task.key, attempt.number] = attempt.task.to_task()

    def so_far(self) -> list[Execution]:
        """Return every attempt that ended, in the order of their ends."""
        for event in self._events[self._seen :]:
            if isinstance(event, AttemptFailed):
                self._failures[event.key, event.attempt] = event
            elif isinstance(event, AttemptFinished):
                attempt = (event.key, event.attempt)
                failed, task = self._failures.pop(attempt, None), self._begun.get(attempt)
                if event.result is not AttemptResult.SNOOZED:
                    # One that was snoozed goes on under its number.
                    self._begun.pop(attempt, None)
                self._ran.append(_execution_of(event, failed, task))
        self._seen = len(self._events)
        return list(self._ran)


def _execution_of(
    event: AttemptFinished, failed: AttemptFailed | None, task: Task | None
) -> Execution:
    ended = (event.key, event.attempt, from_millis(event.finished_ms), event.result)
    if failed is None:
        return Execution(*ended, event.error_class, task=task)
    error = failed.error
    message = message_of(error, ERROR_MESSAGE_CHARS_MAX)
    # An error that was raised in a process has no frames here.
    stack = failed.stack or stack_of(error, ERROR_STACK_CHARS_MAX)
    return Execution(*ended, class_name_of(error), message, stack, task)


@public("hourhand.testing")
@dataclass(frozen=True, slots=True)
class RefusedTask:
    """A task that the client refused, and the reason."""

    task: object
    """Usually a Task; the object that was to be scheduled."""
    error: HourhandError

    def __str__(self) -> str:
        """Return task and reason in one line."""
        named = str(self.task.key) if isinstance(self.task, Task) else shown(self.task)
        return f"{named}: {class_name_of(self.error)}: {message_of(self.error)}"


class RecordingClient(SchedulerClient):
    """The real client, which also records refusals."""

    def __init__(self, *args: Any, has_default_executor: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._has_default_executor = has_default_executor
        self.refusals: list[RefusedTask] = []

    def _admitted(self, task: Task) -> tuple[TaskKey, bytes]:
        with self._noting(task):
            return super()._admitted(task)

    def _prepared(self, task: Task) -> Task:
        with self._noting(task):
            return super()._prepared(task)

    @contextmanager
    def _noting(self, task: object) -> Iterator[None]:
        try:
            yield
        except HourhandError as error:
            self.refusals.append(RefusedTask(task, error))
            raise


def explained(claim: str, *parts: "tuple[str, Iterable[object] | LastAttempts]") -> str:
    """Return a claim that does not hold, with possible explanations: titles and lists."""
    lines = [claim]
    for title, found in parts:
        if isinstance(found, LastAttempts):
            lines += found.told(title)
            continue
        listed = [str(each) for each in found]
        if listed:
            more = len(listed) - LISTED_MAX
            lines.append(
                f"{title}{f', the last {LISTED_MAX} of {len(listed)}' if more > 0 else ''}:"
            )
            lines += [indent(each, "  ") for each in listed[-LISTED_MAX:]]
    return "\n".join(lines)
