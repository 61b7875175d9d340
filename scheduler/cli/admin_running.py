"""The admin API on a port: an installation opened, its cluster followed, requests taken."""

from actors.model.errors import SettingsInvalid
from scheduler.admin.app import build_app
from scheduler.admin.service import AdminService
from scheduler.cli.http_server import HttpServer
from scheduler.cli.running import StartedOnEntry
from scheduler.configuration.settings import Settings


class AdminRunning(StartedOnEntry):
    """A running admin API; as a context manager it starts on entry and stops on exit.

    Raises what ``SchedulerClient`` raises, and SettingsInvalid where the port cannot be served.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = admin = settings.admin
        self.service = AdminService(settings)
        try:
            self._server = HttpServer(
                build_app(self.service),
                host=admin.host,
                port=admin.port,
                certificate_file=admin.certificate_file,
                key_file=admin.key_file,
                connections_max=admin.connections_max,
            )
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
