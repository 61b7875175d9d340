"""Two stores behind one group: the second one is refused, by name, where it would take part."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from hourhand import Scheduler, Settings, Task
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.values.errors import GroupShared
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.kafka.connection import LastError, admin_client
from hourhand.scheduler.cli.relay_running import RelayRunning
from tests.integration.relay_world import RelayWorld, relay_settings
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import QUICK_GROUP, own_settings
from tests.waiting import until

pytestmark = pytest.mark.integration

eventually = partial(until, timeout_s=60.0, look_s=0.1)


class Noting(TaskExecutor):
    """Does nothing."""

    ran: ClassVar[list[str]] = []

    def execute(self, task: Task) -> None:
        """Note the task."""
        self.ran.append(task.uniqueness_key)


def _committed(settings: Settings, group: str, topic: str) -> Callable[[], bool]:
    chosen = settings.model_copy(
        update={
            "topic": settings.topic.model_copy(update={"name": topic}),
            "group": settings.group.model_copy(update={"id": group}),
        }
    )
    offsets = wiring.open_group_offsets(chosen)
    return lambda: bool(offsets.committed())


def test_a_node_with_another_keyspace_is_refused_until_the_groups_offsets_are_removed(
    kafka_server: KafkaServer, cassandra_server: CassandraServer
) -> None:
    """While the others run and after that; a store that took the other's place says so."""
    blue = own_settings(kafka_server, cassandra_server, "blue", group=QUICK_GROUP)
    cassandra = blue.cassandra.model_copy(update={"keyspace": f"green_{blue.cassandra.keyspace}"})
    green = blue.model_copy(update={"cassandra": cassandra})
    wiring.migrate(blue)
    wiring.migrate(green)
    says = f"{blue.group.id}.*keyspace {blue.cassandra.keyspace}.*{cassandra.keyspace}.*offsets"
    with Scheduler(blue, executor=Noting):
        eventually(_committed(blue, blue.group.id, blue.topic.name), "blue has committed")
        with pytest.raises(GroupShared, match=says):
            Scheduler(green, executor=Noting)
    with pytest.raises(GroupShared, match=says):
        Scheduler(green, executor=Noting)
    with Scheduler(blue, executor=Noting) as again:
        eventually(lambda: len(again.partitions) == blue.topic.partitions, "it goes on")

    admin = admin_client(blue, LastError())
    admin.delete_consumer_groups([blue.group.id])[blue.group.id].result(30)

    with Scheduler(green, executor=Noting) as node:
        eventually(lambda: len(node.partitions) == green.topic.partitions, "green took over")


def test_a_relay_with_another_store_is_refused(kafka_server: KafkaServer, tmp_path: Path) -> None:
    """Of two relays with one group each would compare a part of the ids."""
    settings = relay_settings(kafka_server, tmp_path / "one")
    relay = settings.relay
    other = relay_settings(kafka_server, tmp_path / "two").model_copy(update={"relay": relay})
    wiring.migrate(settings)
    wiring.migrate(other)
    wiring.create_relay_topics(settings)
    world = RelayWorld(settings)
    try:
        with RelayRunning(settings):
            world.put(b"first", message_id="a", due_ms=world.clock.now_ms())
            world.flush()
            world.wait_for(1)
            eventually(_committed(settings, relay.group_id, relay.in_topic), "it has committed")
            with pytest.raises(GroupShared, match=relay.group_id):
                RelayRunning(other)
    finally:
        world.close()
