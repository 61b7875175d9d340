"""Data is data: what an outsider puts into it chooses nothing, and arrives member by member.

At every door, in whatever way its task then moves: the executor that runs is the one that was
asked for, the task has no priority that nobody gave it, and nothing is taken out of the data.
"""

import io
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from hourhand import Hourhand, RetryPolicy, Scheduler, Task, TaskExecutor
from hourhand.actors.model.task.kind import MEMBER as KIND
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.priority import MEMBER as PRIORITY
from hourhand.actors.model.task.sealed import MEMBER as SEALED
from hourhand.actors.model.task.trace import MEMBER as TRACE
from hourhand.actors.model.task.trace import TRACEPARENT
from hourhand.actors.model.values.instant import format_instant
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.cli.task_input import read_tasks
from hourhand.scheduler.outbox.mover import Mover
from hourhand.scheduler.outbox.scheduling import Outbox
from hourhand.scheduler.outbox.sqlite import SqliteOutbox
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.payloads.deflate import Deflate
from hourhand.scheduler.testing import VirtualScheduler
from tests.unit.scheduler.admin.world import Api
from tests.unit.scheduler.cli.commands import invoke, settings_of
from tests.waiting import until

TIMEOUT_S = 10
CONTEXT = f"00-{32 * 'a'}-{16 * 'b'}-01"
ENVELOPE = {"steps": [{"codec": "aes-gcm", "key": "k1"}], "data": "eA=="}
CASES: dict[str, dict[str, Any]] = {
    "a kind": {"amount": 10_000, KIND: "refund"},
    "a kind alone": {KIND: "refund"},
    "a priority": {"amount": 1, PRIORITY: 99},
    "a trace": {"amount": 1, TRACE: CONTEXT},
    "an envelope": {SEALED: ENVELOPE},
    "an envelope of no codec": {SEALED: {"steps": [{"codec": "x"}], "data": "eA=="}, "n": 1},
    "what no envelope is": {SEALED: 1},
    "all of them": {SEALED: ENVELOPE, "n": 1, PRIORITY: 99, KIND: "refund", TRACE: CONTEXT},
    "twice": {PRIORITY: 1, KIND: "refund", "inner": {KIND: "refund"}, "text": f'"{KIND}":"refund"'},
    "another name of ours": {"hourhand.expires": "2026-01-01T00:00:00.000Z"},
}
"""By what each pretends to have."""

Door = Callable[[VirtualScheduler, dict[str, Any], str | None], None]
DOORS: dict[str, Door] = {}


def door(function: Door) -> Door:
    """Have every case come through a door."""
    DOORS[function.__name__] = function
    return function


