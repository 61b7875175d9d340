"""The registry of a program's tasks: functions and classes by kind, with their options.

A module of tasks makes one, which needs no driver, no settings and no server; a node gets it as
``executors``, and clients schedule through its functions. It decides nothing about a task's run.
"""

import inspect
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from datetime import UTC, date, datetime, timedelta
from functools import update_wrapper
from typing import Any, Generic, Literal, Protocol, TypeVar, overload
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.batch_executor import BatchExecutor, BatchOutcome, outcomes_of
from hourhand.actors.model.execution.interruption import is_asked_to_end
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.flow.flow import FairShare, FlowRule, Limit
from hourhand.actors.model.task.checkpoint_value import checkpoint_text
from hourhand.actors.model.task.links import On
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import (
    InvalidExecutor,
    InvalidTask,
    NotConnected,
    PayloadInvalid,
)
from hourhand.actors.model.values.public import public
from hourhand.scheduler.executors.middleware import Middleware
from hourhand.scheduler.executors.payload import BatchSignature, Signature
from hourhand.scheduler.executors.user_executors import (
    ExecutorRegistry,
    TaskKind,
    check_kind,
    payloads_of,
)
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.runtime.light_future import LightFuture
from hourhand.scheduler.tasks.receipt import Receipt

P = TypeVar("P")
P_contra = TypeVar("P_contra", contravariant=True)
Returned = Outcome | None | Awaitable[Outcome | None] | Awaitable[None]
BatchReturned = (
    Sequence[BatchOutcome] | None | Awaitable[Sequence[BatchOutcome] | None] | Awaitable[None]
)
ExecutorClass = TypeVar("ExecutorClass", bound=type[TaskExecutor])


_SOME_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_HERE: ContextVar[TaskExecutor | None] = ContextVar("hourhand_executor", default=None)
"""The executor whose function is called in this thread or coroutine."""


class Scheduling(Protocol):
    """The methods of a client that a registry calls."""

    @property
    def now(self) -> datetime:
        """The client's wall time."""

    def schedule_task(
        self,
        task: Task,
        *,
        unique_for: timedelta | None = None,
        debounce: timedelta | None = None,
        replace: bool = False,
        then: Task | None = None,
        on: On = "success",
    ) -> "LightFuture[Receipt]":
        """Append a task."""


