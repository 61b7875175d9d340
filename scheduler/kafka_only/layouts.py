"""The newest layout known here, and the splitting of buckets that are too full.

A member that sees a new layout late places messages by the old one, which is still in time; so no
member waits for another. Splits are decided by the owner of the first partition and published in
its transactions: there is one at a time, and a fenced owner publishes nothing.
"""

import logging
import threading
from collections.abc import Callable

from hourhand.actors.model.values.errors import TopicMissing
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.configuration.door_settings import BucketSettings
from hourhand.scheduler.kafka_only.bucket_layout import (
    Layout,
    bucket_to_split,
    decode_layout,
    encode_layout,
)
from hourhand.scheduler.kafka_only.ports import BucketAdmin, Outgoing
from hourhand.scheduler.runtime.guarded_loop import run_guarded

logger = logging.getLogger("hourhand.buckets")

_LOOK_S = 2.0
LAYOUT_KEY = b"layout"


class LayoutBook:
    """Looks for a new layout at intervals, on a thread of its own; read from any thread.

    Opening it raises TopicMissing if no layout was published.
    """

    def __init__(
        self, admin: BucketAdmin, topic: str, knows: Callable[[int], bool] | None = None
    ) -> None:
        """``knows`` returns True if a partition can be reached; it is asked before a layout with it
        is used.
        """
        self._admin = admin
        self._knows = knows
        self._stopped = threading.Event()
        found = admin.layout()
        if found is None:
            raise TopicMissing(
                f"topic {topic!r} holds no layout of the buckets; create it with: hourhand migrate"
            )
        self._newest = decode_layout(found)
        self.current = self._newest.within(admin.partition_count())
        """The layout by which messages are placed."""
        self._thread = threading.Thread(target=self._run, name="hourhand-layout", daemon=True)
        self._thread.start()

    @property
    def newest(self) -> Layout:
        """The published layout, also if some of its partitions are not known here."""
        return self._newest

    def look(self) -> None:
        """Adopt a newer layout, if there is one; LogUnavailable."""
        found = self._admin.layout()
        if found is None:
            return
        newest = decode_layout(found)
        if newest.version < self._newest.version:
            return
        named = {each for bucket in newest.buckets for each in bucket.partitions}
        known = {each for bucket in self.current.buckets for each in bucket.partitions}
        if self._knows is not None and not all(map(self._knows, sorted(named - known))):
            return
        self._newest, self.current = newest, newest.within(self._admin.partition_count())

    def close(self) -> None:
        """Stop looking."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        run_guarded(self.look, "reading the layout", logger, self._stopped, _LOOK_S, logging.INFO)


class Splitter:
    """Checks at intervals for buckets that are too full, if this node owns the first partition."""

    def __init__(
        self,
        admin: BucketAdmin,
        book: LayoutBook,
        settings: BucketSettings,
        clock: Clock,
        announce: Callable[[Outgoing], bool],
    ) -> None:
        """``announce`` produces a record as the first partition's owner; False if this node is
        not.
        """
        self._admin = admin
        self._book = book
        self._settings = settings
        self._clock = clock
        self._announce = announce

    def look(self) -> Layout | None:
        """Split the fullest bucket, if one is too full; return the new layout."""
        settings = self._settings
        self._book.look()
        layout = self._book.newest
        now_ms = self._clock.now_ms()
        occupancy = dict(self._admin.occupancy())
        index = bucket_to_split(layout, occupancy, settings.split_records_max, now_ms)
        if index is None:
            return None
        count = self._admin.partition_count()
        partition = layout.unused(count)
        if partition is None:
            if count >= settings.partitions_max:
                logger.warning(
                    "bucket %d is too full and buckets.partitions_max is %d", index, count
                )
                return None
            partition = self._admin.add_partition() - 1
        split = layout.split(index, partition, now_ms)
        record = Outgoing(settings.layout_topic, 0, LAYOUT_KEY, encode_layout(split))
        if not self._announce(record):
            return None
        logger.info("bucket %d was split: partition %d is new; %s", index, partition, split)
        self._book.look()
        return split
