"""Recurring schedules as operators see them: a page of them, one with its runs, changes to many.

Decides what is shown and how long a change is waited for.  What a change does is decided by the
owner of the schedule, in the order of the log.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from actors.model.definition import Definition, DefinitionKind
from actors.model.errors import CallerError, LogUnavailable
from actors.model.key import TaskKey
from actors.model.status import Completion, CompletionResult
from actors.ports.clock import Clock
from actors.ports.store import Stores
from scheduler.admin.definitions import ANSWER_S, Listing, list_definitions
from scheduler.admin.undecided import ACKNOWLEDGED_S, await_decisions
from scheduler.admin.values import instant_value, receipt_value, view_value
from scheduler.client.client import SchedulerClient
from scheduler.reading.inspector import Inspector
from scheduler.records.receipt import Receipt
from scheduler.services.definition_book import DefinitionBook
from scheduler.services.recurring.rule import checked_name, next_times
from scheduler.services.recurring.state import Recurring, name_of, recent_keys, recurring_of


class RecurringChange(StrEnum):
    """What may be asked for a recurring schedule."""

    PAUSE = "pause"
    RESUME = "resume"
    TRIGGER = "trigger"
    DELETE = "delete"


@dataclass(slots=True)
class _Asked:
    """What became of one change."""

    name: str
    receipt: Receipt | None = None
    completion: Completion | None = None
    error: CallerError | None = None

    @property
    def word(self) -> str:
        if self.error is not None:
            return self.error.code
        if self.completion is None:
            return "undecided"
        return "applied" if self.completion.result is CompletionResult.SUCCESS else "refused"


class RecurringSchedules:
    """Reads and changes schedules; used from any thread."""

    def __init__(
        self,
        client: SchedulerClient,
        definitions: DefinitionBook,
        inspector: Inspector,
        stores: Stores,
        clock: Clock,
    ) -> None:
        self._client = client
        self._definitions = definitions
        self._inspector = inspector
        self._stores = stores
        self._clock = clock

    def page(self, after: str | None, limit: int) -> Listing[Recurring]:
        """Return about ``limit`` schedules; InvalidInput where ``after`` is no cursor."""
        return list_definitions(
            self._definitions, DefinitionKind.RECURRING, after, limit, _unless_over
        )

    def find(self, name: str) -> Recurring | None:
        """Return one schedule; None where there is none, or it has ended."""
        return self.known([name]).get(name)

    def known(self, names: Sequence[str]) -> dict[str, Recurring]:
        """Return those of these schedules that there are; InvalidTask for what is no name."""
        rows = self._definitions.find_all(name_of(checked_name(each)) for each in names)
        found = [recurring_of(row) for row in rows.result(timeout=ANSWER_S) if not row.ended]
        return {each.name: each for each in found if not each.state.over}

    def shown(self, schedule: Recurring, next_count: int, *, data: bool) -> dict[str, Any]:
        """Return one schedule with its next times and its last runs, the newest first."""
        value = recurring_value(schedule, data=data)
        times: list[str] = []
        if not schedule.state.paused:
            now_ms, anchor_ms = self._clock.now_ms(), schedule.state.anchor_ms
            times = next_times(schedule.rule, now_ms, anchor_ms, next_count)
        pairs = [each.split(" ") for each in times]
        value["nextTimes"] = [{"time": time, "local": local} for time, local in pairs]
        runs = map(self._inspector.show, reversed(recent_keys(schedule.state)))
        value["lastRuns"] = [view_value(each, data=data) for each in runs]
        return value

    def change(
        self, change: RecurringChange, names: Sequence[str], wait_s: float
    ) -> dict[str, Any]:
        """Ask for a change of each schedule, and wait for what its owner makes of it."""
        send = self._sender(change)
        futures = [(_Asked(name), send(name)) for name in names]
        for asked, future in futures:
            try:
                asked.receipt = future.result(timeout=ACKNOWLEDGED_S)
            except CallerError as error:
                asked.error = error
            except TimeoutError:
                raise LogUnavailable("the log did not acknowledge a change in time") from None
        all_asked = [asked for asked, _ in futures]
        sent = [asked for asked in all_asked if asked.receipt is not None]
        await_decisions(sent, self._found, _take_note, wait_s, self._clock)
        return {
            "asked": len(all_asked),
            "outcomes": dict(Counter(asked.word for asked in all_asked)),
            "results": [_asked_value(asked) for asked in all_asked],
        }

    def _sender(self, change: RecurringChange) -> "Callable[[str], Future[Receipt]]":
        match change:
            case RecurringChange.PAUSE:
                return self._client.pause_recurring
            case RecurringChange.RESUME:
                return self._client.resume_recurring
            case RecurringChange.TRIGGER:
                return self._client.trigger_recurring
            case RecurringChange.DELETE:
                return self._client.delete_recurring

    def _found(self, asked: _Asked) -> "Future[Mapping[TaskKey, Completion]]":
        """Look whether the task of a change has ended."""
        assert asked.receipt is not None, "only what was sent is decided"
        key, partition = asked.receipt.key, asked.receipt.partition
        return self._stores.status.find_completions(partition, [key])


def _unless_over(row: Definition) -> Recurring | None:
    schedule = recurring_of(row)
    return None if schedule.state.over else schedule


def recurring_value(schedule: Recurring, *, data: bool = True) -> dict[str, Any]:
    """Return a schedule as a JSON value."""
    state, rule = schedule.state, dict(schedule.state.rule)
    if not data:
        rule.pop("data", None)
    last = state.recent[-1] if state.recent else None
    return {
        "name": schedule.name,
        "orderingId": schedule.rule.ordering_id,
        "rule": rule,
        "paused": state.paused,
        "next": instant_value(schedule.next_ms),
        "last": None if last is None else _run_value(last),
        "taken": state.taken,
        "skipped": state.skipped,
        "missed": state.missed,
    }


def _run_value(text: str) -> dict[str, Any]:
    return {"key": text, "time": instant_value(TaskKey.parse(text).scheduled_ms)}


def _take_note(asked: _Asked, found: Mapping[TaskKey, Completion]) -> bool:
    assert asked.receipt is not None, "only what was sent is decided"
    asked.completion = found.get(asked.receipt.key)
    return asked.completion is not None


def _asked_value(asked: _Asked) -> dict[str, Any]:
    value: dict[str, Any] = {"name": asked.name, "outcome": asked.word}
    if asked.completion is not None and asked.completion.reason:
        value["detail"] = asked.completion.reason
    if asked.error is not None:
        value["detail"] = str(asked.error)
    if asked.receipt is not None:
        value["receipt"] = receipt_value(asked.receipt)
    return value
