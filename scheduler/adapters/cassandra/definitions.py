"""``DefinitionStore`` on Cassandra: the table ``definition``.

Ids are spread over shards by a checksum, so that millions of them in one partition of the log are
not a single Cassandra partition. A row that expires has a TTL, so nothing is removed by hand.
"""

import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future

from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.ports.definitions import DefinitionPage
from hourhand.scheduler.adapters.cassandra.packing import (
    PackedBatch,
    RowPrefix,
    cut,
    packed_bigint,
    packed_bytes,
    packed_int,
    packed_text,
)
from hourhand.scheduler.adapters.cassandra.session import FETCH_ROWS, CassandraSession, Row
from hourhand.scheduler.runtime.light_future import then

SHARDS = 4
"""Few, so that ids that are requested together are stored together."""
_SHARD_NUMBERS = frozenset(map(str, range(SHARDS)))
_TTL_S_MAX = 20 * 365 * 86_400
"""The longest TTL of Cassandra; a row that should stay longer stays for ever."""
DEFINITION_COLUMNS = "id, log_offset, rule, toUnixTimestamp(next_time), toUnixTimestamp(expires)"
DEFINITION_PLACE = "partition_id = ? AND kind = ? AND shard = ?"


class CassandraDefinitionStore:
    """Definitions; see ``hourhand.actors.ports.definitions`` for the contract."""

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
        places: defaultdict[tuple[DefinitionKind, int], list[Definition]] = defaultdict(list)
        for each in definitions:
            places[each.name.kind, _shard(each.name.id)].append(each)
        return self._session.write(
            batch
            for place, rows in places.items()
            for batch in self._batches(partition, *place, rows, now_ms)
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
        """Read a page of one shard; ``after`` is the shard's number and the last id read there."""
        number, _, last = (after or "0:").partition(":")
        if number not in _SHARD_NUMBERS:
            raise ValueError(f"{after!r} is not a cursor of a page of definitions")
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

    def _batches(
        self,
        partition: int,
        kind: DefinitionKind,
        shard: int,
        rows: Sequence[Definition],
        now_ms: int,
    ) -> Iterator[PackedBatch]:
        place = (packed_int(partition), packed_text(kind.value), packed_int(shard))
        prefix = RowPrefix(self._insert, *place)
        packed = [prefix.packed + _packed(each, now_ms) for each in rows]
        for piece in cut(packed, self._session.settings.batch_bytes):
            yield prefix.batch(piece)


def _shard(name: str) -> int:
    return zlib.crc32(name.encode()) % SHARDS


def _packed(each: Definition, now_ms: int) -> bytes:
    # 0 means no TTL, and a row that has already expired must still replace an earlier one.
    ttl_s = 0 if each.expires_ms is None else max(1, -(-(each.expires_ms - now_ms) // 1000))
    values = (
        packed_text(each.name.id),
        packed_bigint(each.offset),
        packed_bytes(each.rule),
        packed_bigint(each.next_ms),
        packed_bigint(each.expires_ms),
        packed_bigint(each.offset),
        packed_int(ttl_s if ttl_s <= _TTL_S_MAX else 0),
    )
    return b"".join(values)


def definition_of(kind: DefinitionKind, row: Row) -> Definition:
    """Return a row of ``DEFINITION_COLUMNS`` as a definition."""
    name, offset, rule, next_ms, expires_ms = row
    return Definition(DefinitionName(kind, name), offset, rule, next_ms, expires_ms)
