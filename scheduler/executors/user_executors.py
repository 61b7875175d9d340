"""The user's executors on one node: which one runs a task, by its kind.

Decides what a node can run, and says so before anything is opened; and how many tasks of a kind
run at once.  Never decides what becomes of a task that it cannot run: the tree holds it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from actors.model.batch_executor import BatchExecutor
from actors.model.display import shown
from actors.model.errors import InvalidExecutor, UnknownKind
from actors.model.flow import FairShare, FlowRule, FlowRules, Limit
from actors.model.kind import checked_kind
from actors.model.sealed import refuse_sealed
from actors.model.suggestion import did_you_mean
from actors.model.task_executor import TaskExecutor
from scheduler.executors.batches import KindBatches, run_tasks_max_of
from scheduler.executors.executor_path import ExecutorFactory, made_by, tried_factory
from scheduler.executors.guests import GuestKind
from scheduler.executors.middleware import Middleware, MiddlewareStack, OpeningBatches, opening
from scheduler.payloads.codecs import PayloadCodecs
from scheduler.ports.batches import Batches, BatchMember

_NAMED_MAX = 20
"""Kinds that an error message lists."""


@dataclass(frozen=True, slots=True)
class TaskKind:
    """How tasks of one kind run: by which executor, how many at once, and whether in order.

    What is not given of ``limits``, ``priority`` and ``fair`` is as the executor's class has it.
    Raises InvalidExecutor for what means nothing.
    """

    executor: Callable[[], TaskExecutor]
    """A TaskExecutor class, or a function without arguments that returns one."""
    concurrency: int | None = None
    """Attempts of this kind that run at once on one node; None for as many as there are workers."""
    limits: Limit | Sequence[Limit] | None = None
    """How many attempts start in a time, and run at once, in the whole cluster."""
    priority: int | None = None
    """What is due at once starts in the order of this, the highest first."""
    fair: FairShare | None = None
    """How starts are shared between tenants while more is due than can run."""
    concurrency_per_id: int | None = 1
    """Tasks of this kind that one ordering id runs at once: one after another in their order, or
    without order so many of them, or with None as many as there are."""

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
        # Said where it is declared, not when a node starts.
        self.flow_rule()
        if self.concurrency_per_id != 1 and run_tasks_max_of(made_by(self.executor)) > 1:
            raise InvalidExecutor(
                f"concurrency_per_id is {shown(self.concurrency_per_id)}, and runs_of_one_id keeps"
                " an order that it gives up: use one of them"
            )

    def flow_rule(self) -> FlowRule:
        """Return what is declared of the kind's flow."""
        return FlowRule.declared(made_by(self.executor), self.limits, self.priority, self.fair)


class ExecutorRegistry(Mapping[str, TaskKind]):
    """Executors by kind that bring middleware, for commands as well, which can be given none."""

    middleware: tuple[Middleware, ...] = ()
    """It goes around every attempt of a node that is given the registry, outside of the node's."""
    payloads: PayloadCodecs | None = None
    """They seal and open the data of tasks in every process that is given the registry."""


Executors = Mapping[str, "TaskKind | Callable[[], TaskExecutor]"]
"""By kind: a TaskExecutor class, a function that returns one, or a ``TaskKind``."""


@dataclass(frozen=True, slots=True)
class UserExecutors:
    """All that one node runs of a user's."""

    default: ExecutorFactory | None = None
    """Runs what has no kind."""
    kinds: Mapping[str, TaskKind] = field(default_factory=dict)
    middleware: MiddlewareStack = field(default_factory=MiddlewareStack)
    guests: dict[str | None, GuestKind] = field(default_factory=dict)
    """Of each kind, from its first task on."""
    batches: dict[str | None, Batches] = field(default_factory=dict)
    """Of the kinds that run many tasks at a time, from the first of them on."""
    payloads: PayloadCodecs | None = None

    @classmethod
    def of(
        cls,
        executor: Callable[[], TaskExecutor] | None,
        executors: Executors | None = None,
        middleware: Sequence[Middleware] = (),
        payloads: PayloadCodecs | None = None,
    ) -> "UserExecutors":
        """Return what a user has given; InvalidExecutor where some of it can never run a task.

        A node that only serves others gives an empty mapping.
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
        """How many attempts of a kind run at once, of those kinds that have a limit."""
        return {
            kind: each.concurrency
            for kind, each in self.kinds.items()
            if each.concurrency is not None
        }

    @property
    def flow_rules(self) -> FlowRules:
        """The limits, priorities and fair shares of all kinds, the default executor's too."""
        rules: dict[str | None, FlowRule] = {k: each.flow_rule() for k, each in self.kinds.items()}
        if self.default is not None:
            rules[None] = FlowRule.declared(made_by(self.default))
        return FlowRules(rules)

    @property
    def concurrency_per_id(self) -> dict[str | None, int | None]:
        """How many tasks one ordering id runs at once, of those kinds that have no order."""
        return {
            kind: each.concurrency_per_id
            for kind, each in self.kinds.items()
            if each.concurrency_per_id != 1
        }

    @property
    def run_tasks_max(self) -> dict[str | None, int]:
        """How many tasks of one ordering id a batch may hold, of those kinds that ask for runs."""
        made: dict[str | None, object] = {k: each.executor for k, each in self.kinds.items()}
        made[None] = self.default
        most = {
            k: run_tasks_max_of(made_by(each)) for k, each in {None: self.default, **made}.items()
        }
        most = {kind: run_tasks_max_of(made_by(found)) for kind, found in made.items()}
        return {kind: tasks for kind, tasks in most.items() if tasks > 1}

    def make(self, kind: str | None) -> TaskExecutor:
        """Return what stands for an executor; raises UnknownKind where there is none.

        It is given plain data.  No user code is called: the first attempt makes the executor.
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
        """Raise PayloadSealed where a task's sealed data cannot be opened here."""
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
    """Return the payload codecs that were given, or else those of a registry."""
    given: object = payloads
    if given is not None and not isinstance(given, PayloadCodecs):
        raise InvalidExecutor(
            f"payloads is {shown(given)}, PayloadCodecs(…) of hourhand.payloads is needed"
        )
    if payloads is None and isinstance(executors, ExecutorRegistry):
        return executors.payloads
    return payloads


def _refuse_sealed_keys(rules: FlowRules, payloads: PayloadCodecs) -> None:
    """Raise InvalidExecutor where a limit or fair share has a key that a node cannot read."""
    for key in sorted(rules.keys):
        member = key.partition(".")[0]
        if member not in payloads.plain:
            raise InvalidExecutor(
                f"a Limit or FairShare has the key {key!r}, which is within sealed data: leave the"
                f" member in the clear with PayloadCodecs(…, plain=[{member!r}]), or limit without"
                " a key"
            )


def check_executors(executors: object) -> None:
    """Raise InvalidExecutor where what was given as ``executors`` has no kinds."""
    if executors is None or isinstance(executors, Mapping):
        return
    raise InvalidExecutor(
        f"executors is {shown(executors)}, which has no kinds: give the registry, executors=app,"
        " or a dictionary of kinds, executors={'send-invoice': SendInvoice}"
    )


def kind_complaint(
    kind: str | None, kinds: Mapping[str, object], *, has_default: bool
) -> str | None:
    """Return why no executor that a program knows runs a kind; None where one does.

    A program without any kind knows nothing of them.
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
    """Raise InvalidExecutor where nothing can be registered under this name."""
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
