"""The doors of a simulated installation: what all its nodes share of them, and who asks.

It puts them together, and notes what the commits of the in-topic's offsets leave behind.
"""

import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.definition import RESERVED
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.configuration.settings import Settings
from tests.simulation.door_history import InCommitted
from tests.simulation.door_workload import DoorWorkload, DoorWorld
from tests.simulation.doors import IN_GROUP, DoorSite
from tests.simulation.history import History
from tests.simulation.network import Network
from tests.simulation.outlets import Targets
from tests.simulation.scenario import DoorLoad
from tests.simulation.sizes import RelayLimits
from tests.simulation.truth import WatchedDict


class WorldWithDoors(DoorWorld, Protocol):
    """The world as the doors see it."""

    settings: Settings
    history: History
    network: Network


class WorldDoors:
    """In-topic, targets, and the workload of one world."""

    def __init__(
        self, world: WorldWithDoors, load: DoorLoad, fork: Callable[[], random.Random]
    ) -> None:
        self._world = world
        self.in_topic = MemoryBroker(
            load.in_partitions, world.clock, world.network.to_log, load.in_batch_bytes_max
        )
        limits = RelayLimits(
            world.settings.relay.inline_bytes_max, world.settings.tree.execution.row_bytes_max
        )
        self.workload = DoorWorkload(world, load, self.in_topic, limits, fork())
        self.site = DoorSite(
            tasks=world.broker,
            in_topic=self.in_topic,
            settings=world.settings,
            history=world.history,
            targets=Targets(world.history, fork(), self.workload.called),
            to_log_of=world.network.to_log_of,
            pace=world.pace,
            declared=self.workload.declared if load.declared else None,
        )
        self._scanned = [0] * len(world.broker.partitions)
        self._made: set[tuple[str, str]] = set()
        """Kind and name of the relay's tasks that the log holds."""
        self._committed: WatchedDict[int, int] = WatchedDict(
            lambda partition, offset, _before: self._note_commit(partition, offset)
        )
        self.in_topic.group(IN_GROUP).committed = self._committed
        self._durable: Counter[int] = Counter()

    def is_read(self) -> bool:
        """True if every record of the in-topic is committed."""
        return all(
            self._committed.get(number, 0) >= stored.end_offset
            for number, stored in enumerate(self.in_topic.partitions)
        )

    def _note_commit(self, partition: int, next_offset: int) -> None:
        first = self._durable[partition]
        if next_offset <= first:
            return
        self._scan()
        letters = self.letters()
        undurable = tuple(
            record.offset
            for record in self.in_topic.partitions[partition].read(first, next_offset - first)[0]
            if (partition, record.offset) not in letters and not self._is_durable(record)
        )
        self._durable[partition] = undurable[0] if undurable else next_offset
        now_ms = self._world.clock.monotonic_ms()
        self._world.history.add(InCommitted(now_ms, partition, next_offset, undurable))

    def _is_durable(self, record: LogRecord) -> bool:
        name = f"{record.partition:05d}-{record.offset:019d}"
        controls = any(header == "hourhandAction" for header, _ in record.headers)
        kinds = ("claims",) if controls else ("claims", "send")
        return all((kind, name) in self._made for kind in kinds)

    def _scan(self) -> None:
        for number, stored in enumerate(self._world.broker.partitions):
            records, self._scanned[number] = stored.read(self._scanned[number], 10**9)
            for record in records:
                reserved, _, rest = (record.key or b"").decode().partition(":")
                if f"{reserved}:" == RESERVED and b'"command"' not in (record.value or b""):
                    self._note(rest.partition(":")[0], json.loads(record.value or b""))

    def _note(self, kind: str, task: dict[str, Any]) -> None:
        self._made.add((kind, task["uniquenessKey"]))
        if kind == "claims":
            self._made.update((kind, claim[2]) for claim in task["taskData"]["claims"])

    def letters(self) -> set[tuple[int, int]]:
        """Return the places of the records that were put aside."""
        letters = self.in_topic.dead_letters
        found = set()
        for letter in letters.read(0, letters.end_offset + 1)[0]:
            headers = dict(letter.headers)
            place = headers["hourhandPartition"], headers["hourhandOffset"]
            found.add((int(place[0] or b"-1"), int(place[1] or b"-1")))
        return found


def open_doors(
    world: WorldWithDoors, load: DoorLoad | None, fork: Callable[[], random.Random]
) -> WorldDoors | None:
    """Return the doors of a world whose scenario asks something of them."""
    return None if load is None else WorldDoors(world, load, fork)
