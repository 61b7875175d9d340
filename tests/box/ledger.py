"""The events at the faces of a box, with the facts of each moment.

It notes facts that only their moment can tell: who else ran, what was durable, what the subtree
had to know.  It judges nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.attempts import Ending
from hourhand.actors.model.task.codec import Command, CommandKind
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, CompletionResult
from hourhand.actors.model.task.task import StoredTask
from hourhand.scheduler.adapters.memory.stores import MemoryStores
from tests.box.hand_runner import HandRun, Step, batch_before
from tests.box.kinds import PLACES
from tests.box.owner import PARTITION, PartitionOwner, Stand
from tests.simulation.truth import Truth

_CLOSING = {CommandKind.CANCEL, CommandKind.DROP}
_EFFECTIVE = {CommandOutcome.APPLIED, CommandOutcome.RUNNING}
_BEGINS_ANEW = {
    CompletionResult.REOPENED,
    CompletionResult.CANCELLED,
    CompletionResult.MOVED,
}
"""A key that was closed so and is open again waits for no earlier attempt."""
NEVER_MS = 10**15


@dataclass(frozen=True, slots=True)
class Asked:
    """The subtree wants an attempt."""

    run: HandRun
    early_ms: int
    """Time by which it was before its time."""
    retry_early_ms: int
    """Time by which it was before the time that its last attempt left in the store."""
    is_owned: bool
    """True if the partition was the owner's by then, and not given up."""
    overtaken: tuple[TaskKey, ...]
    """Earlier tasks of its ordering id that are open and were known before they fell due."""
    newer: int | None
    """The offset of a later record of its key that the subtree had to know."""
    knew_pause: bool
    """True if it was paused, as the subtree had to know."""
    caught_up: bool
    knew_drain: bool
    """True if the partition was being given up, as the subtree had to know."""
    unrecorded: bool
    """True if an earlier owner may have begun it, and nobody will know that it begins."""


@dataclass(frozen=True, slots=True)
class Begun:
    """User code is called."""

    run: HandRun
    early_ms: int
    beside: tuple[TaskKey, ...]
    """Others of its ordering id that run, where both have an order; and its own key."""
    alike: int
    """Number of running tasks of its kind without order and its ordering id."""
    done: str
    """Result with which its key was done before; empty if it was not."""
    newer: int | None
    """Offset of a later known record, if it waited for an allowance."""
    closed_by: int | None
    """The offset of a command that closed its key, as the subtree had to know."""
    shares_executor: bool
    """True if its executor serves another attempt now."""
    is_next: bool
    """True if its number is the next one, by what is durable; a later record may begin again."""


@dataclass(frozen=True, slots=True)
class Settled:
    """The subtree has no use of an outcome any more."""

    run: HandRun
    is_durable: bool


