"""Counts which rare states the runs of a sweep reach, so that those which none reached are seen.

A point is a turn in the life of a node (it dies, stops, gives a partition up, ...) while something
is under way there, or an entry of a certain sort in a run's history.  What can be under way is
derived from the product: the methods of the stores, the operations of TaskPersistence, the phases
of a task.  So a new one is a new point.  It judges nothing, and changes nothing in a run.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from inspect import isfunction, isgeneratorfunction
from typing import Any, get_args

from hourhand.actors.kernel.operations import Operation
from hourhand.actors.loading import Loading
from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.execution.task_state import Fate, Phase
from hourhand.actors.model.operations import events
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult
from hourhand.actors.ordering_executor import OrderingExecutor
from hourhand.actors.partition_executor import PartitionExecutor
from hourhand.actors.partition_scheduler import PartitionScheduler
from hourhand.actors.partition_supervisor import PartitionSupervisor
from hourhand.actors.persisting import Persisting
from hourhand.actors.ports import store
from hourhand.actors.ports.definitions import DefinitionStore
from hourhand.actors.ports.oversight import OversightStore
from hourhand.actors.schedule_reader import ScheduleReader
from hourhand.actors.task_persistence import TaskPersistence
from hourhand.actors.watermark import WatermarkKeeper
from hourhand.scheduler.adapters.memory.delivery import Request
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.ports.processes import is_in_process
from tests.simulation.history import Completed, Ended, Entry, History, Noted, OutcomeStored, Started
from tests.simulation.member import Member


class Turn(StrEnum):
    """A moment at which whatever is under way on a node is interrupted."""

    CRASH = "crash"
    STOP = "stop"
    GIVEN_UP = "given up"
    """It gives up a partition or all of them, with or without a word of the group."""
    TAKEN_OVER = "taken over"
    """A partition that it works on gets a later owner."""
    REBUILT = "rebuilt"
    """An actor of its tree fails."""
    FROZEN = "frozen"
    CUT_OFF = "cut off"
    """The group no longer hears it."""
    CLOCK = "clock"
    """Its wall clock is set."""


_OF_FAULTS = {"pause": Turn.FROZEN, "tree": Turn.REBUILT, "cut off": Turn.CUT_OFF}
"""The turns that faults bring, by what is noted of them."""


def turn_of(what: str) -> Turn | None:
    """Return the turn that is noted in these words of a fault; None where it is another matter."""
    return Turn.CLOCK if what.startswith("clock ") else _OF_FAULTS.get(what)


_STORES = (
    store.ScheduleStore,
    store.StatusStore,
    store.CheckpointStore,
    store.ResultStore,
    store.OwnershipStore,
    DefinitionStore,
    OversightStore,
)
_OF_OTHERS = (
    "find_results",
    "find_watermark",
    "agree_partition_count",
    "replace_config",
    "append_audit",
    "page_audit",
    "page",
)
"""The methods of stores that only clients and operators call."""
_LOG = ("append", "dead_letter", "commit")
_PARTS = (TaskPersistence, Persisting, Loading, WatermarkKeeper, ScheduleReader)
"""The classes whose generators are operations of a partition, or parts of one."""

_ATTEMPT = "an attempt"
_STATES = (
    _ATTEMPT,
    "an attempt that nobody can cancel",
    "a second attempt",
    "an attempt behind another one of its batch",
    "an attempt without order",
    "an attempt in a process",
    "an attempt whose partition is gone",
    "a snoozed task",
    "the catch-up of a partition",
    "a drain",
    "a backlog",
    "a full budget",
    "a paused id",
    "a read of one id",
    "an id with later tasks in the store",
)


def _kinds() -> Iterator[str]:
    for port in _STORES:
        yield from (name for name in _own(port, isfunction) if name not in _OF_OTHERS)
    yield from _LOG


def _operations() -> Iterator[str]:
    for part in _PARTS:
        found = _own(part, isgeneratorfunction)
        yield from (f"operation {part.__name__}.{name}" for name in found)


def _own(owner: type, is_wanted: Any) -> list[str]:
    return [name for name, each in vars(owner).items() if is_wanted(each) and name[:2] != "__"]


REQUESTS = tuple(dict.fromkeys(_kinds()))
"""The kinds of requests that a node makes to store and log."""


def under_way() -> tuple[str, ...]:
    """Return all that can be under way at a turn."""
    return (
        *_STATES,
        *(f"phase {each.name.lower()}" for each in Phase),
        *(f"fate {each.name.lower()}" for each in Fate if each is not Fate.OPEN),
        *_operations(),
        *(f"request {kind}" for kind in REQUESTS),
    )


def entries() -> tuple[str, ...]:
    """Return the sorts of entries of a history that are points."""
    return (
        *(f"completion {each}" for each in CompletionResult),
        *(f"command {each}" for each in CommandOutcome if each not in _OF_PAIRS_ALONE),
        *(f"command by pair {each}" for each in CommandOutcome if each not in _OF_KEYS_ALONE),
        *(f"ending {each}" for each in Ending if each.is_of_user_code),
        *(f"event {each.__name__}" for each in get_args(events.Event) if each not in _ELSEWHERE),
        *(f"start {each}" for each in _STARTS),
    )


_OF_PAIRS_ALONE = (
    CommandOutcome.UNKNOWN_PAIR,
    CommandOutcome.SEVERAL_TASKS,
    CommandOutcome.CANCELLED,
)
"""The outcomes that only a command for a pair has, and the one that readers make of ``running``."""
_OF_KEYS_ALONE = (
    CommandOutcome.CANCELLED,
    CommandOutcome.UNKNOWN_KEY,
    CommandOutcome.STILL_OPEN,
    CommandOutcome.DATA_GONE,
    CommandOutcome.RAN_ALREADY,
)
"""The outcomes that only a command with a whole key has."""
_ELSEWHERE = (
    events.TasksSucceeded,
    events.WorkersExhausted,
    events.WorkersFreed,
    events.LoopBlocked,
    events.LoopFreed,
    events.TaskEnqueued,
    events.BulkEnqueued,
    events.StoreCalled,
    events.LogCalled,
    events.AssignmentReceived,
    events.SelfChecked,
    events.PromiseDoubted,
    events.OwnerBegan,
    events.TransactionCommitted,
    events.BucketSplit,
    events.LimitChanged,
)
"""The events of parts that the simulation has no node for: clients, measured ports, the audit, the
movers of outboxes, the watch of limits and of real threads; and the one that is told as others.
"""
_STARTS = (
    "after an earlier owner",
    "with a checkpoint",
    "with a checkpoint of an earlier owner",
    "after a snooze",
    "with an expiry",
    "beside an excused attempt",
    "behind another of its batch",
)


_ENDINGS = frozenset(Ending)


class Reached:
    """The points that one run reached, each with how often."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._requests: defaultdict[str, Counter[tuple[str, int]]] = defaultdict(Counter)
        """By sender: the requests that have no answer yet, by kind and partition."""

    # Requests under way.

    def asked(self, sender: str, request: Request[Any]) -> None:
        """Note a request, until it is answered."""
        waiting = self._requests[sender]
        place = request.kind, request.partition
        waiting[place] += 1

        def answered(_future: object) -> None:
            waiting[place] -= 1

        request.future.add_done_callback(answered)

    # Turns.

    def turned(
        self,
        turn: Turn,
        member: Member,
        attempts: Iterable[RunningAttempt],
        partition: int | None = None,
    ) -> None:
        """Count a turn with all that is under way on a node, of one partition or of all."""
        waiting = self._requests[member.name]
        places = partition if partition is None else {partition, -1}
        found = {
            f"request {kind}"
            for (kind, place), count in waiting.items()
            if count > 0 and (places is None or place in places)
        }
        for running in attempts:
            if partition is None or running.attempt.partition == partition:
                found.update(_of_attempt(running))
        if member.workers.blocking_partitions():
            found.add("an attempt that nobody can cancel")
        found.update(_of_tree(member, partition))
        self.counts.update(f"{turn}, {each}" for each in found)

    # Entries.

    def read(self, history: History) -> None:
        """Count the entries of a whole run."""
        owners: dict[str, int] = {}
        for entry in history.entries:
            self.counts.update(_of_entry(entry, owners))


