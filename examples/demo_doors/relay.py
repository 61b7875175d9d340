"""``make demo-relay``: messages delayed by headers, three nodes, one of them killed.

Messages come at a steady rate; some ids come twice, some are cancelled or moved, a few are
malformed.  The out-topic, stamped by the broker, says what appeared and when.
"""

import struct
import threading
import time
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from examples.demo_doors.timing import quantiles, wall_s
from examples.demo_stage.checks import Check, count_check, show_checks
from examples.demo_stage.stage import Stage, on_servers, perform
from examples.demo_stage.topic import read_all
from hourhand import Settings
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler import wiring
from hourhand.scheduler.configuration.door_settings import RelaySettings

RATE = 300
_DELAYS_MS = (2_000, 6_000)
_MOVED_MS = 2_000
_CHANGED_LATER_MS = 8_000
"""Messages to cancel or move are due later, so that a busy machine is not too late."""
_LAYOUT = struct.Struct(">q")
_MALFORMED = 5
_ORDERED = 5
"""Messages of one key and one deadline that follow each other."""
_KILL_WINDOW_S = 15.0
"""A doubled message first appeared at most this long before the kill."""
_QUIET_S = 180.0


def _spread(number: int, lowest: int, beyond: int) -> int:
    """Return a number that looks picked at random, the same in every run."""
    return lowest + zlib.crc32(b"%d" % number) % (beyond - lowest)


