"""CompletionTracker: reads and writes a partition's completions and attempts; no other role does.

Decides whether a key is closed: from memory, or for old keys by a read.  Writes are grouped:
everything that arrives during a write goes into the next group.  Never runs a task.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import assert_never

import msgspec
from msgspec.structs import replace

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.futures import gather
from hourhand.actors.kernel.ref import Recipient
from hourhand.actors.messages import (
    CheckTasks,
    FindStatuses,
    LoadStatuses,
    MeetSiblings,
    OutcomesRecorded,
    RecordCheckpoints,
    RecordOutcomes,
    RecordStarts,
    Siblings,
    StatusesFound,
    TasksChecked,
)
from hourhand.actors.model.execution.attempts import (
    NO_STATUS,
    CheckpointMade,
    KeyStatus,
    attempt_state,
    started_record,
)
from hourhand.actors.model.execution.known_completions import KnownCompletions
from hourhand.actors.model.operations.ownership import CLOCKS_APART_MS, Ownership
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptRecord, Completion, CompletionResult
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.actors.ports.effects import Effects

CHECKPOINTS_AHEAD_MS = 2 * CLOCKS_APART_MS
"""Checkpoints of tasks that are due within this time are read, too: an earlier owner may have begun
them.  A range that is read in vain costs little, and a checkpoint that is not read is lost."""
WRITES_IN_FLIGHT_MAX = 2
"""Writes under way at once: more of them would make groups smaller, not faster."""

_WITHDRAWING = (CompletionResult.CANCELLED, CompletionResult.MOVED)


@dataclass(slots=True)
class _WriteGroup:
    """The rows of the next write, and the recipients of its answers."""

    completions: dict[TaskKey, Completion] = field(default_factory=dict)
    attempts: list[AttemptRecord] = field(default_factory=list)
    checkpoints: list[TaskCheckpoint] = field(default_factory=list)
    results: list[StoredResult] = field(default_factory=list)
    replies: list[tuple[Recipient, object]] = field(default_factory=list)
    starts: list["Future[None]"] = field(default_factory=list)
    reads: list["_StatusesRead"] = field(default_factory=list)
    """Those that may be answered once the group is durable."""


class _BodiesWritten(msgspec.Struct, frozen=True):
    """The last checkpoints and the results of a group are durable."""

    group: _WriteGroup
    attempts_write_time: int
    completions_write_time: int


class _CheckpointsWritten(msgspec.Struct, frozen=True):
    made: tuple[CheckpointMade, ...]
    error: BaseException | None


class _AttemptsWritten(msgspec.Struct, frozen=True):
    group: _WriteGroup
    completions_write_time: int


class _GroupWritten(msgspec.Struct, frozen=True):
    group: _WriteGroup


class _StatusesRead(msgspec.Struct, frozen=True):
    answer: StatusesFound
    keys: Iterable[TaskKey]
    """The keys asked for by name; a load asks for a range and names none."""
    durable: bool = False


class _ChecksRead(msgspec.Struct, frozen=True):
    checks: tuple[CheckTasks, ...]
    completions: Mapping[TaskKey, Completion]


Message = (
    CheckTasks
    | RecordOutcomes
    | RecordStarts
    | RecordCheckpoints
    | _CheckpointsWritten
    | _BodiesWritten
    | _AttemptsWritten
    | _GroupWritten
    | LoadStatuses
    | FindStatuses
    | _StatusesRead
    | _ChecksRead
    | MeetSiblings
)
"""All that this role is told."""


class CompletionTracker(Actor):
    """Owner of the known completions, the group being collected, and the writes in flight."""

    def __init__(self, effects: Effects, ownership: Ownership, known: KnownCompletions) -> None:
        self._store = effects.stores.status
        self._checkpoints = effects.stores.checkpoints
        self._results = effects.stores.results
        self._ownership = ownership
        self._siblings: Siblings
        self._known = known
        self._group = _WriteGroup()
        self._in_flight: dict[int, _WriteGroup] = {}
        self._checks: list[CheckTasks] = []
        self._checking = False

    def on_receive(self, message: Message) -> None:
        match message:
            case CheckTasks():
                self._check(message)
            case RecordOutcomes():
                self._record_outcomes(message)
            case RecordStarts(attempts=attempts, recorded=recorded):
                now_ms = self._context.clock.now_ms()
                self._group.attempts += [started_record(each, now_ms) for each in attempts]
                self._group.starts.append(recorded)
                self._write_group()
            case RecordCheckpoints(made=made):
                self._record_checkpoints(made)
            case _CheckpointsWritten(made=made, error=error):
                for each in made:
                    each.answer(error)
            case _BodiesWritten():
                times = message.attempts_write_time, message.completions_write_time
                self._write_attempts(message.group, *times)
            case _AttemptsWritten(group=group, completions_write_time=write_time):
                self._write_completions(group, write_time)
            case _GroupWritten(group=group):
                self._finish_group(group)
            case LoadStatuses(after=after, up_to=up_to):
                self._load(after, up_to)
            case FindStatuses():
                self._find(message)
            case _StatusesRead():
                self._answer(message)
            case _ChecksRead(checks=checks, completions=completions):
                self._answer_checks(checks, completions)
            case MeetSiblings(siblings=siblings):
                self._siblings = siblings
            case _:
                assert_never(message)

    def on_stop(self) -> None:
        """Release the workers that wait for a start to become durable."""
        for group in (self._group, *self._in_flight.values()):
            for recorded in group.starts:
                recorded.cancel()

    # Is a key closed?

    def _check(self, message: CheckTasks) -> None:
        known = [self._known.is_closed(task) for task in message.tasks]
        checks = [
            (task, closed)
            for task, closed in zip(message.tasks, known, strict=True)
            if closed is not None
        ]
        if checks:
            message.reply_to.tell(TasksChecked(tuple(checks)))
        if len(checks) < len(known):
            unknown = (t for t, closed in zip(message.tasks, known, strict=True) if closed is None)
            self._checks.append(CheckTasks(tuple(unknown), message.reply_to))
            self._read_checks()

    def _read_checks(self) -> None:
        """Read the completions of old keys, all that gathered during the last read at once."""
        if self._checking or not self._checks:
            return
        assert self._checks, "a read has keys"
        self._checking = True
        checks, self._checks = tuple(self._checks), []
        keys = [task.key for check in checks for task in check.tasks]
        future = self._store.find_completions(self._ownership.partition, keys)
        self._context.pipe(future, lambda completions: _ChecksRead(checks, completions))

    def _answer_checks(
        self, checks: tuple[CheckTasks, ...], completions: Mapping[TaskKey, Completion]
    ) -> None:
        assert self._checking, "nobody asked"
        self._checking = False
        for check in checks:
            answers = tuple((task, self._is_closed(task, completions)) for task in check.tasks)
            check.reply_to.tell(TasksChecked(answers))
        self._read_checks()

    def _is_closed(self, task: StoredTask, completions: Mapping[TaskKey, Completion]) -> bool:
        # Memory has the keys that were closed during the read.
        completion = self._known.find(task.key) or completions.get(task.key)
        return completion is not None and completion.closes(task.offset)

    # Make outcomes durable.

    def _record_outcomes(self, message: RecordOutcomes) -> None:
        assert message.completions or message.records or message.checkpoints, "nothing has ended"
        group = self._group
        completions = tuple(
            [
                self._unless_done(each) if each.result in _WITHDRAWING else each
                for each in message.completions
            ]
        )
        # In this order: a known completion that is in no group may be forgotten.
        group.completions.update([(each.key, each) for each in completions])
        self._remember(completions)
        for record in message.records:
            assert record.finished_ms is not None, "it would be taken for a suspect"
        group.checkpoints += message.checkpoints
        group.results += message.results
        group.attempts += message.records
        group.replies.append((message.reply_to, OutcomesRecorded(completions, message.records)))
        self._write_group()

    def _unless_done(self, completion: Completion) -> Completion:
        """Return the known completion if that is a success, else the given one.  An attempt may
        have succeeded while its cancel was being decided, and done stays done (P5).
        """
        known = self._known.find(completion.key)
        return known if known is not None and known.result.is_done else completion

    def _write_group(self) -> None:
        group = self._group
        empty = not (group.completions or group.attempts or group.checkpoints)
        if empty or len(self._in_flight) >= WRITES_IN_FLIGHT_MAX:
            return
        self._group = _WriteGroup()
        self._in_flight[id(group)] = group
        assert len(self._in_flight) <= WRITES_IN_FLIGHT_MAX, "more would make groups smaller"
        assert group.replies or group.starts, "nobody waits for this write"
        # Both times are taken now: of two groups under way, the later one must win.
        has_bodies = bool(group.checkpoints or group.results)
        bodies_write_time = self._ownership.next_write_time() if has_bodies else 0
        attempts_write_time = self._ownership.next_write_time()
        completions_write_time = self._ownership.next_write_time()
        assert attempts_write_time < completions_write_time, "attempts come before what they end in"
        if not has_bodies:
            self._write_attempts(group, attempts_write_time, completions_write_time)
            return
        written = _BodiesWritten(group, attempts_write_time, completions_write_time)
        self._context.pipe(self._bodies(group, bodies_write_time), lambda _none: written)

    def _bodies(self, group: _WriteGroup, write_time: int) -> "Future[tuple[None, ...]]":
        """Write checkpoints and results, before the outcomes that lead readers to them: the next
        attempt continues at the last checkpoint on any node, and a visible completion has its
        result (P28).
        """
        partition, writes = self._ownership.partition, []
        if group.checkpoints:
            last = self._checkpoints.insert_checkpoints(partition, group.checkpoints, write_time)
            writes.append(last)
        if group.results:
            writes.append(self._results.insert_results(partition, group.results, write_time))
        return gather(tuple(writes))

    def _write_attempts(
        self, group: _WriteGroup, attempts_write_time: int, completions_write_time: int
    ) -> None:
        if not group.attempts:
            self._write_completions(group, completions_write_time)
            return
        # Attempts first: a completion whose last attempt is missing would lose history.
        written = self._store.insert_attempts(
            self._ownership.partition, group.attempts, attempts_write_time
        )
        self._context.pipe(written, lambda _none: _AttemptsWritten(group, completions_write_time))

    def _write_completions(self, group: _WriteGroup, write_time: int) -> None:
        assert id(group) in self._in_flight, "a group is written once"
        if not group.completions:
            self._finish_group(group)
            return
        written = self._store.insert_completions(
            self._ownership.partition, tuple(group.completions.values()), write_time
        )
        self._context.pipe(written, lambda _none: _GroupWritten(group))

    def _record_checkpoints(self, made: tuple[CheckpointMade, ...]) -> None:
        """Write checkpoints of running attempts; the node retries those that the store refuses."""
        written = self._checkpoints.insert_checkpoints(
            self._ownership.partition,
            [each.checkpoint for each in made],
            self._ownership.next_write_time(),
        )
        self._context.pipe(
            written,
            lambda _none: _CheckpointsWritten(made, None),
            lambda error: _CheckpointsWritten(made, error),
        )

    def _finish_group(self, group: _WriteGroup) -> None:
        del self._in_flight[id(group)]
        for started in group.starts:
            # A worker that stopped waiting has not started its attempt.
            if started.set_running_or_notify_cancel():
                started.set_result(None)
        for reply_to, recorded in group.replies:
            reply_to.tell(recorded)
        for read in group.reads:
            self._answer(read)
        self._write_group()

    # Known completions, and statuses from the store.

    def _remember(self, completions: Sequence[Completion]) -> None:
        if self._known.remember(*completions):
            groups = (self._group, *self._in_flight.values())
            undurable = set(chain.from_iterable(group.completions for group in groups))
            self._known.forget_older(undurable)

    def _load(self, after: TaskKey, up_to: TaskKey) -> None:
        assert after <= up_to, "a range of keys ends before it begins"
        partition = self._ownership.partition
        completions = self._store.load_completions(partition, after, up_to)
        attempts = self._store.load_attempts(partition, after, up_to)
        if self._may_have_begun(after):
            checkpoints = self._checkpoints.load_checkpoints(partition, after, up_to)
            read = gather((completions, attempts, checkpoints))
        else:
            read = gather((completions, attempts))
        self._context.pipe(read, lambda rows: _StatusesRead(StatusesFound(_joined(*rows)), ()))

    def _find(self, message: FindStatuses) -> None:
        keys, durable = message.keys, message.durable
        assert keys, "nothing is asked for"
        partition = self._ownership.partition
        completions = self._store.find_completions(partition, keys)
        attempts = self._store.find_attempts(partition, keys)
        if message.with_checkpoints and any(map(self._may_have_begun, keys)):
            checkpoints = self._checkpoints.find_checkpoints(partition, keys)
            read = gather((completions, attempts, checkpoints))
        else:
            read = gather((completions, attempts))
        self._context.pipe(
            read, lambda rows: _StatusesRead(StatusesFound(_joined(*rows)), keys, durable)
        )

    def _may_have_begun(self, key: TaskKey) -> bool:
        """True if a task of the key may have been attempted (P2), and so may have a checkpoint."""
        return key.scheduled_ms <= self._context.clock.now_ms() + CHECKPOINTS_AHEAD_MS

    def _answer(self, read: _StatusesRead) -> None:
        """Remember the completions of a read; those that memory got during the read win."""
        answer, keys = read.answer, read.keys
        if read.durable:
            for group in (self._group, *self._in_flight.values()):
                if any(key in group.completions for key in keys):
                    # A crash would take these back, and a client would have been told of them.
                    group.reads.append(read)
                    return
        statuses = dict(answer.statuses)
        # A fixed order: the one remembered first decides when old completions are forgotten.
        for key in dict.fromkeys((*keys, *statuses)):
            status = statuses.get(key, NO_STATUS)
            if known := self._known.find(key):
                statuses[key] = replace(status, completion=known)
            elif status.completion is not None and self._known.covers(key):
                self._remember((status.completion,))
        self._siblings.task_persistence.tell(replace(answer, statuses=statuses))


def _joined(
    completions: Mapping[TaskKey, Completion] | Sequence[Completion],
    attempts: Sequence[AttemptRecord],
    checkpoints: Sequence[TaskCheckpoint] = (),
) -> Mapping[TaskKey, KeyStatus]:
    """Bring the completion, the attempt rows and the checkpoint of each key together."""
    found = completions if isinstance(completions, Mapping) else {c.key: c for c in completions}
    rows_of = {key: tuple(rows) for key, rows in groupby(attempts, lambda row: row.key)}
    joined = {
        key: KeyStatus(found.get(key), attempt_state(rows_of.get(key, ()), found.get(key)))
        for key in {**found, **rows_of}
    }
    for each in checkpoints:
        known = joined.get(each.key, NO_STATUS)
        joined[each.key] = replace(known, attempts=known.attempts.with_checkpoint(each))
    return joined
