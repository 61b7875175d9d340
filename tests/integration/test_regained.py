"""Partitions that are given up and come back to their node, on a real broker and store."""

import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from hourhand import Scheduler, Settings, Task
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.key import TaskKey
from hourhand.scheduler import wiring
from hourhand.scheduler.tasks.inspector import Inspector, TaskState
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import PATIENT_GROUP, own_settings
from tests.waiting import until

pytestmark = pytest.mark.integration

PARTITIONS = 4
IDS = 12
eventually = partial(until, timeout_s=60.0, look_s=0.1)


class Blocking:
    """Makes executors whose attempts run until they are released, and counts their calls."""

    def __init__(self) -> None:
        self.called: Counter[TaskKey] = Counter()
        self.released = threading.Event()

    def make(self) -> TaskExecutor:
        """Make one of an ordering id."""
        outer = self

        class Waiting(TaskExecutor):
            def execute(self, task: Task) -> None:
                outer.called[task.key] += 1
                outer.released.wait(60)

        return Waiting()


def test_p16_a_range_rebalance_runs_nothing_again_that_stays_where_it_was(
    kafka_server: KafkaServer, cassandra_server: CassandraServer
) -> None:
    """Another node stops; what runs here outlives the drain deadline, and its outcome counts."""
    settings = own_settings(
        kafka_server,
        cassandra_server,
        "regained",
        partitions=PARTITIONS,
        group={**PATIENT_GROUP, "assignor": "range"},
        tree={"recovery": {"drain_deadline_ms": 1_000}},
    )
    wiring.migrate(settings)
    stays, goes = Blocking(), Blocking()
    with Scheduler(settings, executor=stays.make) as staying:
        leaving = Scheduler(settings, executor=goes.make)
        leaving.start()
        eventually(lambda: _share(staying) == _share(leaving) == PARTITIONS // 2, "both share")
        tasks = [_task(number) for number in range(IDS)]
        for task in tasks:
            staying.schedule_task(task).result(30)
        eventually(lambda: len(stays.called) + len(goes.called) == IDS, "all tasks run")
        kept = set(stays.called)

        leaving.close()
        goes.released.set()
        eventually(lambda: _share(staying) == PARTITIONS, "all partitions are here")
        eventually(lambda: len(stays.called) == IDS, "what ran on the other node runs here")
        stays.released.set()
        eventually(lambda: _all_succeeded(settings, tasks), "every task ended well")

    assert kept
    assert {key: stays.called[key] for key in kept} == dict.fromkeys(kept, 1)


def _share(scheduler: Scheduler) -> int:
    return len(scheduler.partitions)


def _task(number: int) -> Task:
    return Task(
        ordering_id=f"customer-{number}",
        scheduled_time=datetime.now(UTC) + timedelta(seconds=1),
        uniqueness_key=f"u-{number}",
        data={},
    )


def _all_succeeded(settings: Settings, tasks: list[Task]) -> bool:
    stores = wiring.open_stores(settings)
    try:
        inspector = Inspector(stores, PARTITIONS)
        return all(inspector.show(task.key).state is TaskState.SUCCESS for task in tasks)
    finally:
        stores.close()
