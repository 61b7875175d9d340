"""A client's questions to the store about tasks, for threads and for coroutines.

Decides which questions are valid (CallerError), the meaning of missing rows, and the end of a wait.
Single tasks are found in steps between answers of the store, which block no thread. It decides the
pauses between two looks; the caller sleeps.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime, timedelta
from math import isnan
from typing import Any

from msgspec.structs import replace

from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.sealed import SealedMembers
from hourhand.actors.model.task.status import RecordedOutcome
from hourhand.actors.model.task.task_result import StoredResult, result_value
from hourhand.actors.model.values.display import message_of, shown
from hourhand.actors.model.values.errors import (
    InvalidKey,
    InvalidTask,
    NoResult,
    ResultGone,
    TaskNotFound,
)
from hourhand.actors.model.values.instant import INSTANT_MAX_MS, INSTANT_MIN_MS, format_instant
from hourhand.actors.model.values.log_offset import RECORDS_MAX, era_of, kept_offset
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.runtime.light_future import LightFuture, and_then
from hourhand.scheduler.runtime.steps import Steps, begun
from hourhand.scheduler.tasks.admission import checked_key, checked_pair, checked_place, target_ms
from hourhand.scheduler.tasks.inspector import Inspector
from hourhand.scheduler.tasks.outcome_stream import OutcomeInfo, outcome_info
from hourhand.scheduler.tasks.outcomes import found_outcome
from hourhand.scheduler.tasks.pairs import no_task, open_keys, several_tasks
from hourhand.scheduler.tasks.placing import placing_count, require_home
from hourhand.scheduler.tasks.receipt import CommandReceipt, Receipt
from hourhand.scheduler.tasks.task_info import Absence, AttemptInfo, TaskInfo, shown_attempts
from hourhand.scheduler.tasks.task_state import (
    OPEN_STATES,
    TaskState,
    TaskView,
    view_of,
    with_last_end,
)

KeyOrReceipt = TaskKey | Receipt
KeyOrPair = TaskKey | tuple[str, str]
"""A task's key, or its ordering id and uniqueness key where one open task has both."""
KeyReceiptOrPair = KeyOrReceipt | tuple[str, str]

_PAGE_TASKS = 500
_FIRST_PAUSE_S = 0.02
_PAUSE_GROWTH = 1.5
_PAUSE_S_MIN = 0.001
"""The rest of a wait may be shorter than the resolution of clocks."""
_PAUSE_S_MAX = 1.0


@dataclass(frozen=True, slots=True)
class ChosenTasks:
    """The tasks of a listing."""

    from_ms: int
    to_ms: int
    states: frozenset[TaskState]
    ordering_id: str | None
    kind: str | None
    limit: int | None
    results: bool = False
    """True if results are read as well."""

    def has(self, info: TaskInfo) -> bool:
        """True if a task has the kind, and is not one of Hourhand's own unless its id is named."""
        internal = self.ordering_id is None and info.key.ordering_id.startswith(RESERVED)
        return self.kind in {None, info.kind} and not internal


