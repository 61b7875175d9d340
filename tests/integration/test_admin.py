"""The admin API on a port, over real Kafka and Cassandra with two nodes, and over TLS."""

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from hourhand import Scheduler, Settings, Task
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.scheduler import wiring
from hourhand.scheduler.cli.http_running import AdminRunning
from hourhand.scheduler.services.timers.service import TimerService
from hourhand.scheduler.services.timers.timer import TimerRule
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import PATIENT_GROUP, own_settings

WAIT_S = 60.0
TOKEN = "t" * 32


class Letters(TaskExecutor):
    """Fails for good where it is told to, and puts the task aside then."""

    retry = RetryPolicy(attempts_max=1, on_exhausted="dead_letter")

    def execute(self, task: Task) -> None:
        """Fail where the data says so."""
        if task.data.get("fail"):
            raise ValueError("told to fail")


class Asking:
    """Asks a running API."""

    def __init__(self, running: AdminRunning, verify: ssl.SSLContext | bool = True) -> None:
        self._client = httpx.Client(
            base_url=f"{running.address}/api/v1",
            headers={"Authorization": f"Bearer {TOKEN}"},
            timeout=WAIT_S,
            verify=verify,
        )

    def get(self, path: str, **parameters: Any) -> Any:
        """Look."""
        answer = self._client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: object) -> Any:
        """Act."""
        answer = self._client.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def until(self, seen: Callable[[], Any]) -> Any:
        """Look until something is seen."""
        pause = threading.Event()
        for _ in range(int(WAIT_S * 10)):
            found = seen()
            if found:
                return found
            pause.wait(0.1)
        raise AssertionError("it was never seen")


@pytest.fixture(scope="module")
def settings(kafka_server: KafkaServer, cassandra_server: CassandraServer) -> Settings:
    """An installation of this module's own."""
    admin = {"port": 0, "write_tokens": {"ann": TOKEN}}
    settings = own_settings(
        kafka_server, cassandra_server, "admin", group=PATIENT_GROUP, admin=admin
    )
    wiring.migrate(settings)
    return settings


@pytest.fixture(scope="module")
def nodes(settings: Settings) -> Iterator[list[Scheduler]]:
    """Two nodes."""
    with ExitStack() as running:
        yield [running.enter_context(Scheduler(settings, executor=Letters)) for _ in range(2)]


@pytest.fixture(scope="module")
def asking(settings: Settings, nodes: list[Scheduler]) -> Iterator[Asking]:
    """The API beside them, once both are seen."""
    assert nodes
    with AdminRunning(settings) as running, closing(Asking(running)) as asking:
        asking.until(lambda: asking.get("/status")["partitions"]["owned"] == 4)
        yield asking


def a_task(name: str, *, seconds: float = 0.0, fail: bool = False) -> Task:
    """Return a task of an id of its own."""
    at = datetime.now(UTC) + timedelta(seconds=seconds)
    return Task(ordering_id=name, scheduled_time=at, uniqueness_key="u", data={"fail": fail})


def state(asking: Asking, task: Task) -> str:
    """Return a task's state, once it is stored."""
    window = {"from": "2020-01-01T00:00:00Z", "to": "2100-01-01T00:00:00Z"}
    tasks = asking.until(
        lambda: asking.get("/tasks", **window, orderingId=task.ordering_id)["tasks"]
    )
    return str(tasks[0]["state"])


@pytest.mark.integration
def test_a_pause_holds_on_every_node_and_a_resume_lets_all_run(
    asking: Asking, nodes: list[Scheduler]
) -> None:
    """Every owner knows soon; nothing starts; afterwards everything runs."""
    asking.post("/pauses", {"targets": [{"scope": "all"}], "reason": "test"})
    asking.until(
        lambda: all(each["pauseKnown"] for each in asking.get("/partitions")["partitions"])
    )
    tasks = [a_task(f"paused-{number}") for number in range(20)]
    for task in tasks:
        nodes[0].schedule_task(task).result(WAIT_S)
    asking.until(lambda: asking.get("/status")["lag"] == 0)
    assert {state(asking, task) for task in tasks} == {"pending"}

    asking.post("/pauses/resume", {"targets": [{"scope": "all"}]})
    asking.until(lambda: {state(asking, task) for task in tasks} == {"success"})


@pytest.mark.integration
def test_a_dead_letter_is_listed_and_replayed(asking: Asking, nodes: list[Scheduler]) -> None:
    """Page by page, from the topic's end."""
    failing = [a_task(f"failing-{number}", fail=True) for number in range(3)]
    for task in failing:
        nodes[0].schedule_task(task).result(WAIT_S)
    asking.until(lambda: len(asking.get("/dead-letters")["letters"]) == 3)

    found: list[dict[str, Any]] = []
    before: dict[str, str] = {}
    while True:
        page = asking.get("/dead-letters", limit=2, **before)
        found += page["letters"]
        if page["nextBefore"] is None:
            break
        before = {"before": page["nextBefore"]}
    assert sorted(each["key"] for each in found) == sorted(str(task.key) for task in failing)

    told = asking.post("/dead-letters/replay", {"places": [found[0]["place"], "0:999999"]})
    assert [each["outcome"] for each in told["results"]] == ["replayed", "unknown"]