@public("hourhand")
class Hourhand(ExecutorRegistry):
    """A registry: a mapping of kinds to what runs them, filled by its decorators.

    ::

        app = Hourhand()

        @app.task("send-invoice", retry=RetryPolicy(attempts_max=5))
        def send_invoice(invoice: Invoice) -> None: ...

        with Scheduler(Settings(), executors=app):
            send_invoice.schedule(Invoice(id=42), ordering_id="customer-7")

    ``middleware`` goes around every attempt of a node that is given the registry, outside of what
    the node itself is given.  ``payloads`` seal and open the data of tasks, in every client and
    node that is given the registry.  ``name`` is that of the application, which owns the schedules
    of ``recurring``.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        middleware: Sequence[Middleware] = (),
        payloads: PayloadCodecs | None = None,
    ) -> None:
        self.name = name
        self.middleware = tuple(middleware)
        self.payloads = payloads_of(None, payloads)
        self._kinds: dict[str, TaskKind] = {}
        self._clients: list[Scheduling] = []
        self._included: list[Hourhand] = []
        self._recurring: dict[str, tuple[dict[str, Any], TaskFunction[Any] | None]] = {}
        """Arguments of ``schedule_recurring`` by the schedule's name, and the function if it is
        one."""
        self.loaded_from: tuple[str, ...] = ()
        """The paths that a command was given, where it made this registry of them."""

    @property
    def cancelled(self) -> bool:
        """True if the attempt that runs in this thread or coroutine was asked to end.

        For functions; classes have ``TaskExecutor.cancelled``.
        """
        return is_asked_to_end()

    def checkpoint(self, value: object, task: Task | None = None) -> None:
        """Note how far the task is whose function runs in this thread or coroutine, as
        ``TaskExecutor.checkpoint`` does; a function of a batch says which ``task`` is meant.

        Nothing is noted where no node called the function. Raises InvalidCheckpoint.
        """
        executor = _HERE.get()
        if isinstance(executor, BatchExecutor):
            executor.checkpoint(value, task)
        elif executor is not None:
            executor.checkpoint(value)
        else:
            checkpoint_text(value)

    @property
    def checkpointed(self) -> Any:
        """The newest checkpoint of the attempts before this one; None without one.

        In a function of a batch it is a sequence with one for each task, in their order.
        """
        executor = _HERE.get()
        return None if executor is None else executor.checkpointed

    @property
    def snoozed(self) -> Any:
        """Times that the current attempt has returned ``Snooze`` so far; 0 outside of a function.

        In a function of a batch it is a sequence with one for each task, in their order.
        """
        executor = _HERE.get()
        return 0 if executor is None else executor.snoozed

    def __getitem__(self, kind: str) -> TaskKind:
        return self._kinds[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def task(
        self,
        kind: str,
        *,
        retry: RetryPolicy | None = None,
        timeout: timedelta | None = None,
        stuck_after: timedelta | None = None,
        run_in: Literal["thread", "process"] | None = None,
        concurrency: int | None = None,
        concurrency_per_id: int | None = 1,
        limits: Limit | Sequence[Limit] = (),
        priority: int | None = None,
        fair: FairShare | None = None,
        expires_after: timedelta | None = None,
    ) -> "TaskDecorator":
        """Register a function for tasks of a kind; blocking or ``async def``.

        The function takes the payload, whose annotation is its type, and may take the task too.
        ``timeout``, ``stuck_after``, ``run_in`` and ``expires_after`` are those of
        ``TaskExecutor``, ``TaskKind`` explains the other arguments. Raises InvalidExecutor if the
        kind is taken or invalid, and for invalid arguments.
        """
        self._refuse(kind)
        flow = FlowRule.of(limits, priority, fair)
        attributes = {
            "retry": retry or RetryPolicy(),
            "timeout": timeout,
            "stuck_after": stuck_after,
            "run_in": run_in,
            "expires_after": expires_after,
            **_attributes(flow),
        }
        return TaskDecorator(self, kind, attributes, concurrency, concurrency_per_id)

    def batch(
        self,
        kind: str,
        *,
        tasks_max: int = BatchExecutor.batch_tasks_max,
        wait: timedelta = BatchExecutor.batch_wait,
        batches_max: int = BatchExecutor.batches_max,
        retries_alone: bool = False,
        runs_of_one_id: bool = False,
        retry: RetryPolicy | None = None,
        timeout: timedelta | None = None,
        stuck_after: timedelta | None = None,
        run_in: Literal["thread", "process"] | None = None,
        concurrency_per_id: int | None = 1,
        limits: Limit | Sequence[Limit] = (),
        priority: int | None = None,
        fair: FairShare | None = None,
        expires_after: timedelta | None = None,
    ) -> "BatchDecorator":
        """Register a function that runs many tasks of a kind at once; blocking or ``async def``.

        The function takes a list of payloads, whose annotation is their type, or of tasks, and
        returns outcomes as ``BatchExecutor.execute_many`` does, which explains the other arguments.
        Limits count tasks; ``concurrency_per_id`` is that of ``TaskKind``. Raises InvalidExecutor
        if the kind is taken or invalid, and for invalid arguments.
        """
        self._refuse(kind)
        flow = FlowRule.of(limits, priority, fair)
        attributes = {
            "batch_tasks_max": tasks_max,
            "batch_wait": wait,
            "batches_max": batches_max,
            "retries_alone": retries_alone,
            "runs_of_one_id": runs_of_one_id,
            "retry": retry or RetryPolicy(),
            "timeout": timeout,
            "stuck_after": stuck_after,
            "run_in": run_in,
            "expires_after": expires_after,
            **_attributes(flow),
        }
        return BatchDecorator(self, kind, attributes, concurrency_per_id)

    def recurring(
        self,
        name: str,
        *,
        cron: str | None = None,
        every: timedelta | None = None,
        time_zone: str | ZoneInfo = "UTC",
        ordering_id: str | None = None,
        priority: int | None = None,
        expires_after: timedelta | None = None,
        data: Mapping[str, JsonValue] | None = None,
        overlap: Literal["skip", "buffer_one", "allow"] = "skip",
        catch_up: timedelta = timedelta(hours=1),
        jitter: timedelta = timedelta(0),
        starts: datetime | None = None,
        ends: datetime | None = None,
        except_dates: Iterable[date | str] = (),
        count_max: int | None = None,
    ) -> "RecurringDecorator":
        """Run a function, or a class of this registry, again and again.

        Put above ``task``, ``batch`` or ``executor``; above a plain function it registers a task of
        the schedule's name.  Each node that starts with the registry declares all of its schedules:
        they are made, changed, and removed where they are no longer in the code.
        ``docs/recurring.md`` explains the arguments.  Raises InvalidExecutor for a name that is
        taken and for a class of another registry; a node that opens raises it for data that does
        not fit a function, and InvalidTask for a rule that is not valid.
        """
        given = {
            "cron": cron,
            "every": every,
            "time_zone": time_zone,
            "ordering_id": ordering_id,
            "priority": priority,
            "expires_after": expires_after,
            "data": data,
            "overlap": overlap,
            "catch_up": catch_up,
            "jitter": jitter,
            "starts": starts,
            "ends": ends,
            # The node refuses anything but a list of dates.
            "except_dates": tuple(except_dates) if _is_list(except_dates) else except_dates,
            "count_max": count_max,
        }

        return RecurringDecorator(self, name, given)

    def recurring_by_application(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the declared schedules, as arguments of ``schedule_recurring`` by name, for each
        application of this registry and those it includes; one with a name may have none.

        InvalidExecutor where an application with schedules has no name, or two have one schedule.
        """
        found: dict[str, dict[str, dict[str, Any]]] = {}
        for application, schedules in self.declared_below(None):
            if application is None:
                raise InvalidExecutor(
                    "the recurring schedules of an application belong to its name, by which they"
                    f" are removed when they leave the code ({', '.join(map(repr, schedules))}):"
                    " give it one, as Hourhand(name='billing')"
                )
            found.setdefault(application, {}).update(schedules)
        names = Counter(each for schedules in found.values() for each in schedules)
        if twice := sorted(each for each, times in names.items() if times > 1):
            raise InvalidExecutor(f"two applications declare the schedules {', '.join(twice)}")
        return found

    def declared_below(
        self, above: str | None
    ) -> Iterator[tuple[str | None, dict[str, dict[str, Any]]]]:
        """Yield the schedules of this registry and of each one that it includes, by the name of
        the application, which is ``above`` where a registry has none of its own.
        """
        name = self.name or above
        if self.name is not None or self._recurring:
            for each, (given, function) in self._recurring.items():
                if function is not None:
                    function.check_data(each, given["data"] or {})
            yield name, {each: given for each, (given, _) in self._recurring.items()}
        for included in self._included:
            yield from included.declared_below(name)

    def declare(self, name: str, given: dict[str, Any], repeated: object) -> None:
        """Declare a schedule of something that is registered here; InvalidExecutor if it is not, or
        the name is taken.
        """
        if name in self._recurring:
            raise InvalidExecutor(
                f"the recurring schedule {shown(name)} is declared already: choose another name"
            )
        function = repeated if isinstance(repeated, TaskFunction) else None
        for kind, how in self._kinds.items():
            if how.executor is repeated or (function is not None and function.kind == kind):
                self._recurring[name] = {**given, "kind": kind}, function
                return
        raise InvalidExecutor(
            f"the recurring schedule {shown(name)} is of {shown(repeated)}, which is not a task of"
            " this registry: put @app.recurring above @app.task, @app.batch or @app.executor"
        )

    def executor(
        self,
        kind: str,
        *,
        concurrency: int | None = None,
        concurrency_per_id: int | None = 1,
        limits: Limit | Sequence[Limit] | None = None,
        priority: int | None = None,
        fair: FairShare | None = None,
        expires_after: timedelta | None = None,
    ) -> Callable[[ExecutorClass], ExecutorClass]:
        """Register a ``TaskExecutor`` class for tasks of a kind.

        ``TaskKind`` explains the arguments.
        """

        def register(executor: ExecutorClass) -> ExecutorClass:
            how = TaskKind(
                executor, concurrency, limits, priority, fair, concurrency_per_id, expires_after
            )
            self.add(kind, how)
            return executor

        return register

    def add(self, kind: str, how: TaskKind) -> None:
        """Register an executor for tasks of a kind; InvalidExecutor if the kind is taken."""
        self._refuse(kind)
        self._kinds[kind] = how

    def include(self, other: "Hourhand") -> None:
        """Take over all kinds and middleware of another registry, whose functions then use this
        one's clients too.

        Raises InvalidExecutor if a kind is taken, or both have different payload codecs.
        """
        if other.payloads is not None:
            if self.payloads not in {None, other.payloads}:
                raise InvalidExecutor(
                    "two registries have different payload codecs: give both the same"
                )
            self.payloads = other.payloads
        for kind, how in other.items():
            self.add(kind, how)
        self.middleware += tuple(each for each in other.middleware if each not in self.middleware)
        self._included.append(other)
        for client in self._clients:
            other.bind(client)

    def bind(self, client: Scheduling) -> None:
        """Schedule through this client from now on: the last bound one is used."""
        self._clients.append(client)
        for each in self._included:
            each.bind(client)

    def unbind(self, client: Scheduling) -> None:
        """Stop scheduling through this client; the one bound before it is used again."""
        self._clients = [each for each in self._clients if each is not client]
        for each in self._included:
            each.unbind(client)

    @property
    def client(self) -> Scheduling:
        """The client for scheduling; NotConnected if there is none."""
        if not self._clients:
            raise NotConnected(
                "no client is open for this registry: open one with"
                " SchedulerClient(settings, executors=app), or a Scheduler(settings, executors=app)"
            )
        return self._clients[-1]

    def _refuse(self, kind: object) -> None:
        check_kind(kind)
        if kind in self._kinds:
            raise InvalidExecutor(f"the kind {kind!r} is registered already: choose another")


