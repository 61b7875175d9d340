"""The right to start an attempt: who this node may run tasks for, right now.

Decides nothing about when the log's membership ends; it only puts together what the log
says with what the node holds.  Asked by worker threads as the last thing before user code.
"""

from collections.abc import Callable, Iterable

from actors.model.attempts import Attempt
from actors.model.pauses import PartitionPause, PauseSheet
from actors.ports.clock import Clock


class Lease:
    """The partitions a node holds, each under its owner epoch, while its membership lasts.

    Every method is one dictionary operation, so threads may call them without a lock.
    """

    def __init__(self, clock: Clock, membership_ends_ms: Callable[[], float]) -> None:
        self._clock = clock
        self._membership_ends_ms = membership_ends_ms
        self._epochs: dict[int, int] = {}
        self._sheet = PauseSheet()
        self._pauses: dict[int, PartitionPause] = {}
        """Of partitions that were asked about since the sheet changed."""

    def grant(self, partition: int, epoch: int) -> None:
        """Allow attempts of a partition under this epoch."""
        self._epochs[partition] = epoch

    def withdraw(self, partitions: Iterable[int]) -> None:
        """Allow no attempt of these partitions any more, at once."""
        for partition in partitions:
            self._epochs.pop(partition, None)

    def pause(self, sheet: PauseSheet) -> None:
        """Allow no attempt of what is paused from now on."""
        self._sheet, self._pauses = sheet, {}

    def _is_paused(self, attempt: Attempt) -> bool:
        sheet = self._sheet
        if not sheet.pauses:
            return False
        pauses = self._pauses
        pause = pauses.get(attempt.partition)
        if pause is None:
            pause = pauses[attempt.partition] = sheet.of_partition(attempt.partition)
        return pause.whole or attempt.task.key.ordering_id in pause.ordering_ids

    def allows(self, attempt: Attempt) -> bool:
        """Whether user code may be called for this attempt now (P2, P15), and is not paused."""
        return (
            self._epochs.get(attempt.partition) == attempt.epoch
            and self._clock.monotonic_ms() < self._membership_ends_ms()
            and self._clock.now_ms() >= attempt.task.key.scheduled_ms
            and not self._is_paused(attempt)
        )
