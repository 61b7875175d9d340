"""What the relay does with messages it cannot use, and when log, broker or node fail."""

from datetime import timedelta
from typing import Any

import pytest

from hourhand.actors.model.operations.events import RelayRecordRefused
from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import LogUnavailable, TaskTooLarge, TopicMissing
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.configuration.door_settings import RelaySettings
from hourhand.scheduler.services.relay.claim_state import place_of
from hourhand.scheduler.services.relay.intake import SETTLE_S
from hourhand.scheduler.services.relay.message import Delivery, Message, delivery_task, parked_row
from hourhand.scheduler.tasks.appending import TaskAppender
from tests.unit.scheduler.services.relay.relay_bench import OUT, RelayBench

MALFORMED: dict[str, Headers] = {
    "no headers": [],
    "no deadline": [("chronosMessageId", b"a")],
    "no id": [("chronosDeadline", b"2027-01-01T00:00:00Z")],
    "no zone": [("chronosMessageId", b"a"), ("chronosDeadline", b"2027-01-01T00:00:00")],
    "null id": [("chronosMessageId", None), ("chronosDeadline", b"2027-01-01T00:00:00Z")],
    "empty id": [("chronosMessageId", b""), ("chronosDeadline", b"2027-01-01T00:00:00Z")],
    "long id": [("chronosMessageId", b"x" * 4_001), ("chronosDeadline", b"2027-01-01T00:00:00Z")],
    "id not UTF-8": [("chronosMessageId", b"\xff"), ("chronosDeadline", b"2027-01-01T00:00:00Z")],
    "two ids": [
        ("chronosMessageId", b"a"),
        ("chronosMessageId", b"a"),
        ("chronosDeadline", b"2027-01-01T00:00:00Z"),
    ],
    "unknown action": [
        ("chronosMessageId", b"a"),
        ("chronosDeadline", b"2027-01-01T00:00:00Z"),
        ("hourhandAction", b"explode"),
    ],
}


@pytest.mark.parametrize("what", MALFORMED)
def test_a_malformed_message_is_put_aside_and_the_next_one_is_relayed(what: str) -> None:
    """With the reason and where it stood; counted."""
    bench = RelayBench()
    bench.put_raw(b"k", b"poison", MALFORMED[what])
    bench.put(b"good", due_in_s=1)

    bench.advance(1)

    assert bench.values == [b"good"]
    (letter,) = bench.letters
    assert letter["hourhandReason"]
    assert (letter["hourhandPartition"], letter["hourhandOffset"]) == (b"0", b"0")
    assert [e.offset for e in bench.scheduler.events if isinstance(e, RelayRecordRefused)] == [0]


def test_malformed_messages_may_be_dropped_instead() -> None:
    """They are counted anyway, and read once."""
    bench = RelayBench(RelaySettings(malformed="drop"))
    bench.put_raw(b"k", b"poison", [])
    bench.put(b"good", due_in_s=1)

    bench.advance(1)

    assert bench.values == [b"good"]
    assert bench.letters == []
    assert len([e for e in bench.scheduler.events if isinstance(e, RelayRecordRefused)]) == 1


def test_reading_everything_again_changes_nothing() -> None:
    """As after a crash before the offset was committed."""
    bench = RelayBench()
    bench.put(b"waiting", id="a", due_in_s=10)
    bench.put(b"late", id="b", due_in_s=-1)
    bench.put(b"gone", id="c", due_in_s=10)
    bench.put(None, id="c", due_in_s=None, action="cancel")
    bench.advance(1)
    bench.crash_intake()
    bench.advance(1)
    bench.scheduler.crash()
    bench.advance(60)

    assert sorted(map(bytes, filter(None, bench.values))) == [b"late", b"waiting"]


@pytest.mark.parametrize("behind_ms", [1, 6_000, 29_000])
def test_p17_a_relay_whose_clock_is_behind_leaves_out_no_message_of_a_free_id(
    behind_ms: int,
) -> None:
    """The message came after the one before it had been passed on, as its own stamp says."""
    bench = RelayBench()
    bench.put(b"first", due_in_s=1)
    bench.advance(1)
    bench.put(b"second", due_in_s=1)

    bench.clock.step_wall(-behind_ms)
    bench.advance(1 + behind_ms / 1000)

    assert bench.values == [b"first", b"second"]


def test_what_the_log_did_not_take_is_read_again() -> None:
    """After a pause; nothing of the in-topic is committed before it is durable."""
    bench = RelayBench()
    broker = bench.scheduler.broker
    broker.refused = set(range(len(broker.partitions)))
    bench.put(b"v", due_in_s=1)
    bench.intake.step(0)
    bench.intake.step(0)
    committed = bench.in_topic.group(bench.scheduler.settings.group.id).committed
    assert not any(committed.values())

    broker.refused = set()
    bench.advance(1)
    bench.advance(2)
    assert bench.values == [b"v"]


def test_p17_what_fails_as_another_partition_leaves_is_read_again() -> None:
    """Its reading stays this member's."""
    bench = RelayBench(in_partitions=2)
    bench.intake.step(0)
    broker = bench.scheduler.broker
    broker.refused = set(range(len(broker.partitions)))
    for partition in range(2):
        bench.put(b"%d" % partition, id=f"id-{partition}", due_in_s=1, partition=partition)
    bench.intake.step(0)

    bench.intake.revoking([0])
    broker.refused = set()
    bench.advance(1)
    bench.advance(2)

    assert b"1" in bench.values


