"""An executor for ``hourhand run``: notes each start, then blocks for five milliseconds.

Each process notes into a file of its own, below the folder that ``BENCH_RECORDS`` names, with as
many slots as ``BENCH_SLOTS`` says.
"""

import os
import time
from pathlib import Path

from benchmarks.records import Records
from hourhand import Task, TaskExecutor

WORK_S = 0.005
FOLDER_VARIABLE = "BENCH_RECORDS"
SLOTS_VARIABLE = "BENCH_SLOTS"


class Blocking(TaskExecutor):
    """Holds its worker without using a core."""

    def execute(self, task: Task) -> None:
        """Note the task, and wait."""
        _note(int(task.uniqueness_key))
        time.sleep(WORK_S)


if FOLDER_VARIABLE in os.environ:
    # The file is there once the node is, and the measure waits for that to know the processes.
    _note = Records(
        Path(os.environ[FOLDER_VARIABLE], str(os.getpid())), int(os.environ[SLOTS_VARIABLE])
    ).note
