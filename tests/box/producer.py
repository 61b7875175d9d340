"""The records in the log of a box: tasks, commands, poison, and records of another partition.

It draws them from a seed and tells the ledger; when the owner reads them is not its matter.
"""

import random
import zlib
from collections.abc import Iterator

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.task.codec import (
    Command,
    CommandKind,
    LogRecord,
    encode_command,
    encode_parts,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from tests.box.configurations import Configuration
from tests.box.kinds import PLAIN, TENANT
from tests.box.ledger import Ledger
from tests.box.owner import PARTITION
from tests.builders import CHANGING
from tests.simulation.truth import Truth

PARTITIONS = 2


class LogProducer:
    """All that write to the partition."""

    def __init__(
        self,
        configuration: Configuration,
        clock: VirtualClock,
        rng: random.Random,
        broker: MemoryBroker,
        truth: Truth,
        ledger: Ledger,
    ) -> None:
        self.ids = tuple(ids_of(PARTITION, configuration.ids))
        self._configuration, self._clock, self._rng = configuration, clock, rng
        self._log, self._truth, self._ledger = broker.partitions[PARTITION], truth, ledger
        self._numbers = 0

    @property
    def end_offset(self) -> int:
        """Return the end of the partition's log."""
        return self._log.end_offset

    def kind_of(self, key: TaskKey) -> str | None:
        """Return the kind of a task: its key says."""
        kinds = self._configuration.kinds
        return kinds[zlib.crc32(key.uniqueness_key.encode()) % len(kinds)]

    def append_several(self) -> None:
        """Append some records at once."""
        for _ in range(self._rng.randrange(2, 7)):
            self.append()

    def append(self) -> None:
        """Append any record."""
        shape, rng, keys = self._configuration, self._rng, self._ledger.known_keys()
        if shape.foul and rng.random() < shape.foul:
            self._append_foul()
        elif keys and rng.random() < shape.commands:
            self.append_command(rng.choice(keys), rng.choice(CHANGING))
        elif keys and rng.random() < shape.again:
            self._append_task(rng.choice(keys))
        else:
            self.append_new(late=rng.random() < shape.late)

    def append_new(self, *, late: bool) -> None:
        """Append a task of a new key, with ``late`` one that was due long ago."""
        rng, now_ms = self._rng, self._clock.now_ms()
        due_ms, ids = now_ms + rng.choice((0, 0, 1, 30, 100, 400, 1_500)), self.ids
        if late:
            due_ms = now_ms - rng.choice((1, 250, 5_000, 6_000, 30_000, 4_000_000))
            ids = ids[: self._configuration.late_ids]
        self._numbers += 1
        self._append_task(TaskKey(due_ms, rng.choice(ids), str(self._numbers)))

    def append_command(self, key: TaskKey, kind: CommandKind) -> None:
        """Append a command."""
        to_ms = None
        if kind is CommandKind.RESCHEDULE:
            to_ms = self._clock.now_ms() + self._rng.choice((-50, 0, 100, 600))
        self._append_value(key.ordering_id, encode_command(Command(kind, key, to_ms=to_ms)))

    def append_about(self, key: TaskKey, kind: CommandKind | str) -> None:
        """Append a command, one more ``record``, or ``any`` of them, about this key."""
        if isinstance(kind, CommandKind):
            self.append_command(key, kind)
        elif kind == "any" and self._rng.random() < 0.6:
            self.append_command(key, self._rng.choice(CHANGING))
        else:
            self._append_task(key)

    def append_again(self, key: TaskKey) -> None:
        """Append one more record of this key."""
        self._append_task(key)

    def append_for_later(self, count: int) -> None:
        """Append so many new tasks that are due within some seconds, of few ordering ids."""
        for _ in range(count):
            late_ids = self.ids[: self._configuration.late_ids]
            self.append_due(self._rng.randrange(600, 6_000), self._rng.choice(late_ids))

    def append_on_time(self, count: int) -> None:
        """Append so many new tasks that are due soon, of any ordering id."""
        for _ in range(count):
            self.append_due(self._rng.randrange(100, 1_500), self._rng.choice(self.ids))

    def append_due(self, in_ms: int, ordering_id: str) -> None:
        """Append a new task."""
        self._numbers += 1
        key = TaskKey(self._clock.now_ms() + in_ms, ordering_id, str(self._numbers))
        self._append_task(key)

    def fresh_ids(self, count: int) -> list[str]:
        """Return so many ordering ids of which nothing is open in the end."""
        return list(ids_of(PARTITION, len(self.ids) + count))[len(self.ids) :]

    def append_probes(self, count: int) -> None:
        """Append a task that is due now for each of so many new ordering ids."""
        # The tasks are of many flows: one alone does not get all slots.
        kind = TENANT if self._configuration.flows else PLAIN
        for ordering_id in self.fresh_ids(count):
            self.append_plain(ordering_id, kind)

    def append_plain(
        self, ordering_id: str, kind: str | None = PLAIN, *, tenant: str | None = None
    ) -> None:
        """Append a new task that is due now, of one kind whatever its key; without a tenant, of
        one for each ordering id.
        """
        self._numbers += 1
        key = TaskKey(self._clock.now_ms(), ordering_id, f"{self._numbers}-probe")
        self._append_value(ordering_id, encode_parts(key, {"tenant": tenant or ordering_id}, kind))

    def _append_task(self, key: TaskKey) -> None:
        data = {
            "tenant": self._rng.choice("abc"),
            "pad": "x" * (self._configuration.pad_bytes + self._rng.choice((0, 0, 0, 200, 5_000))),
            "offset": self.end_offset,
        }
        self._append_value(key.ordering_id, encode_parts(key, data, self.kind_of(key)))

    def _append_foul(self) -> None:
        if self._rng.random() < 0.5:
            self._append_value("nobody", b"{")
            return
        stranger = next(ids_of(1 - PARTITION, 1))
        key = TaskKey(self._clock.now_ms(), stranger, str(self.end_offset))
        self._append_value(stranger, encode_parts(key, {"offset": self.end_offset}))

    def _append_value(self, ordering_id: str, value: bytes) -> None:
        now_ms = self._clock.now_ms()
        offset = self._log.append(now_ms, ordering_id.encode(), value, ())
        record = LogRecord(PARTITION, offset, now_ms, ordering_id.encode(), value)
        entry = self._truth.entry(record)
        if not isinstance(entry, str):
            self._ledger.note_record(entry)


def ids_of(partition: int, count: int) -> Iterator[str]:
    """Yield ordering ids of one partition."""
    number = found = 0
    while found < count:
        ordering_id = f"id-{number}"
        number += 1
        if partition_of(ordering_id, PARTITIONS) == partition:
            found += 1
            yield ordering_id
