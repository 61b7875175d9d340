"""The notebook of ``examples/`` runs from its first cell to its last."""

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from actors.task_executor import TaskExecutor
from scheduler import Scheduler, Task
from tests.pipeline.installation import settings_of

pytestmark = pytest.mark.integration

NOTEBOOK = Path(__file__).parents[2] / "examples" / "pipeline_notebook.py"


class Idle(TaskExecutor):
    """Is given nothing before tomorrow."""

    def execute(self, task: Task) -> None:
        """Accept the task."""


def test_the_notebook_shows_the_tasks_it_wrote(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside a node, which stores them."""
    assert spark.version
    settings = settings_of(tmp_path / "data")
    with Scheduler(settings, executor=Idle):
        runpy.run_path(str(NOTEBOOK), {"FOLDER": str(settings.embedded.folder)})

    said = capsys.readouterr().out
    assert "|count|" in said
    assert "|error_class|count|" in said
