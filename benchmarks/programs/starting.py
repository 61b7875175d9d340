"""Imports the package, or starts an embedded node, in a new process, and says how long it took."""

import time

from benchmarks.program import tell, told


def main() -> None:
    """Measure one start."""
    spec = told()
    began_s = time.perf_counter()
    import scheduler

    if spec["kind"] == "embedded":

        class NoOp(scheduler.TaskExecutor):
            def execute(self, task: scheduler.Task) -> None:
                """Do nothing."""

        began_s = time.perf_counter()
        with scheduler.Scheduler(scheduler.Settings(**spec["settings"]), executor=NoOp) as started:
            while not started.is_ready:
                time.sleep(0.001)
            tell("started", seconds=time.perf_counter() - began_s)
    else:
        tell("started", seconds=time.perf_counter() - began_s)


if __name__ == "__main__":
    main()
