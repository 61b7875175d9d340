"""Records of producers other than the client: late, doubled, misplaced and poison.

It decides what and where, from the run's random numbers; it writes straight to the log.
"""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from hourhand.actors.model.task.codec import (
    Command,
    CommandKind,
    LogRecord,
    decode_record,
    encode_command,
    encode_task,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.task import ID_BYTES_MAX, StoredTask
from hourhand.actors.model.values.errors import PoisonRecord
from hourhand.actors.ports.log import LogWriter, Position
from hourhand.scheduler.adapters.memory.broker import MemoryPartition
from tests.builders import CHANGING
from tests.simulation.scenario import Workload
from tests.simulation.sealing import swapped
from tests.simulation.sizes import any_headers, size_about, sized_command
from tests.simulation.task_maker import FIRST_TENANT, TaskMaker


class SizeLimits(NamedTuple):
    """Sizes that records may have, in bytes."""

    record: int
    """For a client and a node that appends."""
    batch: int
    """For the log, headers included."""
    row: int
    """For the store."""


_POISON: tuple[bytes, ...] = (
    b"",
    b"{",
    b'{"orderingId":"h0"}',
    b'{"orderingId":"","scheduledTime":"2026-01-01T00:00:00.000Z","uniquenessKey":"x"}',
    b'{"orderingId":"h0","scheduledTime":"2026-01-01T00:00:00Z","uniquenessKey":"x","version":9}',
    b'{"orderingId":"h0","scheduledTime":"soon","uniquenessKey":"x","taskData":{},"version":1}',
    b"x" * 3_000,
)


class Producers:
    """Writes to the log what no client would."""

    def __init__(
        self,
        workload: Workload,
        *,
        maker: TaskMaker,
        writer: LogWriter,
        records: Callable[[], Sequence[LogRecord]],
        letters: Callable[[], Sequence[LogRecord]],
        partitions: Sequence[MemoryPartition],
        limits: SizeLimits,
        rng: random.Random,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self._workload = workload
        self._maker = maker
        self._writer = writer
        self._records = records
        self._letters = letters
        self._partitions = partitions
        self.limits = limits
        self._rng = rng
        self._sized: list[TaskKey] = []
        self.sent_again: set[tuple[int, int]] = set()
        """Partition and offset of records that stood in the log before."""

    def send_strange(self) -> TaskKey | None:
        """Append something; return the key of the task, where it is one that will run."""
        lot = self._rng.random()
        if lot < 0.25:
            self._send_poison()
        elif lot < 0.45:
            self._send_again()
        elif lot < 0.55:
            self._send_misplaced_command()
        elif lot < 0.75:
            due_ms = self._maker.clock.now_ms() + self._rng.randrange(
                -2_000, self._maker.paced(self._workload.ahead_ms)
            )
            return self._send_task(due_ms, self._maker.healthy_id(), misplaced=True)
        else:
            due_ms = self._maker.clock.now_ms() - self._rng.choice(self._workload.late_ms)
            return self._send_task(due_ms, self._maker.healthy_id())
        return None

    def send_late(self) -> int:
        """Append overdue tasks of one id, the first of which lasts; return their partition."""
        ordering_id = self._maker.sick_id()
        first_ms = self._maker.clock.now_ms() - self._rng.choice(self._workload.late_ms)
        plans = [[self._maker.hang()], ["ok:5"], ["ok:5"]][self._rng.randrange(2) :]
        for number, runs in enumerate(plans):
            self.send_planned(ordering_id, first_ms + 500 * number, runs)
            self.counts["late record"] += 1
        return partition_of(ordering_id, self._writer.partition_count())

    def send_planned(self, ordering_id: str, due_ms: int, runs: list[str]) -> None:
        """Append a blocking task whose attempts go as planned."""
        key = TaskKey(due_ms, ordering_id, self._maker.next_name())
        task = self._maker.task(key, self._maker.plan(runs, blocking=True))
        self._append(key, encode_task(task))

    def send_backlog_task(self) -> None:
        """Append a task somewhere around now, as a producer does that nobody checks."""
        reach_ms = self._maker.paced(self._workload.backlog_ahead_ms)
        due_ms = self._maker.clock.now_ms() + self._rng.randrange(-reach_ms, reach_ms)
        share = self._workload.backlog_of_one
        if share and self._rng.random() < share:
            self._send_of_first_tenant(self._maker.clock.now_ms() - self._rng.randrange(reach_ms))
        else:
            self._send_task(due_ms, self._maker.ordering_id())

    def _send_of_first_tenant(self, due_ms: int) -> None:
        name = self._maker.next_name()
        data = self._maker.plan(["ok:1000"], blocking=False) | {"tenant": FIRST_TENANT}
        key = TaskKey(due_ms, f"b{name}", name)
        self._append(key, encode_task(self._maker.task(key, data)))

    def _send_task(self, due_ms: int, ordering_id: str, *, misplaced: bool = False) -> TaskKey:
        key = TaskKey(due_ms, ordering_id, self._maker.next_name())
        task = self._maker.task(key, self._maker.plan(["ok:5"], blocking=False))
        self.counts["late record"] += due_ms < self._maker.clock.now_ms()
        self._append(key, encode_task(task), misplaced=misplaced)
        return key

    def send_sized(self) -> TaskKey:
        """Append a task about as large as some limit, with any headers, astray or not."""
        rng = self._rng
        if self._sized and rng.random() < self._workload.sized_commands:
            return self._send_sized_command(rng.choice(self._sized[-20:]))
        due_ms = self._maker.clock.now_ms() + rng.randrange(self._maker.paced(3_000))
        key = TaskKey(due_ms, self._maker.healthy_id(), self._maker.next_name())
        value = self._maker.padded(key, size_about(self.limits, rng) - rng.choice((0, 0, 82)))
        self._sized.append(key)
        self._append_anywhere(key, value)
        return key

    def _send_sized_command(self, key: TaskKey) -> TaskKey:
        """Append a command of such a task, about as large as some limit, astray or not."""
        kind = self._rng.choice(CHANGING)
        value = sized_command(key, kind, self.limits, self._rng)
        self.counts["sized command"] += 1
        self._append_anywhere(key, value)
        return key

    def send_swapped(self) -> None:
        """Append a task with the sealed data of another one, which no node may open."""
        records = self._records()
        if not records:
            return
        due_ms = self._maker.clock.now_ms() + self._rng.randrange(self._maker.paced(3_000))
        key = TaskKey(due_ms, self._maker.sick_id(), self._maker.next_name())
        task = swapped(self._rng.choice(records), key)
        if task is not None:
            self.counts["swapped sealed data"] += 1
            self._append(key, encode_task(task))

    def lettered(self) -> list[TaskKey]:
        """Return the keys of tasks that became dead letters."""
        return [entry.key for entry in map(_read, self._letters()) if entry is not None]

    def replay_letter(self) -> TaskKey | None:
        """Bring back the task of a dead letter, as the admin API does; return its key."""
        entries = [entry for entry in map(_read, self._letters()) if entry is not None]
        if not entries:
            return None
        entry = self._rng.choice(entries)
        self.counts["replayed dead letter"] += 1
        replay = Command(CommandKind.RETRY, entry.key, body=entry.body)
        self._append(entry.key, encode_command(replay))
        return entry.key

    def _append_anywhere(self, key: TaskKey, value: bytes) -> None:
        rng, count = self._rng, len(self._partitions)
        headers = any_headers(rng, self.limits.batch)
        own = partition_of(key.ordering_id, count)
        astray = rng.random() < self._workload.sized_misplaced
        partition = (own + astray) % count
        self.counts["sized record"] += 1
        self.counts["misplaced record"] += partition != own
        name = key.ordering_id.encode()
        if rng.random() < 0.5:
            self._writer.append(partition, name, value, headers)
        else:
            # Packed better than this log's own writers pack it.
            self._partitions[partition].append(self._maker.clock.now_ms(), name, value, headers)

    def _send_poison(self) -> None:
        """Append what cannot be read, or can be read and never be stored."""
        self.counts["poison record"] += 1
        key = TaskKey(self._maker.clock.now_ms(), self._maker.healthy_id(), "p")
        kind = self._rng.randrange(4)
        if kind == 0:
            task = self._maker.task(key, {"pad": "x" * self.limits.row})
            self._append(key, encode_task(task))
        elif kind == 1:
            # Its maker does not know how long an id may be.
            value = encode_task(self._maker.task(key, {}))
            long = b'"uniquenessKey":"' + b"x" * (ID_BYTES_MAX + 1)
            self._append(key, value.replace(b'"uniquenessKey":"p', long))
        else:
            partition = self._rng.randrange(self._writer.partition_count())
            self._writer.append(partition, b"any", self._rng.choice(_POISON))

    def _send_again(self) -> None:
        """Append a record that is in the log already, as a producer does that heard nothing."""
        records = self._records()
        if records:
            record = self._rng.choice(records)
            self.counts["replayed record"] += 1
            sent = self._writer.append(record.partition, record.key or b"", record.value or b"")
            sent.add_done_callback(self._note_again)

    def _note_again(self, sent: "Future[Position]") -> None:
        if sent.exception() is None:
            self.sent_again.add((sent.result().partition, sent.result().offset))

    def _send_misplaced_command(self) -> None:
        records = self._records()
        if records:
            key = TaskKey(self._maker.clock.now_ms() + 3_000, self._maker.healthy_id(), "m")
            kind = self._rng.choice((CommandKind.CANCEL, CommandKind.RUN_NOW))
            self._append(key, encode_command(Command(kind, key)), misplaced=True)

    def _append(self, key: TaskKey, value: bytes, *, misplaced: bool = False) -> None:
        count = self._writer.partition_count()
        partition = partition_of(key.ordering_id, count)
        if misplaced:
            self.counts["misplaced record"] += 1
            partition = (partition + 1) % count
        self._writer.append(partition, key.ordering_id.encode(), value)


def _read(letter: LogRecord) -> StoredTask | None:
    try:
        entry = decode_record(letter)
    except PoisonRecord:
        return None
    return entry if isinstance(entry, StoredTask) else None
