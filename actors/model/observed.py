"""What wrappers around ports and the self-check tell, as typed past-tense values.

As ``actors.model.events``, whose union has them too.
"""

from collections.abc import Sequence

import msgspec

from actors.model.key import TaskKey
from actors.model.ownership import Straggler


class AssignmentReceived(msgspec.Struct, frozen=True, gc=False):
    """The group gave this node the partition; its tasks start some time later."""

    partition: int


class OrderingsMeasured(msgspec.Struct, frozen=True, gc=False):
    """How many ordering ids of a partition have tasks in hand, and how many of these wait.

    ``held`` wait for a retry, an operator or slow code.  ``overdue_ms`` is how long ago the
    oldest open task fell due, 0 where none has.
    """

    partition: int
    busy: int
    held: int
    overdue_ms: int


def orderings_measured(
    partition: int, busy: int, held: Sequence[Straggler], earliest_ms: int | None, now_ms: int
) -> OrderingsMeasured:
    """Return the event of a measurement; ``held`` is sorted, ``earliest_ms`` of all others."""
    first_ms = [now_ms if earliest_ms is None else earliest_ms]
    first_ms += [straggler.first_ms for straggler in held[:1]]
    return OrderingsMeasured(partition, busy, len(held), max(0, now_ms - min(first_ms)))


class StoreCalled(msgspec.Struct, frozen=True, gc=False):
    """A request to the store was answered; ``rows`` were to be written, 0 where it was a read.

    ``error`` is the code of the failure, None where there was none.
    """

    call: str
    rows: int
    duration_ms: float
    error: str | None = None


class LogCalled(msgspec.Struct, frozen=True, gc=False):
    """A request to the log was answered; ``error`` as for the store."""

    call: str
    duration_ms: float
    error: str | None = None


class SelfChecked(msgspec.Struct, frozen=True, gc=False):
    """The self-check compared that many tasks with what the store says of them."""

    tasks: int


class PromiseDoubted(msgspec.Struct, frozen=True, gc=False):
    """What the self-check saw of a task looks like a broken promise."""

    partition: int
    key: TaskKey
    promise: str
    reason: str


class OwnerBegan(msgspec.Struct, frozen=True, gc=False):
    """With Kafka alone: nothing of a partition's owner before can take effect any more."""

    partition: int
    waited_ms: float
    """Since the group gave this node the partition."""


class TransactionCommitted(msgspec.Struct, frozen=True, gc=False):
    """With Kafka alone: one step of a partition's owner took effect."""

    records: int
    moved: int
    """Messages that went to a nearer bucket."""
    put_aside: int
    """Messages of the pending topic that went to the dead-letter topic."""


class BucketSplit(msgspec.Struct, frozen=True, gc=False):
    """With Kafka alone: this node split a bucket that grew too full."""

    version: int
    """Of the layout that says so."""


class PartitionHeld(msgspec.Struct, frozen=True, gc=False):
    """Something of this partition fails and is tried again: nothing more of it is read until then.

    Told at once, then at growing intervals; ``held_ms`` is how long it has lasted.
    """

    partition: int
    reason: str
    held_ms: int


class PartitionReleased(msgspec.Struct, frozen=True, gc=False):
    """A partition that was held is read on."""

    partition: int
    held_ms: int
