"""``hourhand sql`` over a window of Cassandra, beside a node that runs."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from tenacity import wait_fixed
from typer.testing import CliRunner, Result

from hourhand import RetryPolicy, Scheduler, Task, TaskExecutor
from hourhand.scheduler import wiring
from hourhand.scheduler.cli.cli import app
from tests.servers.cassandra import CassandraServer
from tests.servers.kafka import KafkaServer
from tests.servers.own_settings import PATIENT_GROUP, own_settings, set_options

pytestmark = pytest.mark.integration

WAIT_S = 60.0
MANY = 300
"""More than one page of a partition's hour."""
Ask = Callable[..., Result]


class Refusing(TaskExecutor):
    """Refuses to pay nothing, on its second try for good."""

    retry = RetryPolicy(attempts_max=2, wait=wait_fixed(0.1))

    def execute(self, task: Task) -> None:
        """Pay, or refuse."""
        if task.data["amount"] == 0:
            raise ValueError("nothing to pay")


@pytest.fixture(scope="module")
def ask(
    kafka_server: KafkaServer,
    cassandra_server: CassandraServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Ask]:
    """Return what asks an installation of ended tasks, waiting ones and one that is blocked."""
    settings = own_settings(kafka_server, cassandra_server, "sql", group=PATIENT_GROUP)
    wiring.migrate(settings)
    options = set_options(settings, tmp_path_factory.mktemp("sql"))
    now = datetime.now(UTC)

    def asked(question: str, *more: str) -> Result:
        return CliRunner().invoke(app, ["sql", question, "-o", "json", *more, *options])

    with Scheduler(settings, executor=Refusing) as scheduler:
        waiting = [_task(f"later-{n}", now + timedelta(hours=1 + n % 3), n) for n in range(MANY)]
        ended = [_task("paid", now, 7), _task("refused", now, 0)]
        for future in [scheduler.schedule_task(task) for task in (*ended, *waiting)]:
            future.result(timeout=WAIT_S)
        for task in ended:
            scheduler.wait_task(task.key, timeout=WAIT_S)
        yield asked


def _task(name: str, at: datetime, amount: int) -> Task:
    return Task(
        ordering_id=name, scheduled_time=at, uniqueness_key="ü,\n1", data={"amount": amount}
    )


def _rows(ask: Ask, question: str, *more: str) -> list[dict[str, object]]:
    result = ask(question, *more)
    assert result.exit_code == 0, result.output
    found: list[dict[str, object]] = json.loads(result.stdout)
    return found


def test_states_and_data_are_counted(ask: Ask) -> None:
    """Of all pages of all partitions."""
    states = _rows(ask, "SELECT state, count(*) AS n FROM tasks GROUP BY ALL ORDER BY state")
    total = "SELECT sum((data->>'amount')::int)::int AS total FROM tasks"

    assert states == [
        {"state": "failure", "n": 1},
        {"state": "pending", "n": MANY},
        {"state": "success", "n": 1},
    ]
    assert _rows(ask, total) == [{"total": sum(range(MANY)) + 7}]


def test_each_attempt_has_its_error(ask: Ask) -> None:
    """The last one of them ended the task."""
    question = (
        "SELECT ordering_id, attempt, error_class FROM attempts"
        " WHERE error_class IS NOT NULL ORDER BY attempt"
    )

    assert _rows(ask, question) == [
        {"ordering_id": "refused", "attempt": attempt, "error_class": "ValueError"}
        for attempt in (1, 2)
    ]


def test_a_window_is_cut_and_bounded(ask: Ask) -> None:
    """By the time at which tasks are due."""
    soon = _rows(ask, "SELECT count(*)::int AS n FROM tasks", "--to", "+90m")
    assert soon == [{"n": 2 + MANY // 3}]

    refused = ask("SELECT 1", "--rows-max", "100")
    assert refused.exit_code != 0
    assert "more than 100 tasks" in refused.output
