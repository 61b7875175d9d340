"""Chooses the partition of the pending topic for a message, by its remaining delay.

A bucket is a span of delays and one or more partitions. A message enters the bucket with the
greatest lower bound that its delay reaches, so it may rest there for that bound; a member with an
older layout places it no worse than that layout. A bucket is spread over its partitions by the rule
that chooses the target's partition (``hourhand.actors.model.task.partition``): where the counts
divide, each owner writes to a part of the targets, because every partition costs a transaction
time. Pure arithmetic.
"""

import msgspec

from hourhand.actors.model.task.partition import partition_of_key

MOVES_EARLY_MS = 250
"""A message is moved this long before its bucket's lower bound has passed, so that its next owner
has it in memory in time."""


class BucketPlace(msgspec.Struct, frozen=True):
    """The next place of a waiting message."""

    partition: int
    lower_ms: int
    """The message may rest there for this time."""


class DelayBucket(msgspec.Struct, frozen=True, array_like=True):
    """Delays from a lower bound up to the next bucket's; the last one has no end."""

    lower_ms: int
    partitions: tuple[int, ...]
    split_ms: int = 0
    """Wall clock of its last split."""


class Layout(msgspec.Struct, frozen=True, rename="camel"):
    """All buckets, by lower bound; the first begins at 0."""

    version: int
    buckets: tuple[DelayBucket, ...]

    def place(self, delay_ms: int, spread_by: bytes) -> BucketPlace:
        """Return the place of a message with ``delay_ms`` left; equal bytes share one place."""
        reached = [each for each in self.buckets if each.lower_ms <= max(0, delay_ms)]
        bucket = reached[-1]
        count = len(bucket.partitions)
        # Most buckets have one partition, and every message is placed several times.
        chosen = partition_of_key(spread_by, count) if count > 1 else 0
        return BucketPlace(bucket.partitions[chosen], bucket.lower_ms)

    def within(self, partition_count: int) -> "Layout":
        """Return the layout for a member that knows only of ``partition_count`` partitions."""
        known = []
        for bucket in self.buckets:
            partitions = tuple(each for each in bucket.partitions if each < partition_count)
            if partitions:
                known.append(msgspec.structs.replace(bucket, partitions=partitions))
        return Layout(self.version, tuple(known))

    def index_of(self, partition: int) -> int | None:
        """Return the index of a partition's bucket; None if the partition is unused."""
        for index, bucket in enumerate(self.buckets):
            if partition in bucket.partitions:
                return index
        return None

    def unused(self, partition_count: int) -> int | None:
        """Return a partition that exists and belongs to no bucket."""
        return next((p for p in range(partition_count) if self.index_of(p) is None), None)

    def split(self, index: int, partition: int, now_ms: int) -> "Layout":
        """Return the layout with a bucket split, its new half in ``partition``.

        The upper half of its delays goes to the new partition. Waiting messages stay, and messages
        placed by an older layout are still in time. The first bucket, and one too narrow to be cut,
        is spread over one partition more instead.
        """
        bucket = self.buckets[index]
        middle_ms = self._middle_ms(index)
        if middle_ms is None:
            partitions = (*bucket.partitions, partition)
            halves: tuple[DelayBucket, ...] = (DelayBucket(bucket.lower_ms, partitions, now_ms),)
        else:
            halves = (
                DelayBucket(bucket.lower_ms, bucket.partitions, now_ms),
                DelayBucket(middle_ms, (partition,), now_ms),
            )
        buckets = (*self.buckets[:index], *halves, *self.buckets[index + 1 :])
        return Layout(self.version + 1, buckets)

    def _middle_ms(self, index: int) -> int | None:
        lower_ms = self.buckets[index].lower_ms
        if not lower_ms:
            return None
        last = index == len(self.buckets) - 1
        middle_ms = 2 * lower_ms if last else (lower_ms + self.buckets[index + 1].lower_ms) // 2
        return middle_ms if middle_ms - lower_ms >= MOVES_EARLY_MS else None


def first_layout(
    first_ms: int, factor: float, partition_count: int, first_partitions: int = 1
) -> Layout:
    """Return buckets up to ``first_ms``, then each ``factor`` times as far, one partition each.

    The first bucket, whose messages are passed on, has ``first_partitions`` of them.
    """
    first = DelayBucket(0, tuple(range(first_partitions)))
    others = enumerate(range(first_partitions, partition_count))
    further = (DelayBucket(round(first_ms * factor**number), (p,)) for number, p in others)
    return Layout(1, (first, *further))


def encode_layout(layout: Layout) -> bytes:
    """Return the published form of a layout."""
    return msgspec.json.encode(layout)


def decode_layout(value: bytes) -> Layout:
    """Return a published layout; raises ValueError for other bytes."""
    layout = msgspec.json.decode(value, type=Layout)
    if (
        not layout.buckets
        or layout.buckets[0].lower_ms
        or not all(each.partitions for each in layout.buckets)
    ):
        raise ValueError("a layout begins with a bucket from 0, and each has a partition")
    return layout


def ripe_ms(appended_ms: int, lower_ms: int, due_ms: int) -> int:
    """Return the time at which a message needs its owner: to be passed on, or to be moved.

    In the first bucket that is its due time. Elsewhere it is a little before the end of its rest,
    or before its due time if an older layout placed it too far.
    """
    if not lower_ms:
        return due_ms
    early_ms = min(MOVES_EARLY_MS, lower_ms // 2)
    return min(appended_ms + lower_ms, due_ms) - early_ms


def bucket_to_split(
    layout: Layout, occupancy: dict[int, int], records_max: int, now_ms: int
) -> int | None:
    """Return the index of the fullest bucket with a partition above ``records_max``; None if there
    is none.

    A bucket that was split is left alone for twice its lower bound, until the messages of that time
    have left it.
    """
    found: list[tuple[int, int]] = []
    for index, bucket in enumerate(layout.buckets):
        fullest = max(occupancy.get(each, 0) for each in bucket.partitions)
        rested_ms = bucket.split_ms + 2 * max(bucket.lower_ms, layout.buckets[1].lower_ms)
        if fullest > records_max and (not bucket.split_ms or now_ms >= rested_ms):
            found.append((fullest, index))
    return max(found)[1] if found else None
