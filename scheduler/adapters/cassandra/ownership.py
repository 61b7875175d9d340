"""``OwnershipStore`` on Cassandra: who owns a partition, by lightweight transactions.

Every such write may be sent twice, as the first answer may be lost. A repeated save changes
nothing; a claim has a token, by which it recognises its own work. An epoch whose owner is unknown
is skipped, never handed out.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any
from uuid import UUID, uuid4

from hourhand.actors.model.operations.ownership import (
    Claim,
    Straggler,
    Watermark,
    initial_watermark,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, RecordedOutcome
from hourhand.actors.model.values.errors import OwnershipLost, StoreUnavailable
from hourhand.scheduler.adapters.cassandra.session import CassandraSession, Row
from hourhand.scheduler.runtime.light_future import then

PARTITION_COUNT = "partition_count"
_INSTALLATION_ID = "installation_id"
OUTCOME_TTL_MIN_S = 3_600
"""A client must be able to ask for an outcome, even if completions are not kept."""
_OUTCOME_TTL_MAX_S = 20 * 365 * 86_400
_CLAIM_ROUNDS_MAX = 100
"""Each lost round means that another node's claim succeeded meanwhile."""

OUTCOME_COLUMNS = (
    "outcome, toUnixTimestamp(scheduled_time), ordering_id, uniqueness_key,"
    " toUnixTimestamp(new_scheduled_time), new_ordering_id, new_uniqueness_key, moved_data"
)
_WATERMARK = "{keyspace}.partition_watermark"
WATERMARK_COLUMNS = (
    "watermark",
    "loaded_until",
    "next_offset",
    "stragglers",
    "tasks_swept_until",
    "statuses_swept_until",
    "statuses_due_until",
    "statuses_due_at",
    "write_time",
    "topic_id",
    "thinned_until",
)
_AS_READ = " AND ".join(f"{name} = ?" for name in WATERMARK_COLUMNS)
_READ_WATERMARK = (
    "SELECT owner_epoch, claim_token, toUnixTimestamp(watermark), toUnixTimestamp(loaded_until),"
    " next_offset, stragglers, toUnixTimestamp(tasks_swept_until),"
    " toUnixTimestamp(statuses_swept_until), toUnixTimestamp(statuses_due_until),"
    " toUnixTimestamp(statuses_due_at), write_time, topic_id, toUnixTimestamp(thinned_until)"
    f" FROM {_WATERMARK} WHERE partition_id = ?"
)


