"""What type checkers say of users' programs: nothing of good ones, the line at fault of bad ones.

Each checker runs once over both; a line of the bad program that is wrong ends in ``# wrong``.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.source import ROOT

GOOD = """
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import assert_type

from pydantic import JsonValue

from hourhand import BatchExecutor, BatchOutcome, Done, Drop, Hourhand, Retry, RetryPolicy
from hourhand import Scheduler, SchedulerClient, Settings, Task, TaskExecutor, TaskKind
from hourhand.testing import VirtualScheduler, execute_task


class SendInvoice(TaskExecutor):
    retry = RetryPolicy(attempts_max=3, retry_on=OSError, drop_on=(KeyError, ValueError))

    def execute(self, task: Task) -> Done | Retry | Drop | None:
        return Drop("no such invoice") if task.data["invoice"] is None else None


class SendLater(TaskExecutor):
    async def execute(self, task: Task) -> None:
        print(task.ordering_id)


numbers = {"invoice": 42, "cents": 500}
task = Task(
    ordering_id="customer-7",
    scheduled_time=datetime.now(UTC) + timedelta(hours=1),
    uniqueness_key="invoice-42",
    data=numbers,
)
assert_type(task.data, dict[str, JsonValue])
assert_type(task.scheduled_time, datetime)
Task(ordering_id="a", scheduled_time=datetime.now(UTC), uniqueness_key="b")
Task(ordering_id="a", scheduled_time=task.scheduled_time, uniqueness_key="b", data={"x": [1, {}]})
Settings()
Settings(log="kafka", store="cassandra", config_file="other.toml")
Settings(embedded={"folder": "data"}, topic={"partitions": 4})
Settings(kafka={"bootstrap_servers": "k:9092", "tls": {"enabled": True, "ca_file": Path("ca.pem")}})
Settings(cassandra={"contact_points": ["a", "b"], "replication": {"east": 3}})
settings = Settings(tree={"window": {"tick_ms": 100}}, calm_collector=False)
assert_type(settings.tree.window.tick_ms, int)
with SchedulerClient(settings) as client:
    client.schedule_task(task).result()
    client.schedule_tasks([task, task])
    client.cancel_task(task.key)
VirtualScheduler(SendInvoice).schedule_task(task)
execute_task(SendLater(), task)
app = Hourhand()


@dataclass
class Invoice:
    id: int


@app.task("send", retry=RetryPolicy(attempts_max=2), timeout=timedelta(seconds=3))
def send(invoice: Invoice) -> None: ...


@app.task("charge", concurrency=2)
async def charge(invoice: Invoice, task: Task) -> Drop | None: ...


@app.task("ping")
def ping() -> None: ...


@app.executor("later")
class Later(SendLater): ...


class Insert(BatchExecutor):
    batch_tasks_max = 500

    def execute_many(self, tasks: Sequence[Task]) -> Sequence[BatchOutcome]:
        return [Drop("no") if task.data else ValueError("no") for task in tasks]


@app.batch("file", tasks_max=500, wait=timedelta(seconds=1), retries_alone=True)
def file(invoices: list[Invoice]) -> None: ...


send(Invoice(1))
with Scheduler(settings, executors=app, executor=SendInvoice):
    send.schedule(Invoice(1), ordering_id="a", after=timedelta(hours=1)).result()
    charge.schedule(Invoice(1), ordering_id="a", at=datetime.now(UTC), uniqueness_key="b")
    ping.schedule(None, ordering_id="a")
    file.schedule(Invoice(1), ordering_id="a")
Scheduler(settings, executors={"later": Later, "send": TaskKind(SendInvoice, concurrency=3)})
Scheduler(settings, executors={"insert": Insert})
"""


BAD = """
from dataclasses import dataclass
from datetime import UTC, datetime

from hourhand import Hourhand, Retry, RetryPolicy, Scheduler, SchedulerClient, Settings
from hourhand import Task, TaskExecutor

NOW = datetime.now(UTC)


class Five(TaskExecutor):
    retry = 5  # wrong

    def execute(self, task: Task) -> None: ...


