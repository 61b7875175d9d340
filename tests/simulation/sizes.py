"""Sizes about limits and headers of every kind, for whoever writes records.

It draws them from random numbers, and never sends anything.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from hourhand.actors.model.task.codec import Command, CommandKind, Headers, encode_command
from hourhand.actors.model.task.key import TaskKey

_LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"
_NAMES = (
    "",
    "h",
    "h",
    "traceparent",
    "hourhandReason",
    "hourhandPartition",
    "ü\u2028🕰",
    # Each of these characters takes six bytes in JSON.
    "\x01" * 30,
    "\x01\x02\x1f\x7f",
    "n" * 300,
)
_CONTENTS = (None, b"", b"0", b"\xff\xfe\x00", b"\x00" * 200)


def size_about(limits: Sequence[int], rng: random.Random) -> int:
    """Return a size at a limit, a byte to either side, or somewhere up to above the largest."""
    if rng.random() < 0.7:
        return rng.choice(limits) + rng.choice((-1, 0, 1))
    return rng.randrange(max(limits) + max(limits) // 4)


def filler(size: int, rng: random.Random) -> str:
    """Return text of so many bytes, which packs well or hardly."""
    if rng.random() < 0.5:
        return "x" * size
    return "".join(rng.choices(_LETTERS, k=size))


def any_headers(rng: random.Random, bytes_max: int) -> Headers:
    """Return headers that are few or many, small or one of them large, some names twice."""
    found: list[tuple[str, bytes | None]] = [
        (rng.choice(_NAMES), rng.choice(_CONTENTS)) for _ in range(rng.choice((0, 0, 1, 2, 3, 12)))
    ]
    if rng.random() < 0.2:
        # Large in its name or in its content, which packs well or hardly.
        size = rng.randrange(bytes_max)
        content = rng.randbytes(size) if rng.random() < 0.5 else bytes(size)
        found.append(("\x02" * size, None) if rng.random() < 0.3 else ("large", content))
    rng.shuffle(found)
    return tuple(found)


def sized_command(
    key: TaskKey, kind: CommandKind, limits: Sequence[int], rng: random.Random
) -> bytes:
    """Return the record of a command about as large as some limit, and no smaller than it is: a
    later version may say more in a command, and a node reads past what it does not know.
    """
    command = Command(kind, key)
    if kind is CommandKind.RESCHEDULE:
        command = Command(kind, key, to_ms=key.scheduled_ms + rng.randrange(2_000))
    value = encode_command(command)
    room = size_about(limits, rng) - len(value) - len(b',"note":""')
    if room < 0:
        return value
    return b'%b,"note":"%b"}' % (value[:-1], filler(room, rng).encode())


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """Limits that decide where a relayed message waits: in its task, in a row, or nowhere."""

    inline_bytes_max: int
    row_bytes_max: int

    def fits(self, key: bytes | None, value: bytes, headers: Headers) -> bool | None:
        """Return whether a row holds a message; None where its encoding decides."""
        raw_bytes = len(key or b"") + len(value)
        raw_bytes += sum(len(name.encode()) + len(content or b"") for name, content in headers)
        # Lengths and the topic's name come to it.
        most_bytes = raw_bytes + 100 + 8 * len(headers)
        if raw_bytes <= self.row_bytes_max < most_bytes:
            return None
        return most_bytes <= self.row_bytes_max


def any_value(start: bytes, limits: RelayLimits, rng: random.Random) -> bytes:
    """Return a value about as large as some limit, as it is or encoded, which starts so."""
    raw = (limits.inline_bytes_max, limits.row_bytes_max)
    # In JSON bytes take a third more.
    size = size_about((*raw, *(each * 3 // 4 for each in raw)), rng) - rng.choice((0, 0, 100))
    return start + filler(max(0, size - len(start)), rng).encode()


def any_relay_id(start: str, chars_max: int, rng: random.Random) -> str:
    """Return a relay id of up to one character more than is allowed, which starts so."""
    more = rng.choice((0, 30, chars_max - len(start), chars_max + 1 - len(start)))
    # A control character takes six bytes in JSON.
    return start + rng.choice(("\x01", "x", "\u00fc")) * more
