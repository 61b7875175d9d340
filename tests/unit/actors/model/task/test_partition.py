"""The partitioner against what Kafka's own tests and clients say."""

from collections.abc import Iterable

import pytest

from hourhand.actors.model.task.partition import murmur2, partition_of, partitions_text


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        # org.apache.kafka.common.utils.UtilsTest.testMurmur2
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_gives_the_numbers_of_kafkas_own_test(data: bytes, expected: int) -> None:
    """Java's are signed."""
    assert murmur2(data) == expected & 0xFFFFFFFF


def test_the_sign_bit_is_cleared_not_negated() -> None:
    """Java's Math.abs would give another partition for negative hashes."""
    assert partition_of("foobar", 16) == (-790332482 & 0x7FFFFFFF) % 16 == 14


def test_an_ordering_id_is_hashed_as_utf8() -> None:
    """As the client writes the record's key."""
    assert partition_of("Zürich", 1_000) == (murmur2("Zürich".encode()) & 0x7FFFFFFF) % 1_000


def test_one_partition_takes_everything() -> None:
    """The smallest topic there is."""
    assert {partition_of(str(number), 1) for number in range(100)} == {0}


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        (range(16), "16 partitions: 0-15"),
        ([7, 0, 1], "3 partitions: 0-1, 7"),
        ([5], "1 partition: 5"),
        ([], "0 partitions: none"),
    ],
)
def test_partitions_are_named_in_one_short_text(partitions: Iterable[int], text: str) -> None:
    """However many there are, in order."""
    assert partitions_text(partitions) == text
