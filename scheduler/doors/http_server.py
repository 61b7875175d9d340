"""An ASGI application served on a thread: started, told of its port, stopped.

Decides nothing about requests.
"""

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import uvicorn

_STARTED_S = 30.0


class HttpServer:
    """One application on one port; signals are left to the program."""

    def __init__(
        self,
        app: Any,
        *,
        host: str,
        port: int,
        certificate_file: Path | None = None,
        key_file: Path | None = None,
    ) -> None:
        self._server = _Server(
            uvicorn.Config(
                app,
                host=host,
                port=port,
                ssl_certfile=certificate_file,
                ssl_keyfile=key_file,
                log_config=None,
                access_log=False,
                lifespan="off",
                server_header=False,
                timeout_graceful_shutdown=5,
            )
        )
        self._thread = threading.Thread(target=self._server.run, name="hourhand-http", daemon=True)

    @property
    def port(self) -> int:
        """The port that is served, where any free one was asked for too."""
        return self._server.bound_port

    def start(self) -> bool:
        """Serve; return whether requests are taken, which they are not where the port is not."""
        self._thread.start()
        return self._server.serving.wait(_STARTED_S) and self._server.started

    def stop(self) -> None:
        """Serve no more; repeatable."""
        self._server.should_exit = True
        if self._thread.is_alive():
            self._thread.join()


class _Server(uvicorn.Server):
    """Tells when it serves, or will not."""

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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Let answers be sent, for a bounded time, then hang up."""
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            # A client that keeps its connection for another request does not answer TLS's
            # farewell, and the socket would outlive the server.
            connection.transport.abort()
        await asyncio.sleep(0)
