"""Commands for many tasks: sent through the log, each outcome awaited for a bounded time.

Decides which tasks an action concerns and reports the outcomes. The effect of a command is decided
by the owner of its partition, in the order of the log.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Literal, Self, TypeVar

from msgspec import UNSET, UnsetType

from hourhand.actors.model.task.key import TaskKey, TaskPair
from hourhand.actors.model.task.status import CommandOutcome, RecordedOutcome
from hourhand.actors.model.values.errors import CallerError, LogUnavailable
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.admin.answers import Answer, KeyText, NameText, ShownOutcome, ShownReceipt
from hourhand.scheduler.admin.outcome_words import said_of
from hourhand.scheduler.admin.problems import Problem
from hourhand.scheduler.client.client import SchedulerClient
from hourhand.scheduler.runtime.steps import begun
from hourhand.scheduler.tasks.inspector import Inspector, NodesWord, TaskState
from hourhand.scheduler.tasks.outcomes import found_outcome
from hourhand.scheduler.tasks.receipt import CommandReceipt, PairReceipt, Receipt

ACKNOWLEDGED_S = 60.0
"""Seconds for the log to acknowledge a record, and for the store to answer."""
_LOOK_PAUSE_S = 0.05
PAGE_TASKS = 500
RESULTS_MAX = 1_000
_SHOWN_MAX = 20
_IN_FLIGHT_MAX = 500

Sent = TypeVar("Sent")
Decision = TypeVar("Decision")


class Action(StrEnum):
    """The actions on a task."""

    DROP = "drop"
    CANCEL = "cancel"
    CANCEL_RUNNING = "cancel-running"
    """Cancel, and ask code to end that runs."""
    RETRY = "retry"
    RUN_NOW = "run-now"
    RESCHEDULE = "reschedule"


@dataclass(frozen=True, slots=True)
class Filter:
    """The tasks that a bulk action concerns."""

    from_ms: int
    to_ms: int
    states: frozenset[TaskState]
    ordering_id: str | None
    partition: int | None = None
    limit: int | None = None
    """Number of tasks to take in key order; None means all of them."""
    after: TaskKey | None = None
    """Only tasks behind this key, as in a listing."""
    error_class: str | None = None
    """Only tasks whose last attempt failed with this class of error."""
    system: bool = True
    """True if Hourhand's own tasks are included."""
    kinds: frozenset[str] = frozenset()
    """Only tasks of these kinds, where there are any."""
    word: NodesWord | None = None
    """The nodes' reports, which together with the store decide on the states; without them the
    store alone does."""


@dataclass(frozen=True, slots=True)
class SelectedTasks:
    """The tasks an action concerns."""

    keys: Sequence[TaskKey | TaskPair]
    next_after: TaskKey | None = None
    """The value of ``Filter.after`` for the rest; None if there is no rest."""


@dataclass(slots=True)
class Tried:
    """One command and its outcome."""

    name: TaskKey | TaskPair
    """The task or pair that it was sent for."""
    receipt: CommandReceipt | None = None
    outcome: RecordedOutcome | None = None
    error: CallerError | None = None

    @property
    def word(self) -> str:
        """The outcome in a word."""
        if self.error is not None:
            return self.error.code
        if self.receipt is None:
            return "unsent"
        return "undecided" if self.outcome is None else self.outcome.outcome.value


class ActReport(Answer, frozen=True):
    """The outcomes of an act on several things: their counts, and the first results."""

    asked: int
    outcomes: dict[str, int]
    said: list[str]
    """The outcomes in sentences, for people."""

    @property
    def words(self) -> str:
        """The outcomes in a line, each by its code."""
        counts = sorted(self.outcomes.items())
        return ", ".join(f"{word} {count}" for word, count in counts) or "nothing"


class TaskResult(Answer, frozen=True):
    """The outcome of the command for one task."""

    key: NameText
    """The name from the request: a key, or the pair of its ids."""
    outcome: str
    task: KeyText | UnsetType = UNSET
    """The key of the task that a pair named."""
    new_key: KeyText | UnsetType = UNSET
    several: list[KeyText] | UnsetType = UNSET
    """The first tasks with both ids of a pair, if there are several."""
    receipt: ShownReceipt | UnsetType = UNSET
    detail: str | UnsetType = UNSET

    @classmethod
    def of(cls, tried: Tried) -> Self:
        """Show a command and its outcome."""
        outcome = tried.outcome
        shown = None if outcome is None else ShownOutcome.of(outcome, None)
        return cls(
            key=str(tried.name),
            outcome=tried.word,
            task=UNSET if shown is None or isinstance(tried.name, TaskKey) else shown.key,
            new_key=UNSET if shown is None else shown.new_key,
            several=UNSET if shown is None else shown.several,
            receipt=UNSET if tried.receipt is None else ShownReceipt.of(tried.receipt),
            detail=UNSET if tried.error is None else str(tried.error),
        )


