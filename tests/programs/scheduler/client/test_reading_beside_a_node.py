"""A client of its own beside a node, over the embedded folder: what a user's program does."""

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from hourhand import (
    Absence,
    CommandOutcome,
    Scheduler,
    SchedulerClient,
    Settings,
    Task,
    TaskState,
)
from hourhand.actors.model.values.errors import NodeStopped, OperatorError, StoreUnavailable
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings
from tests.builders import Idle

WAIT_S = 120.0


def a_task(uniqueness_key: str, due_in: timedelta = timedelta(0)) -> Task:
    """Return a task of one customer."""
    return Task(
        ordering_id="customer-7",
        scheduled_time=datetime.now(UTC) + due_in,
        uniqueness_key=uniqueness_key,
        data={"invoice": 42},
    )


def test_what_a_node_does_is_read_beside_it(tmp_path: Path) -> None:
    """From a thread and from a coroutine, before, while and after a node runs."""
    settings = Settings(
        embedded=EmbeddedSettings(folder=tmp_path), topic=TopicSettings(partitions=2)
    )
    with SchedulerClient(settings) as client:
        now = client.schedule_task(a_task("now")).result(timeout=WAIT_S)
        client.schedule_task(a_task("later", timedelta(days=1))).result(timeout=WAIT_S)
        assert client.find_task(now).absence is Absence.NOT_STORED_YET

        with Scheduler(settings, executor=Idle) as node:
            assert client.wait_task(now, WAIT_S).state is TaskState.SUCCESS
            assert node.find_task(now.key).data == {"invoice": 42}

            asyncio.run(_change(client))

        states = {each.key.uniqueness_key: each.state for each in client.list_tasks()}
    assert states == {"now": TaskState.SUCCESS, "later": TaskState.CANCELLED}


def test_closing_a_client_ends_its_waits(tmp_path: Path) -> None:
    """A thread that waits for a task hears that the client is closed."""
    settings = Settings(
        embedded=EmbeddedSettings(folder=tmp_path), topic=TopicSettings(partitions=2)
    )
    client = SchedulerClient(settings)
    receipt = client.schedule_task(a_task("now")).result(timeout=WAIT_S)
    ended: list[OperatorError] = []

    def wait() -> None:
        try:
            client.wait_task(receipt, timeout=10 * WAIT_S)
        except OperatorError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    client.close()
    thread.join(WAIT_S)

    # In the middle of a look it may be the store that says so.
    assert len(ended) == 1 and isinstance(ended[0], NodeStopped | StoreUnavailable)


async def _change(client: SchedulerClient) -> None:
    waiting = [each async for each in client.aio.list_tasks(state=TaskState.PENDING)]
    assert [each.key.uniqueness_key for each in waiting] == ["later"]

    command = await client.cancel_task(("customer-7", "later"))
    outcome = await client.aio.wait_outcome(command, WAIT_S)

    assert outcome.outcome is CommandOutcome.APPLIED
    assert (await client.aio.find_task(waiting[0].key)).state is TaskState.CANCELLED
