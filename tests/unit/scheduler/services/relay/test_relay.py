"""What the relay promises about messages: when, how often, in what order, byte for byte."""

import pytest

from hourhand.scheduler.configuration.door_settings import RelaySettings
from tests.unit.scheduler.services.relay.relay_bench import OUT, RelayBench


def test_a_message_appears_at_its_deadline_and_not_before() -> None:
    """Not a millisecond."""
    bench = RelayBench()
    bench.put(due_in_s=10)
    due_ms = bench.clock.now_ms() + 10_000

    bench.advance(9.999)
    assert bench.values == []
    bench.advance(0.001)
    assert [(each.topic, each.produced_ms) for each in bench.relayed] == [(OUT, due_ms)]


def test_timing_advance_is_the_declared_exception() -> None:
    """So long before the deadline, and no longer."""
    bench = RelayBench(RelaySettings(timing_advance_ms=50))
    bench.put(due_in_s=10)

    bench.advance(9.949)
    assert bench.values == []
    bench.advance(0.001)
    assert len(bench.values) == 1


@pytest.mark.parametrize("key", [None, b"", b"k", b"\xff\x00\n", b"k" * 5_000])
@pytest.mark.parametrize("value", [None, b"", b"\x00\xfe{", b'{"a": 1 }\n'])
def test_key_value_and_headers_pass_byte_for_byte(key: bytes | None, value: bytes | None) -> None:
    """Repeated and ordered names, absent values; only the control headers are left out."""
    bench = RelayBench()
    headers = [("b", b"\xff\xfe"), ("a", None), ("b", b""), ("b", b"\xff\xfe"), ("é", b"1")]
    bench.put(value, key=key, headers=headers, due_in_s=1)

    bench.advance(1)

    (message,) = bench.relayed
    assert (message.key, message.value) == (key, value)
    assert list(message.headers) == headers


@pytest.mark.parametrize("size", [399_000, 401_000, 1_048_000])
def test_a_long_message_passes_too(size: int) -> None:
    """Above ``inline_bytes_max`` it waits beside its task, and leaves nothing behind."""
    bench = RelayBench()
    value = bytes(range(256)) * (size // 256)
    bench.put(value, due_in_s=1)

    bench.advance(1)

    assert bench.values == [value]
    bench.scheduler.advance(days=2)
    assert bench.values == [value]


def test_the_first_message_of_a_waiting_id_wins() -> None:
    """Whatever key, partition and deadline the others have."""
    bench = RelayBench(in_partitions=2)
    bench.put(b"first", due_in_s=10)
    bench.read()
    bench.put(b"earlier deadline", due_in_s=5)
    bench.put(b"later deadline", due_in_s=20)
    bench.put(b"another key", key=b"other", partition=1)
    bench.put(b"another id", id="id-2")

    bench.advance(60)

    assert sorted(map(bytes, filter(None, bench.values))) == [b"another id", b"first"]


def test_messages_of_one_id_read_together_are_decided_in_their_order() -> None:
    """They reach the node in one batch."""
    bench = RelayBench()
    for number in range(20):
        bench.put(b"%d" % number, due_in_s=10 - number / 10)

    bench.advance(60)

    assert bench.values == [b"0"]


def test_an_id_is_forgotten_once_its_message_was_passed_on() -> None:
    """The same id may come again."""
    bench = RelayBench()
    bench.put(b"first", due_in_s=1)
    bench.advance(1)
    bench.put(b"second", due_in_s=1)
    bench.advance(1)
    bench.put(b"late", due_in_s=-5)
    bench.advance(1)

    assert bench.values == [b"first", b"second", b"late"]


def test_a_late_message_goes_at_once_but_respects_a_waiting_one() -> None:
    """The seed did the one and not the other."""
    bench = RelayBench()
    bench.put(b"late", id="a", due_in_s=-3_600)
    bench.put(b"waiting", id="b", due_in_s=10)
    bench.read()
    bench.put(b"late of a waiting id", id="b", due_in_s=-1)
    bench.advance(1)
    assert bench.values == [b"late"]

    bench.advance(20)
    assert bench.values == [b"late", b"waiting"]


@pytest.mark.parametrize("due_in_s", [-10, 0, 5])
def test_messages_of_one_key_and_deadline_keep_their_order(due_in_s: float) -> None:
    """Late ones, too."""
    bench = RelayBench()
    for number in range(50):
        bench.put(b"%d" % number, id=f"id-{number}", due_in_s=due_in_s)

    bench.advance(60)

    assert bench.values == [b"%d" % number for number in range(50)]


def test_a_cancelled_message_never_appears() -> None:
    """And its id is free again at once."""
    bench = RelayBench()
    bench.put(b"cancelled", due_in_s=10)
    bench.read()
    bench.put(None, due_in_s=None, action="cancel")
    bench.put(b"new", due_in_s=20)

    bench.advance(60)

    assert bench.values == [b"new"]


def test_a_rescheduled_message_appears_at_its_new_time_only() -> None:
    """Later or earlier, with the key, value and headers it was put with."""
    bench = RelayBench()
    bench.put(b"moved", due_in_s=10, headers=[("h", b"1")])
    bench.put(b"ignored", due_in_s=30, action="reschedule")
    bench.advance(29)
    assert bench.values == []

    bench.put(b"ignored", due_in_s=0.5, action="reschedule", key=b"other")
    bench.advance(0.5)
    assert [(m.key, m.value, list(m.headers)) for m in bench.relayed] == [
        (b"k", b"moved", [("h", b"1")])
    ]
    bench.advance(60)
    assert len(bench.relayed) == 1


def test_an_id_that_was_moved_is_forgotten_too() -> None:
    """Wherever it was moved from."""
    bench = RelayBench()
    bench.put(b"first", due_in_s=10)
    bench.put(None, due_in_s=1, action="reschedule")
    bench.advance(1)
    bench.put(b"second", due_in_s=1)
    bench.advance(60)

    assert bench.values == [b"first", b"second"]


@pytest.mark.parametrize("action", ["cancel", "reschedule"])
def test_what_changes_an_id_that_does_not_wait_changes_nothing(action: str) -> None:
    """Before anything came, and after it was passed on."""
    bench = RelayBench()
    bench.put(None, due_in_s=5, action=action)
    bench.put(b"v", due_in_s=1)
    bench.advance(2)
    bench.put(None, due_in_s=5, action=action)
    bench.advance(60)

    assert bench.values == [b"v"]
    assert bench.letters == []


def test_a_message_may_name_a_topic_that_is_allowed() -> None:
    """And no other: that one is put aside."""
    bench = RelayBench(RelaySettings(target_topics=("invoices",)))
    bench.put(b"1", id="a", due_in_s=1, topic="invoices")
    bench.put(b"2", id="b", due_in_s=1, topic="secrets")
    bench.put(b"3", id="c", due_in_s=1, topic=OUT)

    bench.advance(2)

    assert sorted((m.topic, m.value) for m in bench.relayed) == [
        (OUT, b"3"),
        ("invoices", b"1"),
    ]
    (letter,) = bench.letters
    assert b"secrets" in (letter["hourhandReason"] or b"")


def test_the_names_of_headers_are_settings() -> None:
    """Messages with other names are malformed then."""
    names = RelaySettings(id_header="id", deadline_header="at", action_header="do")
    bench = RelayBench(names)
    bench.put(b"v", due_in_s=1, headers=[("chronosMessageId", b"kept")])

    bench.advance(1)

    assert [list(m.headers) for m in bench.relayed] == [[("chronosMessageId", b"kept")]]
