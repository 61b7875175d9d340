"""User code as a hostile guest: what it does to the loop, the thread and the context it finds.

A task's data says what each of its attempts does and how long it lasts, so a replay needs no other
state.  Unlike the plans of ``user_code`` it lasts by itself: it runs on the workers of every node.
"""

import asyncio
import decimal
import threading
import zlib
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.interruption import current_attempt
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.task.definition import RESERVED
from hourhand.actors.model.task.task import Task
from hourhand.scheduler.services.system.system_tasks import RoutedFactory
from tests.simulation.machine import ProcessGone, VirtualMachine
from tests.simulation.task_maker import HARM, SICK
from tests.simulation.user_code import Miscalled, Plan, SimulatedExecutor, plan_of

TIMEOUT_MS = 2_500
"""Timeout of tasks of sick ids."""
BLOCKED_MS = 150.0
"""Time for which a coroutine keeps its loop from all others."""
_USUAL_PRECISION = decimal.DefaultContext.prec
_mark: ContextVar[object] = ContextVar("mark", default=None)

Act = Callable[["Guest"], object]


class Guest(SimulatedExecutor):
    """Common parts of all guests."""

    def __init__(
        self,
        policy: RetryPolicy,
        machine: VirtualMachine,
        complain: Miscalled,
        harmed: Callable[[str], object],
    ) -> None:
        super().__init__(policy)
        self.machine, self._complain, self._harmed = machine, complain, harmed
        self.is_sick = False

    @property
    def timeout(self) -> timedelta | None:  # type: ignore[override]
        """Have one where it may hang."""
        return timedelta(milliseconds=TIMEOUT_MS) if self.is_sick else None

    @contextmanager
    def alone(self, task: Task) -> Generator[Plan, None, None]:
        """Look whether the context is the attempt's own, leave marks in it, and look once more."""
        attempt = current_attempt()
        if attempt is None or attempt.task.key != task.key:
            self._complain(task.key, f"runs as {attempt and attempt.task.key}")
        if _mark.get() is not None or decimal.getcontext().prec != _USUAL_PRECISION:
            self._complain(task.key, "found what another attempt has left in its context")
        mark = object()
        _mark.set(mark)
        decimal.getcontext().prec = 3
        plan = plan_of(task, self.attempt)
        if plan.kind == "kill":
            self.machine.kill()
        yield plan
        if _mark.get() is not mark or decimal.getcontext().prec != 3:
            self._complain(task.key, "lost its context while it ran")

    def harm_of(self, task: Task) -> str:
        """Return what harm this attempt does, empty for none."""
        harm = task.data["harm"]
        assert isinstance(harm, list), "the workload writes a list"
        return str(harm[self.attempt - 1]) if self.is_sick and self.attempt <= len(harm) else ""

    def misbehave(self, task: Task, acts: "dict[str, Act]") -> None:
        """Do what the data of the task asks for, of what can be done here."""
        act = acts.get(self.harm_of(task))
        if act is not None:
            self._harmed(self.harm_of(task))
            act(self)

    async def last(self, task: Task, plan: Plan) -> None:
        """Do harm to the loop, and await what is planned."""
        harm = self.harm_of(task)
        self.misbehave(task, _ON_LOOP)
        if harm == "hang":
            await asyncio.get_running_loop().create_future()
        if harm == "swallow":
            with suppress(asyncio.CancelledError):
                await _pause_s(10)
        await _pause_s(plan.duration_ms / 1000)


class BlockingGuest(Guest):
    """Runs on a worker's thread."""

    def execute(self, task: Task) -> Outcome | None:
        """Do harm, last as planned, and end as planned."""
        with self.alone(task) as plan:
            self.misbehave(task, _IN_THREAD)
            self.machine.sleep(plan.duration_ms / 1000)
        return super().execute(task)


class AsyncGuest(Guest):
    """Runs on the event loop."""

    async def execute(self, task: Task) -> Outcome | None:  # type: ignore[override]
        """Do harm, last as planned, and end as planned."""
        with self.alone(task) as plan:
            await self.last(task, plan)
        return super().execute(task)


class AwaitingGuest(Guest):
    """Runs on a worker's thread, and returns what is to be awaited."""

    def execute(self, task: Task) -> Outcome | None:
        """Do harm, and have the rest done on the loop."""
        with self.alone(task) as plan:
            self.misbehave(task, _IN_THREAD)
        made: Any = self._rest(task, plan)
        return made  # type: ignore[no-any-return]

    async def _rest(self, task: Task, plan: Plan) -> Outcome | None:
        await self.last(task, plan)
        return super().execute(task)


def guests(
    make: RoutedFactory,
    policy: RetryPolicy,
    machine: VirtualMachine,
    complain: Miscalled,
    harmed: Callable[[str], object],
) -> RoutedFactory:
    """Return what makes executors whose kind of ``execute`` their ordering id tells."""
    flavours = (BlockingGuest, AsyncGuest, AwaitingGuest)

    def made(ordering_id: str, kind: str | None) -> TaskExecutor:
        if ordering_id.startswith(RESERVED):
            return make(ordering_id, kind)
        flavour = flavours[zlib.crc32(ordering_id.encode()) % len(flavours)]
        guest = flavour(policy, machine, complain, harmed)
        guest.is_sick = ordering_id.startswith(SICK)
        guest.kind = kind
        return guest

    return made


