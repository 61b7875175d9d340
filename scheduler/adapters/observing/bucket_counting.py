"""Events of a node that keeps messages in Kafka alone, as numbers of the catalogue."""

from collections.abc import Callable
from typing import Any

from actors.model.observed import BucketSplit, OwnerBegan, TransactionCommitted
from scheduler.adapters.observing.cells import Meters


def bucket_handlers(meters: Meters) -> dict[type, Callable[[Any], None]]:
    """Return what counts each kind of them."""

    def begun(event: OwnerBegan) -> None:
        meters["partition_changes_total"]["assigned"].value += 1
        meters.only("rebalance_gap_seconds").observe(event.waited_ms)

    def committed(event: TransactionCommitted) -> None:
        meters.only("transaction_records").observe(event.records)
        meters.only("messages_moved_total").value += event.moved
        meters["dead_letters_total"]["relay"].value += event.put_aside

    def split(event: BucketSplit) -> None:
        del event
        meters.only("bucket_splits_total").value += 1

    return {OwnerBegan: begun, TransactionCommitted: committed, BucketSplit: split}
