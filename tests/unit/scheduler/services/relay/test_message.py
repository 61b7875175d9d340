"""Messages around every limit: in their task, beside it, or put aside, and what is behind them."""

import random
from collections.abc import Sequence
from concurrent.futures import Future
from itertools import pairwise
from typing import Any

import pytest

from hourhand.actors.model.operations.events import RelayRecordRefused
from hourhand.actors.model.task.codec import LogRecord, encode_json
from hourhand.actors.model.task.definition import Definition
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import LogUnavailable, PoisonRecord, SettingsInvalid
from hourhand.actors.model.values.instant import INSTANT_MAX_MS
from hourhand.scheduler.cli.relay_running import RelayRunning
from hourhand.scheduler.configuration.door_settings import RelaySettings
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.services.relay.claim_state import place_of
from hourhand.scheduler.services.relay.headers import ID_CHARS_MAX
from hourhand.scheduler.services.relay.message import (
    CLAIMS_BYTES_MAX,
    ENVELOPE_BYTES_MAX,
    Delivery,
    Message,
    fits_inline,
    inline_data,
    ordering_id_of,
    refuse_small_records,
)
from tests.unit.scheduler.services.relay.relay_bench import RelayBench
from tests.unit.scheduler.services.relay.test_sending import a_scheduler

CONTROL = "\x01"
"""One byte of a header's name, six of JSON."""


def test_p17_a_message_whose_encoding_is_too_long_for_a_task_is_relayed_all_the_same() -> None:
    """It waits beside its task, as one that is long by itself; the next one is relayed too."""
    bench = RelayBench()
    bench.put(b"escaped", id="a", due_in_s=1, headers=[(CONTROL * 170_000, b"")])
    bench.put(b"behind", id="b", due_in_s=1)

    bench.advance(1)

    assert sorted(filter(None, bench.values)) == [b"behind", b"escaped"]
    assert bench.letters == []


def test_p17_ids_of_control_characters_make_batches_that_the_log_takes() -> None:
    """A batch is closed by what its claims take once they are encoded."""
    bench = RelayBench()
    for number in range(100):
        bench.put(b"%d" % number, id=f"{number:03d}" + CONTROL * (ID_CHARS_MAX - 3), due_in_s=5)
    bench.advance(10)

    assert len(bench.values) == 100
    records = [
        record
        for partition in bench.scheduler.broker.partitions
        for record in partition.read(0, 1_000)[0]
    ]
    longest = max(len(record.key or b"") + len(record.value or b"") for record in records)
    assert longest <= CLAIMS_BYTES_MAX + ENVELOPE_BYTES_MAX


def test_p17_a_message_that_the_log_refuses_in_its_task_goes_beside_it() -> None:
    """A broker may take less than the settings say."""
    bench = RelayBench()
    bench.scheduler.broker.batch_bytes_max = 2_000
    # Compressed it would not be too large.
    value = random.Random(7).randbytes(3_000)
    bench.put(value, id="a", due_in_s=1)
    bench.put(b"behind", id="b", due_in_s=1)
    bench.read()
    bench.advance(1)

    assert set(bench.values) == {b"behind", value}
    assert bench.letters == []


