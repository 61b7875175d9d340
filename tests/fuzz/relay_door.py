"""The relay's door: hostile records of the in-topic, and junk in the place of Hourhand's own tasks.

Decides where each record may end: it appears, it is put aside with a reason, or another one of
its id waited.  Good messages stand between them; each appears once, on time and byte for byte.
"""

import json
import random
from collections.abc import Callable

from hourhand.actors.model.operations.events import TreeRebuilt
from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.instant import format_instant, parse_instant
from hourhand.scheduler.configuration.door_settings import RelaySettings
from tests.fuzz import values
from tests.simulation.sizes import any_headers
from tests.unit.scheduler.services.relay.relay_bench import OUT, RelayBench

RECORDS_OF_A_RELAY = 400
_PARTITIONS = 2
_GOOD_EVERY = 10
_SECONDS = 3_600.0
_KINDS = ("claims", "send", "timer", "recurring", "call", "unique", "debounced", "group")
"""Those of this version; what is of another waits for a node that knows it."""
_PREFIXES = ("", "", "", "end:", "change:")
_NUMBERS = (0, 1, -1, 3_600_000, 2**63, -(10**18), 10**30, "1", None, 1.5)
_KEYS = (
    "2026-01-01T00:00:00.000Z,made,x",
    "2026-01-01T00:00:00.000Z,hourhand:timer:x,x",
    "x",
    "",
    5,
)
_FOLLOWER = '{"orderingId":"made","scheduledTime":"2026-01-01T00:00:00Z","uniquenessKey":"x"'
_FOLLOWERS = (
    "",
    "{}",
    "nonsense",
    _FOLLOWER + "}",
    _FOLLOWER + ',"links":null}',
    _FOLLOWER + ',"command":"x"}',
    5,
)


def try_relay(seed: int, count: int) -> int:
    """Run one world of hostile records; AssertionError where a promise did not hold."""
    rng = random.Random(f"relay {seed}")
    settings = RelaySettings(target_topics=("allowed",), inline_bytes_max=10_000)
    bench = RelayBench(settings, in_partitions=_PARTITIONS)
    good: dict[bytes, int] = {}
    for number in range(count):
        if rng.random() < 0.25:
            _put_junk_task(rng, bench, number)
        else:
            _put_hostile(rng, bench, number)
        if number % _GOOD_EVERY == 0:
            due_in_s = rng.randrange(1, 60)
            value = b"good-%d" % number
            good[value] = bench.clock.now_ms() + 1_000 * due_in_s
            partition = rng.randrange(_PARTITIONS)
            bench.put(value, id=f"good-{number}", due_in_s=due_in_s, partition=partition)
        if rng.random() < 0.03:
            bench.advance(rng.random())
        if rng.random() < 0.01:
            bench.crash_intake()
    bench.advance(60)
    # So long does a delivery wait for what was parked for it.
    bench.advance(_SECONDS + 120)
    _check(bench, good)
    return count


def _put_hostile(rng: random.Random, bench: RelayBench, number: int) -> None:
    partition = bench.in_topic.partitions[rng.randrange(_PARTITIONS)]
    key = rng.choice((None, b"", b"\xff\x00", b"k", b"k" * 900, b"x" * 40_000))
    value = rng.choice(
        (
            None,
            b"",
            b"bad-%d" % number,
            rng.randbytes(30),
            b"y" * 20_000,
            rng.randbytes(rng.choice((9_999, 10_001))),
        )
    )
    stamp_ms = rng.choice((bench.clock.now_ms(), 0, -1, 2**63 - 1))
    partition.append(stamp_ms, key, value, _headers(rng, bench))