def _of_attempt(running: RunningAttempt) -> Iterator[str]:
    attempt = running.attempt
    yield _ATTEMPT
    if attempt.number > 1:
        yield "a second attempt"
    if attempt.follows is not None:
        yield "an attempt behind another one of its batch"
    if attempt.is_unordered:
        yield "an attempt without order"
    if is_in_process(running.executor):
        yield "an attempt in a process"
    if running.listener is None:
        yield "an attempt whose partition is gone"


def _of_tree(member: Member, partition: int | None) -> Iterator[str]:
    for context in member.contexts():
        match actor := context.actor:
            case PartitionSupervisor() if partition in (None, actor._partition):
                if not actor._caught_up:
                    yield "the catch-up of a partition"
            case TaskPersistence() if partition in (None, actor._assignment.ownership.partition):
                if (operations := getattr(actor, "_operations", None)) is not None:
                    yield from _of_operation(operations._current)
            case PartitionScheduler() if partition in (None, actor._partition):
                if len(tuple(actor._bands)) > 1:
                    yield "a backlog"
                if actor._budget is not None and actor._budget.slots >= actor._slots:
                    yield "a full budget"
            case PartitionExecutor() if partition in (None, actor._ownership.partition):
                if actor._draining:
                    yield "a drain"
                for ordering in actor._orderings.values():
                    yield from _of_ordering(ordering)
                    if ordering.is_paused and not actor._draining:
                        yield "a paused id"


