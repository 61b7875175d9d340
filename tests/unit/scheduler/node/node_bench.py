"""A Node whose log, tree and store are in the test's hand."""

import random
from collections.abc import Callable, Mapping
from typing import Any

from hourhand.actors.kernel.actor import Actor
from hourhand.actors.kernel.ref import Ref
from hourhand.actors.kernel.simulated import SimulatedSystem
from hourhand.actors.kernel.supervision import FailureListener
from hourhand.actors.messages import (
    PersistRecords,
    RecordsPersisted,
)
from hourhand.actors.model.values.settings import RecoverySettings, TreeSettings
from hourhand.actors.ports.log import AssignmentListener, Polled, StartPosition
from hourhand.scheduler.node.lease import Lease
from hourhand.scheduler.node.node import Node
from tests.builders import a_record
from tests.unit.probes import Harness, ProbeActor

PAUSE_MS = 100

LEASE_MS = 30_000

COMMIT_MS = 1_000

PERSIST_MS = 5_000


class FakeLog:
    """A log that delivers what the test puts into it.  Implements ``TaskLog``."""

    def __init__(self) -> None:
        self.listener: AssignmentListener
        self.started: list[tuple[int, int | None]] = []
        self.sought: list[tuple[int, int | None]] = []
        """Partition, and from where to deliver again; None where nothing is to be delivered."""
        self.polled: list[Polled] = []
        self.asked: list[int] = []
        """How many records each poll asked for."""
        self.commits: list[dict[int, int]] = []
        self.lease_ms = float("inf")
        self.end_offset = 100
        self.start_error: Exception | None = None
        self.seek_error: Exception | None = None
        self.seek_error_of: frozenset[int] | None = None
        """The partitions that cannot be sought; None for all."""
        self.refused: list[int] = []
        self.meanwhile: Callable[[], None] = lambda: None
        """What happens elsewhere while a partition is begun."""
        self.closed = False

    def subscribe(self, listener: AssignmentListener) -> None:
        """Keep the listener."""
        self.listener = listener

    def start(
        self, partition: int, stored_next_offset: int | None, stored_topic_id: str = ""
    ) -> StartPosition:
        """Begin at what the store knows."""
        if self.start_error is not None:
            self.refused.append(partition)
            raise self.start_error
        self.started.append((partition, stored_next_offset))
        self.meanwhile()
        return StartPosition(stored_next_offset or 0, self.end_offset)

    def seek(self, partition: int, next_offset: int | None) -> None:
        """Note from where to deliver again."""
        concerned = self.seek_error_of is None or partition in self.seek_error_of
        if self.seek_error is not None and concerned:
            raise self.seek_error
        self.sought.append((partition, next_offset))

    def poll(self, records_max: int, timeout_ms: int) -> Polled:
        """Return what the test put in."""
        self.asked.append(records_max)
        return self.polled.pop(0) if self.polled and records_max else Polled()

    def commit(self, next_offsets: Mapping[int, int]) -> None:
        """Note the offsets."""
        self.commits.append(dict(next_offsets))

    def lease_ends_ms(self) -> float:
        """Return what the test says."""
        return self.lease_ms

    def close(self) -> None:
        """Note it."""
        self.closed = True


class ProbedSystem(SimulatedSystem):
    """Starts a probe wherever the node starts a tree."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.roots: list[ProbeActor] = []

    def spawn_root(self, actor: Actor) -> Ref:
        """Start a probe."""
        self.roots.append(ProbeActor())
        return super().spawn_root(self.roots[-1])


class Bench:
    """A Node whose log, tree and store are in the test's hand."""

    def __init__(self) -> None:
        recovery = RecoverySettings(
            rebuild_pause_min_ms=PAUSE_MS,
            rebuild_pause_max_ms=1_000,
            persist_deadline_ms=PERSIST_MS,
        )
        self.harness = Harness(TreeSettings(recovery=recovery), partition_count=4)
        self.clock = self.harness.clock
        self.requests = self.harness.requests
        self.log = FakeLog()
        self.lease = Lease(self.clock, self.log.lease_ends_ms)
        self.system: ProbedSystem
        self.fail: FailureListener

        def make_system(on_failure: FailureListener) -> ProbedSystem:
            self.fail = on_failure
            self.system = ProbedSystem(self.clock, on_failure)
            return self.system

        self.node = Node(
            log=self.log,
            lease=self.lease,
            clock=self.clock,
            effects=self.harness.effects,
            make_system=make_system,
            commit_interval_ms=COMMIT_MS,
            lease_ms=LEASE_MS,
            rng=random.Random(1),
        )

    def step(self, times: int = 1) -> None:
        """Do rounds, and let the tree hear what it was told."""
        for _ in range(times):
            self.node.step(0)
            while self.system.run_one():
                pass

    def assign(self, *partitions: int) -> None:
        """Assign partitions and let them be claimed."""
        self.log.listener.assigned(partitions)
        self.step(3)

    def told(self, kind: type[Any] | tuple[type[Any], ...]) -> list[Any]:
        """Return what the newest tree was told of a kind, or of several."""
        return [m for m in self.system.roots[-1].messages if isinstance(m, kind)]

    def poll(self, partition: int, *offsets: int) -> int:
        """Deliver records; return the batch they went with."""
        records = tuple(a_record(partition=partition, offset=offset) for offset in offsets)
        self.log.polled.append(Polled(records, {partition: offsets[-1] + 1}))
        self.step()
        batch = self.told(PersistRecords)[-1]
        assert [record.offset for record in batch.records] == list(offsets)
        return int(batch.batch)

    def committed(self) -> dict[int, int]:
        """Let the commit interval pass and return what is committed."""
        self.clock.advance(COMMIT_MS)
        self.step()
        return self.log.commits[-1]

    def persisted(self, *batches: int) -> None:
        """Answer batches as the tree."""
        for batch in batches:
            self.node.tell(RecordsPersisted(batch))
