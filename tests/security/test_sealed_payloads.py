"""What is sealed is found nowhere in the clear: no file of an installation has it, and no log line.

The test that schedules the same without codecs shows that it would be found.
"""

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hourhand import Hourhand, RetryPolicy, Scheduler, SchedulerClient, Settings, Task, TaskState
from hourhand.scheduler.payloads.aes_gcm import AesGcm
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.payloads.deflate import Deflate
from tests.waiting import until

WAIT_S = 60.0
SECRET = "4111-1111-1111-1111"
KEY = bytes(range(32))
SOON = timedelta(milliseconds=300)


class Heard(logging.Handler):
    """Keeps every line of every logger, with its trace."""

    def __init__(self) -> None:
        super().__init__(logging.NOTSET)
        self.setFormatter(logging.Formatter("%(name)s %(levelname)s %(message)s %(args)s"))
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the line."""
        self.lines.append(self.format(record) + str(vars(record)))


@pytest.fixture
def heard() -> Iterator[Heard]:
    """All of Hourhand's loggers at their loudest, for one test."""
    root, handler, ours = logging.getLogger(), Heard(), logging.getLogger("hourhand")
    levels = root.level, ours.level
    root.setLevel(logging.DEBUG)
    ours.setLevel(logging.DEBUG)
    root.addHandler(handler)
    yield handler
    root.removeHandler(handler)
    root.setLevel(levels[0])
    ours.setLevel(levels[1])


def _settings(folder: Path) -> Settings:
    return Settings(embedded={"folder": folder})


def _registry(payloads: PayloadCodecs | None, ran: list[str]) -> Hourhand:
    app = Hourhand(payloads=payloads)

    @app.task("pay")
    def pay(data: dict[str, Any]) -> None:
        ran.append(data["card"])

    @app.batch("pay-many")
    def pay_many(rows: list[dict[str, Any]]) -> None:
        ran.extend(row["card"] for row in rows)

    @app.task("refuse", retry=RetryPolicy(attempts_max=1, on_exhausted="dead_letter"))
    def refuse(data: dict[str, Any]) -> None:
        raise ValueError(f"a card of {len(data['card'])} characters is refused")

    return app


def _run_all(folder: Path, payloads: PayloadCodecs | None) -> list[str]:
    """Schedule in each way there is, and run it; some wait for later. Return what user code got."""
    ran: list[str] = []
    app = _registry(payloads, ran)
    data = {"card": SECRET, "note": "x" * 300}
    with Scheduler(_settings(folder), executors=app) as scheduler:
        tasks = [
            Task(
                ordering_id=f"customer-{kind}",
                scheduled_time=scheduler.now + (timedelta(hours=1) if later else SOON),
                uniqueness_key=f"{kind}-{later}",
                data=data,
                kind=kind,
            )
            for kind in ("pay", "pay-many", "refuse")
            for later in (False, True)
        ]
        scheduler.schedule_tasks(tasks).raise_if_rejected()
        window, when = timedelta(milliseconds=500), scheduler.now + SOON
        once = tasks[0].model_copy(update={"scheduled_time": when, "uniqueness_key": "once"})
        last = once.model_copy(update={"uniqueness_key": "last"})
        scheduler.schedule_task(once, unique_for=window).result(WAIT_S)
        scheduler.schedule_task(last, debounce=window).result(WAIT_S)
        scheduler.schedule_recurring(
            "nightly", every=timedelta(hours=1), kind="pay", data=data
        ).result(WAIT_S)
        scheduler.trigger_recurring("nightly").result(WAIT_S)
        scheduler.wait_task(tasks[4].key, WAIT_S)
        until(lambda: len(ran) == 5)
        assert scheduler.find_task(tasks[1].key).data == data
    return ran


def _files_with(text: str, folder: Path) -> list[str]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files, "the installation stands in this folder"
    return [path.name for path in files if text.encode() in path.read_bytes()]


def test_without_codecs_the_data_is_found(tmp_path: Path) -> None:
    """So the test below would find it."""
    ran = _run_all(tmp_path, None)

    assert ran == [SECRET] * 5
    assert _files_with(SECRET, tmp_path)


def test_sealed_data_is_in_no_file_and_in_no_log_line(tmp_path: Path, heard: Heard) -> None:
    """However it was scheduled: done, waiting, asked for once, recurring, or a dead letter."""
    ran = _run_all(tmp_path, PayloadCodecs(Deflate(), AesGcm({"k1": KEY})))

    assert ran == [SECRET] * 5
    assert _files_with(SECRET, tmp_path) == []
    assert heard.lines and not [line for line in heard.lines if SECRET in line]
    assert _files_with(KEY.hex(), tmp_path) == [] and _files_with('"key":"k1"', tmp_path)
    assert not [line for line in heard.lines if KEY.hex() in line or repr(KEY)[2:20] in line]


def test_a_client_without_the_key_reads_how_it_is_sealed(tmp_path: Path) -> None:
    """And never the envelope as if it were data."""
    payloads = PayloadCodecs(AesGcm({"k1": KEY}))
    with Scheduler(_settings(tmp_path), executors=_registry(payloads, [])) as scheduler:
        task = Task(
            ordering_id="customer-7",
            scheduled_time=scheduler.now + timedelta(hours=1),
            uniqueness_key="pay-1",
            data={"card": SECRET},
            kind="pay",
        )
        receipt = scheduler.schedule_task(task).result(WAIT_S)
        until(lambda: scheduler.find_task(receipt).is_open)
    with SchedulerClient(_settings(tmp_path)) as client:
        (found,) = client.list_tasks()
        assert found == client.find_task(task.key)

    assert found.state is TaskState.PENDING and found.data is None and found.kind == "pay"
    assert found.sealed == "sealed with aes-gcm (key id 'k1')"
