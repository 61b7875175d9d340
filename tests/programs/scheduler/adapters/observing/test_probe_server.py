"""Probes over real sockets: clients that say nothing, little, or come in crowds."""

import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.adapters.observing import probe_server
from hourhand.scheduler.adapters.observing.probe_server import (
    REQUESTS_MAX,
    NodeAnswers,
    ProbeServer,
)

WAIT_S = 60.0


class Well:
    """A node that is."""

    def watch(self) -> None:
        """See nothing."""

    def live(self) -> list[Any]:
        """Return no doubts."""
        return []

    def ready(self) -> list[Any]:
        """Return no doubts."""
        return []


@pytest.fixture
def probes(monkeypatch: pytest.MonkeyPatch) -> Iterator[ProbeServer]:
    """One that gives a request a second."""
    monkeypatch.setattr(probe_server._ProbeServer, "request_s", 1.0)
    well: Any = Well()
    server = ProbeServer("127.0.0.1", 0, NodeAnswers(CollectorRegistry(), well), SystemClock())
    yield server
    server.close()


def test_a_client_that_sends_a_byte_now_and_then_is_cut(probes: ProbeServer) -> None:
    """Each byte came in time, the request did not."""
    with socket.create_connection(("127.0.0.1", probes.port)) as client:
        client.sendall(b"GET /livez HTTP/1.1\r\n")
        client.settimeout(0.2)

        assert any(is_over(client) for _ in range(round(WAIT_S / 0.2)))


def is_over(client: socket.socket) -> bool:
    """Send a byte, and return whether the server hung up."""
    try:
        client.sendall(b"x")
        return not client.recv(100)
    except TimeoutError:
        return False
    except OSError:
        return True


def test_a_crowd_has_so_many_threads_and_no_more(probes: ProbeServer) -> None:
    """Whoever comes then is hung up on, and answered once the others are gone."""
    crowd = [socket.create_connection(("127.0.0.1", probes.port)) for _ in range(REQUESTS_MAX)]
    with socket.create_connection(("127.0.0.1", probes.port), timeout=WAIT_S) as client:
        assert client.recv(100) == b""
    for each in crowd:
        each.settimeout(WAIT_S)
        assert is_over(each) or each.recv(100) == b""
        each.close()

    assert httpx.get(f"http://127.0.0.1:{probes.port}/livez", timeout=WAIT_S).status_code == 200
