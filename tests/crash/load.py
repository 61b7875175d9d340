"""The load of one doomed process: a node that schedules, executes and commands, all at once.

Every acknowledgement is written down after its future resolved, every attempt before and after
its work.  It checks nothing; the judge does, in another process.
"""

import itertools
import random
import threading
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import tenacity
from pydantic import JsonValue

from hourhand import Receipt, RetryPolicy, Scheduler, Settings, Task, TaskExecutor
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.instant import from_millis
from hourhand.actors.model.values.settings import (
    ExecutionSettings,
    TreeSettings,
    WatermarkSettings,
    WindowSettings,
)
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import EmbeddedSettings, GroupSettings, TopicSettings
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from tests.crash.journal import Key, Pen, Place

ORDERINGS = 40
"""Few enough that most of them are busy whenever the process is killed."""
NUMBERS_OF_A_RUN = 1_000_000
_UNSETTLED_MAX = 64
_OPEN_MAX = 400
"""Tasks that fall due at once and were not run yet; the backlog stays within reach."""
_LOOK_S = 0.02
_LOOKS_MAX = 1_000
"""So often an outcome is looked for; most are there by the first time."""


class Crash(Exception):
    """What some first attempts raise."""


def ordering_of(number: int) -> str:
    """Return the ordering id of a task by its number."""
    return f"o{number % ORDERINGS}"


def uniqueness_of(number: int) -> str:
    """Return a text that sorts as the number does."""
    return f"{number:012}"


def task_key(key: Key) -> TaskKey:
    """Return the engine's name of a task."""
    return TaskKey(key.scheduled_ms, ordering_of(key.number), uniqueness_of(key.number))


def data_of(number: int) -> dict[str, JsonValue]:
    """Return the data of a task by its number; that of some is large."""
    filler = f"{number} " * (400 if number % 7 == 0 else number % 50)
    return {"number": number, "filler": filler}


def settings_of(folder: Path) -> Settings:
    """Return settings under which everything that happens in hours happens in moments."""
    return Settings(
        embedded=EmbeddedSettings(folder=folder),
        topic=TopicSettings(partitions=4),
        group=GroupSettings(commit_interval_ms=100),
        tree=TreeSettings(
            window=WindowSettings(look_ahead_ms=1_000, prefetch_ms=500, tick_ms=20, page_tasks=100),
            watermark=WatermarkSettings(interval_ms=100, lag_ms=500),
            execution=ExecutionSettings(workers=8),
        ),
    )


class Recorder(TaskExecutor):
    """Writes down that it starts and ends; some first attempts fail, some take a while.

    One that is given wrong data never ends.
    """

    retry = RetryPolicy(wait=tenacity.wait_fixed(0.02))

    def __init__(self, pen: Pen, ended: threading.Semaphore) -> None:
        self._pen = pen
        self._ended = ended
        self._clock = SystemClock()

    def execute(self, task: Task) -> None:
        """Run one attempt."""
        key = Key(task.key.scheduled_ms, int(task.uniqueness_key))
        self._pen.note("started", key, self._clock.now_ms())
        if task.data != data_of(key.number):
            raise Crash(f"task {key.number} has other data than it was given")
        if key.number % 5 == 0:
            threading.Event().wait(key.number % 7 / 1000)
        if key.number % 23 == 0 and self.attempt == 1:
            self._pen.note("failed", key)
            raise Crash(f"task {key.number} fails once")
        self._pen.note("ended", key)
        self._ended.release()


