"""The service makes a part when it is first asked for, and once."""

import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from scheduler.admin import service as service_module
from scheduler.admin.service import AdminService
from scheduler.reading.inspector import Inspector
from tests.unit.scheduler.admin.world import World


def test_a_service_makes_no_part_that_nobody_asks_for() -> None:
    """A command needs two or three of them."""
    service = AdminService(World().service.opened)
    made = set(vars(service))

    actions = service.actions

    assert {"client", "cluster", "inspector"}.isdisjoint(made)
    assert set(vars(service)) - made == {"actions", "client", "inspector"}
    assert service.actions is actions


def test_a_part_is_made_once_however_many_threads_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are answered by several threads, and a picture of the cluster has state."""
    service, two_makers = AdminService(World().service.opened), threading.Barrier(2)
    made: list[object] = []

    def make(*given: object) -> Inspector:
        made.append(given)
        with suppress(threading.BrokenBarrierError):
            two_makers.wait(0.05)
        return Inspector(service.stores, service.partition_count)

    monkeypatch.setattr(service_module, "Inspector", make)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: service.inspector, range(4)))

    assert len(made) == 1
    assert set(map(id, found)) == {id(service.inspector)}


def test_a_service_that_closes_makes_nothing_and_lets_go() -> None:
    """A command may fail before it asks for anything."""
    service = AdminService(World().service.opened)

    service.close()
    service.close()

    assert "cluster" not in vars(service)
