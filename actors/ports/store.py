"""Waiting tasks, ended ones, checkpoints, results, and the owners of partitions: narrow stores.

Common contract. Every method returns at once with a ``concurrent.futures.Future``. A future that
resolves means durable (a write) or complete (a read); one that fails with StoreUnavailable leaves
open whether the write happened. All writes are idempotent. ``write_time`` orders writes of one
cell: the higher one wins, whichever arrives first and whatever any clock says; if they are equal a
delete wins. A delete with write time w removes nothing written above w. A row written up to w that
arrives later, within days, is deleted too, in every hour that held a row and in the last
``SURELY_DELETED_HOURS`` of the delete: an owner whose write was not confirmed leaves the record to
the next one, which writes the row again. A delete resolves to the hour up to which it is done: its
end, or less if so many hours held rows that the others need another call. If one call has two rows
of one key the last counts; two calls never write different contents of a key with the same write
time, because a store may mix them. Keys sort by (scheduled_ms, ordering_id, uniqueness_key), ids
by their UTF-8 bytes (which is the order of Python strings). Ranges of keys are open below and
closed above unless said.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

import msgspec

from hourhand.actors.model.operations.ownership import Claim, Watermark
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.outcome_row import OutcomesRow
from hourhand.actors.model.task.status import AttemptRecord, Completion, RecordedOutcome
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.task.task_checkpoint import TaskCheckpoint
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.actors.model.window.budget import PAGE_BYTES_MAX
from hourhand.actors.ports.definitions import DefinitionStore
from hourhand.actors.ports.oversight import OversightStore, TallyStore


class KeptOutcome(msgspec.Struct, frozen=True):
    """An outcome that was told: its position, and its JSON text."""

    position: int
    value: bytes


class TaskPage(msgspec.Struct, frozen=True):
    """Rows in key order; ``complete`` if the range holds no further row.

    A store may answer fewer rows than requested, but at least one if it is not complete.
    """

    tasks: Sequence[StoredTask]
    complete: bool

    def reached(self, end: TaskKey) -> TaskKey:
        """Return the key up to which these are all rows of a read that should go to ``end``."""
        return end if self.complete else self.tasks[-1].key


class KeysPage(msgspec.Struct, frozen=True):
    """The keys of consecutive rows, in key order; ``complete`` if the range holds no further
    row.
    """

    keys: Sequence[TaskKey]
    complete: bool

    def reached(self, end: TaskKey) -> TaskKey:
        """Return the key up to which these are all keys of a read that should go to ``end``."""
        return end if self.complete else self.keys[-1]


class ScheduleStore(Protocol):
    """Rows of ``task_schedule``."""

    def insert_tasks(
        self, partition: int, tasks: Sequence[StoredTask], write_time: int
    ) -> "Future[None]":
        """Write rows, replacing their keys' rows below ``write_time``."""

    def load_tasks(
        self,
        partition: int,
        after: TaskKey,
        before_ms: int,
        limit: int,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> "Future[TaskPage]":
        """Read up to ``limit`` rows with key > ``after`` and scheduled_ms < ``before_ms``.

        The page ends with the row that reaches ``page_bytes``, before the limit.
        """

    def find_tasks(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Mapping[TaskKey, StoredTask]]":
        """Read single rows; a key without a row is absent from the answer."""

    def load_ordering(
        self,
        partition: int,
        ordering_id: str,
        after: TaskKey,
        up_to: TaskKey,
        limit: int,
        page_bytes: int = PAGE_BYTES_MAX,
    ) -> "Future[TaskPage]":
        """Read up to ``limit`` rows of one ordering id with ``after`` < key <= ``up_to``.

        The page ends with the row that reaches ``page_bytes``, before the limit.
        """

    def find_keys(
        self, partition: int, after: TaskKey, before_ms: int, limit: int
    ) -> "Future[KeysPage]":
        """Read only the keys of up to ``limit`` rows with key > ``after`` and scheduled_ms <
        ``before_ms``, at least one if there are more.
        """

    def delete_tasks(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[int]":
        """Remove whole hours, [first, end), both starts of an hour."""


class StatusStore(Protocol):
    """Rows of ``task_status`` (completions) and ``attempt_history``."""

    def insert_completions(
        self, partition: int, completions: Sequence[Completion], write_time: int
    ) -> "Future[None]":
        """Write completions, replacing their keys' completions below ``write_time``."""

    def load_completions(
        self, partition: int, after: TaskKey, up_to: TaskKey, failed_max: int | None = None
    ) -> "Future[Sequence[Completion]]":
        """Read all completions with ``after`` < key <= ``up_to``, in key order.

        With ``failed_max`` only the first ones, up to this number, of those that failed or were
        dropped. Among them may be one that a later success replaced.
        """

    def find_completions(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Mapping[TaskKey, Completion]]":
        """Read single completions; an open key is absent from the answer."""

    def insert_attempts(
        self, partition: int, attempts: Sequence[AttemptRecord], write_time: int
    ) -> "Future[None]":
        """Write attempts; one row for each key and attempt number."""

    def load_attempts(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> "Future[Sequence[AttemptRecord]]":
        """Read all attempts with ``after`` < key <= ``up_to``, by key, then number."""

    def find_attempts(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[AttemptRecord]]":
        """Read all attempts of single keys, by key, then number."""

    def delete_statuses(
        self, partition: int, first_hour_ms: int, end_hour_ms: int, write_time: int
    ) -> "Future[int]":
        """Remove whole hours of completions, attempts, checkpoints and results, [first, end)."""


class CheckpointStore(Protocol):
    """Rows of ``task_checkpoint``: the newest checkpoint of each task that made one.

    ``StatusStore.delete_statuses`` removes them, with the attempts of their hours.
    """

    def insert_checkpoints(
        self, partition: int, checkpoints: Sequence[TaskCheckpoint], write_time: int
    ) -> "Future[None]":
        """Write checkpoints, replacing what their keys held below ``write_time``."""

    def load_checkpoints(
        self, partition: int, after: TaskKey, up_to: TaskKey
    ) -> "Future[Sequence[TaskCheckpoint]]":
        """Read all checkpoints with ``after`` < key <= ``up_to``, in key order."""

    def find_checkpoints(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[TaskCheckpoint]]":
        """Read the checkpoints of single keys, in key order; a key without one is left out."""


class ResultStore(Protocol):
    """Rows of ``task_result``: the values that tasks ended with.

    Each is kept until its ``kept_until_ms``; then a store may forget the body, and the rest of the
    row stays. ``StatusStore.delete_statuses`` removes rows, with the completions of their hours.
    """

    def insert_results(
        self, partition: int, results: Sequence[StoredResult], write_time: int
    ) -> "Future[None]":
        """Write results, replacing what their keys held below ``write_time``."""

    def find_results(
        self, partition: int, keys: Sequence[TaskKey]
    ) -> "Future[Sequence[StoredResult]]":
        """Read the results of single keys, in key order; a key without one is left out."""


class OutcomeLog(Protocol):
    """Rows of ``outcome_log``: closed tasks of which the stream of outcomes has not told yet.

    Rows are in the order of number and piece, which together are a row's place.
    """

    def insert_closed(
        self, partition: int, rows: Sequence[OutcomesRow], write_time: int
    ) -> "Future[None]":
        """Write rows, replacing what their places held below ``write_time``."""

    def load_closed(
        self, partition: int, first: int, end: int, limit: int
    ) -> "Future[Sequence[OutcomesRow]]":
        """Read up to ``limit`` rows with ``first`` <= number < ``end``, in order."""

    def find_last_closed(self, partition: int, end: int) -> "Future[OutcomesRow | None]":
        """Read the last row with a number below ``end``."""

    def delete_closed(
        self, partition: int, first: tuple[int, int], last: tuple[int, int], write_time: int
    ) -> "Future[None]":
        """Remove the rows from one place to another, both included, up to a write time."""


class KeptOutcomes(Protocol):
    """Rows of ``outcome_kept``: outcomes that were told, for readers on the same machine."""

    def keep_outcomes(
        self, values: Sequence[bytes], now_ms: int, retention_ms: int
    ) -> "Future[None]":
        """Append outcomes, in order, and forget those that are older than the retention."""

    def load_kept(self, after: int, limit: int) -> "Future[Sequence[KeptOutcome]]":
        """Read up to ``limit`` outcomes behind a position, in order."""


class OwnershipStore(Protocol):
    """Rows of ``partition_watermark``, ``command_outcome`` and ``schedule_meta``.

    ``claim`` and ``save_watermark`` are compare-and-set on the owner epoch (a lightweight
    transaction in Cassandra), so an owner that was replaced fails with OwnershipLost.
    """

    def claim(self, partition: int, initial_watermark_ms: int) -> "Future[Claim]":
        """Raise the owner epoch by one and return it with the row as it was.

        A partition without a row begins at ``initial_watermark_ms`` and epoch 1.
        """

    def save_watermark(self, partition: int, epoch: int, watermark: Watermark) -> "Future[None]":
        """Replace the row; OwnershipLost if the stored epoch is not ``epoch``.

        A save whose ``watermark.write_time`` is below the stored one changes nothing: a later one
        of the same owner overtook it.
        """

    def read_watermark(self, partition: int) -> "Future[Claim | None]":
        """Read the row without changing it; None if the partition never had an owner."""

    def find_watermark(self, partition: int) -> "Future[Claim | None]":
        """Read as ``read_watermark``, but it may miss a save that is under way: for display, or to
        choose where to begin to look; not for decisions.
        """

    def insert_outcome(
        self, partition: int, offset: int, outcome: RecordedOutcome, write_time: int
    ) -> "Future[None]":
        """Record the outcome of the command at ``offset``; kept as long as completions."""

    def find_outcome(self, partition: int, offset: int) -> "Future[RecordedOutcome | None]":
        """Read the outcome of the command at ``offset``."""

    def agree_partition_count(self, count: int) -> "Future[int]":
        """Store ``count`` if no count is stored yet; return the stored one (one winner).

        0 only reads: it is not stored, and returned if nothing is.
        """


class Stores(msgspec.Struct, frozen=True):
    """The stores of one installation, opened together."""

    schedule: ScheduleStore
    status: StatusStore
    checkpoints: CheckpointStore
    results: ResultStore
    outcome_log: OutcomeLog
    ownership: OwnershipStore
    definitions: DefinitionStore
    oversight: OversightStore
    tallies: TallyStore
    close: Callable[[], None]
    """Wait for writes in flight, for a bounded time, then close connections or files."""
    installation_id: Callable[[], str] = str
    """Return the unique id of this installation's store, made at the first call; empty if a store
    has none. Blocks; StoreUnavailable."""
    kept_outcomes: KeptOutcomes | None = None
    """Outcomes for readers on the same machine; None if a store keeps none."""
