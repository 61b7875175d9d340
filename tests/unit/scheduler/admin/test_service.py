"""The service makes a part when it is first asked for, and once."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from hourhand.actors.ports.store import Stores
from hourhand.scheduler.admin import service as service_module
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.tasks.inspector import Inspector
from tests.unit.scheduler.admin.world import World


def test_a_service_makes_no_part_that_nobody_asks_for() -> None:
    """A command needs two or three of them."""
    service = AdminService(World().service.opened)
    made = set(vars(service))

    actions = service.actions

    assert {"client", "cluster", "inspector"}.isdisjoint(made)
    assert set(vars(service)) - made == {"actions", "client", "inspector"}
    assert service.actions is actions


def test_while_a_part_is_made_other_threads_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are answered by several threads, and a picture of the cluster has state."""
    service = AdminService(World().service.opened)
    made: list[Inspector] = []

    def make(stores: Stores, partition_count: int) -> Inspector:
        with ThreadPoolExecutor(1) as other:
            assert not other.submit(service.making.acquire, blocking=False).result()
        made.append(Inspector(stores, partition_count))
        return made[-1]

    monkeypatch.setattr(service_module, "Inspector", make)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: service.inspector, range(4)))

    assert len(made) == 1
    assert all(each is made[0] for each in found)


def test_a_service_that_closes_makes_nothing_and_lets_go() -> None:
    """A command may fail before it asks for anything."""
    service = AdminService(World().service.opened)

    service.close()
    service.close()

    assert "cluster" not in vars(service)
