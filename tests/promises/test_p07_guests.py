"""P7: each call of user code is part of an attempt, or has a thread of its own.

On a real node.  ``CALLS`` names every place of user code that a node calls while it runs;
``tests/tidy/test_user_code.py`` finds a call that is not among them.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import tenacity
from pydantic import BaseModel, field_validator

from hourhand import (
    AttemptContext,
    BatchExecutor,
    BatchOutcome,
    Hourhand,
    Middleware,
    RetryPolicy,
    Scheduler,
    Settings,
    Task,
    TaskExecutor,
)
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.operations.events import AttemptFinished, Event, TaskHeld, TasksSucceeded
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.instant import from_millis
from hourhand.scheduler.adapters.clock import SystemClock
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings
from hourhand.scheduler.payloads.codec import EncodedPayload
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from tests.simulation.user_code import OwnError

WAIT_S = 30.0
ERRORS = (ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, OwnError)
GOOD = 5


class Struck:
    """The place where user code does what the test says, and which threads were there."""

    place: ClassVar[str] = ""
    errors: ClassVar[list[type[BaseException]]] = []
    is_slow: ClassVar[bool] = False
    entered: ClassVar[threading.Event]
    release: ClassVar[threading.Event]
    threads: ClassVar[set[str]] = set()

    @classmethod
    def begin(cls, place: str) -> None:
        """Strike nowhere until the node runs."""
        cls.place, cls.errors, cls.is_slow, cls.threads = place, [], False, set()
        cls.entered, cls.release = threading.Event(), threading.Event()

    @classmethod
    def at(cls, place: str) -> None:
        """Raise the next error at this place, or block there, where the test says so."""
        if place != cls.place:
            return
        cls.threads.add(threading.current_thread().name)
        if cls.errors:
            raise cls.errors.pop(0)(place)
        if cls.is_slow:
            cls.entered.set()
            assert cls.release.wait(WAIT_S), "the others ran"


async def one_turn() -> None:
    """Let the loop do what else is ready."""
    turned = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turned.set_result, None)
    await turned


class LongWait(tenacity.wait.wait_base):
    """A wait strategy of a user's own."""

    def __call__(self, retry_state: tenacity.RetryCallState) -> float:
        """Wait so long that nothing is tried again meanwhile."""
        Struck.at("wait")
        return 7_200.0


class Single(TaskExecutor):
    """Strikes wherever an executor is called."""

    def __init__(self) -> None:
        Struck.at("constructor")

    def __setattr__(self, name: str, value: object) -> None:
        Struck.at("attribute")
        super().__setattr__(name, value)

    @property
    def retry(self) -> RetryPolicy:  # type: ignore[override]
        """Read where an attempt failed."""
        Struck.at("retry")
        return RetryPolicy(wait=LongWait())

    @property
    def timeout(self) -> timedelta | None:  # type: ignore[override]
        """Read before each attempt."""
        Struck.at("timeout")
        return None

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Fail where what follows a failure is looked at."""
        Struck.at("execute")
        if Struck.place in ("retry", "wait"):
            raise ValueError("as planned")
        return None


class Coroutine(Single):
    """The same on the event loop."""

    async def execute(self, task: Task) -> Outcome | None:
        """Strike before the first await and behind it."""
        Struck.at("coroutine")
        await one_turn()
        Struck.at("awaited")
        return None


def factory() -> TaskExecutor:
    """Make an executor, unless it is the place."""
    Struck.at("factory")
    return Single()


class Many(BatchExecutor):
    """Strikes wherever an executor of batches is called."""

    batch_wait = timedelta(0)

    def __init__(self) -> None:
        Struck.at("constructor")

    @property
    def batch_tasks_max(self) -> int:  # type: ignore[override]
        """Read of the first executor."""
        Struck.at("batch_tasks_max")
        return 1

    @property
    def retries_alone(self) -> bool:  # type: ignore[override]
        """Read for each batch."""
        Struck.at("retries_alone")
        return False

    @property
    def retry(self) -> RetryPolicy:  # type: ignore[override]
        """Read where an attempt failed."""
        Struck.at("retry")
        return RetryPolicy(wait=LongWait())

    @property
    def timeout(self) -> timedelta | None:  # type: ignore[override]
        """Read before each batch."""
        Struck.at("timeout")
        return None

    def execute_many(
        self, tasks: Sequence[Task]
    ) -> Sequence[BatchOutcome] | None | Awaitable[Sequence[BatchOutcome] | None]:
        """Fail where what follows a failure is looked at."""
        Struck.at("execute_many")
        if Struck.place in ("retry", "wait"):
            raise ValueError("as planned")
        return None


class AsyncMany(Many):
    """The same on the event loop."""

    async def execute_many(self, tasks: Sequence[Task]) -> Sequence[BatchOutcome] | None:
        """Strike before the first await and behind it."""
        Struck.at("execute_many")
        await one_turn()
        Struck.at("awaited")
        return None


class Validated(BaseModel):
    """A payload with a check of a user's own."""

    number: int = 0

    @field_validator("number")
    @classmethod
    def check(cls, number: int) -> int:
        """Look it up in a database, as some do."""
        Struck.at("validator")
        return number


