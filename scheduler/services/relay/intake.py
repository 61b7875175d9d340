"""Reads the in-topic: each message becomes a claim of its id, and the task of its delivery.

One polling thread calls ``step``. An offset is committed only when everything before it is durable
in the task log, or put aside. A record that can never succeed is put aside; if a retry may help,
only its partition rests and is read again. Claims and deliveries carry the record's place, so
reading one again changes nothing. Claims are decided elsewhere.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.operations.events import RelayRecordRefused
from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import (
    CallerError,
    HourhandError,
    PoisonRecord,
    TaskTooLarge,
)
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import TaskLog
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.configuration.door_settings import RelaySettings
from hourhand.scheduler.node.commits import PeriodicCommits, Reading, durable_offsets
from hourhand.scheduler.node.system_executor import PATIENCE
from hourhand.scheduler.services.relay.claim_state import claim_name, place_of
from hourhand.scheduler.services.relay.gathering import (
    ClaimBatch,
    ClaimGatherer,
    ClaimRequest,
    claim_ordering_ids,
)
from hourhand.scheduler.services.relay.headers import (
    Malformed,
    RelayAction,
    RelayRequest,
    request_of,
)
from hourhand.scheduler.services.relay.message import (
    Delivery,
    inline_data,
    ordering_id_of,
    parked_row,
)
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system.system_tasks import unique_in_order
from hourhand.scheduler.tasks.appending import TaskAppender

logger = logging.getLogger("hourhand.relay")

STAMP_OFF_MS_MAX = 30_000
"""Greatest distance of a record's time from this node's clock at which it is used; others count as
of now. A record may be ahead: where only this clock is behind, a record that counted as of now
would seem to have come while the message before it still waited, and be left out."""
COMMIT_INTERVAL_MS = 1_000
_DAY_MS = 86_400_000
_encode = msgspec.json.Encoder().encode
SETTLE_S = 5.0
"""Longest wait in seconds for pending records when a partition is given up: records that are not
durable by then are read again."""


class IntakePorts(NamedTuple):
    """The ports that the intake uses; it closes none of them."""

    log: TaskLog
    put_aside: Callable[[LogRecord, str], "Future[Any]"]
    """Appends a record to the dead-letter topic, with a reason."""
    appender: TaskAppender
    definitions: DefinitionBook
    clock: Clock
    telemetry: Telemetry
    wait: "Callable[[Iterable[Future[Any]], float], object]" = wait
    """Waits for all of these, at most for the given seconds."""
    unique: Callable[[int], str] = unique_in_order
    """Names batches of claims: unique names, in the order of the calls."""
    topic_id: Callable[[], str] = str
    """Returns the id of the in-topic's current incarnation; empty if it is unknown. Blocks."""
    within: Callable[[Headers], AbstractContextManager[object]] = nullcontext
    """Makes the records that are appended inside part of the trace of a message with these
    headers."""
    row_bytes_max: int = 8_388_608
    """Longest message that the store can hold."""
    patience: RetryPolicy = PATIENCE
    """The pauses of a partition before it is read again."""


class _TakenRecord(NamedTuple):
    """A record that was read, and the futures that must be durable before its offset is
    committed.
    """

    record: LogRecord
    futures: "list[Future[Any]]"
    delivery_key: TaskKey | None = None
    is_inline: bool = False
    """True if its message is in its task but could be stored beside it."""
    refusal: str = ""
    """The reason why it is put aside; a further refusal is about its dead letter then."""


@dataclass(slots=True)
class _InTopicReading(Reading[_TakenRecord]):
    """One assigned partition of the in-topic."""

    polled: int = 0
    """The offset up to which it was read; a lower offset is of another topic with the same name."""
    topic_id: str | None = None
    """None while the topic's incarnation is unknown."""
    stamp_ms: int = 0
    failures: int = 0
    """Consecutive failures of the record at ``next_offset``."""
    rests_until_ms: float | None = None
    """Monotonic time when it is read again; records read before that do not count."""

    def place_of(self, record: LogRecord) -> str:
        """Return a text that identifies a record, also against those of an earlier topic."""
        return place_of(record.partition, record.offset, self.topic_id or "")

    def go_back(self, offset: int) -> None:
        """Forget all records that were read from an offset on."""
        self.begin(offset)
        self.polled = offset


