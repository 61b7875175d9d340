"""Metrics and health over HTTP: ``/metrics``, ``/livez``, ``/readyz``, ``/healthz``.

The standard library's WSGI server, a thread a request. Decides paths and formats only; requests are
not logged, because probes come every few seconds, and nothing can be changed here. The answers come
from a node's own probes, or from those of several processes.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import Any, Protocol
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from hourhand.actors.model.values.display import printable_text
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.observe.health import Check, Health, is_well

REQUEST_TIMEOUT_S = 10.0
"""Seconds for a request to arrive and to be answered."""
REQUESTS_MAX = 64
"""Most requests that are answered at a time."""
_WATCH_EVERY_S = 0.5
_TEXT = "text/plain; charset=utf-8"
_JSON = "application/json"

Answer = tuple[int, str, bytes]
"""HTTP status, content type, body."""
_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


class Answering(Protocol):
    """The answers of a probe server; each is called on a request's thread."""

    def metrics(self) -> bytes:
        """Return every metric in Prometheus' text format."""

    def live(self) -> Sequence[Check]:
        """Return the checks of ``/livez``."""

    def ready(self) -> Sequence[Check]:
        """Return the checks of ``/readyz``."""

    def partitions(self) -> Sequence[int]:
        """Return the owned partitions."""

    def watch(self) -> None:
        """Check for a hang; called twice a second, on the server's thread."""


class NodeAnswers:
    """``Answering`` for the one node of this process."""

    def __init__(self, registry: CollectorRegistry, health: Health) -> None:
        self._registry = registry
        self._health = health
        self.live, self.ready, self.watch = health.live, health.ready, health.watch

    def metrics(self) -> bytes:
        """Return the registry's metrics as text."""
        return generate_latest(self._registry)

    def partitions(self) -> Sequence[int]:
        """Return the owned partitions."""
        return self._health.probes.partitions()


class _Handler(WSGIRequestHandler):
    timeout = REQUEST_TIMEOUT_S
    """Limit for a client that connects and sends nothing."""

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        """Log nothing."""


class _ProbeServer(ThreadingMixIn, WSGIServer):
    daemon_threads = True
    answering: Answering
    clock: Clock
    request_s = REQUEST_TIMEOUT_S

    def __init__(self, *arguments: Any) -> None:
        self._open: dict[Any, float] = {}
        """By connection, the time until which it may last."""
        super().__init__(*arguments)

    def service_actions(self) -> None:
        """Check for a hang twice a second, and close slow connections; called between requests."""
        self.answering.watch()
        now_ms = self.clock.monotonic_ms()
        for connection, until_ms in list(self._open.items()):
            if now_ms > until_ms:
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer on a thread; connections above the limit are closed."""
        if len(self._open) >= REQUESTS_MAX:
            self.shutdown_request(request)
            return
        self._open[request] = self.clock.monotonic_ms() + self.request_s * 1000
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Close the connection."""
        self._open.pop(request, None)
        super().shutdown_request(request)


class ProbeServer:
    """Serves until closed; raises OSError if the port cannot be used."""

    def __init__(self, host: str, port: int, answering: Answering, clock: Clock) -> None:
        self._answering = answering
        self._server = make_server(host, port, self._serve, _ProbeServer, _Handler)
        self._server.answering, self._server.clock = answering, clock
        self.port = self._server.server_port
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            args=(_WATCH_EVERY_S,),
            name="hourhand-probes",
            daemon=True,
        )
        self._thread.start()

    def close(self) -> None:
        """Take no more requests."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)

    def _serve(
        self, request: dict[str, Any], start: Callable[[str, list[tuple[str, str]]], object]
    ) -> Iterable[bytes]:
        status, kind, body = self._answer(request)
        head = [("Content-Type", kind), ("Cache-Control", "no-store")]
        start(f"{status} {_REASONS[status]}", [*head, ("Content-Length", str(len(body)))])
        return [body if request["REQUEST_METHOD"] == "GET" else b""]

    def _answer(self, request: dict[str, Any]) -> Answer:
        if request["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return 405, _TEXT, b"only GET\n"
        match request["PATH_INFO"]:
            case "/metrics":
                return 200, CONTENT_TYPE_LATEST, self._answering.metrics()
            case "/livez":
                return _as_text(self._answering.live())
            case "/readyz":
                return _as_text(self._answering.ready())
            case "/healthz":
                full = parse_qs(request.get("QUERY_STRING", "")).get("full") == ["1"]
                return self._as_json(full=full)
            case _:
                return 404, _TEXT, b"/metrics /livez /readyz /healthz?full=1\n"

    def _as_json(self, *, full: bool) -> Answer:
        checks = self._answering.ready()
        status = 200 if is_well(checks) else 503
        said: dict[str, object] = {"status": "ok" if status == 200 else "failing"}
        if full:
            said["live"] = is_well(self._answering.live())
            said["partitions"] = list(self._answering.partitions())
            said["checks"] = {check.name: check._asdict() for check in checks}
        return status, _JSON, json.dumps(said).encode() + b"\n"


def served(host: str, port: int, answering: Answering, clock: Clock) -> ProbeServer:
    """Return a server of probes; SettingsInvalid if the port cannot be used."""
    try:
        return ProbeServer(host, port, answering, clock)
    except OSError as error:
        raise SettingsInvalid(
            f"cannot serve metrics on {host}:{port}: {error.strerror}; choose another observe.port"
        ) from None


def _as_text(checks: Sequence[Check]) -> Answer:
    lines = [f"{'ok' if check.ok else 'FAILING'} {check.name}: {check.detail}" for check in checks]
    # A driver's error may quote any text, in several lines.
    text = "".join(f"{printable_text(line)}\n" for line in lines)
    return (200 if is_well(checks) else 503), _TEXT, text.encode()
