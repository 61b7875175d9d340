"""A call of a task's function as a record carries it, and its end as a result carries it.

Decides both forms, and how what is stored of a task becomes Django's ``TaskResult``.  Never where
either is stored.
"""

import builtins
import re
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import datetime
from typing import Annotated, Any

import msgspec
from django.conf import settings
from django.utils import timezone

from hourhand import errors
from hourhand.actors.model.task.json_text import VALUE_BYTES_MAX
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.instant import (
    INSTANT_MAX_MS,
    INSTANT_MIN_MS,
    from_millis,
    to_millis,
)
from hourhand.django import framework
from hourhand.scheduler.tasks.task_info import AttemptInfo, TaskInfo
from hourhand.scheduler.tasks.task_state import TaskState

Instant = Annotated[int, msgspec.Meta(ge=INSTANT_MIN_MS, le=INSTANT_MAX_MS)]

GENERATED = "django-"
"""Begin of an ordering id or uniqueness key that the caller did not choose."""
_GENERATED = re.compile(rf"{GENERATED}[A-Za-z0-9]{{24}}")
_STATUS = {
    TaskState.RUNNING: "RUNNING",
    TaskState.CANCELLING: "RUNNING",
    TaskState.SUCCESS: "SUCCESSFUL",
    TaskState.FAILURE: "FAILED",
    TaskState.DROPPED: "FAILED",
    TaskState.EXPIRED: "FAILED",
    TaskState.CANCELLED: "FAILED",
}
"""States besides these are READY."""