class TaskQueries:
    """Asks an installation's stores about its tasks; used from any thread."""

    def __init__(
        self,
        stores_soon: Callable[[], LightFuture[Stores]],
        partition_count: int,
        payloads: PayloadCodecs | None,
        now_ms: Callable[[], int],
    ) -> None:
        """``now_ms`` returns the wall time: results are kept until a time."""
        self._payloads = payloads
        self._now_ms = now_ms
        self._stores_soon = stores_soon
        self._partition_count = partition_count
        self._placing_count: int | None = None

    def find(self, task: KeyReceiptOrPair, *, with_result: bool = False) -> LightFuture[TaskInfo]:
        """Return the stored state of a task, or of the open task of a pair of ids.

        Its data is in stored form, for ``opened``, and so is its result, if asked for.
        """
        if isinstance(task, tuple) and not isinstance(task, TaskKey):
            return and_then(self.open_key(task), self.find)
        key, offset = _key_of(task), None
        if isinstance(task, Receipt):
            _, offset = checked_place(task.partition, task.offset)

        def steps() -> Steps[TaskInfo]:
            stores: Stores = yield self._stores_soon()
            count = yield from self._placing(stores)
            info = yield from found_task(stores, count, key, offset)
            if with_result and info.state is TaskState.SUCCESS:
                return replace(info, result=(yield from _found_result(stores, count, info)))
            return info

        return begun(steps())

    def opened(self, info: TaskInfo) -> TaskInfo:
        """Return a task with data and result opened, or with the reasons why these are sealed; may
        block.
        """
        return self._opened_data(self._opened_result(info))

    def _opened_result(self, info: TaskInfo) -> TaskInfo:
        found = info.result
        if not isinstance(found, StoredResult):
            return info
        if not found.is_kept(self._now_ms()):
            return replace(info, result=None)
        try:
            return replace(info, result=self.value(found))
        except Exception as error:  # noqa: BLE001 - as below
            return replace(info, result=None, result_sealed=message_of(error))

    def _opened_data(self, info: TaskInfo) -> TaskInfo:
        data = info.data
        if data is None:
            return info
        if self._payloads is None:
            if not isinstance(data, SealedMembers):
                return info
            return replace(info, data=None, sealed=str(data.envelope or "sealed"))
        ids = info.key.ordering_id, info.key.uniqueness_key, info.kind
        try:
            return replace(info, data=self._payloads.opened_data(data, *ids))
        except Exception as error:  # noqa: BLE001 - a codec is user code, and the rest can be shown
            return replace(info, data=None, sealed=message_of(error))

    @property
    def opening_blocks(self) -> bool:
        """True if ``opened`` may wait for a disk or a network."""
        return self._payloads is not None and self._payloads.blocks

    def result(self, info: TaskInfo) -> LightFuture[StoredResult | None]:
        """Return the stored result of a task that is closed; None for one without.

        Raises NoResult where the task did not end well.
        """
        require_success(info)

        def steps() -> Steps[StoredResult | None]:
            stores: Stores = yield self._stores_soon()
            count = yield from self._placing(stores)
            return (yield from _found_result(stores, count, info))

        return begun(steps())

    def value(self, found: StoredResult | None) -> object:
        """Return the value of a stored result; may block.

        Raises ResultGone where its time is over, and what opening a sealed one does.
        """
        if found is None:
            return None
        if not found.is_kept(self._now_ms()):
            raise result_gone(found)
        if self._payloads is None:
            return result_value(found.body)
        ids = found.key.ordering_id, found.key.uniqueness_key
        return result_value(self._payloads.opened_result(found.body, *ids))

    def outcomes(self, after: int) -> LightFuture[list[OutcomeInfo]]:
        """Return a page of the outcomes that are kept behind a position."""
        if type(after) is not int or after < 0:
            raise InvalidTask(
                f"after is {shown(after)}: give the position of an outcome, or 0 for all"
            )

        def steps() -> Steps[list[OutcomeInfo]]:
            stores: Stores = yield self._stores_soon()
            if stores.kept_outcomes is None:
                raise InvalidTask(
                    "outcomes are kept by an embedded store only: set outcomes.topic and read that"
                )
            kept = yield stores.kept_outcomes.load_kept(after, _PAGE_TASKS)
            return [outcome_info(each) for each in kept]

        return begun(steps())

    def attempts(self, task: KeyOrReceipt) -> LightFuture[tuple[AttemptInfo, ...]]:
        """Return the stored attempts of a task."""
        key = _key_of(task)

        def steps() -> Steps[tuple[AttemptInfo, ...]]:
            stores: Stores = yield self._stores_soon()
            count = yield from self._placing(stores)
            return (yield from found_attempts(stores, count, key))

        return begun(steps())

    def outcome(self, receipt: CommandReceipt) -> LightFuture[RecordedOutcome | None]:
        """Return the outcome of a command; None while it is undecided."""
        if not isinstance(receipt, CommandReceipt):
            raise InvalidKey(f"a Receipt is needed, got {shown(receipt)}")
        name = receipt.key if isinstance(receipt, Receipt) else receipt.pair
        partition, offset = checked_place(receipt.partition, receipt.offset)

        def steps() -> Steps[RecordedOutcome | None]:
            stores: Stores = yield self._stores_soon()
            count = yield from self._placing(stores)
            require_home(name.ordering_id, partition, count, self._partition_count)
            return (yield from found_outcome(stores, partition, offset, name))

        return begun(steps())

    def _placing(self, stores: Stores) -> Steps[int]:
        """Return the number by which rows are placed; read once."""
        if self._placing_count is None:
            counting = placing_count(stores.ownership, self._partition_count)
            self._placing_count = yield from counting
        return self._placing_count

    def open_key(self, pair: tuple[str, str]) -> LightFuture[TaskKey]:
        """Return the key of the open task of a pair; TaskNotFound, SeveralTasks."""
        ids = checked_pair(pair)

        def steps() -> Steps[TaskKey]:
            stores: Stores = yield self._stores_soon()
            count = yield from self._placing(stores)
            keys = yield from open_keys(stores, partition_of(ids.ordering_id, count), ids)
            if not keys:
                raise no_task(ids)
            if len(keys) > 1:
                raise several_tasks(ids, keys)
            return keys[0]

        return begun(steps())

    def pages(self, chosen: ChosenTasks) -> Iterator[Sequence[TaskInfo]]:
        """Yield a listing's tasks in key order, a list for each page of the store.

        Blocks for each.
        """
        stores = answered(self._stores_soon())
        inspector = Inspector(stores, answered(begun(self._placing(stores))))
        after, left = None, chosen.limit
        while left is None or left > 0:
            listing = inspector.list_tasks(
                from_ms=chosen.from_ms,
                to_ms=chosen.to_ms,
                limit=_PAGE_TASKS if left is None else min(left, _PAGE_TASKS),
                states=chosen.states,
                ordering_id=chosen.ordering_id,
                after=after,
            )
            infos = [info for info in map(TaskInfo.of, listing.tasks) if chosen.has(info)]
            if chosen.results:
                infos = inspector.with_results(infos)
            found = [self.opened(info) for info in infos]
            yield found
            after = listing.next_after
            if after is None:
                return
            left = None if left is None else left - len(found)


