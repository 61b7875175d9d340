"""``python -m tests.soak --hours 8``: one node at a steady rate, looked at again and again."""

import argparse
import contextlib
import logging
import os
import random
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path

from hourhand import Receipt, Scheduler, Settings, Task, TaskExecutor
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import EmbeddedSettings
from hourhand.scheduler.demo.audit import percentile
from hourhand.scheduler.runtime.resident import resident_bytes
from hourhand.scheduler.wiring import migrate
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import own_settings
from tests.soak.samples import Sample, growth, head, kept_bytes_a_task, line

_AHEAD_MAX_MS = 10_000
"""Tasks are due within so much of their acceptance."""
_ORDERING_IDS = 2_000
_FAILING = "failing"
"""Begins the ordering ids of tasks whose first attempt fails, one in 100: what waits behind a retry
is late as it should be, so they have ids of their own."""
_DATA = {"text": "x" * 80}
_TURN_MS = 20


class Crash(Exception):
    """The error of first attempts that fail."""


class Seen:
    """Counts the reports of attempts and futures since the last look; used from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._late_ms: list[float] = []
        self.accepted = self.ended = 0

    def started(self, late_ms: float) -> None:
        """Note by how much a first attempt was late."""
        with self._lock:
            self._late_ms.append(late_ms)

    def end(self) -> None:
        """Note a task that is done."""
        with self._lock:
            self.ended += 1

    def accept(self, future: "Future[Receipt]") -> None:
        """Note a task that was accepted; an error ends the soak."""
        future.result()
        with self._lock:
            self.accepted += 1

    def take(self) -> list[float]:
        """Return the lateness of all first attempts since the last look, ascending."""
        with self._lock:
            taken, self._late_ms = self._late_ms, []
        return sorted(taken)


class Soaked(TaskExecutor):
    """Notes its lateness; one in a hundred fails once."""

    seen: Seen
    clock = SystemClock()

    def execute(self, task: Task) -> None:
        """Do what a task of the soak does."""
        if self.attempt == 1:
            self.seen.started(self.clock.now_ms() - task.key.scheduled_ms)
            if task.ordering_id.startswith(_FAILING):
                raise Crash("as planned")
        self.seen.end()


def _main() -> int:
    arguments = _parse()
    logging.getLogger("hourhand").setLevel(logging.CRITICAL)
    seen = Soaked.seen = Seen()
    with (
        tempfile.TemporaryDirectory(prefix="hourhand-soak-") as place,
        _installation(Path(place), servers=arguments.servers) as settings,
        Scheduler(settings, executor=Soaked) as scheduler,
    ):
        folder = None if arguments.servers else settings.embedded.folder
        samples = []
        for hours in _looks(scheduler, seen, arguments.hours, arguments.rate, arguments.every_s):
            samples.append(_sample(hours, seen, folder))
            if len(samples) == 1:
                print(head(samples[0]), flush=True)  # noqa: T201 - a program
            print(line(samples[-1]), flush=True)  # noqa: T201
    found = growth(samples)
    for each in found:
        print(f"GREW: {each}")  # noqa: T201
    if samples[-1].disk_bytes:
        print(f"files: {kept_bytes_a_task(samples):.0f} bytes more for each task")  # noqa: T201
    print("flat" if not found else "not flat")  # noqa: T201
    return 1 if found else 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=8.0, help="how long")
    parser.add_argument("--rate", type=float, default=100.0, help="tasks a second")
    parser.add_argument("--every-s", type=float, default=300.0, help="seconds between two looks")
    parser.add_argument("--servers", action="store_true", help="on real Kafka and Cassandra")
    return parser.parse_args()


@contextlib.contextmanager
def _installation(place: Path, *, servers: bool) -> Iterator[Settings]:
    if not servers:
        yield Settings(embedded=EmbeddedSettings(folder=place / "hourhand"))
        return
    with KafkaServer(place / "kafka") as kafka, CassandraServer(place / "cassandra") as cassandra:
        settings = own_settings(kafka, cassandra, "soak", partitions=16)
        migrate(settings)
        yield settings


def _looks(
    scheduler: Scheduler, seen: Seen, hours: float, rate: float, every_s: float
) -> Iterator[float]:
    """Schedule at a rate, and yield the hours since the beginning when it is time to look."""
    clock, rng, pause = SystemClock(), random.Random(0), threading.Event()
    began_ms = looked_ms = clock.monotonic_ms()
    sent = 0
    while (now_ms := clock.monotonic_ms()) < began_ms + hours * 3_600_000:
        for number in range(sent, round((now_ms - began_ms) / 1000 * rate)):
            due_ms = clock.now_ms() + rng.randrange(_AHEAD_MAX_MS)
            fails = not rng.randrange(100)
            task = Task(
                ordering_id=f"{_FAILING}{number}" if fails else str(rng.randrange(_ORDERING_IDS)),
                scheduled_time=from_millis(due_ms),
                uniqueness_key=str(number),
                data=_DATA,
            )
            scheduler.schedule_task(task).add_done_callback(seen.accept)
            sent = number + 1
        if now_ms - looked_ms >= every_s * 1000:
            looked_ms = now_ms
            yield timedelta(milliseconds=now_ms - began_ms) / timedelta(hours=1)
        pause.wait(_TURN_MS / 1000)


def _sample(hours: float, seen: Seen, folder: Path | None) -> Sample:
    late_ms = seen.take() or [0.0]
    p50, p99 = (percentile(late_ms, percent) for percent in (50, 99))
    files = {} if folder is None else {each.name: each for each in sorted(folder.glob("*.db*"))}
    return Sample(
        hours,
        seen.accepted,
        seen.ended,
        p50,
        p99,
        late_ms[-1],
        resident_bytes(os.getpid()),
        {name: path.stat().st_size for name, path in files.items() if not name.endswith("-shm")},
    )


if __name__ == "__main__":
    sys.exit(_main())
