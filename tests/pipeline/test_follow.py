"""Following lifecycle events: from a node's topic into a table, without loss or double."""

import os
import signal
import subprocess
import sys
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from hourhand import Scheduler, Settings, Task
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.values.errors import LogUnavailable, SettingsInvalid, TopicMissing
from hourhand.actors.model.values.instant import to_millis
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.follow import (
    EventsReader,
    FollowPlan,
    events_of,
    run_follow,
    shared_out,
)
from hourhand.scheduler.pipeline.job import JobOptions
from hourhand.scheduler.pipeline.options import Options
from hourhand.scheduler.ports.lifecycle import LifecycleEvent, accepted_event, encode_event
from tests.builders import NOW_MS, a_stored_task, decode_event
from tests.servers.kafka import KafkaServer

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
TASKS = 120
WAIT_S = 120.0
PARTITIONS = 3


@pytest.fixture
def settings(kafka_server: KafkaServer, tmp_path: Path) -> Settings:
    """An embedded node that tells a topic of this test's own."""
    settings = Settings(
        embedded={"folder": tmp_path / "data"},
        kafka={"bootstrap_servers": kafka_server.bootstrap_servers},
        events={"topic": f"events-{uuid.uuid4().hex[:12]}", "partitions": PARTITIONS},
    )
    wiring.migrate(settings)
    return settings


def options_of(settings: Settings) -> Options:
    """Return the options of a job over the topic."""
    assert settings.events.topic is not None
    return Options(
        overrides=(
            ("events.topic", settings.events.topic),
            ("kafka.bootstrap_servers", settings.kafka.bootstrap_servers),
        )
    )


class Moody(TaskExecutor):
    """Fails for good where the data say so."""

    retry = RetryPolicy(attempts_max=1)
    ran: threading.Semaphore

    def execute(self, task: Task) -> None:
        """Run, and say that it ran."""
        self.ran.release()
        if task.data["number"] == 7:
            raise ValueError("as the data say")


def run_tasks(settings: Settings, count: int) -> None:
    """Run so many tasks, and cancel one that is far off."""
    moody: type[Moody] = type("Moody", (Moody,), {"ran": threading.Semaphore(0)})
    now = datetime.now(UTC)
    with Scheduler(settings, executor=moody) as scheduler:
        tasks = [
            Task(
                ordering_id=f"customer-{number % 10}",
                scheduled_time=now,
                uniqueness_key=str(number),
                data={"number": number},
            )
            for number in range(count)
        ]
        later = tasks[0].model_copy(update={"scheduled_time": now + timedelta(days=1)})
        scheduler.schedule_tasks([*tasks, later]).raise_if_rejected()
        receipt = scheduler.cancel_task(later.key).result(WAIT_S)
        for _ in range(count):
            assert moody.ran.acquire(timeout=WAIT_S)
        pause = threading.Event()
        while scheduler.outcome(receipt) is None:
            pause.wait(0.05)


def topic_events(settings: Settings) -> list[LifecycleEvent]:
    """Return what stands in the topic, in the order of each partition."""
    assert settings.events.topic is not None
    reader = wiring.open_topic_reader(settings, settings.events.topic)
    try:
        return [
            decode_event(record.value or b"")
            for partition, (first, end) in reader.bounds().items()
            for records in reader.read(partition, first, end)
            for record in records
        ]
    finally:
        reader.close()


def tell_again(settings: Settings, events: list[LifecycleEvent]) -> None:
    """Tell events a second time, as a node does whose write was not durable."""
    messages = wiring.open_messages(settings)
    assert settings.events.topic is not None
    for event in events:
        key = event.ordering_id.encode()
        messages.produce(settings.events.topic, key, encode_event(event), ()).result(WAIT_S)
    messages.close()


