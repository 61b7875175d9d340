"""``TaskLog`` on the folder's log file: one member, which owns every partition.

The lock of the folder is the lease. Commits are written in the background, because a client that
appends steadily must not delay polls; a later poll reports a failure. Records far below the
committed offsets are removed there too.
"""

import contextlib
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from functools import partial

from hourhand.actors.model.task.codec import LogRecord, record_bytes
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import AssignmentListener, Polled, StartPosition
from hourhand.scheduler.adapters.embedded.connection import FAILURES, examine, open_connection
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.folder import (
    Bell,
    FolderLock,
    log_file,
    open_to_others,
    store_file,
)
from hourhand.scheduler.adapters.embedded.pair import StoreTally, check_pair, is_paired
from hourhand.scheduler.adapters.embedded.records import (
    agree_partition_count,
    prune_records,
    read_ends,
    read_records,
    starting_position,
    store_committed,
)
from hourhand.scheduler.adapters.embedded.seal import Damage
from hourhand.scheduler.configuration.settings import Settings

logger = logging.getLogger("hourhand.embedded")

KEPT_RECORDS = 1_000
"""Number of records below a committed offset that stay, for readers and for ``seek``."""
PRUNED_TOGETHER = 1_000
"""Pruning begins when about this number of records may go."""
_POLL_BYTES_MAX = 4_000_000
"""Bytes after which a poll ends."""
_REVOKE_MARGIN_S = 2.0
_FINAL_COMMIT_S = 15.0


def open_log(
    settings: Settings, clock: Clock, _installation_id: Callable[[], str]
) -> "EmbeddedLog":
    """Open the log of a folder; the folder has one store, so the installation's id is not used."""
    return EmbeddedLog(settings, clock)


def bring_up_to_date(_settings: Settings) -> list[str]:
    """Return no changes: the log makes its folder when it is opened."""
    return ["the embedded log makes its folder itself: nothing to do"]