def test_a_topic_that_is_not_there_puts_its_message_aside() -> None:
    """Nothing that stands behind it waits."""
    bench = RelayBench(RelaySettings(target_topics=("gone", "small")))
    bench.scheduler.messages.failures = {
        "gone": TopicMissing("topic 'gone' does not exist"),
        "small": TaskTooLarge("too large for its topic"),
    }
    bench.put(b"1", id="a", due_in_s=1, topic="gone")
    bench.put(b"2", id="b", due_in_s=1, topic="small")
    bench.put(b"3", id="c", due_in_s=1)

    bench.advance(1)

    assert bench.values == [b"3"]
    letters, _ = bench.scheduler.broker.dead_letters.read(0, 10)
    assert sorted(letter.value or b"" for letter in letters) == [b"1", b"2"]


def test_a_broker_that_is_away_delays_messages_and_loses_none() -> None:
    """They are tried until it is there."""
    bench = RelayBench()
    bench.scheduler.messages.failures = {OUT: LogUnavailable("nobody answers")}
    bench.put(b"v", due_in_s=1)
    bench.advance(300)
    assert bench.values == []

    bench.scheduler.messages.failures = {}
    bench.advance(60)
    assert bench.values == [b"v"]


def test_p7_a_target_that_takes_nothing_holds_no_message_for_another() -> None:
    """Of twenty keys whose messages fail none keeps others waiting; each appears at the end."""
    bench = RelayBench(RelaySettings(target_topics=("away",)))
    bench.scheduler.messages.failures = {"away": LogUnavailable("nobody answers")}
    for number in range(40):
        topic = "away" if number % 2 else OUT
        key, value = b"key-%d" % number, b"%d" % number
        bench.put(value, id=f"id-{number}", due_in_s=1, key=key, topic=topic)
    bench.advance(1)
    bench.advance(1)
    assert {each.topic for each in bench.relayed} == {OUT}
    assert len(bench.relayed) == 20

    bench.scheduler.messages.failures = {}
    bench.advance(60)
    assert len(bench.relayed) == 40


def test_offsets_are_committed_once_everything_before_them_is_durable() -> None:
    """Dead letters included."""
    bench = RelayBench()
    bench.put(b"v", due_in_s=1)
    bench.put_raw(None, b"poison", [])
    bench.read()
    bench.clock.advance(1_000)
    bench.intake.step(0)

    committed = bench.in_topic.group(bench.scheduler.settings.group.id).committed
    assert committed == {0: 2}


def test_a_long_message_that_is_not_there_yet_is_waited_for() -> None:
    """Its task and it are written at the same time, and the task may be the faster one."""
    bench = RelayBench()
    now_ms, place = bench.clock.now_ms(), place_of(0, 0)
    writer = MemoryWriter(bench.scheduler.broker)
    appender = TaskAppender(writer, writer.partition_count())
    appender.append(delivery_task(now_ms, place, b"k", Delivery(parked=place)))
    bench.advance(5)
    assert bench.values == []

    row = parked_row(place, Message(OUT, b"k", b"long"), 1_000)
    partition = appender.partition_of(row.name.ordering_id)
    bench.scheduler.stores.definitions.save(partition, [row], now_ms)
    bench.advance(60)
    assert bench.values == [b"long"]


@pytest.mark.parametrize(
    "data",
    [
        {"place": "x", "id": "a"},
        {"message": {"topic": OUT, "key": "not base64!"}},
        {"message": {"headers": [["a"]]}},
        {"claims": [["schedule", "a", "no", "o", 1, 1]]},
        {"claims": [["explode", "a", "00000-0000000000000000001", "o", 1, 1]]},
        {"change": "set", "rule": {"cron": "x"}},
        {"change": "set", "rule": {"every_ms": 1000, "ordering_id": "o", "unknown": 1}},
        {"change": "set", "rule": None},
    ],
)
def test_what_somebody_wrote_into_the_log_by_hand_is_dropped(data: dict[str, Any]) -> None:
    """It is never tried again and again."""
    bench = RelayBench()
    writer = MemoryWriter(bench.scheduler.broker)
    appender = TaskAppender(writer, writer.partition_count())
    at = bench.scheduler.now + timedelta(seconds=1)
    for kind in ("send", "claims", "recurring", "timer", "call"):
        task = Task(
            ordering_id=f"hourhand:{kind}:x", scheduled_time=at, uniqueness_key=kind, data=data
        )
        appender.append(task)
    bench.advance(1)
    assert bench.scheduler.all_scheduled() == []
    bench.advance(3_700)

    assert bench.scheduler.all_scheduled() == []
    assert bench.values == []


@pytest.mark.parametrize("how", ["drained", "revoked"])
def test_stopping_waits_once_for_all_partitions_together(how: str) -> None:
    """A log that is slow would hold up a stop for each of them otherwise."""
    bench = RelayBench(in_partitions=8)
    bench.intake.step(0)
    for partition in range(8):
        bench.put(b"v", id=f"id-{partition}", partition=partition)
    bench.intake.step(0)

    if how == "drained":
        bench.intake.drain(SETTLE_S)
    else:
        bench.intake.revoking(range(8))

    (answers, seconds), *more = bench.waits
    assert answers >= 8
    assert seconds == SETTLE_S
    assert not more
