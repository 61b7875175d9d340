"""Sizes about limits and headers of every kind, for whoever writes records.

It draws them from random numbers, and never sends anything.
"""

import random
from collections.abc import Sequence

from actors.model.codec import Headers

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
