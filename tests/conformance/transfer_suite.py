"""The contract of every ``TransferStore``, beside the other stores of the same installation."""

from typing import NamedTuple

from hourhand.actors.model.task.definition import Definition, DefinitionKind, DefinitionName
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, RecordedOutcome
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.ports.transfer import UNFINISHED, OutcomeRow, TransferStore
from tests.conformance.store_values import HOUR_START_MS, done, write_time

_KEPT_MS = HOUR_START_MS + 10_000 * 86_400_000


class TransferPorts(NamedTuple):
    """An empty installation's stores, and what moves all of it."""

    stores: Stores
    transfer: TransferStore


def a_definition(kind: DefinitionKind, name: str, rule: bytes = b"{}") -> Definition:
    """Return a definition, one that has ended where its rule is empty."""
    expires_ms = None if rule else _KEPT_MS
    return Definition(DefinitionName(kind, name), -5, rule, HOUR_START_MS, expires_ms)


class TransferSuite:
    """Tests over the fixture ``ports``, in an empty store of each test's own."""

    def test_a_store_that_is_filled_has_no_number_of_partitions(self, ports: TransferPorts) -> None:
        """Until that is finished; a store that a node began with is not filled."""
        stores, transfer = ports
        assert transfer.is_empty()
        assert transfer.read_note() is None

        assert transfer.write_note("one")
        assert transfer.write_note('two "of it"')

        assert transfer.read_note() == 'two "of it"'
        assert done(stores.ownership.agree_partition_count(4)) == UNFINISHED
        assert transfer.is_empty()
        transfer.finish(4)
        assert transfer.read_note() is None
        assert done(stores.ownership.agree_partition_count(6)) == 4
        assert not transfer.write_note("three")
        assert transfer.read_note() is None

    def test_a_job_that_gives_up_leaves_the_store_as_it_was(self, ports: TransferPorts) -> None:
        """A node may begin with it, or another job."""
        stores, transfer = ports
        assert transfer.write_note("one")

        transfer.finish(None)

        assert transfer.read_note() is None
        assert transfer.write_note("two")
        transfer.finish(None)
        assert done(stores.ownership.agree_partition_count(4)) == 4

    def test_an_owner_is_something(self, ports: TransferPorts) -> None:
        """A node that never had a task was there anyway."""
        done(ports.stores.ownership.claim(0, HOUR_START_MS))

        assert not ports.transfer.is_empty()

    def test_all_definitions_are_there(self, ports: TransferPorts) -> None:
        """Ended and parked ones too, which no page shows."""
        stores, transfer = ports
        rows = [
            a_definition(kind, f"{kind.value}-{number}", rule)
            for kind in DefinitionKind
            for number, rule in enumerate((b"{}", b"", b"\x00\xff"))
        ]
        done(stores.definitions.save(3, rows, HOUR_START_MS))
        done(stores.definitions.save(4, rows[:1], HOUR_START_MS))

        found = [each for piece in transfer.scan_definitions(3) for each in piece]

        assert sorted(found, key=lambda each: each.name) == sorted(rows, key=lambda each: each.name)
        assert not transfer.is_empty()

    def test_shares_are_all_outcomes(self, ports: TransferPorts) -> None:
        """Each in one of them, whatever its partition and offset."""
        stores, transfer = ports
        old, new = TaskKey(HOUR_START_MS, "a", "b"), TaskKey(HOUR_START_MS + 1, "a", "b")
        rows = [
            OutcomeRow(
                partition,
                offset,
                RecordedOutcome(CommandOutcome.APPLIED, old, new if offset % 2 else None),
            )
            for partition in (0, 7, 999)
            for offset in (-(2**48), -1, 0, 1, 2**40 + 1)
        ]
        for partition, offset, outcome in rows:
            done(stores.ownership.insert_outcome(partition, offset, outcome, write_time(1)))

        found = [
            each
            for share in range(3)
            for piece in transfer.scan_outcomes(share, 3)
            for each in piece
        ]

        assert sorted(found, key=lambda each: each[:2]) == rows
