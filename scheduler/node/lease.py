"""The right to start an attempt: who this node may run tasks for, right now.

Decides nothing about when the log's membership ends; it only puts together what the log
says with what the node holds.  Asked by worker threads as the last thing before user code.  What
operators decided is looked up now and then, and stays known while the store is silent.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

from actors.model.attempts import Attempt
from actors.model.errors import HourhandError
from actors.model.operator_config import OperatorConfig
from actors.model.pauses import PartitionPause
from actors.ports.clock import Clock
from actors.ports.oversight import OversightStore

logger = logging.getLogger("hourhand.node")

LOOK_MS = 400.0
"""So often that, with the answer's way, an operator's act is known everywhere within a second."""


class Lease:
    """The partitions a node holds, each under its owner epoch, while its membership lasts.

    What is asked is one dictionary operation, so threads may ask without a lock.
    """

    def __init__(self, clock: Clock, membership_ends_ms: Callable[[], float]) -> None:
        self._clock = clock
        self._membership_ends_ms = membership_ends_ms
        self._epochs: dict[int, int] = {}
        self._since_ms: dict[int, float] = {}
        self.gained_ms = clock.monotonic_ms()
        """Monotonic time at which a partition was granted last that was not held before."""
        self._changed: Callable[[], object] = lambda: None
        self._config = OperatorConfig()
        self._pauses: dict[int, PartitionPause] = {}
        """Of partitions that were asked about since the operator config changed."""
        self._listeners: tuple[Callable[[OperatorConfig], None], ...] = ()

    def watch(self, changed: Callable[[], object]) -> None:
        """Call this whenever other partitions are held, in the thread that knows."""
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
        held = self.held
        for partition in partitions:
            self._epochs.pop(partition, None)
            self._since_ms.pop(partition, None)
        if self.held != held:
            self._changed()

    @property
    def held(self) -> int:
        """How many partitions attempts are allowed of."""
        return len(self._epochs)

    @property
    def since_ms(self) -> Sequence[float]:
        """The monotonic time since which it holds each of them."""
        return tuple(self._since_ms.values())

    @property
    def alone_until_ms(self) -> float:
        """The monotonic time before which no other node can hold one of them."""
        return self._membership_ends_ms()

    def add_listener(self, listener: Callable[[OperatorConfig], None]) -> None:
        """Tell one more of each config, before the first of them."""
        self._listeners = (*self._listeners, listener)

    def apply(self, config: OperatorConfig) -> None:
        """Allow no attempt of what is paused from now on, and tell others of the config."""
        self._config, self._pauses = config, {}
        for listener in self._listeners:
            listener(config)

    def _is_paused(self, attempt: Attempt) -> bool:
        config = self._config
        if not config.pauses:
            return False
        pauses = self._pauses
        pause = pauses.get(attempt.partition)
        if pause is None:
            pause = pauses[attempt.partition] = config.of_partition(attempt.partition)
        return pause.whole or attempt.task.key.ordering_id in pause.ordering_ids

    def allows(self, attempt: Attempt) -> bool:
        """Whether user code may be called for this attempt now (P2, P15), and is not paused."""
        return (
            self._epochs.get(attempt.partition) == attempt.epoch
            and self._clock.monotonic_ms() < self._membership_ends_ms()
            and self._clock.now_ms() >= attempt.task.key.scheduled_ms
            and not self._is_paused(attempt)
        )


class ConfigWatch:
    """Asks the store for the operator config, one question at a time, on the polling thread."""

    def __init__(self, store: OversightStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._asked: Future[OperatorConfig] | None = None
        self._due_ms = -1e18
        self.config = OperatorConfig()
        self.is_known = False
        """Whether the store has answered once: until then anything may be paused."""

    def look(self, lease: Lease) -> bool:
        """Take an answer that has come, and ask again in time; return whether the config changed.

        The lease is told first: what waits for a worker may not start any more either.
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
            # What was paused or changed stays so, and nothing else is.
            logger.debug("the operator config could not be read: %s", error)
            return False
        self.is_known = True
        known, self.config = self.config, config
        return config is not known