def _attributes(flow: FlowRule) -> dict[str, Any]:
    """Return the class attributes for a rule."""
    return {"limits": flow.limits, "priority": flow.priority, "fair": flow.fair}


@public("hourhand")
class TaskFunction(Generic[P_contra]):
    """A registered function: a call runs it at once, unchanged; ``schedule`` runs it later."""

    def __init__(
        self, registry: Hourhand, kind: str, function: Callable[..., Any], signature: Signature
    ) -> None:
        update_wrapper(self, function)
        self._registry = registry
        self._function = function
        self._signature = signature
        self.kind = kind

    def __repr__(self) -> str:
        return f"<task function {self.kind!r}>"

    @property
    def registered(self) -> TaskKind:
        """The kind's options in the registry."""
        return self._registry[self.kind]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._function(*arguments, **named)

    def check_data(self, name: str, data: Mapping[str, JsonValue]) -> None:
        """Raise InvalidExecutor where the data of a schedule does not fit the payload."""
        task = Task.model_construct(
            ordering_id=name, scheduled_time=_SOME_TIME, uniqueness_key="", data=dict(data)
        )
        try:
            self._signature.arguments(task)
        except PayloadInvalid as error:
            raise InvalidExecutor(
                f"the data of the recurring schedule {shown(name)} does not fit its function:"
                f" {error}"
            ) from None

    def schedule(
        self,
        payload: P_contra,
        *,
        ordering_id: str,
        at: datetime | None = None,
        after: timedelta | None = None,
        uniqueness_key: str | None = None,
        priority: int | None = None,
        expires: datetime | timedelta | None = None,
        unique_for: timedelta | None = None,
        debounce: timedelta | None = None,
        replace: bool = False,
        then: Task | None = None,
        on: On = "success",
    ) -> "LightFuture[Receipt]":
        """Schedule the function through the registry's client, as ``schedule_task`` does.

        It runs at ``at``, or ``after`` from now, or now. Without a ``uniqueness_key`` each call
        schedules one more task. ``then``, a task that ``make_task`` makes, follows it. ``priority``
        and ``expires`` are the task's own; by default it has its kind's.

        Raises InvalidTask if the payload does not fit, for a wrong priority or expiry,
        and for ``unique_for``, ``debounce`` or ``replace`` without a ``uniqueness_key``, and
        NotConnected if no client is open.
        """
        named = {"unique_for": unique_for, "debounce": debounce, "replace": replace or None}
        for name, given in named.items():
            if given is not None and uniqueness_key is None:
                raise InvalidTask(f"{name} needs a uniqueness_key: it says what is the same task")
        client = self._registry.client
        task = self.make_task(
            payload,
            ordering_id=ordering_id,
            at=_due(client, at, after),
            uniqueness_key=uniqueness_key,
            priority=priority,
            expires=expires,
        )
        return client.schedule_task(
            task, unique_for=unique_for, debounce=debounce, replace=replace, then=then, on=on
        )

    def make_task(
        self,
        payload: P_contra,
        *,
        ordering_id: str,
        at: datetime | None = None,
        after: timedelta | None = None,
        uniqueness_key: str | None = None,
        priority: int | None = None,
        expires: datetime | timedelta | None = None,
    ) -> Task:
        """Return the task that ``schedule`` schedules, for ``schedule_tasks`` and for tests.

        With ``after``, or without a time, it counts from the wall time of the registry's client;
        NotConnected if none is open.
        """
        due = at if at is not None and after is None else _due(self._registry.client, at, after)
        return Task(
            ordering_id=ordering_id,
            scheduled_time=due,
            uniqueness_key=uuid.uuid4().hex if uniqueness_key is None else uniqueness_key,
            data=self._signature.to_data(payload),
            kind=self.kind,
            priority=priority,
            expires=expires,
        )


