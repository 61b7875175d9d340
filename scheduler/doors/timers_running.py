"""A node that also serves the timer service over HTTP.

Puts node and server together.  Either may stop first: what a request was answered for is durable
in the log, and any node of the group goes on with it.
"""

import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

import uvicorn

from actors.model.errors import SettingsInvalid
from actors.task_executor import TaskExecutor
from scheduler import wiring
from scheduler.appending import TaskAppender
from scheduler.definition_book import DefinitionBook
from scheduler.own_tasks import NoUserTasks
from scheduler.scheduler import Scheduler
from scheduler.settings import Settings
from scheduler.timers.app import build_app
from scheduler.timers.recurring_routes import RecurringService
from scheduler.timers.service import TimerService

_STARTED_S = 30.0


class TimersRunning:
    """A running timer node; as a context manager it starts on entry and stops on exit.

    Raises what ``Scheduler`` raises, and SettingsInvalid where the port cannot be served.
    """

    def __init__(
        self, settings: Settings, *, executor: Callable[[], TaskExecutor] = NoUserTasks
    ) -> None:
        self._settings = settings.timers
        self._closing: list[Callable[[], None]] = []
        telemetry, registry = wiring.build_metrics(settings)
        try:
            self.scheduler = Scheduler(settings, executor=executor, telemetry=telemetry)
            self._closing.append(self.scheduler.close)
            clock = wiring.open_clock()
            writer = wiring.open_writer(settings)
            self._closing.append(writer.close)
            stores = wiring.open_stores(settings)
            self._closing.append(stores.close)
            appender = TaskAppender(writer, writer.partition_count())
            book = DefinitionBook(stores.definitions, appender.partition_count, clock)
            service = TimerService(appender, book, clock)
            recurring = RecurringService(appender, book, clock)
            app = build_app(service, settings.timers, recurring, clock, registry)
        except BaseException:
            self._close()
            raise
        self._server = _Server(
            uvicorn.Config(
                app,
                host=settings.timers.host,
                port=settings.timers.port,
                ssl_certfile=settings.timers.certificate_file,
                ssl_keyfile=settings.timers.key_file,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
            )
        )
        self._thread = threading.Thread(target=self._server.run, name="hourhand-http", daemon=True)

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

    @property
    def port(self) -> int:
        """The port that is served, where the settings asked for any free one too."""
        return self._server.bound_port

    def start(self) -> None:
        """Run the node and serve; returns when requests are taken."""
        self.scheduler.start()
        self._thread.start()
        if not self._server.serving.wait(_STARTED_S) or not self._server.started:
            self.stop()
            raise SettingsInvalid(
                f"cannot serve timers on {self._settings.host}:{self._settings.port}: choose"
                " another timers.port, or see the log above"
            )

    def wait(self) -> None:
        """Wait until the node was stopped, by a signal or otherwise; then stop the rest."""
        self.scheduler.wait()
        self.stop()

    def stop(self) -> None:
        """Take no more requests, then stop the node; repeatable."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()
        self._close()

    def _close(self) -> None:
        while self._closing:
            self._closing.pop()()


class _Server(uvicorn.Server):
    """Tells when it serves, or will not; leaves signals to the node."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.serving = threading.Event()
        self.bound_port = 0

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop; a port that is taken ends it at once."""
        try:
            super().run(sockets)
        except SystemExit:
            # How uvicorn says that it could not bind; ``started`` says so too.
            return
        finally:
            self.serving.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Bind, and tell."""
        await super().startup(sockets)
        if self.started:
            self.bound_port = self.servers[0].sockets[0].getsockname()[1]
        self.serving.set()
