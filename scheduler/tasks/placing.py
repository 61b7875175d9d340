"""The number of partitions by which the rows of a store are placed.

The store's own number counts: a topic whose partitions were raised has another one, by which
earlier rows would not be found.
"""

from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import PartitionCountChanged
from hourhand.actors.ports.store import OwnershipStore
from hourhand.scheduler.runtime.steps import Steps


def placing_count(store: OwnershipStore, counted: int) -> Steps[int]:
    """Return the store's number; the topic's, ``counted``, if no node has begun with the store."""
    stored: int = yield store.agree_partition_count(0)
    return stored or counted


def require_home(ordering_id: str, partition: int, stored: int, counted: int) -> None:
    """Raise PartitionCountChanged if a record went to another partition than its ordering id's.

    A node has moved it into the right one since, at an unknown place.
    """
    if stored != counted and partition_of(ordering_id, stored) != partition:
        raise PartitionCountChanged(
            f"the topic has {counted} partitions, and the store was begun with {stored}: this"
            f" command went to partition {partition}, from where a node takes it to its own, and"
            " no receipt tells where its outcome is; look for the task itself, and move to a new"
            " topic with `hourhand pipeline repartition`"
        )
