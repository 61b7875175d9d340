"""The reasons why an open task does not run, from the log, the store and the nodes' reports.

Decides which reasons are given, in which order, and the command against each. The owner decides
whether a task may run; this is a picture a second old.
"""

import shlex
from collections.abc import Collection

from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.errors import CannotRunHere
from hourhand.scheduler.admin.answers import ShownWait, WaitReason, instant_text, or_unset
from hourhand.scheduler.admin.cluster import Cluster
from hourhand.scheduler.tasks.inspector import Inspector, TaskState, TaskView
from hourhand.scheduler.tasks.task_state import OPEN_STATES

_SOONEST_LOOKED_MAX = 100


class WaitReasons:
    """Finds the reasons why tasks wait. Errors: StoreUnavailable."""

    def __init__(self, cluster: Cluster, inspector: Inspector) -> None:
        self._cluster = cluster
        self._inspector = inspector

    def of(self, view: TaskView, now_ms: int) -> list[ShownWait]:
        """Return the reasons why a task does not run; the first one should be fixed first.

        A task that runs, or is closed, has none. For a task that is not stored they say why its
        record may still wait in the log.
        """
        key = str(view.key)
        if view.state is TaskState.UNKNOWN:
            return self._hindrances(view)
        if view.state not in OPEN_STATES or key in self._cluster.executions():
            return []
        reasons = [*self._hindrances(view), *_own(view, now_ms)]
        if not reasons and (first := self._first(view)) is not None:
            is_running = str(first.key) in self._cluster.executions()
            reasons.append(_behind(first.key, TaskState.RUNNING if is_running else first.state))
        if not reasons and (limit := self._cluster.limits().get(key)) is not None:
            whose = f" of {limit.value!r}" if limit.value else ""
            told = f"the limit {limit.limit}{whose} is used up; it has waited since {limit.since}"
            reasons.append(_wait(WaitReason.LIMITED, told, "hourhand limits list"))
        if not reasons and view.state is not TaskState.RUNNING:
            told = "it is due, and its node has not begun it: are all workers busy?"
            reasons.append(_wait(WaitReason.NO_WORKER, told, "hourhand running"))
        return reasons

    def _hindrances(self, view: TaskView) -> list[ShownWait]:
        """Return reasons that stop all tasks of its partition or ordering id."""
        found = []
        if self._cluster.partitions().partitions[view.partition].owner is None:
            told = f"no node reads partition {view.partition}, which it belongs to"
            found.append(_wait(WaitReason.NO_NODE, told, "hourhand nodes"))
        pauses = self._cluster.config.pauses
        found += [_paused(each) for each in pauses if _holds_up(each, view)]
        return found

    def _first(self, view: TaskView) -> TaskView | None:
        """Return the task that its ordering id runs first, if there is one."""
        without_order = self._cluster.kinds_without_order()
        if _kind(view) in without_order:
            return None
        listing = self._inspector.list_open(
            to_ms=view.key.scheduled_ms + 1,
            limit=_SOONEST_LOOKED_MAX,
            looked_max=_SOONEST_LOOKED_MAX,
            ordering_id=view.key.ordering_id,
        )
        earlier = (each for each in listing.tasks if each.key < view.key)
        return next((each for each in earlier if _kind(each) not in without_order), None)


def _kind(view: TaskView) -> str | None:
    return None if view.task is None else view.task.kind


def _own(view: TaskView, now_ms: int) -> list[ShownWait]:
    """Return reasons of the task itself, independent of others."""
    key, last = str(view.key), view.attempts[-1] if view.attempts else None
    error = "" if last is None else f"{last.error_class}: {last.error_message or ''}"
    if view.state is TaskState.BLOCKED:
        if last is not None and last.error_class in _ELSEWHERE:
            told = f"the node that owns it cannot run it: {error}"
            return [_wait(WaitReason.NO_EXECUTOR, told, "hourhand run --executor KIND=MODULE:NAME")]
        told = f"it used up its attempts, and its ordering id waits for an operator: {error}"
        return [_wait(WaitReason.BLOCKED, told, f"hourhand retry {shlex.quote(key)}")]
    next_ms = None if last is None else last.next_attempt_ms
    if view.state is TaskState.RETRYING and next_ms is not None and next_ms > now_ms:
        told = f"its next attempt is at {instant_text(next_ms)}, after {error}"
        return [_wait(WaitReason.RETRYING, told, f"hourhand retry {shlex.quote(key)}")]
    if view.state is TaskState.SNOOZED and next_ms is not None and next_ms > now_ms:
        told = f"its code asked to be called again at {instant_text(next_ms)}"
        return [_wait(WaitReason.SNOOZED, told, f"hourhand retry {shlex.quote(key)}")]
    if view.key.scheduled_ms > now_ms and view.state is TaskState.PENDING:
        told = f"it is due at {instant_text(view.key.scheduled_ms)}"
        return [_wait(WaitReason.NOT_DUE, told, f"hourhand run-now {shlex.quote(key)}")]
    return []


_ELSEWHERE: Collection[str] = frozenset(
    {CannotRunHere.__name__, *(each.__name__ for each in CannotRunHere.__subclasses__())}
)


def _behind(first: TaskKey, state: TaskState) -> ShownWait:
    told = f"{first} of its ordering id comes first and is {state.value}"
    command = f"hourhand show {shlex.quote(str(first))}"
    return _wait(WaitReason.BEHIND, told, command, behind=str(first))


def _holds_up(pause: Pause, view: TaskView) -> bool:
    match pause.scope:
        case PauseScope.ALL:
            return True
        case PauseScope.PARTITION:
            return pause.partition == view.partition
        case PauseScope.ORDERING:
            return pause.ordering_id == view.key.ordering_id


def _paused(pause: Pause) -> ShownWait:
    what, option = {
        PauseScope.ALL: ("everything", "--all"),
        PauseScope.PARTITION: (f"partition {pause.partition}", f"--partition {pause.partition}"),
        PauseScope.ORDERING: (
            "its ordering id",
            f"--ordering-id {shlex.quote(pause.ordering_id)}",
        ),
    }[pause.scope]
    why = f": {pause.reason}" if pause.reason else ""
    told = f"{pause.who} paused {what} at {instant_text(pause.paused_ms)}{why}"
    return _wait(WaitReason.PAUSED, told, f"hourhand resume {option}")


def _wait(
    reason: WaitReason, told: str, command: str | None = None, *, behind: str | None = None
) -> ShownWait:
    return ShownWait(reason=reason, told=told, behind=or_unset(behind), command=or_unset(command))
