"""What becomes of messages of the in-topic."""

from hourhand.actors.model.operations.events import RelayRecordRefused
from hourhand.actors.model.task.codec import Headers, LogRecord, record_bytes
from hourhand.actors.model.values.instant import format_instant
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.scheduler.configuration.door_settings import RelaySettings
from hourhand.scheduler.kafka_only.arrivals import Arrivals, IntakeRules
from hourhand.scheduler.kafka_only.bucket_layout import first_layout
from hourhand.scheduler.kafka_only.envelope import read_envelope
from hourhand.scheduler.kafka_only.marker import Marker
from hourhand.scheduler.kafka_only.waiting import BucketRules
from hourhand.scheduler.testing import RecordingTelemetry

LAYOUT = first_layout(1_000, 2.0, 5)
NOW_MS = 1_767_225_600_000


def _arrivals(
    telemetry: RecordingTelemetry, memory: NodeBudget | None = None, **relay: object
) -> Arrivals:
    settings = RelaySettings.model_validate(relay)
    rules = BucketRules("pending", "letters", lambda topic: None, 100, 10**6, 1_000, 10**6)
    arrivals = Arrivals(
        IntakeRules(rules, settings, 60_000, lambda topic: topic == settings.out_topic, telemetry),
        (memory or NodeBudget()).begin(0),
    )
    arrivals.begin(Marker(5))
    return arrivals


def _record(offset: int, due_ms: int, more: Headers = ()) -> LogRecord:
    own = (
        ("chronosMessageId", b"id"),
        ("chronosDeadline", format_instant(due_ms).encode()),
    )
    return LogRecord(2, offset, NOW_MS, b"k", b"v", (*own, *more))


def test_a_message_waits_in_its_bucket_and_a_late_one_in_the_first() -> None:
    """So a late one does not pass one of the same key and time that came before it."""
    arrivals = _arrivals(RecordingTelemetry(), timing_advance_ms=50)

    arrivals.take([_record(5, NOW_MS + 3_000), _record(6, NOW_MS - 3_000)], 9)
    plan = arrivals.plan(NOW_MS, LAYOUT)

    assert plan is not None
    assert [(each.topic, each.partition) for each in plan.outgoing] == [
        ("pending", 2),
        ("pending", 0),
    ]
    envelopes = [
        read_envelope(LogRecord(0, 0, 0, each.key, each.value, tuple(each.headers)))[0]
        for each in plan.outgoing
    ]
    assert [each.due_ms for each in envelopes] == [NOW_MS + 2_950, NOW_MS]
    assert plan.marker == Marker(7)


def test_what_cannot_be_relayed_is_put_aside_and_counted() -> None:
    """Malformed, too far ahead, and what needs an index; the rest goes on."""
    telemetry = RecordingTelemetry()
    arrivals = _arrivals(telemetry)
    refused = [
        LogRecord(2, 5, NOW_MS, b"k", b"v", ()),
        _record(6, NOW_MS + 60_001),
        _record(7, NOW_MS, (("hourhandAction", b"reschedule"),)),
        _record(8, NOW_MS, (("hourhandTopic", b"elsewhere"),)),
    ]

    arrivals.take([*refused, _record(9, NOW_MS + 60_000)])
    plan = arrivals.plan(NOW_MS, LAYOUT)

    assert plan is not None
    assert [each.topic for each in plan.outgoing] == ["letters"] * 4 + ["pending"]
    assert len(telemetry.of(RelayRecordRefused)) == 4


def test_malformed_messages_may_be_dropped() -> None:
    """By setting; the offset goes past them."""
    arrivals = _arrivals(RecordingTelemetry(), malformed="drop")

    arrivals.take([LogRecord(2, 5, NOW_MS, b"k", b"v", ())])
    plan = arrivals.plan(NOW_MS, LAYOUT)

    assert plan is not None
    assert not plan.outgoing
    assert plan.marker == Marker(6)


def test_what_is_read_again_is_taken_once() -> None:
    """After an unknown outcome its owner begins again, from the group's offset."""
    arrivals = _arrivals(RecordingTelemetry())
    arrivals.take([_record(5, NOW_MS), _record(6, NOW_MS), _record(7, NOW_MS)])

    arrivals.begin(Marker(6))
    arrivals.take([_record(6, NOW_MS), _record(7, NOW_MS), _record(8, NOW_MS)])
    plan = arrivals.plan(NOW_MS, LAYOUT)

    assert plan is not None
    assert plan.offsets == (6, 7, 8)


def test_the_first_deadline_is_that_of_what_is_still_held() -> None:
    """A malformed one has none, and one that is done no longer counts."""
    arrivals = _arrivals(RecordingTelemetry(), timing_advance_ms=50)
    assert arrivals.first_due_ms() is None

    arrivals.take([LogRecord(2, 5, NOW_MS, b"k", b"v", ())], 6)
    assert arrivals.first_due_ms() is None
    arrivals.take([_record(6, NOW_MS + 3_000), _record(7, NOW_MS + 5_000)], 8)
    assert arrivals.first_due_ms() == NOW_MS + 2_950

    plan = arrivals.plan(NOW_MS, LAYOUT)
    arrivals.take([_record(8, NOW_MS + 9_000)], 9)
    assert plan is not None
    arrivals.settle(plan)
    assert arrivals.first_due_ms() == NOW_MS + 8_950


def test_p13_what_was_read_counts_until_it_is_done() -> None:
    """A message with large headers fills the share of its partition; it is done anyway."""
    large = _record(5, NOW_MS, [("more", b"x" * 10_000)])
    memory = NodeBudget(4 * 10_000)
    arrivals = _arrivals(RecordingTelemetry(), memory)

    arrivals.take([large, _record(6, NOW_MS), _record(7, NOW_MS)])
    filled, used_bytes = arrivals.fullness, memory.used_bytes
    memory.begin("another")
    plan = arrivals.plan(NOW_MS, LAYOUT)
    assert plan is not None
    arrivals.settle(plan)

    assert (filled > 0.5, used_bytes > 10_000, plan.offsets) == (True, True, (5,))
    assert memory.used_bytes == 2 * record_bytes(_record(6, NOW_MS))
