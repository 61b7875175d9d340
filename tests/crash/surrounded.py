"""A node over an embedded folder, for a machine whose clock is set and whose disk fails.

``python -m tests.crash.surrounded FOLDER`` schedules what its input asks for, a line at a time:
first number, how many, and in how many milliseconds by its own clock.  It writes down what was
acknowledged, refused and started, and checks nothing.
"""

import logging
import sys
import threading
from concurrent.futures import Future
from datetime import timedelta
from functools import partial
from pathlib import Path

import tenacity

from hourhand import Receipt, RetryPolicy, Scheduler, Settings, Task, TaskExecutor
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings

ORDERINGS = 7
FAILS_ONCE = 5
"""The first attempt of each fifth task fails."""
_writing = threading.Lock()


def say(word: str, number: object, told: object = "") -> None:
    """Write one line."""
    with _writing:
        sys.stdout.write(f"{word} {number} {told}\n")
        sys.stdout.flush()


class Saying(TaskExecutor):
    """Tells each start."""

    retry = RetryPolicy(wait=tenacity.wait_fixed(0.05))

    def execute(self, task: Task) -> None:
        """Run one attempt."""
        number = int(task.uniqueness_key)
        if number % FAILS_ONCE == 0 and self.attempt == 1:
            raise OSError("the first attempt fails")
        early_ms = task.key.scheduled_ms - SystemClock().now_ms()
        say("started" if early_ms <= 0 else "early", number, max(0, early_ms))


def answered(number: int, future: "Future[Receipt]") -> None:
    """Tell what became of a task that was scheduled."""
    error = future.exception()
    say("acknowledged" if error is None else "refused", number, str(error or "").split("\n")[0])


def main() -> None:
    """Run until the input ends."""
    logging.getLogger("hourhand").setLevel(logging.CRITICAL)
    settings = Settings(
        embedded=EmbeddedSettings(folder=Path(sys.argv[1])), topic=TopicSettings(partitions=4)
    )
    with Scheduler(settings, executor=Saying) as scheduler:
        say("runs", 0)
        for line in sys.stdin:
            first, count, in_ms = map(int, line.split())
            due = from_millis(SystemClock().now_ms()) + timedelta(milliseconds=in_ms)
            for number in range(first, first + count):
                task = Task(
                    ordering_id=f"o{number % ORDERINGS}",
                    scheduled_time=due,
                    uniqueness_key=str(number),
                )
                scheduler.schedule_task(task).add_done_callback(partial(answered, number))


if __name__ == "__main__":
    main()
