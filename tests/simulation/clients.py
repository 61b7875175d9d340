"""Puts together who sends: the real client, foreign producers, and a writer beside the log.

It picks what each of them is given of a world, and sends nothing.
"""

import random
from collections.abc import Callable
from typing import Protocol

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.definition import RESERVED
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.client.client import ClientPorts, SchedulerClient
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.testing import RecordingTelemetry
from tests.simulation.history import Asked, Happened, LeftToLoad
from tests.simulation.network import Network
from tests.simulation.outside import OutsideWriter
from tests.simulation.producers import Producers, SizeLimits
from tests.simulation.scenario import Scenario
from tests.simulation.sealing import ClientCodecs
from tests.simulation.task_maker import TaskMaker
from tests.simulation.truth import Truth
from tests.simulation.watched import NodeClock
from tests.simulation.workloads import WorkloadDriver

_ANY_SIZE = 2**31


class ServedWorld(Protocol):
    """The world as senders see it."""

    scenario: Scenario
    settings: Settings
    clock: VirtualClock
    broker: MemoryBroker
    data: MemoryStores
    network: Network
    truth: Truth

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Do something later."""

    def note(self, entry: Asked | Happened | LeftToLoad) -> None:
        """Keep what happened."""


def make_driver(world: ServedWorld, fork: Callable[[], random.Random]) -> WorkloadDriver:
    """Return what sends all that a scenario's workload asks for."""
    scenario, settings, load = world.scenario, world.settings, world.scenario.workload
    grace_ms = settings.client.grace_ms
    clock = NodeClock(world.clock, fork().randint(-scenario.skew_ms, scenario.skew_ms))
    writer = MemoryWriter(world.broker, record_bytes_max=settings.client.record_bytes_max)
    maker = TaskMaker(load, clock=clock, grace_ms=grace_ms, pace=scenario.pace, rng=fork())
    if load.hot_partitions:
        maker.keep_to(load.hot_partitions, scenario.partitions)

    ports = ClientPorts(
        writer=writer,
        open_stores=lambda: open_memory_stores(world.data),
        clock=clock,
        telemetry=RecordingTelemetry(),
    )
    return WorkloadDriver(
        world,
        load,
        client=SchedulerClient(settings, ports, payloads=ClientCodecs() if load.sealed else None),
        maker=maker,
        producers=_make_producers(world, maker, fork()),
        outside=OutsideWriter(
            maker=maker,
            stores=open_memory_stores(world.data, world.network.to_store("outside")),
            writer=writer,
            after=world.after,
            note_written=world.truth.note_outside,
            note_left=lambda key: world.note(LeftToLoad(world.clock.monotonic_ms(), key)),
            pause_ms=load.outside_pause_ms,
            rng=fork(),
        ),
        grace_ms=grace_ms,
        rng=fork(),
    )


def _make_producers(world: ServedWorld, maker: TaskMaker, rng: random.Random) -> Producers:
    """Return the producers that nobody tells how large a record may be."""
    settings = world.settings
    return Producers(
        world.scenario.workload,
        maker=maker,
        writer=MemoryWriter(world.broker, record_bytes_max=_ANY_SIZE),
        partitions=world.broker.partitions,
        records=lambda: _records(world),
        letters=lambda: _letters(world),
        limits=SizeLimits(
            record=settings.client.record_bytes_max,
            batch=world.broker.batch_bytes_max,
            row=settings.tree.execution.row_bytes_max,
        ),
        rng=rng,
    )


def _letters(world: ServedWorld) -> list[LogRecord]:
    """Return the dead letters."""
    letters = world.broker.dead_letters
    return list(letters.read(0, letters.end_offset + 1)[0])


def _records(world: ServedWorld) -> list[LogRecord]:
    """Return what any producer may send again: all that is in the log but Hourhand's own."""
    return [
        each
        for p in range(world.scenario.partitions)
        for each in world.truth.records(p)
        if not (each.key or b"").startswith(RESERVED.encode())
    ]
