"""``DefinitionStore`` on the store file."""

import sqlite3
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from functools import cache

from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.ports.definitions import DefinitionPage
from hourhand.scheduler.adapters.embedded.database import Database
from hourhand.scheduler.adapters.embedded.many_rows import write_rows
from hourhand.scheduler.adapters.embedded.rows import FOUND_MAX, Table, read_rows, rounded_up
from hourhand.scheduler.adapters.embedded.seal import Row, sealed

DEFINITION = Table(
    "definition",
    ("partition", "kind", "id"),
    ("record_offset", "rule", "next_ms", "expires_ms"),
)
_SELECT = f"SELECT {DEFINITION.selected} FROM definition WHERE partition = ? AND kind = ?"
_FORGET_ROWS = 5_000
"""Rows removed in one transaction, as with whole hours."""


class EmbeddedDefinitions:
    """Rows of ``definition``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def save(
        self, partition: int, definitions: Sequence[Definition], now_ms: int
    ) -> "Future[None]":
        """Write rows; ``forget`` removes them later, so ``now_ms`` is not needed."""
        del now_ms
        rows: list[Row] = [
            (
                partition,
                each.name.kind.value,
                each.name.id,
                each.offset,
                each.rule,
                each.next_ms,
                each.expires_ms,
                each.offset,
            )
            for each in definitions
        ]
        return self._database.insert(_insert, rows)

    def find(
        self, partition: int, names: Sequence[DefinitionName]
    ) -> "Future[Mapping[DefinitionName, Definition]]":
        """Read single rows; SQLite cannot be asked for text that UTF-8 cannot hold."""
        asked: defaultdict[str, list[str]] = defaultdict(list)
        for name in dict.fromkeys(names):
            if name.id.isascii() or _is_text(name.id):
                asked[name.kind.value].append(name.id)

        def work(connection: sqlite3.Connection) -> Mapping[DefinitionName, Definition]:
            found: dict[DefinitionName, Definition] = {}
            for kind, ids in asked.items():
                for first in range(0, len(ids), FOUND_MAX):
                    some = ids[first : first + FOUND_MAX]
                    query, missing = _find(size := rounded_up(len(some))), size - len(some)
                    arguments = (partition, kind, *some, *[None] * missing)
                    for row in read_rows(connection, query, arguments):
                        definition = _definition(row)
                        found[definition.name] = definition
            return found

        return self._database.read(work)

    def page(
        self, partition: int, kind: DefinitionKind, after: str | None, limit: int
    ) -> "Future[DefinitionPage]":
        """Read a page, in the order of ids."""
        bound, start = ("AND id > ?", (after,)) if after is not None else ("", ())
        query = f"{_SELECT} {bound} AND length(rule) > 0 ORDER BY id LIMIT ?"

        def work(connection: sqlite3.Connection) -> DefinitionPage:
            rows = read_rows(connection, query, (partition, kind.value, *start, limit + 1))
            page = [_definition(row) for row in rows[:limit]]
            return DefinitionPage(page, page[-1].name.id if len(rows) > limit else None)

        return self._database.read(work)

    def forget(self, partition: int, before_ms: int) -> "Future[None]":
        """Remove expired rows, some thousand at a time."""

        def step(connection: sqlite3.Connection) -> bool:
            removed = connection.execute(
                "DELETE FROM definition WHERE (partition, kind, id) IN"
                " (SELECT partition, kind, id FROM definition"
                "  WHERE partition = ? AND expires_ms < ? LIMIT ?)",
                (partition, before_ms, _FORGET_ROWS),
            ).rowcount
            return removed == _FORGET_ROWS

        return self._database.write_in_steps(step, None)


def _insert(connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
    write_rows(connection, _upserts, list(map(sealed, rows)))


_upserts = cache(DEFINITION.upserts)


@cache
def _find(size: int) -> str:
    """Return the statement that looks up ``size`` ids of a kind."""
    return f"{_SELECT} AND id IN ({', '.join('?' * size)})"


def _definition(row: Row) -> Definition:
    kind, name, offset, rule, next_ms, expires_ms = row
    return Definition(DefinitionName(DefinitionKind(kind), name), offset, rule, next_ms, expires_ms)


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