class Follower:
    """The command line's job as a process with a JVM, which can be killed together."""

    def __init__(self, settings: Settings, folder: Path) -> None:
        named = options_of(settings).overrides
        sets = [part for pair in named for part in ("--set", "=".join(pair))]
        small = ["--conf", "spark.sql.shuffle.partitions=2", "--master", "local[2]"]
        quick = ["--every", "100ms", "--batch-rows", "60"]
        job = [sys.executable, "-m", "hourhand", "pipeline", "follow", str(folder)]
        self._process = subprocess.Popen(
            [*job, *quick, *small, *sets],
            cwd=ROOT,
            env={**os.environ, "JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def __iter__(self) -> Iterator[str]:
        assert self._process.stderr is not None
        yield from self._process.stderr

    def kill(self) -> None:
        """As a power cut would."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(WAIT_S)
        assert self._process.stderr is not None
        self._process.stderr.close()


def rows_of(spark: SparkSession, folder: Path) -> list[Row]:
    """Return the table."""
    return spark.read.parquet(str(folder)).collect()


@pytest.mark.long
def test_a_killed_follower_goes_on_without_loss_or_double(
    settings: Settings, spark: SparkSession, tmp_path: Path
) -> None:
    """In the middle of the topic, with repeats before and after the kill."""
    folder = tmp_path / "events"
    run_tasks(settings, TASKS)
    told = topic_events(settings)
    tell_again(settings, told[:30])

    follower = Follower(settings, folder)
    try:
        first_batch = next(_batches(follower), None)
    finally:
        follower.kill()
    assert first_batch is not None, "the follower ended by itself"
    tell_again(settings, told[-30:])
    job = JobOptions(options_of(settings), say=lambda _line: None)
    rest = run_follow(job, FollowPlan(str(folder), once=True))

    rows = rows_of(spark, folder)
    assert Counter(row.id for row in rows) == Counter({event.id for event in told})
    assert 0 < rest["rows"] < len(told) + 60, "both runs had something to do"
    again = run_follow(job, FollowPlan(str(folder), once=True))
    assert (again["rows"], again["kept"]) == (0, 0)
    _tells_all_that_happened(rows)


def _batches(follower: Follower) -> Iterator[str]:
    return (line for line in follower if "batch " in line)


def _tells_all_that_happened(rows: list[Row]) -> None:
    counts = Counter(row.event for row in rows)
    assert counts == {
        "accepted": TASKS + 1,
        "started": TASKS,
        "completed": TASKS - 1,
        "attempt_failed": 1,
        "failed": 1,
        "cancelled": 1,
    }
    failed = next(row for row in rows if row.event == "failed")
    assert (failed.uniqueness_key, failed.date) == ("7", failed.time.date())
    for customer in range(10):
        mine = [row for row in rows if row.ordering_id == f"customer-{customer}"]
        assert len({row.topic_partition for row in mine}) == 1
        mine.sort(key=lambda row: row.topic_offset)
        of_key = [row.event for row in mine if row.uniqueness_key == str(customer + 20)]
        assert of_key == ["accepted", "started", "completed"]


def test_a_bulk_load_is_told_of(settings: Settings, spark: SparkSession) -> None:
    """By the sink's own stores."""
    assert spark.version
    stores = wiring.open_published_stores(settings, wiring.open_clock())
    task = a_stored_task(offset=-1)
    stores.schedule.insert_tasks(0, [task], 77).result(WAIT_S)
    stores.close()

    assert [event.offset for event in topic_events(settings)] == [-1]


def test_what_is_no_event_is_kept_as_it_is(spark: SparkSession) -> None:
    """Nothing that stood in the topic is lost."""
    good = encode_event(accepted_event(3, a_stored_task(offset=4), 1 << 41, NOW_MS)).decode()
    read = datetime(2026, 3, 1, tzinfo=UTC)
    records = spark.createDataFrame(
        [(0, 5, read, good), (1, 6, read, "{broken"), (1, 7, read, '{"event":"accepted"}')],
        "topic_partition int, topic_offset long, read_time timestamp, record string",
    )

    rows = events_of(records).collect()

    assert [(row.event, row.raw is None, row.date) for row in rows] == [
        ("accepted", True, date(2026, 2, 9)),
        ("unread", False, date(2026, 3, 1)),
        ("unread", False, date(2026, 3, 1)),
    ]
    assert rows[1].id == "unread-1-6"
    assert rows[2].raw == '{"event":"accepted"}'
    assert to_millis(rows[0].time.astimezone(UTC)) == NOW_MS
    assert (rows[0].epoch, rows[0].log_offset, rows[0].attempt) == (2, 4, None)


def test_a_batch_takes_of_each_partition_its_share() -> None:
    """None is starved, and none taken beyond its end."""
    assert shared_out({0: 0, 1: 10}, {0: 100, 1: 10}, None) == {0: 100, 1: 10}
    assert shared_out({0: 0, 1: 10, 2: 5}, {0: 900, 1: 110, 2: 6}, 100) == {0: 89, 1: 19, 2: 6}


def test_a_topic_that_was_made_anew_is_refused_and_a_new_partition_is_read(
    settings: Settings,
) -> None:
    """From its first record."""
    tell_again(settings, [accepted_event(0, a_stored_task(), 7, NOW_MS)])
    reader = EventsReader(options_of(settings))
    limit = reader.getDefaultReadLimit()
    try:
        grown = reader.latestOffset({"next": {"0": 0}, "read_ms": 5}, limit)
        assert sum(grown["next"].values()) == 1
        assert grown["read_ms"] > 5
        with pytest.raises(LogUnavailable, match="the topic was recreated"):
            reader.latestOffset({"next": {"0": 99}, "read_ms": 5}, limit)
    finally:
        reader.stop()


def test_whoever_is_not_told_cannot_follow(settings: Settings, tmp_path: Path) -> None:
    """A setting is named, or the topic that is missing."""
    plan = FollowPlan(str(tmp_path / "events"), once=True)
    with pytest.raises(SettingsInvalid, match=r"events.topic names no topic"):
        run_follow(JobOptions(Options()), plan)
    missing = (("events.topic", "no-such"), options_of(settings).overrides[1])
    with pytest.raises(TopicMissing, match="no-such"):
        run_follow(JobOptions(Options(overrides=missing)), plan)
    with pytest.raises(TopicMissing, match="no-such"):
        Scheduler(
            settings.model_copy(
                update={"events": settings.events.model_copy(update={"topic": "no-such"})}
            ),
            executor=Moody,
        )