class EmbeddedLog:
    """The node's side of the log of ``settings.embedded.folder``.

    ``subscribe`` raises FolderLocked if another node holds the folder. All methods raise
    LogUnavailable if the file cannot be used, FolderDamaged if its content is not what was written,
    and the constructor raises SchemaMissing if a newer version of Hourhand wrote it.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._folder = settings.embedded.folder
        self._drain_deadline_ms = settings.tree.recovery.drain_deadline_ms
        self._wanted_partitions = settings.topic.partitions
        self._clock = clock
        self._file = log_file(self._folder)
        self._examined = [self._file]
        if is_paired(settings):
            self._examined.append(store_file(self._folder))
        check_pair(settings)
        shared = open_to_others(self._folder)
        if shared is not None:
            logger.warning("%s", shared)
        with contextlib.ExitStack() as opened:
            self._tally = StoreTally(settings)
            opened.callback(self._tally.close)
            self._reader = open_connection(self._file, read_only=True)
            opened.callback(self._reader.close)
            self._database = Database(self._file)
            opened.pop_all()
        self._listener: AssignmentListener | None = None
        self._lock: FolderLock | None = None
        self._bell: Bell | None = None
        self._assigned: tuple[int, ...] = ()
        self._positions: dict[int, int] = {}
        self._held: set[int] = set()
        self._ends: dict[int, int] = {}
        self._seen_version: int | None = None
        self._turn = 0
        self._committing: Future[None] | None = None
        self._prunable: dict[int, int] = {}
        self._pruning: Future[None] | None = None
        self._lease_ends_ms = -math.inf
        self._closed = False

    def subscribe(self, listener: AssignmentListener) -> None:
        """Lock the folder after a check of its files; the next poll assigns all partitions."""
        lock = FolderLock(self._folder)
        try:
            for file in self._examined:
                examine(file)
        except BaseException:
            lock.release()
            raise
        self._lock = lock
        self._bell = Bell(self._folder)
        self._listener = listener
        self._lease_ends_ms = math.inf

    def start(
        self, partition: int, stored_next_offset: int | None, stored_topic_id: str = ""
    ) -> StartPosition:
        if partition not in self._assigned:
            raise ValueError(f"partition {partition} is not assigned")
        try:
            position = starting_position(self._reader, partition, stored_next_offset)
        except FAILURES as error:
            raise self._file.failure(error) from error
        self._positions[partition] = position.next_offset
        self._held.discard(partition)
        return position

    def seek(self, partition: int, next_offset: int | None) -> None:
        if next_offset is None:
            self._held.add(partition)
        else:
            self._held.discard(partition)
            self._positions[partition] = next_offset

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Return records after a wait for the first; an append of any process ends the wait."""
        self._report_failure()
        self._assign()
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while records_max > 0 and self._bell is not None:
            try:
                polled = self._fetch(records_max)
            except FAILURES as error:
                raise self._file.failure(error) from error
            left_ms = deadline_ms - self._clock.monotonic_ms()
            if polled.reached or left_ms <= 0:
                return polled
            self._bell.wait(left_ms)
        return Polled()

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Start a write of these next offsets; the next poll raises its failure."""
        next_offsets = {p: o for p, o in next_offsets.items() if p in self._assigned}
        if not next_offsets or self._lock is None:
            return
        self._report_failure()
        self._committing = self._store_committed(next_offsets)
        self._prune(next_offsets)

    def lease_ends_ms(self) -> float:
        """Return ``inf`` while the folder is held, ``-inf`` otherwise."""
        return self._lease_ends_ms

    def close(self) -> None:
        """Revoke assigned partitions, commit the offsets that this returns, unlock the folder."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._assigned and self._listener is not None:
                self._settle(self._drained(self._listener, self._assigned))
        finally:
            self._lease_ends_ms = -math.inf
            self._database.close()
            self._reader.close()
            self._tally.close()
            if self._bell is not None:
                self._bell.close()
            if self._lock is not None:
                self._lock.release()

    def _assign(self) -> None:
        if self._assigned or self._listener is None:
            return
        count = self._database.write(
            partial(agree_partition_count, wanted=self._wanted_partitions)
        ).result()
        self._assigned = tuple(range(count))
        self._listener.assigned(self._assigned)

    def _fetch(self, records_max: int) -> Polled:
        # The version tells whether a process committed since, at the cost of a read of shared
        # memory; it is read before the data, so that a commit in between is seen the next time.
        (version,) = self._reader.execute("PRAGMA data_version").fetchone()
        if version != self._seen_version:
            self._ends = read_ends(self._reader)
            self._seen_version = version
        behind = [
            p
            for p, position in self._positions.items()
            if self._ends.get(p, 0) > position and p not in self._held
        ]
        if not behind:
            return Polled()
        # Each gets an equal share, and a different one is first every time, so that no partition
        # waits for a long one to be read to its end.
        self._turn += 1
        first = self._turn % len(behind)
        records: list[LogRecord] = []
        reached: dict[int, int] = {}
        left_bytes = _POLL_BYTES_MAX
        for number, partition in enumerate(behind[first:] + behind[:first]):
            share = -(-(records_max - len(records)) // (len(behind) - number))
            if share == 0 or left_bytes <= 0:
                break
            position = self._positions[partition]
            found = read_records(self._reader, partition, position, share, left_bytes)
            position = found[-1].offset + 1 if found else position
            left_bytes -= sum(map(record_bytes, found))
            if len(found) < share and left_bytes > 0 and position < self._ends[partition]:
                raise Damage(f"partition {partition} has no record {position}, which was there")
            records += found
            self._positions[partition] = reached[partition] = position
        return Polled(records, reached)

    def _prune(self, next_offsets: Mapping[int, int]) -> None:
        if self._pruning is not None and not self._pruning.done():
            return
        # Records that were prunable before are gone by now: only newer commits count.
        known = self._prunable
        grown = sum(offset - known.get(p, 0) for p, offset in next_offsets.items())
        if grown >= PRUNED_TOGETHER:
            self._prunable = {**known, **next_offsets}
            self._pruning = self._database.write_in_steps(
                lambda connection: not self._closed and prune_records(connection, KEPT_RECORDS),
                None,
            )

    def _store_committed(self, next_offsets: Mapping[int, int]) -> "Future[None]":
        work = partial(
            store_committed, next_offsets=dict(next_offsets), store_tally=self._tally.read()
        )
        return self._database.write(work)

    def _report_failure(self) -> None:
        committing = self._committing
        if committing is None or not committing.done():
            return
        self._committing = None
        failure = committing.exception()
        if failure is not None:
            raise failure

    def _drained(
        self, listener: AssignmentListener, partitions: Sequence[int]
    ) -> Mapping[int, int]:
        timeout_s = self._drain_deadline_ms / 1000 + _REVOKE_MARGIN_S
        try:
            return listener.revoking(partitions).result(timeout_s)
        except FutureTimeoutError:
            logger.warning("not drained within %s s; nothing is committed", timeout_s)
        except Exception:
            # The folder is unlocked after any failure: without a commit, records are read again.
            logger.exception("draining failed; nothing is committed")
        return {}

    def _settle(self, next_offsets: Mapping[int, int]) -> None:
        try:
            self._store_committed(next_offsets).result(_FINAL_COMMIT_S)
        except Exception:
            logger.exception("the final commit failed; records will be read again")
