"""A node that notes when it starts each task; what it does besides is named in its order.

``noop`` does nothing, ``wait`` blocks for five milliseconds, and every task of an ordering id
that begins with ``failing`` fails for ever.  In any case it decides nothing about figures.
"""

import threading
import time
from pathlib import Path

from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import Records, wall_s

_READY_POLL_S = 0.005
_WORK_S = 0.005


def main() -> None:
    """Run until told to stop."""
    began_s = wall_s()
    spec = told()
    from scheduler import Scheduler, Settings, Task, TaskExecutor

    records = Records(Path(spec["records"]), spec["slots"])
    note = records.note

    class NoOp(TaskExecutor):
        def execute(self, task: Task) -> None:
            note(int(task.uniqueness_key))

    class Waiting(TaskExecutor):
        def execute(self, task: Task) -> None:
            note(int(task.uniqueness_key))
            time.sleep(_WORK_S)

    class Failing(TaskExecutor):
        def execute(self, task: Task) -> None:
            if task.ordering_id.startswith("failing"):
                raise RuntimeError("this ordering id fails for ever")
            note(int(task.uniqueness_key))

    work = {"noop": NoOp, "wait": Waiting, "failing": Failing}[spec.get("work", "noop")]
    scheduler = Scheduler(Settings(**spec["settings"]), executor=work)
    scheduler.start()
    pause = threading.Event()
    while not scheduler.is_ready:
        pause.wait(_READY_POLL_S)
    tell("ready", seconds=wall_s() - began_s)
    wait_for_command("stop")
    scheduler.stop()
    scheduler.wait()
    tell("stopped")


if __name__ == "__main__":
    main()