class Wrong(TaskExecutor):
    retry = RetryPolicy(retry_on="OSError")  # wrong

    def execute(self, task: Task) -> Retry:
        return Retry(after=5)  # wrong


class Text(TaskExecutor):
    def execute(self, task: Task) -> str:  # wrong
        return "x"


Task(ordering_id=7, scheduled_time=NOW, uniqueness_key="b")  # wrong
Task(ordering_id="a", scheduled_time="tomorrow", uniqueness_key="b")  # wrong
Task(ordering_id="a", scheduled_time=NOW, uniqueness_key=None)  # wrong
Task(ordering_id="a", scheduled_time=NOW)  # wrong
Task(ordering_id="a", scheduled_time=NOW, uniqueness_key="b", dta={})  # wrong
Task(ordering_id="a", scheduled_time=NOW, uniqueness_key="b", data=[1])  # wrong
Task(ordering_id="a", scheduled_time=NOW, uniqueness_key="b", data={"x": NOW})  # wrong
Task("a")  # wrong
Settings(storage="x")  # wrong
Settings(store="sqlite")  # wrong
Settings(embedded="data")  # wrong
Settings(embedded={"foldr": "data"})  # wrong
Settings(topic={"partitions": "four"})  # wrong
Settings(kafka={"tls": {"enable": True}})  # wrong
Settings(group={"assignor": "sticky"})  # wrong
with SchedulerClient(Settings()) as client:
    client.schedule_task({"a": 1})  # wrong
    client.cancel_task("x")  # wrong
    client.schedule_tasks(Task(ordering_id="a", scheduled_time=NOW, uniqueness_key="b"))  # wrong
SchedulerClient({})  # wrong
app = Hourhand()


@dataclass
class Invoice:
    id: int


@app.task("send")
def send(invoice: Invoice) -> None: ...


@app.task("ping")
def ping() -> None: ...


send.schedule({"id": 1}, ordering_id="a")  # wrong
send.schedule(Invoice(1))  # wrong
send.schedule(Invoice(1), ordering_id="a", at="tomorrow")  # wrong
ping.schedule(Invoice(1), ordering_id="a")  # wrong
app.task(5)  # wrong
Scheduler(Settings(), executors={"send": 5})  # wrong
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with both programs."""
    folder = tmp_path_factory.mktemp("programs")
    (folder / "good.py").write_text(GOOD)
    (folder / "bad.py").write_text(BAD)
    return folder


def _wrong_lines() -> set[int]:
    lines = enumerate(BAD.splitlines(), start=1)
    return {number for number, line in lines if line.endswith("# wrong")}


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("plugin", ["", "pydantic.mypy"])
def test_mypy_finds_what_is_wrong_and_nothing_else(programs: Path, plugin: str) -> None:
    """In strict mode, with pydantic's plugin as users have it, and without."""
    (programs / "mypy.ini").write_text(f"[mypy]\nstrict = true\nplugins = {plugin}\n")

    output = _run(
        programs,
        "mypy",
        "--config-file",
        "mypy.ini",
        "--follow-imports",
        "silent",
        "--output",
        "json",
        "good.py",
        "bad.py",
    )

    found = [json.loads(line) for line in output.splitlines()]
    errors = {(each["file"], each["line"]): each["message"] for each in found}
    assert not [text for (file, _), text in errors.items() if file == "good.py"]
    assert {line for file, line in errors if file == "bad.py"} == _wrong_lines(), errors


@pytest.mark.slow
def test_pyright_finds_what_is_wrong_and_nothing_else(programs: Path) -> None:
    """In strict mode; basedpyright is pyright in a package that needs no other registry."""
    configuration = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (programs / "pyrightconfig.json").write_text(json.dumps(configuration))

    output = _run(
        programs,
        "basedpyright",
        "--pythonpath",
        sys.executable,
        "--outputjson",
        "good.py",
        "bad.py",
    )

    errors = {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"]
        for each in json.loads(output)["generalDiagnostics"]
        if each["severity"] == "error"
    }
    assert not [text for (file, _), text in errors.items() if file == "good.py"]
    assert {line for file, line in errors if file == "bad.py"} == _wrong_lines(), errors
