"""An installation with something of everything in it, and what a node makes of it elsewhere."""

import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import msgspec

from hourhand import Scheduler, SchedulerClient, Settings, Task
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.ownership import EPOCH_SHIFT
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.codec import encode_data, encode_task
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import AttemptRecord, AttemptResult
from hourhand.actors.model.task.task import StoredTask
from hourhand.scheduler import wiring
from hourhand.scheduler.pipeline.job import JobOptions
from hourhand.scheduler.pipeline.options import Options

WAIT_S = 60.0
SETTLE_S = 0.05
IDS = [f"customer-{number}" for number in range(12)]
CANCELLED, WITHDRAWN, SUSPECT, BLOCKED = IDS[0], IDS[3], IDS[4], IDS[5]
PAUSED = "nobody-1"
CHANGED = LimitChange("mail#1", 20, 60_000, 7, 3, 5, "ann", "why")
"""Has no task."""
NIGHTLY = "nightly"


class Noting(TaskExecutor):
    """Notes what it is given, and fails for one ordering id; ``ran`` belongs to one test."""

    retry = RetryPolicy(attempts_max=1, on_exhausted="block")
    ran: ClassVar[list[tuple[str, str]]] = []
    arrived: ClassVar[threading.Condition] = threading.Condition()

    def execute(self, task: Task) -> None:
        """Note the task."""
        with self.arrived:
            self.ran.append((task.ordering_id, task.uniqueness_key))
            self.arrived.notify_all()
        if task.uniqueness_key == "fails":
            raise ValueError("as its name says")


def wait_for_runs(count: int) -> None:
    """Wait until the executor has noted so many."""
    with Noting.arrived:
        assert Noting.arrived.wait_for(lambda: len(Noting.ran) >= count, WAIT_S), Noting.ran


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    pause = threading.Event()
    for _ in range(round(WAIT_S / 0.05)):
        if condition():
            return
        pause.wait(0.05)
    raise AssertionError("waited in vain")


def a_task(unique: str, due_in: timedelta, ordering_id: str) -> Task:
    """Return a task due so long from now."""
    return Task(
        ordering_id=ordering_id,
        scheduled_time=datetime.now(UTC) + due_in,
        uniqueness_key=unique,
        data={"of": unique},
    )


class Left(dict[str, TaskKey]):
    """Keys of tasks that wait, by ordering id."""


def fill(settings: Settings) -> Left:
    """Have a node run a task of each id, leave one of each, and stop; then note what it cannot."""
    Noting.ran.clear()
    with Scheduler(settings, executor=Noting) as scheduler:
        done = [a_task("done", timedelta(seconds=-1), each) for each in IDS]
        later = [a_task("later", timedelta(hours=3), each) for each in IDS]
        fails = a_task("fails", timedelta(seconds=-1), BLOCKED)
        scheduler.schedule_tasks([*done, *later, fails]).raise_if_rejected()
        cancelled = scheduler.cancel_task(later[0].key).result(WAIT_S)
        scheduler.schedule_recurring(NIGHTLY, every=timedelta(days=1)).result(WAIT_S)
        wait_for_runs(len(IDS) + 1)
        wait_until(
            lambda: (
                scheduler.outcome(cancelled) is not None
                and scheduler.find_recurring(NIGHTLY) is not None
            )
        )
    _leave_suspect(settings)
    return Left({task.ordering_id: task.key for task in later})


def _leave_suspect(settings: Settings) -> None:
    """Store a task whose attempt began and never ended, and a pause, as others would have."""
    stores = wiring.open_stores(settings)
    count = wiring.open_bulk(settings).partition_count()
    assert count is not None
    owner = partition_of(SUSPECT, count)
    try:
        claim = stores.ownership.read_watermark(owner).result(WAIT_S)
        assert claim is not None, "its node was here"
        due = a_task("suspect", timedelta(seconds=-1), SUSPECT)
        began = AttemptRecord(due.key, 1, AttemptResult.STARTED, due.key.scheduled_ms, fence=1)
        at = (claim.epoch + 1 << EPOCH_SHIFT) - 5
        row = StoredTask(due.key, encode_data(due), 10_000)
        stores.schedule.insert_tasks(owner, [row], at).result(WAIT_S)
        stores.status.insert_attempts(owner, [began], at).result(WAIT_S)
        pause = Pause(PauseScope.ORDERING, partition_of(PAUSED, count), PAUSED)
        config = msgspec.structs.replace(OperatorConfig().with_pauses([pause]), limits=(CHANGED,))
        assert stores.oversight.replace_config(config).result(WAIT_S)
    finally:
        stores.close()


