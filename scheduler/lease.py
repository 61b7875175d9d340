"""The right to start an attempt: who this node may run tasks for, right now.

Decides nothing about when the log's membership ends; it only puts together what the log
says with what the node holds.  Asked by worker threads as the last thing before user code.
"""

from collections.abc import Callable, Iterable

from actors.model.attempts import Attempt
from actors.ports.clock import Clock


class Lease:
    """The partitions a node holds, each under its owner epoch, while its membership lasts.

    Every method is one dictionary operation, so threads may call them without a lock.
    """

    def __init__(self, clock: Clock, membership_ends_ms: Callable[[], float]) -> None:
        self._clock = clock
        self._membership_ends_ms = membership_ends_ms
        self._epochs: dict[int, int] = {}

    def grant(self, partition: int, epoch: int) -> None:
        """Allow attempts of a partition under this epoch."""
        self._epochs[partition] = epoch

    def withdraw(self, partitions: Iterable[int]) -> None:
        """Allow no attempt of these partitions any more, at once."""
        for partition in partitions:
            self._epochs.pop(partition, None)

    def allows(self, attempt: Attempt) -> bool:
        """Whether user code may be called for this attempt now (P2, P15)."""
        return (
            self._epochs.get(attempt.partition) == attempt.epoch
            and self._clock.monotonic_ms() < self._membership_ends_ms()
            and self._clock.now_ms() >= attempt.task.key.scheduled_ms
        )
