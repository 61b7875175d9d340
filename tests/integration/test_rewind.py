"""``hourhand rewind`` on real servers: rows lost below a watermark come back from the log."""

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from typer.testing import CliRunner, Result

from hourhand import Scheduler, Settings, Task
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.scheduler import wiring
from hourhand.scheduler.cli.cli import app
from hourhand.scheduler.ports.bulk import BulkTable
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import PATIENT_GROUP, own_settings, set_options
from tests.waiting import until

pytestmark = pytest.mark.integration

PARTITIONS = 2
TASKS = 12
DAY_MS = 86_400_000
eventually = partial(until, timeout_s=60.0, look_s=0.1)


class Counting(TaskExecutor):
    """Counts what ran; a test makes a subclass of its own."""

    ran: ClassVar[Counter[str]]

    def execute(self, task: Task) -> None:
        """Count the task."""
        self.ran[task.uniqueness_key] += 1


@pytest.fixture
def settings(kafka_server: KafkaServer, cassandra_server: CassandraServer) -> Settings:
    """Name an installation of its own, whose watermark follows the clock closely."""
    settings = own_settings(
        kafka_server,
        cassandra_server,
        "rewind",
        partitions=PARTITIONS,
        group=PATIENT_GROUP,
        tree={"watermark": {"interval_ms": 1_000, "lag_ms": 1_000}},
    )
    wiring.migrate(settings)
    return settings


def test_lost_rows_below_the_watermark_come_back_from_the_log(
    settings: Settings, tmp_path: Path
) -> None:
    """Both places are set: what is done and kept does not run again, what was lost does."""
    executor = _counting()
    due_ms = 0
    with Scheduler(settings, executor=executor) as scheduler:
        for number in range(TASKS):
            task = _task(number)
            due_ms = max(due_ms, task.key.scheduled_ms)
            scheduler.schedule_task(task).result(30)
        eventually(lambda: len(executor.ran) == TASKS, "all tasks run")
        eventually(lambda: min(_watermarks(settings)) > due_ms, "the watermark has passed them")
        refused = _rewind(settings, tmp_path, "--to", "earliest", "--yes")
        assert (refused.exit_code, "stop every node" in refused.stderr) == (2, True)
    lost = _lose(settings, partition=0)

    with Scheduler(settings, executor=executor) as scheduler:
        eventually(lambda: len(scheduler.partitions) == PARTITIONS, "started as it was")
    assert set(executor.ran.values()) == {1}
    planned = _rewind(settings, tmp_path, "--to", "earliest", "--dry-run", "-o", "json")
    assert {each["after"] for each in json.loads(planned.stdout)["moves"]} == {0}
    done = _rewind(settings, tmp_path, "--to", "earliest", "--yes", "--reason", "rows are lost")
    assert (done.exit_code, f"{TASKS} records" in done.stderr) == (0, True)
    ahead = _rewind(settings, tmp_path, "--to", f"0:{len(lost)}", "--yes")
    assert (ahead.exit_code, "--forward" in ahead.stderr) == (2, True)
    with Scheduler(settings, executor=executor):
        eventually(lambda: executor.ran.total() == TASKS + len(lost), "what was lost runs again")
        eventually(lambda: all(mark for mark in _next_offsets(settings)), "all is read again")

    assert 0 < len(lost) < TASKS
    assert {name for name, count in executor.ran.items() if count == 2} == lost
    logged = CliRunner().invoke(app, ["audit-log", "-o", "json", *set_options(settings, tmp_path)])
    entry = json.loads(logged.stdout)["entries"][0]
    assert (entry["action"], entry["detail"]["reason"]) == ("rewind", "rows are lost")


def _counting() -> type[Counting]:
    return type("OneTestsCounting", (Counting,), {"ran": Counter()})


def _task(number: int) -> Task:
    return Task(
        ordering_id=f"customer-{number}",
        scheduled_time=datetime.now(UTC) + timedelta(seconds=1),
        uniqueness_key=f"u-{number}",
        data={},
    )


def _watermarks(settings: Settings) -> list[int]:
    stores = wiring.open_stores(settings)
    try:
        found = [stores.ownership.read_watermark(each).result(30) for each in range(PARTITIONS)]
    finally:
        stores.close()
    return [0 if each is None else each.watermark.watermark_ms for each in found]


def _next_offsets(settings: Settings) -> list[int | None]:
    stores = wiring.open_stores(settings)
    try:
        found = [stores.ownership.read_watermark(each).result(30) for each in range(PARTITIONS)]
    finally:
        stores.close()
    return [None if each is None else each.watermark.next_offset for each in found]


def _lose(settings: Settings, partition: int) -> set[str]:
    """Remove all rows of a partition's tasks, as a site takes them with it; return their names."""
    bulk, names = wiring.open_bulk(settings), set()
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    first_ms, end_ms = now_ms - DAY_MS, now_ms + DAY_MS
    try:
        for table in BulkTable:
            buckets = bulk.list_buckets(table, [partition], first_ms, end_ms)
            for bucket, rows in bulk.scan(table, buckets, first_ms, end_ms):
                names |= {str(row[2]) for row in rows}
                bulk.delete_rows(table, bucket, rows)
    finally:
        bulk.close()
    return names


def _rewind(settings: Settings, folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["rewind", *arguments, *set_options(settings, folder)])