class TaskWatch:
    """The task that a caller waits for."""

    def __init__(self, task: KeyOrReceipt) -> None:
        self.task = task
        self._last: TaskInfo | None = None

    def is_over(self, info: TaskInfo) -> bool:
        """True if the wait is over; TaskNotFound if the task can no longer end.

        A task that was moved is looked for under its current key.
        """
        self._last = info
        if info.absence is Absence.GONE:
            raise TaskNotFound(
                f"nothing is stored of {info.key} any more: it ended so long ago that it was"
                " deleted, was never scheduled, or its record is a dead letter"
            )
        if info.moved_to is not None:
            self.task = info.moved_to
            return False
        return info.is_closed

    def too_late(self, timeout_s: float) -> TimeoutError:
        """Return the error for the end of a wait's time."""
        last = self._last
        assert last is not None, "it is looked at once at least"
        state = last.state.value if last.absence is None else last.absence.value.replace("_", " ")
        failed = "" if last.error is None else f"; its last attempt failed with {last.error}"
        return TimeoutError(f"{last.key} is {state} after {timeout_s:g} s{failed}")


def require_success(info: TaskInfo) -> None:
    """Raise NoResult for a closed task that did not end well."""
    match info.state:
        case TaskState.SUCCESS:
            return
        case TaskState.FAILURE:
            how = f"failed for good: {info.error or info.reason}"
            advice = "; retry_task brings it back, and a wait that begins then waits for that"
        case TaskState.DROPPED:
            how, advice = f"was dropped: {info.reason or 'no reason was given'}", ""
        case TaskState.EXPIRED:
            how, advice = "expired before it was started", "; retry_task brings it back"
        case _:
            how, advice = f"was {info.state.value}", ""
    raise NoResult(f"{info.key} has no result, it {how}{advice}")


