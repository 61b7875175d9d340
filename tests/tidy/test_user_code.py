"""Each call of user code is known: where it is made, and which test has it raise and be slow.

User code is what people subclass or hand over.  Its names are taken from these classes, so a new
one is asked for here; its calls are looked for in the rooms that know the classes.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.batch_executor import BatchExecutor
from hourhand.actors.model.execution.task_executor import TaskExecutor
from hourhand.scheduler.executors.middleware import Middleware
from hourhand.scheduler.payloads.codec import PayloadCodec
from tests.promises.test_p07_guests import PLACES

ROOMS = (
    "actors/*.py",
    "actors/model/execution/executor_attributes.py",
    "actors/model/execution/backoff.py",
    "scheduler/node/**/*.py",
    "scheduler/executors/*.py",
    "scheduler/payloads/codecs.py",
    "scheduler/ports/batches.py",
    "scheduler/testing/*.py",
    "scheduler/adapters/observing/tracing.py",
)

READ_WHEN_DECLARED = {
    "limits": "of the class alone, when a node is built",
    "priority": "as limits",
    "expires_after": "as limits",
    "fair": "as limits",
    "run_in": "as limits",
    "name": "of a codec, when the codecs are put together",
    "blocks": "as name",
}
CALLED_BY_USERS = {"checkpoint", "checkpointed", "snoozed"}
"""What user code calls of ours."""
SET = {
    *("attempt", "attempts", "fence", "fences", "cancelled"),
    *("hourhand_checkpoints", "hourhand_members"),
}
"""What an executor is told, just before it is called: the place ``attribute``."""
OWN = (
    "asyncio.",
    "self._guardian.",
    "self._is_up.",
    "self._answered.",
    "process.place.",
    "self.attempt",
    "limits.batches_max",
    "event.",
    "ruling.",
)
OTHERS = (*OWN, "policy.on_exhausted", "ended.ruling.", "b64encode(", "msgspec.")
"""How receivers begin that are not user code."""

FORWARDED = "forwarded"
"""Passes on what it stands for; the place is that of the last one."""
BUILT = "built"
"""Where a node is built, in the thread of the program that does so."""
KIT = "kit"
"""In the test of a user, in its thread."""

SITES = {
    "actors/model/execution/backoff.py RetryPolicy.delay_ms wait": "wait",
    "actors/model/execution/backoff.py RetryPolicy.ruling wait": "wait",
    "actors/model/execution/backoff.py RetryPolicy.ruling on_exhausted": "retry",
    "actors/model/execution/backoff.py RetryPolicy.__post_init__ on_exhausted": BUILT,
    "actors/model/execution/backoff.py RetryPolicy.__post_init__ wait": BUILT,
    "actors/model/execution/executor_attributes.py _plain wait": "retry",
    "actors/model/execution/executor_attributes.py _plain delay_ms": "retry",
    "actors/model/execution/executor_attributes.py _plain.wait delay_ms": "wait",
    "actors/model/execution/executor_attributes.py _plain on_exhausted": "retry",
    "scheduler/adapters/observing/tracing.py _Async.execute execute": FORWARDED,
    "scheduler/adapters/observing/tracing.py _Blocking.execute execute": FORWARDED,
    "scheduler/executors/batches.py KindBatches._batch retries_alone": "retries_alone",
    "scheduler/executors/batches.py KindBatches.retry retry": "retry",
    "scheduler/executors/batches.py KindBatches.timeout timeout": "timeout",
    "scheduler/executors/batches.py TaskBatch._begin execute_many": "execute_many",
    "scheduler/executors/batches.py TaskBatch._called_async timeout": "timeout",
    "scheduler/executors/batches.py limits_of batch_tasks_max": "batch_tasks_max",
    "scheduler/executors/batches.py limits_of batch_wait": "batch_tasks_max",
    "scheduler/executors/batches.py limits_of batches_max": "batch_tasks_max",
    "scheduler/executors/batches.py limits_of runs_of_one_id": "batch_tasks_max",
    "scheduler/executors/batches.py run_tasks_max_of batch_tasks_max": BUILT,
    "scheduler/executors/batches.py run_tasks_max_of runs_of_one_id": BUILT,
    "scheduler/executors/guests.py AsyncGuest.execute execute": "coroutine",
    "scheduler/executors/guests.py Guest.execute execute": "execute",
    "scheduler/executors/guests.py Guest.retry retry": "retry",
    "scheduler/executors/guests.py Guest.timeout timeout": "timeout",
    "scheduler/executors/middleware.py ExecutorWrapper.retry retry": FORWARDED,
    "scheduler/executors/middleware.py ExecutorWrapper.timeout timeout": FORWARDED,
    "scheduler/executors/middleware.py MiddlewareStack.__init__ around_attempt": BUILT,
    "scheduler/executors/middleware.py MiddlewareStack.__init__ on_exhausted": BUILT,
    "scheduler/executors/middleware.py MiddlewareStack.entered around_attempt": "around_attempt",
    "scheduler/executors/middleware.py MiddlewareStack.entered_async around_attempt": (
        "around_attempt"
    ),
    "scheduler/executors/middleware.py MiddlewareStack.exhausted on_exhausted": "on_exhausted",
    "scheduler/executors/middleware.py MiddlewareStack.start on_node_start": BUILT,
    "scheduler/executors/middleware.py OpeningBatches.retry retry": FORWARDED,
    "scheduler/executors/middleware.py OpeningBatches.timeout timeout": FORWARDED,
    "scheduler/executors/middleware.py _AsyncOpening.execute execute": FORWARDED,
    "scheduler/executors/middleware.py _AsyncWithin.execute execute": FORWARDED,
    "scheduler/executors/middleware.py _Opening.execute execute": FORWARDED,
    "scheduler/executors/middleware.py _Within.execute execute": FORWARDED,
    "scheduler/executors/middleware.py _stop on_node_stop": BUILT,
    "scheduler/executors/registry.py Hourhand.batch batch_tasks_max": BUILT,
    "scheduler/executors/registry.py Hourhand.batch batch_wait": BUILT,
    "scheduler/executors/registry.py Hourhand.batch batches_max": BUILT,
    "scheduler/node/workers/executor_calls.py ExecutorCalls._attempt execute": FORWARDED,
    "scheduler/node/workers/executor_calls.py ExecutorCalls._execute_async execute": FORWARDED,
    "scheduler/payloads/codecs.py PayloadCodecs._decoded decode": "decode",
    "scheduler/payloads/codecs.py PayloadCodecs._lacking knows": "knows",
    # In the thread of a client, which gets the error, or of code that makes a checkpoint.
    "scheduler/payloads/codecs.py PayloadCodecs._enveloped encode": BUILT,
    "scheduler/ports/batches.py BatchMember.retry retry": FORWARDED,
    "scheduler/ports/batches.py BatchMember.timeout timeout": FORWARDED,
    "scheduler/testing/__init__.py execute_task.call execute": KIT,
    "scheduler/testing/virtual.py VirtualWorkers._executed execute": FORWARDED,
}
"""Each place where a name of user code is read or called, and the place of it in ``CALLS``."""


def names() -> set[str]:
    """Return how user code is called, by the classes that it subclasses."""
    found = {"wait", "delay_ms"}
    for of in (TaskExecutor, BatchExecutor, Middleware, PayloadCodec):
        public = {*vars(of), *getattr(of, "__annotations__", {})}
        found |= {each for each in public if not each.startswith("_")}
    return found


class _Calls(ast.NodeVisitor):
    """Notes where names are read."""

    def __init__(self, path: Path, wanted: set[str]) -> None:
        self._path, self._wanted = path, wanted
        self._within: list[str] = []
        self.found: set[str] = set()

    def _enter(self, node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()

    visit_ClassDef = visit_FunctionDef = visit_AsyncFunctionDef = _enter  # noqa: N815

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Note it where it is read within a function."""
        read = isinstance(node.ctx, ast.Load) and node.attr in self._wanted
        if read and self._within and not ast.unparse(node).startswith(OTHERS):
            self.found.add(f"{self._path} {'.'.join(self._within)} {node.attr}")
        self.generic_visit(node)


