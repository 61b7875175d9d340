"""``python -m examples.demo_kafka_only``: messages that wait in Kafka alone, on three nodes.

One of the nodes is killed on the way.  A reader of committed records sees what appears; the exit
code is 0 only if every message appeared exactly once and none early.
"""

import json
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import timedelta
from typing import Annotated

import typer
from confluent_kafka import Consumer, Producer

from examples.demo_doors.timing import quantiles
from examples.demo_stage.checks import Check, count_check, show_checks
from examples.demo_stage.stage import READY_S, Stage, perform
from hourhand import SchedulerClient, Settings
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.wiring import create_bucket_topics
from tests.servers.__main__ import STATE_FILE
from tests.servers.kafka import KafkaServer

NODES = 3
DELAYS_MS = (100, 8_000)
_COMMAND = ("relay", "--storage", "kafka")
_SERVERS = "HOURHAND_KAFKA__BOOTSTRAP_SERVERS"
_LAST_S = 40.0
"""Seconds after the last deadline until a message counts as missing."""
_SETTLE_S = 4.0
_QUIET_S = 2.0
"""Seconds of reading after all messages are there, to find doubled ones."""


class Reader:
    """A reader of committed records of the out-topic, which notes the time of each."""

    def __init__(self, settings: Settings) -> None:
        self.seen: list[tuple[int, int]] = []
        self._clock = SystemClock()
        self._stopped = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": settings.kafka.bootstrap_servers,
                "group.id": f"{settings.relay.out_topic}-reader",
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
            }
        )
        self._consumer.subscribe([settings.relay.out_topic])
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Read no more."""
        self._stopped.set()
        self._thread.join()
        self._consumer.close()

    def _run(self) -> None:
        while not self._stopped.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.seen.append((int(message.value() or b"0"), self._clock.now_ms()))


@contextmanager
def _broker(stage: Stage) -> Iterator[str]:
    if _SERVERS in os.environ:
        yield os.environ[_SERVERS]
    elif STATE_FILE.is_file():
        stage.say("broker: that of `make up`")
        yield json.loads(STATE_FILE.read_text())["kafka"]["bootstrap_servers"]
    else:
        stage.say("broker: starting one (ten seconds)")
        with KafkaServer(stage.folder / "kafka") as kafka:
            yield kafka.bootstrap_servers


def _settings(servers: str) -> Settings:
    name = f"demo-{uuid.uuid4().hex[:8]}"
    return Settings(
        log="kafka",
        store="kafka",
        kafka={"bootstrap_servers": servers},
        topic={"name": name, "dead_letter": f"{name}-letters", "partitions": 4},
        group={"id": name, "session_timeout_ms": 6_000, "heartbeat_interval_ms": 250},
        relay={"in_topic": f"{name}-in", "out_topic": f"{name}-out", "group_id": f"{name}-in"},
        buckets={"topic": name, "group_id": name, "partitions": 6, "transaction_timeout_ms": 5_000},
    )


def _variables(settings: Settings) -> dict[str, str]:
    """Return the environment variables that give a node these settings."""
    groups = ("kafka", "topic", "group", "relay", "buckets")
    return {
        f"HOURHAND_{group}__{name}".upper(): str(value)
        for group in groups
        for name, value in settings.model_dump(exclude_unset=True)[group].items()
    }


class Play:
    """Sends, kills, and waits."""

    def __init__(
        self, stage: Stage, settings: Settings, reader: Reader, rate: int, seconds: int
    ) -> None:
        self._stage = stage
        self._settings = settings
        self._rate = rate
        self._count = rate * seconds
        self._clock = SystemClock()
        self._pause = threading.Event()
        self.reader = reader
        self.due_ms: dict[int, int] = {}
        self.killed_ms = 0

    def run(self) -> None:
        """Send half by the library and half through the in-topic, and kill a node half-way."""
        stage = self._stage
        for _ in range(NODES):
            stage.begin(_COMMAND)
        with SchedulerClient(self._settings) as client, ThreadPoolExecutor(1) as pool:
            # A message that comes through says that the nodes have joined and begun.
            self._send(client, 0, 0)
            stage.require(lambda: 0 in self._found(), READY_S, "pass a message on")
            stage.say("three nodes run, and share the partitions")
            stage.pause(_SETTLE_S)
            sending = pool.submit(self._send_all, client)
            half_s = self._count / self._rate / 2
            stage.watch(sending.done, half_s, self._line)
            stage.kill(stage.nodes[0])
            self.killed_ms = self._clock.now_ms()
            stage.say("SIGKILL: one node dies, in the middle of whatever it does")
            stage.watch(sending.done, _LAST_S + half_s, self._line)
            sending.result()
        last_s = (max(self.due_ms.values()) - self._clock.now_ms()) / 1000 + _LAST_S
        stage.watch(lambda: self.due_ms.keys() <= self._found(), last_s, self._line)
        # Time for what must not appear to do so anyway.
        stage.pause(_QUIET_S)

    def _send_all(self, client: SchedulerClient) -> None:
        producer = Producer({"bootstrap.servers": self._settings.kafka.bootstrap_servers})
        began_s = time.monotonic()
        for number in range(1, self._count + 1):
            # Spread evenly, and the same with every run.
            delay_ms = DELAYS_MS[0] + number * 2_741 % (DELAYS_MS[1] - DELAYS_MS[0])
            if number % 2:
                self._send(client, number, delay_ms)
            else:
                self._put(producer, number, delay_ms)
            self._pause.wait(max(0.0, began_s + number / self._rate - time.monotonic()))
        producer.flush(30)

    def _send(self, client: SchedulerClient, number: int, delay_ms: int) -> None:
        topic, when = self._settings.relay.out_topic, timedelta(milliseconds=delay_ms)
        sent = client.send_later(b"%d" % number, b"%d" % number, topic, when)
        self.due_ms[number] = sent.result(30).key.scheduled_ms

    def _put(self, producer: Producer, number: int, delay_ms: int) -> None:
        due_ms = self._clock.now_ms() + delay_ms
        headers: list[tuple[str, str | bytes | None]] = [
            ("chronosMessageId", b"message-%d" % number),
            ("chronosDeadline", format_instant(due_ms).encode()),
        ]
        name = b"%d" % number
        producer.produce(self._settings.relay.in_topic, name, name, headers=headers)
        producer.poll(0)
        self.due_ms[number] = due_ms

    def _found(self) -> set[int]:
        return {number for number, _ in list(self.reader.seen)}

    def _line(self) -> str:
        sent, found = len(self.due_ms), len(self.reader.seen)
        return f"sent {sent:>6,}   appeared {found:>6,}   waiting {sent - found:>6,}"


def judge(due_ms: dict[int, int], seen: list[tuple[int, int]]) -> list[Check]:
    """Compare what appeared, with its time, with what was sent."""
    counted = Counter(number for number, _ in seen)
    early = [number for number, read_ms in seen if read_ms < due_ms[number]]
    return [
        count_check("messages that appeared", due_ms.keys() & counted.keys(), len(due_ms)),
        count_check("twice", [number for number, times in counted.items() if times > 1]),
        count_check("early", early),
    ]


def play(stage: Stage, rate: int, seconds: int) -> bool:
    """Let it happen, and judge it."""
    with ExitStack() as closing_all:
        settings = _settings(closing_all.enter_context(_broker(stage)))
        create_bucket_topics(settings)
        wiring.create_relay_topics(settings)
        stage.variables = _variables(settings)
        reader = closing_all.enter_context(closing(Reader(settings)))
        closing_all.callback(stage.stop_all)
        played = Play(stage, settings, reader, rate, seconds)
        played.run()
    due_ms, seen = played.due_ms, reader.seen
    holds = show_checks(stage.console, "Messages that waited in Kafka alone", judge(due_ms, seen))
    late = {number: read_ms - due_ms[number] for number, read_ms in seen}
    before = [late[each] for each in late if due_ms[each] < played.killed_ms]
    stage.console.print(f"  late: {quantiles([*late.values()])}")
    stage.console.print(f"  late, due before the SIGKILL: {quantiles(before)}\n")
    return holds


def main(
    *,
    rate: Annotated[int, typer.Option(min=10, max=2_000, help="Messages per second.")] = 200,
    seconds: Annotated[int, typer.Option(min=4, max=600, help="So long they are sent.")] = 12,
) -> None:
    """Delay messages by 0.1 to 8 s on three nodes with one Kafka broker and nothing else."""
    perform("Hourhand on Kafka alone", lambda stage: play(stage, rate, seconds))


if __name__ == "__main__":
    typer.run(main)
