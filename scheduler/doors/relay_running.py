"""A relay node: a node of the group that also reads the relay's in-topic.

Puts the two together on two threads.  Either may stop first: what was read is durable in the
task log before its offset is committed, and any node of the group goes on with it.
"""

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from types import TracebackType
from typing import Self

from actors.model.codec import LogRecord
from actors.model.errors import HourhandError
from actors.ports.log import LogWriter, Position
from actors.ports.telemetry import Telemetry
from actors.task_executor import TaskExecutor
from scheduler import wiring
from scheduler.appending import TaskAppender
from scheduler.definition_book import DefinitionBook
from scheduler.own_tasks import NoUserTasks
from scheduler.relay.intake import IntakePorts, RelayIntake
from scheduler.scheduler import Scheduler
from scheduler.settings import Settings

logger = logging.getLogger("hourhand.relay")

_POLL_MS = 50
_FAILED_PAUSE_S = 1.0
_DRAIN_S = 20.0


class RelayRunning:
    """A running relay node; as a context manager it starts on entry and stops on exit.

    Raises what ``Scheduler`` raises, and TopicMissing where the in-topic is not there.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        executor: Callable[[], TaskExecutor] = NoUserTasks,
        telemetry: Telemetry | None = None,
    ) -> None:
        telemetry = telemetry or wiring.build_telemetry(settings)
        self._closing: list[Callable[[], None]] = []
        self._own_settings = wiring.relay_log_settings(settings)
        self._letters: LogWriter | None = None
        try:
            self.scheduler = Scheduler(settings, executor=executor, telemetry=telemetry)
            self._closing.append(self.scheduler.close)
            self.intake = self._open_intake(settings, telemetry)
        except BaseException:
            self._close()
            raise
        self._stop_requested = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hourhand-relay", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Run the node, then read the in-topic."""
        self.scheduler.start()
        self._thread.start()

    def wait(self) -> None:
        """Wait until the node was stopped, by a signal or otherwise; then stop the rest."""
        self.scheduler.wait()
        self.stop()

    def stop(self) -> None:
        """Stop reading, then the node; nothing accepted is lost.  Repeatable."""
        self._stop_requested.set()
        if self._thread.is_alive():
            self._thread.join()
        self._close()

    def _open_intake(self, settings: Settings, telemetry: Telemetry) -> RelayIntake:
        own = self._own_settings
        clock = wiring.open_clock()
        writer = wiring.open_writer(settings)
        self._closing.append(writer.close)
        stores = wiring.open_stores(settings)
        self._closing.append(stores.close)
        log = wiring.open_log(own, clock)
        self._closing.append(log.close)
        appender = TaskAppender(writer, writer.partition_count())
        book = DefinitionBook(stores.definitions, appender.partition_count, clock)
        names = settings.topic
        allows = partial(settings.relay.allows_target, own_topics=(names.name, names.dead_letter))
        ports = IntakePorts(log, self._put_aside, appender, book, clock, telemetry)
        return RelayIntake(ports, settings.relay, allows)

    def _put_aside(self, record: LogRecord, reason: str) -> "Future[Position]":
        """Append to the dead-letter topic; opened for the first letter, on the reading thread."""
        if self._letters is None:
            self._letters = wiring.open_writer(self._own_settings)
            self._closing.append(self._letters.close)
        return self._letters.dead_letter(record, reason)

    def _close(self) -> None:
        # The node last: it makes durable what was read before.
        while self._closing:
            self._closing.pop()()

    def _run(self) -> None:
        while not self._stop_requested.is_set():
            try:
                self.intake.step(_POLL_MS)
            except HourhandError as error:
                logger.warning("a round of the relay failed and is tried again: %s", error)
                self._stop_requested.wait(_FAILED_PAUSE_S)
            except Exception:
                logger.exception("a round of the relay failed and is tried again; please report")
                self._stop_requested.wait(_FAILED_PAUSE_S)
        try:
            self.intake.drain(_DRAIN_S)
        except Exception:
            logger.exception("the relay did not stop cleanly; what it read is read again")
