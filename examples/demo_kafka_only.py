"""``python -m examples.demo_kafka_only``: messages that wait in Kafka alone, on three nodes.

One of the nodes is killed on the way.  A reader of committed records sees what appears; the exit
code is 0 only if every message appeared exactly once and none early.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Annotated

import typer
from confluent_kafka import Consumer, Producer
from rich.console import Console
from rich.live import Live
from rich.table import Table

from hourhand import HourhandError, SchedulerClient, Settings
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.wiring import create_bucket_topics
from tests.servers.__main__ import STATE_FILE
from tests.servers.kafka import KafkaServer
from tests.servers.maven import FetchFailed, ToolMissing
from tests.servers.process import ServerFailed
from tests.servers.termination import terminate_as_interrupt

NODES = 3
DELAYS_MS = (100, 8_000)
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

    def stop(self) -> None:
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
def _broker(folder: Path, console: Console) -> Iterator[str]:
    if _SERVERS in os.environ:
        yield os.environ[_SERVERS]
    elif STATE_FILE.is_file():
        console.print("  [green]●[/] broker: that of `make up`", highlight=False)
        yield json.loads(STATE_FILE.read_text())["kafka"]["bootstrap_servers"]
    else:
        console.print("  [green]●[/] broker: starting one (ten seconds)", highlight=False)
        with KafkaServer(folder / "kafka") as kafka:
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


def _node(settings: Settings, folder: Path, number: int) -> "subprocess.Popen[bytes]":
    """Start ``hourhand relay --storage kafka``, its log in a file."""
    groups = ("kafka", "topic", "group", "relay", "buckets")
    variables = {
        f"HOURHAND_{group}__{name}".upper(): str(value)
        for group in groups
        for name, value in settings.model_dump(exclude_unset=True)[group].items()
    }
    with (folder / f"node-{number}.log").open("wb") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "hourhand", "relay", "--storage", "kafka"],
            env={**os.environ, **variables},
            stdout=log,
            stderr=log,
        )


class Play:
    """Sends, kills, and waits."""

    def __init__(self, settings: Settings, folder: Path, rate: int, seconds: int) -> None:
        self._settings = settings
        self._rate = rate
        self._count = rate * seconds
        self.clock = SystemClock()
        self.due_ms: dict[int, int] = {}
        self._pause = threading.Event()
        self.killed_ms = 0
        self.reader = Reader(settings)
        self.nodes = [_node(settings, folder, number) for number in range(1, NODES + 1)]

    def run(self, live: Live) -> None:
        """Send half by the library and half through the in-topic, and kill a node half-way."""
        with SchedulerClient(self._settings) as client:
            self._warm_up(client, live)
            self._send_all(client, live)
        last_s = (max(self.due_ms.values()) - self.clock.now_ms()) / 1000 + _LAST_S
        ends_s = time.monotonic() + last_s
        while time.monotonic() < ends_s and len(self._found()) < len(self.due_ms):
            self._show(live, "waiting for the last ones")
        ends_s = time.monotonic() + _QUIET_S
        while time.monotonic() < ends_s:
            self._show(live, "looking for what appears twice")

    def stop(self) -> None:
        """End the nodes and the reader."""
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            node.wait()
        self.reader.stop()

    def _warm_up(self, client: SchedulerClient, live: Live) -> None:
        """Wait until a message comes through: the nodes have joined and begun."""
        self._send(client, 0, 0)
        while 0 not in self._found():
            if all(node.poll() is not None for node in self.nodes):
                raise ServerFailed("no node runs: see their logs")
            self._show(live, "three nodes start")
        ends_s = time.monotonic() + _SETTLE_S
        while time.monotonic() < ends_s:
            self._show(live, "they share the partitions")

    def _send_all(self, client: SchedulerClient, live: Live) -> None:
        producer = Producer({"bootstrap.servers": self._settings.kafka.bootstrap_servers})
        began_s = time.monotonic()
        for number in range(1, self._count + 1):
            # Spread evenly, and the same with every run.
            delay_ms = DELAYS_MS[0] + number * 2_741 % (DELAYS_MS[1] - DELAYS_MS[0])
            if number % 2:
                self._send(client, number, delay_ms)
            else:
                self._put(producer, number, delay_ms)
            if number == self._count // 2:
                self.nodes[0].kill()
                self.nodes[0].wait()
                self.killed_ms = self.clock.now_ms()
            while time.monotonic() - began_s < number / self._rate:
                self._show(live, "a node was killed" if self.killed_ms else "messages flow")
        producer.flush(30)

    def _send(self, client: SchedulerClient, number: int, delay_ms: int) -> None:
        topic, when = self._settings.relay.out_topic, timedelta(milliseconds=delay_ms)
        sent = client.send_later(b"%d" % number, b"%d" % number, topic, when)
        self.due_ms[number] = sent.result(30).key.scheduled_ms

    def _put(self, producer: Producer, number: int, delay_ms: int) -> None:
        due_ms = self.clock.now_ms() + delay_ms
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

    def _show(self, live: Live, what: str) -> None:
        runs = sum(node.poll() is None for node in self.nodes)
        found = len(self.reader.seen)
        live.update(
            f"  {what:<32} nodes [bold]{runs}[/]   sent [bold]{len(self.due_ms):,}[/]"
            f"   appeared [bold]{found:,}[/]   waiting [bold]{len(self.due_ms) - found:,}[/]"
        )
        self._pause.wait(0.02)


def _quantiles(late_ms: list[int]) -> list[str]:
    ordered = sorted(late_ms)
    if not ordered:
        return ["-", "-", "-"]
    last = len(ordered) - 1
    return [f"{ordered[min(last, int(len(ordered) * each))]:,}" for each in (0.5, 0.99, 0.999)]


def _judge(play: Play, console: Console) -> bool:
    """Show the table; return whether every promise holds."""
    counted = Counter(number for number, _ in play.reader.seen)
    late = {number: read_ms - play.due_ms[number] for number, read_ms in play.reader.seen}
    missing = len(play.due_ms.keys() - counted.keys())
    doubled = counted.total() - len(counted)
    early = sum(each < 0 for each in late.values())
    before = [number for number in play.due_ms if play.due_ms[number] < play.killed_ms]
    table = Table(title="Messages that waited in Kafka alone", title_justify="left")
    for name in ("", "all, a SIGKILL among them", "due before the SIGKILL"):
        table.add_column(name, justify="right" if name else "left")
    table.add_row("sent", f"{len(play.due_ms):,}", f"{len(before):,}")
    table.add_row("delivered", f"{len(counted):,}", f"{sum(each in counted for each in before):,}")
    for name, count in (("missing", missing), ("doubled", doubled), ("early", early)):
        table.add_row(name, f"{count}", "")
    columns = [
        _quantiles([*late.values()]),
        _quantiles([late[each] for each in before if each in late]),
    ]
    for name, *row in zip(("p50", "p99", "p99.9"), *columns, strict=True):
        table.add_row(f"late, {name}", *(f"{each} ms" for each in row))
    console.print()
    console.print(table)
    holds = not (missing or doubled or early)
    console.print(
        "[bold green]Each message appeared once, none early.[/]"
        if holds
        else "[bold red]A promise is broken.[/]"
    )
    return holds


def main(
    *,
    rate: Annotated[int, typer.Option(min=10, max=2_000, help="Messages per second.")] = 200,
    seconds: Annotated[int, typer.Option(min=4, max=600, help="So long they are sent.")] = 12,
) -> None:
    """Delay messages by 0.1 to 8 s on three nodes with one Kafka broker and nothing else."""
    console = Console()
    terminate_as_interrupt()
    folder = Path(tempfile.mkdtemp(prefix="hourhand-kafka-only-"))
    console.print("[bold]Hourhand[/] on Kafka alone\n")
    holds = False
    try:
        with ExitStack() as closing:
            settings = _settings(closing.enter_context(_broker(folder, console)))
            create_bucket_topics(settings)
            wiring.create_relay_topics(settings)
            play = Play(settings, folder, rate, seconds)
            closing.callback(play.stop)
            with Live(console=console, refresh_per_second=8) as live:
                play.run(live)
            holds = _judge(play, console)
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        console.print("interrupted: nothing is left behind")
        sys.exit(130)
    except (HourhandError, ToolMissing, FetchFailed, ServerFailed) as error:
        console.print(str(error), highlight=False, markup=False, style="red")
    if holds:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        console.print(f"What the nodes said is in {folder}", highlight=False)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    typer.run(main)
