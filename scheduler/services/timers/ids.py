"""Ids of new timers: nobody can guess one, and those made together are of one partition.

A record, a row or a batch of one partition costs the servers hardly more with fifty timers than
with one, so new timers fill a partition for a while before the next one's turn comes, as records
without a key do in Kafka's sticky partitioner (KIP-480).  Over time each partition has its share.
"""

import secrets
from collections import deque
from collections.abc import Callable

from scheduler.services.timers.executor import timer_name

TOGETHER = 64
"""So many new timers in a row are of one partition."""
_RANDOM_BYTES = 8


class TimerIds:
    """Makes ids; used from one thread."""

    def __init__(self, partition_of: Callable[[str], int], partition_count: int) -> None:
        """``partition_of`` says which of the partitions an ordering id belongs to."""
        self._partition_of = partition_of
        self._spare: list[deque[str]] = [deque() for _ in range(partition_count)]
        """By partition: ids that were made in the turn of another one."""
        self._partition = secrets.randbelow(partition_count)
        self._left = TOGETHER

    def new(self) -> str:
        """Return an id that no other timer has."""
        if not self._left:
            self._partition = (self._partition + 1) % len(self._spare)
            self._left = TOGETHER
        self._left -= 1
        spare = self._spare[self._partition]
        while not spare:
            timer_id = secrets.token_hex(_RANDOM_BYTES)
            self._spare[self._partition_of(timer_name(timer_id).ordering_id)].append(timer_id)
        return spare.popleft()
