"""Admin API and timer service, each on a port: opened, started, stopped in order."""

from collections.abc import Callable

from starlette.types import ASGIApp

from actors.model.errors import SettingsInvalid
from actors.model.task_executor import TaskExecutor
from scheduler.admin.app import build_app as build_admin
from scheduler.admin.service import AdminService
from scheduler.cli.http_server import HttpServer
from scheduler.cli.running import DoorRunning, StartedOnEntry
from scheduler.configuration.door_settings import AdminSettings, TimerSettings
from scheduler.configuration.settings import Settings
from scheduler.executors.user_executors import Executors
from scheduler.services.timers.app import build_app as build_timers
from scheduler.services.timers.recurring_routes import RecurringService
from scheduler.services.timers.service import TimerService


class AdminRunning(StartedOnEntry):
    """A running admin API; as a context manager it starts on entry and stops on exit.

    Raises what ``SchedulerClient`` raises, and SettingsInvalid where the port cannot be served.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = admin = settings.admin
        self.service = AdminService(settings)
        try:
            self._server = _server(build_admin(self.service), admin)
        except BaseException:
            self.service.close()
            raise

    @property
    def port(self) -> int:
        """The port that is served."""
        return self._server.port

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        scheme = "http" if self._settings.certificate_file is None else "https"
        host = self._settings.host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{self.port}"

    def start(self) -> None:
        """Follow the cluster and serve; returns when requests are taken."""
        self.service.start()
        if not self._server.start():
            self.stop()
            raise SettingsInvalid(
                f"cannot serve the admin API on {self._settings.host}:{self._settings.port}:"
                " choose another admin.port, or see the log above"
            )

    def stop(self) -> None:
        """Take no more requests, and let go of everything; repeatable."""
        # First, so that streams end by themselves.
        self.service.cluster.close()
        self._server.stop()
        self.service.close()


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
        self._server = _server(self._app(), self._settings)

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
        return build_timers(service, self._settings, recurring, dependencies.clock, registry)


def _server(app: ASGIApp, settings: AdminSettings | TimerSettings) -> HttpServer:
    return HttpServer(
        app,
        host=settings.host,
        port=settings.port,
        certificate_file=settings.certificate_file,
        key_file=settings.key_file,
        connections_max=settings.connections_max,
    )
