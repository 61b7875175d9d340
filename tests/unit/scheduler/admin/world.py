"""An admin API over a virtual installation: real service, client, node and tree, no port.

The node is stepped by hand, so a test says when what was asked for happens.
"""

import asyncio
from typing import Any

import httpx
import msgspec
from fastapi import FastAPI

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.operations.oversight import LATENESS_MS, decode_reports
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import format_instant
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.delivery import Request
from hourhand.scheduler.adapters.memory.stores import open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.admin.acting import Actions
from hourhand.scheduler.admin.app import PREFIX, build_app
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.configuration.door_settings import AdminSettings
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.runtime.steps import begun
from hourhand.scheduler.tasks.placing import placing_count
from hourhand.scheduler.wiring import Installation
from tests.builders import NOW_MS, a_task
from tests.promises.group import Group
from tests.unit.scheduler.admin.described import as_described
from tests.unit.scheduler.admin.log_view import MemoryLogView

HOUR_MS = 3_600_000
WINDOW = {
    "from": format_instant(NOW_MS - 24 * HOUR_MS),
    "to": format_instant(NOW_MS + 24 * HOUR_MS),
}
READ, WRITE = "r" * 16, "w" * 16


PARTITION: dict[str, object] = {
    "partition": 0,
    "stage": "running",
    "epoch": 1,
    "nextOffset": 0,
    "paused": False,
    "pausedIds": 0,
    "started": 0,
    "succeeded": 0,
    "failed": 0,
    "closed": {},
    "lateness": [0] * (len(LATENESS_MS) + 1),
    "waiting": 1,
    "executing": 0,
    "loaded_until_ms": NOW_MS,
    "watermark_ms": NOW_MS,
    "stragglers": 0,
    "held": 0,
    "overdue_ms": 0,
    "assigned_ms": NOW_MS,
    "catch_up_ms": 3,
}


class Asking:
    """Asks an application without a server, one request at a time."""

    def __init__(self, app: FastAPI, url: str = f"http://localhost{PREFIX}") -> None:
        self._app = app
        self._url = url

    def request(self, method: str, path: str, **asked: Any) -> httpx.Response:
        """Send a request; an exception inside is answered with 500, as a server does."""

        async def send() -> httpx.Response:
            transport = httpx.ASGITransport(self._app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=self._url) as client:
                return await client.request(method, path, **asked)

        return asyncio.run(send())

    def get(self, path: str, **asked: Any) -> httpx.Response:
        """Look."""
        return self.request("GET", path, **asked)

    def post(self, path: str, **asked: Any) -> httpx.Response:
        """Act."""
        return self.request("POST", path, **asked)


class Api:
    """An admin API over an installation in memory."""

    def __init__(
        self, broker: MemoryBroker, stores: Stores, clock: VirtualClock, **admin: object
    ) -> None:
        settings = Settings(admin=AdminSettings.model_validate({"requests_per_s_max": 0, **admin}))
        writer = MemoryWriter(broker)
        counting = placing_count(stores.ownership, writer.partition_count())
        opened = Installation(
            settings=settings,
            writer=writer,
            stores=stores,
            log_view=MemoryLogView(broker),
            clock=clock,
            partition_count=answered(begun(counting)),
        )
        self.service = AdminService(opened)
        self.app = build_app(self.service)
        self.http = Asking(self.app)
        self.tokens: dict[str, str] = {}

    def get(self, path: str, **parameters: Any) -> tuple[int, Any]:
        """Ask, and return status and answer."""
        answer = self.http.get(path, params=parameters, headers=self.tokens)
        as_described(answer)
        return answer.status_code, answer.json()

    def post(self, path: str, body: object) -> tuple[int, Any]:
        """Act, and return status and answer."""
        answer = self.http.post(path, json=body, headers=self.tokens)
        as_described(answer)
        return answer.status_code, answer.json()


class World(Api):
    """One installation with one node and one admin API."""

    def __init__(self, **admin: object) -> None:
        self.group = self.make_group()
        self.member = self.group.join()
        self.broker: MemoryBroker = self.group.broker
        self.clock: VirtualClock = self.group.clock
        super().__init__(self.broker, open_memory_stores(self.group.data), self.clock, **admin)

    def make_group(self) -> Group:
        """Return the installation."""
        return Group()

    def schedule(self, *tasks: Task) -> None:
        """Schedule tasks and let the node store them."""
        for task in tasks:
            self.group.append(task)
        self.group.advance(0)

    def work_while_waited_for(self) -> None:
        """Have the node work whenever an outcome is looked at, as one does meanwhile."""

        def deliver(request: Request[Any]) -> None:
            if request.kind == "find_outcome":
                self.group.settle()
            request()

        stores = open_memory_stores(self.group.data, deliver)
        service = self.service
        service.actions = Actions(service.client, service.inspector, stores, self.clock)

    def report(self, node: str = "node-1", **body: object) -> None:
        """Report as a node does; the virtual one has no thread that would."""
        told = {
            "node": node,
            "version": "1",
            "startedMs": NOW_MS,
            "address": None,
            "leaseLeftMs": 9_000,
            "leaseByLock": False,
            "pausesVersion": 0,
            "treeFailures": 0,
            "partitions": [PARTITION],
            "runningCount": 0,
            "running": [],
            "blockedCount": 0,
            "blocked": [],
            "failingCount": 0,
            "failing": [],
            "moments": [],
            **body,
        }
        store = self.service.stores.oversight
        report_number = round(self.clock.monotonic_ms()) + 1
        row = (node, report_number, self.clock.now_ms(), msgspec.json.encode(told))
        for report in decode_reports([row]):
            store.save_report(report)
        self.service.cluster.read()


def due(seconds: int, ordering_id: str = "customer-7", name: str = "u") -> Task:
    """Return a task due in so many seconds."""
    return a_task(due_in_ms=seconds * 1_000, ordering_id=ordering_id, uniqueness_key=name)
