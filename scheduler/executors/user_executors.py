"""The user's executors on one node: chooses the one for a task, by its kind.

Decides which kinds a node can run, and refuses invalid executors before anything is opened; and how
many tasks of a kind run at once. The tree holds tasks that it cannot run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from inspect import getattr_static

from hourhand.actors.model.execution.batch_executor import BatchExecutor
from hourhand.actors.model.execution.executor_attributes import (
    EXPIRES_AFTER_NEEDED,
    declared_expires_after_of,
    declared_policy_of,
    declared_run_in_of,
    declared_stuck_after_of,
    declared_timeout_of,
    is_expires_after,
    whole_ms,
)
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.actors.model.flow.flow import FairShare, FlowRule, FlowRules, Limit
from hourhand.actors.model.task.kind import checked_kind
from hourhand.actors.model.task.sealed import refuse_sealed
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidExecutor, UnknownKind
from hourhand.actors.model.values.public import public
from hourhand.actors.model.values.suggestion import did_you_mean
from hourhand.scheduler.executors.batches import KindBatches, declared_limits_of, run_tasks_max_of
from hourhand.scheduler.executors.executor_path import (
    ExecutorFactory,
    class_of,
    made_by,
    tried_factory,
)
from hourhand.scheduler.executors.guests import GuestKind
from hourhand.scheduler.executors.middleware import (
    Middleware,
    MiddlewareStack,
    OpeningBatches,
    opening,
)
from hourhand.scheduler.payloads.codecs import PayloadCodecs
from hourhand.scheduler.ports.batches import Batches, BatchMember
from hourhand.scheduler.ports.processes import ProcessBatches, ProcessMember
from hourhand.scheduler.runtime.user_code import is_coroutine_method

_MILLISECOND = timedelta(milliseconds=1)
_NAMED_MAX = 20
"""Kinds that an error message lists."""


@public("hourhand")
@dataclass(frozen=True, slots=True)
class TaskKind:
    """The options of one kind of task: its executor, concurrency, limits and order.

    Without ``limits``, ``priority`` and ``fair`` those of the executor's class are used. Raises
    InvalidExecutor for invalid values.
    """

    executor: Callable[[], TaskExecutor]
    """A TaskExecutor class, or a function without arguments that returns one."""
    concurrency: int | None = None
    """Most attempts of this kind that run at once on one node; None for the number of workers."""
    limits: Limit | Sequence[Limit] | None = None
    """Most attempts that start in a time, and that run at once, in the whole cluster."""
    priority: int | None = None
    """Among due tasks those with the highest priority start first."""
    fair: FairShare | None = None
    """The sharing of starts between tenants while more tasks are due than can run."""
    concurrency_per_id: int | None = 1
    """Most tasks of this kind that one ordering id runs at once: 1 keeps their order; a larger
    number, or None for any number, gives it up."""
    expires_after: timedelta | None = None
    """Time from a task's scheduled time from which on none starts; None for that of the class."""

    def __post_init__(self) -> None:
        limits: dict[str, object] = {
            "concurrency": self.concurrency,
            "concurrency_per_id": self.concurrency_per_id,
        }
        for name, limit in limits.items():
            if limit is not None and (type(limit) is not int or limit < 1):
                raise InvalidExecutor(
                    f"{name} is {shown(limit)}, a number of 1 or more or None is needed"
                )
        if not is_expires_after(self.expires_after):
            raise InvalidExecutor(
                f"expires_after is {shown(self.expires_after)}, {EXPIRES_AFTER_NEEDED}"
            )
        # Checked at the declaration, not when a node starts.
        self.flow_rule()
        if self.concurrency_per_id != 1 and run_tasks_max_of(made_by(self.executor)) > 1:
            raise InvalidExecutor(
                f"concurrency_per_id is {shown(self.concurrency_per_id)}, and runs_of_one_id keeps"
                " an order that it gives up: use one of them"
            )

    def flow_rule(self) -> FlowRule:
        """Return the kind's limits, priority and fair share."""
        return FlowRule.declared(made_by(self.executor), self.limits, self.priority, self.fair)


