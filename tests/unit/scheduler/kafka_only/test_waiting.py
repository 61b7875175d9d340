"""What an owner does with what waits, one step at a time."""

from hourhand.actors.model.task.codec import LogRecord, record_bytes
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.scheduler.kafka_only.bucket_layout import first_layout
from hourhand.scheduler.kafka_only.envelope import ENVELOPE_HEADER, Envelope, pending, read_envelope
from hourhand.scheduler.kafka_only.marker import Marker
from hourhand.scheduler.kafka_only.waiting import BucketRules, Waiting
from hourhand.scheduler.services.relay.message import Message

LAYOUT = first_layout(1_000, 2.0, 5)
START_MS = 1_000_000


def _rules(**more: int) -> BucketRules:
    return BucketRules(
        "pending",
        "letters",
        lambda topic: "it is forbidden" if topic == "forbidden" else None,
        batch_records_max=more.get("batch_records_max", 100),
        batch_bytes_max=more.get("batch_bytes_max", 10**6),
        held_records_max=more.get("held_records_max", 1_000),
        held_bytes_max=more.get("held_bytes_max", 10**6),
        away_until_ms=lambda topic, _key: START_MS + 5_000 if topic == "away" else None,
    )


def _record(offset: int, delay_ms: int, topic: str = "target") -> LogRecord:
    message = Message(topic, b"k", b"%d" % offset, (("mine", b"1"),))
    envelope = Envelope(START_MS + delay_ms, 0, topic, f"{offset:05d}")
    record = pending("pending", LAYOUT, envelope, message, START_MS)
    return LogRecord(0, offset, START_MS, record.key, record.value, tuple(record.headers))


def _waiting(*records: LogRecord, **limits: int) -> Waiting:
    waiting = Waiting(_rules(**limits), NodeBudget().begin(0))
    waiting.begin(Marker(0))
    waiting.take(records)
    return waiting


def test_delivery_past_a_waiting_record_is_marked() -> None:
    """The offset stays at the one that waits; the other is in the marker."""
    waiting = _waiting(_record(0, 900), _record(1, 100))

    assert waiting.next_ms() == START_MS + 100
    assert waiting.plan(START_MS + 99, LAYOUT) is None
    plan = waiting.plan(START_MS + 100, LAYOUT)

    assert plan is not None
    assert [(each.topic, each.value, each.headers) for each in plan.outgoing] == [
        ("target", b"1", (("mine", b"1"),))
    ]
    assert plan.marker == Marker(0, 0b10)
    waiting.settle(plan)
    last = waiting.plan(START_MS + 900, LAYOUT)
    assert last is not None
    assert last.marker == Marker(2)


def test_a_message_that_is_moved_late_is_still_not_early() -> None:
    """Its owner was away until shortly before it was due: it is moved anyway."""
    waiting = _waiting(_record(0, 1_500))

    plan = waiting.plan(START_MS + 1_470, LAYOUT)

    assert plan is not None
    assert (plan.outgoing[0].topic, plan.outgoing[0].partition) == ("pending", 0)
    assert not plan.due_ms


def test_a_step_is_bounded() -> None:
    """By records, and by bytes; the rest follows with the next one."""
    records = [_record(each, 10) for each in range(5)]

    few = _waiting(*records, batch_records_max=2).plan(START_MS + 10, LAYOUT)
    small = _waiting(*records, batch_bytes_max=1).plan(START_MS + 10, LAYOUT)

    assert few is not None
    assert few.offsets == (0, 1)
    assert small is not None
    assert small.offsets == (0,)


def test_memory_is_bounded() -> None:
    """An owner whose memory is full says so before more is read."""
    assert _waiting(_record(0, 10), held_records_max=2).fullness == 0.5
    assert _waiting(_record(0, 10), _record(1, 10), held_records_max=2).fullness == 1
    assert _waiting(_record(0, 10), held_bytes_max=10).fullness > 1


def test_p13_a_partition_keeps_to_its_share_of_the_nodes_bytes() -> None:
    """Keys and headers count; who holds one message larger than that reads on once it is gone."""
    size_bytes = record_bytes(_record(0, 10))
    memory = NodeBudget(2 * 2 * 4 * size_bytes)
    waiting = Waiting(_rules(), memory.begin("mine"))
    waiting.begin(Marker(0))
    waiting.take([_record(each, 10) for each in range(4)])
    alone = waiting.fullness
    memory.begin("another's")
    shared = waiting.fullness
    memory.begin("a third's")
    plan = waiting.plan(START_MS + 10, LAYOUT)
    assert plan is not None
    waiting.settle(plan)
    left_bytes = memory.used_bytes

    small = Waiting(_rules(), NodeBudget(2).begin("small"))
    small.take([_record(0, 10)])
    only = small.plan(START_MS + 10, LAYOUT)
    assert only is not None
    filled = small.fullness
    small.settle(only)

    assert (alone, shared) == (0.5, 1.0)
    assert (plan.offsets, left_bytes) == ((0, 1), 2 * size_bytes)
    assert (filled > 1, small.fullness) == (True, 0.0)


def test_what_is_no_message_is_put_aside() -> None:
    """A record of somebody else's, and a target that is not allowed; with headers and a reason."""
    strange = LogRecord(0, 0, START_MS, b"k", b"v", (("x", b"1"),))
    broken = LogRecord(0, 1, START_MS, b"k", b"v", ((ENVELOPE_HEADER, b"\xff"),))
    waiting = _waiting(strange, broken, _record(2, 0, "forbidden"))

    plan = waiting.plan(START_MS, LAYOUT)

    assert plan is not None
    assert {each.topic for each in plan.outgoing} == {"letters"}
    headers = [dict(each.headers) for each in plan.outgoing]
    assert [each["hourhandOffset"] for each in headers] == [b"0", b"1", b"2"]
    assert headers[0]["x"] == b"1"
    assert b"first header" in (headers[0]["hourhandReason"] or b"")
    assert b"cannot be read" in (headers[1]["hourhandReason"] or b"")
    assert b"forbidden" in (headers[2]["hourhandReason"] or b"")
    assert ENVELOPE_HEADER not in headers[2]


def test_p7_what_is_bound_for_a_target_that_is_away_waits_in_the_log_and_nothing_else() -> None:
    """Moved as if it were due when the target is tried again, so it takes no room in memory."""
    waiting = _waiting(_record(0, 0, "away"), _record(1, 0))

    plan = waiting.plan(START_MS, LAYOUT)

    assert plan is not None
    (moved, passed_on) = plan.outgoing
    assert (passed_on.topic, passed_on.value) == ("target", b"1")
    assert (moved.topic, plan.moved, plan.put_aside) == ("pending", 1, 0)
    envelope, message = read_envelope(
        LogRecord(0, 0, 0, moved.key, moved.value, tuple(moved.headers))
    )
    assert (envelope.due_ms, envelope.topic) == (START_MS + 5_000, "away")
    assert (message.value, message.headers) == (b"0", (("mine", b"1"),))


def test_a_new_owner_skips_what_is_marked() -> None:
    """Read again from the marker's offset, without what was done beyond it."""
    waiting = Waiting(_rules(), NodeBudget().begin(0))
    waiting.begin(Marker(1, 0b10))

    waiting.take([_record(1, 10), _record(2, 10), _record(3, 10)], 7)
    plan = waiting.plan(START_MS + 10, LAYOUT)

    assert plan is not None
    assert plan.offsets == (1, 3)
    assert plan.marker == Marker(7)
