"""``DefinitionStore`` in memory."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from actors.model.definition import Definition, DefinitionKind, DefinitionName
from actors.ports.definitions import DefinitionPage
from scheduler.adapters.memory.tables import MemoryStores, View


class MemoryDefinitions:
    """Rows of ``definition``."""

    def __init__(self, data: MemoryStores, view: View) -> None:
        self._data = data
        self._ask = view.ask

    def save(
        self, partition: int, definitions: Sequence[Definition], now_ms: int
    ) -> "Future[None]":
        """Write rows; nothing is counted from ``now_ms`` here."""
        written = tuple(definitions)

        def effect() -> None:
            rows = self._data.definitions.setdefault(partition, {})
            for each in written:
                if each.name not in rows or rows[each.name].offset < each.offset:
                    rows[each.name] = each

        return self._ask("save", partition, effect)

    def find(
        self, partition: int, names: Sequence[DefinitionName]
    ) -> "Future[Mapping[DefinitionName, Definition]]":
        """Read single rows."""
        asked = tuple(names)

        def effect() -> Mapping[DefinitionName, Definition]:
            rows = self._data.definitions.get(partition, {})
            return {name: rows[name] for name in asked if name in rows}

        return self._ask("find", partition, effect)

    def page(
        self, partition: int, kind: DefinitionKind, after: str | None, limit: int
    ) -> "Future[DefinitionPage]":
        """Read a page, in the order of ids."""

        def effect() -> DefinitionPage:
            rows = self._data.definitions.get(partition, {})
            found = sorted(
                (row for row in rows.values() if row.name.kind is kind and not row.ended),
                key=lambda row: row.name.id,
            )
            later = [row for row in found if after is None or row.name.id > after]
            page = later[:limit]
            return DefinitionPage(page, page[-1].name.id if len(later) > limit else None)

        return self._ask("page", partition, effect)

    def forget(self, partition: int, before_ms: int) -> "Future[None]":
        """Remove what has expired."""

        def effect() -> None:
            rows = self._data.definitions.get(partition, {})
            for name, row in list(rows.items()):
                if row.expires_ms is not None and row.expires_ms < before_ms:
                    del rows[name]

        return self._ask("forget", partition, effect)
