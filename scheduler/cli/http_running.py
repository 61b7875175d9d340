"""Admin API and timer service, each on a port: opened, started, stopped in order.

Decides how many connections there may be and how long a client may take, and nothing else about
requests.
"""

import asyncio
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.admin.app import build_app as build_admin
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.cli.running import DoorRunning, StartedOnEntry
from hourhand.scheduler.configuration.door_settings import AdminSettings, TimerSettings
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.executors.user_executors import Executors
from hourhand.scheduler.services.timers.app import build_app as build_timers
from hourhand.scheduler.services.timers.recurring_routes import RecurringService
from hourhand.scheduler.services.timers.service import TimerService
from hourhand.scheduler.wiring import open_installation

_STARTED_S = 30.0
RECEIVE_S = 10.0
"""Seconds for a request to arrive, head and body, after the connection or the last answer."""
_IDLE_S = 5
"""Seconds for which an idle connection is kept open."""
_HEAD_BYTES_MAX = 131_072
"""Room for the longest address that the parser takes, 65,535 bytes, and for its headers."""
_GONE_MS = 30_000
"""TCP closes a connection whose client has not acknowledged sent bytes for this time."""
_TICKS_A_SECOND = 10


class HttpServer:
    """One application on one port; it installs no signal handlers."""

    def __init__(
        self,
        app: Any,
        *,
        host: str,
        port: int,
        certificate_file: Path | None = None,
        key_file: Path | None = None,
        connections_max: int = 1_000,
        receive_s: float = RECEIVE_S,
    ) -> None:
        self._server = _DoorServer(
            receive_s,
            uvicorn.Config(
                app,
                host=host,
                port=port,
                ssl_certfile=certificate_file,
                ssl_keyfile=key_file,
                log_config=None,
                # The command itself says when it starts and stops; uvicorn's info lines would
                # repeat that.
                log_level="warning",
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=5,
                http=_BoundedProtocol,
                ws="none",
                limit_concurrency=connections_max,
                timeout_keep_alive=_IDLE_S,
            ),
        )
        self._thread = threading.Thread(target=self._server.run, name="hourhand-http", daemon=True)

    @property
    def port(self) -> int:
        """The port that is served; a free one if the settings asked for any."""
        return self._server.bound_port

    def start(self) -> bool:
        """Serve; return True once requests are taken, False if the port cannot be used."""
        self._thread.start()
        return self._server.serving.wait(_STARTED_S) and self._server.started

    def stop(self) -> None:
        """Stop serving; repeatable."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()


class _BoundedProtocol(HttpToolsProtocol):
    """Refuses endless heads and endless trailers, which arrive without a body."""

    _kept_bytes = 0
    """Bytes read since the last complete head or piece of a body."""

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; refuse the request once an unfinished head is too long."""
        self._kept_bytes += len(data)
        super().data_received(data)
        if self._kept_bytes > _HEAD_BYTES_MAX and not self.transport.is_closing():
            self.send_400_response(f"The head of a request has at most {_HEAD_BYTES_MAX} bytes.")

    def on_headers_complete(self) -> None:
        """Reset the count of bytes."""
        self._kept_bytes = 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Reset the count of bytes."""
        self._kept_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Reset the count of bytes."""
        self._kept_bytes = 0
        super().on_message_complete()


class _DoorServer(uvicorn.Server):
    """A server that says whether it could bind its port."""

    def __init__(self, receive_s: float, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._receive_s = receive_s
        self._receiving: dict[Any, tuple[object, float]] = {}
        """For each connection whose request has not arrived: its last answer, and the time since
        then."""
        self.serving = threading.Event()
        self.bound_port = 0

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until told to stop; a port that is taken ends it at once."""
        try:
            super().run(sockets)
        except SystemExit:
            # Uvicorn exits like this when it cannot bind; ``started`` is False then.
            return
        finally:
            self.serving.set()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Bind the port, and tell the waiting thread."""
        await super().startup(sockets)
        if self.started:
            for listening in self.servers[0].sockets:
                if hasattr(socket, "TCP_USER_TIMEOUT"):
                    # Accepted sockets inherit the option.
                    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _GONE_MS)
            self.bound_port = self.servers[0].sockets[0].getsockname()[1]
        self.serving.set()

    async def on_tick(self, counter: int) -> bool:
        """Close connections of clients that take too long to send a request."""
        if counter % _TICKS_A_SECOND == 0:
            self._cut_slow()
        return await super().on_tick(counter)

    def _cut_slow(self) -> None:
        now_s, receiving = asyncio.get_running_loop().time(), {}
        for connection in list(self.server_state.connections):
            assert isinstance(connection, _BoundedProtocol), "no other is asked for"
            cycle = connection.cycle
            if cycle is not None and not (cycle.response_complete or cycle.more_body):
                continue
            began, since_s = self._receiving.get(connection, (None, now_s))
            if began is not cycle:
                since_s = now_s
            if now_s - since_s > self._receive_s:
                connection.transport.abort()
            else:
                receiving[connection] = (cycle, since_s)
        self._receiving = receiving

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let answers be sent, for a bounded time, then close connections."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            # A client that keeps its connection open does not answer TLS's close, and the socket
            # would outlive the server.
            connection.transport.abort()
        await asyncio.sleep(0)


class AdminRunning(StartedOnEntry):
    """A running admin API; as a context manager it starts on entry and stops on exit.

    Raises what ``SchedulerClient`` raises, and SettingsInvalid where the port cannot be served.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = admin = settings.admin
        self.service = AdminService(open_installation(settings))
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
        """The address for a browser, with the scheme and the port."""
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
        """Take no more requests, and release everything; repeatable."""
        # The cluster is closed first, so that event streams end by themselves.
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
