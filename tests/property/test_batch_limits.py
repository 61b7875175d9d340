"""What goes together in one request or transaction, where sizes lie about its limits.

Whatever the sizes are, everything is written once and in order, and nothing goes with others
beyond a limit; what alone is larger than a limit goes alone.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from hourhand.actors.model.task.codec import LogRecord, record_bytes
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.window.budget import NodeBudget
from hourhand.scheduler.adapters.cassandra.joining import BYTES_MAX, STATEMENTS_MAX, Joiner
from hourhand.scheduler.adapters.cassandra.packing import (
    PackedBatch,
    RowPrefix,
    batches,
    packed_bigint,
    packed_int,
)
from hourhand.scheduler.kafka_only.bucket_layout import first_layout
from hourhand.scheduler.kafka_only.envelope import Envelope, pending
from hourhand.scheduler.kafka_only.marker import Marker
from hourhand.scheduler.kafka_only.waiting import BucketRules, Waiting
from hourhand.scheduler.services.relay.message import Message
from tests.unit.scheduler.adapters.cassandra.answers import Driver, Ended
from tests.unit.scheduler.adapters.cassandra.test_packing import PREFIX_BYTES, PREPARED

LIMIT_BYTES = 50 * 1024
"""Where Cassandra refuses a batch of several partitions; and any other limit will do."""
LAYOUT, START_MS = first_layout(1_000, 2.0, 5), 1_000_000


def about(limit_bytes: int, least_bytes: int) -> st.SearchStrategy[list[int]]:
    """Return sizes of which few, or one alone, come to a limit, a byte less or a byte more."""
    shares = st.sampled_from((1, 2, 3, 7))
    one = st.builds(
        lambda share, more: max(least_bytes, limit_bytes // share + more),
        shares,
        st.integers(-1, 1),
    )
    return st.lists(one | st.integers(least_bytes, least_bytes + 200), max_size=30)


@given(about(LIMIT_BYTES, PREFIX_BYTES + 8))
@example([LIMIT_BYTES // 2, LIMIT_BYTES // 2, LIMIT_BYTES // 2 + 1, LIMIT_BYTES // 2])
def test_batches_hold_every_row_once_and_keep_to_their_bytes(sizes: Sequence[int]) -> None:
    """No batch could have taken the first row of the one behind it."""
    rows = [
        (TaskKey(0, "o", str(number)), b"%4d" % number, b"v" * (size - PREFIX_BYTES - 4))
        for number, size in enumerate(sizes)
    ]
    made: list[Any] = list(batches(PREPARED, 1, rows, LIMIT_BYTES))
    prefix = RowPrefix(PREPARED, packed_int(1), packed_bigint(0)).packed

    packed = [each.rows for each in made]
    assert b"".join(each.packed for each in packed) == b"".join(
        prefix + clustering + values for _, clustering, values in rows
    )
    left = list(sizes)
    for each in packed:
        taken, left = left[: each.number], left[each.number :]
        assert len(taken) == 1 or sum(taken) <= LIMIT_BYTES
        assert not left or sum(taken) + left[0] > LIMIT_BYTES


@given(about(BYTES_MAX, 40))
@example([BYTES_MAX, BYTES_MAX // 2, BYTES_MAX // 2, BYTES_MAX // 2 + 1])
@example([BYTES_MAX, BYTES_MAX // 2, BYTES_MAX // 2 + 1])
def test_joined_writes_keep_to_their_limits(sizes: Sequence[int]) -> None:
    """All are sent, in the order they came, and each is told once that it ended."""
    driver, told = Driver(), [Ended() for _ in sizes]
    joiner = Joiner(driver, lambda _delay_s, _call: None)
    for number, (size, ended) in enumerate(zip(sizes, told, strict=True)):
        row = b"%04d" % number + b"r" * size
        prefix = RowPrefix(PREPARED, packed_int(number), packed_bigint(HOUR_MS))
        joiner.write([prefix.batch([row[:size]])], ended)
    answered = 0
    while answered < len(driver.responses):
        driver.responses[answered].succeed()
        answered += 1

    sent = [each for each in driver.sent if isinstance(each, PackedBatch)]
    assert sum(each.rows.number for each in sent) == len(sizes)
    for each in sent:
        assert each.rows.number <= STATEMENTS_MAX
        assert each.rows.number == 1 or len(each.rows.packed) <= BYTES_MAX
    assert [ended.times for ended in told] == [1] * len(sizes)


@given(about(20_000, 10), st.integers(1, 6))
@example([19_000, 20_000, 21_000], 6)
def test_transactions_pass_everything_on_and_keep_to_their_limits(
    sizes: Sequence[int], records_max: int
) -> None:
    """All but the last of a transaction fit together; each message is passed on once."""
    rules = BucketRules(
        "pending",
        "letters",
        lambda _topic: None,
        batch_records_max=records_max,
        batch_bytes_max=20_000,
        held_records_max=1_000,
        held_bytes_max=10**7,
        away_until_ms=lambda _topic, _key: None,
    )
    records = [_waiting_record(offset, size) for offset, size in enumerate(sizes)]
    waiting = Waiting(rules, NodeBudget().begin(0))
    waiting.begin(Marker(0))
    waiting.take(records)

    passed: list[int] = []
    while (plan := waiting.plan(START_MS + 10, LAYOUT)) is not None:
        together = [record_bytes(records[offset]) for offset in plan.offsets]
        assert 0 < len(together) <= records_max
        assert sum(together[:-1]) < rules.batch_bytes_max
        waiting.settle(plan)
        passed += plan.offsets
    assert passed == list(range(len(sizes)))


def _waiting_record(offset: int, size_bytes: int) -> LogRecord:
    envelope = Envelope(START_MS, 0, "target", f"{offset:05d}")
    message = Message("target", b"k", b"x" * size_bytes, ())
    record = pending("pending", LAYOUT, envelope, message, START_MS)
    return LogRecord(0, offset, START_MS, record.key, record.value, tuple(record.headers))
