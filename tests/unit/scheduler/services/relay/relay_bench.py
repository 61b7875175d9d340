"""A relay under a virtual clock: an in-topic, a node, and what appears on topics.

The in-topic is a memory broker of its own; intake, node and tree are the real ones.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import timedelta
from typing import Any

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.log import MemoryLog
from hourhand.scheduler.adapters.memory.writer import MemoryMessage, MemoryWriter
from hourhand.scheduler.configuration.door_settings import RelaySettings
from hourhand.scheduler.services.relay.intake import IntakePorts, RelayIntake
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.testing import Execution, VirtualScheduler

OUT = "hourhand-relay-out"


class RelayBench:
    """One relay."""

    def __init__(
        self,
        relay: RelaySettings | None = None,
        *,
        in_partitions: int = 1,
        row_bytes_max: int = 8_388_608,
    ) -> None:
        self._row_bytes_max = row_bytes_max
        self.scheduler = VirtualScheduler(executors={})
        self.relay = relay or RelaySettings()
        self.scheduler.settings = self.scheduler.settings.model_copy(update={"relay": self.relay})
        self.scheduler.restart()
        self.clock = self.scheduler.clock
        self.in_topic = MemoryBroker(in_partitions, self.clock)
        self.waits: list[tuple[int, float]] = []
        """Answers the intake waited for, each time it did, and how many seconds at most."""
        self.put_aside: Callable[[LogRecord, str], Future[Any]] = MemoryWriter(
            self.in_topic
        ).dead_letter
        self.topic_id = "first"
        self._unknown: Iterator[None] = iter(())
        self.intake = self._open_intake()

    def _open_intake(self) -> RelayIntake:
        writer = MemoryWriter(self.scheduler.broker)
        appender = TaskAppender(writer, writer.partition_count())
        self.log = MemoryLog(self.in_topic, self.scheduler.settings, self.clock)
        ports = IntakePorts(
            log=self.log,
            put_aside=self.put_aside,
            appender=appender,
            definitions=DefinitionBook(
                self.scheduler.stores.definitions, appender.partition_count, self.clock
            ),
            clock=self.clock,
            telemetry=self.scheduler.telemetry,
            topic_id=self._which_topic,
            wait=lambda futures, seconds: self.waits.append((len(list(futures)), seconds)),
            row_bytes_max=self._row_bytes_max,
        )
        return RelayIntake(ports, self.relay, lambda topic: self.relay.allows_target(topic, ()))

    def crash_intake(self) -> None:
        """Lose the reading side: what it had not committed is read again by another one."""
        self.log.vanish()
        self.intake = self._open_intake()

    def unknown_for(self, times: int) -> "Iterator[None]":
        """Let the topic's id be unknown to this many requests."""
        self._unknown = iter([None] * times)
        return self._unknown

    def _which_topic(self) -> str:
        for _ in self._unknown:
            raise LogUnavailable("the test wants nobody to know")
        return self.topic_id

    def make_anew(self) -> None:
        """Delete the in-topic, with its groups' offsets, and make it again."""
        self.topic_id = "second"
        self.in_topic = MemoryBroker(len(self.in_topic.partitions), self.clock)

    def put(
        self,
        value: bytes | None = b"v",
        *,
        id: str | None = "id-1",  # noqa: A002 - what the header is called
        due_in_s: float | None = 10.0,
        key: bytes | None = b"k",
        headers: Headers = (),
        partition: int = 0,
        **control: str,
    ) -> None:
        """Append a message to the in-topic; ``action`` and ``topic`` are control headers too."""
        relay = self.relay
        own: list[tuple[str, bytes | None]] = []
        if id is not None:
            own.append((relay.id_header, id.encode()))
        if due_in_s is not None:
            due_ms = self.clock.now_ms() + round(due_in_s * 1000)
            own.append((relay.deadline_header, format_instant(due_ms).encode()))
        for name, text in control.items():
            header = {"action": relay.action_header, "topic": relay.topic_header}[name]
            own.append((header, text.encode()))
        self.put_raw(key, value, [*own, *headers], partition)

    def put_raw(
        self, key: bytes | None, value: bytes | None, headers: Headers, partition: int = 0
    ) -> None:
        """Append a message with exactly these headers."""
        self.in_topic.partitions[partition].append(self.clock.now_ms(), key, value, headers)

    def read(self) -> None:
        """Let the intake read what is there, and the node do what follows now."""
        # In the first round it may be given partitions, and in the last one it sends claims off.
        self.intake.step(0)
        while self.intake.step(0):
            pass
        self.scheduler.run_due()

    def advance(self, seconds: float) -> list[Execution]:
        """Read, then let time pass."""
        self.read()
        return self.scheduler.advance(timedelta(seconds=seconds))

    @property
    def relayed(self) -> list[MemoryMessage]:
        """What appeared on topics, in order."""
        return self.scheduler.messages.messages

    @property
    def values(self) -> list[bytes | None]:
        """The values of what appeared."""
        return [message.value for message in self.relayed]

    @property
    def committed(self) -> int:
        """The next offset of the in-topic's first partition that its group committed."""
        group = self.in_topic.group(self.scheduler.settings.group.id)
        return group.committed.get(0, 0)

    @property
    def letters(self) -> list[dict[str, bytes | None]]:
        """The headers of what was put aside."""
        records, _ = self.in_topic.dead_letters.read(0, 10_000)
        return [dict(record.headers) for record in records]
