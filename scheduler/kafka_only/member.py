"""One member of a group: it reads a topic and hands each partition's records to its owner.

Decides which partitions are read: those that have begun, and whose owner has room. It is the one
thread that polls; implements ``hourhand.actors.ports.log.AssignmentListener``.
"""

import logging
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from hourhand.actors.kernel.futures import gather
from hourhand.actors.model.operations.events import (
    AssignmentReceived,
    OwnerBegan,
    PartitionLost,
    PartitionRevoked,
)
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.partition import partitions_text
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import StartPosition
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.kafka_only.marker import Marker
from hourhand.scheduler.kafka_only.owner import Owner
from hourhand.scheduler.kafka_only.ports import HeldLog
from hourhand.scheduler.runtime.guarded_loop import FAILED_PAUSE_S, guarded, run_guarded
from hourhand.scheduler.runtime.light_future import then

logger = logging.getLogger("hourhand.buckets")

_POLL_MS = 20
_RECORDS_MAX = 5_000
_ROOM = 0.8
"""A held partition is read again when its owner's memory is filled less than this share."""
_AskedStart = tuple[int, Marker | None, "Future[StartPosition]"]


class Member:
    """Reads one topic until it is stopped."""

    def __init__(
        self,
        name: str,
        open_log: Callable[[], HeldLog],
        own: Callable[[HeldLog, int], Owner],
        clock: Clock,
        telemetry: Telemetry,
        poll_bytes: int,
    ) -> None:
        """``own`` makes the owner of a partition that was assigned.

        A poll ends at about ``poll_bytes``, and takes at least one record.
        """
        self._poll_bytes = poll_bytes
        self._record_bytes = poll_bytes
        """Average size of the last poll's records, which estimates that of the next ones. At first
        it is a whole poll, so that one record is taken."""
        self._name = name
        self._open_log = open_log
        self._own = own
        self._clock = clock
        self._telemetry = telemetry
        self.polled_ms = clock.monotonic_ms()
        """Monotonic time of its last poll."""
        self.failure: str | None = None
        """The error of the last round; None if it succeeded."""
        self._log = open_log()
        self._log.subscribe(self)
        self._owners: dict[int, Owner] = {}
        self._held: set[int] = set()
        self._starts: queue.SimpleQueue[_AskedStart] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def owners(self) -> Mapping[int, Owner]:
        """The owners by partition; changed by the polling thread."""
        return self._owners

    def start(self) -> None:
        """Read, on a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Let every owner finish its step, leave the group, close connections."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()
        else:
            self._log.close()

    def assigned(self, partitions: Sequence[int]) -> None:
        """Make an owner for each partition; the owner asks for it to be read."""
        for partition in partitions:
            owner = self._own(self._log, partition)
            self._owners = {**self._owners, partition: owner}
            self._telemetry.emit(AssignmentReceived(partition))
            owner.start(self._ask_to_start, self._teller(partition))
        logger.info("%s was given %s", self._name, partitions_text(partitions))

    def revoking(self, partitions: Sequence[int]) -> "Future[Mapping[int, int]]":
        """Let the owners finish; their work is committed, so no offset remains to be committed."""
        gone = self._let_go(partitions)
        for partition in partitions:
            self._telemetry.emit(PartitionRevoked(partition, drained=True))
        logger.info("%s releases %s", self._name, partitions_text(partitions))
        return then(gather([owner.ended for owner in gone]), lambda _ended: {})

    def lost(self, partitions: Sequence[int]) -> None:
        """Stop the owners; transactions under way are fenced by the next owner."""
        self._let_go(partitions)
        for partition in partitions:
            self._telemetry.emit(PartitionLost(partition, "the group gave it to another member"))
        logger.warning("%s lost %s", self._name, partitions_text(partitions))

    def _teller(self, partition: int) -> Callable[[], None]:
        given_ms = self._clock.monotonic_ms()

        def tell() -> None:
            waited_ms = self._clock.monotonic_ms() - given_ms
            self._telemetry.emit(OwnerBegan(partition, waited_ms))

        return tell

    def _ask_to_start(self, partition: int, marker: Marker | None) -> "Future[StartPosition]":
        asked: Future[StartPosition] = Future()
        self._starts.put((partition, marker, asked))
        return asked

    def _let_go(self, partitions: Sequence[int]) -> list[Owner]:
        gone = [self._owners[each] for each in partitions if each in self._owners]
        self._owners = {p: each for p, each in self._owners.items() if p not in partitions}
        self._held.difference_update(partitions)
        for owner in gone:
            owner.stop()
        return gone

    def _run(self) -> None:
        run_guarded(self._round, f"a round of {self._name}", logger, self._stopped)
        self._close()

    def _round(self) -> None:
        try:
            self._read()
            self.failure = None
        except HourhandError as error:
            self.failure = str(error)
            logger.warning("%s is opened again: %s", self._name, error)
            self._open_anew()

    def _read(self) -> None:
        self._serve_starts()
        self._hold_what_is_full()
        self.polled_ms = self._clock.monotonic_ms()
        polled = self._log.poll(self._records_max(), _POLL_MS)
        by_partition: dict[int, list[LogRecord]] = {each: [] for each in polled.reached}
        for record in polled.records:
            by_partition.setdefault(record.partition, []).append(record)
        size_bytes = count = 0
        for partition, records in by_partition.items():
            if (owner := self._owners.get(partition)) is not None:
                size_bytes += owner.take(records, polled.reached.get(partition))
                count += len(records)
        if count:
            self._record_bytes = size_bytes // count

    def _records_max(self) -> int:
        return max(1, min(_RECORDS_MAX, self._poll_bytes // max(1, self._record_bytes)))

    def _serve_starts(self) -> None:
        while not self._starts.empty():
            partition, marker, asked = self._starts.get()
            if not asked.set_running_or_notify_cancel():
                continue
            try:
                stored = (None, "") if marker is None else (marker.next_offset, marker.topic_id)
                asked.set_result(self._log.start(partition, *stored))
            except (HourhandError, ValueError) as error:
                # ValueError: it was revoked meanwhile, and its owner was told to stop.
                asked.set_exception(error)
            self._held.discard(partition)

    def _hold_what_is_full(self) -> None:
        for partition, owner in self._owners.items():
            if partition not in self._held and owner.fullness >= 1:
                self._log.hold(partition)
                self._held.add(partition)
            elif partition in self._held and owner.fullness < _ROOM:
                self._log.release(partition)
                self._held.discard(partition)

    def _open_anew(self) -> None:
        self._close()
        while not self._stopped.wait(FAILED_PAUSE_S):
            if guarded(self._open, f"opening {self._name}", logger):
                return

    def _open(self) -> None:
        self._log = self._open_log()
        self._log.subscribe(self)

    def _close(self) -> None:
        for owner in self._owners.values():
            owner.stop()
        try:
            self._log.close()
        except HourhandError as error:
            logger.warning("%s did not leave its group cleanly: %s", self._name, error)
        self._owners, self._held = {}, set()
