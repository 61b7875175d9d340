"""Claims over outages that outlast every row of what was passed on.

The store of the test kit expires rows as Cassandra does, with nobody there to see it.
"""

import msgspec
import pytest

from hourhand.actors.model.task.definition import Definition, DefinitionKind
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.services.relay.claim_state import (
    CLAIM_KEPT_MS,
    claim_name,
    offset_of_decision,
    passed_on,
    place_of,
)
from hourhand.scheduler.services.relay.message import Delivery, Message, delivery_task
from hourhand.scheduler.tasks.appending import TaskAppender
from tests.unit.scheduler.services.relay.relay_bench import OUT, RelayBench

HOUR_MS = 3_600_000
HOURS = pytest.mark.parametrize("hours", [0, 3, 300])
IN_PARTITIONS = 2


def _pass_hours(bench: RelayBench, hours: int) -> None:
    """Let time pass while no node runs."""
    bench.scheduler.stop()
    bench.clock.advance(hours * HOUR_MS)
    bench.scheduler.restart()


def _rows(bench: RelayBench) -> list[Definition]:
    store = bench.scheduler.stores.definitions
    pages = [store.page(each, DefinitionKind.RELAY, None, 10).result(0) for each in range(4)]
    return [row for page in pages for row in page.definitions]


def _kept_ms(bench: RelayBench) -> list[int]:
    """Return for how much longer the claims are kept."""
    now_ms = bench.clock.now_ms()
    return [row.expires_ms - now_ms for row in _rows(bench) if row.expires_ms is not None]


@HOURS
@pytest.mark.parametrize("partition", range(IN_PARTITIONS))
def test_p19_a_message_that_waited_through_an_outage_keeps_its_id(
    hours: int, partition: int
) -> None:
    """From what was put meanwhile too, in the same partition of the in-topic or in another."""
    bench = RelayBench(in_partitions=IN_PARTITIONS)
    bench.put(b"first", due_in_s=60)
    bench.advance(10)
    bench.scheduler.stop()
    bench.put(b"second", due_in_s=70, key=b"another", partition=partition)
    bench.intake.step(0)
    bench.intake.step(0)

    _pass_hours(bench, hours)
    bench.advance(120)

    assert bench.values == [b"first"]


@HOURS
@pytest.mark.parametrize("partition", range(IN_PARTITIONS))
def test_p19_of_two_messages_that_nobody_decided_before_an_outage_one_appears(
    hours: int, partition: int
) -> None:
    """However long they are overdue when their claims are decided."""
    bench = RelayBench(in_partitions=IN_PARTITIONS)
    bench.advance(10)
    bench.scheduler.stop()
    for number in range(8):
        bench.put(b"%d" % number, due_in_s=60, key=b"%d" % number, partition=partition)
    bench.intake.step(0)
    bench.intake.step(0)

    _pass_hours(bench, hours)
    bench.advance(120)

    assert len(bench.values) == 1


def test_a_delivery_whose_claim_has_expired_claims_its_id_again() -> None:
    """Its process died when it had passed the message on; what stands behind it goes on."""
    bench = RelayBench()
    place, now_ms = place_of(0, 8), bench.clock.now_ms()
    message = Delivery(Message(OUT, b"k", b"again"), id="id-1", place=place)
    writer = MemoryWriter(bench.scheduler.broker)
    appender = TaskAppender(writer, writer.partition_count())
    appender.append(delivery_task(now_ms, place, b"k", message)).result(0)
    bench.advance(10)
    waited = bench.values

    _pass_hours(bench, 3)
    bench.put(b"behind", id="id-2", due_in_s=0)
    bench.advance(60)

    assert waited == []
    assert bench.values == [b"again", b"behind"]
    assert {msgspec.json.decode(row.rule)["place"] for row in _rows(bench)} >= {place}


def test_a_claim_is_kept_as_long_as_completions_and_an_hour_once_it_was_passed_on() -> None:
    """One that was cancelled, too."""
    bench = RelayBench()
    retention_ms = bench.scheduler.settings.tree.watermark.completion_retention_ms
    bench.put(b"passed on", due_in_s=60)
    bench.put(b"cancelled", id="id-2", due_in_s=60)
    bench.advance(10)
    waiting_ms = _kept_ms(bench)

    bench.put(None, id="id-2", due_in_s=None, action="cancel")
    bench.advance(51)

    assert [each - retention_ms for each in waiting_ms] == [50_000, 50_000]
    assert bench.values == [b"passed on"]
    assert len(_kept_ms(bench)) == 2
    assert all(0 < each <= CLAIM_KEPT_MS for each in _kept_ms(bench))


@pytest.mark.parametrize("behind", [1, 2, 9])
def test_what_is_decided_while_a_message_is_passed_on_stands(behind: int) -> None:
    """The delivery writes the claim that it knew, with an hour to live."""
    known = Definition(claim_name("id-1"), 7, b"{}")

    released = passed_on(known, 1_000)
    later = offset_of_decision(known.offset + behind, known)
    after_both = offset_of_decision(known.offset + behind, released)

    assert known.offset < released.offset < later <= after_both
    assert released.expires_ms == 1_000 + CLAIM_KEPT_MS
    assert offset_of_decision(7, None) == 7
