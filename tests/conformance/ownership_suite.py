"""The contract of ``OwnershipStore``: epochs, the watermark row, outcomes, the agreed count.

Bound as ``tests.conformance.stores`` describes.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from msgspec.structs import replace

from hourhand.actors.model.operations.ownership import (
    Claim,
    Straggler,
    Watermark,
    initial_watermark,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import CommandOutcome, RecordedOutcome
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.errors import OwnershipLost
from hourhand.actors.ports.store import Stores
from tests.conformance.store_values import (
    AWKWARD_IDS,
    FAR_MS,
    HOUR_START_MS,
    StoreSuite,
    done,
    key_at,
    write_time,
)

CLAIMANTS = 8
BEGUN_MS = HOUR_START_MS + 1_234
MOVED_ON = Watermark(
    watermark_ms=HOUR_START_MS + 2 * HOUR_MS + 1,
    loaded_until_ms=HOUR_START_MS + 3 * HOUR_MS + 2,
    next_offset=0,
    stragglers=(Straggler("stuck", HOUR_START_MS + 3), Straggler("", -1)),
    tasks_swept_until_ms=HOUR_START_MS + HOUR_MS,
    statuses_swept_until_ms=HOUR_START_MS,
    statuses_due_until_ms=HOUR_START_MS + HOUR_MS,
    statuses_due_at_ms=HOUR_START_MS + 4 * HOUR_MS + 3,
    write_time=7,
    topic_id="a1b2c3d4",
    thinned_until_ms=HOUR_START_MS + 2 * HOUR_MS,
)


class OwnershipSuite(StoreSuite):
    """The contract of every ``OwnershipStore``."""

    def test_a_partition_begins_with_its_first_claim(self, stores: Stores, partition: int) -> None:
        """Epoch 1, at the watermark that was asked for; before it there is no row."""
        assert done(stores.ownership.read_watermark(partition)) is None
        claim = done(stores.ownership.claim(partition, BEGUN_MS))
        assert claim == Claim(1, initial_watermark(BEGUN_MS))
        assert done(stores.ownership.read_watermark(partition)) == claim
        assert done(stores.ownership.read_watermark(partition + 1)) is None

    def test_a_look_finds_what_is_saved(self, stores: Stores, partition: int) -> None:
        """An acknowledged save is there for those that only look, too."""
        assert done(stores.ownership.find_watermark(partition)) is None
        done(stores.ownership.claim(partition, BEGUN_MS))
        done(stores.ownership.save_watermark(partition, 1, MOVED_ON))
        assert done(stores.ownership.find_watermark(partition)) == Claim(1, MOVED_ON)

    def test_a_later_claim_raises_the_epoch_and_keeps_the_row(
        self, stores: Stores, partition: int
    ) -> None:
        """The initial watermark counts only where there is no row."""
        done(stores.ownership.claim(partition, BEGUN_MS))
        done(stores.ownership.save_watermark(partition, 1, MOVED_ON))
        for epoch in (2, 3, 4):
            assert done(stores.ownership.claim(partition, 0)) == Claim(epoch, MOVED_ON)
        assert done(stores.ownership.read_watermark(partition)) == Claim(4, MOVED_ON)

    def test_concurrent_claims_get_distinct_epochs(self, stores: Stores, partition: int) -> None:
        """However many nodes claim at once, no epoch is given out twice.

        One may be skipped: a claim whose answer was lost is made again.
        """
        futures = [stores.ownership.claim(partition, BEGUN_MS) for _ in range(CLAIMANTS)]
        epochs = sorted(done(future).epoch for future in futures)
        assert len(set(epochs)) == CLAIMANTS
        assert epochs[0] >= 1
        last = done(stores.ownership.read_watermark(partition))
        assert last == Claim(epochs[-1], initial_watermark(BEGUN_MS))

    @pytest.mark.parametrize("next_offset", [None, 0, 2**62])
    def test_every_field_of_the_watermark_comes_back(
        self, stores: Stores, partition: int, next_offset: int | None
    ) -> None:
        """No offset is not offset 0, and no straggler is not a forgotten one."""
        done(stores.ownership.claim(partition, BEGUN_MS))
        for watermark in (
            replace(MOVED_ON, next_offset=next_offset),
            Watermark(FAR_MS, FAR_MS, next_offset, (), 0, 0, write_time=8),
            Watermark(-HOUR_MS - 1, -1, next_offset, (), -HOUR_MS, -2 * HOUR_MS, write_time=9),
        ):
            done(stores.ownership.save_watermark(partition, 1, watermark))
            assert done(stores.ownership.read_watermark(partition)) == Claim(1, watermark)

    def test_stragglers_keep_their_ids_and_their_order(
        self, stores: Stores, partition: int
    ) -> None:
        """A full list of awkward ids."""
        ids = [*AWKWARD_IDS, *(f"id-{number}" for number in range(82))]
        stragglers = tuple(Straggler(each, HOUR_START_MS - n) for n, each in enumerate(ids))
        watermark = replace(MOVED_ON, stragglers=stragglers)
        done(stores.ownership.claim(partition, BEGUN_MS))
        done(stores.ownership.save_watermark(partition, 1, watermark))
        assert done(stores.ownership.claim(partition, BEGUN_MS)) == Claim(2, watermark)

    def test_an_old_owner_is_told_and_changes_nothing(self, stores: Stores, partition: int) -> None:
        """A newer claim ends every older one at once."""
        done(stores.ownership.claim(partition, BEGUN_MS))
        done(stores.ownership.claim(partition, BEGUN_MS))
        done(stores.ownership.save_watermark(partition, 2, MOVED_ON))
        for epoch in (1, 3):
            other = replace(MOVED_ON, watermark_ms=0, stragglers=())
            with pytest.raises(OwnershipLost) as lost:
                done(stores.ownership.save_watermark(partition, epoch, other))
            assert (lost.value.partition, lost.value.epoch) == (partition, epoch)
        assert done(stores.ownership.read_watermark(partition)) == Claim(2, MOVED_ON)

    def test_a_save_that_was_overtaken_changes_nothing(
        self, stores: Stores, partition: int
    ) -> None:
        """One that a failed tree left in flight may arrive after its successor's."""
        done(stores.ownership.claim(partition, BEGUN_MS))
        done(stores.ownership.save_watermark(partition, 1, MOVED_ON))
        overtaken = replace(MOVED_ON, watermark_ms=0, write_time=MOVED_ON.write_time - 1)
        done(stores.ownership.save_watermark(partition, 1, overtaken))
        assert done(stores.ownership.read_watermark(partition)) == Claim(1, MOVED_ON)
        again = replace(MOVED_ON, next_offset=5)
        done(stores.ownership.save_watermark(partition, 1, again))
        assert done(stores.ownership.read_watermark(partition)) == Claim(1, again)

    def test_a_partition_without_an_owner_cannot_be_saved(
        self, stores: Stores, partition: int
    ) -> None:
        """Saving is not a way around claiming."""
        with pytest.raises(OwnershipLost):
            done(stores.ownership.save_watermark(partition, 1, MOVED_ON))
        assert done(stores.ownership.read_watermark(partition)) is None

    def test_a_save_and_a_claim_at_the_same_time(self, stores: Stores, partition: int) -> None:
        """The new owner sees every save that succeeded, and the old one hears of every other."""
        watermark = initial_watermark(BEGUN_MS)
        done(stores.ownership.claim(partition, BEGUN_MS))
        for epoch in range(1, 11):
            saved = replace(watermark, next_offset=epoch)
            saving = stores.ownership.save_watermark(partition, epoch, saved)
            claim = done(stores.ownership.claim(partition, BEGUN_MS))
            assert claim.epoch == epoch + 1
            if _was_saved(saving):
                watermark = saved
            found = done(stores.ownership.read_watermark(partition))
            assert found == Claim(epoch + 1, watermark)
            assert claim == found

    @pytest.mark.parametrize("outcome", list(CommandOutcome))
    def test_outcomes_come_back(
        self, stores: Stores, partition: int, outcome: CommandOutcome
    ) -> None:
        """With and without a new key and moved data, by partition and offset."""
        plain = RecordedOutcome(outcome, key_at(HOUR_START_MS, "a\x00'", ""))
        moved = RecordedOutcome(outcome, key_at(-1), TaskKey(FAR_MS, "🐈", "other"))
        replacing = replace(moved, moved_data=b'{"a":"\xc3\xa9"}')
        done(stores.ownership.insert_outcome(partition, 0, plain, write_time(1)))
        done(stores.ownership.insert_outcome(partition, 2**62, moved, write_time(1)))
        done(stores.ownership.insert_outcome(partition, 2, replacing, write_time(1)))
        assert done(stores.ownership.find_outcome(partition, 0)) == plain
        assert done(stores.ownership.find_outcome(partition, 2)) == replacing
        assert done(stores.ownership.find_outcome(partition, 2**62)) == moved
        assert done(stores.ownership.find_outcome(partition, 1)) is None
        assert done(stores.ownership.find_outcome(partition + 1, 0)) is None

    @pytest.mark.parametrize("newest_first", [False, True])
    def test_the_outcome_with_the_higher_write_time_stands(
        self, stores: Stores, partition: int, *, newest_first: bool
    ) -> None:
        """Whichever arrives first, and as a whole."""
        old = RecordedOutcome(CommandOutcome.APPLIED, key_at(1), key_at(2), b"{}")
        new = RecordedOutcome(CommandOutcome.TOO_LATE, key_at(1))
        writes = [(old, write_time(1, 7)), (new, write_time(2, 1))]
        for outcome, at in reversed(writes) if newest_first else writes:
            done(stores.ownership.insert_outcome(partition, 5, outcome, at))
        assert done(stores.ownership.find_outcome(partition, 5)) == new

    def test_the_first_partition_count_is_the_only_one(
        self, stores: Stores, reopen: Callable[[], Stores]
    ) -> None:
        """Nodes that ask at once hear the same number, and it stays; who only asks fixes none."""
        assert done(stores.ownership.agree_partition_count(0)) == 0
        with ThreadPoolExecutor(CLAIMANTS) as pool:
            answers = list(
                pool.map(
                    lambda count: done(stores.ownership.agree_partition_count(count)),
                    range(16, 16 + CLAIMANTS),
                )
            )
        assert len(set(answers)) == 1
        assert answers[0] in range(16, 16 + CLAIMANTS)
        assert done(stores.ownership.agree_partition_count(99)) == answers[0]
        assert done(stores.ownership.agree_partition_count(0)) == answers[0]
        assert done(reopen().ownership.agree_partition_count(98)) == answers[0]

    def test_an_installation_has_one_id(self, stores: Stores, reopen: Callable[[], Stores]) -> None:
        """Whoever asks first, and after a restart; a store that lives no longer needs none."""
        first = stores.installation_id()

        assert stores.installation_id() == first
        assert reopen().installation_id() == first

    def test_ownership_outlives_a_restart(
        self, stores: Stores, reopen: Callable[[], Stores], partition: int
    ) -> None:
        """A restarted node claims the next epoch, never one that was used."""
        outcome = RecordedOutcome(CommandOutcome.ALREADY_CLOSED, key_at(1))
        done(stores.ownership.claim(partition, BEGUN_MS))
        done(stores.ownership.save_watermark(partition, 1, MOVED_ON))
        done(stores.ownership.insert_outcome(partition, 5, outcome, write_time(1)))
        opened = reopen()
        assert done(opened.ownership.read_watermark(partition)) == Claim(1, MOVED_ON)
        assert done(opened.ownership.claim(partition, BEGUN_MS)) == Claim(2, MOVED_ON)
        assert done(opened.ownership.find_outcome(partition, 5)) == outcome


def _was_saved(saving: "Future[None]") -> bool:
    try:
        done(saving)
    except OwnershipLost:
        return False
    return True
