"""What OpenAPI says of an HTTP door is what a running one does: Schemathesis asks, over a port.

For each path, requests that the description allows, which must not be refused as wrong, and others
that it forbids, which must be; every answer must be one that is described, in the form described.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, assume, given, seed, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from schemathesis import GenerationMode

from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.cli.http_running import AdminRunning, TimersRunning
from hourhand.scheduler.configuration.door_settings import AdminSettings, TimerSettings
from hourhand.scheduler.configuration.settings import EmbeddedSettings, Settings, TopicSettings
from hourhand.scheduler.scheduler import Scheduler
from hourhand.scheduler.services.timers.service import TimerService
from hourhand.scheduler.services.timers.timer import TimerRule
from tests.tidy.openapi_descriptions import described_admin, described_timers
from tests.waiting import until

EXAMPLES = 6
"""Requests of each kind for each path."""
PARTITIONS = 4
URL_CHARS_MAX = 60_000
"""Above twice of it the server reads no address, whatever it says."""
TOKEN = "w" * 16
HEADERS = {"Authorization": f"Bearer {TOKEN}"}
TIMER, NAME = "0123456789abcdef-2", "nightly"
STARTED = datetime.now(UTC)
TIMES = st.integers(-3_600, 3_600).map(
    lambda s: (STARTED + timedelta(seconds=s)).isoformat().replace("+00:00", "Z")
)
KNOWN: list[str] = []
"""Keys of tasks that there are."""
CONFIG = schemathesis.Config.from_dict(
    # 413 and 414 refuse what is too long, too.
    {"checks": {"negative_data_rejection": {"expected-statuses": ["4xx"]}}}
)
ADMIN = schemathesis.openapi.from_dict(described_admin(), config=CONFIG)


TIMERS = schemathesis.openapi.from_dict(described_timers(), config=CONFIG)


class Picky(TaskExecutor):
    """Fails for one ordering id."""

    def execute(self, task: Task) -> None:
        """Succeed, or not."""
        if task.ordering_id == "bad":
            raise ValueError("always")


def _keys(*ids: str) -> st.SearchStrategy[str]:
    return st.builds("{},{},{}".format, TIMES, st.sampled_from(ids), st.sampled_from("uv"))


def _declare_formats() -> None:
    """Tell what texts of the formats are that are ours."""
    keys = st.deferred(lambda: st.sampled_from(KNOWN)) | _keys("good", "nobody")
    formats = {
        "date-time": TIMES,
        "task-key": keys,
        "task-name": keys | st.sampled_from(["good,u", "bad,v", "nobody,", "a%2Cb,%C3%BC"]),
        "delivery-key": _keys("hourhand%3Asend%3Aa", "hourhand%3Asend%3Ab"),
        "cursor": st.sampled_from([f"{n}~" for n in range(PARTITIONS)]),
        "cron": st.just("30 2 * * *"),
        "time-zone": st.sampled_from(["UTC", "Europe/Berlin"]),
        "letter-place": st.integers(0, 99).map(str),
        "audit-place": st.integers(0, 10**15 - 1).map("{}-a".format),
    }
    for name, texts in formats.items():
        schemathesis.openapi.format(name, texts)


_declare_formats()


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve the admin API of an installation where something of each kind happened."""
    folder: Path = tmp_path_factory.mktemp("described")
    chosen = Settings(
        embedded=EmbeddedSettings(folder=folder / "hourhand"),
        topic=TopicSettings(partitions=PARTITIONS),
        admin=AdminSettings(
            port=0, requests_per_s_max=0, write_tokens={"tester": SecretStr(TOKEN)}
        ),
    )
    with Scheduler(chosen, executor=Picky) as node, AdminRunning(chosen) as running:
        _make_history(node, running)
        yield running.address


def _make_history(node: Scheduler, running: AdminRunning) -> None:
    now = datetime.now(UTC)
    tasks = [
        Task(ordering_id=name, scheduled_time=now + timedelta(seconds=s), uniqueness_key=key)
        for name in ("good", "bad")
        for s, key in ((1, "u"), (3_000, "v"))
    ]
    for task in tasks:
        node.schedule_task(task).result(30)
        KNOWN.append(str(task.key))
    node.schedule_recurring(NAME, every=timedelta(hours=1)).result(30)
    own = node.dependencies
    timers = TimerService(own.appender, own.definitions, own.clock)
    rule = TimerRule(3_600_000, 7_200_000, "http://localhost/", "o", tags=(("CALL", 1),))
    asyncio.run(timers.put(TIMER.partition("-")[0], rule))
    service = running.service
    until(lambda: service.inspector.show(tasks[0].key).completion, "no task ran")
    until(lambda: service.inspector.show(tasks[2].key).attempts, "no task failed")
    until(lambda: service.cluster.failing().count, "no node reported")


