"""What a client has to show for a task or command: a receipt, and the future it comes with.

Decides when a request counts as accepted, which is when the log says so; never what is sent.
"""

from typing import Any

import msgspec

from actors.model.errors import CallerError, HourhandError
from actors.model.events import LogCalled, TaskEnqueued
from actors.model.key import TaskKey, TaskPair
from actors.ports.clock import Clock
from actors.ports.log import Position
from actors.ports.telemetry import Telemetry
from scheduler.futures.light_future import LightFuture


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """Proof that the log holds a task or command: where it stands, and whose it is."""

    key: TaskKey
    partition: int
    offset: int


class PairReceipt(msgspec.Struct, frozen=True, gc=False):
    """Proof that the log holds a command for the one open task of a pair of ids.

    Its outcome has the task's key.
    """

    pair: TaskPair
    partition: int
    offset: int


CommandReceipt = Receipt | PairReceipt


class ReceiptFuture(LightFuture[Receipt]):
    """What became of a request, told once the log has acknowledged its record or refused it.

    It is what the log tells (an ``AppendListener``): a task has no other future on its way.
    """

    _is_watched = True
    key: TaskKey
    """Whose record it is; set before the record is appended."""

    def __init__(self, clock: Clock, telemetry: Telemetry) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._started_ms = clock.monotonic_ms()
        self.note_process()

    def refuse(self, error: HourhandError) -> None:
        """Resolve with what nothing was sent for.

        Its trace ends at the client and would hold this future: both would be left to the
        cyclic collector, and nobody would hear of the refusal for long.
        """
        super().set_exception(error.with_traceback(None))

    def set_result(self, result: Receipt | Position) -> None:
        """Take where the record stands."""
        if isinstance(result, Receipt):
            super().set_result(result)
            return
        partition, offset = result
        duration_ms = self._clock.monotonic_ms() - self._started_ms
        self._telemetry.emit(TaskEnqueued(partition, duration_ms))
        super().set_result(Receipt(self.key, partition, offset))

    def set_exception(self, exception: BaseException | None) -> None:
        """Take why the log may not hold the record."""
        if not isinstance(exception, CallerError):
            # What the log refuses for its size is nothing that it failed.
            duration_ms = self._clock.monotonic_ms() - self._started_ms
            named = exception.code if isinstance(exception, HourhandError) else None
            code = named or type(exception).__name__
            self._telemetry.emit(LogCalled("append", duration_ms, code))
        super().set_exception(exception)


def refused(error: HourhandError) -> LightFuture[Any]:
    """Return the future of a request that nothing was sent for."""
    future = LightFuture[Any]().watch()
    future.set_exception(error.with_traceback(None))
    return future
