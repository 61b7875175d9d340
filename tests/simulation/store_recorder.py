"""Turns what takes effect in the store and the group into entries of a run's history.

It notes, with each entry, what was true at that moment and cannot be told later.  It does not
judge.
"""

from collections import Counter, defaultdict
from typing import Protocol

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.ownership import Claim
from hourhand.actors.model.task.codec import Command
from hourhand.actors.model.task.json_text import shown_value
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import (
    CommandOutcome,
    Completion,
    CompletionResult,
    RecordedOutcome,
)
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.values.log_offset import broker_offset
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.stores import MemoryStores
from hourhand.scheduler.configuration.settings import Settings
from tests.simulation.history import (
    CheckpointKept,
    Claimed,
    Committed,
    Completed,
    CompletionsRemoved,
    History,
    OutcomeStored,
    PairState,
    RowsRemoved,
    RowStored,
    WatermarkSaved,
)
from tests.simulation.limited import Limits
from tests.simulation.member import Member
from tests.simulation.network import Network
from tests.simulation.progress import progress_of
from tests.simulation.reached import Reached
from tests.simulation.truth import Truth, WatchedDict, WatchedRows


class StoredWorld(Protocol):
    """A world as the recorder of the store sees it."""

    clock: VirtualClock
    history: History
    broker: MemoryBroker
    data: MemoryStores
    truth: Truth
    settings: Settings

    @property
    def wall_at_start_ms(self) -> float:
        """The true wall time when the run began."""


class RecordedWorld(StoredWorld, Protocol):
    """The world as the recorder of nodes sees it."""

    network: Network
    reached: Reached
    configs: list[tuple[float, OperatorConfig]]

    @property
    def limits(self) -> Limits:
        """The limits of its kinds."""

    @property
    def members(self) -> list[Member]:
        """The nodes that live."""


