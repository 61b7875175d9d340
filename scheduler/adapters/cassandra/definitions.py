"""``DefinitionStore`` on Cassandra: the table ``definition``.

Ids are spread over shards by a checksum, so that millions of them in one partition of the log
are no single Cassandra partition.  A row that expires carries a TTL, and nothing is removed
by hand.
"""

import zlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from cassandra.query import BatchStatement, BatchType

from actors.model.definition import Definition, DefinitionKind, DefinitionName
from actors.ports.definitions import DefinitionPage
from scheduler.adapters.cassandra.session import FETCH_ROWS, CassandraSession, Row
from scheduler.light_future import then

SHARDS = 4
"""Few, so that what is asked for together lies together."""
_SHARD_NUMBERS = frozenset(map(str, range(SHARDS)))
_BATCH_ROWS_MAX = 500
_TTL_S_MAX = 20 * 365 * 86_400
"""The longest one Cassandra takes; what is to be kept longer is kept for ever."""
DEFINITION_COLUMNS = "id, log_offset, rule, toUnixTimestamp(next_time), toUnixTimestamp(expires)"
DEFINITION_PLACE = "partition_id = ? AND kind = ? AND shard = ?"


class CassandraDefinitionStore:
    """Definitions; see ``actors.ports.definitions`` for the contract."""

    def __init__(self, session: CassandraSession) -> None:
        self._session = session
        select = (
            f"SELECT {DEFINITION_COLUMNS} FROM {{keyspace}}.definition WHERE {DEFINITION_PLACE}"
        )
        self._find = session.prepare(f"{select} AND id IN ?")
        self._page = session.prepare(f"{select} AND id > ? LIMIT ?")
        self._insert = session.prepare(
            "INSERT INTO {keyspace}.definition (partition_id, kind, shard, id, log_offset, rule,"
            " next_time, expires) VALUES (?, ?, ?, ?, ?, ?, ?, ?) USING TIMESTAMP ? AND TTL ?"
        )

    def save(
        self, partition: int, definitions: Sequence[Definition], now_ms: int
    ) -> "Future[None]":
        """Write rows, several in a batch."""
        limit_bytes = self._session.settings.batch_bytes
        pieces = _cut(definitions, limit_bytes)
        return self._session.write(
            self._batch([_bound(partition, each, now_ms) for each in piece]) for piece in pieces
        )

    def find(
        self, partition: int, names: Sequence[DefinitionName]
    ) -> "Future[Mapping[DefinitionName, Definition]]":
        """Read single rows, those of one shard together."""
        places: defaultdict[tuple[DefinitionKind, int], list[str]] = defaultdict(list)
        for name in dict.fromkeys(names):
            if name.id:
                places[name.kind, _shard(name.id)].append(name.id)

        def found(answers: Sequence[Sequence[Row]]) -> Mapping[DefinitionName, Definition]:
            rows = (
                definition_of(kind, row)
                for (kind, _), rows in zip(places, answers, strict=True)
                for row in rows
            )
            return {each.name: each for each in rows}

        reads = [
            self._find.bind((partition, kind.value, shard, ids))
            for (kind, shard), ids in places.items()
        ]
        if max(map(len, places.values()), default=0) <= FETCH_ROWS:
            return then(self._session.look_up(reads), found)
        return self._session.submit(lambda: found(self._session.execute_all(reads)))

    def page(
        self, partition: int, kind: DefinitionKind, after: str | None, limit: int
    ) -> "Future[DefinitionPage]":
        """Read on in one shard; ``after`` is the shard's number and the last id read there."""
        number, _, last = (after or "0:").partition(":")
        if number not in _SHARD_NUMBERS:
            raise ValueError(f"{after!r} is where no page of definitions ended")
        shard = int(number)

        def work() -> DefinitionPage:
            read = self._page.bind((partition, kind.value, shard, last, limit))
            rows = self._session.execute(read)
            if len(rows) == limit:
                following: str | None = f"{shard}:{rows[-1][0]}"
            else:
                following = f"{shard + 1}:" if shard + 1 < SHARDS else None
            found = [definition_of(kind, row) for row in rows]
            return DefinitionPage([each for each in found if not each.ended], following)

        return self._session.submit(work)

    def forget(self, partition: int, before_ms: int) -> "Future[None]":
        """Do nothing: their TTL removes expired rows."""
        del partition, before_ms
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _batch(self, rows: Sequence[tuple[Any, ...]]) -> Any:
        if len(rows) == 1:
            return self._insert.bind(rows[0])
        batch = BatchStatement(batch_type=BatchType.UNLOGGED)
        for row in rows:
            batch.add(self._insert, row)
        batch.is_idempotent = True
        return batch


def _cut(definitions: Sequence[Definition], limit_bytes: int) -> list[list[Definition]]:
    """Cut rows into batches that lie in one Cassandra partition each."""
    places: defaultdict[tuple[DefinitionKind, int], list[Definition]] = defaultdict(list)
    for each in definitions:
        places[each.name.kind, _shard(each.name.id)].append(each)
    pieces: list[list[Definition]] = []
    for rows in places.values():
        pieces.append([])
        size_bytes = 0
        for row in rows:
            row_bytes = 64 + len(row.name.id) + len(row.rule)
            full = size_bytes + row_bytes > limit_bytes or len(pieces[-1]) == _BATCH_ROWS_MAX
            if pieces[-1] and full:
                pieces.append([])
                size_bytes = 0
            pieces[-1].append(row)
            size_bytes += row_bytes
    return pieces


def _shard(name: str) -> int:
    return zlib.crc32(name.encode()) % SHARDS


def _bound(partition: int, each: Definition, now_ms: int) -> tuple[Any, ...]:
    # 0 means no TTL, and a row that has expired already is still to replace an earlier one.
    ttl_s = 0 if each.expires_ms is None else max(1, -(-(each.expires_ms - now_ms) // 1000))
    return (
        partition,
        each.name.kind.value,
        _shard(each.name.id),
        each.name.id,
        each.offset,
        each.rule,
        each.next_ms,
        each.expires_ms,
        each.offset,
        ttl_s if ttl_s <= _TTL_S_MAX else 0,
    )


def definition_of(kind: DefinitionKind, row: Row) -> Definition:
    """Return a row of ``DEFINITION_COLUMNS`` as a definition."""
    name, offset, rule, next_ms, expires_ms = row
    return Definition(DefinitionName(kind, name), offset, rule, next_ms, expires_ms)
