"""The right to start an attempt: the partitions for which this node may run tasks now.

Never decides when the membership in the log's group ends: it combines the log's answer with the
partitions that the node owns.  Worker threads ask it just before user code.  The operator config is
read again several times a second, and the last one stays in force while the store does not answer.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.pauses import PartitionPause
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.oversight import OversightStore

logger = logging.getLogger("hourhand.node")

LOOK_MS = 400.0
"""Milliseconds between two reads of the operator config: each node applies it within a second."""


class Lease:
    """The partitions that a node owns, each under its epoch, while the node's membership lasts.

    A question is one dictionary operation, so threads may ask without a lock.
    """

    def __init__(self, clock: Clock, membership_ends_ms: Callable[[], float]) -> None:
        self._clock = clock
        self._membership_ends_ms = membership_ends_ms
        self._epochs: dict[int, int] = {}
        self._since_ms: dict[int, float] = {}
        self.gained_ms = clock.monotonic_ms()
        """Monotonic time at which the last new partition was granted."""
        self._changed: Callable[[], object] = lambda: None
        self._config = OperatorConfig()
        self._pauses: dict[int, PartitionPause] = {}
        """The pauses of partitions, as far as they were asked for since the config changed."""
        self._listeners: tuple[Callable[[OperatorConfig], None], ...] = ()

    def watch(self, changed: Callable[[], object]) -> None:
        """Call a function after each change of the owned partitions, in the changing thread."""
        self._changed = changed

    def grant(self, partition: int, epoch: int) -> None:
        """Allow attempts of a partition under this epoch."""
        if self._epochs.get(partition) == epoch:
            return
        self.gained_ms = self._since_ms[partition] = self._clock.monotonic_ms()
        self._epochs[partition] = epoch
        self._changed()

    def withdraw(self, partitions: Iterable[int]) -> None:
        """Allow no attempt of these partitions any more, at once."""
        count = self.count
        for partition in partitions:
            self._epochs.pop(partition, None)
            self._since_ms.pop(partition, None)
        if self.count != count:
            self._changed()

    @property
    def count(self) -> int:
        """The number of partitions whose attempts are allowed."""
        return len(self._epochs)

    @property
    def since_ms(self) -> Sequence[float]:
        """For each of them, the monotonic time since which the node owns it."""
        return tuple(self._since_ms.values())

    def owned_since_ms(self, partition: int) -> float | None:
        """Return the monotonic time since which the node owns a partition; None if it does not."""
        return self._since_ms.get(partition)

    @property
    def alone_until_ms(self) -> float:
        """The monotonic time before which no other node can own one of them."""
        return self._membership_ends_ms()

    def add_listener(self, listener: Callable[[OperatorConfig], None]) -> None:
        """Add a listener for each config, before the first config comes."""
        self._listeners = (*self._listeners, listener)

    def apply(self, config: OperatorConfig) -> None:
        """Allow no attempt of paused tasks from now on, and give listeners the config."""
        self._config, self._pauses = config, {}
        for listener in self._listeners:
            listener(config)

    def _is_paused(self, attempt: Attempt) -> bool:
        config, pauses = self._config, self._pauses
        pause = pauses.get(attempt.partition)
        if pause is None:
            pause = pauses[attempt.partition] = config.of_partition(attempt.partition)
        return pause.whole or attempt.task.key.ordering_id in pause.ordering_ids

    def allows(self, attempt: Attempt) -> bool:
        """True if user code may be called for this attempt now (P2, P15): its task is not paused,
        and has not expired.
        """
        expires_ms = attempt.expires_ms
        return (
            self._epochs.get(attempt.partition) == attempt.epoch
            and self._clock.monotonic_ms() < self._membership_ends_ms()
            and self._clock.now_ms() >= attempt.task.key.scheduled_ms
            and (expires_ms is None or self._clock.now_ms() < expires_ms)
            and not (self._config.pauses and self._is_paused(attempt))
        )


class ConfigWatch:
    """Reads the operator config from the store, one request at a time, on the polling thread."""

    def __init__(self, store: OversightStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._asked: Future[OperatorConfig] | None = None
        self._due_ms = -1e18
        self.config = OperatorConfig()
        self.is_known = False
        """True once the store has answered: until then anything may be paused."""

    def look(self, lease: Lease) -> bool:
        """Take an answer that is there, and ask again in time; return True if the config changed.

        The lease applies it first, so that attempts which wait for a worker do not start any more.
        """
        changed = self._take()
        now_ms = self._clock.monotonic_ms()
        if self._asked is None and now_ms >= self._due_ms:
            self._due_ms = now_ms + LOOK_MS
            self._asked = self._store.read_config(self.config)
            changed = self._take() or changed
        if changed:
            lease.apply(self.config)
        return changed

    def _take(self) -> bool:
        if self._asked is None or not self._asked.done():
            return False
        asked, self._asked = self._asked, None
        try:
            config = asked.result()
        except HourhandError as error:
            # The config known before stays in force.
            logger.debug("the operator config could not be read: %s", error)
            return False
        self.is_known = True
        known, self.config = self.config, config
        return config is not known