class ExecutorRegistry(Mapping[str, TaskKind]):
    """Executors by kind that bring middleware; commands take one where they take no middleware."""

    middleware: tuple[Middleware, ...] = ()
    """Middleware around every attempt of a node with this registry, outside of the node's own."""
    payloads: PayloadCodecs | None = None
    """Codecs that seal and open the data of tasks in every process with this registry."""


Executors = Mapping[str, "TaskKind | Callable[[], TaskExecutor]"]
"""By kind: a TaskExecutor class, a function that returns one, or a ``TaskKind``."""


@dataclass(frozen=True, slots=True)
class UserExecutors:
    """All executors of a user's on one node."""

    default: ExecutorFactory | None = None
    """Runs tasks without a kind."""
    kinds: Mapping[str, TaskKind] = field(default_factory=dict)
    middleware: MiddlewareStack = field(default_factory=MiddlewareStack)
    guests: dict[str | None, GuestKind] = field(default_factory=dict)
    """By kind, from its first task on."""
    batches: dict[str | None, Batches] = field(default_factory=dict)
    """By kind that runs many tasks at a time, from its first task on."""
    payloads: PayloadCodecs | None = None
    run_in: str = "thread"
    """The place of kinds that declare none."""
    here: bool = True
    """True if executors of processes are made here: in such a process, and in the test kit."""
    members: dict[str | None, ProcessMember] = field(default_factory=dict)
    """Stand for the executors of those kinds that run in processes."""

    @classmethod
    def of(
        cls,
        executor: Callable[[], TaskExecutor] | None,
        executors: Executors | None = None,
        middleware: Sequence[Middleware] = (),
        payloads: PayloadCodecs | None = None,
    ) -> "UserExecutors":
        """Return a user's executors; InvalidExecutor if one of them can never run a task.

        A node that only runs system tasks gives an empty mapping.
        """
        if executor is None and executors is None:
            raise InvalidExecutor(
                "a node runs tasks: give it executor=, a TaskExecutor class, or executors=, one for"
                " each kind of task"
            )
        check_executors(executors)
        default = None if executor is None else tried_factory("executor", executor)
        if default is not None:
            FlowRule.declared(made_by(default))
        kinds = {kind: _checked(kind, found) for kind, found in (executors or {}).items()}
        carried = executors.middleware if isinstance(executors, ExecutorRegistry) else ()
        stack = MiddlewareStack((*carried, *middleware))
        users = cls(default, kinds, stack, payloads=payloads_of(executors, payloads))
        if users.payloads is not None and users.payloads.seals:
            _refuse_sealed_keys(users.flow_rules, users.payloads)
        return users

    @property
    def limits(self) -> dict[str | None, int]:
        """Most attempts that run at once, by kinds with a limit."""
        return {
            kind: each.concurrency
            for kind, each in self.kinds.items()
            if each.concurrency is not None
        }

    @property
    def flow_rules(self) -> FlowRules:
        """The limits, priorities and fair shares of all kinds, including the default executor's."""
        rules: dict[str | None, FlowRule] = {k: each.flow_rule() for k, each in self.kinds.items()}
        if self.default is not None:
            rules[None] = FlowRule.declared(made_by(self.default))
        return FlowRules(rules)

    @property
    def expires_after_ms(self) -> dict[str | None, int]:
        """Milliseconds from a task's scheduled time to its expiry, by kinds that have one."""
        declared: dict[str | None, timedelta | None] = {
            kind: each.expires_after or declared_expires_after_of(made_by(each.executor))
            for kind, each in self.kinds.items()
        }
        if self.default is not None:
            declared[None] = declared_expires_after_of(made_by(self.default))
        return {k: each // _MILLISECOND for k, each in declared.items() if each is not None}

    @property
    def concurrency_per_id(self) -> dict[str | None, int | None]:
        """Most tasks that one ordering id runs at once, by kinds without order."""
        return {
            kind: each.concurrency_per_id
            for kind, each in self.kinds.items()
            if each.concurrency_per_id != 1
        }

    @property
    def stuck_after_ms(self) -> dict[str | None, int]:
        """Longest time without a checkpoint, by kinds that declare one."""
        declared = {k: declared_stuck_after_of(class_of(f)) for k, f in self._factories.items()}
        return {kind: whole_ms(limit) for kind, limit in declared.items() if limit is not None}

    @property
    def one_attempt_kinds(self) -> frozenset[str | None]:
        """Kinds in threads and coroutines whose class declares a policy of one attempt; those of
        batches are not among them.
        """
        return frozenset(
            kind
            for kind, factory in self._factories.items()
            if declared_policy_of(made := class_of(factory)).attempts_max == 1
            and not (made is not None and issubclass(made, BatchExecutor))
            and not self._runs_in_process(factory)
        )

    @property
    def run_tasks_max(self) -> dict[str | None, int]:
        """Most tasks of one ordering id in a batch, by kinds that allow several."""
        made: dict[str | None, object] = {k: each.executor for k, each in self.kinds.items()}
        made[None] = self.default
        most = {kind: run_tasks_max_of(made_by(found)) for kind, found in made.items()}
        return {kind: tasks for kind, tasks in most.items() if tasks > 1}

    def with_processes(self, run_in: str) -> "UserExecutors":
        """Return the same for a node, which makes and calls nothing that runs in processes."""
        return replace(self, run_in=run_in, here=False)

    @property
    def in_processes(self) -> Sequence[str | None]:
        """The kinds that run in processes, None for the default executor."""
        return [kind for kind, each in self._factories.items() if self._runs_in_process(each)]

    @property
    def _factories(self) -> dict[str | None, object]:
        factories: dict[str | None, object] = {k: e.executor for k, e in self.kinds.items()}
        if self.default is not None:
            factories[None] = self.default
        return factories

    def _runs_in_process(self, factory: object) -> bool:
        return (declared_run_in_of(class_of(factory)) or self.run_in) == "process"

    def _stand_in(self, kind: str | None, made: type[TaskExecutor] | None) -> TaskExecutor:
        """Return what stands for an executor that a process makes."""
        retry, timeout = declared_policy_of(made), declared_timeout_of(made)
        if made is not None and issubclass(made, BatchExecutor):
            batches = ProcessBatches(
                declared_limits_of(made),
                is_coroutine_method(made, "execute_many"),
                retry,
                timeout,
                getattr_static(made, "retries_alone", None) is True,
            )
            return BatchMember(self.batches.setdefault(kind, batches))
        return self.members.setdefault(kind, ProcessMember(retry, timeout))

    def make(self, kind: str | None) -> TaskExecutor:
        """Return a guest for an executor; raises UnknownKind for an unknown kind.

        It gets plain data. No user code is called: the first attempt makes the executor.
        """
        if kind is None:
            factory = self.default
        else:
            known = self.kinds.get(kind)
            factory = None if known is None else known.executor
        if factory is None:
            raise UnknownKind(self._complaint(kind))
        if (known_batches := self.batches.get(kind)) is not None:
            return BatchMember(known_batches)
        guests = self.guests.get(kind)
        if guests is None:
            if not self.here:
                if (member := self.members.get(kind)) is not None:
                    return member
                # Looked at once for each kind: there is an executor for each busy ordering id.
                if self._runs_in_process(factory):
                    return self._stand_in(kind, class_of(factory))
            guests = self.guests.setdefault(kind, GuestKind(factory))
        declared = guests.declared_class
        if declared is not None and issubclass(declared, BatchExecutor):
            batches: Batches = KindBatches(guests, self.middleware)
            if self.payloads is not None:
                batches = OpeningBatches(self.payloads, batches)
            return BatchMember(self.batches.setdefault(kind, batches))
        around = self.middleware.around(guests.guest())
        return around if self.payloads is None else opening(self.payloads, around)

    def require_codecs(self, data: bytes) -> None:
        """Raise PayloadSealed if a task's sealed data cannot be opened here."""
        if self.payloads is None:
            refuse_sealed(data)
        self.payloads.require(data)

    def _complaint(self, kind: str | None) -> str:
        known = ", ".join(sorted(self.kinds)[:_NAMED_MAX])
        if kind is not None:
            has = f"it has executors for {known}" if known else "it has none for any kind"
            has += did_you_mean(kind, self.kinds)
            return (
                f"this node has no executor for the kind {kind!r}; {has}: the task waits for a"
                " node that has one"
            )
        if not known:
            return (
                "this node was started without --executor: the task waits for a node of the group"
                " that has one"
            )
        return (
            f"the task has no kind, and this node has executors only for {known}: the task waits"
            " for a node with a default executor"
        )


def payloads_of(executors: object, payloads: PayloadCodecs | None = None) -> PayloadCodecs | None:
    """Return the given payload codecs, or else those of a registry."""
    given: object = payloads
    if given is not None and not isinstance(given, PayloadCodecs):
        raise InvalidExecutor(
            f"payloads is {shown(given)}, PayloadCodecs(…) of hourhand.payloads is needed"
        )
    if payloads is None and isinstance(executors, ExecutorRegistry):
        return executors.payloads
    return payloads


def _refuse_sealed_keys(rules: FlowRules, payloads: PayloadCodecs) -> None:
    """Raise InvalidExecutor if a limit or fair share has a key that a node cannot read."""
    for key in sorted(rules.keys):
        member = key.partition(".")[0]
        if member not in payloads.plain:
            raise InvalidExecutor(
                f"a Limit or FairShare has the key {key!r}, which is within sealed data: leave the"
                f" member in the clear with PayloadCodecs(…, plain=[{member!r}]), or limit without"
                " a key"
            )


def check_executors(executors: object) -> None:
    """Raise InvalidExecutor if the given ``executors`` have no kinds."""
    if executors is None or isinstance(executors, Mapping):
        return
    raise InvalidExecutor(
        f"executors is {shown(executors)}, which has no kinds: give the registry, executors=app,"
        " or a dictionary of kinds, executors={'send-invoice': SendInvoice}"
    )


def kind_complaint(
    kind: str | None, kinds: Mapping[str, object], *, has_default: bool
) -> str | None:
    """Return the reason why no executor of a program runs a kind; None if one does.

    A program without kinds cannot judge.
    """
    if not kinds or kind in kinds or (kind is None and has_default):
        return None
    known = ", ".join(sorted(kinds)[:_NAMED_MAX])
    if kind is None:
        return f"it has no kind, and the executors of this client run only {known}: give kind="
    return (
        f"the executors of this client run {known}, and no kind {shown(kind)} (a client without"
        f" executors= takes every kind){did_you_mean(kind, kinds)}"
    )


def check_kind(kind: object) -> None:
    """Raise InvalidExecutor if the name is not valid for a kind."""
    if callable(kind):
        name = str(getattr(kind, "__name__", "name")).replace("_", "-")
        raise InvalidExecutor(
            f"a kind is missing in front of {shown(kind)}: write the decorator with a name, such as"
            f" @app.task({name!r})"
        )
    try:
        checked_kind(kind)
    except ValueError as error:
        raise InvalidExecutor(str(error)) from None


def _checked(kind: object, found: object) -> TaskKind:
    check_kind(kind)
    name = f"executors[{kind!r}]"
    if isinstance(found, TaskKind):
        return replace(found, executor=tried_factory(name, found.executor))
    return TaskKind(tried_factory(name, found))
