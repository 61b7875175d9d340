"""The topic of outcomes on a real broker: CloudEvents, in order, and what is too large for it."""

import json
import random
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka.admin import ResourceType

from hourhand import Done, Hourhand, Scheduler, Settings, Task, TaskExecutor
from hourhand.actors.model.task.status import CommandOutcome
from hourhand.scheduler.wiring import migrate
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer, configure
from tests.servers.own_settings import QUICK_GROUP, own_settings
from tests.waiting import until

pytestmark = pytest.mark.integration

PATIENCE_S = 60.0


class Returns(TaskExecutor):
    """Ends with a value of the size that its data says."""

    def execute(self, task: Task) -> Done:
        """Run."""
        size_bytes = task.data["bytes"]
        assert isinstance(size_bytes, int)
        # No producer can compress it.
        return Done(random.Random(1).randbytes(size_bytes).hex())


def test_p30_a_real_topic_has_each_closed_task(kafka_server: KafkaServer, tmp_path: Path) -> None:
    """One whose value is larger than the topic takes comes without it."""
    name = f"told-{uuid.uuid4().hex[:12]}"
    settings = Settings(
        log="kafka",
        topic={"name": name, "dead_letter": f"{name}-dead-letter", "partitions": 2},
        group={"id": name},
        kafka={"bootstrap_servers": kafka_server.bootstrap_servers},
        embedded={"folder": tmp_path},
        outcomes={"topic": f"{name}-outcomes", "partitions": 1},
    )
    assert f"{name}-outcomes" in " ".join(migrate(settings))
    configure(
        kafka_server.bootstrap_servers,
        ResourceType.TOPIC,
        f"{name}-outcomes",
        {"max.message.bytes": "5000"},
    )
    found = _told_of(settings, (10, 20_000, 30))

    told = [json.loads(value) for _, value, _ in found]
    assert [each["uniquenessKey"] for each in told] == ["0", "1", "2"]
    assert told[0]["returned"] == {"value": random.Random(1).randbytes(10).hex()}
    assert {each["kind"] for each in told} == {"returns"}
    key, _, headers = found[0]
    assert key == b"customer-7"
    assert headers["ce_type"] == b"hourhand.task.success"
    assert headers["ce_specversion"] == b"1.0"
    assert len({each["ce_id"] for _, _, each in found}) == 3
    assert [each.get("leftOut") for each in told] == [None, "too_large", None]


def an_app(told: list[list[Any]]) -> Hourhand:
    """Return an application with pages, the report that follows them, and a declared schedule."""
    app = Hourhand(name="office")

    @app.task("page")
    def page(task: Task) -> Done:
        return Done(task.ordering_id)

    @app.task("report")
    def report(task: Task) -> None:
        told.append([end.result for end in task.after])

    app.recurring("nightly", every=timedelta(hours=1))(lambda: None)
    return app


def task(ordering_id: str, kind: str, in_s: float) -> Task:
    """Return a task that is due in so many seconds."""
    at = datetime.now(UTC) + timedelta(seconds=in_s)
    return Task(ordering_id=ordering_id, scheduled_time=at, uniqueness_key="may", kind=kind)


def test_p30_what_follows_is_replaced_and_recurs_is_told_on_servers(
    kafka_server: KafkaServer, cassandra_server: CassandraServer
) -> None:
    """A group over two nodes, a task that takes the place of another, a declared schedule."""
    topic = f"told-{uuid.uuid4().hex[:12]}"
    settings = own_settings(
        kafka_server, cassandra_server, "life", group=QUICK_GROUP, outcomes={"topic": topic}
    )
    migrate(settings)
    told: list[list[Any]] = []
    pages = [task("page-0", "page", 0), task("page-1", "page", 3_600)]
    report = task("report", "report", 0)
    with Scheduler(settings, executors=an_app(told)) as first:
        first.group(pages, then=report).result(timeout=PATIENCE_S)
        first.schedule_task(task("pair", "page", 3_600)).result(timeout=PATIENCE_S)
        first.wait_task(pages[0].key, timeout=PATIENCE_S)
        until(lambda: first.find_recurring("nightly") is not None)
    assert told == []

    with Scheduler(settings, executors=an_app(told)) as second:
        second.run_task_now(("page-1", "may")).result(timeout=PATIENCE_S)
        taken = task("pair", "page", 0)
        replaced = second.schedule_task(taken, replace=True).result(timeout=PATIENCE_S)
        outcome = second.wait_outcome(replaced, timeout=PATIENCE_S)
        second.trigger_recurring("nightly").result(timeout=PATIENCE_S)
        assert second.wait_result(taken.key, timeout=PATIENCE_S) == "pair"
        until(lambda: told)
        records = [json.loads(value) for _, value, _ in _read(settings, 7)]
    assert outcome.outcome is CommandOutcome.APPLIED
    assert told == [["page-0", "page-1"]]
    seen = sorted((each["orderingId"], each["result"]) for each in records)
    assert seen == [
        ("nightly", "success"),
        ("page-0", "success"),
        ("page-1", "moved"),
        ("page-1", "success"),
        ("pair", "moved"),
        ("pair", "success"),
        ("report", "success"),
    ]


def _told_of(settings: Settings, sizes: Sequence[int]) -> list[tuple[Any, Any, dict[str, Any]]]:
    """Run tasks of one ordering id that return so much; return the records of the topic."""
    now = datetime.now(UTC)
    with Scheduler(settings, executors={"returns": Returns}) as scheduler:
        for place, size in enumerate(sizes):
            task = Task(
                ordering_id="customer-7",
                scheduled_time=now,
                uniqueness_key=str(place),
                data={"bytes": size},
                kind="returns",
            )
            scheduler.schedule_task(task).result(timeout=PATIENCE_S)
        return _read(settings, len(sizes))


def _read(settings: Settings, count: int) -> list[tuple[Any, Any, dict[str, Any]]]:
    consumer = Consumer(
        {
            "bootstrap.servers": settings.kafka.bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "auto.offset.reset": "earliest",
        }
    )
    assert settings.outcomes.topic is not None
    consumer.subscribe([settings.outcomes.topic])
    found: list[tuple[Any, Any, dict[str, Any]]] = []

    def poll() -> bool:
        for each in consumer.consume(10, 0.2):
            assert each.error() is None
            found.append((each.key(), each.value(), dict(each.headers() or [])))
        return len(found) >= count

    try:
        until(poll)
    finally:
        consumer.close()
    return found