def _headers(rng: random.Random, bench: RelayBench) -> Headers:
    """Return control headers with something wrong, or right by chance, among any others."""
    relay, now_ms = bench.relay, bench.clock.now_ms()
    soon = format_instant(now_ms + rng.randrange(-5_000, 60_000))
    chosen: list[tuple[str, bytes | None]] = [
        (
            relay.id_header,
            rng.choice((f"id-{rng.randrange(9)}", values.text(rng))).encode(
                "utf-8", "surrogatepass"
            ),
        ),
        (relay.deadline_header, rng.choice((soon, soon, *values.INSTANTS)).encode()),
    ]
    if rng.random() < 0.4:
        action = rng.choice(("cancel", "reschedule", "schedule", "", "explode", "CANCEL", "\0"))
        chosen.append((relay.action_header, action.encode()))
    if rng.random() < 0.3:
        topic = rng.choice(
            (OUT, "allowed", "forbidden", "", "..", "hourhand-relay-in", "ü", "x" * 300)
        )
        chosen.append((relay.topic_header, topic.encode()))
    for _ in range(rng.choice((0, 0, 1, 2))):
        place = rng.randrange(len(chosen) + 1)
        names = (relay.id_header, relay.deadline_header, relay.action_header, "", "é", "h" * 3_000)
        odd = (None, b"", b"\xff\xfe", b"\0", b"a" * 9_000, b"2026-02-09T01:41:12Z")
        match rng.randrange(3):
            case 0:
                chosen.insert(place, (rng.choice(names), rng.choice(odd)))
            case 1 if chosen:
                del chosen[place - 1]
            case _ if chosen:
                chosen[place - 1] = (chosen[place - 1][0], rng.choice(odd))
            case _:
                pass
    if rng.random() < 0.2:
        chosen += any_headers(rng, 12_000)
    return chosen


def _any_request(rng: random.Random) -> object:
    """Return data that may be a request for a unique or debounced task."""
    return {
        "key": rng.choice(_KEYS),
        "task_data": rng.choice(({}, {"a": 10**30}, {"a": None}, [])),
        "kind": rng.choice((None, None, "", "x" * 5_000)),
        "priority": rng.choice((None, None, 3, 1_000)),
        "expires": rng.choice((None, None, "PT1S", "x", "P99999999999D")),
        "seal": rng.choice((None, None, {"steps": 1}, 5)),
        "window_ms": rng.choice(_NUMBERS),
        "until_ms": rng.choice(_NUMBERS),
        "call": rng.choice((None, "x", 5)),
    }


def _any_part_of_a_group(rng: random.Random) -> object:
    """Return data that may make a group, or report to it."""
    if rng.random() < 0.3:
        return {"group": rng.choice(("ended", "x")), "member": rng.choice(_NUMBERS)}
    follower, on = rng.choice(_FOLLOWERS), rng.choice(("any", "success", "x"))
    return {"group": "made", "members": rng.choice(_NUMBERS), "follower": follower, "on": on}


def _any_timer(rng: random.Random) -> object:
    """Return data that may make a timer."""
    # One of a millisecond is valid, and pops until the test is over.
    every_ms = rng.choice([each for each in _NUMBERS if each != 1])
    times = {"interval_ms": every_ms, "repeat_for_ms": rng.choice(_NUMBERS)}
    rule = {**times, "uri": "http://127.0.0.1:9", "opaque": "x"}
    return {"change": rule, "fresh": rng.random() < 0.5}


_FITTING: dict[str, Callable[[random.Random], object]] = {
    "unique": _any_request,
    "debounced": _any_request,
    "group": _any_part_of_a_group,
    "timer": _any_timer,
}
"""Data that nearly is that of a kind."""


