"""``hourhand limits set`` and ``reset`` on real Cassandra and Kafka: two nodes hear of both."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hourhand import Hourhand, Limit, Scheduler, Settings
from hourhand.actors.model.operations.oversight import NodeReport
from hourhand.actors.ports.store import Stores
from hourhand.scheduler import wiring
from hourhand.scheduler.cli.cli import app as commands
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import own_settings, set_options
from tests.waiting import until

pytestmark = pytest.mark.integration

NODES = 2
TASKS = 40
PARTITIONS = 4
WAIT_S = 60.0


@pytest.fixture
def settings(kafka_server: KafkaServer, cassandra_server: CassandraServer) -> Settings:
    """An installation of its own, with tables and topics."""
    made = own_settings(kafka_server, cassandra_server, "limits", partitions=PARTITIONS)
    wiring.migrate(made)
    return made


@pytest.fixture
def stores(settings: Settings) -> Iterator[Stores]:
    """Its store, to look at what nodes report."""
    opened = wiring.open_stores(settings)
    yield opened
    opened.close()


def reports(stores: Stores) -> tuple[NodeReport, ...]:
    """Return what each node said last."""
    return stores.oversight.read_reports().result(WAIT_S)


def both_own_partitions(stores: Stores) -> bool:
    """True if each node has a half of them, and has told so."""
    owned = [
        sum(each.stage == "running" for each in report.partitions) for report in reports(stores)
    ]
    return owned == [PARTITIONS // NODES] * NODES


class Mails:
    """An application whose limit holds nearly everything up, and what it ran."""

    def __init__(self) -> None:
        self.ran: set[int] = set()
        """By number: an attempt may be repeated where a busy machine makes the group rebalance."""
        self.app = Hourhand()
        lock = threading.Lock()

        @self.app.task("mail", limits=Limit(rate=1, per=timedelta(hours=1), burst=1))
        def mail(payload: dict[str, int]) -> None:
            with lock:
                self.ran.add(payload["number"])

        self._mail = mail

    def schedule(self, node: Scheduler, first: int) -> None:
        """Schedule tasks that are due, each of an ordering id of its own."""
        now = datetime.now(UTC)
        for number in range(first, first + TASKS):
            task = self._mail.make_task({"number": number}, ordering_id=f"id-{number}", at=now)
            node.schedule_task(task).result(WAIT_S)


def hourhand(settings: Settings, folder: Path, *arguments: str) -> Any:
    """Run a command of ``hourhand limits``; return what it says."""
    options = set_options(settings, folder)
    done = CliRunner().invoke(commands, ["limits", *arguments, "-o", "json", *options])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def told(stores: Stores, version: int) -> bool:
    """True if each node knows a version of the operator config."""
    return all(report.pauses_version >= version for report in reports(stores))


def nearly_all_wait(stores: Stores) -> bool:
    """True if the limit holds up all but what a burst of each node may be."""
    limited = [report.limited_count for report in reports(stores)]
    return all(limited) and sum(limited) >= TASKS - 2 * PARTITIONS


def test_a_changed_limit_reaches_every_node_and_so_does_its_reset(
    settings: Settings, stores: Stores, tmp_path: Path
) -> None:
    """What waits goes on within seconds; after the reset what comes waits again."""
    mails = Mails()
    with ExitStack() as closing:
        nodes = [
            closing.enter_context(Scheduler(settings, executors=mails.app)) for _ in range(NODES)
        ]
        until(lambda: both_own_partitions(stores))
        mails.schedule(nodes[0], 0)
        until(lambda: nearly_all_wait(stores))

        faster = ("set", "mail#1", "--rate", "1000", "--per", "1s", "--reason", "hurry")
        changed = hourhand(settings, tmp_path, *faster)
        until(lambda: len(mails.ran) == TASKS and told(stores, changed["version"]))
        assert changed["limits"][0]["effective"]["rate"] == 1_000

        left = hourhand(settings, tmp_path, "reset", "mail#1")
        until(lambda: told(stores, left["version"]))
        mails.schedule(nodes[0], TASKS)
        until(lambda: nearly_all_wait(stores))

        assert left["limits"][0]["state"] == "declared"
        assert len(mails.ran) <= TASKS + 2 * PARTITIONS
        assert mails.ran >= set(range(TASKS))