def _is_list(given: object) -> bool:
    return isinstance(given, Iterable) and not isinstance(given, str | bytes | Mapping)


def _due(client: Scheduling, at: datetime | None, after: timedelta | None) -> datetime:
    """Return the due time from at most one of both arguments, now without either; InvalidTask."""
    delay: object = after
    if at is not None and delay is not None:
        raise InvalidTask("a task is due at a time or after a delay: give at or after, not both")
    if at is not None:
        return at
    if delay is None:
        return client.now
    if not isinstance(delay, timedelta):
        raise InvalidTask(f"after is a timedelta, got {shown(delay)}: write timedelta(seconds=…)")
    try:
        return client.now + delay
    except OverflowError:
        raise InvalidTask(f"after={delay} from now lies outside years 1 to 9999") from None


class TaskDecorator:
    """A decorator that registers the function."""

    def __init__(
        self,
        registry: Hourhand,
        kind: str,
        attributes: dict[str, Any],
        concurrency: int | None,
        concurrency_per_id: int | None,
    ) -> None:
        self._registry = registry
        self._kind = kind
        self._attributes = attributes
        self._concurrency = concurrency
        self._concurrency_per_id = concurrency_per_id

    @overload
    def __call__(self, function: Callable[[], Returned]) -> TaskFunction[None]: ...
    @overload
    def __call__(self, function: Callable[[Task], Returned]) -> TaskFunction[dict[str, Any]]: ...
    @overload
    def __call__(self, function: Callable[[P], Returned]) -> TaskFunction[P]: ...
    @overload
    def __call__(self, function: Callable[[P, Task], Returned]) -> TaskFunction[P]: ...
    def __call__(self, function: Callable[..., Returned]) -> TaskFunction[Any]:
        """Register the function and return the object that schedules it."""
        name = f"task {self._kind!r}"
        if not callable(function):
            raise InvalidExecutor(f"{name} decorates {shown(function)}: a function is needed")
        signature = Signature(name, function)
        base = (
            _AsyncFunctionExecutor if inspect.iscoroutinefunction(function) else _FunctionExecutor
        )
        names = {
            **self._attributes,
            "_call": staticmethod(function),
            "_signature": signature,
            "__doc__": function.__doc__,
        }
        made = type(getattr(function, "__name__", "function"), (base,), names)
        how = TaskKind(made, self._concurrency, concurrency_per_id=self._concurrency_per_id)
        self._registry.add(self._kind, how)
        return TaskFunction(self._registry, self._kind, function, signature)