class RelayIntake:
    """Implements ``hourhand.actors.ports.log.AssignmentListener``."""

    def __init__(
        self, ports: IntakePorts, settings: RelaySettings, allows: Callable[[str], bool]
    ) -> None:
        self._ports = ports
        self._settings = settings
        self._allows = allows
        self._claim_ids = claim_ordering_ids(ports.appender.partition_count)
        self._claims = ClaimGatherer(self._append_claims, ports.appender.partition_count)
        self._partitions: dict[int, _InTopicReading] = {}
        self._waiting: list[int] = []
        self._commits = PeriodicCommits(ports.log.commit, ports.clock, COMMIT_INTERVAL_MS)
        ports.log.subscribe(self)

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions of the in-topic this member reads, in order."""
        return tuple(sorted(self._partitions))

    def step(self, timeout_ms: int) -> int:
        """Do one round: begin, poll, append, commit; return the number of records read."""
        self._begin_assigned()
        self._learn_topic()
        self._wake()
        under_way = sum(len(each.under_way) for each in self._partitions.values())
        room = max(0, self._settings.in_flight_max - under_way)
        polled = self._ports.log.poll(room, timeout_ms)
        read = {p: each for p, each in self._partitions.items() if each.rests_until_ms is None}
        for record in polled.records:
            if (held := read.get(record.partition)) is None:
                continue
            if record.offset < held.polled:
                self._begin_anew(record.partition, read.pop(record.partition), record.offset)
            else:
                held.polled = record.offset + 1
                read_here = self._take(record, held, self._settings.inline_bytes_max)
                held.deliver(read_here, record.offset + 1)
        for partition, reached in polled.reached.items():
            if partition in read:
                read[partition].reached_offset = reached
        self._claims.flush(self._ports.clock.now_ms(), idle=not polled.records)
        self._settle()
        self._commit()
        return len(polled.records)

    def drain(self, timeout_s: float) -> None:
        """Wait for pending records, for a bounded time, and commit the durable ones."""
        self._claims.flush_all()
        self._wait_for(self._partitions, timeout_s)
        self._settle()
        self._commits.commit(durable_offsets(self._partitions.values()))

    # Calls of the log, on the polling thread.

    def assigned(self, partitions: Sequence[int]) -> None:
        """Begin these partitions in the next round."""
        self._waiting += partitions

    def revoking(self, partitions: Sequence[int]) -> "Future[Mapping[int, int]]":
        """Wait for pending records, for a bounded time, then release the partitions."""
        done: Future[Mapping[int, int]] = Future()
        self._claims.flush_all()
        self._wait_for(partitions, SETTLE_S)
        for partition in partitions:
            if partition in self._partitions:
                self._settle_one(partition, self._partitions[partition], seek=False)
        gone = [self._partitions[each] for each in partitions if each in self._partitions]
        done.set_result(durable_offsets(gone))
        self.lost(partitions)
        return done

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget these partitions at once."""
        for partition in partitions:
            self._partitions.pop(partition, None)
        self._waiting = [each for each in self._waiting if each not in partitions]

    def _wait_for(self, partitions: Iterable[int], timeout_s: float) -> None:
        """Wait once for all of these partitions: a slow log must not be waited for by each."""
        held = [self._partitions[each] for each in partitions if each in self._partitions]
        answers = [each for one in held for read in one.under_way for each in read.part.futures]
        self._ports.wait(answers, timeout_s)

    def _begin_assigned(self) -> None:
        while self._waiting:
            partition = self._waiting[0]
            start = self._ports.log.start(partition, None)
            self._waiting.remove(partition)
            offset = start.next_offset
            self._partitions[partition] = _InTopicReading(partition, offset, offset)

    def _learn_topic(self) -> None:
        unknown = [each for each in self._partitions.values() if each.topic_id is None]
        if unknown:
            topic_id = self._ports.topic_id()
            for held in unknown:
                held.topic_id = topic_id

    def _begin_anew(self, partition: int, held: _InTopicReading, offset: int) -> None:
        """Read again once the topic's incarnation is known: the previous one had the same
        offset.
        """
        where = f"{self._settings.in_topic}[{partition}]"
        logger.warning(
            "%s is at offset %d again: the topic was deleted and made again", where, offset
        )
        held.topic_id = None
        held.go_back(offset)
        self._ports.log.seek(partition, offset)

    def _settle(self) -> None:
        for partition, held in self._partitions.items():
            self._settle_one(partition, held, seek=True)

    def _settle_one(self, partition: int, held: _InTopicReading, *, seek: bool) -> None:
        """Check which records became durable; ``seek`` is True if the partition stays this
        member's.
        """
        while held.under_way and all(each.done() for each in held.under_way[0].part.futures):
            read = held.under_way[0].part
            error = next((e for e in (each.exception() for each in read.futures) if e), None)
            if isinstance(error, CallerError | PoisonRecord) and not read.refusal:
                held.under_way[0].part = self._try_otherwise(read, held, str(error))
                continue
            if error is not None:
                self._read_again(partition, held, error, seek=seek)
                break
            held.under_way[0].durable, held.failures = True, 0
            held.advance()
            if read.refusal:
                self._tell_of(read)
        held.advance()

    def _read_again(
        self, partition: int, held: _InTopicReading, error: BaseException, *, seek: bool
    ) -> None:
        offset = held.under_way[0].part.record.offset
        held.failures += 1
        pause_ms = self._ports.patience.delay_ms(held.failures)
        logger.warning(
            "%s[%d] is read again from offset %d in %d ms: %s",
            self._settings.in_topic,
            partition,
            offset,
            pause_ms,
            error,
            exc_info=None if isinstance(error, HourhandError) else error,
        )
        held.go_back(offset)
        if seek:
            held.rests_until_ms = self._ports.clock.monotonic_ms() + pause_ms

    def _wake(self) -> None:
        now_ms = self._ports.clock.monotonic_ms()
        for partition, held in self._partitions.items():
            if held.rests_until_ms is not None and now_ms >= held.rests_until_ms:
                self._ports.log.seek(partition, held.next_offset)
                held.rests_until_ms = None

    def _commit(self) -> None:
        if self._commits.are_due():
            self._commits.commit(durable_offsets(self._partitions.values()))

    # The steps for one record.

    def _take(
        self, record: LogRecord, held: _InTopicReading, inline_bytes_max: int
    ) -> _TakenRecord:
        now_ms = self._ports.clock.now_ms()
        believed = abs(record.timestamp_ms - now_ms) <= STAMP_OFF_MS_MAX
        # It never decreases, so that claims of one id are decided in the order of the in-topic.
        held.stamp_ms = max(held.stamp_ms, record.timestamp_ms if believed else now_ms)
        try:
            request = request_of(record, self._settings, self._allows)
            with self._ports.within(record.headers):
                return self._schedule(record, request, held, now_ms, inline_bytes_max)
        except (Malformed, TaskTooLarge) as error:
            return self._refuse(record, str(error))

    def _try_otherwise(
        self, read: _TakenRecord, held: _InTopicReading, reason: str
    ) -> _TakenRecord:
        """Retry a record that the log or the store refused: beside its task, or put aside.

        A part of it that became durable would keep its key and its id from going on.
        """
        if read.is_inline:
            return self._take(read.record, held, inline_bytes_max=0)
        refused = self._refuse(read.record, reason)
        if read.delivery_key is not None:
            refused.futures.append(self._ports.appender.cancel(read.delivery_key))
        return refused

    def _refuse(self, record: LogRecord, reason: str) -> _TakenRecord:
        letters = []
        if self._settings.malformed != "drop":
            letters = [self._ports.put_aside(record, reason)]
        return _TakenRecord(record, letters, refusal=reason)

    def _tell_of(self, read: _TakenRecord) -> None:
        """Report a record that is not relayed, once it is put aside."""
        partition, offset = read.record.partition, read.record.offset
        where = f"{self._settings.in_topic}[{partition}] offset {offset}"
        logger.error("%s is not relayed: %s", where, read.refusal)
        self._ports.telemetry.emit(RelayRecordRefused(partition, offset, read.refusal))

    def _schedule(
        self,
        record: LogRecord,
        request: RelayRequest,
        held: _InTopicReading,
        now_ms: int,
        inline_bytes_max: int,
    ) -> _TakenRecord:
        """Append the tasks of a record; TaskTooLarge before any of them was appended."""
        place, stamp_ms = held.place_of(record), held.stamp_ms
        due_ms = 0
        if request.action is not RelayAction.CANCEL:
            # The time is the same whenever the record is read, so reading it again makes one task;
            # a very old time would make nodes read every hour since then.
            oldest_ms = now_ms // _DAY_MS * _DAY_MS - _DAY_MS
            due_ms = max(request.deadline_ms - self._settings.timing_advance_ms, oldest_ms)
        message, appender = request.message, self._ports.appender
        ordering_id = ordering_id_of(message.key, place)
        data, row = None, None
        if request.action is RelayAction.SCHEDULE:
            delivery = Delivery(message, id=request.id, place=place)
            data = inline_data(delivery, inline_bytes_max)
            if data is None:
                # Checked before the id is claimed: a claim without a waiting message would keep
                # later messages of the id from being relayed.
                row = parked_row(place, message, self._ports.row_bytes_max)
                data = _encode(Delivery(parked=place, id=request.id, place=place))
        claim = ClaimRequest(request.action, request.id, place, ordering_id, due_ms, stamp_ms)
        partition = appender.partition_of(claim_name(request.id).ordering_id)
        under_way: list[Future[Any]] = [self._claims.add(partition, claim, now_ms)]
        if row is not None:
            under_way.append(self._ports.definitions.save(row))
        if data is None:
            return _TakenRecord(record, under_way)
        key = TaskKey(due_ms, ordering_id, place)
        under_way.append(appender.append_json(key, data))
        return _TakenRecord(record, under_way, key, is_inline=row is None)

    def _append_claims(self, partition: int, batch: ClaimBatch) -> "Future[Any]":
        """Append a batch of claims: due at once, behind those appended before it."""
        now_ms = self._ports.clock.now_ms()
        key = TaskKey(now_ms, self._claim_ids[partition], self._ports.unique(now_ms))
        return self._ports.appender.append_json(key, _encode(batch))