class StoreRecorder:
    """Watches the store and the group's offsets of one world."""

    def __init__(self, world: StoredWorld) -> None:
        self.counts: Counter[str] = Counter()
        self._world = world
        self._history = world.history
        self._truth = world.truth
        self._durable: dict[int, int] = {}
        """By partition: how far every record is known to be durable."""
        self._claimed_ms: dict[tuple[int, int], float] = {}
        self._done_ms: dict[tuple[int, TaskKey], float] = {}
        self._row_gone_ms: dict[TaskKey, float] = {}
        self._ended: dict[tuple[int, TaskKey], Completion] = {}
        """The last completion of each key, as long as it is kept."""
        self._revived: set[tuple[int, int]] = set()
        """Places of replays that opened what had ended well."""
        self._kept: set[TaskKey] = set()
        """Keys that failed, or whose row was there after their hour was thinned."""
        self._thinned_ms: dict[int, int] = {}
        """By partition: the end of the last hour whose rows were to be deleted."""
        self._watch()

    def _watch(self) -> None:
        data = self._world.data
        data.tasks = WatchedRows(self._row_stored, self._rows_removed)
        data.completions = WatchedRows(self._completed, self._completions_removed)
        data.claims = WatchedDict(self._claim_stored)
        data.checkpoints = WatchedRows(self._checkpoint_kept, lambda *_gone: None)
        data.outcomes = WatchedDict(self._outcome_stored)
        self._committed: WatchedDict[int, int] = WatchedDict(
            lambda partition, _offset, _before: self._commit(
                partition, self._committed_offset(partition), "group"
            )
        )
        self._world.broker.group(self._world.settings.group.id).committed = self._committed

    def _now_ms(self) -> float:
        return self._world.clock.monotonic_ms()

    def is_committed(self) -> bool:
        """True if every record of the log is committed."""
        broker = self._world.broker
        ends = {
            number: self._truth.kept(number, broker.topic_id, stored.end_offset)
            for number, stored in enumerate(broker.partitions)
            if stored.end_offset
        }
        return all((self._committed_offset(each) or 0) >= (ends[each] or 0) for each in ends)

    def _committed_offset(self, partition: int) -> int | None:
        """Return the group's next offset as it is kept; None for a topic that nobody read."""
        broker, group = self._world.broker, self._world.settings.group.id
        topic_id = broker.group(group).committed_topics.get(partition, broker.topic_id)
        return self._truth.kept(partition, topic_id, self._committed.get(partition, 0))

    def _row_stored(self, partition: int, key: TaskKey, row: StoredTask, write_time: int) -> None:
        entry = RowStored(self._now_ms(), partition, key, row.offset, write_time)
        self._history.add(entry)

    def _checkpoint_kept(
        self, partition: int, _key: TaskKey, row: TaskCheckpoint, write_time: int
    ) -> None:
        progress = progress_of(row.body)
        assert progress is not None, "a row has a checkpoint"
        entry = CheckpointKept(self._now_ms(), partition, write_time, progress)
        self._history.add(entry)

    def _completed(
        self, partition: int, key: TaskKey, completion: Completion, write_time: int
    ) -> None:
        self._done_ms[partition, key] = self._now_ms()
        result, offset = completion.result, completion.offset
        if result is CompletionResult.REOPENED and self._truth.brings_data(partition, offset):
            before = self._ended.get((partition, key))
            if before is not None and before.result is CompletionResult.SUCCESS:
                self._revived.add((partition, offset))
        if result is not CompletionResult.REOPENED:
            self._ended[partition, key] = completion
        if result.is_failed:
            self._kept.add(key)
        has_letter = result is CompletionResult.FAILURE and self._truth.has_letter(key)
        place = (partition, key, result, offset, write_time)
        returns, value = self._returned(partition, completion)
        end = completion.attempts, completion.finished_ms
        self._history.add(Completed(self._now_ms(), *place, has_letter, returns, value, *end))

    def _returned(self, partition: int, completion: Completion) -> tuple[bool, str]:
        """Return whether a task may return values, and which one is found as it is closed."""
        row = self._truth.row(partition, completion.key)
        is_well = completion.result is CompletionResult.SUCCESS
        if not is_well or row is None or b'"returns":true' not in row.body:
            return False, ""
        found = self._world.data.results.of_key(partition, completion.key)
        if not found or not found[0].is_of(completion.finished_ms):
            return True, ""
        return True, str(shown_value(found[0].body))

    def _rows_removed(
        self, partition: int, gone: dict[TaskKey, tuple[int, StoredTask]], end_ms: int
    ) -> None:
        thinned_ms = self._thinned_ms.get(partition, 0)
        self._kept.update(key for key in gone if key.scheduled_ms < thinned_ms)
        self._thinned_ms[partition] = max(thinned_ms, end_ms)
        if not gone:
            return
        now_ms, durable = self._now_ms(), self._durable.get(partition, 0)
        rows = [row for _, row in gone.values() if 0 <= row.offset < durable]
        still_open = tuple(r.key for r in rows if not self._truth.is_closed(partition, r))
        self._row_gone_ms.update(dict.fromkeys(gone, now_ms))
        failed_ago_ms = min(self._failed_ago_ms(partition, key) for key in gone)
        self._history.add(RowsRemoved(now_ms, partition, still_open, failed_ago_ms))

    def _failed_ago_ms(self, partition: int, key: TaskKey) -> float:
        found = self._truth.completion(partition, key)
        if found is None or not found[1].result.is_failed:
            return float("inf")
        return self._world.clock.now_ms() - found[1].finished_ms

    def _completions_removed(
        self, partition: int, gone: dict[TaskKey, tuple[int, Completion]], _end_ms: int
    ) -> None:
        if not gone:
            return
        now_ms = self._now_ms()
        self._truth.note_swept(partition, gone)
        for key in gone:
            self._ended.pop((partition, key), None)
        guarding = tuple(key for key in gone if self._truth.row(partition, key) is not None)
        # A row that stays after its hour's others may go last: the task is done since its end.
        ages_ms = (
            now_ms - (self._done_ms[partition, key] if key in self._kept else row_gone_ms)
            for key in gone
            if (row_gone_ms := self._row_gone_ms.get(key)) is not None
        )
        youngest_ms = min(ages_ms, default=float("inf"))
        self._history.add(CompletionsRemoved(now_ms, partition, tuple(gone), guarding, youngest_ms))

    def _outcome_stored(
        self,
        place: tuple[int, int],
        stored: tuple[int, RecordedOutcome],
        before: tuple[int, RecordedOutcome] | None,
    ) -> None:
        partition, offset = place
        write_time, outcome = stored
        self._truth.note_decided(partition, offset)
        found = self._truth.completion(partition, outcome.key)
        own_effect = found is not None and found[1].offset == offset
        known = self._truth.last_completion(partition, outcome.key)
        if outcome.outcome in {CommandOutcome.RUNNING, CommandOutcome.TOO_LATE}:
            self.counts["command met an attempt"] += 1
        pair = None if before is not None else self._pair_state(partition, offset)
        entry = OutcomeStored(
            self._now_ms(),
            partition,
            offset,
            write_time,
            outcome,
            own_effect,
            None if known is None else known[1].result.value,
            self._failed_ago_ms(partition, outcome.key),
            (partition, offset) in self._revived,
            pair,
        )
        self._history.add(entry)

    def _pair_state(self, partition: int, offset: int) -> PairState | None:
        """Return how the tasks stand that a command by pair may mean; None for one by key."""
        record = next(self._truth.records(partition, offset))
        command = self._truth.entry(record)
        if not isinstance(command, Command) or not command.by_pair:
            return None
        appended_ms = record.timestamp_ms - self._world.wall_at_start_ms
        found: dict[str, list[TaskKey]] = defaultdict(list)
        for row in self._truth.rows_of_pair(partition, command.key):
            if row.offset >= offset:
                continue
            completion = self._truth.last_completion(partition, row.key)
            result = completion[1].result if completion else None
            if completion is not None and completion[1].offset == offset:
                found["changed"].append(row.key)
            elif not self._truth.is_closed(partition, row):
                found["open"].append(row.key)
            else:
                since = self._done_ms.get((partition, row.key), 0.0) >= appended_ms
                found["closed_since" if since else "closed_before"].append(row.key)
                if result is not None and result.is_failed:
                    found["failed"].append(row.key)
        names = ("open", "changed", "closed_since", "closed_before", "failed")
        return PairState(*(tuple(found[name]) for name in names))

    def _claim_stored(self, partition: int, claim: Claim, before: Claim | None) -> None:
        now_ms = self._now_ms()
        self._truth.note_topic(partition, claim.watermark.topic_id)
        if before is None or before.epoch != claim.epoch:
            self._claimed_ms[partition, claim.epoch] = now_ms
            self._taken_over(partition)
            self._history.add(Claimed(now_ms, partition, claim.epoch))
            return
        mark = claim.watermark
        next_offset = None
        if mark.next_offset is not None:
            next_offset = self._truth.kept(
                partition, mark.topic_id, broker_offset(mark.next_offset)
            )
            self._commit(partition, next_offset, "watermark")
        durable = max(next_offset or 0, self._committed_offset(partition) or 0)
        orphans = self._truth.orphans(partition, mark, durable)
        self._history.add(WatermarkSaved(now_ms, partition, mark.watermark_ms, orphans))

    def _taken_over(self, partition: int) -> None:
        """A partition has a later owner: see what its earlier ones still do."""

    def _commit(self, partition: int, next_offset: int | None, where: str) -> None:
        known = self._durable.get(partition, 0)
        if next_offset is None:
            return
        undurable = self._truth.undurable(partition, known, next_offset)
        if next_offset > known:
            self._durable[partition] = undurable[0] if undurable else next_offset
            # A claim is written when reading begins, so there is none before the first commit.
            mark = self._world.data.claims[partition].watermark
            orphans = self._truth.orphans(partition, mark, next_offset)
            entry = Committed(self._now_ms(), partition, next_offset, where, undurable, orphans)
            self._history.add(entry)