def _fit_admin(case: Any) -> None:
    """Hold to the rules between fields, for which OpenAPI has no words."""
    query, body = case.query or {}, case.body if isinstance(case.body, dict) else {}
    if "to" in query and "from" in query:
        query["from"] = (STARTED - timedelta(hours=1)).isoformat()
        query["to"] = (STARTED + timedelta(hours=1)).isoformat()
    if query.get("unit") == "day":
        query["bars"] = min(query.get("bars", 1), 400)
    if isinstance(body.get("filter"), dict):
        body["filter"] |= {"from": STARTED.isoformat(), "to": "2999-01-01T00:00:00Z"}
    if "scheduledTime" in body:
        body["scheduledTime"] = (STARTED + timedelta(hours=1)).isoformat()
    if case.path.endswith("/backfill"):
        body |= {"starts": (STARTED - timedelta(hours=1)).isoformat(), "ends": STARTED.isoformat()}
    else:
        # A schedule that has ended is none.
        body.pop("ends", None)
    if "everyMs" in body and body.get("jitterMs"):
        body["jitterMs"] = min(body["jitterMs"], body["everyMs"])
    members = body.get("tasks")
    several = [body, body.get("then"), *(members if isinstance(members, list) else ())]
    for number, task in enumerate(several):
        if isinstance(task, dict) and isinstance(task.get("uniquenessKey"), str):
            # No task follows itself, and none is twice in a group.
            task["uniquenessKey"] = f"{task['uniquenessKey'][:40]}{number}"
        if isinstance(task, dict) and isinstance(task.get("expires"), str):
            task["expires"] = "PT1H"
        if isinstance(task, dict) and isinstance(task.get("scheduledTime"), str):
            task["scheduledTime"] = (STARTED + timedelta(hours=1)).isoformat()
    for target in body.get("targets", ()):
        if target.get("partition") is not None:
            target["partition"] %= PARTITIONS
    _name_known(query, name=NAME, id=TIMER)
    match (case.path_parameters or {}).get("action"):
        case None:
            pass
        case "reschedule":
            body["to"] = STARTED.isoformat()
        case _:
            body.pop("to", None)


def _ask(case: Any, address: str, fit: Callable[[Any], None]) -> None:
    if isinstance(case.body, dict) and "waitS" in case.body and case.body["waitS"] in range(31):
        case.body["waitS"] = 0
    if case.meta.generation.mode is GenerationMode.POSITIVE:
        fit(case)
    headers = HEADERS
    assume(len(urlencode(case.query or {}, doseq=True)) < URL_CHARS_MAX)
    answer = case.call(base_url=address, headers=headers)
    case.validate_response(answer, headers=headers)


def _name_known(parameters: dict[str, Any], **known: str) -> None:
    """Have every second request ask for something that there is."""
    for name, value in known.items():
        if len(str(parameters.get(name, "-"))) % 2 == 0:
            parameters[name] = value


def _fit_timers(case: Any) -> None:
    """The same for the timer service; and its timers pop after the test."""
    body = case.body if isinstance(case.body, dict) else {}
    if case.method in {"GET", "PUT"}:
        _name_known(case.path_parameters or {}, timer_id=TIMER, name=NAME)
    if "timing" in body:
        # A number such as 2.0 is an integer to JSON Schema, and a fraction to the seed.
        body["timing"] = {"interval": 3_600 + int(body["timing"]["interval"] % 10**9)}
        if "reliability" in body:
            factor = body["reliability"].get("replication-factor", 2)
            body["reliability"] = (
                {} if case.method == "PUT" else {"replication-factor": int(factor)}
            )
    if "callback" in body:
        body["callback"]["http"]["uri"] = "http://localhost/"
    if "schedule" in body:
        given = {"every": 3_600} if "cron" in body["schedule"] else {"cron": "0 9 * * *"}
        kept = {"overlap", "time-zone"} & body["schedule"].keys()
        body["schedule"] = given | {name: body["schedule"][name] for name in kept}


def _operations(schema: Any) -> list[Any]:
    found = [each.ok() for each in schema.get_all_operations()]
    return [
        pytest.param(each, id=each.label) for each in found if not each.path.endswith("/stream")
    ]


def _try(operation: Any, mode: GenerationMode, address: str, fit: Callable[[Any], None]) -> None:
    @seed(1)
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        _ask(case, address, fit)

    ask()


@pytest.fixture(scope="module")
def timers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Serve timers, of which there are some."""
    chosen = Settings(
        embedded=EmbeddedSettings(folder=tmp_path_factory.mktemp("timers") / "hourhand"),
        topic=TopicSettings(partitions=PARTITIONS),
        timers=TimerSettings(port=0, requests_per_s_max=0, write_tokens=(SecretStr(TOKEN),)),
    )
    with TimersRunning(chosen) as running:
        address = f"http://127.0.0.1:{running.port}"
        with httpx.Client(base_url=address, headers=HEADERS, timeout=60) as client:
            http = {"uri": "http://localhost/", "opaque": "o"}
            tags = {"tag-info": [{"type": "CALL", "count": 2}]}
            timer = {"timing": {"interval": 3_600}, "callback": {"http": http}, "statistics": tags}
            assert client.put(f"/timers/{TIMER}", json=timer).status_code == 200
            schedule = {"schedule": {"every": 3_600}, "callback": {"http": http}}
            assert client.put(f"/recurring/{NAME}", json=schedule).status_code == 200
        yield address


@pytest.mark.parametrize("operation", _operations(TIMERS))
def test_the_timer_service_does_what_its_description_says(operation: Any, timers: str) -> None:
    """The same for the other door."""
    _try(operation, GenerationMode.POSITIVE, timers, _fit_timers)
    if operation.body or operation.query:
        _try(operation, GenerationMode.NEGATIVE, timers, _fit_timers)


@pytest.mark.parametrize("operation", _operations(ADMIN))
def test_the_admin_api_does_what_its_description_says(operation: Any, admin: str) -> None:
    """What is allowed is done, what is forbidden refused, and each answer has its schema."""
    _try(operation, GenerationMode.POSITIVE, admin, _fit_admin)
    if operation.body or operation.query:
        _try(operation, GenerationMode.NEGATIVE, admin, _fit_admin)
