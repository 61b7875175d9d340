"""A node that also serves the timer service over HTTP.

Puts node and server together.  Either may stop first: what a request was answered for is durable
in the log, and any node of the group goes on with it.
"""

from collections.abc import Callable

from starlette.types import ASGIApp

from actors.model.errors import SettingsInvalid
from actors.model.task_executor import TaskExecutor
from scheduler.cli.http_server import HttpServer
from scheduler.cli.running import DoorRunning
from scheduler.configuration.settings import Settings
from scheduler.executors.user_executors import Executors
from scheduler.services.timers.app import build_app
from scheduler.services.timers.recurring_routes import RecurringService
from scheduler.services.timers.service import TimerService


class TimersRunning(DoorRunning):
    """A running timer node; as a context manager it starts on entry and stops on exit.

    Raises what ``Scheduler`` raises, and SettingsInvalid where the port cannot be served.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        executor: Callable[[], TaskExecutor] | None = None,
        executors: Executors | None = None,
    ) -> None:
        self._settings = settings.timers
        observe = settings.observe.model_copy(update={"metrics": True})
        watched = settings.model_copy(update={"observe": observe})
        super().__init__(watched, executor, executors or {}, None)
        self._opened(self._open_server)

    @property
    def port(self) -> int:
        """The port that is served, where the settings asked for any free one too."""
        return self._server.port

    def start(self) -> None:
        """Run the node and serve; returns when requests are taken."""
        self.scheduler.start()
        if not self._server.start():
            self.stop()
            raise SettingsInvalid(
                f"cannot serve timers on {self._settings.host}:{self._settings.port}: choose"
                " another timers.port, or see the log above"
            )

    def _stop_door(self) -> None:
        self._server.stop()

    def _open_server(self) -> None:
        self._server = HttpServer(
            self._app(),
            host=self._settings.host,
            port=self._settings.port,
            certificate_file=self._settings.certificate_file,
            key_file=self._settings.key_file,
            connections_max=self._settings.connections_max,
        )

    def _app(self) -> ASGIApp:
        dependencies = self.scheduler.dependencies
        service = TimerService(
            dependencies.appender,
            dependencies.definitions,
            dependencies.clock,
            telemetry=dependencies.telemetry,
        )
        recurring = RecurringService(
            dependencies.appender, dependencies.definitions, dependencies.clock
        )
        registry = self.scheduler.observation.registry
        return build_app(service, self._settings, recurring, dependencies.clock, registry)
