"""The contract of ``OutcomeLog`` and ``KeptOutcomes``: closed tasks that are told, and were.

Bound as ``tests.conformance.stores`` describes.
"""

from collections.abc import Callable, Sequence

from hourhand.actors.model.task.outcome_row import OutcomesRow
from hourhand.actors.ports.store import Stores
from tests.conformance.store_values import StoreSuite, done, write_time


def row(number: int, piece: int = 0, body: bytes = b"\x92\x00\x90") -> OutcomesRow:
    """Return a row."""
    return OutcomesRow(number, piece, body)


def loaded(
    stores: Stores, partition: int, first: int = 0, end: int = 2**62, limit: int = 1_000
) -> Sequence[OutcomesRow]:
    """Read rows."""
    return list(done(stores.outcome_log.load_closed(partition, first, end, limit)))


class OutcomeSuite(StoreSuite):
    """The behaviour of every ``OutcomeLog``, and of ``KeptOutcomes`` where a store has them."""

    def test_rows_are_found_again_in_order(
        self, stores: Stores, reopen: Callable[[], Stores], partition: int
    ) -> None:
        """By number, then piece; of one partition, a range of numbers, and no more than a limit."""
        log, at = stores.outcome_log, write_time(1)
        rows = [row(at + 2, 1), row(at + 2), row(at, body=bytes(range(256)) * 800), row(at + 9)]
        done(log.insert_closed(partition, rows, at))
        done(log.insert_closed(partition + 1, [row(at + 1)], at))
        stores = reopen()

        ordered = [rows[2], rows[1], rows[0], rows[3]]
        assert loaded(stores, partition) == ordered
        assert loaded(stores, partition, at + 2, at + 9) == ordered[1:3]
        assert loaded(stores, partition, limit=2) == ordered[:2]
        last = stores.outcome_log.find_last_closed
        assert done(last(partition, at + 9)) == rows[0]
        assert done(last(partition, at)) is None

    def test_the_later_write_of_a_place_stands(self, stores: Stores, partition: int) -> None:
        """In any order of their arrival."""
        log = stores.outcome_log
        done(log.insert_closed(partition, [row(7, body=b"new")], 9))
        done(log.insert_closed(partition, [row(7, body=b"old")], 8))

        assert loaded(stores, partition) == [row(7, body=b"new")]

    def test_a_range_is_removed(self, stores: Stores, partition: int) -> None:
        """Both ends included, and nothing that was written later than it says."""
        log = stores.outcome_log
        rows = [row(5), row(6), row(6, 1), row(6, 2), row(7), row(8)]
        done(log.insert_closed(partition, rows, 8))
        done(log.insert_closed(partition, [row(7, body=b"late")], 20))

        done(log.delete_closed(partition, (6, 0), (6, 1), 10))
        assert loaded(stores, partition) == [row(5), row(6, 2), row(7, body=b"late"), row(8)]
        done(log.delete_closed(partition, (5, 0), (7, 0), 10))
        assert loaded(stores, partition) == [row(7, body=b"late"), row(8)]

    def test_outcomes_are_kept_in_order_and_for_a_time(
        self, stores: Stores, reopen: Callable[[], Stores]
    ) -> None:
        """A position is given out once."""
        if stores.kept_outcomes is None:
            return
        done(stores.kept_outcomes.keep_outcomes([b"a", b"b"], 1_000, 500))
        done(stores.kept_outcomes.keep_outcomes([b"c"], 1_400, 500))
        kept = reopen().kept_outcomes
        assert kept is not None
        found = list(done(kept.load_kept(0, 10)))
        assert [each.value for each in found] == [b"a", b"b", b"c"]
        assert done(kept.load_kept(found[0].position, 1))[0] == found[1]

        done(kept.keep_outcomes([b"d"], 1_600, 500))
        rest = list(done(kept.load_kept(0, 10)))
        assert [each.value for each in rest] == [b"c", b"d"]
        assert rest[-1].position > found[-1].position
