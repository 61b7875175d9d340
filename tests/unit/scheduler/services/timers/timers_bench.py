"""A timer service under a virtual clock: the real application, node and tree, no socket."""

import asyncio
from datetime import timedelta
from typing import Any

import httpx
from starlette.types import ASGIApp

from hourhand.scheduler.adapters.memory.delivery import Deliver
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.adapters.observing.counted import registry_of
from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.observe.meters import Count
from hourhand.scheduler.observe.node_telemetry import NodeTelemetry
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.timers.app import build_app
from hourhand.scheduler.services.timers.recurring_routes import RecurringService
from hourhand.scheduler.services.timers.service import TimerService
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import VirtualScheduler
from hourhand.scheduler.testing.virtual import Callback

URI = "http://127.0.0.1:1/pop"


def a_timer(interval: Any = 10, repeat_for: Any = None, **more: Any) -> dict[str, Any]:
    """Return a request's body."""
    timing = {"interval": interval}
    if repeat_for is not None:
        timing["repeat-for"] = repeat_for
    return {"timing": timing, "callback": {"http": {"uri": URI, "opaque": "o"}}, **more}


class AppClient:
    """Asks an application as an HTTP client does; whatever the application raises comes through."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Ask, on an event loop of its own."""

        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=True)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
                return await http.request(method, path, **options)

        return asyncio.run(ask())

    def get(self, path: str, **options: Any) -> httpx.Response:
        """GET."""
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        """POST."""
        return self.request("POST", path, **options)

    def put(self, path: str, **options: Any) -> httpx.Response:
        """PUT."""
        return self.request("PUT", path, **options)

    def delete(self, path: str, **options: Any) -> httpx.Response:
        """DELETE."""
        return self.request("DELETE", path, **options)


class TimersBench:
    """One service."""

    def __init__(
        self, settings: TimerSettings | None = None, deliver: Deliver | None = None
    ) -> None:
        self.scheduler = VirtualScheduler(executors={})
        if deliver is not None:
            self.scheduler.stores = open_memory_stores(MemoryStores(), deliver)
        settings = settings or TimerSettings(requests_per_s_max=0)
        self.scheduler.settings = self.scheduler.settings.model_copy(update={"timers": settings})
        self.scheduler.restart()
        self.clock = self.scheduler.clock
        self.start_ms = self.clock.now_ms()
        writer = MemoryWriter(self.scheduler.broker)
        appender = TaskAppender(writer, writer.partition_count())
        stores = self.scheduler.stores
        book = DefinitionBook(stores.definitions, appender.partition_count, self.clock)
        self.counting = NodeTelemetry(self.clock)
        self.service = TimerService(appender, book, self.clock, telemetry=self.counting)
        recurring = RecurringService(appender, book, self.clock)
        registry = registry_of(self.counting.meters)
        app = build_app(self.service, settings, recurring, self.clock, registry)
        self.http = AppClient(app)

    def tags(self) -> dict[str, tuple[float, float]]:
        """Return how often each tag was set and taken away, by service and node."""
        counting = NodeTelemetry(self.clock)
        for event in self.scheduler.events:
            counting.emit(event)
        found: dict[str, tuple[float, float]] = {}
        for meters in (self.counting.meters, counting.meters):
            for tag in {*meters["timer_tags_total"], *meters["timer_tags_removed_total"]}:
                had = found.get(tag, (0, 0))
                added = meters["timer_tags_total"].get(tag, Count()).value
                removed = meters["timer_tags_removed_total"].get(tag, Count()).value
                found[tag] = (had[0] + added, had[1] + removed)
        return found

    def post(self, body: object, **options: Any) -> httpx.Response:
        """Make a timer."""
        return self.http.post("/timers", json=body, **options)

    def made(self, *arguments: Any, **more: Any) -> str:
        """Make a timer and return its path."""
        answer = self.post(a_timer(*arguments, **more))
        assert answer.status_code == 200, answer.text
        return answer.headers["location"]

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.scheduler.advance(timedelta(seconds=seconds))

    @property
    def popped(self) -> list[Callback]:
        """The callbacks made, failed ones included."""
        return self.scheduler.callbacks.made

    @property
    def pops(self) -> list[tuple[float, int]]:
        """Seconds from the beginning, and sequence number, of each callback."""
        return [((each.at_ms - self.start_ms) / 1000, each.sequence_number) for each in self.popped]
