"""Writes ``schema/http/admin.json``: the admin API's OpenAPI description, as the code has it."""

import json
from typing import Any

from actors.kernel.simulated import VirtualClock
from scheduler.adapters.memory.broker import MemoryBroker
from scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from scheduler.adapters.memory.writer import MemoryWriter
from scheduler.admin.app import build_app
from scheduler.admin.service import AdminPorts, AdminService
from scheduler.configuration.settings import Settings
from tests.unit.scheduler.admin.log_view import MemoryLogView


def described_admin() -> dict[str, Any]:
    """Return the description; nothing is asked of the installation it is made from."""
    clock = VirtualClock(0)
    broker = MemoryBroker(1, clock)
    stores = open_memory_stores(MemoryStores())
    ports = AdminPorts(MemoryWriter(broker), stores, MemoryLogView(broker), clock)
    return build_app(AdminService(Settings(), ports)).openapi()


def openapi_page() -> str:
    """Return it as text."""
    described = described_admin()
    return json.dumps(described, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