def result_gone(found: StoredResult) -> ResultGone:
    """Return the error for a result whose time is over."""
    return ResultGone(
        f"{found.key} ended well with a result, which was kept until"
        f" {format_instant(found.kept_until_ms)}: keep results for longer on the nodes,"
        " tree.watermark.result_retention_ms, or read them sooner"
    )


def refuse_requests(task: KeyOrReceipt) -> KeyOrReceipt:
    """Return a task whose result can be waited for; InvalidKey for a request to a node."""
    key = _key_of(task)
    if key.ordering_id.startswith(RESERVED):
        raise InvalidKey(
            f"{key} is a request to a node, as of unique_for and debounce, and has no result: wait"
            " for the task that it makes, by its own key, which list_tasks finds"
        )
    return task


def undecided(receipt: CommandReceipt, timeout_s: float) -> TimeoutError:
    """Return the error for the end of the time of a wait for an outcome."""
    return TimeoutError(
        f"no node has decided on the command at {receipt.partition}:{receipt.offset} within"
        f" {timeout_s:g} s: see whether one runs; where the receipt is that of a task, call"
        " wait_task"
    )


def pauses_s(clock: Clock, timeout_s: float | None) -> Iterator[float]:
    """Yield the pause before each look, in seconds; the first is 0.

    Ends when the time is over.
    """
    deadline_ms = None if timeout_s is None else clock.monotonic_ms() + timeout_s * 1000
    yield 0.0
    pause_s = _FIRST_PAUSE_S
    while True:
        left_s = _PAUSE_S_MAX
        if deadline_ms is not None:
            left_s = (deadline_ms - clock.monotonic_ms()) / 1000
            if left_s <= 0:
                return
        yield max(_PAUSE_S_MIN, min(pause_s, left_s))
        pause_s = min(pause_s * _PAUSE_GROWTH, _PAUSE_S_MAX)


def seconds(timeout: object) -> float | None:
    """Return a timeout, seconds or a timedelta, in seconds; InvalidTask for another value."""
    if timeout is None:
        return None
    if isinstance(timeout, timedelta):
        return timeout.total_seconds()
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or isnan(timeout):
        raise InvalidTask(f"a timeout is seconds or a timedelta, got {shown(timeout)}")
    return float(timeout)


def chosen_tasks(
    ordering_id: str | None,
    kind: str | None,
    state: TaskState | Collection[TaskState] | None,
    scheduled_from: datetime | None,
    scheduled_before: datetime | None,
    limit: int | None,
    *,
    results: bool = False,
) -> ChosenTasks:
    """Return a listing's filter; InvalidTask for invalid arguments."""
    from_ms = INSTANT_MIN_MS if scheduled_from is None else target_ms("list", scheduled_from)
    to_ms = INSTANT_MAX_MS + 1 if scheduled_before is None else target_ms("list", scheduled_before)
    if from_ms > to_ms:
        raise InvalidTask(
            f"cannot list: scheduled_from {shown(scheduled_from)} lies after scheduled_before"
            f" {shown(scheduled_before)}"
        )
    if limit is not None and (type(limit) is not int or limit < 1):
        raise InvalidTask(f"cannot list: limit is at least 1, or None, got {shown(limit)}")
    if ordering_id is not None and not isinstance(ordering_id, str):
        raise InvalidTask(f"cannot list: an ordering id is text, got {shown(ordering_id)}")
    if kind is not None and not isinstance(kind, str):
        raise InvalidTask(f"cannot list: a kind is text, got {shown(kind)}")
    states = _states(state)
    return ChosenTasks(from_ms, to_ms, states, ordering_id, kind, limit, bool(results))


