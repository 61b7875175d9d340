"""The contract of ``DefinitionStore``.

Bound as ``tests.conformance.stores`` describes.
"""

from collections.abc import Callable

import pytest

from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.ports.store import Stores
from tests.conformance.store_values import AWKWARD_IDS, HOUR_START_MS, StoreSuite, done

NOW_MS = HOUR_START_MS
RULE = b'{"intervalMs":1000}'
DAY_MS = 86_400_000


def timer(name: str = "t", offset: int = 7, rule: bytes = RULE) -> Definition:
    """Return a definition of a timer."""
    return Definition(DefinitionName(DefinitionKind.TIMER, name), offset, rule, NOW_MS + 1)


def all_ids(stores: Stores, partition: int, kind: DefinitionKind, limit: int) -> list[str]:
    """Walk through all pages."""
    found: list[str] = []
    after: str | None = None
    while True:
        page = done(stores.definitions.page(partition, kind, after, limit))
        found += [each.name.id for each in page.definitions]
        after = page.next_after
        if after is None:
            return found


class DefinitionSuite(StoreSuite):
    """The contract of every ``DefinitionStore``."""

    def test_a_row_is_read_as_it_was_written(self, stores: Stores, partition: int) -> None:
        """Field by field, absent values and arbitrary bytes included."""
        rows = [
            timer("a"),
            Definition(DefinitionName(DefinitionKind.RELAY, "a"), 2**42, bytes(range(256)) * 40),
            Definition(
                DefinitionName(DefinitionKind.RECURRING, "b"), 0, b"{}", 0, NOW_MS + 90 * DAY_MS
            ),
        ]
        done(stores.definitions.save(partition, rows, NOW_MS))

        found = done(stores.definitions.find(partition, [row.name for row in rows]))
        assert found == {row.name: row for row in rows}

    def test_a_name_without_a_row_is_absent(self, stores: Stores, partition: int) -> None:
        """Another kind, another partition, nothing at all."""
        done(stores.definitions.save(partition, [timer("a")], NOW_MS))
        other = DefinitionName(DefinitionKind.RELAY, "a")

        assert done(stores.definitions.find(partition, [other])) == {}
        assert done(stores.definitions.find(partition, [])) == {}
        assert done(stores.definitions.find(partition + 1, [timer("a").name])) == {}

    @pytest.mark.parametrize("name", [each for each in AWKWARD_IDS if each], ids=ascii)
    def test_any_text_is_an_id(self, stores: Stores, partition: int, name: str) -> None:
        """Found by itself and among all."""
        row = timer(name[:1000])
        done(stores.definitions.save(partition, [row], NOW_MS))

        assert done(stores.definitions.find(partition, [row.name])) == {row.name: row}
        assert all_ids(stores, partition, DefinitionKind.TIMER, 5) == [row.name.id]

    def test_the_higher_offset_stands_whichever_comes_first(
        self, stores: Stores, partition: int
    ) -> None:
        """A late write of an earlier record changes nothing."""
        name = timer().name
        done(stores.definitions.save(partition, [timer(offset=9, rule=b"9")], NOW_MS))
        done(stores.definitions.save(partition, [timer(offset=8, rule=b"8")], NOW_MS))
        assert done(stores.definitions.find(partition, [name]))[name].rule == b"9"

        done(stores.definitions.save(partition, [timer(offset=10, rule=b"10")], NOW_MS))
        assert done(stores.definitions.find(partition, [name]))[name].rule == b"10"

    def test_writing_a_row_again_changes_nothing(self, stores: Stores, partition: int) -> None:
        """As a task does that is run again after a crash."""
        for _ in range(2):
            done(stores.definitions.save(partition, [timer()], NOW_MS))

        assert done(stores.definitions.find(partition, [timer().name])) == {timer().name: timer()}

    def test_what_has_ended_is_found_but_not_listed(self, stores: Stores, partition: int) -> None:
        """It stays to keep earlier records from undoing it."""
        first = timer()
        ended = Definition(first.name, 8, b"", None, NOW_MS + DAY_MS)
        done(stores.definitions.save(partition, [first, timer("other")], NOW_MS))
        done(stores.definitions.save(partition, [ended], NOW_MS))

        assert ended.ended
        assert done(stores.definitions.find(partition, [first.name])) == {first.name: ended}
        assert all_ids(stores, partition, DefinitionKind.TIMER, 10) == ["other"]

    @pytest.mark.parametrize("limit", [1, 7, 1000])
    def test_pages_hold_each_row_once(self, stores: Stores, partition: int, limit: int) -> None:
        """Whatever their size."""
        ids = {f"timer-{number}" for number in range(200)}
        done(stores.definitions.save(partition, [timer(each) for each in sorted(ids)], NOW_MS))
        relay = Definition(DefinitionName(DefinitionKind.RELAY, "not-asked-for"), 1, RULE)
        done(stores.definitions.save(partition, [relay], NOW_MS))

        found = all_ids(stores, partition, DefinitionKind.TIMER, limit)
        assert sorted(found) == sorted(ids)

    def test_a_row_without_an_expiry_is_never_forgotten(
        self, stores: Stores, partition: int
    ) -> None:
        """And one whose time has not come is not, either."""
        kept = Definition(timer("kept").name, 1, RULE, None, NOW_MS + 1000 * DAY_MS)
        done(stores.definitions.save(partition, [timer("ever"), kept], NOW_MS))
        done(stores.definitions.forget(partition, NOW_MS + 999 * DAY_MS))

        assert sorted(all_ids(stores, partition, DefinitionKind.TIMER, 10)) == ["ever", "kept"]

    def test_rows_survive_opening_again(
        self, stores: Stores, reopen: Callable[[], Stores], partition: int
    ) -> None:
        """Durable means durable."""
        done(stores.definitions.save(partition, [timer()], NOW_MS))

        again = reopen()
        assert done(again.definitions.find(partition, [timer().name])) == {timer().name: timer()}