class Exhausting(TaskExecutor):
    """Uses up its attempts."""

    retry = RetryPolicy(attempts_max=1)

    def execute(self, task: Task) -> None:
        """Fail."""
        raise ValueError("as planned")


class Around(Middleware):
    """Strikes wherever middleware is called for a sick task."""

    def around_attempt(self, attempt: AttemptContext) -> Any:
        """Strike before, on the way in, and on the way out."""
        is_sick = attempt.kind == "sick"
        if is_sick:
            Struck.at("around_attempt")
        return self._entered(is_sick=is_sick)

    @contextmanager
    def _entered(self, *, is_sick: bool) -> Iterator[None]:
        if is_sick:
            Struck.at("enter")
        yield
        if is_sick:
            Struck.at("exit")

    def on_exhausted(self, key: TaskKey, on_exhausted: str) -> None:
        """Strike on the thread that tells of it."""
        Struck.at("on_exhausted")


class Codec:
    """Seals the data of sick tasks, and strikes wherever a codec is called for them."""

    name = "own"

    def __init__(self, *, blocks: bool) -> None:
        self.blocks = blocks

    def knows(self, key_id: str | None) -> bool:
        """Strike where a node asks for a key."""
        Struck.at("knows")
        return True

    def encode(self, data: bytes, bound_to: bytes) -> EncodedPayload | None:
        """Seal what is sick."""
        return EncodedPayload(data, "k") if b"sick" in bound_to else None

    def decode(self, data: bytes, key_id: str | None, bound_to: bytes) -> bytes:
        """Strike where data is opened."""
        Struck.at("decode")
        return data


class Good(TaskExecutor):
    """A neighbour."""

    ran: ClassVar[threading.Semaphore]

    def execute(self, task: Task) -> None:
        """Say that it ran."""
        Good.ran.release()


def typed(*, of_batch: bool = False) -> Callable[[], TaskExecutor]:
    """Return the executor of a function whose payload has a check of its own."""
    app = Hourhand()
    if of_batch:

        @app.batch("sick", wait=timedelta(0), tasks_max=1)
        def many(payloads: list[Validated]) -> None: ...

    else:

        @app.task("sick")
        def one(payload: Validated) -> None: ...

    return app["sick"].executor


