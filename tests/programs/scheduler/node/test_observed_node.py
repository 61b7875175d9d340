"""A running node tells of itself: metrics and health over HTTP, and by the command line."""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hourhand import Scheduler, Settings, Task, TaskExecutor
from hourhand.actors.model.operations.events import AttemptFinished, Event, TasksSucceeded
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.cli.cli import app
from hourhand.scheduler.configuration.door_settings import ObserveSettings
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings

PATIENCE_S = 60.0
HANG_MS = 300


class Noted(TaskExecutor):
    """Says that it ran."""

    ran = threading.Event()

    def execute(self, task: Task) -> None:
        """Run."""
        self.ran.set()


def settings_of(folder: Path, *, port: int = 0) -> Settings:
    """Return an embedded installation that is observed."""
    return Settings(
        embedded=EmbeddedSettings(folder=folder / "data"),
        topic=TopicSettings(partitions=2),
        observe=ObserveSettings(port=port, hang_ms=HANG_MS, self_check_share=1.0),
    )


def asked(scheduler: Scheduler, path: str) -> tuple[int, str]:
    """Return a status and body of the node's probe server."""
    url = f"http://127.0.0.1:{scheduler.observation.port}{path}"
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def asked_until(scheduler: Scheduler, path: str, wanted: int) -> str:
    """Ask until the status is the wanted one; return its body."""
    ticks = threading.Event()
    for _ in range(int(PATIENCE_S * 20)):
        status, body = asked(scheduler, path)
        if status == wanted:
            return body
        ticks.wait(0.05)
    raise AssertionError(f"{path} never answered {wanted}, but: {body}")


def self_checked_until_some(scheduler: Scheduler) -> int:
    """Return how many tasks the self-check has looked at, once there are any."""
    ticks, shown = threading.Event(), "\nhourhand_self_checked_tasks_total "
    for _ in range(int(PATIENCE_S * 20)):
        count = int(asked(scheduler, "/metrics")[1].split(shown)[1].split(".")[0])
        if count:
            return count
        ticks.wait(0.05)
    return 0


def test_a_node_is_scraped_probed_and_asked(tmp_path: Path) -> None:
    """All paths, and the command's exit codes, before and after it stopped."""
    command = CliRunner()
    with Scheduler(settings_of(tmp_path), executor=Noted) as scheduler:
        task = Task(ordering_id="a", scheduled_time=datetime.now(UTC), uniqueness_key="1")
        scheduler.schedule_task(task).result(timeout=PATIENCE_S)
        assert Noted.ran.wait(PATIENCE_S)
        asked_until(scheduler, "/readyz", 200)

        assert asked(scheduler, "/livez")[0] == 200
        metrics = asked(scheduler, "/metrics")[1]
        assert 'hourhand_attempts_started_total{partition="' in metrics
        assert 'hourhand_store_group_rows_count{call="insert_tasks"} 1.0' in metrics
        assert "hourhand_rebalance_gap_seconds_count 2.0" in metrics
        assert self_checked_until_some(scheduler) > 0
        assert 'hourhand_promise_doubts_total{promise="P9"} 0.0' in metrics
        full = json.loads(asked(scheduler, "/healthz?full=1")[1])
        assert full["partitions"] == [0, 1]
        assert full["checks"]["store"]["ok"] is True
        assert asked(scheduler, "/else")[0] == 404

        url = f"http://127.0.0.1:{scheduler.observation.port}"
        well = command.invoke(app, ["health", "--url", url])
        assert well.exit_code == 0
        assert "ok      dispatcher" in well.output
    gone = command.invoke(app, ["health", "--url", url])
    assert gone.exit_code == 3
    assert "node-unhealthy" in gone.output


def test_a_port_that_is_taken_is_said_at_once(tmp_path: Path) -> None:
    """And nothing stays open: the folder can be used again."""
    with Scheduler(settings_of(tmp_path), executor=Noted) as first:
        taken = first.observation.port
        assert taken is not None
        second = Scheduler(settings_of(tmp_path / "other", port=taken), executor=Noted)
        with pytest.raises(SettingsInvalid, match=r"observe\.port"):
            second.start()
    with Scheduler(settings_of(tmp_path / "other"), executor=Noted):
        pass


class HungPolling(Scheduler):
    """A node whose polling thread stops once told to."""

    hang = threading.Event()
    release = threading.Event()

    def _round(self, timeout_ms: int) -> None:
        if self.hang.is_set():
            assert self.release.wait(PATIENCE_S * 2)
        super()._round(timeout_ms)


class HungTelemetry:
    """A telemetry of a user's that the dispatcher tells of an end, and that takes long then."""

    def emit(self, event: Event) -> None:
        """Block until released."""
        if isinstance(event, AttemptFinished | TasksSucceeded) and HungPolling.hang.is_set():
            assert HungPolling.release.wait(PATIENCE_S * 2)


def hang_polling(scheduler: Scheduler) -> None:
    """Stop the polling thread."""
    HungPolling.hang.set()


def hang_dispatcher(scheduler: Scheduler) -> None:
    """Have the dispatcher tell of a task that was done."""
    HungPolling.hang.set()
    task = Task(ordering_id="b", scheduled_time=datetime.now(UTC), uniqueness_key="1")
    scheduler.schedule_task(task).result(timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("node", "hang", "failing"),
    [
        (HungPolling, hang_polling, "FAILING polling"),
        (Scheduler, hang_dispatcher, "FAILING dispatcher"),
    ],
)
def test_a_hung_thread_ends_life_until_it_goes_on(
    tmp_path: Path, node: type[Scheduler], hang: Callable[[Scheduler], None], failing: str
) -> None:
    """Real threads that really hang, and go on afterwards."""
    HungPolling.hang.clear()
    HungPolling.release.clear()
    with node(settings_of(tmp_path), executor=Noted, telemetry=HungTelemetry()) as scheduler:
        try:
            asked_until(scheduler, "/readyz", 200)
            hang(scheduler)

            assert failing in asked_until(scheduler, "/livez", 503)
        finally:
            HungPolling.release.set()
        asked_until(scheduler, "/livez", 200)
