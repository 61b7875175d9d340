"""How claims are gathered: together where many come, at once where it matters."""

import asyncio
from concurrent.futures import Future
from typing import Any

import pytest

from hourhand.actors.model.task.definition import Definition
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.scheduler.services.relay.claim_state import (
    ACTIVE_MS,
    DECIDED_MAX,
    DecidedHere,
    MessageClaim,
    claim_name,
    place_of,
)
from hourhand.scheduler.services.relay.gathering import (
    BATCH_CLAIMS_MAX,
    GATHER_MS,
    GATHER_SOON_MS,
    ClaimBatch,
    ClaimGatherer,
    ClaimRequest,
    claim_ordering_ids,
)
from hourhand.scheduler.services.relay.headers import RelayAction

FAR_MS = 1_000_000


def _row(message_id: str) -> Definition:
    return Definition(claim_name(message_id), 7, b"{}")


class Log:
    """Takes batches, and acknowledges them when the test says so."""

    def __init__(self) -> None:
        self.appended: list[tuple[int, ClaimBatch]] = []
        self.answers: list[Future[Any]] = []

    def append(self, partition: int, batch: ClaimBatch) -> "Future[Any]":
        """Take a batch."""
        self.appended.append((partition, batch))
        self.answers.append(Future())
        return self.answers[-1]


def a_request(name: str, due_ms: int = FAR_MS) -> ClaimRequest:
    """Return a claim that came at 0."""
    return ClaimRequest(RelayAction.SCHEDULE, name, "00000-0000000000000000001", "o", due_ms, 0)


def test_claims_wait_for_others_as_long_as_others_come() -> None:
    """One task for all of a partition, in their order."""
    log = Log()
    gatherer = ClaimGatherer(log.append, 2)
    futures = [gatherer.add(number % 2, a_request(str(number)), 0) for number in range(6)]
    gatherer.flush(GATHER_MS // 2 - 1, idle=False)
    assert log.appended == []
    gatherer.flush(GATHER_MS, idle=False)

    found = {partition: [each.id for each in batch.claims] for partition, batch in log.appended}
    assert found == {0: ["0", "2", "4"], 1: ["1", "3", "5"]}
    log.answers[0].set_result(None)
    log.answers[1].set_exception(LogUnavailable("nobody answers"))
    assert [isinstance(f.exception(), LogUnavailable) for f in futures] == [False, True] * 3


def test_partitions_take_turns() -> None:
    """All at once their claims would keep the process from everything else."""
    log = Log()
    gatherer = ClaimGatherer(log.append, 4)
    sent_ms = []
    for now_ms in range(0, 3 * GATHER_MS, 5):
        for partition in range(4):
            gatherer.add(partition, a_request(str(now_ms)), now_ms)
        gatherer.flush(now_ms, idle=False)
        sent_ms += [(now_ms, partition) for partition, _ in log.appended]
        log.appended.clear()

    turn_ms = GATHER_MS // 4
    rounds = [(now_ms // GATHER_MS, now_ms % GATHER_MS // turn_ms) for now_ms, _ in sent_ms]
    assert rounds == [(0, 1), (0, 2), (0, 3), *((r, p) for r in (1, 2) for p in range(4))]
    assert [partition for _, partition in sent_ms] == [p for _, p in rounds]


def test_a_message_that_is_due_soon_hardly_waits() -> None:
    """Its delivery waits for the claim."""
    log = Log()
    gatherer = ClaimGatherer(log.append, 2)
    gatherer.add(0, a_request("soon", due_ms=100), 0)
    gatherer.add(1, a_request("far"), 0)
    gatherer.flush(GATHER_SOON_MS, idle=False)

    assert [partition for partition, _ in log.appended] == [0]


@pytest.mark.parametrize("idle", [True, False])
def test_where_nothing_more_comes_nothing_waits(idle: bool) -> None:
    """Few messages cost no time."""
    log = Log()
    gatherer = ClaimGatherer(log.append, 2)
    gatherer.add(0, a_request("a"), 0)
    gatherer.flush(1, idle=idle)

    assert len(log.appended) == idle


def test_a_batch_has_its_limits() -> None:
    """In number and in length."""
    log = Log()
    gatherer = ClaimGatherer(log.append, 2)
    for number in range(BATCH_CLAIMS_MAX + 1):
        gatherer.add(0, a_request(str(number)), 0)
    for number in range(60):
        gatherer.add(1, a_request("x" * 4_000 + str(number)), 0)
    gatherer.flush_all()

    sizes = [(partition, len(batch.claims)) for partition, batch in log.appended]
    assert sizes[0] == (0, BATCH_CLAIMS_MAX)
    assert sum(size for partition, size in sizes if partition == 1) == 60
    assert max(size for partition, size in sizes if partition == 1) == 24


@pytest.mark.parametrize("count", [1, 4, 16, 100])
def test_each_partition_has_an_ordering_id_for_its_batches(count: int) -> None:
    """The same wherever it is asked for."""
    found = claim_ordering_ids(count)

    assert sorted(found) == list(range(count))
    assert found == claim_ordering_ids(count)


def test_what_was_decided_here_is_known_once_and_only_so_much_of_it() -> None:
    """A moved message is due at its last time."""
    decided = DecidedHere()
    decided.note(_row("a"), MessageClaim("p", "o", (10, 20), {}))
    decided.note(_row("cancelled"), MessageClaim("", "o", (10,), {}))

    assert decided.take("a", "p", 10) is None
    assert decided.take("a", "p", 20) == _row("a")
    assert decided.take("a", "p", 20) is None
    assert decided.take("cancelled", "", 10) is None
    for number in range(DECIDED_MAX + 1):
        decided.note(_row(str(number)), MessageClaim("p", "o", (10,), {}))
    assert decided.take("0", "p", 10) is None
    assert decided.take("1", "p", 10) == _row("1")


def test_a_claim_behind_those_decided_here_will_be_decided_here() -> None:
    """For a while; what was decided before, here or elsewhere, the store has to be asked for."""
    decided = DecidedHere()
    assert not decided.will_decide(3, place_of(0, 8), now_ms=0)
    decided.note_decided(3, [place_of(0, 7), place_of(0, 6), place_of(1, 90)], now_ms=0)

    assert decided.will_decide(3, place_of(0, 8), now_ms=0)
    assert not decided.will_decide(3, place_of(0, 7), now_ms=0)
    assert not decided.will_decide(3, place_of(2, 8), now_ms=0), "nothing is known of its partition"
    assert not decided.will_decide(4, place_of(0, 8), now_ms=0), "nothing is decided of its claims"
    assert not decided.will_decide(3, place_of(0, 8), now_ms=ACTIVE_MS)


def test_whoever_waits_for_a_claim_is_woken_by_its_decision() -> None:
    """And does not wait at all where it came between asking and waiting."""

    async def wait() -> None:
        decided = DecidedHere()
        waiting = asyncio.create_task(decided.wait("a", 30.0))
        await asyncio.wait([waiting], timeout=0.0)
        assert not waiting.done()
        decided.note(_row("a"), MessageClaim("p", "o", (10,), {}))
        async with asyncio.timeout(10.0):
            await waiting
            await decided.wait("a", 30.0)

    asyncio.run(wait())