@dataclass
class Sent:
    """Messages that went into the in-topic, by number."""

    due_ms: dict[int, int] = field(default_factory=dict)
    """Due times of all messages that must appear."""
    content: dict[int, tuple[bytes, bytes, list[Any]]] = field(default_factory=dict)
    never: set[int] = field(default_factory=set)
    """Messages that must not appear: cancelled, or a second one of a waiting id."""
    groups: defaultdict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By key: messages of one deadline, in their order."""


@dataclass
class Seen:
    """Messages that appeared on the out-topic."""

    number: int
    appended_ms: int
    key: bytes
    value: bytes
    headers: list[Any]


class Source(threading.Thread):
    """Produces messages at a steady rate."""

    def __init__(self, settings: RelaySettings, servers: str, count: int) -> None:
        super().__init__(daemon=True)
        self.sent = Sent()
        self._relay = settings
        self.count = count
        self._producer = Producer({"bootstrap.servers": servers, "linger.ms": 2, "acks": "all"})
        self._pause = threading.Event()
        self._numbers = iter(range(10**9))

    def run(self) -> None:
        """Produce everything."""
        began_s = time.monotonic()
        for number in range(self.count):
            self._pause.wait(max(0.0, began_s + number / RATE - time.monotonic()))
            self._send_one(number)
            self._producer.poll(0)
        for _ in range(_MALFORMED):
            self._producer.produce(self._relay.in_topic, b"no headers", b"poison")
        self._producer.flush(60)

    def _send_one(self, number: int) -> None:
        due_ms = int(wall_s() * 1000) + _spread(number, *_DELAYS_MS)
        kind = _spread(number, 0, 100)
        if number % 50 == 0:
            # A key of its own, so that only this group's order counts.
            key = b"ordered-%d" % number
            for each in range(_ORDERED):
                self.sent.groups[key].append(self._put(f"o-{number}-{each}", due_ms, key))
            return
        # Commands and second messages of an id follow it in its partition, so their order is known.
        name, key = f"m-{number}", b"key-%d" % (number % 400)
        if 5 <= kind < 9:
            due_ms += _CHANGED_LATER_MS
        self._put(name, due_ms, key)
        if kind < 5:
            self._put(name, due_ms + 500, key, counts=False)
        elif kind < 7:
            self._tell(name, "cancel", None, key)
            self._drop_last()
        elif kind < 9:
            self._tell(name, "reschedule", due_ms + _MOVED_MS, key)
            self.sent.due_ms[max(self.sent.due_ms)] = due_ms + _MOVED_MS

    def _drop_last(self) -> None:
        last = max(self.sent.due_ms)
        del self.sent.due_ms[last]
        self.sent.never.add(last)

    def _put(self, message_id: str, due_ms: int, key: bytes, *, counts: bool = True) -> int:
        number = next(self._numbers)
        value = _LAYOUT.pack(number) + bytes(range(150, 250))
        headers = [("a", b"\xff\x00"), ("b", None), ("a", b"")]
        if counts:
            self.sent.due_ms[number] = due_ms
            self.sent.content[number] = (key, value, headers)
        else:
            self.sent.never.add(number)
        own: list[tuple[str, str | bytes | None]] = [
            (self._relay.id_header, message_id.encode()),
            (self._relay.deadline_header, format_instant(due_ms).encode()),
        ]
        self._producer.produce(self._relay.in_topic, value, key, headers=[*own, *headers])
        return number

    def _tell(self, message_id: str, action: str, due_ms: int | None, key: bytes) -> None:
        headers: list[tuple[str, str | bytes | None]] = [
            (self._relay.id_header, message_id.encode()),
            (self._relay.action_header, action.encode()),
        ]
        if due_ms is not None:
            headers.append((self._relay.deadline_header, format_instant(due_ms).encode()))
        self._producer.produce(self._relay.in_topic, b"", key, headers=headers)


class Sink(threading.Thread):
    """Reads the out-topic."""

    def __init__(self, topic: str, servers: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self.seen: list[Seen] = []
        self.distinct: set[int] = set()
        self.closed = threading.Event()
        self._consumer = Consumer(
            {"bootstrap.servers": servers, "group.id": f"{topic}-sink", "enable.auto.commit": False}
        )
        self._consumer.assign(
            [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(partitions)]
        )

    def run(self) -> None:
        """Read until closed."""
        while not self.closed.is_set():
            for message in self._consumer.consume(500, 0.1):
                value = message.value()
                if message.error() is None and value is not None:
                    (number,) = _LAYOUT.unpack_from(value)
                    headers: Any = message.headers() or []
                    key = message.key() or b""
                    self.seen.append(Seen(number, message.timestamp()[1], key, value, headers))
                    self.distinct.add(number)
        self._consumer.close()


def play(stage: Stage, settings: Settings, messages: int) -> bool:
    """Let it happen, and judge it."""
    name, partitions = settings.topic.name, settings.topic.partitions
    relay = RelaySettings(in_topic=f"{name}-in", out_topic=f"{name}-out", group_id=f"{name}-in")
    servers = settings.kafka.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers})
    stamped = {"message.timestamp.type": "LogAppendTime"}
    for made in admin.create_topics(
        [NewTopic(relay.out_topic, partitions, 1, config=stamped)]
    ).values():
        made.result(30)
    wiring.create_relay_topics(settings.model_copy(update={"relay": relay}))
    source = Source(relay, servers, messages)
    sink = Sink(relay.out_topic, servers, partitions)
    try:
        sink.start()
        killed_s = _disturb(stage, relay, source, sink)
        stage.stop_all()
    finally:
        sink.closed.set()
        sink.join()
        for removed in admin.delete_topics([relay.in_topic, relay.out_topic]).values():
            removed.exception(30)
    letters = read_all(settings, settings.topic.dead_letter)
    # By the place of the record: what a node read and could not commit is put aside once more.
    place = ("hourhandTopic", "hourhandPartition", "hourhandOffset")
    headers = {tuple(map(each.headers.get, place)): each.headers for each in letters}
    reasons = [each["hourhandReason"] for each in headers.values() if "hourhandReason" in each]
    checks = judge(source.sent, sink.seen, killed_s, reasons)
    holds = show_checks(stage.console, "What appeared on the out-topic", checks)
    usual = [
        each.appended_ms - source.sent.due_ms[each.number]
        for each in sink.seen
        if each.number in source.sent.due_ms and each.appended_ms < killed_s * 1000
    ]
    stage.console.print(f"  late before the kill: {quantiles(usual)}\n")
    return holds


def _disturb(stage: Stage, relay: RelaySettings, source: Source, sink: Sink) -> float:
    variables = {
        "HOURHAND_RELAY__IN_TOPIC": relay.in_topic,
        "HOURHAND_RELAY__OUT_TOPIC": relay.out_topic,
        "HOURHAND_RELAY__GROUP_ID": relay.group_id,
    }
    started = ("relay",), variables, "the relay runs"
    first, second, _ = stage.start(3, *started)
    stage.say(f"three nodes run; messages come, {RATE} a second, due 2 to 6 s later")
    source.start()

    def line() -> str:
        sent = source.sent
        waiting = len(sent.due_ms) - len(sink.distinct)
        return (
            f"sent {len(sent.due_ms):>6,}   appeared {len(sink.distinct):>6,}   wait {waiting:>5,}"
        )

    part_s = source.count / RATE / 3
    stage.watch(lambda: False, part_s, line)
    stage.say("SIGTERM: one node stops, and hands its partitions over")
    stage.stop(first)
    stage.watch(lambda: False, part_s, line)
    stage.say("SIGKILL: another one dies, in the middle of whatever it does")
    killed_s = wall_s()
    stage.kill(second)
    stage.start(1, *started)
    stage.say("and a new one has started")
    stage.watch(lambda: not source.is_alive(), 300, line)
    stage.watch(lambda: source.sent.due_ms.keys() <= sink.distinct, _QUIET_S, line)
    # Time for what must not appear to do so anyway.
    stage.watch(lambda: False, 3, line)
    return killed_s


def judge(sent: Sent, seen: list[Seen], killed_s: float, letters: list[str]) -> list[Check]:
    """Compare what appeared with what was sent."""
    times = Counter(each.number for each in seen)
    first_ms: dict[int, int] = {}
    for each in seen:
        first_ms[each.number] = min(each.appended_ms, first_ms.get(each.number, 2**62))
    window_ms = (killed_s * 1000 - _KILL_WINDOW_S * 1000, killed_s * 1000 + 1_000)
    doubled = [number for number, count in times.items() if count > 1]
    at_kill = [each for each in doubled if window_ms[0] <= first_ms[each] <= window_ms[1]]
    wanted = sent.due_ms
    changed = [
        each.number
        for each in seen
        if each.number in wanted
        and (each.key, each.value, each.headers) != sent.content[each.number]
    ]
    early = [e.number for e in seen if e.number in wanted and e.appended_ms < wanted[e.number]]
    return [
        Check("messages that had to appear", f"{len(wanted):,}", f"{len(times):,}", holds=True),
        count_check("missing", [each for each in wanted if each not in times]),
        count_check("early", early),
        count_check("not byte for byte", changed),
        count_check(
            "appeared, though cancelled or of a waiting id", sorted(sent.never & set(times))
        ),
        count_check("out of order within key and deadline", _out_of_order(sent, seen)),
        Check("twice: in flight at the kill", "any", f"{len(at_kill):,}", holds=True),
        count_check("twice: for no such reason", [e for e in doubled if e not in at_kill]),
        count_check("malformed: dead-lettered, with a reason", letters, _MALFORMED),
    ]


def _out_of_order(sent: Sent, seen: list[Seen]) -> list[str]:
    """Return the keys whose messages first appeared in another order than they were sent."""
    appeared: defaultdict[bytes, list[int]] = defaultdict(list)
    for each in seen:
        if each.key in sent.groups and each.number not in appeared[each.key]:
            appeared[each.key].append(each.number)
    return [repr(key) for key, numbers in appeared.items() if numbers != sorted(numbers)]


def main(
    *,
    messages: Annotated[int, typer.Option(min=100, max=100_000, help="Messages sent.")] = 6_000,
) -> None:
    """Delay messages on real servers with three relay nodes, one of which is killed."""
    title = "Hourhand's relay on real Kafka and Cassandra"
    perform(title, on_servers(lambda stage, settings: play(stage, settings, messages)))


if __name__ == "__main__":
    typer.run(main)