CALLS: list[tuple[str, Callable[[], TaskExecutor]]] = [
    *((place, Single) for place in ("constructor", "attribute", "retry", "wait", "timeout")),
    ("execute", Single),
    *((place, Coroutine) for place in ("constructor", "timeout", "coroutine", "awaited")),
    ("factory", factory),
    ("factory", partial(factory)),
    *((place, Many) for place in ("constructor", "batch_tasks_max", "retries_alone", "retry")),
    *((place, Many) for place in ("wait", "timeout", "execute_many")),
    *((place, AsyncMany) for place in ("constructor", "timeout", "execute_many", "awaited")),
    ("validator", typed()),
    ("validator", typed(of_batch=True)),
    *((place, Single) for place in ("around_attempt", "enter", "exit", "knows", "decode")),
    *((place, Coroutine) for place in ("around_attempt", "enter", "exit", "knows", "decode")),
    *((place, Many) for place in ("around_attempt", "enter", "exit", "knows", "decode")),
    *((place, AsyncMany) for place in ("around_attempt", "enter", "exit", "knows", "decode")),
    ("on_exhausted", Exhausting),
]
"""Each place of user code, and the executor of the sick tasks that leads there."""
PLACES = {place for place, _ in CALLS}
every_call = pytest.mark.parametrize(
    "call", CALLS, ids=[f"{place}-{getattr(of, '__name__', 'function')}" for place, of in CALLS]
)


class Ends:
    """Counts the ends of sick attempts."""

    def __init__(self) -> None:
        self.ended = threading.Semaphore(0)

    def emit(self, event: Event) -> None:
        """Count an end."""
        match event:
            case TasksSucceeded(finished=finished):
                keys = [each.key for each in finished]
            case AttemptFinished(key=key) | TaskHeld(key=key):
                keys = [key]
            case _:
                return
        for key in keys:
            if key.ordering_id.startswith("sick"):
                self.ended.release()


class Node:
    """A node with sick and good tasks."""

    def __init__(self, folder: Path, call: tuple[str, Callable[[], TaskExecutor]]) -> None:
        place, executor = call
        Struck.begin(place)
        Good.ran, self._ends = threading.Semaphore(0), Ends()
        settings = Settings(
            embedded=EmbeddedSettings(folder=folder), topic=TopicSettings(partitions=1)
        )
        payloads = None
        if place in ("knows", "decode"):
            payloads = PayloadCodecs(Codec(blocks=place == "decode"))
        self.scheduler = Scheduler(
            settings,
            executors={"sick": executor, "good": Good},
            middleware=[Around()],
            payloads=payloads,
            telemetry=self._ends,
        )

    def schedule(self, kind: str, number: int) -> None:
        """Schedule a task that is due now."""
        task = Task(
            ordering_id=f"{kind}-{number}",
            scheduled_time=from_millis(SystemClock().now_ms()),
            uniqueness_key="x",
            kind=kind,
            data={"number": number},
        )
        self.scheduler.schedule_task(task).result(WAIT_S)

    def wait_for_sick(self) -> None:
        """Wait for the end of one attempt."""
        assert self._ends.ended.acquire(timeout=WAIT_S)

    def run_good(self) -> None:
        """Have neighbours run."""
        for number in range(GOOD):
            self.schedule("good", number)
        for _ in range(GOOD):
            assert Good.ran.acquire(timeout=WAIT_S)


@every_call
def test_p7_user_code_that_raises_anything_anywhere_ends_its_attempt(
    tmp_path: Path, call: tuple[str, Callable[[], TaskExecutor]]
) -> None:
    """Each error ends one attempt at most, and the neighbours run behind them all."""
    node = Node(tmp_path, call)
    with node.scheduler as scheduler:
        Struck.errors = list(ERRORS)
        for number in range(len(ERRORS)):
            node.schedule("sick", number)
            node.wait_for_sick()
        node.run_good()

        assert scheduler.is_ready and not any("dispatcher" in each for each in Struck.threads)
    assert not Struck.errors, "each was raised"


@every_call
def test_p7_user_code_that_is_slow_anywhere_delays_no_other_ordering_id(
    tmp_path: Path, call: tuple[str, Callable[[], TaskExecutor]]
) -> None:
    """The neighbours run while it lasts, as there are workers."""
    node = Node(tmp_path, call)
    with node.scheduler as scheduler:
        Struck.is_slow = True
        try:
            node.schedule("sick", 0)
            assert Struck.entered.wait(WAIT_S)
            node.run_good()

            assert scheduler.is_ready and not any("dispatcher" in each for each in Struck.threads)
        finally:
            Struck.release.set()
        node.wait_for_sick()