def _states(state: TaskState | Collection[TaskState] | None) -> frozenset[TaskState]:
    if state is None:
        return frozenset()
    try:
        # A state is text, and would be taken for a collection of its characters.
        asked = [state] if isinstance(state, str) else list(state)
        if all(issubclass(type(each), str) for each in asked):
            return frozenset(map(TaskState, asked))
    except (TypeError, ValueError):
        pass
    known = ", ".join(each.value for each in TaskState)
    raise InvalidTask(f"cannot list: the states are {known}, got {shown(state)}")


def _key_of(task: object) -> TaskKey:
    return checked_key(task.key if isinstance(task, Receipt) else task)


def found_task(
    stores: Stores, partition_count: int, key: TaskKey, offset: int | None
) -> Steps[TaskInfo]:
    """Return the stored state of a key.

    ``offset`` is the broker's offset of a record of it, if one is known: older rows of the key are
    then not taken for this record's.
    """
    partition = partition_of(key.ordering_id, partition_count)
    # Read first: rows that a node reports as stored are there afterwards, or were deleted again.
    claim: Claim | None = yield stores.ownership.find_watermark(partition)
    if claim is not None and offset is not None and offset < RECORDS_MAX:
        offset = kept_offset(era_of(claim.watermark.next_offset), offset)
    asked: Sequence[Future[Any]] = (
        stores.schedule.find_tasks(partition, [key]),
        stores.status.find_completions(partition, [key]),
        stores.status.find_attempts(partition, [key]),
        stores.checkpoints.find_checkpoints(partition, [key]),
    )
    rows, completions, attempts = (yield asked[0]), (yield asked[1]), (yield asked[2])
    made = next(iter((yield asked[3])), None)
    view = view_of(key, partition, rows.get(key), completions.get(key), attempts, made)
    unread = offset is not None and not _has_read(claim, offset)
    if view.state is TaskState.UNKNOWN:
        return TaskInfo(key, view.state, absence=_absence(key, claim, offset))
    if unread and offset is not None and _ended_before(view, offset):
        return TaskInfo(key, TaskState.UNKNOWN, absence=Absence.NOT_STORED_YET)
    return TaskInfo.of(view)


def _found_result(stores: Stores, count: int, info: TaskInfo) -> Steps[StoredResult | None]:
    """Return the stored result of a task that ended well; None for one without."""
    partition = partition_of(info.key.ordering_id, count)
    found: Sequence[StoredResult] = yield stores.results.find_results(partition, [info.key])
    return found[0] if found and found[0].is_of(info.finished_ms) else None


def found_attempts(
    stores: Stores, partition_count: int, key: TaskKey
) -> Steps[tuple[AttemptInfo, ...]]:
    """Return the attempts of a key by their numbers; an empty tuple if none is stored."""
    partition = partition_of(key.ordering_id, partition_count)
    asked: Sequence[Future[Any]] = (
        stores.status.find_attempts(partition, [key]),
        stores.status.find_completions(partition, [key]),
    )
    attempts, completions = (yield asked[0]), (yield asked[1])
    completion = completions.get(key)
    return shown_attempts(attempts if completion is None else with_last_end(attempts, completion))


def _has_read(claim: Claim | None, offset: int) -> bool:
    """True if a node is known to have finished the work of the record at ``offset``."""
    next_offset = None if claim is None else claim.watermark.next_offset
    return next_offset is not None and offset < next_offset


def _ended_before(view: TaskView, offset: int) -> bool:
    """True if the key is closed, and the record at ``offset`` would open it again."""
    closed = view.state not in OPEN_STATES
    return closed and view.completion is not None and not view.completion.closes(offset)


def _absence(key: TaskKey, claim: Claim | None, offset: int | None) -> Absence:
    if offset is not None:
        return Absence.GONE if _has_read(claim, offset) else Absence.NOT_STORED_YET
    if claim is not None and key.scheduled_ms < claim.watermark.statuses_swept_until_ms:
        return Absence.GONE
    return Absence.UNSEEN
