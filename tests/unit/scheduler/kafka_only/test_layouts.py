"""The newest layout, and who splits a bucket."""

from collections.abc import Iterator

import pytest
from pydantic import ValidationError

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.values.errors import TopicMissing
from hourhand.scheduler.configuration.door_settings import BucketSettings
from hourhand.scheduler.kafka_only.bucket_layout import encode_layout, first_layout
from hourhand.scheduler.kafka_only.layouts import LayoutBook, Splitter
from tests.unit.scheduler.kafka_only.storage import MemoryAdmin

FIRST = first_layout(1_000, 2.0, 4)


@pytest.fixture
def admin() -> MemoryAdmin:
    """Four partitions."""
    return MemoryAdmin(FIRST, 4)


@pytest.fixture
def book(admin: MemoryAdmin) -> Iterator[LayoutBook]:
    """Closed at the end."""
    book = LayoutBook(admin, "layout")
    yield book
    book.close()


def _splitter(admin: MemoryAdmin, book: LayoutBook, partitions_max: int = 64) -> Splitter:
    chosen = BucketSettings(split_records_max=100, partitions_max=partitions_max)
    return Splitter(admin, book, chosen, VirtualClock(), admin.announce)


def test_a_topic_without_a_layout_is_refused() -> None:
    """It was not made by hourhand migrate, which is what to run."""
    with pytest.raises(TopicMissing, match="hourhand migrate"):
        LayoutBook(MemoryAdmin(None, 4), "layout")


def test_a_layout_is_adopted_once_its_partitions_are_known(admin: MemoryAdmin) -> None:
    """Until then messages are placed by the old one, which is in time as well."""
    known = 4
    book = LayoutBook(admin, "layout", lambda partition: partition < known)
    admin.partitions = 5
    admin.published = encode_layout(FIRST.split(2, 4, 7))

    book.look()
    assert book.current == FIRST
    known = 5
    book.look()
    book.close()

    assert book.current.index_of(4) == 3


def test_a_full_bucket_is_split_into_a_new_partition(admin: MemoryAdmin, book: LayoutBook) -> None:
    """Published and adopted; one that is not full is left alone."""
    splitter = _splitter(admin, book)
    admin.waiting = {2: 100}
    assert splitter.look() is None

    admin.waiting = {2: 101}
    split = splitter.look()

    assert split is not None
    assert admin.partitions == 5
    assert [each.lower_ms for each in book.current.buckets] == [0, 1_000, 2_000, 3_000, 4_000]
    assert splitter.look() is None, "what is in it has not gone yet"


def test_a_partition_left_by_a_crash_is_used_first(admin: MemoryAdmin, book: LayoutBook) -> None:
    """Whoever died after adding it and before publishing leaves nothing to clean up."""
    admin.partitions = 5
    admin.waiting = {0: 1_000}

    split = _splitter(admin, book).look()

    assert split is not None
    assert admin.partitions == 5
    assert split.buckets[0].partitions == (0, 4)


def test_no_more_partitions_than_allowed_are_added(admin: MemoryAdmin, book: LayoutBook) -> None:
    """However full they are."""
    admin.waiting = {2: 101}

    assert _splitter(admin, book, partitions_max=4).look() is None
    assert admin.partitions == 4


def test_a_first_bucket_that_takes_all_partitions_is_refused() -> None:
    """Whoever lowers one number is told which other it has to do with."""
    with pytest.raises(ValidationError, match="first_partitions is 4 and partitions 4"):
        BucketSettings(partitions=4)
    assert BucketSettings(partitions=5).first_partitions == 4
