"""The test kit: a whole scheduler under a virtual clock, without a server, thread or sleep.

It runs the real client, node and tree; only log, store, clock and the running of user code are
replaced by ones that stand still until ``advance``, ``run_due`` or ``drain`` moves them::

    scheduler = VirtualScheduler(SendInvoice)
    scheduler.schedule_task(task)
    scheduler.advance(minutes=5)
    scheduler.assert_executed(ordering_id="customer-7")
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any, Self

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.attempts import Attempt
from hourhand.actors.model.execution.interruption import ask_to_end, forget_asked, note_attempt
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.flow.flow import Limit
from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.events import (
    BatchPersisted,
    CommandDecided,
    Event,
    TaskClosed,
)
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.task.checkpoint_value import checkpoint_text, checkpoint_value
from hourhand.actors.model.task.codec import encode_data
from hourhand.actors.model.task.key import TaskKey, first_key_at
from hourhand.actors.model.task.links import On
from hourhand.actors.model.task.status import AttemptResult, CompletionResult
from hourhand.actors.model.task.task import StoredTask, Task, following
from hourhand.actors.model.task.task_end import TaskEnd
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidTask
from hourhand.actors.model.values.instant import (
    INSTANT_MAX_MS,
    INSTANT_MIN_MS,
    from_millis,
    to_millis,
)
from hourhand.actors.model.values.public import public
from hourhand.actors.model.values.settings import TreeSettings
from hourhand.actors.model.values.suggestion import did_you_mean
from hourhand.actors.ports.effects import Effects
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.memory.broker import MemoryBroker
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.adapters.memory.writer import MemoryMessages, MemoryWriter
from hourhand.scheduler.adapters.telemetry import LoggingTelemetry
from hourhand.scheduler.client.client import ClientPorts, Receipt, SchedulerClient
from hourhand.scheduler.client.declaring import sets_of
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.executors.middleware import Middleware
from hourhand.scheduler.executors.user_executors import Executors, UserExecutors, payloads_of
from hourhand.scheduler.node.calls import Calls
from hourhand.scheduler.node.silence import SilenceLimits
from hourhand.scheduler.node.system_executor import SystemExecutor
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.runtime.light_future import LightFuture
from hourhand.scheduler.runtime.sleeping import Sleeper
from hourhand.scheduler.services.outcomes.outcome_feed import OutcomeFeed
from hourhand.scheduler.services.outcomes.outcome_sinks import KeptSink
from hourhand.scheduler.services.system_registry import SystemTaskRegistry
from hourhand.scheduler.tasks.admission import checked_task
from hourhand.scheduler.tasks.outcome_stream import OutcomeInfo
from hourhand.scheduler.testing.given import Runnable, executor_of, stretch_ms
from hourhand.scheduler.testing.recording import (
    LISTED_MAX,
    Execution,
    Executions,
    LastAttempts,
    RecordingClient,
    RecordingTelemetry,
    RefusedTask,
    explained,
)
from hourhand.scheduler.testing.scripted import NextAttempts, Scripts
from hourhand.scheduler.testing.virtual import (
    ROUNDS_MAX,
    VIRTUAL_GROUP,
    RecordingCaller,
    UserParts,
    VirtualNode,
    VirtualPorts,
    VirtualRunner,
    awaited,
    virtual_kinds,
    virtual_tree,
)
from hourhand.scheduler.testing.virtual_processes import VirtualProcesses

__all__ = [
    "Execution",
    "NextAttempts",
    "RecordingTelemetry",
    "RefusedTask",
    "VirtualScheduler",
    "execute_task",
]


class _VirtualSleeper(Sleeper):
    """A wait for a task lets virtual time pass."""

    def __init__(self, advance: Callable[[timedelta], object]) -> None:
        super().__init__()
        self._advance = advance

    def sleep(self, pause_s: float) -> None:
        self._advance(timedelta(seconds=pause_s))

    async def sleep_async(self, pause_s: float) -> None:
        self.sleep(pause_s)


_OUTCOMES_KEPT_MS = 366 * 86_400_000


@public("hourhand.testing")
class VirtualScheduler:
    """A scheduler for tests: one node, a client, and a clock that the test moves.

    ``executor``, ``executors``, ``middleware`` and ``payloads`` as for ``Scheduler``; ``now`` is
    the clock's first time, aware. ``tree`` applies, except how far and how often a node looks ahead
    and how much it keeps in memory. ``executions``, ``refusals`` and ``events`` hold the records;
    failed attempts are logged as a node logs them. Works in a test that is a coroutine as well: an
    ``async def execute`` then runs on an event loop of its own, in another thread, and the call
    waits for it.
    """

    def __init__(
        self,
        executor: Callable[[], TaskExecutor] | None = None,
        *,
        executors: Executors | None = None,
        middleware: Sequence[Middleware] = (),
        payloads: PayloadCodecs | None = None,
        tree: TreeSettings | None = None,
        partitions: int = 4,
        now: datetime = datetime(2026, 1, 1, tzinfo=UTC),
    ) -> None:
        self.clock = VirtualClock(to_millis(now))
        self.settings = Settings(tree=virtual_tree(tree), group=VIRTUAL_GROUP)
        self._log = LoggingTelemetry(self.clock)
        self.telemetry = RecordingTelemetry(self._log)
        self._executions = Executions(self.telemetry.events)
        self.broker = MemoryBroker(partitions, self.clock)
        stores = open_memory_stores(MemoryStores(self.clock))
        self._outcomes = self._make_feed(stores)
        self.stores = self._outcomes.publishing(stores)
        self.messages = MemoryMessages(self.clock)
        """Messages that were sent to topics of others."""
        self.callbacks = RecordingCaller(self.clock)
        """Callbacks of timers."""
        self._counted_events = 0
        self._open: int | None = None
        self._executors = UserExecutors.of(executor, executors, middleware, payloads)
        self._declares = sets_of(executors)
        self._scripts = Scripts()
        self._partitions = partitions
        self._client = RecordingClient(
            self.settings,
            self._client_ports(),
            executors=executors,
            payloads=payloads,
            has_default_executor=executor is not None,
        )
        self._node: VirtualNode | None = self._make_node()
        self._begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    # The calls of a client.

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
        """Accept a task; the future is resolved already."""
        return self._client.schedule_task(
            task, unique_for=unique_for, debounce=debounce, replace=replace, then=then, on=on
        )

    @property
    def client(self) -> SchedulerClient:
        """The real client, on this virtual installation."""
        return self._client

    # The acts of an operator.

    def set_limit(
        self,
        limit: str,
        *,
        rate: float | None = None,
        per: timedelta | None = None,
        burst: int | None = None,
        concurrency: int | None = None,
        rates: Mapping[str, float] | None = None,
        reason: str = "",
    ) -> None:
        """Change a limit by its name until it is reset, as ``hourhand limits set`` does.

        ``rates`` are those of single values of the limit's key. Numbers that are not given stay
        unchanged. The node applies it at once; the change outlives
        ``restart`` and ``crash``. InvalidTask for a change that the command refuses.
        """
        per_ms = None if per is None else round(per / timedelta(milliseconds=1))
        wanted = LimitChange.of_numbers(limit, rate, per_ms, burst, concurrency, rates)
        config = self._config()
        signed = wanted.signed(self.clock.now_ms(), "test", reason)
        change = signed.on_top_of(config.change_of(limit))
        # Refused here if it does not fit.
        change.of(self._declared_limit(limit))
        self._replace_config(config.with_limit(change))

    def reset_limit(self, *limits: str) -> None:
        """Reset limits to their declaration, as ``hourhand limits reset`` does.

        InvalidTask for a name that is not declared.
        """
        for each in limits:
            self._declared_limit(each)
        self._replace_config(self._config().without_limits(limits))

    def _declared_limit(self, name: str) -> Limit:
        assert self._node is not None, "this scheduler was stopped"
        declared = self._node.runner.declared_limits
        if name not in declared:
            listed = ", ".join(sorted(declared)[:LISTED_MAX]) or "none"
            raise InvalidTask(f"no kind declares a limit {shown(name)}; declared are: {listed}")
        return declared[name]

    def _config(self) -> OperatorConfig:
        return self.stores.oversight.read_config(OperatorConfig()).result()

    def _replace_config(self, config: OperatorConfig) -> None:
        """Keep an operator config, and tell the node without waiting for its next look."""
        assert self._node is not None, "this scheduler was stopped"
        replaced = self.stores.oversight.replace_config(config).result()
        assert replaced, "nobody else changes it"
        self._node.lease.apply(config)

    # The calls that move time.

    @property
    def now(self) -> datetime:
        """The virtual wall time, in UTC."""
        return from_millis(self.clock.now_ms())

    def advance(self, delta: timedelta | None = None, **units: float) -> list[Execution]:
        """Let time pass (``timedelta`` or its keywords), and return the attempts of that time."""
        delta_ms = stretch_ms(delta, units, self.clock.now_ms())
        begun = len(self.executions)
        self._pass(delta_ms, lambda: False)
        return self.executions[begun:]

    def run_due(self) -> list[Execution]:
        """Run everything that is due now, without letting time pass."""
        return self.advance(timedelta(0))

    def drain(self, within: timedelta = timedelta(days=366)) -> list[Execution]:
        """Let time pass until nothing is open; AssertionError if ``within`` is not enough."""
        begun = len(self.executions)
        left_ms = INSTANT_MAX_MS - self.clock.now_ms()
        within_ms = within / timedelta(milliseconds=1)
        self._pass(min(within_ms, left_ms), lambda: not self._open_count())
        if self._open_count():
            left = [task.key for task in self.all_scheduled()]
            listed = ", ".join(str(key) for key in left[:LISTED_MAX])
            claim = f"still open after {within}: {listed} …"
            failed = LastAttempts(each for each in self.executions[begun:] if each.key in left)
            raise AssertionError(explained(claim, ("attempts of these", failed)))
        return self.executions[begun:]

    def _pass(self, delta_ms: float, is_over: Callable[[], bool]) -> None:
        """Let time pass, from one moment with an event to the next.

        Between two of them it passes in steps that double, at whose ends a node cleans up, so that
        even a second clean-up, such as a retention after the first, is done after a long rest.
        """
        end_ms = self.clock.monotonic_ms() + delta_ms
        step_ms: float = HOUR_MS
        self._work()
        while (now_ms := self.clock.monotonic_ms()) < end_ms and not is_over():
            next_ms = self._next_moment_ms()
            if next_ms is None or next_ms > now_ms + step_ms:
                self.clock.advance(min(step_ms, end_ms - now_ms))
                step_ms *= 2
            else:
                self.clock.advance(min(max(now_ms, next_ms), end_ms) - now_ms)
                step_ms = HOUR_MS
            self._work()

    def _open_count(self) -> int:
        """Count open tasks; again only if something was stored or closed since."""
        self._work()
        changes = sum(
            isinstance(event, BatchPersisted | TaskClosed | CommandDecided)
            for event in self.events[self._counted_events :]
        )
        self._counted_events = len(self.events)
        if changes or self._open is None:
            self._open = len(self.all_scheduled())
        return self._open

    # The records of what happened.

    @property
    def events(self) -> Sequence[Event]:
        """Every event of the node, in order."""
        return self.telemetry.events

    @property
    def executions(self) -> list[Execution]:
        """Every attempt that ran, in order of its end."""
        return self._executions.so_far()

    @property
    def refusals(self) -> Sequence[RefusedTask]:
        """Every task that the client refused, with the reason, in order."""
        return self._client.refusals

    def outcomes(self, after: int = 0) -> list[OutcomeInfo]:
        """Return the ends of tasks, as ``client.outcomes`` yields them, behind a position."""
        return list(self._client.outcomes(after, timeout=0))

    def result_of(self, key: TaskKey) -> CompletionResult | None:
        """Return how a key was closed; None while it is open or unknown."""
        for partition in range(self._partitions):
            found = self.stores.status.find_completions(partition, (key,)).result()
            if key in found:
                return found[key].result
        return None

    def all_scheduled(self, **match: object) -> list[Task]:
        """Return the open tasks, in key order, that match by the names of ``assert_executed``."""
        self._check_names(match)
        self._work()
        tasks = []
        for partition in range(self._partitions):
            page = self.stores.schedule.load_tasks(
                partition, first_key_at(INSTANT_MIN_MS), INSTANT_MAX_MS + 1, ROUNDS_MAX
            ).result()
            keys = [row.key for row in page.tasks]
            closed = self.stores.status.find_completions(partition, keys).result()
            tasks += [
                self._opened(row.to_task())
                for row in page.tasks
                if row.key not in closed or not closed[row.key].closes(row.offset)
            ]
        tasks.sort(key=lambda task: task.key)
        return [task for task in tasks if _matches(task, match)]

    def _opened(self, task: Task) -> Task:
        """Return a task with plain data; in its stored form if it cannot be opened."""
        payloads = self._executors.payloads
        try:
            return task if payloads is None else payloads.opened(task)
        except Exception:  # noqa: BLE001 - a codec is user code, and the task is open all the same
            return task

    def assert_scheduled(self, **match: object) -> Task:
        """Return the only open task that matches; AssertionError unless it is exactly one."""
        self.run_due()
        found = self.all_scheduled(**match)
        if len(found) != 1:
            open_keys = ", ".join(str(task.key) for task in self.all_scheduled()[:10]) or "none"
            claim = f"{len(found)} open tasks match {match}; open are {open_keys}"
            refused = ("tasks that were refused", self.refusals)
            raise AssertionError(explained(claim, refused))
        return found[0]

    def refute_scheduled(self, **match: object) -> None:
        """AssertionError if an open task matches."""
        self.run_due()
        found = self.all_scheduled(**match)
        if found:
            raise AssertionError(f"open although it should not be: {found[0].key}")

    def assert_chain(self, tasks: Sequence[Task]) -> None:
        """Claim that these tasks succeeded in this order, each before the next one began."""
        keys = [task.key for task in tasks]
        ran = [each for each in self.executions if each.key in keys]
        done = [each.key for each in ran if each.result is AttemptResult.SUCCESS]
        if done != keys or [each.key for each in ran] != sorted(
            (each.key for each in ran), key=keys.index
        ):
            lines = LastAttempts(ran).told("attempts at them") or ["none of them ran"]
            told = "\n".join([f"{len(done)} of {len(keys)} steps succeeded in order", *lines])
            raise AssertionError(told)

    def assert_executed(self, times: int = 1, **match: object) -> list[Execution]:
        """Return the successful attempts that match; exactly ``times``.

        ``match`` compares ``key`` or its parts, ``kind``, ``priority`` and ``data``: a dictionary
        of members to compare. Any other name, and an unknown kind, is an InvalidTask, which lists
        the known ones.
        """
        self._check_names(match)
        matching = [each for each in self.executions if self._ran(each, match)]
        found = [each for each in matching if each.result is AttemptResult.SUCCESS]
        if len(found) != times:
            waiting = (task.key for task in self.all_scheduled() if _matches(task, match))
            raise AssertionError(
                explained(
                    f"{len(found)} executions match {match}, expected {times}",
                    ("attempts that match", LastAttempts(matching)),
                    (f"open tasks that match, at {self.now.isoformat()}", waiting),
                    ("tasks that were refused", self.refusals),
                )
            )
        return found

    def _ran(self, execution: Execution, match: dict[str, object]) -> bool:
        task = execution.task
        assert task is not None, "each attempt is noted when it begins"
        return _matches(self._opened(task) if "data" in match else task, match)

    def _check_names(self, match: dict[str, object]) -> None:
        """Raise InvalidTask for an unknown name, and for an unknown kind."""
        for name in match:
            if name not in MATCHED_NAMES:
                known = ", ".join(MATCHED_NAMES)
                hint = did_you_mean(name, MATCHED_NAMES)
                raise InvalidTask(f"tasks do not have the name {name!r}; known are {known}{hint}")
        kind = match.get("kind")
        kinds = self._executors.kinds
        if kind is None or not kinds or kind in kinds:
            return
        seen = {each.kind for each in self.executions} | {
            each.kind for each in self.all_scheduled()
        }
        if kind not in seen:
            known = ", ".join(sorted(kinds)[:LISTED_MAX])
            raise InvalidTask(
                f"nothing here has the kind {shown(kind)}; known are {known}"
                f"{did_you_mean(kind, kinds)}"
            )

    # The calls that make a process or a node fail.

    def next_attempt(self, **match: object) -> NextAttempts:
        """Choose the next attempt of a task, by the names of ``assert_executed``, to have it hang,
        or have its process die::

            scheduler.next_attempt(kind="resize").dies_with("SIGSEGV")
            scheduler.next_attempt(uniqueness_key="photo-7").hangs()

        InvalidTask for an unknown name, and for a death where nothing that matches runs in a
        process.
        """
        self._check_names(match)

        def matches(task: StoredTask) -> bool:
            found = task.to_task()
            return _matches(self._opened(found) if "data" in match else found, match)

        bytes_max = self.settings.tree.execution.memory_bytes_per_process_max
        require_process = partial(self._require_process, match)
        return NextAttempts(partial(self._scripts.add, matches), require_process, bytes_max)

    def _require_process(self, match: Mapping[str, object]) -> None:
        in_processes = self._on_node().in_processes
        kind = match.get("kind")
        if in_processes and ("kind" not in match or kind in in_processes):
            return
        named = "tasks without a kind run" if kind is None else f"the kind {shown(kind)} runs"
        raise InvalidTask(
            f"{named if 'kind' in match else 'all tasks run'} in threads, where a death is that of"
            ' the node, as crash() has it: give the executor run_in="process", or tree= with'
            " execution.run_in"
        )

    def restart(
        self,
        executor: Callable[[], TaskExecutor] | None = None,
        *,
        executors: Executors | None = None,
        payloads: PayloadCodecs | None = None,
    ) -> None:
        """Stop gracefully and start again on the same log and store.

        With executors the node starts with these, as after a deployment, and with ``payloads`` or
        its previous ones.
        """
        self.stop()
        if executor is not None or executors is not None:
            codecs = payloads_of(executors, payloads) or self._executors.payloads
            self._executors = UserExecutors.of(executor, executors, payloads=codecs)
            self._declares = sets_of(executors)
        self._node = self._make_node()
        self._begin()

    def down_for(self, delta: timedelta | None = None, **units: float) -> None:
        """Stop gracefully, let time pass (``timedelta`` or its keywords) without a node, start
        again.

        Tasks that were due meanwhile have run when it returns, as catch-up and expiry allow. The
        client is not stopped: tasks scheduled between ``stop`` and ``restart`` wait in the log.
        """
        delta_ms = stretch_ms(delta, units, self.clock.now_ms())
        self.stop()
        self.clock.advance(delta_ms)
        self.restart()

    def crash(self) -> None:
        """Lose the process: nothing is drained or flushed; a new one takes over at once."""
        assert self._node is not None, "this scheduler was stopped"
        self._node.log.vanish()
        self._node = self._make_node()
        self._begin()

    def _begin(self) -> None:
        """Do what a node does at its start: declare recurring schedules, and run what is due."""
        self._client.declaring(self._declares).declare()
        self.run_due()

    def stop(self) -> None:
        """Drain and leave the group; open tasks stay stored.

        No time passes, unless an attempt hangs in a process: then that until its process is killed
        at the drain deadline.
        """
        if self._node is None:
            return
        drained = self._node.node.request_stop()
        while not drained.done() and (self._node.work() or self._pass_hang(self._node)):
            pass
        self._node.node.close()
        self._node = None
        self._log.close()

    def _pass_hang(self, node: VirtualNode) -> bool:
        """Let time pass to what ends an attempt that hangs; return False if none does."""
        next_ms = node.next_deadline_ms()
        if not node.virtual.workers.hangs or next_ms is None:
            return False
        self.clock.advance(max(0.0, next_ms - self.clock.monotonic_ms()))
        return True

    def _client_ports(self) -> ClientPorts:
        return ClientPorts(
            writer=MemoryWriter(self.broker),
            open_stores=lambda: self.stores,
            clock=self.clock,
            telemetry=self.telemetry,
            sleeper=_VirtualSleeper(self.advance),
        )

    def _on_node(self) -> UserExecutors:
        """Return the executors as a node has them, which makes none that runs in a process."""
        users = self._executors.with_processes(self.settings.tree.execution.run_in)
        return replace(users, batches={}, members={})

    def _make_node(self) -> VirtualNode:
        users = self._on_node()

        def effects_of(virtual: VirtualRunner) -> Effects:
            virtual.runner.calls.require_codecs = self._executors.require_codecs
            virtual.workers.note_start = self._executions.note_start
            system_tasks = self._system_tasks()
            virtual.runner.made_ahead.judge = system_tasks.late_occurrences.judge
            return Effects(
                settings=self.settings.tree,
                partition_count=self._partitions,
                stores=self.stores,
                writer=MemoryWriter(self.broker),
                runner=virtual.runner,
                telemetry=self.telemetry,
                make_executor=system_tasks.factory_with(users.make),
                flow_rules=self._executors.flow_rules,
                concurrency_per_id=self._executors.concurrency_per_id,
                run_tasks_max=self._executors.run_tasks_max,
                expires_after_ms=self._executors.expires_after_ms,
                one_attempt_kinds=users.one_attempt_kinds,
                tells_outcomes=True,
            )

        made = VirtualNode(
            self.broker,
            effects_of,
            settings=self.settings,
            clock=self.clock,
            telemetry=self.telemetry,
            users=UserParts(
                users.flow_rules,
                users.limits,
                partial(self._make_processes, users) if users.in_processes else None,
                SilenceLimits(users.stuck_after_ms, self.settings.tree.execution.stuck_after_ms),
                self._scripts,
            ),
        )
        made.node.tell_outcomes = self._outcomes.step
        return made

    def _make_feed(self, stores: Stores) -> OutcomeFeed:
        assert stores.kept_outcomes is not None, "memory keeps outcomes"
        sink = KeptSink(stores.kept_outcomes, self.clock, _OUTCOMES_KEPT_MS)
        return OutcomeFeed(stores, sink, self.clock, self.telemetry, "/hourhand/virtual")

    def _make_processes(self, users: UserExecutors, calls: Calls, rng: Random) -> VirtualProcesses:
        tree, note_start = self.settings.tree, self._executions.note_start
        return VirtualProcesses(calls, tree, users, self._scripts, note_start=note_start, rng=rng)

    def _system_tasks(self) -> SystemTaskRegistry:
        ports = VirtualPorts(self.broker, self.stores, self.telemetry)
        return virtual_kinds(self.settings, ports, self.messages, self.callbacks)

    def _work(self) -> None:
        while self._node is not None and self._node.work():
            pass

    def _next_moment_ms(self) -> float | None:
        return None if self._node is None else self._node.next_deadline_ms()


class _KitCheckpoints:
    """Implements ``AttemptCheckpoints`` for one call."""

    def __init__(self, found: object, made: list[Any], snoozed: int) -> None:
        self.snoozed = snoozed
        self.found = None if found is None else checkpoint_text(found)
        self._made = made

    def make(self, text: bytes) -> None:
        self._made.append(checkpoint_value(text))


@public("hourhand.testing")
def execute_task(
    executor: Runnable,
    task: Task,
    *,
    attempt: int = 1,
    fence: int = 1,
    checkpointed: object = None,
    checkpoints: list[Any] | None = None,
    cancelled: bool = False,
    snoozed: int = 0,
    after: Sequence[TaskEnd] = (),
) -> object:
    """Run one task through an executor as a node would, its data through JSON and back.

    The executor may also be given as its class, or as a function of ``@app.task``. It finds
    ``checkpointed``, and what it makes is appended to ``checkpoints``. With ``cancelled`` a command
    has asked it to end; ``snoozed`` is how often the attempt was put off before; the task has
    ``after``.

    Returns the result of ``execute``, awaited if it is ``async``; exceptions are not caught. Works
    inside a running event loop as well, as ``VirtualScheduler`` does.
    """
    ran = executor_of(executor)
    ran.attempt, ran.fence = attempt, fence
    made = [] if checkpoints is None else checkpoints
    ran.hourhand_checkpoints = _KitCheckpoints(checkpointed, made, snoozed)
    # Hourhand's own tasks have ordering ids that no caller may give.
    key = task.key if isinstance(ran, SystemExecutor) else checked_task(task)
    stored = StoredTask(key, encode_data(task), 0)

    def call() -> object:
        told = stored.to_task()
        outcome: object = ran.execute(following(told, after) if after else told)
        return awaited(outcome) if inspect.isawaitable(outcome) else outcome

    # The call has a copy, so that nothing it sets is in the test's own context.
    context = copy_context()
    if not cancelled:
        return context.run(call)
    asked = Attempt(stored, 0, fence, attempt)
    context.run(note_attempt, asked)
    ask_to_end(asked)
    try:
        return context.run(call)
    finally:
        forget_asked(asked)


MATCHED_NAMES = (*TaskKey._fields, "scheduled_time", "key", "kind", "priority", "data")
"""Values that the claims of the kit compare."""


def _matches(task: Task, match: dict[str, object]) -> bool:
    """Compare fields; a dictionary for ``data`` compares only its own members."""
    for name, expected in match.items():
        actual = getattr(task.key if name in TaskKey._fields else task, name)
        if name == "data" and isinstance(expected, dict):
            if any(actual.get(field) != wanted for field, wanted in expected.items()):
                return False
        elif actual != expected:
            return False
    return True
