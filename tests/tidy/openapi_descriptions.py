"""The OpenAPI descriptions of the admin API and of the timer service, as the code has them."""

from typing import Any

from prometheus_client import CollectorRegistry

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.admin.app import build_app
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.timers.app import build_routes
from hourhand.scheduler.services.timers.recurring_routes import RecurringService
from hourhand.scheduler.services.timers.service import TimerService
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.wiring import Installation
from tests.unit.scheduler.admin.log_view import MemoryLogView


def described_admin() -> dict[str, Any]:
    """Return the description; nothing is asked of the installation it is made from."""
    clock = VirtualClock(0)
    broker = MemoryBroker(1, clock)
    stores = open_memory_stores(MemoryStores())
    opened = Installation(
        settings=Settings(),
        writer=MemoryWriter(broker),
        stores=stores,
        log_view=MemoryLogView(broker),
        clock=clock,
        partition_count=1,
    )
    return build_app(AdminService(opened)).openapi()


def described_timers() -> dict[str, Any]:
    """Return the description of the timer service, which is asked nothing either."""
    broker = MemoryBroker(1, VirtualClock(0))
    stores, clock = open_memory_stores(MemoryStores()), VirtualClock(0)
    appender = TaskAppender(MemoryWriter(broker), 1)
    book = DefinitionBook(stores.definitions, 1, clock)
    service, recurring = (
        TimerService(appender, book, clock),
        RecurringService(appender, book, clock),
    )
    return build_routes(service, recurring, CollectorRegistry()).openapi()
