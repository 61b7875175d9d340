"""A forked process and its parent's clients: refused at once, and left alone.

Each test is a program of its own, as pytest's process has threads that no fork should meet.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hourhand.scheduler.adapters.embedded.connection import open_connection
from hourhand.scheduler.adapters.embedded.folder import log_file
from tests.servers.mock_broker import MockBroker

WAIT_S = 60

BEGIN = """
import os, sqlite3, sys, threading, warnings
from datetime import UTC, datetime, timedelta

# Python 3.12 and newer warn of a fork where there are threads, which is what is tried here.
warnings.simplefilter("ignore", DeprecationWarning)
from hourhand import *

WAIT_S = 60

def a_task(name):
    due = datetime.now(UTC) + timedelta(hours=1)
    return Task(ordering_id="a", scheduled_time=due, uniqueness_key=name)

def told(call):
    try:
        return call()
    except HourhandError as error:
        return error.code

def child(work):
    sys.stdout.flush()
    if os.fork() == 0:
        work()
        # As a worker of a server does: the interpreter frees everything it has.
        sys.exit(0)
    assert os.wait()[1] == 0

class Job(TaskExecutor):
    def execute(self, task):
        pass
"""


def run(program: str, *arguments: str) -> list[str]:
    """Run a program to its end; return what it printed, line by line."""
    ran = subprocess.run(
        [sys.executable, "-c", BEGIN + program, *arguments],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


@pytest.fixture
def broker() -> Iterator[MockBroker]:
    """A Kafka broker that both processes reach."""
    with MockBroker() as broker:
        yield broker


def test_a_future_that_was_under_way_fails_in_the_child_and_not_in_the_parent(
    tmp_path: Path,
) -> None:
    """Its record is the parent's, which hears of it."""
    program = """
settings = Settings(embedded={"folder": sys.argv[1]})
with SchedulerClient(settings) as client:
    holds = sqlite3.connect(sys.argv[1] + "/log.db", isolation_level=None)
    holds.execute("BEGIN IMMEDIATE")
    future, called = client.schedule_task(a_task("under way")), []
    future.add_done_callback(called.append)
    sys.stdout.flush()
    if os.fork() == 0:
        print("child", told(future.result), future.done(), called)
        sys.stdout.flush()
        os._exit(0)
    os.wait()
    holds.execute("ROLLBACK")
    print("parent", future.result(WAIT_S).offset)
"""

    assert run(program, str(tmp_path)) == ["child used-after-fork True []", "parent 0"]


def test_every_call_of_a_client_is_refused_in_the_child(tmp_path: Path) -> None:
    """At once, and closing it there closes nothing of the parent's."""
    program = """
settings = Settings(embedded={"folder": sys.argv[1]})
client = SchedulerClient(settings)
key = client.schedule_task(a_task("first")).result(WAIT_S).key

def work():
    print(told(client.schedule_task(a_task("second")).result), told(client.cancel_task(key).result))
    print(client.schedule_tasks([a_task("third")]).interrupted_by.code)
    client.close()

child(work)
print(client.schedule_task(a_task("fourth")).result(WAIT_S).offset)
client.close()
"""

    assert run(program, str(tmp_path)) == [
        "used-after-fork used-after-fork",
        "used-after-fork",
        "1",
    ]


def test_p1_a_folder_that_the_parent_has_open_is_refused_in_the_child(tmp_path: Path) -> None:
    """SQLite would lose what is acknowledged there; another folder, or a closed one, is fine."""
    program = """
def opened(folder):
    with SchedulerClient(Settings(embedded={"folder": folder})) as client:
        return client.schedule_task(a_task("of the child")).result(WAIT_S).offset

one, other = sys.argv[1:]
client = SchedulerClient(Settings(embedded={"folder": one}))
child(lambda: print(told(lambda: opened(one)), told(lambda: opened(other))))
client.close()
child(lambda: print(told(lambda: opened(one))))
"""

    lines = run(program, str(tmp_path / "one"), str(tmp_path / "other"))

    assert lines == ["used-after-fork 0", "0"]


def test_a_client_of_kafka_is_refused_in_the_child_where_another_one_works(
    broker: MockBroker,
) -> None:
    """The driver's threads are not there; nothing waits for them, not even the process's end."""
    program = """
from hourhand.scheduler import wiring
from hourhand.scheduler.adapters.kafka.writer import KafkaWriter
from hourhand.scheduler.client.client import ClientPorts

class Writer(KafkaWriter):
    def partition_count(self):
        # The mock broker describes no topics.
        return 1

settings = Settings(log="kafka", kafka={"bootstrap_servers": sys.argv[1]})

def opened():
    ports = ClientPorts(
        Writer(settings, wiring.open_clock()),
        lambda: None,
        wiring.open_clock(),
        wiring.build_telemetry(settings),
    )
    return SchedulerClient(settings, ports)

client = opened()
client.schedule_task(a_task("first")).result(WAIT_S)

def work():
    print(told(client.schedule_task(a_task("second")).result))
    with opened() as another:
        print(another.schedule_task(a_task("third")).result(WAIT_S).key.ordering_id)

child(work)
client.schedule_task(a_task("fourth")).result(WAIT_S)
client.close()
"""

    assert run(program, broker.bootstrap_servers) == ["used-after-fork", "a"]


def test_a_node_goes_on_in_the_parent_and_has_stopped_in_the_child(tmp_path: Path) -> None:
    """The child leaves the with block, which stops nothing of the parent's."""
    program = """
with Scheduler(Settings(embedded={"folder": sys.argv[1]}), executor=Job) as scheduler:
    receipt = scheduler.schedule_task(a_task("first")).result(WAIT_S)
    sys.stdout.flush()
    if os.fork() == 0:
        print(told(scheduler.start), scheduler.is_ready, scheduler.partitions)
        sys.exit(0)
    assert os.wait()[1] == 0
    now = scheduler.run_task_now(receipt.key).result(WAIT_S)
    while scheduler.outcome(now) is None:
        threading.Event().wait(0.01)
    print(scheduler.outcome(now).outcome)
"""

    assert run(program, str(tmp_path)) == ["used-after-fork False ()", "applied"]


def test_a_grandchild_is_told_as_well(tmp_path: Path) -> None:
    """Of a client that its own parent opened, after a fork of its own."""
    program = """
def work():
    with SchedulerClient(Settings(embedded={"folder": sys.argv[1]})) as client:
        child(lambda: print(told(client.schedule_task(a_task("first")).result)))
        print(client.schedule_task(a_task("second")).result(WAIT_S).offset)

child(work)
"""

    assert run(program, str(tmp_path)) == ["used-after-fork", "0"]
    assert open_connection(log_file(tmp_path)).execute("SELECT count(*) FROM record").fetchone()
