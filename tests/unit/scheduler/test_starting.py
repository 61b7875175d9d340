"""Starting a scheduler: once, and with what can run a task."""

import json
from pathlib import Path

import pytest

from actors.model.errors import AlreadyStarted, InvalidExecutor
from actors.model.task import Task
from actors.model.task_executor import TaskExecutor
from scheduler import Scheduler, Settings
from scheduler.configuration.settings import EmbeddedSettings, TopicSettings
from scheduler.testing import VirtualScheduler


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
