"""Starting a scheduler: once, and with what can run a task."""

import gc
import json
from pathlib import Path
from typing import Any

import pytest

from hourhand import Scheduler, SchedulerClient, Settings
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.errors import AlreadyStarted, InvalidExecutor, SettingsInvalid
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings
from hourhand.scheduler.testing import VirtualScheduler


class Job(TaskExecutor):
    """Does nothing."""

    def execute(self, task: Task) -> None:
        """End well."""


def test_a_second_start_is_refused_and_the_node_goes_on(tmp_path: Path) -> None:
    """A with block starts it already."""
    settings = Settings(
        embedded=EmbeddedSettings(folder=tmp_path), topic=TopicSettings(partitions=1)
    )
    with Scheduler(settings, executor=Job) as scheduler:
        with pytest.raises(AlreadyStarted, match="start it once"):
            scheduler.start()

        assert not scheduler.wait(timeout=0)


def test_only_a_node_that_runs_changes_the_collector(tmp_path: Path) -> None:
    """A client leaves its program's collector alone, in bulk too; a node puts it back."""
    settings = Settings(embedded={"folder": tmp_path}, topic={"partitions": 1})
    before = gc.get_threshold()

    with SchedulerClient(settings) as client:
        client.schedule_tasks([])
        assert gc.get_threshold() == before
    with Scheduler(settings, executor=Job):
        assert gc.get_threshold() != before

    assert gc.get_threshold() == before


@pytest.mark.parametrize("given", [{}, {"log": "embedded"}, Settings, None])
def test_what_is_not_a_settings_is_refused(given: Any) -> None:
    """With what to write."""
    with pytest.raises(SettingsInvalid, match=r"a Settings is needed, got .*: write Settings"):
        SchedulerClient(given)
    with pytest.raises(SettingsInvalid, match=r"a Settings is needed, got .*: write Settings"):
        Scheduler(given, executor=Job)


def test_a_scheduler_refuses_what_can_never_run_a_task(tmp_path: Path) -> None:
    """Before anything is opened."""
    settings = Settings(embedded=EmbeddedSettings(folder=tmp_path / "folder"))

    with pytest.raises(InvalidExecutor, match="without arguments"):
        Scheduler(settings, executor=json.loads)  # type: ignore[arg-type]
    assert not (tmp_path / "folder").exists()


def test_the_test_kit_refuses_it_as_well() -> None:
    """So that a test tells what a node would."""
    with pytest.raises(InvalidExecutor, match="without arguments"):
        VirtualScheduler(json.loads)  # type: ignore[arg-type]
