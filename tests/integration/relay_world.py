"""A relay on a real broker: topics of its own, a producer, and a reader of what appears."""

import subprocess
import sys
import threading
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import Settings
from tests.servers.kafka import KafkaServer
from tests.tidy.source import ROOT

WAIT_S = 60.0


@dataclass
class Arrival:
    """A message that appeared, and when it was read."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, str | bytes | None]]
    read_ms: int


@dataclass
class RelayWorld:
    """Settings, and both ends of the relay."""

    settings: Settings
    arrivals: list[Arrival] = field(default_factory=list)
    _enough: threading.Condition = field(default_factory=threading.Condition)

    def __post_init__(self) -> None:
        servers = self.settings.kafka.bootstrap_servers
        self.clock = SystemClock()
        self._producer = Producer(
            {"bootstrap.servers": servers, "linger.ms": 1, "message.max.bytes": 2_000_000}
        )
        self._consumer = _consumer(self.settings, self.settings.relay.out_topic)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def put(
        self,
        value: bytes | None,
        *,
        message_id: str,
        due_ms: int,
        key: bytes | None = b"k",
        headers: Headers = (),
    ) -> None:
        """Produce a message to the in-topic."""
        own: list[tuple[str, bytes | None]] = [
            ("chronosMessageId", message_id.encode()),
            ("chronosDeadline", format_instant(due_ms).encode()),
        ]
        self._producer.produce(
            self.settings.relay.in_topic, key=key, value=value, headers=[*own, *headers]
        )
        self._producer.poll(0)

    def put_raw(self, value: bytes) -> None:
        """Produce a message without headers to the in-topic."""
        self._producer.produce(self.settings.relay.in_topic, value=value)

    def first_letter(self) -> bytes | None:
        """Return the value of the first dead letter."""
        consumer = _consumer(self.settings, self.settings.topic.dead_letter)
        try:
            letter = consumer.poll(WAIT_S)
            assert letter is not None, "nothing was put aside"
            return letter.value()
        finally:
            consumer.close()

    def flush(self) -> None:
        """Wait until the broker has what was put."""
        assert not self._producer.flush(WAIT_S)

    def wait_for(self, count: int) -> list[Arrival]:
        """Wait until so many messages appeared."""
        with self._enough:
            assert self._enough.wait_for(lambda: len(self.arrivals) >= count, WAIT_S), (
                f"{len(self.arrivals)} of {count} messages appeared"
            )
        return self.arrivals

    def close(self) -> None:
        """Let go of both ends."""
        self._closed.set()
        self._thread.join()
        self._consumer.close()

    def _read(self) -> None:
        while not self._closed.is_set():
            message = self._consumer.poll(0.1)
            if message is None or message.error():
                continue
            arrival = Arrival(
                message.key(), message.value(), _pairs(message.headers()), self.clock.now_ms()
            )
            with self._enough:
                self.arrivals.append(arrival)
                self._enough.notify_all()


def _consumer(settings: Settings, topic: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    return consumer


def _pairs(headers: object) -> list[tuple[str, str | bytes | None]]:
    return list(headers) if isinstance(headers, list) else []


def relay_settings(kafka: KafkaServer, folder: Path | None, **more: object) -> Settings:
    """Return settings with topics and a group of their own; the store is a folder's, if any."""
    name = f"relay_{uuid.uuid4().hex[:12]}"
    values: dict[str, Any] = {
        "log": "kafka",
        "topic": {"name": name, "dead_letter": f"{name}-dead-letter", "partitions": 4},
        "group": {"id": name, "session_timeout_ms": 6_000, "heartbeat_interval_ms": 250},
        "kafka": {"bootstrap_servers": kafka.bootstrap_servers},
        "relay": {
            "in_topic": f"{name}-in",
            "out_topic": f"{name}-out",
            "group_id": f"{name}-in",
        },
        **more,
    }
    if folder is not None:
        values["embedded"] = {"folder": folder}
    return Settings(**values)


def relay_process(settings: Settings, folder: Path) -> "subprocess.Popen[bytes]":
    """Start ``hourhand relay`` as an operator does, its log in a file of the folder."""
    config = folder / "relay.json"
    config.write_text(settings.model_dump_json(exclude_unset=True), encoding="utf-8")
    program = (
        "import json,sys\n"
        "from hourhand.scheduler.cli.relay_running import RelayRunning\n"
        "from hourhand.scheduler.cli.log_lines import log_to_stderr\n"
        "from hourhand.scheduler.configuration.settings import Settings\n"
        "log_to_stderr('info')\n"
        "running = RelayRunning(Settings(**json.load(open(sys.argv[1]))))\n"
        "with running.scheduler.stopped_by_signals():\n"
        "    running.start(); running.wait()\n"
    )
    with (folder / f"{uuid.uuid4().hex[:6]}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-c", program, str(config)], cwd=ROOT, stdout=log, stderr=log
        )