class Load:
    """Schedules and commands from one seed until the process is killed."""

    def __init__(
        self, folder: Path, pen: Pen, run: int, seed: int, payloads: PayloadCodecs | None = None
    ) -> None:
        self._pen = pen
        self._rng = random.Random(f"{seed}/{run}")
        self._clock = SystemClock()
        self._room = threading.Semaphore(_UNSETTLED_MAX)
        self._open = threading.Semaphore(_OPEN_MAX)
        self._numbers = itertools.count(run * NUMBERS_OF_A_RUN)
        self._scheduler = Scheduler(
            settings_of(folder), executor=lambda: Recorder(pen, self._open), payloads=payloads
        )
        self._waiting: list[Key] = []
        """Acknowledged, due in a while, not yet the aim of a command."""

    def work(self, tasks_max: int | None = None) -> None:
        """Go on until killed, or until so many tasks were scheduled; then stop the node."""
        self._scheduler.start()
        asked = 0
        while tasks_max is None or asked < tasks_max:
            if not self._open.acquire(timeout=0.2):
                # Most of them wait for later: a few more do no harm.
                continue
            self._schedule()
            asked += 1
            if self._waiting and self._rng.random() < 0.1:
                self._command(self._waiting.pop(self._rng.randrange(len(self._waiting))))
        self._scheduler.stop()
        self._scheduler.wait()

    def _schedule(self) -> None:
        # Many at once, some soon, some for one of the next processes.
        in_ms = self._rng.choice((0, 0, 0, 20, 100, 300, 1_000, 2_000))
        scheduled_ms = self._clock.now_ms() + self._rng.randint(in_ms // 2, in_ms)
        number = next(self._numbers)
        key = Key(scheduled_ms, number)
        task = Task(
            ordering_id=ordering_of(number),
            scheduled_time=from_millis(scheduled_ms),
            uniqueness_key=uniqueness_of(number),
            data=data_of(number),
        )
        self._room.acquire()
        self._pen.note("offered", key)
        self._scheduler.schedule_task(task).add_done_callback(
            partial(self._acknowledge, key, in_ms)
        )

    def _acknowledge(self, key: Key, in_ms: int, done: "Future[Receipt]") -> None:
        done.result()
        self._pen.note("acknowledged", key)
        if in_ms >= 100:
            self._waiting.append(key)
            self._open.release()
        self._room.release()

    def _command(self, key: Key) -> None:
        word = self._rng.choice(("cancel", "cancel", "reschedule", "run_now", "drop"))
        self._pen.note("intended", key, word=word)
        self._room.acquire()
        name = task_key(key)
        match word:
            case "cancel":
                sent = self._scheduler.cancel_task(name)
            case "drop":
                sent = self._scheduler.drop_task(name)
            case "run_now":
                sent = self._scheduler.run_task_now(name)
            case _:
                # On a starved machine its own time may be too long ago to be accepted.
                to_ms = max(key.scheduled_ms, self._clock.now_ms()) + self._rng.randint(1, 1_000)
                sent = self._scheduler.reschedule_task(name, from_millis(to_ms))
        sent.add_done_callback(partial(self._told, key, word))

    def _told(self, key: Key, word: str, done: "Future[Receipt]") -> None:
        receipt = done.result()
        self._pen.note("told", key, 0, Place(receipt.partition, receipt.offset), word)
        self._room.release()


def drain(folder: Path, pen: Pen, run: int, told: list[tuple[Key, Place]]) -> None:
    """Run what is left, until the process is asked to stop; tell what each command achieved."""
    scheduler = Scheduler(
        settings_of(folder), executor=lambda: Recorder(pen, threading.Semaphore(0))
    )
    scheduler.start()
    note_outcomes(scheduler, pen, told)
    pen.note("stopping")
    scheduler.wait()


def note_outcomes(scheduler: Scheduler, pen: Pen, told: list[tuple[Key, Place]]) -> None:
    """Write down what each command achieved, waiting for it for a while."""
    pause = threading.Event()
    for key, place in told:
        receipt = Receipt(task_key(key), *place)
        looks = 0
        while (found := scheduler.outcome(receipt)) is None and looks < _LOOKS_MAX:
            looks += pause.wait(_LOOK_S) is False
        new_key = found.new_key if found else None
        to_ms = new_key.scheduled_ms if new_key else 0
        pen.note("outcome", key, to_ms, place, found.outcome.value if found else "undecided")
