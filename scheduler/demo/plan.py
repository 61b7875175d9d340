"""What ``hourhand demo`` schedules: which tasks, when, and what happens to three of them.

The same number of tasks gives the same plan; only the start differs.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from actors.model.instant import from_millis
from actors.model.task import Task
from scheduler.demo.audit import Planned

DUE_SPREAD_MS = 15_000
"""From the first task's time to the last one's."""
WORK_MIN_MS, WORK_MAX_MS = 2, 30
ORDERINGS_MAX = 150
_FAILING_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Plan:
    """The tasks of one run, and the three that commands are sent for."""

    tasks: Sequence[Task]
    cancelled: Task
    rescheduled: Task
    moved_to_ms: int
    run_now: Task

    @property
    def orderings(self) -> int:
        """How many ordering ids the tasks have."""
        return len({task.ordering_id for task in self.tasks})

    def expectations(self) -> list[Planned]:
        """Return what the audit is to expect once all three commands were applied."""
        return [self._expected(task) for task in self.tasks]

    def _expected(self, task: Task) -> Planned:
        key = task.key
        due_us: int | None = key.scheduled_ms * 1000
        if task is self.rescheduled:
            due_us = self.moved_to_ms * 1000
        elif task is self.run_now:
            due_us = None
        return Planned(
            task_id=key.uniqueness_key,
            ordering_id=key.ordering_id,
            due_us=due_us,
            runs=task is not self.cancelled,
            # Moved tasks do not keep a place in the order they were accepted in.
            in_order=task is not self.rescheduled and task is not self.run_now,
        )


def make_plan(tasks_count: int, first_due_ms: int) -> Plan:
    """Spread ``tasks_count`` tasks evenly from ``first_due_ms`` over the next seconds."""
    rng = random.Random(tasks_count)  # noqa: S311 - a plan that can be made again
    orderings = max(1, min(ORDERINGS_MAX, tasks_count // 8))
    tasks = [
        Task(
            ordering_id=f"customer-{number % orderings:03}",
            scheduled_time=from_millis(first_due_ms + number * DUE_SPREAD_MS // tasks_count),
            uniqueness_key=f"job-{number:06}",
            data={
                "work_ms": rng.randint(WORK_MIN_MS, WORK_MAX_MS),
                "failures": rng.choice((1, 1, 2)) if rng.random() < _FAILING_SHARE else 0,
            },
        )
        for number in range(tasks_count)
    ]
    # From the second half, so that each of them still waits when its command arrives.
    return Plan(
        tasks=tasks,
        cancelled=tasks[tasks_count * 5 // 8],
        rescheduled=tasks[tasks_count * 6 // 8],
        moved_to_ms=first_due_ms + DUE_SPREAD_MS // 2,
        run_now=tasks[tasks_count * 7 // 8],
    )