def test_p17_a_message_that_log_and_store_refuse_is_put_aside_and_the_next_one_relayed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another try would change nothing; why is in the letter."""
    bench = RelayBench(RelaySettings(inline_bytes_max=2_000))
    bench.read()
    stores = bench.scheduler.stores.definitions
    takes = stores.save

    def save(partition: int, definitions: Sequence[Definition], now_ms: int) -> "Future[None]":
        if all(len(row.rule) < 3_000 for row in definitions):
            return takes(partition, definitions, now_ms)
        refused: Future[None] = Future()
        refused.set_exception(PoisonRecord("no row can hold it"))
        return refused

    monkeypatch.setattr(stores, "save", save)
    bench.put(b"x" * 3_000, id="a", due_in_s=1)
    bench.put(b"behind", id="b", due_in_s=1)
    bench.advance(1)
    bench.advance(1)

    assert bench.values == [b"behind"]
    (letter,) = bench.letters
    assert letter["hourhandReason"] == b"no row can hold it"
    assert [e.offset for e in bench.scheduler.events if isinstance(e, RelayRecordRefused)] == [0]


def test_p17_what_no_row_can_hold_is_put_aside_and_leaves_its_id_free() -> None:
    """Its id was not claimed, so a shorter message of the id is relayed."""
    bench = RelayBench(row_bytes_max=1_000_000)
    bench.put(b"x" * 1_000_000, id="a", due_in_s=1)
    bench.put(b"shorter", id="a", due_in_s=1)

    bench.advance(1)

    assert bench.values == [b"shorter"]
    (letter,) = bench.letters
    assert b"row_bytes_max" in (letter["hourhandReason"] or b"")


class DeafLetters:
    """A dead-letter topic that takes nothing until it ``hears``."""

    def __init__(self, bench: RelayBench) -> None:
        self._bench = bench
        self._takes = bench.put_aside
        self.hears = False
        self.asked_ms: list[int] = []

    def __call__(self, record: LogRecord, reason: str) -> "Future[Any]":
        """Put a record aside, or fail to."""
        if self.hears:
            return self._takes(record, reason)
        self.asked_ms.append(self._bench.clock.now_ms())
        refused: Future[Any] = Future()
        refused.set_exception(LogUnavailable("nobody takes dead letters"))
        return refused


@pytest.fixture
def deaf() -> tuple[RelayBench, DeafLetters]:
    """A relay of two partitions whose dead letters are not taken."""
    bench = RelayBench(in_partitions=2)
    letters = DeafLetters(bench)
    bench.put_aside = letters
    bench.crash_intake()
    return bench, letters


def test_p7_a_record_that_cannot_be_put_aside_holds_its_own_partition_and_no_other(
    deaf: tuple[RelayBench, DeafLetters],
) -> None:
    """It is read again after pauses that grow, until its letter is there."""
    bench, letters = deaf
    committed = bench.in_topic.group(bench.scheduler.settings.group.id).committed
    bench.put_raw(b"k", b"poison", [])
    for second in range(120):
        bench.put(b"%d" % second, id=f"other-{second}", due_in_s=0, partition=1)
        bench.advance(1)

    assert bench.values == [b"%d" % second for second in range(120)]
    pauses_ms = [later - before for before, later in pairwise(letters.asked_ms)]
    assert len(letters.asked_ms) <= 15, "it is not tried with every round"
    assert pauses_ms[-1] > 10 * pauses_ms[0]

    assert not committed.get(0)
    letters.hears = True
    for _ in range(60):
        bench.advance(1)
    assert committed[0] == 1
    assert len(bench.letters) == 1


def test_a_record_takes_no_more_than_the_formula_says() -> None:
    """The longest ordering id, place and time around data of the longest allowed."""
    place = place_of(99_999, 2**63 - 1)
    for key in (b"\x00" * 133, b"\xff" * 10_000, None):
        ordering_id = ordering_id_of(key, place)
        message = Message("t", b"k", b"v" * 1_000)
        data = inline_data(Delivery(message, id="i", place=place), 400_000)
        assert data is not None
        value = encode_json(TaskKey(INSTANT_MAX_MS, ordering_id, place), data)
        assert len(ordering_id.encode()) + len(value) - len(data) <= ENVELOPE_BYTES_MAX


@pytest.mark.parametrize("name", ["n", CONTROL, "\U0001f600"])
@pytest.mark.parametrize("headers", [1, 1_000])
def test_a_message_fits_exactly_as_long_as_its_encoding_does(name: str, headers: int) -> None:
    """Also where it is judged without encoding it."""
    message = Message("t", b"key", b"value", tuple((name * 7, b"v") for _ in range(headers)))
    data = inline_data(Delivery(message), 10**9)
    assert data is not None

    assert fits_inline(message, len(data))
    assert not fits_inline(message, len(data) - 1)


@pytest.mark.parametrize(
    ("record_bytes_max", "inline_bytes_max"), [(401_023, 400_000), (101_023, 0), (700_000, 700_000)]
)
def test_settings_under_which_the_log_would_refuse_the_relays_records_are_refused(
    record_bytes_max: int, inline_bytes_max: int
) -> None:
    """At the start, naming both and their values; a byte more is enough."""
    settings = Settings(
        client={"record_bytes_max": record_bytes_max}, relay={"inline_bytes_max": inline_bytes_max}
    )

    with pytest.raises(SettingsInvalid) as refused:
        RelayRunning(settings)

    text = str(refused.value)
    assert f"client.record_bytes_max is {record_bytes_max}" in text
    assert f"relay.inline_bytes_max {inline_bytes_max}" in text
    refuse_small_records(Settings())
    smallest: dict[str, Any] = {
        "client": {"record_bytes_max": 101_024},
        "relay": {"inline_bytes_max": 0},
    }
    refuse_small_records(Settings(**smallest))


def test_a_message_sent_later_is_judged_by_its_encoding_too() -> None:
    """It waits beside its task; one that no row can hold is refused at once."""
    scheduler = a_scheduler(RelaySettings())
    header = (CONTROL * 170_000, b"")
    scheduler.client.send_later(None, b"v", "t", scheduler.now, [header]).result()
    too_long = scheduler.client.send_later(None, b"x" * 9_000_000, "t", scheduler.now)
    scheduler.run_due()

    assert [each.value for each in scheduler.messages.messages] == [b"v"]
    assert "row_bytes_max" in str(too_long.exception())