class RecurringDecorator:
    """A decorator that declares a recurring schedule of what it is put above."""

    def __init__(self, registry: Hourhand, name: str, given: dict[str, Any]) -> None:
        given_name: object = name
        if not isinstance(given_name, str):
            raise InvalidExecutor(
                f"{shown(given_name)} is not the name of a recurring schedule: write"
                " @app.recurring('name', …) above the function"
            )
        self._registry = registry
        self._name = name
        self._given = given

    @overload
    def __call__(self, repeated: TaskFunction[P]) -> TaskFunction[P]: ...
    @overload
    def __call__(self, repeated: ExecutorClass) -> ExecutorClass: ...
    @overload
    def __call__(self, repeated: Callable[[], Returned]) -> TaskFunction[None]: ...
    @overload
    def __call__(self, repeated: Callable[[Task], Returned]) -> TaskFunction[dict[str, Any]]: ...
    @overload
    def __call__(self, repeated: Callable[[P], Returned]) -> TaskFunction[P]: ...
    @overload
    def __call__(self, repeated: Callable[[P, Task], Returned]) -> TaskFunction[P]: ...
    def __call__(self, repeated: Any) -> Any:
        """Declare the schedule and return what it repeats, registered as a task."""
        is_plain = callable(repeated) and not isinstance(repeated, TaskFunction | type)
        registered = self._registry.task(self._name)(repeated) if is_plain else repeated
        self._registry.declare(self._name, self._given, registered)
        return registered