def _task(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> Task:
    return Task(
        ordering_id="o",
        scheduled_time=scheduler.now + timedelta(minutes=1),
        uniqueness_key="u",
        data=data,
        kind=kind,
    )


@door
def schedule_task(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Schedule one."""
    scheduler.schedule_task(_task(scheduler, data, kind)).result(TIMEOUT_S)


@door
def schedule_tasks(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Schedule many."""
    scheduler.client.schedule_tasks([_task(scheduler, data, kind)]).raise_if_rejected()


@door
def unique_for(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Ask for the only one of its ids."""
    task = _task(scheduler, data, kind)
    scheduler.schedule_task(task, unique_for=timedelta(hours=1)).result(TIMEOUT_S)


@door
def debounce(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Ask for the last one of its ids."""
    task = _task(scheduler, data, kind)
    scheduler.schedule_task(task, debounce=timedelta(seconds=5)).result(TIMEOUT_S)


@door
def recurring(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Have a schedule make it."""
    scheduler.client.schedule_recurring(
        "nightly", every=timedelta(minutes=1), count_max=1, data=data, kind=kind
    ).result(TIMEOUT_S)


@door
def moved(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Move it to another time, and then run it now."""
    task = _task(scheduler, data, kind)
    scheduler.schedule_task(task).result(TIMEOUT_S)
    later = scheduler.now + timedelta(minutes=2)
    moved = scheduler.client.reschedule_task(task.key, later)
    moved.result(TIMEOUT_S)
    scheduler.run_due()
    key = task.key._replace(scheduled_ms=task.key.scheduled_ms + 60_000)
    scheduler.client.run_task_now(key).result(TIMEOUT_S)


@door
def restarted(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Load it from the store."""
    scheduler.schedule_task(_task(scheduler, data, kind)).result(TIMEOUT_S)
    scheduler.run_due()
    scheduler.crash()


def _record(
    scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None, *, spaces: bool
) -> bytes:
    fields = {
        "orderingId": "o",
        "scheduledTime": format_instant(scheduler.clock.now_ms() + 1_000),
        "uniquenessKey": "u",
        "taskData": data,
        "version": 1,
        **({} if kind is None else {"kind": kind}),
    }
    return json.dumps(fields, separators=None if spaces else (",", ":")).encode()


def _append(scheduler: VirtualScheduler, value: bytes, headers: Any = ()) -> None:
    partition = partition_of("o", 4)
    MemoryWriter(scheduler.broker).append(partition, b"o", value, headers).result(TIMEOUT_S)


@door
def record(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Write the record as another producer does."""
    _append(scheduler, _record(scheduler, data, kind, spaces=False))


@door
def spaced_record(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Write it with white space."""
    _append(scheduler, _record(scheduler, data, kind, spaces=True))


@door
def traced_record(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Write it with a trace of its own."""
    value = _record(scheduler, data, kind, spaces=False)
    _append(scheduler, value, [(TRACEPARENT, CONTEXT.replace("a", "c").encode())])


@door
def outbox(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Write a row in a transaction, which the mover takes to the log."""
    with TemporaryDirectory() as folder, closing(sqlite3.connect(f"{folder}/app")) as database:
        table = SqliteOutbox(Path(folder, "app"), "hourhand_outbox")
        table.migrate()
        box = Outbox(scheduler.settings, scheduler.clock)
        with database:
            box.schedule(database, _task(scheduler, data, kind))
        mover = Mover(
            table, MemoryWriter(scheduler.broker), scheduler.clock, rows_max=10, poll_ms=10
        )
        assert mover.move() == 1
        table.close()


@door
def http(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Ask the admin API for it."""
    task = _task(scheduler, data, kind)
    api = Api(scheduler.broker, scheduler.stores, scheduler.clock)
    status, answer = api.post(
        "/tasks",
        {
            "orderingId": "o",
            "uniquenessKey": "u",
            "scheduledTime": format_instant(task.key.scheduled_ms),
            "data": data,
            **({} if kind is None else {"kind": kind}),
        },
    )
    assert status == 200, answer
    scheduler.run_due()
    shown = api.get("/task", key=str(task.key))[1]["task"]
    assert shown["taskData"] == data and shown.get("kind") == kind and "sealed" not in shown


@door
def from_file(scheduler: VirtualScheduler, data: dict[str, Any], kind: str | None) -> None:
    """Read it from a file of records."""
    value = _record(scheduler, data, kind, spaces=False)
    tasks = read_tasks(
        io.BytesIO(value + b"\n"), lambda number, error: pytest.fail(f"{number} {error}")
    )
    scheduler.client.schedule_tasks(tasks).raise_if_rejected()


@pytest.fixture(params=[None, "hook"])
def kind(request: pytest.FixtureRequest) -> str | None:
    """The kind that is asked for."""
    found: str | None = request.param
    return found


class _Default(TaskExecutor):
    """Runs what has no kind; notes what it was given."""

    ran: list[tuple[str | None, int | None, list[tuple[str, Any]]]]

    def execute(self, task: Task) -> None:
        self.ran.append((task.kind, task.priority, list(task.data.items())))


def _executors(ran: list[Any]) -> tuple[type[TaskExecutor], Hourhand]:
    app = Hourhand()

    class Noting(_Default):
        pass

    Noting.ran = ran
    for name in ("hook", "refund"):

        def run(task: Task) -> None:
            ran.append((task.kind, task.priority, list(task.data.items())))

        app.task(name)(run)
    return Noting, app


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", DOORS)
def test_p1_data_arrives_member_by_member_at_the_executor_that_was_asked_for(
    way: str, case: str, kind: str | None
) -> None:
    """Through every door, with a kind and without; in the order in which its members were given."""
    ran: list[Any] = []
    default, app = _executors(ran)

    with VirtualScheduler(default, executors=app) as scheduler:
        DOORS[way](scheduler, CASES[case], kind)
        scheduler.advance(minutes=10)

    assert ran == [(kind, None, list(CASES[case].items()))]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", ["schedule_task", "unique_for", "recurring", "record"])
def test_a_node_with_codecs_takes_nothing_of_an_outsider_for_sealed(way: str, case: str) -> None:
    """It knows the codec and the key that the data names, and the data is not of that key."""
    ran: list[Any] = []
    default, app = _executors(ran)
    payloads = PayloadCodecs(reads=[Deflate(), AesGcm({"k1": bytes(32)})])

    with VirtualScheduler(default, executors=app, payloads=payloads) as scheduler:
        DOORS[way](scheduler, CASES[case], None)
        scheduler.advance(minutes=10)

    assert ran == [(None, None, list(CASES[case].items()))]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", ["schedule_task", "unique_for", "debounce", "recurring"])
def test_what_is_sealed_may_hold_anything(way: str, case: str, kind: str | None) -> None:
    """The names are no one's within an envelope."""
    ran: list[Any] = []
    default, app = _executors(ran)
    payloads = PayloadCodecs(AesGcm({"k1": bytes(32)}))

    with VirtualScheduler(default, executors=app, payloads=payloads) as scheduler:
        DOORS[way](scheduler, CASES[case], kind)
        scheduler.advance(minutes=10)

    assert ran == [(kind, None, list(CASES[case].items()))]


@pytest.mark.parametrize("case", CASES)
def test_a_dead_letter_that_is_sent_again_arrives_as_it_was(case: str, kind: str | None) -> None:
    """The record in the letter is the one that was scheduled."""
    ran: list[Any] = []

    class Fails(_Default):
        retry = RetryPolicy(attempts_max=1, on_exhausted="dead_letter")

        def execute(self, task: Task) -> None:
            super().execute(task)
            raise ValueError

    Fails.ran = ran
    executors: dict[str, Any] = {"hook": Fails, "refund": Fails}
    with VirtualScheduler(Fails, executors=executors) as scheduler:
        schedule_task(scheduler, CASES[case], kind)
        scheduler.advance(minutes=10)
        (letter,), _ = scheduler.broker.dead_letters.read(0, 10)
        again = json.loads(letter.value or b"")
        again["uniquenessKey"] = "again"
        _append(scheduler, json.dumps(again).encode())
        scheduler.advance(minutes=10)

    assert ran == [(kind, None, list(CASES[case].items()))] * 2


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an installation on which a node runs what the command line schedules."""
    ran: list[Any] = []
    default, app = _executors(ran)
    path = tmp_path_factory.mktemp("chooses") / "data"
    with Scheduler(settings_of(path), executor=default, executors=app):
        for number, data in enumerate(CASES.values()):
            for kind in ("", "hook"):
                given = ["--kind", kind] if kind else []
                key = f"{kind}{number}"
                asked = invoke(
                    path,
                    "schedule",
                    "--ordering-id",
                    f"o{key}",
                    "--at",
                    "now",
                    "--data",
                    json.dumps(data),
                    *given,
                )
                assert asked.exit_code == 0, asked.output
        until(lambda: len(ran) == 2 * len(CASES))
        (path / "ran.json").write_text(json.dumps(ran))
    return path


def test_the_command_line_and_sql_have_it_as_it_was(folder: Path) -> None:
    """A real node on a real folder ran it; its screens show it."""
    ran = json.loads((folder / "ran.json").read_text())
    wanted = [
        [kind, None, [list(each) for each in data.items()]]
        for data in CASES.values()
        for kind in (None, "hook")
    ]

    asked = invoke(folder, "sql", "SELECT data FROM tasks", "-o", "json").stdout

    assert sorted(ran, key=str) == sorted(json.loads(json.dumps(wanted)), key=str)
    every = sorted([*CASES.values()] * 2, key=str)
    assert sorted((json.loads(each["data"]) for each in json.loads(asked)), key=str) == every
