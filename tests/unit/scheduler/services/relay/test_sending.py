"""``send_later``: any message to any topic, at a time, from the library."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hourhand.actors.model.values.errors import InvalidTask
from hourhand.scheduler.configuration.door_settings import RelaySettings
from hourhand.scheduler.testing import VirtualScheduler

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def a_scheduler(relay: RelaySettings | None = None) -> VirtualScheduler:
    """Return a scheduler at noon."""
    scheduler = VirtualScheduler(executors={}, now=NOON)
    if relay is not None:
        scheduler.settings = scheduler.settings.model_copy(update={"relay": relay})
        scheduler.client._systems.settings = scheduler.settings
        scheduler.restart()
    return scheduler


def test_a_message_is_sent_after_a_delay_byte_for_byte() -> None:
    """Key, value and headers as they were given, control headers of the relay included."""
    scheduler = a_scheduler()
    headers = [("chronosMessageId", b"\xff"), ("a", None), ("a", b"")]
    receipt = scheduler.client.send_later(
        b"\x00k", b"\xffv", "invoices", timedelta(seconds=90), headers
    ).result()
    assert receipt.key.scheduled_time == NOON + timedelta(seconds=90)

    scheduler.advance(seconds=89.999)
    assert scheduler.messages.messages == []
    scheduler.advance(seconds=1)
    (message,) = scheduler.messages.messages
    assert message[:4] == ("invoices", b"\x00k", b"\xffv", tuple(headers))


def test_a_time_may_be_given_and_the_past_is_now() -> None:
    """In any zone."""
    scheduler = a_scheduler()
    scheduler.client.send_later(None, b"1", "t", NOON + timedelta(hours=1)).result()
    scheduler.client.send_later(None, None, "t", NOON - timedelta(days=1)).result()
    scheduler.run_due()
    assert [each.value for each in scheduler.messages.messages] == [None]
    scheduler.advance(hours=1)
    assert [each.value for each in scheduler.messages.messages] == [None, b"1"]


def test_messages_of_one_key_and_time_keep_the_order_of_the_calls() -> None:
    """However many they are."""
    scheduler = a_scheduler()
    for number in range(200):
        scheduler.client.send_later(b"k", b"%d" % number, "t", NOON + timedelta(seconds=5))
    scheduler.advance(seconds=5)

    assert [each.value for each in scheduler.messages.messages] == [b"%d" % n for n in range(200)]


def test_a_waiting_message_is_cancelled_and_moved_by_its_key() -> None:
    """Like any task."""
    scheduler = a_scheduler()
    keys = [
        scheduler.client.send_later(None, b"%d" % n, "t", timedelta(seconds=10)).result().key
        for n in range(2)
    ]
    scheduler.client.cancel_task(keys[0])
    scheduler.client.reschedule_task(keys[1], NOON + timedelta(seconds=20))
    scheduler.advance(seconds=15)
    assert scheduler.messages.messages == []
    scheduler.advance(seconds=5)
    assert [each.value for each in scheduler.messages.messages] == [b"1"]


def test_a_long_message_waits_beside_its_task_through_a_crash() -> None:
    """It is durable before the future resolves."""
    scheduler = a_scheduler()
    value = bytes(range(256)) * 4_000
    scheduler.client.send_later(b"k", value, "t", timedelta(seconds=5)).result()
    scheduler.crash()
    scheduler.advance(seconds=5)

    assert [each.value for each in scheduler.messages.messages] == [value]


@pytest.mark.parametrize(
    "topic",
    ["", "a b", "..", "hourhand", "hourhand-dead-letter", "hourhand-relay-in", "é", "x" * 300],
)
def test_no_message_goes_to_what_is_no_topic_or_our_own(topic: str) -> None:
    """It would be read as a task."""
    refused = a_scheduler().client.send_later(None, b"", topic, timedelta(0))

    assert isinstance(refused.exception(), InvalidTask)


def test_listed_topics_are_the_only_ones() -> None:
    """Where any are listed; the node asks too, whoever made the task."""
    scheduler = a_scheduler(RelaySettings(target_topics=("allowed",)))
    allowed = scheduler.client.send_later(None, b"1", "allowed", timedelta(0))
    refused = scheduler.client.send_later(None, b"2", "other", timedelta(0))
    assert allowed.exception() is None
    assert isinstance(refused.exception(), InvalidTask)

    scheduler.client._systems.settings = scheduler.settings.model_copy(
        update={"relay": RelaySettings()}
    )
    scheduler.client.send_later(None, b"3", "other", timedelta(0)).result()
    scheduler.run_due()
    assert [each.value for each in scheduler.messages.messages] == [b"1"]
    letters, _ = scheduler.broker.dead_letters.read(0, 10)
    assert [letter.value for letter in letters] == [b"3"]


@pytest.mark.parametrize(
    ("key", "value", "headers", "when"),
    [
        ("text", b"", (), timedelta(0)),
        (b"", {"a": 1}, (), timedelta(0)),
        (b"", b"", [("a", "text")], timedelta(0)),
        (b"", b"", ["a"], timedelta(0)),
        (b"", b"", None, timedelta(0)),
        (b"", b"", 5, timedelta(0)),
        (b"", b"", (), datetime(2026, 1, 1)),  # noqa: DTZ001 - naive on purpose
        (b"", b"", (), "tomorrow"),
        (b"", b"", (), timedelta.max),
    ],
)
def test_what_kafka_cannot_hold_is_refused(
    key: object, value: object, headers: object, when: object
) -> None:
    """Through the future, and nothing is sent."""
    client = a_scheduler().client
    refused = client.send_later(key, value, "t", when, headers)  # type: ignore[arg-type]

    assert isinstance(refused.exception(), InvalidTask)


@pytest.mark.parametrize("topic", [5, None, b"t", "", "a b", "a" * 250, "t\n"])
def test_what_is_not_a_topic_is_refused_by_its_value(topic: Any) -> None:
    """Through the future, as any other argument."""
    refused = a_scheduler().client.send_later(b"k", b"v", topic, timedelta(0)).exception()

    assert isinstance(refused, InvalidTask) and "is not a topic's name" in str(refused)
