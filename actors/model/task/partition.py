"""The partition of an ordering id.

The rule is that of Kafka's default Java partitioner for a record with a key
(``org.apache.kafka.clients.producer.internals.BuiltInPartitioner``): murmur2 of the key's bytes,
the sign bit cleared, modulo the number of partitions. librdkafka's own default (CRC32) differs, so
the rule is applied explicitly.
"""

from collections.abc import Iterable
from functools import lru_cache
from struct import Struct

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_SHORT_WORDS = tuple(Struct(f"<{count}I") for count in range(17))
"""Readers for the whole words of short data, by their number."""


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 of ``data``, as an unsigned number."""
    length = len(data)
    count, rest = divmod(length, 4)
    words = _SHORT_WORDS[count] if count < len(_SHORT_WORDS) else Struct(f"<{count}I")
    h = _SEED ^ length
    for word in words.unpack_from(data):
        k = word * _M & _MASK
        h = (h * _M ^ (k ^ k >> 24) * _M) & _MASK
    if rest:
        h = (h ^ int.from_bytes(data[-rest:], "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def _positive_hash_of(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


@lru_cache(maxsize=65_536)
def _positive_hash(ordering_id: str) -> int:
    return _positive_hash_of(ordering_id.encode())


def partition_of_key(key: bytes, partition_count: int) -> int:
    """Return the partition, 0 to ``partition_count - 1``, of a record with this key."""
    assert partition_count > 0, "a topic has partitions"
    return _positive_hash_of(key) % partition_count


def partitions_text(partitions: Iterable[int]) -> str:
    """Return partitions for a line of the log: ``3 partitions: 0-1, 7``."""
    numbers = sorted(set(partitions))
    spans: list[list[int]] = []
    for number in numbers:
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    listed = ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in spans)
    return f"{len(numbers)} partition{'' if len(numbers) == 1 else 's'}: {listed or 'none'}"


def partition_of(ordering_id: str, partition_count: int) -> int:
    """Return the partition, 0 to ``partition_count - 1``, that owns ``ordering_id``."""
    return _positive_hash(ordering_id) % partition_count