def _of_operation(operation: Operation | None) -> Iterator[str]:
    """Yield the parts of an operation that wait, the outermost first."""
    part: Any = operation
    while part is not None and hasattr(part, "gi_yieldfrom"):
        yield f"operation {part.__qualname__}"
        part = part.gi_yieldfrom


def _of_ordering(ordering: OrderingExecutor) -> Iterator[str]:
    front, queue = ordering.front, ordering.queue
    if front is not None:
        yield f"phase {front.phase.name.lower()}"
        if front.fate is not Fate.OPEN:
            yield f"fate {front.fate.name.lower()}"
        if front.task.attempts.snoozed:
            yield "a snoozed task"
    if ordering.run:
        yield "phase following"
    if queue is not None and queue.reading is not None:
        yield "a read of one id"
    if queue is not None and queue.stored is not None:
        yield "an id with later tasks in the store"


def _of_entry(entry: Entry, owners: dict[str, int]) -> Iterator[str]:
    match entry:
        case Completed(result=result):
            yield f"completion {CompletionResult(result)}"
        case OutcomeStored(outcome=outcome, pair=pair):
            yield f"command {'' if pair is None else 'by pair '}{outcome.outcome}"
        case Ended(ending=ending) if ending in _ENDINGS:
            yield f"ending {ending}"
        case Noted(event=event):
            yield f"event {type(event).__name__}"
        case Started():
            yield from _of_start(entry, owners)
        case _:
            pass


def _of_start(start: Started, owners: dict[str, int]) -> Iterator[str]:
    before = owners.get(str(start.key))
    owners[str(start.key)] = start.epoch
    is_later = before is not None and before < start.epoch
    found = {
        "after an earlier owner": is_later,
        "with a checkpoint": start.found is not None,
        "with a checkpoint of an earlier owner": start.found is not None
        and start.found.epoch < start.epoch,
        "after a snooze": start.snoozed > 0,
        "with an expiry": start.expires_ms is not None,
        "beside an excused attempt": any(each.excuse for each in start.beside),
        "behind another of its batch": bool(start.behind),
    }
    yield from (f"start {each}" for each in _STARTS if found[each])


# The table of a sweep.


def points() -> tuple[str, ...]:
    """Return every point there is."""
    return (*(f"{turn}, {each}" for turn in Turn for each in under_way()), *entries())


def table(counts: Mapping[str, int]) -> str:
    """Return how often each point was reached, and how many were not, for a person to read."""
    turns = list(Turn)
    rows = [("", *turns)]
    for each in under_way():
        rows.append((each, *(f"{counts.get(f'{turn}, {each}', 0):,}" for turn in turns)))
    wide = max(len(row[0]) for row in rows)
    lines = [f"  {row[0]:{wide}}" + "".join(f"{cell:>12}" for cell in row[1:]) for row in rows]
    lines += [f"  {each:{wide}}{counts.get(each, 0):>12,}" for each in entries()]
    every = points()
    reached = sum(counts.get(each, 0) > 0 for each in every)
    return "\n".join((f"points reached: {reached} of {len(every)}", *lines))
