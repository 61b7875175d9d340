"""Parts of the log suite: the world to bind, a member that behaves like a node, a bench.

Nothing here asserts the contract itself; see ``task_log``.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_futures
from dataclasses import dataclass, field
from typing import Protocol

from hourhand.actors.model.task.codec import Headers, LogRecord
from hourhand.actors.model.values.errors import LogUnavailable
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.log import LogWriter, Polled, StartPosition, TaskLog
from hourhand.scheduler.configuration.settings import GroupSettings

WAIT_S = 60.0
"""Longest wait for anything that must happen."""
QUICK = GroupSettings(
    session_timeout_ms=3_000,
    heartbeat_interval_ms=100,
    max_poll_interval_ms=6_000,
    lease_margin_ms=500,
    commit_interval_ms=100,
)
"""A group whose members are missed soon."""


class LogTopic(Protocol):
    """One fresh topic, with its dead-letter topic."""

    def open_log(self, group: GroupSettings = QUICK) -> TaskLog:
        """Open one more member of the group ``group.id`` on this topic, not yet subscribed."""

    def open_writer(self) -> LogWriter:
        """Open a writer to this topic; the suite closes it."""

    def dead_letters(self, count: int) -> Sequence[LogRecord]:
        """Wait (bounded) for ``count`` records of the dead-letter topic and return them."""

    def append_foreign(
        self, partition: int, key: bytes | None, value: bytes | None, headers: Headers
    ) -> None:
        """Append as a producer does that is not ours; returns when it is acknowledged."""

    def trim(self, partition: int, before_offset: int) -> None:
        """Remove the records before an offset, as retention does; returns when it is done."""

    def make_anew(self) -> None:
        """Delete the topic and make it again; only where topics have ids."""

    def close(self) -> None:
        """Let go of the topic; every log and writer is closed already."""


class LogWorld(Protocol):
    """The source of topics, and the abilities of the adapter."""

    members_max: int
    has_lease_expiry: bool
    clock: Clock
    record_bytes_max: int
    """A record of this size is accepted, one of twice this size is refused."""
    bounds_batches: bool
    """True if a record is bounded with its headers, as it is compressed, beside that limit."""
    loses_last_records: bool
    """True if retention may remove the last record of a partition."""
    topics_have_ids: bool
    """True if a topic can be recreated, and is told from the one before."""

    def create_topic(self, partitions: int) -> LogTopic:
        """Create a topic that no other test has seen, and nothing in it."""


@dataclass
class Member:
    """A member of the group as a node would be one: starts what it is assigned, notes all."""

    name: str
    log: TaskLog
    history: list[str] = field(default_factory=list)
    """Events of all members of a test, in order."""
    stored: Mapping[int, int] = field(default_factory=dict)
    """Next offsets that this member's store would know."""
    stored_topic_id: str = ""
    """The topic that they belong to."""
    starts: dict[int, StartPosition] = field(default_factory=dict)
    owned: set[int] = field(default_factory=set)
    records: list[LogRecord] = field(default_factory=list)
    reached: dict[int, int] = field(default_factory=dict)
    revocations: "list[Future[Mapping[int, int]]]" = field(default_factory=list)
    holds_revocations: bool = False
    starts_when_assigned: bool = True

    def assigned(self, partitions: Sequence[int]) -> None:
        """Note the partitions; ``poll`` starts them."""
        self.owned.update(partitions)
        self.history.append(f"{self.name} assigned {sorted(partitions)}")

    def revoking(self, partitions: Sequence[int]) -> "Future[Mapping[int, int]]":
        """Give up the partitions at what was reached, at once or when the test says so."""
        self.history.append(f"{self.name} revoking {sorted(partitions)}")
        future: Future[Mapping[int, int]] = Future()
        offsets = {each: self.next_offset(each) for each in partitions if each in self.starts}
        self._forget(partitions)
        self.revocations.append(future)
        if not self.holds_revocations:
            future.set_result(offsets)
        return future

    def lost(self, partitions: Sequence[int]) -> None:
        """Forget the partitions."""
        self.history.append(f"{self.name} lost {sorted(partitions)}")
        self._forget(partitions)

    def next_offset(self, partition: int) -> int:
        """Return where this member would read on."""
        return self.reached.get(partition, self.starts[partition].next_offset)

    def poll(self, records_max: int = 100, timeout_ms: int = 20) -> Polled:
        """Start what was assigned, then take what is there."""
        if self.starts_when_assigned:
            for partition in sorted(self.owned - self.starts.keys()):
                self.start(partition)
        polled = self.log.poll(records_max, timeout_ms)
        self.records.extend(polled.records)
        self.reached.update(
            (partition, offset)
            for partition, offset in polled.reached.items()
            if partition in self.owned
        )
        return polled

    def start(self, partition: int) -> bool:
        """Start a partition; False where the log does not answer in time, so try again."""
        try:
            noted = self.stored.get(partition), self.stored_topic_id
            self.starts[partition] = self.log.start(partition, *noted)
        except LogUnavailable as error:
            self.history.append(f"{self.name} could not start {partition}: {error}")
            return False
        return True

    def commit(self) -> None:
        """Ask to commit what was reached of what is owned."""
        self.log.commit({each: self.next_offset(each) for each in self.starts})

    def values(self, partition: int) -> list[bytes | None]:
        """Return the values read of a partition, in the order of delivery."""
        return [each.value for each in self.records if each.partition == partition]

    def _forget(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self.owned.discard(partition)
            self.starts.pop(partition, None)
            self.reached.pop(partition, None)


def poll_until(condition: Callable[[], bool], *members: Member, committing: bool = False) -> None:
    """Poll the members in turn until the condition holds; fails after ``WAIT_S``."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "\n".join(members[0].history) or "nothing happened"
        for member in members:
            member.poll()
            if committing and member.starts:
                member.commit()


def poll_for(duration_s: float, *members: Member) -> None:
    """Poll the members in turn for a while."""
    deadline = time.monotonic() + duration_s
    while time.monotonic() < deadline:
        for member in members:
            member.poll()


def append_all(
    writer: LogWriter,
    partition: int,
    values: Sequence[bytes],
    headers: Headers = (),
) -> list[int]:
    """Append the values in order and return their offsets once they are acknowledged."""
    futures = [writer.append(partition, b"key", value, headers) for value in values]
    assert not wait_futures(futures, timeout=WAIT_S).not_done
    positions = [future.result() for future in futures]
    assert {each.partition for each in positions} == {partition}
    return [each.offset for each in positions]


class Bench:
    """One topic of a test, with everything opened on it closed at its end."""

    def __init__(self, world: LogWorld, partitions: int) -> None:
        self.topic = world.create_topic(partitions)
        self.history: list[str] = []
        self._logs: list[TaskLog] = []
        self._writers: list[LogWriter] = []

    def writer(self) -> LogWriter:
        """Open a writer."""
        self._writers.append(self.topic.open_writer())
        return self._writers[-1]

    def join(self, name: str, group: GroupSettings = QUICK) -> Member:
        """Open a member and subscribe it."""
        member = Member(name, self.topic.open_log(group), self.history)
        self._logs.append(member.log)
        member.log.subscribe(member)
        return member

    def leave(self, member: Member) -> None:
        """Close a member for good."""
        self._logs.remove(member.log)
        member.log.close()

    def close(self) -> None:
        """Close whatever the test left open."""
        for log in self._logs:
            log.close()
        for writer in self._writers:
            writer.close()
        self.topic.close()
