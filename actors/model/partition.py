"""Which partition an ordering id belongs to.

The rule is that of Kafka's default Java partitioner for a record with a key
(``org.apache.kafka.clients.producer.internals.BuiltInPartitioner``): murmur2 of the
key's bytes, the sign bit cleared, modulo the number of partitions.  librdkafka's own
default (CRC32) differs, so the rule is applied explicitly.
"""

from functools import lru_cache

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 of ``data``, as an unsigned number."""
    length = len(data)
    h = _SEED ^ length
    tail = length & ~3
    for i in range(0, tail, 4):
        k = int.from_bytes(data[i : i + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    rest = length - tail
    if rest:
        h ^= int.from_bytes(data[tail:], "little")
        h = h * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


@lru_cache(maxsize=65_536)
def _positive_hash(ordering_id: str) -> int:
    return murmur2(ordering_id.encode()) & 0x7FFFFFFF


def partition_of(ordering_id: str, partition_count: int) -> int:
    """Return the partition, 0 to ``partition_count - 1``, that owns ``ordering_id``."""
    return _positive_hash(ordering_id) % partition_count