class TaskCall(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The data of a task of Django."""

    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    queue: str = framework.base.DEFAULT_TASK_QUEUE_NAME
    enqueued_ms: Instant | None = None
    run_after_ms: Instant | None = None

    def as_data(self) -> dict[str, Any]:
        """Return the JSON object for a record."""
        return dict(msgspec.to_builtins(self))


class CallReturned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of ``Done`` for a task of Django: it outlives the task's own data."""

    kind: str
    call: TaskCall
    """Without the arguments, where they would make it larger than a result may be."""
    attempt: int
    started_ms: Instant
    fence: int
    returned: Any = None
    priority: int | None = None


def call_of(data: object) -> TaskCall:
    """Return the call in a task's data; msgspec.ValidationError where it has another form."""
    return msgspec.convert(data, TaskCall)


def returned_value(ended: CallReturned) -> Any:
    """Return the JSON value for ``Done``."""
    if len(msgspec.json.encode(ended)) > VALUE_BYTES_MAX:
        short = msgspec.structs.replace(ended.call, args=[], kwargs={})
        ended = msgspec.structs.replace(ended, call=short)
    return msgspec.to_builtins(ended)


def django_time(time: datetime | None) -> datetime | None:
    """Return an aware time as this project has its times."""
    if time is None or settings.USE_TZ:
        return time
    naive: datetime = timezone.make_naive(time)
    return naive


def aware_time(time: datetime) -> datetime:
    """Return a time of the project with a time zone."""
    aware: datetime = timezone.make_aware(time) if timezone.is_naive(time) else time
    return aware


def _time(time_ms: int | None) -> datetime | None:
    return None if time_ms is None else django_time(from_millis(time_ms))


def called_task(
    declared: Any, key: TaskKey, call: TaskCall, priority: int | None, backend: Any
) -> Any:
    """Return the task of Django that was enqueued."""
    changes: dict[str, Any] = {
        "backend": backend.alias,
        "priority": priority or framework.base.DEFAULT_TASK_PRIORITY,
        "run_after": _time(call.run_after_ms),
    }
    if not backend.queues or call.queue in backend.queues:
        changes["queue_name"] = call.queue
    for name in {each.name for each in fields(declared)} & {"ordering_id", "uniqueness_key"}:
        text = getattr(key, name)
        changes[name] = None if not text or _GENERATED.fullmatch(text) else text
    return replace(declared, **changes)


def running_result(
    task: Task, call: TaskCall, declared: Any, backend: Any, *, attempt: int, fence: int
) -> Any:
    """Return the result of an attempt that begins; only the fence of this attempt is known."""
    now = django_time(backend.now)
    return framework.base.TaskResult(
        task=called_task(declared, task.key, call, task.priority, backend),
        id=str(task.key),
        status=framework.base.TaskResultStatus.RUNNING,
        enqueued_at=_time(call.enqueued_ms),
        started_at=now,
        last_attempted_at=now,
        finished_at=None,
        args=call.args,
        kwargs=call.kwargs,
        backend=backend.alias,
        errors=[],
        worker_ids=["unknown"] * (attempt - 1) + [_worker(fence)],
    )


def _worker(fence: int) -> str:
    return f"fence-{fence}"


class StoredCall(msgspec.Struct, frozen=True):
    """The stored parts of a task of Django."""

    info: TaskInfo
    kind: str
    call: TaskCall
    ended: CallReturned | None

    @classmethod
    def of(cls, info: TaskInfo) -> "StoredCall | None":
        """Return it; None where too little is stored, or it is not a task of Django."""
        try:
            ended = None if info.result is None else msgspec.convert(info.result, CallReturned)
            if info.data is not None and info.kind is not None:
                return cls(info, info.kind, call_of(info.data), ended)
        except msgspec.ValidationError:
            return None
        return None if ended is None else cls(info, ended.kind, ended.call, ended)

    def result(self, task_id: str, declared: Any, backend: Any) -> Any:
        """Return Django's result."""
        info, ended = self.info, self.ended
        # The start of an attempt may be stored beside its end: it is one attempt.
        of_attempt = {each.attempt: (each.started_time, each.fence) for each in info.attempts}
        if ended is not None:
            of_attempt[ended.attempt] = from_millis(ended.started_ms), ended.fence
        starts = [of_attempt[attempt] for attempt in sorted(of_attempt)]
        priority = info.priority if ended is None else ended.priority
        result = framework.base.TaskResult(
            task=called_task(declared, info.key, self.call, priority, backend),
            id=task_id,
            status=framework.base.TaskResultStatus[_STATUS.get(info.state, "READY")],
            enqueued_at=_time(self.call.enqueued_ms),
            started_at=django_time(starts[0][0]) if starts else None,
            last_attempted_at=django_time(starts[-1][0]) if starts else None,
            finished_at=django_time(info.finished_time),
            args=self.call.args,
            kwargs=self.call.kwargs,
            backend=backend.alias,
            errors=_errors(info),
            worker_ids=[_worker(fence) for _, fence in starts],
        )
        if ended is not None:
            # The class is frozen, and gives no other way to set it.
            object.__setattr__(result, "_return_value", ended.returned)
        return result


def _errors(info: TaskInfo) -> list[Any]:
    found = [
        framework.base.TaskError(
            exception_class_path=_class_path(each),
            traceback=each.error_stack or f"{each.error_class}: {each.error_message or ''}",
        )
        for each in info.attempts
        if each.error_class is not None
    ]
    if info.state in {TaskState.DROPPED, TaskState.EXPIRED, TaskState.CANCELLED}:
        why = f"the task was {info.state.value}: {info.reason or 'no reason was given'}"
        found.append(
            framework.base.TaskError(
                exception_class_path="hourhand.errors.NoResult",
                traceback=f"hourhand.errors.NoResult: {why}\n",
            )
        )
    return found


def _class_path(attempt: AttemptInfo) -> str:
    """Return the path of an error's class, which the last lines of its stack name."""
    name = attempt.error_class or ""
    stack = attempt.error_stack or ""
    named: Sequence[str] = re.findall(
        rf"^((?:\w+\.)+{re.escape(name)})(?::|$)", stack, re.MULTILINE
    )
    if named:
        return named[-1]
    return f"{(errors if hasattr(errors, name) else builtins).__name__}.{name}"


def enqueued_call(result: Any, run_after: datetime | None) -> TaskCall:
    """Return the call of a result that is being enqueued; InvalidTask for an impossible time."""
    try:
        run_after_ms = None if run_after is None else to_millis(run_after)
    except ValueError as error:
        raise errors.InvalidTask(f"run_after: {error}: choose another time") from None
    return TaskCall(
        args=result.args,
        kwargs=result.kwargs,
        queue=result.task.queue_name,
        enqueued_ms=to_millis(aware_time(result.enqueued_at)),
        run_after_ms=run_after_ms,
    )