def _put_junk_task(rng: random.Random, bench: RelayBench, number: int) -> None:
    """Append a task of a reserved ordering id, as a foreign producer may."""
    rest = rng.choice(("", ":", ":x", ":id-1", f":{values.text(rng)}", ":0123456789abcdef"))
    kind = rng.choice(_KINDS)
    ordering_id = f"hourhand:{kind}{rest}"
    data: object = rng.choice(
        (
            {},
            {"change": rng.choice(({}, "set", "pause", {"interval_ms": "x"}, None, 5))},
            {"pop": rng.choice((1, -1, 2**70, "1")), "generation": rng.choice((0, "x", -1))},
            {"claims": rng.choice(([], [[]], [["schedule"]], [["x", 1, 2, 3, 4, 5]], "no", None))},
            {"claims": [["schedule", "id-1", rng.choice(("x", "0-0", "a-b", "")), "", 0, 0]]},
            {"message": rng.choice(({}, {"topic": ""}, {"topic": "..", "value": "%%"}, 5))},
            {"message": {"topic": "allowed", "headers": [["a"]]}, "id": "id-1", "place": "x"},
            {"parked": 5, "id": "id-1"},
            {"parked": "" if rng.random() < 0.1 else None, "id": rng.choice(("id-1", 5))},
            {"uri": "http://127.0.0.1:9", "opaque": 5, "number": "x"},
            {"generation": rng.choice((0, -1, "x", 2**70))},
            {"change": "set", "rule": rng.choice(({}, {"cron": "x"}, {"every_ms": 1}, [], 5))},
        )
    )
    if kind in _FITTING and rng.random() < 0.8:
        data = _FITTING[kind](rng)
    due_ms = bench.clock.now_ms() + rng.randrange(-1_000, 30_000)
    task = {
        "orderingId": ordering_id,
        "scheduledTime": format_instant(due_ms),
        "uniquenessKey": f"{rng.choice(_PREFIXES)}junk-{number}",
        "taskData": data,
        "version": 1,
    }
    value = json.dumps(task).encode("utf-8", "surrogatepass")
    partitions = bench.scheduler.broker.partitions
    partition = partition_of(ordering_id.encode("utf-8", "replace").decode(), len(partitions))
    key = ordering_id.encode("utf-8", "surrogatepass")
    partitions[partition].append(bench.clock.now_ms(), key, value, ())


def _check(bench: RelayBench, good: dict[bytes, int]) -> None:
    appeared = [each for each in bench.relayed if each.value in good]
    assert sorted(each.value or b"" for each in appeared) == sorted(good), (
        "a good message was lost or appeared twice"
    )
    for each in appeared:
        late_ms = each.produced_ms - good[each.value or b""]
        assert late_ms >= 0, f"{each.value!r} appeared {-late_ms} ms early"
    assert not bench.scheduler.telemetry.of(TreeRebuilt), "a record had the tree rebuilt"
    tasks = bench.scheduler.all_scheduled()
    still_open = [task for task in tasks if "junk-" in task.uniqueness_key]
    assert not still_open, f"tried for ever: {still_open[0]!r:.300}"
    committed = bench.in_topic.group(bench.scheduler.settings.group.id).committed
    letters = {
        (int(each["hourhandPartition"] or b""), int(each["hourhandOffset"] or b""))
        for each in bench.letters
    }
    assert all(each["hourhandReason"] for each in bench.letters), "a letter without a reason"
    for number, stored in enumerate(bench.in_topic.partitions):
        assert committed.get(number, 0) == stored.end_offset, "offsets are not committed to the end"
        for record in stored.read(0, stored.end_offset)[0]:
            usable = _is_usable(bench, record)
            assert ((number, record.offset) in letters) != usable, (
                f"{record.headers!r:.900}: {usable}"
            )


def _is_usable(bench: RelayBench, record: LogRecord) -> bool:
    """True if a record's headers can be used, read without the relay's own code."""
    relay = bench.relay
    cancels = (relay.action_header, b"cancel") in record.headers
    names = (relay.id_header, relay.action_header, relay.topic_header, relay.deadline_header)
    found: dict[str, str] = {}
    for name in names:
        given = [value for each, value in record.headers if each == name]
        if len(given) > 1:
            return False
        # Nobody reads the deadline of a cancel.
        if given and not (cancels and name == relay.deadline_header):
            try:
                found[name] = b"\xff".decode() if given[0] is None else given[0].decode()
            except UnicodeDecodeError:
                return False
    action = found.get(relay.action_header, "schedule")
    topic = found.get(relay.topic_header, OUT)
    fits = 0 < len(found.get(relay.id_header, "")) <= 4_000
    if action not in {"schedule", "cancel", "reschedule"} or topic not in {OUT, "allowed"}:
        return False
    if action == "cancel":
        return fits
    try:
        parse_instant(found.get(relay.deadline_header, ""))
    except ValueError:
        return False
    return fits
