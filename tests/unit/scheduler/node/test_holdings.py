"""Holdings: offsets move over what is durable in a row, and an owner knows that it is one."""

from concurrent.futures import Future

import pytest
from msgspec.structs import replace

from hourhand.actors.model.operations.ownership import Claim, Ownership, initial_watermark
from hourhand.actors.model.values.errors import OwnershipLost
from hourhand.actors.model.values.log_offset import kept_offset
from hourhand.actors.ports.log import StartPosition
from hourhand.scheduler.node.holdings import CLAIM_PAUSE_MAX_MS, Holding, Stage, poll_ms
from tests.builders import NOW_MS
from tests.unit.scheduler.node.node_bench import FakeLog

CLAIM = Claim(4, initial_watermark(NOW_MS))


def _holding() -> Holding:
    return Holding(2, next_offset=10)


def test_a_rebuilt_tree_keeps_the_ownership_and_forgets_what_was_in_flight() -> None:
    """The counter of write times outlives the tree."""
    holding = _holding()
    first = holding.take(CLAIM)
    holding.deliver_batch(1, 15)

    second = holding.take(CLAIM)
    holding.settle(1)

    assert second.ownership is first.ownership and second.next_offset == 10
    assert second.catch_up_offset == 15 and holding.next_offset == 10


def test_a_store_that_goes_on_failing_is_asked_less_often() -> None:
    """Up to a bound, which a longer shortest pause overrides; an answer forgives it all."""
    holding = _holding()
    waited_ms = []
    for _ in range(7):
        holding.postpone(1_000, 100)
        waited_ms.append(holding.retry_at_ms - 1_000)

    assert waited_ms == [100, 200, 400, 800, 1_600, CLAIM_PAUSE_MAX_MS, CLAIM_PAUSE_MAX_MS]
    assert holding.stage is Stage.WAITING
    holding.postpone(0, 5_000)
    assert holding.retry_at_ms == 5_000
    holding.take(CLAIM)
    holding.postpone(0, 100)
    assert holding.retry_at_ms == 100


@pytest.mark.parametrize("found", [None, Claim(5, CLAIM.watermark)])
def test_an_owner_that_was_replaced_does_not_resume(found: Claim | None) -> None:
    """Another epoch is another owner."""
    holding = _holding()
    holding.stage, holding.ownership = Stage.RESUMING, Ownership(2, 4)
    holding.reading = Future()
    holding.reading.set_result(found)

    with pytest.raises(OwnershipLost):
        holding.durable_state()


def test_an_owner_resumes_from_the_durable_watermark() -> None:
    """Nothing of the failed tree's memory is used."""
    holding = _holding()
    holding.stage, holding.ownership = Stage.RESUMING, Ownership(2, 4)
    holding.reading = Future()
    holding.reading.set_result(CLAIM)

    assert holding.durable_state() is CLAIM


@pytest.mark.parametrize(
    ("stage", "longest_ms"),
    [(Stage.CLAIMING, 10), (Stage.RESUMING, 10), (Stage.WAITING, 50), (Stage.RUNNING, 50)],
)
def test_a_poll_is_short_while_an_answer_is_awaited(stage: Stage, longest_ms: int) -> None:
    """The answer wakes nobody, and a partition waits for it."""
    holdings = [Holding(0, stage=Stage.RUNNING), Holding(1, stage=stage)]

    assert poll_ms(holdings, 50) == longest_ms
    assert poll_ms(holdings, 5) == 5


class BegunLog(FakeLog):
    """A log of one topic, whose offsets are kept in the second era."""

    def start(
        self, partition: int, stored_next_offset: int | None, stored_topic_id: str = ""
    ) -> StartPosition:
        """Begin at the first record."""
        self.started.append((partition, stored_next_offset))
        return StartPosition(kept_offset(1, 0), kept_offset(1, 40), "new")


@pytest.mark.parametrize(("noted", "changed"), [("old", True), ("", True), ("new", False)])
def test_a_topic_that_the_store_does_not_know_is_handed_over_to_be_noted(
    noted: str, changed: bool
) -> None:
    """With where it is read from; others see the broker's own offset."""
    holding = Holding(2)
    stored = replace(CLAIM.watermark, next_offset=25, topic_id=noted)

    holding.begin_reading(BegunLog(), stored)
    assignment = holding.take(Claim(4, stored))

    assert assignment.topic_changed is changed
    assert assignment.watermark.topic_id == "new"
    assert assignment.watermark.next_offset == (kept_offset(1, 0) if changed else 25)
    assert (assignment.next_offset, holding.described().next_offset) == (kept_offset(1, 0), 0)
