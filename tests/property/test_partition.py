"""Partitions: in range, always the same, and spread."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hourhand.actors.model.task.partition import murmur2, partition_of
from tests.property.strategies import storable_text


def _java_murmur2(data: bytes) -> int:
    """Kafka's Utils.murmur2, transcribed with Java's signed ints, as a second opinion."""

    def signed(number: int) -> int:
        return (number & 0xFFFFFFFF) - ((number & 0x80000000) << 1)

    def unsigned_shift(number: int, bits: int) -> int:
        return (number & 0xFFFFFFFF) >> bits

    m = 0x5BD1E995
    h = signed(0x9747B28C ^ len(data))
    for i in range(len(data) // 4):
        k = sum(data[4 * i + j] << (8 * j) for j in range(4))
        k = signed(k * m)
        k = signed(k ^ unsigned_shift(k, 24))
        k = signed(k * m)
        h = signed(signed(h * m) ^ k)
    rest = data[len(data) & ~3 :]
    for j in reversed(range(len(rest))):
        h = signed(h ^ (rest[j] << (8 * j)))
    if rest:
        h = signed(h * m)
    h = signed(h ^ unsigned_shift(h, 13))
    h = signed(h * m)
    return signed(h ^ unsigned_shift(h, 15))


@given(st.binary(max_size=64))
def test_the_hash_is_kafkas(data: bytes) -> None:
    """Both transcriptions agree on every input, tails of one to three bytes included."""
    assert murmur2(data) == _java_murmur2(data) & 0xFFFFFFFF


@given(storable_text, st.integers(1, 1000))
def test_a_partition_is_in_range_and_stable(ordering_id: str, count: int) -> None:
    """An ordering id has one partition, whatever was asked before."""
    partition = partition_of(ordering_id, count)

    assert 0 <= partition < count
    assert partition == (_java_murmur2(ordering_id.encode()) & 0x7FFFFFFF) % count


def test_ordering_ids_are_spread_over_the_partitions() -> None:
    """No partition of 16 gets twice its share of 16,000 ids."""
    shares = Counter(partition_of(f"customer-{number}", 16) for number in range(16_000))

    assert len(shares) == 16
    assert max(shares.values()) < 2 * 1000