class Ledger:
    """All facts of one box, in order; implements ``RunObserver``."""

    def __init__(
        self, clock: VirtualClock, data: MemoryStores, truth: Truth, owner: PartitionOwner
    ) -> None:
        self.asked: list[Asked] = []
        self.begun: list[Begun] = []
        self.ended: list[tuple[HandRun, float]] = []
        self.settled: list[Settled] = []
        self.known_ms: dict[int, float] = {}
        """Wall time since when the subtree must know a record, by its offset."""
        self.is_caught_up: Callable[[], bool] = lambda: True
        self._clock, self._data, self._truth, self._owner = clock, data, truth, owner
        self._known_offset = 0
        self._records: dict[TaskKey, list[StoredTask | Command]] = defaultdict(list)
        self._keys: dict[str, set[TaskKey]] = defaultdict(set)
        self._running: list[HandRun] = []
        self._known_pauses: frozenset[str] = frozenset()
        self._knows_drain = False
        self._assigned: tuple[int, int] = (0, 0)
        """End of the log when the partition was assigned, and the wall time then."""
        self._is_all_paused = False

    def note_record(self, entry: StoredTask | Command) -> None:
        """A record was appended to the log."""
        keys = entry.keys if isinstance(entry, Command) else (entry.key,)
        for key in keys:
            self._records[key].append(entry)
            self._keys[key.ordering_id].add(key)

    def note_quiet(self) -> None:
        """No message is under way: the subtree knows what it was told."""
        now_ms = self._clock.now_ms()
        if self._owner.stand is Stand.AWAY:
            self._owner.is_silent = True
        while self._known_offset < self._owner.next_offset:
            self.known_ms[self._known_offset] = now_ms
            self._known_offset += 1
        pause = self._owner.config.of_partition(PARTITION)
        self._known_pauses, self._is_all_paused = pause.ordering_ids, pause.whole
        self._knows_drain = self._owner.knows_drain

    def note_assigned(self, next_offset: int) -> None:
        """The partition is worked on from now on, by a tree that knows nothing."""
        self._assigned, self._knows_drain = (next_offset, self._clock.now_ms()), False

    def note_death(self) -> None:
        """The process is gone, with all that ran."""
        self._running.clear()

    def note_unpaused(self) -> None:
        """Fewer pauses are on their way."""
        self._known_pauses, self._is_all_paused = frozenset(), False

    # Acts of the runner.

    def run_asked(self, run: HandRun) -> None:
        """Note that the subtree wants this attempt."""
        key, now_ms = run.key, self._clock.now_ms()
        row = self._last_attempt(key)
        # A later record may begin again.
        is_anew = run.attempt.number == 1 and len(self._records[key]) > 1
        waits_ms = 0 if row is None or is_anew else row - now_ms
        self.asked.append(
            Asked(
                run,
                early_ms=key.scheduled_ms - now_ms,
                retry_early_ms=waits_ms,
                is_owned=not self._owner.is_silent,
                overtaken=tuple(self._overtaken(run)),
                newer=self._newer(run),
                knew_pause=self._is_all_paused or key.ordering_id in self._known_pauses,
                caught_up=self.is_caught_up(),
                knew_drain=self._knows_drain and self._owner.knows_drain,
                unrecorded=self._is_unrecorded(run),
            )
        )

    def run_begun(self, run: HandRun) -> None:
        """Note that user code is called."""
        attempt, key = run.attempt, run.key
        chain = set(map(id, batch_before(attempt)))
        completion = self._truth.completion(PARTITION, key)
        done = completion is not None and completion[1].result.is_done
        others = [each for each in self._running if id(each.attempt) not in chain]
        alike = sum(
            each.key.ordering_id == key.ordering_id and each.attempt.task.kind == attempt.task.kind
            for each in self._running
        )
        rows = self._data.attempts.of_key(PARTITION, key)
        numbers = [row.attempt for row in rows if row.finished_ms is not None]
        last = max([*numbers, *self._reopened_last(key)], default=0)
        self.begun.append(
            Begun(
                run,
                early_ms=key.scheduled_ms - self._clock.now_ms(),
                beside=tuple(each.key for each in others if self._excludes(each, run)),
                alike=1 + alike,
                done=str(completion[1].result) if done and completion is not None else "",
                newer=self._newer(run) if run.limited else None,
                closed_by=self._closed_by(run),
                shares_executor=any(each.executor is run.executor for each in others),
                is_next=attempt.number > last or len(self._records[key]) > 1,
            )
        )
        self._running.append(run)

    def run_ended(self, run: HandRun) -> None:
        """Note that user code ended, or was never called."""
        self.ended.append((run, self._clock.monotonic_ms()))
        if run in self._running:
            self._running.remove(run)

    def run_settled(self, run: HandRun) -> None:
        """Note that the outcome is of no use any more."""
        self.settled.append(Settled(run, self._is_durable(run)))

    # Facts of this moment.

    @property
    def running(self) -> list[HandRun]:
        """Return the running attempts."""
        return list(self._running)

    def is_open(self, key: TaskKey) -> bool:
        """True if a row of a key is stored and not closed."""
        row = self._truth.row(PARTITION, key)
        return row is not None and not self._truth.is_closed(PARTITION, row)

    def open_keys(self) -> list[TaskKey]:
        """Return all keys that are open in the store, in order."""
        found = [key for keys in self._keys.values() for key in keys if self.is_open(key)]
        return sorted(found)

    def largest_bytes(self, key: TaskKey) -> int:
        """Return what the largest record of a key holds; of a moved one, that of its id."""
        of_id = (record for each in self._keys[key.ordering_id] for record in self._records[each])
        moved = any(isinstance(record, Command) for record in self._records[key])
        records = of_id if moved else self._records[key]
        sizes = [record.size_bytes for record in records if isinstance(record, StoredTask)]
        return max(sizes, default=0)

    def known_keys(self) -> list[TaskKey]:
        """Return all keys of which there was a record, in order."""
        return sorted(self._records)

    def _excludes(self, other: HandRun, run: HandRun) -> bool:
        """True if one may not run while the other does."""
        if other.key == run.key:
            return True
        if other.attempt.is_unordered or run.attempt.is_unordered:
            return False
        return other.key.ordering_id == run.key.ordering_id

    def _last_attempt(self, key: TaskKey) -> int | None:
        """Return before when no attempt starts, by the last attempt that is stored."""
        rows = self._data.attempts.of_key(PARTITION, key)
        completion = self._truth.completion(PARTITION, key)
        begins_anew = completion is not None and completion[1].result in _BEGINS_ANEW
        return rows[-1].next_attempt_ms if rows and not begins_anew else None

    def _reopened_last(self, key: TaskKey) -> Iterator[int]:
        completion = self._truth.completion(PARTITION, key)
        if completion is not None and completion[1].result is CompletionResult.REOPENED:
            yield completion[1].attempts

    def _is_durable(self, run: HandRun) -> bool:
        ended = run.ended
        if ended is None or run.void or not ended.ending.is_of_user_code:
            return True
        if not self._owner.continues(run.attempt.epoch):
            # It counts or not by who owned the partition meanwhile.
            return True
        if ended.ending in {Ending.DONE, Ending.DROPPED}:
            found = self._truth.last_completion(PARTITION, run.key)
            return found is not None and found[1].result is not CompletionResult.MOVED
        rows = self._data.attempts.of_key(PARTITION, run.key)
        return any(row.attempt == run.attempt.number and row.finished_ms for row in rows)

    def _overtaken(self, run: HandRun) -> Iterator[TaskKey]:
        attempt, key = run.attempt, run.key
        if attempt.is_unordered or key not in self._records:
            return
        known_ms = self._known_since(key)
        chain = {each.task.key for each in batch_before(attempt)}
        for other in self._keys[key.ordering_id]:
            if other >= key or other in chain:
                continue
            row = self._truth.row(PARTITION, other)
            if row is None or row.kind in PLACES or self._truth.is_closed(PARTITION, row):
                continue
            if max(known_ms, self._known_since(other)) < other.scheduled_ms:
                yield other

    def _known_since(self, key: TaskKey) -> float:
        """Return the wall time since when the subtree knows all there is of a key."""
        last = self._records[key][-1].offset
        return self.known_ms.get(last, NEVER_MS)

    def _newer(self, run: HandRun) -> int | None:
        offsets = [
            record.offset
            for record in self._records[run.key]
            if isinstance(record, StoredTask) and record.offset in self.known_ms
        ]
        newest = max(offsets, default=-1)
        return newest if newest > run.attempt.task.offset else None

    def _is_unrecorded(self, run: HandRun) -> bool:
        """True if a task that was overdue when it was loaded begins without a durable start."""
        attempt, (next_offset, assigned_ms) = run.attempt, self._assigned
        is_old = attempt.task.offset < next_offset and run.key.scheduled_ms < assigned_ms
        is_first = attempt.number == 1 and len(self._records[run.key]) == 1
        return is_old and is_first and attempt.record_starts is None

    def _closed_by(self, run: HandRun) -> int | None:
        """Return a known command that closed the key, and what would open it never came."""
        found = None
        for record in self._records[run.key]:
            if record.offset <= run.attempt.task.offset:
                continue
            if isinstance(record, StoredTask):
                found = None
                continue
            outcome = self._data.outcomes.get((PARTITION, record.offset))
            if outcome is None or outcome[1].outcome not in _EFFECTIVE:
                continue
            if record.kind is CommandKind.RETRY:
                found = None
            elif record.offset in self.known_ms and record.key == run.key:
                closes = record.kind in _CLOSING or record.new_key != run.key
                found = record.offset if closes else found
        return found

    def is_running(self, key: TaskKey) -> bool:
        """True if user code of a key runs."""
        return any(each.key == key and each.step is Step.RUNNING for each in self._running)
