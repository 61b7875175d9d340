"""Hostile records of the log: valid ones damaged in every way, and bytes that never were one.

Decides what is written; a record is plain data, so that one which found something is kept in
``corpus/records.jsonl`` and comes first for ever.
"""

import base64
import json
import random
from dataclasses import dataclass
from pathlib import Path

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import ID_BYTES_MAX
from tests.builders import CHANGING, NOW_MS
from tests.fuzz import values
from tests.simulation.sizes import any_headers, filler, size_about, sized_command

CORPUS = Path(__file__).parent / "corpus" / "records.jsonl"
BATCH_BYTES_MAX, ROW_BYTES_MAX = 20_000, 40_000
"""What the log takes of a writer of ours, and the store of a row."""
_START = b'{"orderingId":'
_COMMANDS = ("cancel", "reschedule", "run_now", "drop", "retry", "replace", "explode", "", "CANCEL")
_TIMES = (0, -1, -(2**63), 2**63 - 1, 253_402_300_800_000, 1_770_601_272_959)


@dataclass(frozen=True, slots=True)
class Hostile:
    """One record, and the partition it is put into."""

    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def corpus() -> list[Hostile]:
    """Return the records that found something once."""
    found = []
    for line in CORPUS.read_text(encoding="utf-8").splitlines():
        kept = json.loads(line)
        data = None if kept["value"] is None else base64.b64decode(kept["value"])
        found.append(Hostile(kept["partition"], kept["timestampMs"], b"kept", data))
    return found


def hostile_record(rng: random.Random, number: int, partitions: int) -> Hostile:
    """Return the ``number``-th record of a seed."""
    made = rng.randrange(10)
    if made == 0:
        data: bytes | None = rng.choice((None, b"", b"\0", b"null", b"[]", rng.randbytes(60)))
    elif made == 1:
        data = _nested(rng)
    elif made == 2 and rng.random() < 0.5:
        data = _command(rng, number)
    elif made < 5:
        data = _damaged(rng, _written(rng, _fields(rng, number)))
    else:
        data = _written(rng, _fields(rng, number))
    return Hostile(
        rng.randrange(partitions),
        rng.choice(_TIMES),
        rng.choice((None, b"", b"\xff\0", b"k" * 40_000, b"bad")),
        data,
        _headers(rng),
    )


def _fields(rng: random.Random, number: int) -> dict[str, object]:
    """Return a task's or command's fields, one or two of them wrong."""
    fields: dict[str, object] = {
        "orderingId": f"bad-{rng.randrange(50)}",
        "scheduledTime": f"2026-02-09T01:{rng.randrange(41, 60)}:{rng.randrange(60):02}Z",
        "uniquenessKey": f"bad-{number}",
        "taskData": {"n": number},
        "version": 1,
    }
    if rng.random() < 0.1:
        size_bytes = size_about((BATCH_BYTES_MAX, ROW_BYTES_MAX), rng) - rng.randrange(300)
        fields["taskData"] = {"n": number, "pad": filler(max(0, size_bytes), rng)}
    if rng.random() < 0.3:
        fields["command"] = rng.choice(_COMMANDS)
        # Half of them about a task that may well be there.
        fields["uniquenessKey"] = f"bad-{max(0, number - rng.randrange(20))}"
        if rng.random() < 0.5:
            fields["to"] = rng.choice((*values.INSTANTS, "2026-02-09T02:00:00Z"))
    for _ in range(rng.randrange(3)):
        name = rng.choice(tuple(fields))
        match rng.randrange(4):
            case 0:
                fields.pop(name, None)
            case 1:
                fields[name] = rng.choice(values.INSTANTS)
            case 2:
                fields[name] = rng.choice((*values.TEXTS, *values.NUMBERS, None, True, [], {}))
            case _:
                fields[values.text(rng)] = rng.choice(values.NUMBERS)
    return fields


def _command(rng: random.Random, number: int) -> bytes:
    """Return a command of a task that may be there, about as large as some limit or with an id
    about as long as one may be.
    """
    name = f"bad-{max(0, number - rng.randrange(20))}"
    if rng.random() < 0.2:
        name = "x" * (ID_BYTES_MAX + rng.choice((-1, 0, 1)))
    due_ms = NOW_MS + rng.randrange(3_600_000)
    key = TaskKey(due_ms, f"bad-{rng.randrange(50)}", name)
    return sized_command(key, rng.choice(CHANGING), (BATCH_BYTES_MAX, ROW_BYTES_MAX), rng)


def _written(rng: random.Random, fields: dict[str, object]) -> bytes:
    ascii_only = rng.random() < 0.5
    written = json.dumps(fields, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        # A name that stands twice, with another value.
        written = written[:-1] + b',"version":' + rng.choice((b"1", b"2", b"1e400", b'"1"')) + b"}"
    if rng.random() < 0.1:
        odd = rng.choice((b"NaN", b"Infinity", b"1e999", b"9" * 5_000, b'"\\ud800"', b"-"))
        written = written.replace(b'{"n":', b'{"odd":' + odd + b',"n":', 1)
    return written


def _damaged(rng: random.Random, written: bytes) -> bytes:
    data = bytearray(written)
    for _ in range(rng.randrange(1, 4)):
        place = rng.randrange(len(data) + 1)
        match rng.randrange(4):
            case 0 if place < len(data):
                data[place] ^= 1 << rng.randrange(8)
            case 1:
                del data[place:]
            case 2:
                data[place:place] = rng.randbytes(3)
            case _:
                del data[place : place + rng.randrange(5)]
    return bytes(data)


def _nested(rng: random.Random) -> bytes:
    depth = rng.choice((10, 500, 1_100, 20_000))
    deep = b"[" * depth + b"]" * depth
    start = _START + b'"deep","scheduledTime":"2026-02-09T01:41:13Z","uniquenessKey":"d"'
    return rng.choice(
        (deep, start + b',"taskData":{"x":' + deep + b"}}", start + b',"new":' + deep + b"}")
    )


def _headers(rng: random.Random) -> Headers:
    names = ("", "hourhandReason", "hourhandOffset", "hourhandPartition", "ü", "x" * 300)
    count = rng.choice((0, 0, 0, 1, 3, 50))
    found = tuple(
        (rng.choice(names), rng.choice((None, b"", b"\xff\xfe", b"0"))) for _ in range(count)
    )
    return found if rng.random() < 0.8 else (*found, *any_headers(rng, BATCH_BYTES_MAX))