class TasksActedOn(ActReport, frozen=True):
    """The outcomes of an act on tasks."""

    results: list[TaskResult]
    next_after: KeyText | None | UnsetType = UNSET
    """The key behind which the rest of the filter's tasks begins."""
    not_blocked: list[str] | UnsetType = UNSET
    """Ordering ids that no task blocks."""
    unknown: list[str] | UnsetType = UNSET
    """Ids under which no message waits."""

    @classmethod
    def of(cls, tried: Sequence[Tried], action: str) -> Self:
        """Show commands and their outcomes."""
        outcomes = dict(Counter(each.word for each in tried))
        return cls(
            asked=len(tried),
            outcomes=outcomes,
            said=said_of(action, outcomes),
            results=[TaskResult.of(each) for each in tried[:RESULTS_MAX]],
        )


class Preview(Answer, frozen=True):
    """The tasks that an act would concern; nothing was done."""

    dry_run: Literal[True]
    count: int
    first: list[str]
    next_after: KeyText | None | UnsetType = UNSET
    not_blocked: list[str] | UnsetType = UNSET
    unknown: list[str] | UnsetType = UNSET

    @classmethod
    def of(cls, names: Sequence[TaskKey | TaskPair | str]) -> Self:
        """Show the first of these names."""
        first = [str(each) for each in names[:_SHOWN_MAX]]
        return cls(dry_run=True, count=len(names), first=first)


class Actions:
    """Sends commands; used from any thread."""

    def __init__(
        self, client: SchedulerClient, inspector: Inspector, stores: Stores, clock: Clock
    ) -> None:
        self._client = client
        self._inspector = inspector
        self._stores = stores
        self._clock = clock

    def selected(self, chosen: Filter, keys_max: int) -> SelectedTasks:
        """Return the tasks that match a filter; Problem if there are more than an act may
        concern.
        """
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
                error_class=chosen.error_class,
                system=chosen.system,
                word=chosen.word,
                kinds=chosen.kinds,
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
        return SelectedTasks(found, after)

    def act(
        self,
        action: Action,
        names: Sequence[TaskKey | TaskPair],
        to: datetime | None,
        wait_s: float,
    ) -> list[Tried]:
        """Send a command for each key or pair, and wait for the outcomes."""
        tried: list[Tried] = []
        for start in range(0, len(names), _IN_FLIGHT_MAX):
            some = [Tried(name) for name in names[start : start + _IN_FLIGHT_MAX]]
            tried += some
            self._send(action, some, to)
        sent = [each for each in tried if each.receipt is not None]
        take_note = _take_note_of_end if action is Action.CANCEL_RUNNING else _take_note
        await_decisions(sent, self._found, take_note, wait_s, self._clock)
        return tried

    def _send(self, action: Action, tried: Sequence[Tried], to: datetime | None) -> None:
        send = self._sender(action, to)
        pending = [(each, send(each.name)) for each in tried]
        for each, future in pending:
            try:
                each.receipt = future.result(timeout=ACKNOWLEDGED_S)
            except CallerError as error:
                each.error = error
            except TimeoutError:
                raise LogUnavailable("the log did not acknowledge a command in time") from None

    def _sender(
        self, action: Action, to: datetime | None
    ) -> "Callable[[TaskKey | TaskPair], Future[Receipt] | Future[PairReceipt]]":
        match action:
            case Action.DROP:
                return self._client.drop_task
            case Action.CANCEL:
                return self._client.cancel_task
            case Action.CANCEL_RUNNING:
                return lambda name: self._client.cancel_task(name, running=True)
            case Action.RETRY:
                return self._client.retry_task
            case Action.RUN_NOW:
                return self._client.run_task_now
            case Action.RESCHEDULE:
                if to is None:
                    raise Problem(400, "invalid-request", "reschedule needs `to`, a time")
                return lambda name: self._client.reschedule_task(name, to)

    def _found(self, tried: Tried) -> "Future[RecordedOutcome | None]":
        receipt = tried.receipt
        assert receipt is not None, "only a sent command has an outcome"
        place = receipt.partition, receipt.offset
        return begun(found_outcome(self._stores, *place, tried.name))


def _take_note(tried: Tried, outcome: RecordedOutcome | None) -> bool:
    tried.outcome = outcome
    return outcome is not None


def _take_note_of_end(tried: Tried, outcome: RecordedOutcome | None) -> bool:
    """Take note of an outcome, and wait on while code runs that was asked to end."""
    tried.outcome = outcome
    return outcome is not None and outcome.outcome is not CommandOutcome.RUNNING


def await_decisions(
    sent: Iterable[Sent],
    look: "Callable[[Sent], Future[Decision]]",
    is_decided: Callable[[Sent, Decision], bool],
    wait_s: float,
    clock: Clock,
) -> None:
    """Ask for each decision until all are there or ``wait_s`` is over; at least once."""
    deadline_ms = clock.monotonic_ms() + wait_s * 1000
    left = list(sent)
    pause = threading.Event()
    while left:
        looking = [(each, look(each)) for each in left]
        left = [
            each
            for each, future in looking
            if not is_decided(each, future.result(timeout=ACKNOWLEDGED_S))
        ]
        if clock.monotonic_ms() >= deadline_ms:
            return
        if left:
            pause.wait(_LOOK_PAUSE_S)
