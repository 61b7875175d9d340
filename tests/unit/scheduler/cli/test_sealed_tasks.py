"""Commands about a task of sealed data, which they have no key for, on a real embedded folder."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hourhand import Scheduler, Task, TaskExecutor
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from tests.unit.scheduler.cli.commands import invoke, settings_of
from tests.waiting import until

SECRET = "4111-1111"
SEALED = "sealed with aes-gcm (key id 'k1')"
TASK = Task(
    ordering_id="customer-7",
    scheduled_time=datetime.now(UTC) + timedelta(hours=1),
    uniqueness_key="pay-1",
    data={"card": SECRET},
)


class _Pay(TaskExecutor):
    def execute(self, task: Task) -> None:
        raise AssertionError("it is due in an hour")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an installation with a task that waits."""
    folder = tmp_path_factory.mktemp("sealed") / "data"
    payloads = PayloadCodecs(AesGcm({"k1": bytes(32)}))
    with Scheduler(settings_of(folder), executor=_Pay, payloads=payloads) as scheduler:
        receipt = scheduler.schedule_task(TASK).result(timeout=60)
        until(lambda: scheduler.find_task(receipt).is_open)
    return folder


def test_show_and_list_say_how_it_is_sealed(folder: Path) -> None:
    """For people and for programs, without the data."""
    shown = invoke(folder, "show", str(TASK.key))
    told = invoke(folder, "show", str(TASK.key), "-o", "json")
    listed = invoke(folder, "list", "-o", "json")

    for each in (shown, told, listed):
        assert each.exit_code == 0, each.output
        assert SECRET not in each.output and "hourhand.sealed" not in each.output
    assert SEALED in " ".join(shown.stdout.split())
    assert json.loads(told.stdout)["sealed"] == SEALED
    assert SEALED in listed.stdout


def test_a_question_in_sql_finds_how_it_is_sealed(folder: Path) -> None:
    """Under the name that an export has it by."""
    question = "SELECT data->>'$.\"hourhand.sealed\"' AS sealed FROM tasks"

    answer = invoke(folder, "sql", question, "-o", "json")

    assert answer.exit_code == 0, answer.output
    assert json.loads(answer.stdout) == [{"sealed": SEALED}]