class CassandraOwnershipStore:
    """Owners, outcomes, the agreed count; see ``hourhand.actors.ports.store.OwnershipStore``."""

    def __init__(self, session: CassandraSession, *, retention_ms: int) -> None:
        self._session = session
        self._ttl_s = min(max(retention_ms // 1000, OUTCOME_TTL_MIN_S), _OUTCOME_TTL_MAX_S)
        columns = ", ".join(WATERMARK_COLUMNS)
        self._read = session.prepare(_READ_WATERMARK, serial=True)
        # A level of one replica may miss a value that was committed on another.
        weak = session.settings.consistency.endswith("ONE")
        self._read_committed = session.prepare(_READ_WATERMARK, serial=weak)
        self._begin = session.prepare(
            f"INSERT INTO {_WATERMARK} (partition_id, owner_epoch, claim_token, {columns})"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"
        )
        self._raise = session.prepare(
            f"UPDATE {_WATERMARK} SET owner_epoch = ?, claim_token = ?"
            f" WHERE partition_id = ? IF owner_epoch = ? AND {_AS_READ}"
        )
        assigned = ", ".join(f"{name} = ?" for name in WATERMARK_COLUMNS)
        self._save = session.prepare(
            f"UPDATE {_WATERMARK} SET {assigned} WHERE partition_id = ?"
            " IF owner_epoch = ? AND write_time <= ?"
        )
        self._insert_outcome = session.prepare(
            "INSERT INTO {keyspace}.command_outcome (partition_id, log_offset, outcome,"
            " scheduled_time, ordering_id, uniqueness_key, new_scheduled_time, new_ordering_id,"
            " new_uniqueness_key, moved_data) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " USING TIMESTAMP ? AND TTL ?"
        )
        self._find_outcome = session.prepare(
            f"SELECT {OUTCOME_COLUMNS} FROM {{keyspace}}.command_outcome"
            " WHERE partition_id = ? AND log_offset = ?"
        )
        self._agree = session.prepare(
            "INSERT INTO {keyspace}.schedule_meta (name, value) VALUES (?, ?) IF NOT EXISTS"
        )
        self._read_meta = session.prepare(
            "SELECT value FROM {keyspace}.schedule_meta WHERE name = ?", serial=True
        )

    def claim(self, partition: int, initial_watermark_ms: int) -> "Future[Claim]":
        """Raise the owner epoch by one and return it with the row as it is from then on.

        The epoch is raised only if the whole row is as it was read: an old owner's earlier saves
        count, and it can save nothing later.
        """
        return self._session.submit(lambda: self._claim(partition, initial_watermark_ms))

    def save_watermark(self, partition: int, epoch: int, watermark: Watermark) -> "Future[None]":
        """Replace the row, unless a later save is there; OwnershipLost by a newer epoch."""

        def work() -> None:
            written = (partition, epoch, watermark.write_time)
            if self._applied(self._save.bind((*watermark_values(watermark), *written))):
                return
            row = self._row(partition)
            if row is None or row[0] != epoch:
                raise OwnershipLost(partition, epoch)

        return self._session.submit(work)

    def read_watermark(self, partition: int) -> "Future[Claim | None]":
        def work() -> Claim | None:
            row = self._row(partition)
            return None if row is None else Claim(row[0], _watermark(row))

        return self._session.submit(work)

    def find_watermark(self, partition: int) -> "Future[Claim | None]":
        """Read the committed row; to see all transactions, the read is itself a transaction."""

        def found(answers: Sequence[Sequence[Row]]) -> Claim | None:
            (rows,) = answers
            return Claim(rows[0][0], _watermark(rows[0])) if rows else None

        return then(self._session.look_up([self._read_committed.bind((partition,))]), found)

    def insert_outcome(
        self, partition: int, offset: int, outcome: RecordedOutcome, write_time: int
    ) -> "Future[None]":
        new_key = outcome.new_key or (None, None, None)
        values = (
            partition,
            offset,
            outcome.outcome.value,
            *outcome.key,
            *new_key,
            outcome.moved_data,
            write_time,
            self._ttl_s,
        )
        return self._session.write(map(self._insert_outcome.bind, [values]))

    def find_outcome(self, partition: int, offset: int) -> "Future[RecordedOutcome | None]":
        def work() -> RecordedOutcome | None:
            rows = self._session.execute(self._find_outcome.bind((partition, offset)))
            return outcome_of(rows[0]) if rows else None

        return self._session.submit(work)

    def agree_partition_count(self, count: int) -> "Future[int]":
        def work() -> int:
            if count and self._applied(self._agree.bind((PARTITION_COUNT, str(count)))):
                return count
            rows = self._session.execute(self._read_meta.bind((PARTITION_COUNT,)))
            return int(rows[0][0]) if rows else 0

        return self._session.submit(work)

    def installation_id(self) -> str:
        """Return the id of this keyspace, which the first caller creates."""
        own = uuid4().hex
        if self._applied(self._agree.bind((_INSTALLATION_ID, own))):
            return own
        return str(self._session.execute(self._read_meta.bind((_INSTALLATION_ID,)))[0][0])

    def _claim(self, partition: int, initial_watermark_ms: int) -> Claim:
        token = uuid4()
        # A guess, which the transaction checks: a serial read takes three times as long, and the
        # partition waits.
        row = self._row(partition, self._read_committed)
        for _ in range(_CLAIM_ROUNDS_MAX):
            if self._applied(self._claiming(partition, row, token, initial_watermark_ms)):
                if row is None:
                    return Claim(1, initial_watermark(initial_watermark_ms))
                return Claim(row[0] + 1, _watermark(row))
            row = self._row(partition)
            # The token distinguishes a lost answer from a lost round.
            if row is not None and row[1] == token:
                return Claim(row[0], _watermark(row))
        raise StoreUnavailable(
            f"partition {partition} was claimed by others {_CLAIM_ROUNDS_MAX} times in a row:"
            " look for nodes that start and stop all the time"
        )

    def _claiming(
        self, partition: int, row: Row | None, token: UUID, initial_watermark_ms: int
    ) -> Any:
        if row is None:
            begun = watermark_values(initial_watermark(initial_watermark_ms))
            return self._begin.bind((partition, 1, token, *begun))
        epoch, _, *as_read = row
        return self._raise.bind((epoch + 1, token, partition, epoch, *as_read))

    def _applied(self, statement: Any) -> bool:
        return bool(self._session.execute(statement)[0][0])

    def _row(self, partition: int, read: Any = None) -> Row | None:
        rows = self._session.execute((read or self._read).bind((partition,)))
        return rows[0] if rows else None


def watermark_values(watermark: Watermark) -> tuple[Any, ...]:
    """Return the values of ``WATERMARK_COLUMNS``."""
    return (
        watermark.watermark_ms,
        watermark.loaded_until_ms,
        watermark.next_offset,
        [(each.ordering_id, each.first_ms) for each in watermark.stragglers],
        watermark.tasks_swept_until_ms,
        watermark.statuses_swept_until_ms,
        watermark.statuses_due_until_ms,
        watermark.statuses_due_at_ms,
        watermark.write_time,
        watermark.topic_id,
        watermark.thinned_until_ms,
    )


def _watermark(row: Row) -> Watermark:
    return Watermark(
        watermark_ms=row[2],
        loaded_until_ms=row[3],
        next_offset=row[4],
        stragglers=tuple(Straggler(*each) for each in row[5] or ()),
        tasks_swept_until_ms=row[6],
        statuses_swept_until_ms=row[7],
        statuses_due_until_ms=row[8],
        statuses_due_at_ms=row[9],
        write_time=row[10],
        topic_id=row[11] or "",
        thinned_until_ms=row[12] or 0,
    )


def outcome_of(row: Row) -> RecordedOutcome:
    """Return a row of ``OUTCOME_COLUMNS`` as an outcome."""
    new_key = None if row[4] is None else TaskKey(row[4], row[5], row[6])
    key = TaskKey(row[1], row[2], row[3])
    return RecordedOutcome(CommandOutcome(row[0]), key, new_key, row[7])
