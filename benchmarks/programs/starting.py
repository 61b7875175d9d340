"""Imports the package, or what a node needs of it, or starts an embedded node, in a new process.

It says how long that took.  The package loads a name when it is first used.
"""

import time

from benchmarks.program import tell, told


def main() -> None:
    """Measure one start."""
    spec = told()
    began_s = time.perf_counter()
    import hourhand  # noqa: F401 - the import is what is measured

    if spec["kind"] == "package":
        tell("started", seconds=time.perf_counter() - began_s)
        return
    from hourhand import Scheduler, Settings, Task, TaskExecutor

    if spec["kind"] == "embedded":

        class NoOp(TaskExecutor):
            def execute(self, task: Task) -> None:
                """Do nothing."""

        began_s = time.perf_counter()
        with Scheduler(Settings(**spec["settings"]), executor=NoOp) as started:
            while not started.is_ready:
                time.sleep(0.001)
            tell("started", seconds=time.perf_counter() - began_s)
    else:
        tell("started", seconds=time.perf_counter() - began_s)


if __name__ == "__main__":
    main()
