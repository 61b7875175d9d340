"""A mover that runs: its table, its log, its metrics and its thread, put together.

Decides in which order they are opened and closed: the round under way ends first, so what it sent
is deleted, and the log is closed last.
"""

import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from actors.model.errors import OutboxUnavailable
from scheduler import wiring
from scheduler.configuration.settings import Settings, require_settings
from scheduler.observe.health import Dispatching, NodeProbes
from scheduler.observe.observation import Observation
from scheduler.outbox.mover import Mover
from scheduler.outbox.opening import open_outbox
from scheduler.process.guarded_loop import run_guarded
from scheduler.process.interrupts import signals_taken_by

logger = logging.getLogger("hourhand.outbox")


class OutboxMover:
    """Moves committed rows to the log, on a thread, from entry to exit as a context manager.

    Needs no node in its process.  Any number may run for one outbox.  Raises SettingsInvalid where
    ``outbox.url`` or the log is not usable, LogUnavailable and TopicMissing.  What fails later is
    logged and tried again.
    """

    def __init__(self, settings: Settings) -> None:
        require_settings(settings)
        clock = wiring.open_clock()
        self._closing = ExitStack()
        self._stopped = threading.Event()
        with ExitStack() as undo:
            self._observation = wiring.observe(settings, clock, wiring.build_telemetry(settings))
            undo.callback(self._observation.close)
            writer = wiring.open_writer(settings)
            undo.callback(writer.close)
            writer.partition_count()
            self._table = open_outbox(settings, clock)
            undo.callback(self._table.close)
            self.mover = Mover(
                self._table,
                writer,
                clock,
                rows_max=settings.outbox.batch_rows_max,
                poll_ms=settings.outbox.poll_ms,
            )
            self._closing = undo.pop_all()
        self._thread = threading.Thread(
            target=run_guarded,
            args=(self.mover.run_round, "moving rows of the outbox", logger, self._stopped),
            name="hourhand-outbox",
            daemon=True,
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.stop()

    @property
    def observation(self) -> Observation:
        """What shows the mover's metrics, where the settings ask for them."""
        return self._observation

    def start(self) -> None:
        """Move rows from now on; SettingsInvalid where metrics cannot be served."""
        try:
            self._observation.begin(self._probes())
        except BaseException:
            self._closing.close()
            raise
        self._thread.start()

    def wait(self) -> None:
        """Wait until the mover is asked to stop, then stop."""
        self._stopped.wait()
        self.stop()

    def stop(self) -> None:
        """Finish the round under way and let go of everything; repeatable."""
        self._ask_to_stop()
        if self._thread.is_alive():
            self._thread.join()
        self._closing.close()

    @contextmanager
    def stopped_by_signals(self) -> Iterator[None]:
        """Have SIGINT and SIGTERM end ``wait``, within the block."""
        with signals_taken_by(lambda *_: self._ask_to_stop()):
            yield

    def _ask_to_stop(self) -> None:
        self._stopped.set()
        self._table.wake()

    def _probes(self) -> NodeProbes:
        mover = self.mover
        return NodeProbes(
            dispatching=lambda: Dispatching(0, 0),
            # A mover owns none; the checks want to hear of one.
            partitions=lambda: (0,),
            works=lambda: mover.failure is None,
            lease_ends_ms=lambda: float("inf"),
            ask_store=self._ask_store,
            polled_ms=lambda: mover.round_ms,
            poll_failure=lambda: mover.failure,
            measures={
                "outbox_rows_waiting": lambda: {"": mover.lag.rows},
                "outbox_oldest_age_seconds": lambda: {"": mover.oldest_age_ms() / 1000},
                "outbox_rows_moved_total": lambda: {"": mover.moved_rows},
                "outbox_rows_refused_total": lambda: {"": mover.refused_rows},
            },
        )

    def _ask_store(self) -> "Future[Any]":
        answer: Future[Any] = Future()
        failure = self.mover.failure
        if failure is None:
            answer.set_result(None)
        else:
            answer.set_exception(OutboxUnavailable(failure))
        return answer