@cache
def calls() -> frozenset[str]:
    """Return each place where a name of user code is read or called."""
    wanted = names() - SET - CALLED_BY_USERS - set(READ_WHEN_DECLARED)

    def found() -> Iterator[str]:
        for room in ROOMS:
            for path in sorted(Path().glob(room)):
                texts = {"encode", "decode"} if path.name != "codecs.py" else set()
                looked = _Calls(path, wanted - texts)
                looked.visit(ast.parse(path.read_text(encoding="utf-8")))
                yield from looked.found

    return frozenset(found())


def test_each_call_of_user_code_is_listed() -> None:
    """A new one belongs into an attempt, into ``CALLS`` of its test, and into this list."""
    assert not sorted(calls() - set(SITES)), "calls of user code that are not listed"
    assert not sorted(set(SITES) - calls()), "listed calls that are gone"


def test_each_listed_call_is_tried_raising_and_slow() -> None:
    """By its place; each place is that of a call."""
    untried = {FORWARDED, BUILT, KIT}

    assert set(SITES.values()) - untried <= PLACES


def test_policies_have_no_other_code_of_users() -> None:
    """A policy may be subclassed; its fields are read where it is taken over as a plain one."""
    public = {each for each in vars(RetryPolicy) if not each.startswith("_")}

    assert public == {
        "attempts_max",
        "wait",
        "on_exhausted",
        "retry_on",
        "drop_on",
        "verdict_on",
        "delay_ms",
        "ruling",
    }
