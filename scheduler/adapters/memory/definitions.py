"""``DefinitionStore`` in memory."""

from collections.abc import Mapping, Sequence

from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.ports.definitions import DefinitionPage
from hourhand.scheduler.adapters.memory.tables import MemoryTables, request

_EXPIRY_MS_MIN = 1_000
"""As in Cassandra, a row that has expired already still replaces an earlier one for a second."""


class MemoryDefinitions(MemoryTables):
    """Rows of ``definition``."""

    @request
    def save(self, partition: int, definitions: Sequence[Definition], now_ms: int) -> None:
        """Write rows; each expires as long after now as it does after ``now_ms``."""
        rows = self._data.definitions.setdefault(partition, {})
        for each in definitions:
            if each.name not in rows or rows[each.name].offset < each.offset:
                rows[each.name] = each
                self._note_expiry(partition, each, now_ms)

    @request
    def find(
        self, partition: int, names: Sequence[DefinitionName]
    ) -> Mapping[DefinitionName, Definition]:
        rows = self._data.definitions.get(partition, {})
        there = [name for name in names if name in rows and self._has(partition, name)]
        return {name: rows[name] for name in there}

    @request
    def page(
        self, partition: int, kind: DefinitionKind, after: str | None, limit: int
    ) -> DefinitionPage:
        rows = self._data.definitions.get(partition, {})
        rows = {name: rows[name] for name in tuple(rows) if self._has(partition, name)}
        found = sorted(
            (row for row in rows.values() if row.name.kind is kind and not row.ended),
            key=lambda row: row.name.id,
        )
        later = [row for row in found if after is None or row.name.id > after]
        page = later[:limit]
        return DefinitionPage(page, page[-1].name.id if len(later) > limit else None)

    @request
    def forget(self, partition: int, before_ms: int) -> None:
        rows = self._data.definitions.get(partition, {})
        for name, row in list(rows.items()):
            if row.expires_ms is not None and row.expires_ms < before_ms:
                del rows[name]
                self._data.expiries.pop((partition, name), None)

    def _note_expiry(self, partition: int, row: Definition, now_ms: int) -> None:
        place, clock = (partition, row.name), self._data.clock
        self._data.expiries.pop(place, None)
        if clock is not None and row.expires_ms is not None:
            left_ms = max(_EXPIRY_MS_MIN, row.expires_ms - now_ms)
            self._data.expiries[place] = clock.monotonic_ms() + left_ms

    def _has(self, partition: int, name: DefinitionName) -> bool:
        """True if a row has not expired."""
        clock, place = self._data.clock, (partition, name)
        gone_ms = self._data.expiries.get(place)
        if clock is None or gone_ms is None or clock.monotonic_ms() < gone_ms:
            return True
        del self._data.expiries[place], self._data.definitions[partition][name]
        return False
