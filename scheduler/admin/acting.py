"""Commands for many tasks: sent through the log, each outcome awaited for a bounded time.

Decides which tasks an action concerns and what is said of it.  What a command does to a key is
decided by the owner of its partition, in the order of the log.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from actors.model.errors import CallerError, LogUnavailable
from actors.model.key import TaskKey
from actors.model.status import RecordedOutcome
from actors.ports.clock import Clock
from actors.ports.store import Stores
from scheduler.admin.auditing import outcome_words
from scheduler.admin.refusals import Problem
from scheduler.admin.undecided import ACKNOWLEDGED_S, await_decisions
from scheduler.admin.values import outcome_value, receipt_value
from scheduler.client.client import SchedulerClient
from scheduler.reading.inspector import Inspector, TaskState
from scheduler.records.receipt import Receipt

PAGE_TASKS = 500
RESULTS_MAX = 1_000
_IN_FLIGHT_MAX = 500


class Action(StrEnum):
    """What may be asked for a task."""

    DROP = "drop"
    CANCEL = "cancel"
    RETRY = "retry"
    RUN_NOW = "run-now"
    RESCHEDULE = "reschedule"


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tasks a bulk action concerns."""

    from_ms: int
    to_ms: int
    states: frozenset[TaskState]
    ordering_id: str | None
    partition: int | None = None
    limit: int | None = None
    """The first so many in key order; None means all of them."""
    after: TaskKey | None = None
    """Only those behind this key, as in a listing."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The tasks an action concerns."""

    keys: Sequence[TaskKey]
    next_after: TaskKey | None = None
    """Where the rest begins, for the next ``Filter.after``; None where there is none."""


@dataclass(slots=True)
class Tried:
    """What became of one command."""

    key: TaskKey
    receipt: Receipt | None = None
    outcome: RecordedOutcome | None = None
    error: CallerError | None = None

    @property
    def word(self) -> str:
        """The outcome in a word."""
        if self.error is not None:
            return self.error.code
        return outcome_value(self.outcome)["outcome"] if self.receipt is not None else "unsent"


@dataclass(slots=True)
class Report:
    """What became of an action."""

    tried: list[Tried] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Outcome to number of tasks."""
        return dict(Counter(each.word for each in self.tried))

    @property
    def words(self) -> str:
        """The counts in a line."""
        return outcome_words(self.counts)

    def value(self) -> dict[str, Any]:
        """Return it as a JSON value."""
        return {
            "asked": len(self.tried),
            "outcomes": self.counts,
            "results": [_tried_value(each) for each in self.tried[:RESULTS_MAX]],
        }


class Actions:
    """Sends commands; used from any thread."""

    def __init__(
        self, client: SchedulerClient, inspector: Inspector, stores: Stores, clock: Clock
    ) -> None:
        self._client = client
        self._inspector = inspector
        self._stores = stores
        self._clock = clock

    def selected(self, chosen: Filter, keys_max: int) -> Selection:
        """Return what a filter finds; Problem where that is more than may be acted on."""
        bound = keys_max if chosen.limit is None else min(chosen.limit, keys_max)
        found: list[TaskKey] = []
        after = chosen.after
        while True:
            listing = self._inspector.list_tasks(
                from_ms=chosen.from_ms,
                to_ms=chosen.to_ms,
                limit=min(PAGE_TASKS, bound - len(found)),
                states=chosen.states,
                ordering_id=chosen.ordering_id,
                partition=chosen.partition,
                after=after,
            )
            found += [view.key for view in listing.tasks]
            after = listing.next_after
            if after is None or len(found) == bound:
                break
        if after is not None and bound != chosen.limit:
            raise Problem(
                409,
                "too-many-tasks",
                f"more than {keys_max} tasks match (admin.bulk_keys_max): narrow the filter",
            )
        return Selection(found, after)

    def blocked(self, ordering_id: str) -> TaskKey | None:
        """Return the task that blocks an ordering id, if one does."""
        after: TaskKey | None = None
        while True:
            # What blocks was attempted, and so was due.
            listing = self._inspector.list_open(
                to_ms=self._clock.now_ms() + 1,
                limit=PAGE_TASKS,
                looked_max=PAGE_TASKS,
                ordering_id=ordering_id,
                after=after,
            )
            for view in listing.tasks:
                if view.state is TaskState.BLOCKED:
                    return view.key
            after = listing.next_after
            if after is None:
                return None

    def act(
        self, action: Action, keys: Sequence[TaskKey], to: datetime | None, wait_s: float
    ) -> Report:
        """Send a command for each key and wait for what they achieve."""
        report = Report()
        for start in range(0, len(keys), _IN_FLIGHT_MAX):
            some = [Tried(key) for key in keys[start : start + _IN_FLIGHT_MAX]]
            report.tried += some
            self._send(action, some, to)
        sent = [each for each in report.tried if each.receipt is not None]
        await_decisions(sent, self._found, _take_note, wait_s, self._clock)
        return report

    def _send(self, action: Action, tried: Sequence[Tried], to: datetime | None) -> None:
        send = self._sender(action, to)
        pending = [(each, send(each.key)) for each in tried]
        for each, future in pending:
            try:
                each.receipt = future.result(timeout=ACKNOWLEDGED_S)
            except CallerError as error:
                each.error = error
            except TimeoutError:
                raise LogUnavailable("the log did not acknowledge a command in time") from None

    def _sender(
        self, action: Action, to: datetime | None
    ) -> "Callable[[TaskKey], Future[Receipt]]":
        match action:
            case Action.DROP:
                return self._client.drop_task
            case Action.CANCEL:
                return self._client.cancel_task
            case Action.RETRY:
                return self._client.retry_task
            case Action.RUN_NOW:
                return self._client.run_task_now
            case Action.RESCHEDULE:
                if to is None:
                    raise Problem(400, "invalid-request", "reschedule needs `to`, a time")
                return lambda key: self._client.reschedule_task(key, to)

    def _found(self, tried: Tried) -> "Future[RecordedOutcome | None]":
        receipt = tried.receipt
        assert receipt is not None, "only what was sent has an outcome"
        return self._stores.ownership.find_outcome(receipt.partition, receipt.offset)


def _take_note(tried: Tried, outcome: RecordedOutcome | None) -> bool:
    tried.outcome = outcome
    return outcome is not None


def _tried_value(tried: Tried) -> dict[str, Any]:
    value: dict[str, Any] = {"key": str(tried.key), "outcome": tried.word}
    if tried.outcome is not None and tried.outcome.new_key is not None:
        value["newKey"] = str(tried.outcome.new_key)
    if tried.receipt is not None:
        value["receipt"] = receipt_value(tried.receipt)
    if tried.error is not None:
        value["detail"] = str(tried.error)
    return value