# Their deeds.


def _others() -> "list[asyncio.Task[Any]]":
    """Return all tasks of the loop but this one, oldest first."""
    found = asyncio.all_tasks() - {asyncio.current_task()}
    return sorted(found, key=lambda each: (len(each.get_name()), each.get_name()))


def _cancel_others(_guest: Guest) -> None:
    for task in _others():
        task.cancel()


def _cancel_all(_guest: Guest) -> None:
    for task in _others():
        task.cancel()
    current = asyncio.current_task()
    assert current is not None, "it is called by one"
    current.cancel()


def _stop(_guest: Guest) -> None:
    asyncio.get_running_loop().stop()


def _close(_guest: Guest) -> None:
    with suppress(RuntimeError):
        asyncio.get_running_loop().close()


def _close_from_outside(guest: Guest) -> None:
    """Close the loop in the moment in which it was stopped."""
    loop = asyncio.get_running_loop()

    def close() -> None:
        while loop.is_running():
            guest.machine.sleep(0.001)
        loop.close()

    guest.machine.start_thread(partial(_quietly, close), "closer")
    loop.stop()


def _replace_handler(_guest: Guest) -> None:
    def handle(_loop: object, context: dict[str, Any]) -> None:
        raise SystemExit if "handle" in context else ValueError

    asyncio.get_running_loop().set_exception_handler(handle)


def _replace_factory(_guest: Guest) -> None:
    def refuse(*_args: object, **_more: object) -> Any:
        raise RuntimeError("no task for you")

    asyncio.get_running_loop().set_task_factory(refuse)


def _replace_executor(_guest: Guest) -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    asyncio.get_running_loop().set_default_executor(executor)


def _flood(_guest: Guest) -> None:
    loop = asyncio.get_running_loop()
    for number in range(500):
        loop.call_later(number, int)


def _raise_from_callback(_guest: Guest) -> None:
    def leave() -> None:
        raise SystemExit("from a callback")

    asyncio.get_running_loop().call_soon(leave)


def _fail_in_callback(_guest: Guest) -> None:
    asyncio.get_running_loop().call_soon(divmod, 1, 0)


def _resolve(end: "asyncio.Future[None]") -> None:
    if not end.done():
        end.set_result(None)


async def _pause_s(seconds: float) -> None:
    """Wait on the virtual clock."""
    loop = asyncio.get_running_loop()
    end: asyncio.Future[None] = loop.create_future()
    timer = loop.call_later(seconds, _resolve, end)
    try:
        await end
    finally:
        timer.cancel()


async def _raise_later() -> None:
    await _pause_s(0.4)
    raise KeyboardInterrupt


async def _go_on() -> None:
    with suppress(asyncio.CancelledError):
        await _pause_s(3)
    await _pause_s(3)


_left_behind: "set[asyncio.Task[None]]" = set()


def _leave_tasks(_guest: Guest) -> None:
    with suppress(RuntimeError):
        for work in (_raise_later, _go_on):
            coroutine = work()
            try:
                task = asyncio.get_running_loop().create_task(coroutine)
            except RuntimeError:
                coroutine.close()
                raise
            _left_behind.add(task)
            task.add_done_callback(_left_behind.discard)


def _block(guest: Guest) -> None:
    guest.machine.sleep(BLOCKED_MS / 1000)


_numbers = count()


def _rename(guest: Guest) -> None:
    threading.current_thread().name = "mine"
    guest.attempt = "first"  # type: ignore[assignment]
    del guest.attempt
    setattr(guest, f"_own_{next(_numbers)}", guest)
    guest.attempt = 1


def _forget_loop(_guest: Guest) -> None:
    asyncio.set_event_loop(None)


def _exit_in_thread(guest: Guest) -> None:
    def leave() -> None:
        guest.machine.sleep(0.01)
        raise SystemExit

    guest.machine.start_thread(partial(_quietly, leave), "user")


def _quietly(call: Callable[[], object]) -> None:
    """A thread of the user's own: what it raises is nobody's."""
    try:
        call()
    except ProcessGone:
        raise
    except BaseException:  # noqa: BLE001, S110 - as the interpreter does, except for the message
        pass


def _nothing(_guest: Guest) -> None:
    """Hang and swallow are the executor's own matter."""


_IN_THREAD: dict[str, Act] = {"rename": _rename, "thread": _exit_in_thread}
_ON_LOOP: dict[str, Act] = {
    **_IN_THREAD,
    "cancel": _cancel_others,
    "cancel all": _cancel_all,
    "stop": _stop,
    "close": _close,
    "close outside": _close_from_outside,
    "handler": _replace_handler,
    "factory": _replace_factory,
    "executor": _replace_executor,
    "flood": _flood,
    "exit": _raise_from_callback,
    "fail": _fail_in_callback,
    "leave": _leave_tasks,
    "block": _block,
    "forget": _forget_loop,
    "hang": _nothing,
    "swallow": _nothing,
}
assert _ON_LOOP.keys() == set(HARM), "the workload asks for what there is"
