"""What a client has to show for a task or command: a receipt, and the future it comes with.

Decides when a request counts as accepted, which is when the log says so; never what is sent.
"""

from concurrent.futures import Future

import msgspec

from actors.model.errors import CallerError, HourhandError
from actors.model.events import LogCalled, TaskEnqueued
from actors.model.key import TaskKey
from actors.ports.clock import Clock
from actors.ports.log import Position
from actors.ports.telemetry import Telemetry
from scheduler.futures.light_future import LightFuture


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """Proof that the log holds a task or command: where it stands, and whose it is."""

    key: TaskKey
    partition: int
    offset: int


class ReceiptFuture(LightFuture[Receipt]):
    """What became of a request, told once the log has acknowledged its record or refused it."""

    _is_watched = True

    def __init__(self, clock: Clock, telemetry: Telemetry) -> None:
        self._clock = clock
        self._telemetry = telemetry
        self._started_ms = clock.monotonic_ms()
        self.note_process()

    def follow(self, appended: "Future[Position]", key: TaskKey) -> None:
        """Resolve when the record does."""
        self._key = key
        appended.add_done_callback(self._acknowledged)

    def refuse(self, error: HourhandError) -> None:
        """Resolve with what nothing was sent for.

        Its trace ends at the client and would hold this future: both would be left to the
        cyclic collector, and nobody would hear of the refusal for long.
        """
        self.set_exception(error.with_traceback(None))

    def _acknowledged(self, appended: "Future[Position]") -> None:
        error = appended.exception()
        duration_ms = self._clock.monotonic_ms() - self._started_ms
        if error is not None:
            if not isinstance(error, CallerError):
                # What the log refuses for its size is nothing that it failed.
                code = error.code if isinstance(error, HourhandError) else type(error).__name__
                self._telemetry.emit(LogCalled("append", duration_ms, code))
            self.set_exception(error)
            return
        partition, offset = appended.result()
        self._telemetry.emit(TaskEnqueued(partition, duration_ms))
        self.set_result(Receipt(self._key, partition, offset))


def refused(error: HourhandError) -> LightFuture[Receipt]:
    """Return the future of a request that nothing was sent for."""
    future = LightFuture[Receipt]().watch()
    future.set_exception(error.with_traceback(None))
    return future
