"""A client's receipt for a task or command, and the future that it comes with.

A request counts as accepted when the log acknowledges it.
"""

from typing import Any

import msgspec

from hourhand.actors.model.operations.events import LogCalled, TaskEnqueued
from hourhand.actors.model.task.key import TaskKey, TaskPair
from hourhand.actors.model.values.errors import CallerError, HourhandError
from hourhand.actors.model.values.public import public
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import Position
from hourhand.actors.ports.telemetry import Telemetry
from hourhand.scheduler.runtime.light_future import LightFuture


@public("hourhand")
class Receipt(msgspec.Struct, frozen=True, gc=False):
    """Proof that the log holds a task or command: its place, and its key."""

    key: TaskKey
    partition: int
    offset: int


@public("hourhand")
class PairReceipt(msgspec.Struct, frozen=True, gc=False):
    """Proof that the log holds a command for the one open task of a pair of ids.

    Its outcome has the task's key.
    """

    pair: TaskPair
    partition: int
    offset: int


CommandReceipt = Receipt | PairReceipt


class ReceiptFuture(LightFuture[Receipt]):
    """The future of a request, resolved once the log has acknowledged or refused its record.

    It is itself the log's ``AppendListener``: a task needs no other future on its way.
    """

    _is_watched = True
    key: TaskKey
    """Key of the record; set before the record is appended."""

    def __init__(self, clock: Clock, telemetry: Telemetry) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._started_ms = clock.monotonic_ms()
        self.note_process()

    def refuse(self, error: HourhandError) -> None:
        """Resolve with a refusal, for which nothing was sent.

        Its trace would refer to this future: both would be left to the cyclic collector, and the
        refusal would be reported late.
        """
        super().set_exception(error.with_traceback(None))

    def set_result(self, result: Receipt | Position) -> None:
        """Resolve with the record's place."""
        if isinstance(result, Receipt):
            super().set_result(result)
            return
        partition, offset = result
        duration_ms = self._clock.monotonic_ms() - self._started_ms
        self._telemetry.emit(TaskEnqueued(partition, duration_ms))
        super().set_result(Receipt(self.key, partition, offset))

    def set_exception(self, exception: BaseException | None) -> None:
        """Resolve with the reason why the log may not hold the record."""
        if not isinstance(exception, CallerError):
            # A record that the log refuses for its size is not a failure of the log.
            duration_ms = self._clock.monotonic_ms() - self._started_ms
            named = exception.code if isinstance(exception, HourhandError) else None
            code = named or type(exception).__name__
            self._telemetry.emit(LogCalled("append", duration_ms, code))
        super().set_exception(exception)


def refused(error: HourhandError) -> LightFuture[Any]:
    """Return the future of a refused request, for which nothing was sent."""
    future = LightFuture[Any]().watch()
    future.set_exception(error.with_traceback(None))
    return future