class BatchDecorator:
    """A decorator that registers a function which takes a list."""

    def __init__(
        self,
        registry: Hourhand,
        kind: str,
        attributes: dict[str, Any],
        concurrency_per_id: int | None,
    ) -> None:
        self._registry = registry
        self._kind = kind
        self._attributes = attributes
        self._concurrency_per_id = concurrency_per_id

    @overload
    def __call__(
        self, function: Callable[[list[Task]], BatchReturned]
    ) -> TaskFunction[dict[str, Any]]: ...
    @overload
    def __call__(self, function: Callable[[list[P]], BatchReturned]) -> TaskFunction[P]: ...
    def __call__(self, function: Callable[..., BatchReturned]) -> TaskFunction[Any]:
        """Register the function and return the object that schedules a task of it."""
        name = f"task {self._kind!r}"
        if not callable(function):
            raise InvalidExecutor(f"{name} decorates {shown(function)}: a function is needed")
        signature = BatchSignature(name, function)
        base = _AsyncFunctionBatch if inspect.iscoroutinefunction(function) else _FunctionBatch
        names = {
            **self._attributes,
            "_call": staticmethod(function),
            "_signature": signature,
            "__doc__": function.__doc__,
        }
        made = type(getattr(function, "__name__", "function"), (base,), names)
        how = TaskKind(made, concurrency_per_id=self._concurrency_per_id)
        self._registry.add(self._kind, how)
        return TaskFunction(self._registry, self._kind, function, signature)


class _FunctionBatch(BatchExecutor):
    """Runs a registered function that takes a list."""

    _call: Callable[..., Any]
    _signature: BatchSignature

    def execute_many(
        self, tasks: Sequence[Task]
    ) -> Sequence[BatchOutcome] | None | Awaitable[Sequence[BatchOutcome] | None]:
        """Call the function with the payloads of the tasks whose data fit."""
        _HERE.set(self)
        payloads, outcomes = self._read(tasks)
        return self._merged(outcomes, self._call(payloads) if payloads else None)

    def _read(self, tasks: Sequence[Task]) -> tuple[list[Any], list[BatchOutcome]]:
        """Return the payloads, and for each task without a fitting one the error."""
        payloads: list[Any] = []
        outcomes: list[BatchOutcome] = []
        for task in tasks:
            try:
                payloads += self._signature.arguments(task)
                outcomes.append(None)
            except BaseException as error:  # noqa: BLE001 - a type's own checks are user code
                outcomes.append(error)
        return payloads, outcomes

    @staticmethod
    def _merged(outcomes: list[BatchOutcome], returned: object) -> Sequence[BatchOutcome]:
        found = iter(outcomes_of(returned, outcomes.count(None)))
        return [next(found) if each is None else each for each in outcomes]


class _AsyncFunctionBatch(_FunctionBatch):
    """Runs a registered coroutine function that takes a list."""

    async def execute_many(self, tasks: Sequence[Task]) -> Sequence[BatchOutcome] | None:
        """Await the function, called with the payloads of the tasks whose data fit."""
        _HERE.set(self)
        payloads, outcomes = self._read(tasks)
        return self._merged(outcomes, await self._call(payloads) if payloads else None)


class _FunctionExecutor(TaskExecutor):
    """Runs a registered function."""

    _call: Callable[..., Any]
    _signature: Signature

    def execute(self, task: Task) -> Outcome | None | Awaitable[Outcome | None]:
        """Call the function with the task's payload."""
        _HERE.set(self)
        outcome: Outcome | None = self._call(*self._signature.arguments(task))
        return outcome


class _AsyncFunctionExecutor(_FunctionExecutor):
    """Runs a registered coroutine function."""

    async def execute(self, task: Task) -> Outcome | None:
        """Await the function, called with the task's payload."""
        _HERE.set(self)
        outcome: Outcome | None = await self._call(*self._signature.arguments(task))
        return outcome
