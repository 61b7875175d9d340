"""The timer service's door: hostile requests through its application, on the embedded engine.

Decides what is an answer: no failure of the server's own, one answer to each request, and every
refusal with its reason.  Good timers stand beside; each of their pops must come.
"""

import asyncio
import http.server
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from pydantic import SecretStr
from starlette.types import ASGIApp

from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings, TopicSettings
from hourhand.scheduler.scheduler import Scheduler
from hourhand.scheduler.services.timers.app import build_app
from hourhand.scheduler.services.timers.recurring_routes import RecurringService
from hourhand.scheduler.services.timers.service import TimerService
from hourhand.scheduler.services.timers.timer import TimerRule
from tests.fuzz.requests import Asked, hostile_request

REQUESTS_OF_A_SERVICE = 2_500
_AT_ONCE = 50
_GOOD_EVERY = 100
_POPS = 2
_POPPED_S = 120.0
_ANSWERED_S = 120.0

_Message = MutableMapping[str, Any]


class _Sink:
    """Takes the callbacks of good timers."""

    def __init__(self) -> None:
        self.pops: Counter[tuple[str, int]] = Counter()
        self._changed = threading.Condition()
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                """Note which pop it is."""
                length = int(self.headers["Content-Length"])
                pop = (self.rfile.read(length).decode(), int(self.headers["X-Sequence-Number"]))
                with sink._changed:
                    sink.pops[pop] += 1
                    sink._changed.notify_all()
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.uri = f"http://127.0.0.1:{self._server.server_port}/pop"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def wait_for(self, wanted: set[tuple[str, int]]) -> bool:
        """Wait until all of these came; False where they did not, for long."""
        with self._changed:
            return self._changed.wait_for(lambda: wanted <= self.pops.keys(), _POPPED_S)

    def close(self) -> None:
        """Take no more."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def try_requests(seed: int, count: int, folder: Path) -> int:
    """Ask ``count`` times; AssertionError where one is not answered or a timer is lost."""
    rng = random.Random(f"requests {seed}")
    settings = Settings(
        embedded=EmbeddedSettings(folder=folder / f"timers-{seed}"),
        topic=TopicSettings(partitions=4),
        timers=TimerSettings(requests_per_s_max=0, callback_tries_max=1),
    )
    sink = _Sink()
    try:
        with Scheduler(settings, executors={}) as scheduler:
            dependencies = scheduler.dependencies
            service = TimerService(
                dependencies.appender, dependencies.definitions, dependencies.clock
            )
            recurring = RecurringService(
                dependencies.appender, dependencies.definitions, dependencies.clock
            )
            tokens = settings.timers.model_copy(
                update={
                    "read_tokens": (SecretStr("reader"),),
                    "write_tokens": (SecretStr("writer"),),
                }
            )
            apps = [
                build_app(service, each, recurring, dependencies.clock)
                for each in (settings.timers, settings.timers, tokens)
            ]
            good = asyncio.run(_ask_all(rng, count, apps, service, sink.uri))
            wanted = {(name, pop) for name in good for pop in range(1, _POPS + 1)}
            assert sink.wait_for(wanted), f"lost: {sorted(wanted - sink.pops.keys())[:5]}"
            extra = sink.pops.keys() - wanted
            assert not extra, f"pops that nobody asked for: {sorted(extra)[:5]}"
    finally:
        sink.close()
    return count


async def _ask_all(
    rng: random.Random, count: int, apps: list[ASGIApp], service: TimerService, uri: str
) -> list[str]:
    """Ask in groups, as many clients do at once; return the good timers between them."""
    good: list[str] = []
    asked = [hostile_request(rng) for _ in range(count)]
    for first in range(0, count, _AT_ONCE):
        if first % _GOOD_EVERY == 0:
            name = f"good-{first}"
            rule = TimerRule(1_000, _POPS * 1_000, uri, name)
            await service.put(service.new_id(), rule, new=True)
            good.append(name)
        group = [_try_one(rng.choice(apps), each) for each in asked[first : first + _AT_ONCE]]
        await asyncio.gather(*group)
    return good


async def _try_one(app: ASGIApp, asked: Asked) -> None:
    shown = (asked.method, asked.raw_path[:80], asked.query[:80], b"".join(asked.pieces)[:200])
    try:
        async with asyncio.timeout(_ANSWERED_S):
            answers = await _answers(app, asked)
    except Exception as error:
        raise AssertionError(f"{shown}: {error!r}") from error
    starts = [each for each in answers if each["type"] == "http.response.start"]
    if asked.goes_away and not starts:
        # Nobody is there to be answered.
        return
    assert len(starts) == 1, f"{shown}: {len(starts)} answers"
    status = starts[0]["status"]
    body = b"".join(each.get("body", b"") for each in answers)
    assert status < 500, f"{shown}: {status} {body[:200]!r}"
    assert status != 422, f"{shown}: {status}"
    if status == 400:
        assert body.decode().strip(), f"{shown}: refused without a reason"


async def _answers(app: ASGIApp, asked: Asked) -> list[_Message]:
    """Hand a request over as a server does; return what the application sends."""
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": asked.method,
        "scheme": "http",
        "path": asked.path,
        "raw_path": asked.raw_path,
        "query_string": asked.query,
        "root_path": "",
        "headers": list(asked.headers),
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 7_253),
    }
    sent: list[_Message] = []
    receive = _receiver(asked)

    async def send(message: _Message) -> None:
        sent.append(message)

    await app(scope, receive, send)
    return sent


def _receiver(asked: Asked) -> Callable[[], Awaitable[_Message]]:
    left = list(asked.pieces)

    async def receive() -> _Message:
        if left:
            more = bool(left[1:]) or asked.goes_away
            return {"type": "http.request", "body": left.pop(0), "more_body": more}
        if asked.goes_away:
            return {"type": "http.disconnect"}
        # The client waits for its answer.
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")

    return receive
