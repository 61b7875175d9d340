"""The client of a producer of tasks and commands, without the parts of a node.

It decides whether a task or command may enter the log (its form, its size, the grace window of
promise P11) and its partition. A refusal comes through the future, like any other failure, and
means that nothing was sent. It never runs a task, and reads the store only for reads and outcomes.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from datetime import date, datetime, timedelta
from functools import partial
from threading import Lock, Thread
from typing import Any, Self, TypedDict, overload
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from hourhand.actors.kernel.futures import gather
from hourhand.actors.model.task.codec import (
    Command,
    CommandKind,
    Headers,
    encode_command,
    encode_task,
    replacing,
)
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.links import On
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.task.status import RecordedOutcome
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import (
    HourhandError,
    InvalidTask,
    NodeStopped,
)
from hourhand.actors.model.values.instant import from_millis
from hourhand.actors.model.values.public import public
from hourhand.actors.ports.log import LogWriter
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.client.backfilling import Backfilled, fill
from hourhand.scheduler.client.bulk import BulkRejected, BulkResult, BulkRun, OnRejected
from hourhand.scheduler.client.declaring import DeclaredSet, Declaring
from hourhand.scheduler.client.system_requests import SystemRequests
from hourhand.scheduler.client.task_reads import AsyncReads, TaskReads
from hourhand.scheduler.configuration.settings import Settings, require_settings
from hourhand.scheduler.executors.registry import Hourhand
from hourhand.scheduler.executors.user_executors import (
    Executors,
    check_executors,
    kind_complaint,
    payloads_of,
)
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.runtime import forking
from hourhand.scheduler.runtime.light_future import LightFuture, and_then, resolve, then
from hourhand.scheduler.services.recurring.backfill import past_occurrences
from hourhand.scheduler.services.recurring.requests import rule_of
from hourhand.scheduler.services.recurring.rule import Overlap, RecurringRule
from hourhand.scheduler.services.recurring.state import Change, Recurring
from hourhand.scheduler.services.relay.sending import MessageSender, TaskSender
from hourhand.scheduler.services.system.debounced_tasks import debounced_call
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.services.system.system_tasks import unique_in_order
from hourhand.scheduler.services.system.unique_tasks import unique_request
from hourhand.scheduler.tasks.admission import (
    admission,
    checked_key,
    checked_pair,
    encoded,
    followed,
    refuse_large,
    refuse_lone_end,
    refuse_the_past,
    several,
    target_ms,
)
from hourhand.scheduler.tasks.grouping import grouped
from hourhand.scheduler.tasks.outcome_stream import OutcomeInfo
from hourhand.scheduler.tasks.receipt import (
    CommandReceipt,
    PairReceipt,
    Receipt,
    ReceiptFuture,
    refused,
)
from hourhand.scheduler.tasks.task_info import AttemptInfo, TaskInfo
from hourhand.scheduler.tasks.task_queries import (
    KeyOrPair,
    KeyOrReceipt,
    KeyReceiptOrPair,
    TaskQueries,
    chosen_tasks,
)
from hourhand.scheduler.tasks.task_state import TaskState
from hourhand.scheduler.wiring import ClientPorts, build_client

__all__ = [
    "BulkRejected",
    "BulkResult",
    "ClientPorts",
    "PairReceipt",
    "Receipt",
    "SchedulerClient",
]


class ScheduleCall(TypedDict, total=False):
    """Arguments of the calls that schedule, by which several tasks become one."""

    unique_for: timedelta
    debounce: timedelta
    replace: bool


SentCommand = LightFuture[Receipt] | LightFuture[PairReceipt]


@public("hourhand")
class SchedulerClient:
    """Appends tasks and commands to the log, and reads; safe to use from any number of threads.

    Opening asks the log once for its number of partitions and raises LogUnavailable or
    TopicMissing where it cannot tell.  The futures it returns fail with a CallerError where
    the request can never be accepted, with LogUnavailable where the log did not acknowledge
    it in time (it may still have it), with NodeStopped after ``close``, and with UsedAfterFork
    in a process that was forked after the client was opened.  Each is a
    ``concurrent.futures.Future`` that can be awaited too, on any event loop of asyncio.  Given a
    ``Hourhand`` registry as ``executors``, its functions schedule through this client.  With
    ``payloads``, or those of the registry, it seals the data of tasks and opens what it reads.

    The calls that read raise InvalidKey or InvalidTask for what cannot be asked, StoreUnavailable
    where the store does not answer, and NodeStopped after ``close``.

    Commands also take a pair of ordering id and uniqueness key instead of a key.  It stands for the
    one open task that has both when its partition's owner comes to the command, in the order of the
    log; a retry also finds the one that failed or was dropped.  The outcome has its key, or is
    ``unknown_pair`` or ``several_tasks``.
    """

    _has_default_executor = False
    """True if tasks without a kind run beside the executors that this client was given."""

    def __init__(
        self,
        settings: Settings,
        ports: ClientPorts | None = None,
        *,
        executors: Executors | None = None,
        payloads: PayloadCodecs | None = None,
    ) -> None:
        require_settings(settings)
        check_executors(executors)
        self._executors_given: Executors = {} if executors is None else executors
        ports = ports or build_client(settings)
        self._settings = settings
        # Built now, before the first task waits for it, and threads would build it at the same
        # time.
        Task.model_rebuild()
        self._writer = ports.writer
        self._open_stores = ports.open_stores
        self._clock = ports.clock
        self._telemetry = ports.telemetry
        self._sleeper = ports.sleeper
        self._limits = settings.client
        self._payloads = payloads_of(executors, payloads)
        self._admission = admission(ports.clock, settings.client, self._payloads)
        self._stores: Stores | None = None
        self._closed = self._forked = False
        # Held for opening and closing only: the path of a task takes no lock of the client's own.
        self._lifecycle = Lock()
        counted = 0 if ports.writer is None else _count_of(ports.writer)
        self._partition_count = ports.partition_count or counted
        counted_as, now_ms = self._partition_count, self._clock.now_ms
        queries = TaskQueries(self._stores_soon, counted_as, self._payloads, now_ms)
        self._reads = TaskReads(queries, self._clock, self._sleeper)
        self._systems = self._make_systems(ports.sender)
        self._async_reads = AsyncReads(queries, self._clock, self._sleeper, self._systems)
        forking.bind(self)
        self._registry = executors if isinstance(executors, Hourhand) else None
        if self._registry is not None:
            self._registry.bind(self)

    def after_fork(self) -> None:
        """Refuse all calls from now on, in a child that has a copy of this client.

        ``close`` does nothing then, and no resource is freed: all belong to the parent.
        """
        self._lifecycle = Lock()
        self._forked = self._forked or not self._closed
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    @property
    def now(self) -> datetime:
        """The client's wall time, in UTC."""
        return from_millis(self._clock.now_ms())

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
        """Append a task; the future resolves when the log holds it durably (P1).

        It fails with TaskInThePast, TaskTooLarge or InvalidTask where nothing was sent.

        ``unique_for`` makes it the only task of its kind, ordering id and uniqueness key for a
        while, whatever their times: of several calls the first one's task is made, and those
        that come less than its ``unique_for`` later make none.  A node decides that.  The receipt
        is of the request then: ``wait_task(receipt)`` returns it with the state ``success`` where
        it made the task and ``dropped`` where another did.

        ``debounce`` waits until no call for its kind, ordering id and uniqueness key came for so
        long, and makes the task of the last one then, due at its time and no earlier than that.
        The receipt is of the call, which may be replaced; ``list_tasks`` finds the task.

        ``replace`` makes it take the place of the one open task with its ordering id and uniqueness
        key, whatever that one's time: that one does not start any more, or not again where it runs.
        With none open it is scheduled.  The owner decides, in the order of the log (P12);
        ``wait_outcome(receipt)`` says ``several_tasks`` where more than one was open, and
        ``already_closed`` where its own key is done: nothing is changed then.

        Only one of the three can be given.

        ``then`` is a task that is scheduled once this one has ended: well, or with ``on="any"`` in
        any way.  It is durable with this one, runs once (P29), no earlier than its own time, and
        finds in ``task.after`` how this one ended.  ``unique_for`` and ``debounce`` take none.
        """
        future = ReceiptFuture(self._clock, self._telemetry)
        try:
            admit = self._admission_with(unique_for, debounce, replace)
            if then is None:
                refuse_lone_end(on)
                key, value = admit(task)
            else:
                if unique_for is not None or debounce is not None:
                    raise InvalidTask(
                        "unique_for and debounce take no then: schedule it in the task"
                    )
                key, value = self._with_then(admit(task), then, on)
            self._append_value(future, key, value)
        except HourhandError as error:
            future.refuse(error)
        return future

    def group(
        self, tasks: Iterable[Task], *, then: Task, on: On = "success"
    ) -> "LightFuture[tuple[Receipt, ...]]":
        """Append tasks, and a follower that is scheduled once all of them have ended.

        With ``on="success"`` each has to end well, with ``"any"`` in any way.  The follower runs
        once (P29), no earlier than its own time, and finds in ``task.after`` how each one ended, in
        the order of ``tasks``.  The future resolves with their receipts once the log holds the
        group and all of them.  After a failure, some may have been scheduled: the same call again
        is the same group.

        It fails with InvalidTask for more than 500 tasks, none, or one that is there twice, and as
        ``schedule_task`` does; nothing was sent then.
        """
        try:
            request, members = grouped(
                self._admitted,
                tasks,
                then,
                on,
                now_ms=self._clock.now_ms(),
                record_bytes_max=self._limits.record_bytes_max,
            )
        except HourhandError as error:
            return refused(error)

        def go_on(_made: Receipt) -> "Future[tuple[Receipt, ...]]":
            return gather([self._append_record(key, value) for key, value in members])

        return and_then(self._append_record(*request), go_on).watch()

    def schedule_tasks(
        self,
        tasks: Iterable[Task],
        on_rejected: OnRejected | None = None,
        *,
        unique_for: timedelta | None = None,
        debounce: timedelta | None = None,
        replace: bool = False,
    ) -> BulkResult:
        """Append any number of tasks, at most ``client.bulk_in_flight_max`` unacknowledged.

        Returns when all are settled.  A task that is refused does not stop the others: it is
        told to ``on_rejected(task, error)`` in this thread, in the order of ``tasks``, and the
        first ones are kept in the result; without ``on_rejected`` their number is logged.  A
        failing log stops the reading of ``tasks``; the result's ``interrupted_by`` then says why.
        ``result.raise_if_rejected()`` turns both into an exception.  An exception of ``tasks``
        itself is raised once what was appended before it is settled, and InvalidTask where the
        storage keeps no tasks, or for one task that is not in a list.

        With ``unique_for``, ``debounce`` or ``replace`` each task is asked for as ``schedule_task``
        does; an accepted one is a request then, and a node decides which tasks are made.
        """
        given = several(tasks, "schedule_tasks")
        told: object = on_rejected
        if not (told is None or callable(told)):
            raise InvalidTask(f"on_rejected is a function of task and error, got {shown(told)}")
        run = BulkRun(
            admit=self._admission_with(unique_for, debounce, replace),
            begin_group=self._task_writer().begin_group,
            in_flight_max=self._limits.bulk_in_flight_max,
            clock=self._clock,
            telemetry=self._telemetry,
            on_rejected=on_rejected,
        )
        return run.run(given)

    @overload
    def cancel_task(self, key: TaskKey, *, running: bool = False) -> "LightFuture[Receipt]": ...
    @overload
    def cancel_task(
        self, key: tuple[str, str], *, running: bool = False
    ) -> "LightFuture[PairReceipt]": ...
    def cancel_task(self, key: KeyOrPair, *, running: bool = False) -> SentCommand:
        """Ask that the key not be started any more; a later schedule record reopens it.

        A running attempt may end, and its outcome counts.  With ``running`` it is asked to end: a
        coroutine is cancelled, and code in a thread sees ``self.cancelled``.  Its outcome no longer
        counts, and it is not retried.  The command's outcome is ``running`` while its code still
        runs, and ``cancelled`` once that has ended.
        """
        return self._send(CommandKind.CANCEL, key, running=running)

    @overload
    def reschedule_task(self, key: TaskKey, to: datetime) -> "LightFuture[Receipt]": ...
    @overload
    def reschedule_task(self, key: tuple[str, str], to: datetime) -> "LightFuture[PairReceipt]": ...
    def reschedule_task(self, key: KeyOrPair, to: datetime) -> SentCommand:
        """Ask that the task be moved to the aware time ``to``, which is part of its new key.

        Fails with InvalidTask where ``to`` has no time zone and with TaskInThePast where it is
        further in the past than the grace window.
        """
        return self._send(CommandKind.RESCHEDULE, key, lambda: self._target_ms(to))

    @overload
    def run_task_now(self, key: TaskKey) -> "LightFuture[Receipt]": ...
    @overload
    def run_task_now(self, key: tuple[str, str]) -> "LightFuture[PairReceipt]": ...
    def run_task_now(self, key: KeyOrPair) -> SentCommand:
        """Ask that the task be moved to the time of this record, so that it runs at once."""
        return self._send(CommandKind.RUN_NOW, key)

    @overload
    def drop_task(self, key: TaskKey) -> "LightFuture[Receipt]": ...
    @overload
    def drop_task(self, key: tuple[str, str]) -> "LightFuture[PairReceipt]": ...
    def drop_task(self, key: KeyOrPair) -> SentCommand:
        """Ask that the key be closed for good without (another) attempt."""
        return self._send(CommandKind.DROP, key)

    @overload
    def retry_task(self, key: TaskKey) -> "LightFuture[Receipt]": ...
    @overload
    def retry_task(self, key: tuple[str, str]) -> "LightFuture[PairReceipt]": ...
    def retry_task(self, key: KeyOrPair) -> SentCommand:
        """Ask that a failed, dropped or blocked key be opened and attempted again, with its data.

        The outcome is ``data_gone`` where the task ended longer ago than
        ``tree.watermark.failed_retention_ms``, and its data is deleted.
        """
        return self._send(CommandKind.RETRY, key)

    def outcome(self, receipt: CommandReceipt) -> RecordedOutcome | None:
        """Return the outcome of the command behind ``receipt``; None while it is undecided.

        Blocks for one read of the store. Raises InvalidKey for a value that is not a receipt,
        StoreUnavailable and NodeStopped.
        """
        return self._reads.outcome(receipt)

    def find_task(self, task: KeyReceiptOrPair) -> TaskInfo:
        """Return a stored task, by its key or by the receipt of scheduling it.

        A pair of ordering id and uniqueness key finds the one open task that has both; it raises
        TaskNotFound if there is none, and SeveralTasks, which names their keys, for more.

        If nothing is stored, its state is ``unknown`` and ``absence`` gives the reason. With a
        receipt, a record that no node has stored yet is distinguished from a deleted one.
        """
        return self._reads.find_task(task)

    def history(self, task: KeyOrReceipt) -> tuple[AttemptInfo, ...]:
        """Return the attempts at a task by their numbers; an empty tuple if none is stored."""
        return self._reads.history(task)

    def list_tasks(
        self,
        *,
        ordering_id: str | None = None,
        kind: str | None = None,
        state: TaskState | Collection[TaskState] | None = None,
        scheduled_from: datetime | None = None,
        scheduled_before: datetime | None = None,
        limit: int | None = None,
        results: bool = False,
    ) -> Iterator[TaskInfo]:
        """Return the stored tasks that match, earliest first; without arguments all of them.

        ``scheduled_from`` <= scheduled time < ``scheduled_before``, both aware.  Reads page by page
        as the iterator is asked, so it may be left at any task.  Open states are found fast; closed
        tasks are found as long as they are kept.  Hourhand's own tasks are left out.  With
        ``results`` the values that tasks ended with are read as well.
        """
        span = scheduled_from, scheduled_before
        chosen = chosen_tasks(ordering_id, kind, state, *span, limit, results=results)
        return self._reads.list_tasks(chosen)

    def wait_task(self, task: KeyOrReceipt, timeout: timedelta | float | None = None) -> TaskInfo:
        """Wait until a task is closed in any way, and return it.

        ``timeout`` is a timedelta or seconds; TimeoutError has the task's state at that time. A
        task that is moved to another time meanwhile is followed there. Its receipt distinguishes it
        from an earlier task of the same key. Raises TaskNotFound if the task can no longer end.
        """
        return self._reads.wait_task(task, timeout)

    def wait_result(self, task: KeyOrReceipt, timeout: timedelta | float | None = None) -> Any:
        """Wait until a task has ended, and return the value of its ``Done``; None without one.

        A value can be read for ``tree.watermark.result_retention_ms`` (a day) after the end, then
        ResultGone is raised.  Raises NoResult for a task that failed for good, was dropped or
        cancelled, and else what ``wait_task`` raises; PayloadSealed for a sealed value where this
        client has not the codecs of the nodes.
        """
        return self._reads.wait_result(task, timeout)

    def outcomes(
        self, after: int = 0, timeout: timedelta | float | None = None
    ) -> Iterator[OutcomeInfo]:
        """Yield the end of each task, in order for each ordering id, and wait for further ones.

        ``after`` is the position of the last outcome that was handled. With ``timeout``, a
        timedelta or seconds, it ends when none has come for this time. An embedded node keeps
        outcomes for ``outcomes.kept_ms``; one may come twice after a crash. Raises InvalidTask with
        a store on servers: read the topic of ``outcomes.topic`` there.
        """
        return self._reads.outcomes(after, timeout)

    def wait_outcome(
        self,
        receipt: CommandReceipt,
        timeout: timedelta | float | None = None,
        *,
        ended: bool = False,
    ) -> RecordedOutcome:
        """Wait until a node has decided on a command, and return the outcome.

        ``timeout`` is a timedelta or seconds; TimeoutError if it is undecided after that. With
        ``ended`` it also waits for the end of what was running, and returns the outcome ``running``
        if that still runs after the timeout.
        """
        return self._reads.wait_outcome(receipt, timeout, ended=ended)

    def send_later(
        self,
        key: bytes | None,
        value: bytes | None,
        topic: str,
        when: datetime | timedelta,
        headers: Headers = (),
    ) -> "LightFuture[Receipt]":
        """Produce a message to a Kafka topic at an aware time, or after a delay.

        The message appears byte for byte, at least once; messages of one key and time in the order
        of the calls. The future resolves when the log holds it durably; the receipt's key can be
        cancelled and rescheduled like a task's. It fails with InvalidTask for a message that Kafka
        could not hold, or for a topic that ``relay.target_topics`` does not allow.
        """
        return self._systems.send_later(key, value, topic, when, headers)

    def schedule_recurring(
        self,
        name: str,
        *,
        cron: str | None = None,
        every: timedelta | None = None,
        time_zone: str | ZoneInfo = "UTC",
        ordering_id: str | None = None,
        kind: str | None = None,
        priority: int | None = None,
        expires_after: timedelta | None = None,
        data: Mapping[str, JsonValue] | None = None,
        overlap: Overlap = "skip",
        catch_up: timedelta = timedelta(hours=1),
        jitter: timedelta = timedelta(0),
        starts: datetime | None = None,
        ends: datetime | None = None,
        except_dates: Iterable[date | str] = (),
        count_max: int | None = None,
    ) -> "LightFuture[Receipt]":
        """Run a task again and again, by a cron expression or an interval.

        Changes nothing if an equal schedule of this name exists, and replaces one that differs.
        ``docs/recurring.md`` explains each argument. The future fails with InvalidTask if the
        schedule is not valid, or if the executors that this client was given do not run ``kind``; a
        client without them takes every kind. If payload codecs seal its data, the call blocks for
        one read of the store, and the future fails with StoreUnavailable.
        """
        rule = partial(
            rule_of,
            name,
            cron=cron,
            every=every,
            time_zone=time_zone,
            ordering_id=ordering_id,
            kind=kind,
            priority=priority,
            expires_after=expires_after,
            data=data,
            overlap=overlap,
            catch_up=catch_up,
            jitter=jitter,
            starts=starts,
            ends=ends,
            except_dates=except_dates,
            count_max=count_max,
        )
        return self._systems.set_recurring(name, rule)

    def pause_recurring(self, name: str) -> "LightFuture[Receipt]":
        """Pause a schedule: it is not due until it is resumed.

        This and the three calls below read the store before they send, and fail with NoSuchSchedule
        if it has no schedule of this name; one that another process has just set may not be there
        yet. Later requests may overtake them before they are sent.
        """
        return self._systems.change_recurring(name, Change.PAUSE)

    def resume_recurring(self, name: str) -> "LightFuture[Receipt]":
        """Let a paused schedule continue from now; missed times are skipped."""
        return self._systems.change_recurring(name, Change.RESUME)

    def trigger_recurring(self, name: str) -> "LightFuture[Receipt]":
        """Run a schedule's task now, besides its own times, paused or not."""
        return self._systems.change_recurring(name, Change.TRIGGER)

    def delete_recurring(self, name: str) -> "LightFuture[Receipt]":
        """End a schedule; a task that was already made still runs."""
        return self._systems.change_recurring(name, Change.DELETE)

    def backfill_recurring(
        self, name: str, starts: datetime, ends: datetime, *, dry_run: bool = False
    ) -> Backfilled:
        """Make the tasks of past times of a schedule, from ``starts`` on and before ``ends``.

        They are those that the schedule makes at these times, key for key: one that is open, or
        whose completion is kept, is not made again. Blocks until the log has them; ``dry_run``
        only looks. Raises InvalidTask for a span that ends in the future or has more than 1,000
        times, NoSuchSchedule, StoreUnavailable and LogUnavailable.
        """
        known, now_ms = self._systems.stored_recurring(name), self._clock.now_ms()
        from_ms, to_ms = (target_ms("backfill", each) for each in (starts, ends))
        tasks = past_occurrences(known, from_ms, to_ms, now_ms)
        stores, count = self._opened_stores(), self._partition_count
        return fill(tasks, stores, count, self._append_own, dry_run=dry_run)

    def find_recurring(self, name: str) -> Recurring | None:
        """Return a stored schedule; None if there is none, or not yet.

        Blocks for one read of the store; raises StoreUnavailable.
        """
        return self._systems.find_recurring(name)

    def list_recurring(self) -> list[Recurring]:
        """Return all schedules, by name; blocks, as ``find_recurring``."""
        return self._systems.list_recurring()

    def declare_recurring(
        self, owner: str, rules: Mapping[str, RecurringRule]
    ) -> "LightFuture[Receipt]":
        """Have the schedules of an owner be these, whatever was declared before.

        Those that it declared before and are not among them are removed. The future fails with
        TaskTooLarge where they have too much data for one record.
        """
        try:
            declaration = self._systems.declaration_of(rules, forced=True)
        except HourhandError as error:
            return refused(error)
        return self._systems.declare_recurring(owner, declaration)

    def declaring(self, sets: Sequence[DeclaredSet]) -> Declaring:
        """Return what declares the recurring schedules of applications, for a node of them."""
        return Declaring(sets, self._systems, self._clock)

    @property
    def aio(self) -> AsyncReads:
        """The calls that read, for coroutines: ``await client.aio.find_task(key)``."""
        return self._async_reads

    def close(self) -> None:
        """Wait for records in flight, for a bounded time, and close connections; repeatable."""
        with self._lifecycle:
            if self._closed:
                return
            self._closed = True
            stores, self._stores = self._stores, None
        if self._registry is not None:
            self._registry.unbind(self)
        self._sleeper.wake()
        self._systems.sender.close()
        if self._writer is not None:
            self._writer.close()
        if stores is not None:
            stores.close()

    def _make_systems(self, sender: MessageSender | None) -> SystemRequests:
        tasks = TaskSender(self._settings, self._append_own, self._opened_definitions)
        return SystemRequests(
            settings=self._settings,
            payloads=self._payloads,
            clock=self._clock,
            sender=sender or tasks,
            append=self._append_own,
            definitions=self._opened_definitions,
            refuse_when_closed=self._refuse_when_closed,
            refuse_kind=self._refuse_kind,
        )

    def _opened_stores(self) -> Stores:
        with self._lifecycle:
            self._refuse_when_closed()
            if self._stores is None:
                self._stores = self._open_stores()
            return self._stores

    def _stores_soon(self) -> "LightFuture[Stores]":
        """Return the stores; the caller does not block while they are opened."""
        future = LightFuture[Stores]()
        future.note_process()

        work = (future, self._opened_stores)
        if self._closed or self._stores is not None:
            resolve(*work)
        else:
            Thread(target=resolve, args=work, name="hourhand-stores", daemon=True).start()
        return future

    def _refuse_when_closed(self) -> None:
        if self._forked:
            raise forking.refusal("this client")
        if self._closed:
            raise NodeStopped("this client is closed; open another one to go on")

    def _refuse_kind(self, what: str, kind: str | None) -> None:
        complaint = kind_complaint(
            kind, self._executors_given, has_default=self._has_default_executor
        )
        if complaint:
            raise InvalidTask(f"{what} would never run: {complaint}")

    def _admitted(self, task: Task) -> tuple[TaskKey, bytes]:
        """Check a task; raises CallerError before anything is sent."""
        if self._closed:
            self._refuse_when_closed()
        return self._admission.admit(task)

    def _prepared(self, task: Task) -> Task:
        """Check a requested task, and seal its data; raises CallerError."""
        self._refuse_when_closed()
        return self._admission.prepared(task)

    def _admission_with(
        self, unique_for: timedelta | None, debounce: timedelta | None, replace: object
    ) -> Callable[[Task], tuple[TaskKey, bytes]]:
        """Return a function that checks a task and makes its record, or that of its request."""
        if unique_for is None and debounce is None and replace is False:
            return self._admitted
        if replace is not False:
            return self._replacing(unique_for, debounce, replace)
        if unique_for is not None and debounce is not None:
            raise InvalidTask(
                "the first call wins with unique_for, the last one with debounce: give one of them"
            )

        def admit(task: Task) -> tuple[TaskKey, bytes]:
            task = self._prepared(task)
            now_ms = self._clock.now_ms()
            unique = unique_in_order(now_ms)
            if debounce is None:
                assert unique_for is not None, "one of them was given"
                return self._encoded_own(unique_request(task, unique_for, now_ms, unique))
            return self._encoded_own(debounced_call(task, debounce, now_ms, unique))

        return admit

    def _replacing(
        self, unique_for: timedelta | None, debounce: timedelta | None, replace: object
    ) -> Callable[[Task], tuple[TaskKey, bytes]]:
        """Return a function that checks a task and makes the record that has it replace another."""
        if replace is not True:
            raise InvalidTask(f"replace is True or False, got {shown(replace)}")
        if unique_for is not None or debounce is not None:
            raise InvalidTask(
                "replace moves the open task at once, unique_for and debounce make one task of"
                " several calls: give one of them"
            )

        def admit(task: Task) -> tuple[TaskKey, bytes]:
            key, record = self._admitted(task)
            value = replacing(record)
            refuse_large(value, self._limits.record_bytes_max)
            return key, value

        return admit

    def _with_then(
        self, admitted: tuple[TaskKey, bytes], then: Task, on: object
    ) -> tuple[TaskKey, bytes]:
        """Return the record of an admitted task with its follower; raises as the client does."""
        key, value = admitted
        following, record = self._admitted(then)
        value = followed(key, value, following, record, on)
        refuse_large(value, self._limits.record_bytes_max)
        return key, value

    def _append_record(self, key: TaskKey, value: bytes) -> ReceiptFuture:
        future = ReceiptFuture(self._clock, self._telemetry)
        try:
            self._refuse_when_closed()
            self._append_value(future, key, value)
        except HourhandError as error:
            future.refuse(error)
        return future

    def _append_value(self, future: ReceiptFuture, key: TaskKey, value: bytes) -> None:
        writer = self._task_writer()
        partition = partition_of(key.ordering_id, self._partition_count)
        future.key = key
        writer.append_for(future, partition, key.ordering_id.encode(), value)

    def _task_writer(self) -> LogWriter:
        if self._writer is None:
            raise InvalidTask(
                "store 'kafka' keeps messages of send_later and the relay only: it has no index, so"
                " tasks, commands (cancel, reschedule, run-now) and schedules need store"
                " 'cassandra' or 'embedded'"
            )
        return self._writer

    def _append_own(self, task: Task) -> "LightFuture[Receipt]":
        try:
            self._refuse_when_closed()
            key, value = self._encoded_own(task)
        except HourhandError as error:
            return refused(error)
        return self._append_record(key, value)

    def _encoded_own(self, task: Task) -> tuple[TaskKey, bytes]:
        """Return the key and record of a system task; raises TaskTooLarge."""
        value = encode_task(task)
        refuse_large(value, self._limits.record_bytes_max)
        return task.key, value

    def _opened_definitions(self) -> DefinitionBook:
        store = self._opened_stores().definitions
        return DefinitionBook(store, self._partition_count, self._clock)

    def _refuse_the_past(self, what: str, time_ms: int) -> None:
        refuse_the_past(what, time_ms, self._clock.now_ms(), self._limits.grace_ms)

    def _send(
        self,
        kind: CommandKind,
        key: KeyOrPair,
        to_ms: Callable[[], int] | None = None,
        *,
        running: bool = False,
    ) -> SentCommand:
        """Send a command for a key, or for the one open task of a pair, which its owner finds."""
        if isinstance(key, TaskKey):
            return self._append_command(kind, key, to_ms, running=running)
        try:
            pair = checked_pair(key)
        except HourhandError as error:
            return refused(error)
        named = TaskKey(0, *pair)
        sent = self._append_command(kind, named, to_ms, by_pair=True, running=running)
        return then(sent, lambda at: PairReceipt(pair, at.partition, at.offset)).watch()

    def _append_command(
        self,
        kind: CommandKind,
        key: TaskKey,
        to_ms: Callable[[], int] | None,
        *,
        by_pair: bool = False,
        running: bool = False,
    ) -> "LightFuture[Receipt]":
        future = ReceiptFuture(self._clock, self._telemetry)
        try:
            self._refuse_when_closed()
            asked_to_end: object = running
            if not isinstance(asked_to_end, bool):
                raise InvalidTask(f"running is True or False, got {shown(asked_to_end)}")
            moved_ms = None if to_ms is None else to_ms()
            command = Command(
                kind, checked_key(key), to_ms=moved_ms, by_pair=by_pair, running=running
            )
            value = encoded(encode_command, command)
            refuse_large(value, self._limits.record_bytes_max)
            self._append_value(future, key, value)
        except HourhandError as error:
            future.refuse(error)
        return future

    def _target_ms(self, to: datetime) -> int:
        to_ms = target_ms("reschedule", to)
        self._refuse_the_past("the rescheduled task", to_ms)
        return to_ms


def _count_of(writer: LogWriter) -> int:
    """Return the number of partitions; if the log fails, close the writer."""
    try:
        return writer.partition_count()
    except BaseException:
        writer.close()
        raise
