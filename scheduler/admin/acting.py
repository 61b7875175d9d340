"""Commands for many tasks: sent through the log, each outcome awaited for a bounded time.

Decides which tasks an action concerns and what is said of it.  What a command does to a key is
decided by the owner of its partition, in the order of the log.
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

from actors.model.errors import CallerError, LogUnavailable
from actors.model.key import TaskKey, TaskPair
from actors.model.status import RecordedOutcome
from actors.ports.clock import Clock
from actors.ports.store import Stores
from scheduler.admin.answers import Answer, KeyText, NameText, ShownOutcome, ShownReceipt
from scheduler.admin.outcome_words import said_of
from scheduler.admin.problems import Problem
from scheduler.client.client import SchedulerClient
from scheduler.futures.steps import begun
from scheduler.reading.inspector import Inspector, NodesWord, TaskState
from scheduler.reading.outcomes import found_outcome
from scheduler.records.receipt import CommandReceipt, PairReceipt, Receipt

ACKNOWLEDGED_S = 60.0
"""So long the log may take to acknowledge a record, and the store to answer."""
_LOOK_PAUSE_S = 0.05
PAGE_TASKS = 500
RESULTS_MAX = 1_000
_SHOWN_MAX = 20
_IN_FLIGHT_MAX = 500

Sent = TypeVar("Sent")
Decision = TypeVar("Decision")


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
    error_class: str | None = None
    """Only those whose last attempt failed with it."""
    system: bool = True
    """Whether Hourhand's own tasks are among them."""
    kinds: frozenset[str] = frozenset()
    """Only tasks of these kinds, where there are any."""
    word: NodesWord | None = None
    """The word of the nodes, which decides on the states; without it the store alone does."""


@dataclass(frozen=True, slots=True)
class SelectedTasks:
    """The tasks an action concerns."""

    keys: Sequence[TaskKey | TaskPair]
    next_after: TaskKey | None = None
    """Where the rest begins, for the next ``Filter.after``; None where there is none."""


@dataclass(slots=True)
class Tried:
    """What became of one command."""

    name: TaskKey | TaskPair
    """The thing that it was sent for."""
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
    """What became of an act on several things: how many came to what, and each of the first."""

    asked: int
    outcomes: dict[str, int]
    said: list[str]
    """The outcomes in sentences, for people."""

    @property
    def words(self) -> str:
        """The outcomes in a line, by their own words."""
        counts = sorted(self.outcomes.items())
        return ", ".join(f"{word} {count}" for word, count in counts) or "nothing"


class TaskResult(Answer, frozen=True):
    """What became of the command for one task."""

    key: NameText
    """As it was named: its key, or the pair of its ids."""
    outcome: str
    task: KeyText | UnsetType = UNSET
    """The key of the task that a pair was found to mean."""
    new_key: KeyText | UnsetType = UNSET
    several: list[KeyText] | UnsetType = UNSET
    """The first tasks that have both ids of a pair, where they are several."""
    receipt: ShownReceipt | UnsetType = UNSET
    detail: str | UnsetType = UNSET

    @classmethod
    def of(cls, tried: Tried) -> Self:
        """Show what was tried."""
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
    """What became of an act on tasks."""

    results: list[TaskResult]
    next_after: KeyText | None | UnsetType = UNSET
    """Where the rest of what a filter finds begins."""
    not_blocked: list[str] | UnsetType = UNSET
    """Ordering ids that no task blocks."""
    unknown: list[str] | UnsetType = UNSET
    """Ids under which no message waits."""

    @classmethod
    def of(cls, tried: Sequence[Tried], action: str) -> Self:
        """Show what was tried."""
        outcomes = dict(Counter(each.word for each in tried))
        return cls(
            asked=len(tried),
            outcomes=outcomes,
            said=said_of(action, outcomes),
            results=[TaskResult.of(each) for each in tried[:RESULTS_MAX]],
        )


class Preview(Answer, frozen=True):
    """What an act would concern; nothing was done."""

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
        """Send a command for each key or pair, and wait for what they achieve."""
        tried: list[Tried] = []
        for start in range(0, len(names), _IN_FLIGHT_MAX):
            some = [Tried(name) for name in names[start : start + _IN_FLIGHT_MAX]]
            tried += some
            self._send(action, some, to)
        sent = [each for each in tried if each.receipt is not None]
        await_decisions(sent, self._found, _take_note, wait_s, self._clock)
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
        assert receipt is not None, "only what was sent has an outcome"
        place = receipt.partition, receipt.offset
        return begun(found_outcome(self._stores, *place, tried.name))


def _take_note(tried: Tried, outcome: RecordedOutcome | None) -> bool:
    tried.outcome = outcome
    return outcome is not None


def await_decisions(
    sent: Iterable[Sent],
    look: "Callable[[Sent], Future[Decision]]",
    is_decided: Callable[[Sent, Decision], bool],
    wait_s: float,
    clock: Clock,
) -> None:
    """Look at what owners make of each until it is decided or ``wait_s`` is over; at least once."""
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
