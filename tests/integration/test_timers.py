"""The timer service as its clients see it: over real sockets, with nodes that die."""

import asyncio
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from hourhand.scheduler.cli.http_running import TimersRunning
from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings
from tests.tidy.source import ROOT

pytestmark = pytest.mark.integration

WAIT_S = 60.0


class PatientServer(ThreadingHTTPServer):
    """Lets hundreds of callbacks come at one moment."""

    request_queue_size = 1_000


class Endpoint:
    """Takes callbacks; ``answer`` says what each is answered with."""

    def __init__(self) -> None:
        self.pops: list[tuple[str, int]] = []
        self.answer = 200
        self._changed = threading.Condition()
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            """Notes each callback: its opaque body, and its number."""

            def do_POST(self) -> None:
                """Answer as the test wants."""
                body = self.rfile.read(int(self.headers["Content-Length"])).decode()
                number = int(self.headers["X-Sequence-Number"])
                with endpoint._changed:
                    endpoint.pops.append((body, number))
                    endpoint._changed.notify_all()
                self.send_response(endpoint.answer)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its base's name
                """Say nothing."""

        self._server = PatientServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._server.server_port}/pop"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def wait_for(self, distinct: int) -> None:
        """Wait until so many different pops came."""
        with self._changed:
            came = self._changed.wait_for(lambda: len(set(self.pops)) >= distinct, WAIT_S)
            assert came, f"{len(set(self.pops))} of {distinct} pops came"

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    """Where timers call back."""
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


def a_timer(endpoint: Endpoint, opaque: str, interval: int, repeat_for: int) -> dict[str, Any]:
    """Return a request's body."""
    return {
        "timing": {"interval": interval, "repeat-for": repeat_for},
        "callback": {"http": {"uri": endpoint.uri, "opaque": opaque}},
    }


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A folder, and any free port."""
    return Settings(
        embedded=EmbeddedSettings(folder=tmp_path / "data"),
        # A busy machine is slow to answer, and what is tried again comes twice.
        timers=TimerSettings(port=0, callback_timeout_ms=30_000),
    )


def test_an_existing_client_works_unchanged(settings: Settings, endpoint: Endpoint) -> None:
    """Make, look, change, delete; each callback with its number."""
    with TimersRunning(settings) as running:
        base = f"http://127.0.0.1:{running.port}"
        with httpx.Client(base_url=base, timeout=WAIT_S) as http:
            made = http.post("/timers", json=a_timer(endpoint, "a", 1, 3))
            assert made.status_code == 200
            path = made.headers["location"]
            assert http.get(path).json()["timing"] == {"interval": 1, "repeat-for": 3}
            gone = http.post("/timers", json=a_timer(endpoint, "b", 3_600, 3_600))
            assert http.delete(gone.headers["location"]).status_code == 200
            endpoint.wait_for(3)
            assert http.post("/timers", content=b"{").status_code == 400
            assert "hourhand_timer_pop_late_seconds" in http.get("/metrics").text

    assert endpoint.pops == [("a", 1), ("a", 2), ("a", 3)]


PROGRAM = """
import json, sys
from hourhand.scheduler.cli.http_running import TimersRunning
from hourhand.scheduler.configuration.settings import Settings
running = TimersRunning(Settings(**json.load(open(sys.argv[1]))))
running.start(); print(running.port, flush=True); running.wait()
"""


def start(config: Path) -> tuple["subprocess.Popen[bytes]", int]:
    """Start a timer node with the settings of a file; return it and its port."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(config)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    with process.stdout as told:
        return process, int(told.readline())


def test_a_sigkill_loses_no_pop(settings: Settings, endpoint: Endpoint, tmp_path: Path) -> None:
    """A hundred pops of twenty timers, the only node killed twice on the way: none is missing,
    and only what was under way at a kill comes twice, with the same number.
    """
    config = tmp_path / "timers.json"
    config.write_text(settings.model_dump_json(exclude_unset=True), encoding="utf-8")
    process, port = start(config)
    for number in range(20):
        body = a_timer(endpoint, f"t-{number}", 2, 10)
        answer = httpx.post(f"http://127.0.0.1:{port}/timers", json=body, timeout=WAIT_S)
        assert answer.status_code == 200
    for reached in (15, 60):
        endpoint.wait_for(reached)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process, _ = start(config)
    try:
        endpoint.wait_for(100)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()

    wanted = {(f"t-{timer}", number) for timer in range(20) for number in range(1, 6)}
    counted = Counter(endpoint.pops)
    assert counted.keys() == wanted
    assert max(counted.values()) <= 3
    assert sum(counted.values()) <= 100 + 2 * 20


def test_hundreds_of_creations_at_once_are_all_durable(
    settings: Settings, endpoint: Endpoint
) -> None:
    """Acknowledged means kept: every one of them is there after a restart, and pops."""

    async def create(port: int) -> list[int]:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=WAIT_S) as http:
            bodies = [a_timer(endpoint, f"t-{number}", 5, 5) for number in range(300)]
            answers = await asyncio.gather(*(http.post("/timers", json=body) for body in bodies))
            return [answer.status_code for answer in answers]

    with TimersRunning(settings) as running:
        assert asyncio.run(create(running.port)) == [200] * 300
    with TimersRunning(settings):
        endpoint.wait_for(300)

    assert sorted(endpoint.pops) == sorted((f"t-{number}", 1) for number in range(300))