@pytest.mark.integration
def test_the_future_is_counted_and_an_action_has_its_outcome(
    asking: Asking, nodes: list[Scheduler]
) -> None:
    """Counts arrive within seconds; a cancelled task is counted no more."""
    tasks = [a_task(f"ahead-{number}", seconds=7_200) for number in range(6)]
    for task in tasks:
        nodes[0].schedule_task(task).result(WAIT_S)
    # From when nothing else is due: the letters of the other test were.
    soon = {"unit": "hour", "bars": 4, "from": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    asking.until(lambda: asking.get("/ahead", **soon)["total"] == 6)

    told = asking.post("/actions/cancel", {"keys": [str(t.key) for t in tasks], "waitS": 30})
    assert told["outcomes"] == {"applied": 6}
    asking.until(lambda: asking.get("/ahead", **soon)["total"] == 0)
    newest = asking.get("/audit", limit=1)["entries"][0]
    assert (newest["who"], newest["action"], newest["result"]) == ("ann", "cancel", "applied 6")


@pytest.mark.integration
def test_what_other_doors_keep_is_listed_and_changed(
    asking: Asking, nodes: list[Scheduler]
) -> None:
    """From Cassandra, shard by shard, each of them once; through a node that runs no such door."""
    names = {f"schedule-{number}" for number in range(12)}
    for name in names:
        nodes[0].schedule_recurring(name, every=timedelta(hours=1)).result(WAIT_S)
    dependencies = nodes[0].dependencies
    service = TimerService(dependencies.appender, dependencies.definitions, dependencies.clock)
    rule = TimerRule(3_600_000, 7_200_000, "http://localhost:1/", "o", tags=(("CALL", 1),))

    async def make_timers() -> None:
        for number in range(12):
            await service.put(f"{number:016x}", rule, new=True)

    asyncio.run(make_timers())
    for number in range(6):
        nodes[0].send_later(b"k%d" % number, b"v", "elsewhere", timedelta(hours=2)).result(WAIT_S)

    asking.until(lambda: set(listed(asking, "recurring", "name", limit=5)) == names)
    asking.until(lambda: len(listed(asking, "timers", "id", tag="CALL", limit=5)) == 12)
    asking.until(lambda: len(listed(asking, "relay/pending", "key", limit=4)) == 6)
    assert len(listed(asking, "recurring", "name", limit=1)) == 12

    body = {"names": sorted(names), "waitS": 30}
    assert asking.post("/recurring/pause", body)["outcomes"] == {"applied": 12}
    assert asking.get("/recurring/schedule", name="schedule-0")["recurring"]["paused"]
    ids = listed(asking, "timers", "id")
    assert asking.post("/timers/delete", {"ids": ids})["outcomes"] == {"deleted": 12}
    asking.until(lambda: listed(asking, "timers", "id") == [])
    keys = listed(asking, "relay/pending", "key")
    told = asking.post("/relay/cancel", {"keys": keys, "waitS": 30})
    assert told["outcomes"] == {"applied": 6}


def listed(asking: Asking, path: str, name: str, **asked: Any) -> list[str]:
    """Return one field of everything that a listing has, page by page."""
    found: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = asking.get(f"/{path}", **asked, **after)
        rows = page["messages"] if path == "relay/pending" else page[path]
        found += [row[name] for row in rows]
        if page["nextAfter"] is None:
            return found
        after = {"after": page["nextAfter"]}


@pytest.mark.integration
def test_a_node_that_goes_is_silent_and_its_partitions_are_taken_over(
    asking: Asking, nodes: list[Scheduler]
) -> None:
    """Unknown in between, owned by the other afterwards."""
    nodes[1].close()

    asking.until(lambda: asking.get("/status")["nodes"] == {"alive": 1, "silent": 1})
    asking.until(lambda: asking.get("/status")["partitions"]["owned"] == 4)
    owners = {each["owner"] for each in asking.get("/partitions")["partitions"]}
    assert len(owners) == 1


def test_the_api_is_served_over_tls(tmp_path: Path) -> None:
    """With a certificate of one's own authority."""
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(b"".join(each.bytes() for each in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(key)
    admin: Any = {
        "port": 0,
        "write_tokens": {"ann": TOKEN},
        "certificate_file": chain,
        "key_file": key,
    }
    settings = Settings(embedded={"folder": tmp_path / "data"}, admin=admin)
    context = ssl.create_default_context()
    authority.configure_trust(context)

    with AdminRunning(settings) as running, closing(Asking(running, context)) as asking:
        assert running.address.startswith("https://")
        assert asking.get("/status")["nodes"]["alive"] == 0