def leave_unread(settings: Settings) -> None:
    """Append overdue tasks that no node reads, and a command that takes one of them back."""
    with SchedulerClient(settings) as client:
        unread = [a_task("unread", timedelta(0), each) for each in IDS]
        for task in unread:
            client.schedule_task(task).result(WAIT_S)
        client.cancel_task(unread[IDS.index(WITHDRAWN)].key).result(WAIT_S)


def check_by_running(settings: Settings, left: Mapping[str, TaskKey]) -> None:
    """Start a node: what was pending runs once, what was done does not, and all goes on."""
    Noting.ran.clear()
    expected = {(each, "unread") for each in IDS if each not in {BLOCKED, WITHDRAWN}}
    expected.add((SUSPECT, "suspect"))
    with Scheduler(settings, executor=Noting) as scheduler:
        wait_for_runs(len(expected))
        assert scheduler.find_recurring(NIGHTLY) is not None
        for ordering_id, key in left.items():
            scheduler.run_task_now(key).result(WAIT_S)
            if ordering_id not in {BLOCKED, CANCELLED}:
                expected.add((ordering_id, "later"))
        wait_for_runs(len(expected))
        # A record of the new log beats what was moved, low as its offset is.
        again = a_task("later", timedelta(hours=3), CANCELLED).model_copy(
            update={"scheduled_time": left[CANCELLED].scheduled_time}
        )
        scheduler.schedule_task(again).result(WAIT_S)
        scheduler.run_task_now(again.key).result(WAIT_S)
        expected.add((CANCELLED, "later"))
        wait_for_runs(len(expected))
        paused = scheduler.pause_recurring(NIGHTLY).result(WAIT_S)
        assert paused.offset >= 0

        def is_paused() -> bool:
            found = scheduler.find_recurring(NIGHTLY)
            return found is not None and found.state.paused

        wait_until(is_paused)
    ran = sorted(Noting.ran)
    assert ran == sorted(expected), (set(ran) ^ expected, len(ran))
    assert [each.partition for each in pauses_of(settings)] == [
        partition_of(PAUSED, settings.topic.partitions)
    ]
    assert config_of(settings).limits == (CHANGED,)


def pauses_of(settings: Settings) -> tuple[Pause, ...]:
    """Return what is paused."""
    return config_of(settings).pauses


def config_of(settings: Settings) -> OperatorConfig:
    """Return what operators decided."""
    stores = wiring.open_stores(settings)
    try:
        return stores.oversight.read_config(OperatorConfig()).result(WAIT_S)
    finally:
        stores.close()


def append_to(settings: Settings, partition: int, task: Task) -> None:
    """Append a task's record to a partition, be it the wrong one."""
    writer = wiring.open_writer(settings)
    try:
        ordering_id = task.ordering_id.encode()
        writer.append(partition, ordering_id, encode_task(task)).result(WAIT_S)
    finally:
        writer.close()


def job_on(settings: Settings, *, dry_run: bool = False) -> JobOptions:
    """Return the options of a job over an installation."""
    named = {
        "log": settings.log,
        "store": settings.store,
        "topic.name": settings.topic.name,
        "topic.dead_letter": settings.topic.dead_letter,
        "topic.partitions": str(settings.topic.partitions),
        "group.id": settings.group.id,
        "kafka.bootstrap_servers": settings.kafka.bootstrap_servers,
        "cassandra.contact_points": ",".join(settings.cassandra.contact_points),
        "cassandra.port": str(settings.cassandra.port),
        "cassandra.keyspace": settings.cassandra.keyspace,
        "embedded.folder": str(settings.embedded.folder),
    }
    return JobOptions(Options().with_settings(named), dry_run=dry_run, say=_nothing)


def _nothing(_line: str) -> None:
    """Progress is of no interest to a test."""
