"""Sealed data in simulated runs: who has which key, what user code must see of it, and middleware.

Data says whose it is and what it was, so that middleware and user code can tell whether all of it
arrived, at its own task.  It decides nothing about what becomes of a task.
"""

import random
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.codec import LogRecord, decode_record
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.sealed import SealedMembers
from hourhand.actors.model.task.task import StoredTask, Task
from hourhand.actors.model.values.errors import PoisonRecord
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.executors.middleware import (
    AttemptContext,
    Middleware,
    MiddlewareStack,
    opening,
)
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.payloads.deflate import Deflate
from hourhand.scheduler.services.system.system_tasks import RoutedFactory
from tests.simulation.task_maker import SICK
from tests.simulation.user_code import SimulatedExecutor
from tests.simulation.whose import complaint_of

_PLAIN = ("n", "runs", "blocking", "tenant")
"""The runner of a simulation goes by these; all else is sealed."""
_OLD, _NEW = bytes(range(16)), bytes(range(16, 32))
Arrived = Callable[[TaskKey, str], None]
"""Is told of data that arrived at a task, and what is wrong with it, if anything."""


class MiddlewareFailed(Exception):
    """Middleware raised as planned."""


class ClientCodecs(PayloadCodecs):
    """Seals with the old key or the new one, as the clients of an installation do while keys are
    changed.
    """

    def __init__(self) -> None:
        super().__init__(Deflate(), AesGcm({"new": _NEW, "old": _OLD}), plain=_PLAIN)
        self._before = PayloadCodecs(Deflate(), AesGcm({"old": _OLD}), plain=_PLAIN)

    def sealed(self, task: Task) -> Task:
        """Return a task sealed, with a key that its name decides."""
        is_old = zlib.crc32(task.uniqueness_key.encode()) % 2
        return self._before.sealed(task) if is_old else super().sealed(task)


def node_codecs(*, knows_new: bool) -> PayloadCodecs:
    """Return what a node opens data with: one that was deployed before lacks the new key."""
    keys = {"old": _OLD, "new": _NEW} if knows_new else {"old": _OLD}
    return PayloadCodecs(Deflate(), AesGcm(keys), plain=_PLAIN)


def swapped(record: LogRecord, key: TaskKey) -> Task | None:
    """Return a task of another key with the sealed data of a record; None where it has none."""
    try:
        entry = decode_record(record)
    except PoisonRecord:
        return None
    if not isinstance(entry, StoredTask):
        return None
    task = entry.to_task()
    if not isinstance(task.data, SealedMembers):
        return None
    return task.model_copy(
        update={
            "ordering_id": key.ordering_id,
            "uniqueness_key": key.uniqueness_key,
            "scheduled_time": from_millis(key.scheduled_ms),
        }
    )


class _Around(Middleware):
    """Looks at what user code is given, and raises by lot, before it or after it."""

    def __init__(self, share: float, arrived: Arrived, rng: random.Random) -> None:
        self._share = share
        self._arrived = arrived
        self._rng = rng

    @contextmanager
    def around_attempt(self, attempt: AttemptContext) -> Iterator[None]:
        self._arrived(attempt.key, complaint_of(attempt.task))
        self._raise_by_lot(attempt, "before")
        yield
        self._raise_by_lot(attempt, "after")

    def _raise_by_lot(self, attempt: AttemptContext, when: str) -> None:
        is_sick = attempt.key.ordering_id.startswith(SICK)
        if is_sick and self._rng.random() < self._share:
            raise MiddlewareFailed(when)


def around(
    make: RoutedFactory,
    payloads: PayloadCodecs,
    share: float,
    arrived: Arrived,
    rng: random.Random,
) -> RoutedFactory:
    """Return what makes executors that are given opened data, within middleware."""
    stack = MiddlewareStack([_Around(share, arrived, rng)])

    def made(ordering_id: str, kind: str | None) -> TaskExecutor:
        executor = make(ordering_id, kind)
        if ordering_id.startswith(RESERVED):
            return executor
        if isinstance(executor, SimulatedExecutor):
            executor.look_at = lambda task: arrived(task.key, complaint_of(task))
        return opening(payloads, stack.around(executor))

    return made
