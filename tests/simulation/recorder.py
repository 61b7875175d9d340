"""Turns what happens in a simulated world into entries of its history.

It notes, with each entry, what only this moment can tell: who owned the partition, which other
attempts ran, what was durable.  It does not judge.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from hourhand.actors.model.execution.attempts import Attempt, Ending
from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.events import (
    CatchUpEnded,
    Event,
    PartitionAssigned,
    PartitionLost,
    PartitionRevoked,
    RetriesExhausted,
)
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.instant import to_millis
from hourhand.scheduler.node.attempts import RunningAttempt
from hourhand.scheduler.ports.processes import is_in_process
from tests.simulation.history import (
    Beside,
    CaughtUp,
    CheckpointSaid,
    Completed,
    ConfigApplied,
    Ended,
    Held,
    LineStep,
    Miscalled,
    Misdelivered,
    Noted,
    Progress,
    Revoked,
    Sampled,
    Started,
    Step,
)
from tests.simulation.limited import FAIR
from tests.simulation.member import Member
from tests.simulation.pretending import complaint_of
from tests.simulation.progress import found_by
from tests.simulation.reached import Turn
from tests.simulation.store_recorder import RecordedWorld, StoreRecorder
from tests.simulation.task_maker import expires_in
from tests.simulation.user_code import SimulatedExecutor


@dataclass(slots=True)
class _Run:
    """One call of user code."""

    id: int
    member: Member
    running: RunningAttempt
    key: TaskKey
    excuse: str = ""


class Recorder(StoreRecorder):
    """Watches every node of one world, beside what its base watches."""

    _world: RecordedWorld

    def __init__(self, world: RecordedWorld) -> None:
        super().__init__(world)
        self._configs = world.configs
        self._runs: dict[int, _Run] = {}
        self._members: dict[Member, int] = {}
        self._in_line: dict[RunningAttempt, int] = {}
        self._lined_up = 0
        self._ids = 0
        self._held: dict[str, int] = {}
        self._applied: dict[str, tuple[LimitChange, ...]] = {}
        self._well_ended: dict[str, list[_Run]] = {}
        """By process: what ended well there and is not known to be durable."""
        self._ends: dict[tuple[str, int], int] = {}
        self._delivered: dict[int, int] = {}
        self.polled_most: Counter[int] = Counter()
        """By partition: the records of the largest poll."""
        self._peaks: dict[tuple[str, int], tuple[int, ...]] = {}
        self.counts: Counter[str] = Counter()
        self.exhausted: dict[TaskKey, None] = {}
        self._watch()

    def _taken_over(self, partition: int) -> None:
        for member in self._world.members:
            self.turned(Turn.TAKEN_OVER, member, partition)

    # User code.

    def attempt_started(self, member: Member, running: RunningAttempt, queued_ms: float) -> int:
        """Note the call of user code, and what else ran of its ordering id."""
        attempt, now_ms = running.attempt, self._now_ms()
        self._ids += 1
        key = attempt.task.key
        beside, alike = self._beside(attempt), 1 + self._alike(member, attempt)
        self.counts["attempt started beside an abandoned one"] += self._is_back(member, attempt)
        self._runs[self._ids] = _Run(self._ids, member, running, key)
        self._history.add(
            Started(
                at_ms=now_ms,
                id=self._ids,
                node=member.name,
                partition=attempt.partition,
                epoch=attempt.epoch,
                key=key,
                number=attempt.number,
                offset=attempt.task.offset,
                queued_ms=queued_ms,
                wall_ms=member.clock.now_ms(),
                is_owner=self._is_owner(member, attempt.partition),
                done_before=self._done_before(running),
                beside=beside,
                known_paused=_is_paused(member.node.config_watch.config, attempt.partition, key),
                paused_ms=self._paused_ms(attempt.partition, key),
                kind=attempt.task.kind,
                priority=attempt.task.priority,
                alike=alike,
                tenant=_tenant_of(attempt.task),
                behind=tuple(each.task.key for each in _followed(attempt)),
                snoozed=attempt.task.attempts.snoozed,
                expires_ms=expires_ms_told(attempt.task),
                misread=_misread(running),
                found=found_by(running),
                is_endless=_is_endless(running),
            )
        )
        return self._ids

    def _is_back(self, member: Member, attempt: Attempt) -> bool:
        """True if a partition came back, or goes on under a new tree, while old code of it runs."""
        return any(
            run.member is member
            and run.running.attempt.partition == attempt.partition
            and run.running.attempt.epoch != attempt.epoch
            for run in self._runs.values()
        )

    def _is_owner(self, member: Member, partition: int) -> bool:
        owners = self._world.broker.group(self._world.settings.group.id)._owners
        return owners.get(partition) is member.log._member

    def checkpoint_said(self, progress: Progress) -> None:
        """Note that user code made a checkpoint."""
        self._history.add(CheckpointSaid(self._now_ms(), progress))

    def _beside(self, attempt: Attempt) -> tuple[Beside, ...]:
        key = attempt.task.key
        return tuple(
            Beside(run.id, self._excuse(run), is_in_process(run.running.executor))
            for run in self._runs.values()
            if run.key == key or self._in_order(run, attempt)
        )

    def _in_order(self, run: _Run, attempt: Attempt) -> bool:
        """True if two attempts are of one ordering id, have an order, and not one batch."""
        other = run.running.attempt
        if other.is_unordered or attempt.is_unordered or other in _followed(attempt):
            return False
        return other.task.key.ordering_id == attempt.task.key.ordering_id

    def _alike(self, member: Member, attempt: Attempt) -> int:
        """Count what runs of an ordering id and kind, and counts on a node."""
        key, kind = attempt.task.key, attempt.task.kind
        alike = (
            run
            for run in self._runs.values()
            if run.key.ordering_id == key.ordering_id and run.running.attempt.task.kind == kind
        )
        return sum(run.member is member or not self._excuse(run) for run in alike)

    def _paused_ms(self, partition: int, key: TaskKey) -> float:
        """Return for how long the configs in force have paused a key without a break."""
        since_ms = self._now_ms()
        for at_ms, config in reversed(self._configs):
            if not _is_paused(config, partition, key):
                break
            since_ms = at_ms
        return self._now_ms() - since_ms

    def _excuse(self, run: _Run) -> str:
        """Return the reason for which another attempt may start although this one runs."""
        member, partition = run.member, run.running.attempt.partition
        if run.excuse:
            return run.excuse
        if member.log.lease_ends_ms() <= self._now_ms():
            return "its node's lease ended"
        revoked_ms = member.revoked_ms(partition, run.running.attempt.epoch)
        deadline_ms = self._world.settings.tree.recovery.drain_deadline_ms
        if revoked_ms is not None and self._now_ms() >= revoked_ms + deadline_ms:
            return "its node's drain deadline passed"
        return ""

    def _done_before(self, running: RunningAttempt) -> str:
        """Return the done completion of the key that this owner could know of."""
        attempt = running.attempt
        found = self._truth.completion(attempt.partition, attempt.task.key)
        if found is None or not found[1].result.is_done:
            return ""
        epoch, completion = found
        stored_ms = self._done_ms[attempt.partition, attempt.task.key]
        claimed_ms = self._claimed_ms[attempt.partition, attempt.epoch]
        # An attempt that outlived its owner may be recorded after the next owner has loaded.
        if epoch < attempt.epoch and stored_ms >= claimed_ms:
            return ""
        return f"{completion.result} under epoch {epoch}"

    def attempt_ended(self, member: Member, number: int, ending: str) -> None:
        """Note the end of user code."""
        run = self._runs.pop(number)
        self._history.add(Ended(self._now_ms(), number, member.name, ending))
        if ending in {Ending.DONE, Ending.DROPPED} and run.running.listener is not None:
            self._well_ended.setdefault(member.name, []).append(run)

    def data_arrived(self, key: TaskKey, complaint: str) -> None:
        """Note sealed data that user code or middleware was given, where it is not its own."""
        self.counts["sealed data arrived"] += 1
        if complaint:
            self._history.add(Misdelivered(self._now_ms(), key, complaint))

    def miscalled(self, key: TaskKey, complaint: str) -> None:
        """Note what is wrong with how user code was called."""
        self._history.add(Miscalled(self._now_ms(), key, complaint))

    def in_line(self, member: Member, running: RunningAttempt, step: Step) -> None:
        """Note a step of a task whose kind has one limit: with several, it may wait in each."""
        task = running.attempt.task
        limits = self._world.limits.get(task.kind or "", ())
        if len(limits) != 1:
            return
        if step == "waits":
            self._lined_up += 1
            self._in_line[running] = self._lined_up
        waited = self._in_line.get(running) if step == "waits" else self._in_line.pop(running, -1)
        value, fair = _tenant_of(task) if limits[0].key else "", FAIR.get(task.kind or "")
        sharing = "" if fair is None else _tenant_of(task)
        self._history.add(
            LineStep(
                at_ms=self._now_ms(),
                node=member.name,
                member=self._members.setdefault(member, len(self._members)),
                line=f"{task.kind}#1 {value}".rstrip(),
                step=step,
                id=-1 if waited is None else waited,
                priority=task.priority or 0,
                value=sharing,
                weight=1.0 if fair is None else fair.weights.get(sharing, 1.0),
            )
        )

    def harmed(self, what: str) -> None:
        """Count what user code does to what it finds where it runs."""
        self.counts[f"harm: {what}"] += 1

    def held(self, member: Member, partitions: int) -> None:
        """Note how many partitions a node may start attempts of."""
        if self._held.get(member.name, 0) != partitions:
            self._held[member.name] = partitions
            self._history.add(Held(self._now_ms(), member.name, partitions))

    def gives_up(self, member: Member, partition: int) -> None:
        """Count what is under way when a node gives a partition up."""
        self.turned(Turn.GIVEN_UP, member, partition)

    def turned(self, turn: Turn, member: Member, partition: int | None = None) -> None:
        """Count what is under way on a node at a turn."""
        self._world.reached.turned(turn, member, self.running(member), partition)

    def running(self, member: Member) -> list[RunningAttempt]:
        """Return the attempts that run on a node."""
        return [run.running for run in self._runs.values() if run.member is member]

    def applied(self, member: Member, config: OperatorConfig) -> None:
        """Note by which changed limits a node goes."""
        if self._applied.get(member.name, ()) != config.limits:
            self._applied[member.name] = config.limits
            self._history.add(ConfigApplied(self._now_ms(), member.name, config.limits))

    def forget(self, member: Member) -> None:
        """The process is gone, and all that ran in it."""
        self.held(member, 0)
        self.applied(member, OperatorConfig())
        for run in [run for run in self._runs.values() if run.member is member]:
            del self._runs[run.id]
            self._history.add(Ended(self._now_ms(), run.id, member.name, "killed"))
        self._well_ended.pop(member.name, None)

    def running_keys(self, member: Member) -> tuple[TaskKey, ...]:
        """Return what runs on a node that still counts: not of an owner that was replaced."""
        return tuple(
            run.key
            for run in self._runs.values()
            if run.member is member
            and run.running.listener is not None
            and run.running.attempt.epoch
            == self._world.data.claims[run.running.attempt.partition].epoch
        )

    def undurable_keys(self, member: Member, partition: int | None = None) -> tuple[TaskKey, ...]:
        """Return the keys that ended well on a node and are not done in the store.

        Asked once for each partition, when the node gives it up.
        """
        runs = self._well_ended.get(member.name, [])
        asked = [run for run in runs if partition in (None, run.running.attempt.partition)]
        self._well_ended[member.name] = [run for run in runs if run not in asked]
        return tuple(run.key for run in asked if self._is_undurable(run))

    def _is_undurable(self, run: _Run) -> bool:
        attempt = run.running.attempt
        claim = self._world.data.claims[attempt.partition]
        if claim.epoch != attempt.epoch:
            # A newer owner exists, so this one's outcome is not expected to stand.
            return False
        found = self._truth.last_completion(attempt.partition, run.key)
        if found is None or found[0] < attempt.epoch:
            return True
        # It may have been done, reopened by an operator, and cancelled since.
        begun_ms = next(each.at_ms for each in self._history.of(Started) if each.id == run.id)
        return not any(
            entry.key == run.key
            and entry.at_ms >= begun_ms
            and entry.result in {"success", "failure", "dropped", "expired", "reopened"}
            for entry in self._history.of(Completed)
        )

    # Reports of nodes.

    def delivered(self, records: Sequence[LogRecord]) -> None:
        """Count what comes again, and how much at once."""
        polled = Counter(record.partition for record in records)
        self.polled_most |= polled
        for record in records:
            if record.offset < self._delivered.get(record.partition, 0):
                self.counts["record delivered again"] += 1
            else:
                self._delivered[record.partition] = record.offset + 1

    def sampled(self, sample: Sampled) -> None:
        """Note what is held in memory where it was never more."""
        place = (sample.node, sample.partition)
        held = (sample.waiting, sample.queued_max, sample.executing, sample.uncounted)
        peak = self._peaks.get(place, (0,) * len(held))
        if any(now > before for now, before in zip(held, peak, strict=True)):
            self._peaks[place] = tuple(max(pair) for pair in zip(held, peak, strict=True))
            self._history.add(sample)

    def reported(self, member: Member, event: Event) -> None:
        """Note an event, and what is true at its moment."""
        now_ms = self._now_ms()
        self._history.add(Noted(now_ms, member.name, event))
        match event:
            case PartitionAssigned(partition=partition, end_offset=end_offset):
                self._ends[member.name, partition] = end_offset
            case CatchUpEnded(partition=partition, complete=True):
                end = self._ends[member.name, partition]
                first = self._durable.get(partition, 0)
                undurable = self._truth.undurable(partition, first, end, own=True)
                self._history.add(CaughtUp(now_ms, member.name, partition, undurable))
            case PartitionRevoked(partition=partition, drained=drained):
                lost = self.undurable_keys(member, partition)
                self._history.add(Revoked(now_ms, member.name, partition, drained, lost))
            case PartitionLost(partition=partition, reason="lost to another member"):
                self._excuse_runs(member, partition, "its node lost the partition")
                self.undurable_keys(member, partition)
            case PartitionLost(partition=partition):
                self.undurable_keys(member, partition)
            case RetriesExhausted(key=key, on_exhausted="block"):
                self.exhausted[key] = None
            case _:
                pass

    def _excuse_runs(self, member: Member, partition: int, excuse: str) -> None:
        for run in self._runs.values():
            if run.member is member and run.running.attempt.partition == partition:
                run.excuse = excuse


def _misread(running: RunningAttempt) -> str:
    if not isinstance(running.executor, SimulatedExecutor):
        return ""
    return complaint_of(running.attempt.task.to_task(), running.executor.kind)


def expires_ms_told(task: StoredTask) -> int | None:
    """Return the wall time at which a task's data says that it expires."""
    expires = expires_in(task.to_task().data)
    if isinstance(expires, timedelta):
        return task.key.scheduled_ms + expires // timedelta(milliseconds=1)
    return None if expires is None else to_millis(expires)


def _tenant_of(task: StoredTask) -> str:
    found = task.to_task().data.get("tenant", "")
    assert isinstance(found, str), "the workload writes a text"
    return found


def _is_endless(running: RunningAttempt) -> bool:
    """True if its node cannot end it: it blocks a thread."""
    blocks = running.attempt.task.to_task().data.get("blocking") is True
    return blocks and not is_in_process(running.executor)


def _followed(attempt: Attempt) -> list[Attempt]:
    """Return what an attempt follows in its batch, the next one first."""
    found: list[Attempt] = []
    while (follows := attempt.follows) is not None:
        found.append(attempt := follows)
    return found


def _is_paused(config: OperatorConfig, partition: int, key: TaskKey) -> bool:
    pause = config.of_partition(partition)
    return pause.whole or key.ordering_id in pause.ordering_ids
