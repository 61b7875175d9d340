"""The judge of user code in processes finds what it is there to find."""

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from examples.demo_processes.__main__ import COUNTS, PLAIN, Seen, Start, judged, tasks_due
from examples.demo_processes.work import CRASHES_MAX
from hourhand import Task, TaskInfo
from hourhand.actors.model.task.status import AttemptResult
from hourhand.scheduler.tasks.task_info import AttemptInfo
from hourhand.scheduler.tasks.task_state import TaskState

BEGIN = datetime(2026, 2, 9, tzinfo=UTC)
ERRORS = {
    "hang": ("TimeoutError", "its process was killed"),
    "leak": ("ProcessTooLarge", "its process held much memory"),
    "crash": ("ProcessDied", "its process was killed by SIGSEGV"),
    "exit": ("ProcessDied", "its process ended with exit code 7"),
}


def _seen() -> Seen:
    """Return a play in which everything went well."""
    starts: list[Start] = []
    due_s: dict[str, float] = {}
    infos: dict[str, list[TaskInfo]] = {kind: [] for kind in COUNTS}
    for task, after_s in tasks_due(BEGIN):
        kind, key = str(task.kind), str(task.key)
        due_s[key] = after_s
        pid = os.getpid() if kind == "plain" else 1
        count = CRASHES_MAX if kind == "crash" else 1
        starts += [Start(kind, key, pid, after_s + 0.001)] * count
        if kind != "plain":
            infos[kind].append(_info(task, ERRORS.get(kind)))
    return Seen(due_s, starts, infos)


def _info(task: Task, error: tuple[str, str] | None) -> TaskInfo:
    ended = BEGIN + timedelta(seconds=3)
    if error is None:
        return TaskInfo(task.key, TaskState.SUCCESS, finished_time=ended)
    failed = AttemptInfo(
        1, AttemptResult.FAILURE, BEGIN, ended, error_class=error[0], error_message=error[1]
    )
    return TaskInfo(task.key, TaskState.FAILURE, attempts=(failed,), finished_time=ended)


def _broken(seen: Seen) -> list[str]:
    return [check.what for check in judged(seen) if not check.holds]


def test_a_good_play_holds() -> None:
    """Nothing is found."""
    assert _broken(_seen()) == []


def _late(seen: Seen) -> Seen:
    moved = [replace(each, at_s=each.at_s + (each.kind == "plain")) for each in seen.starts]
    return replace(seen, starts=moved)


def _again(kind: str) -> Callable[[Seen], Seen]:
    def changed(seen: Seen) -> Seen:
        first = next(each for each in seen.starts if each.kind == kind)
        return replace(seen, starts=[*seen.starts, first])

    return changed


def _ended(kind: str, error: tuple[str, str] | None) -> Callable[[Seen], Seen]:
    def changed(seen: Seen) -> Seen:
        task = next(task for task, _ in tasks_due(BEGIN) if task.kind == kind)
        told = [_info(task, error), *seen.infos[kind][1:]]
        return replace(seen, infos={**seen.infos, kind: told})

    return changed


def _moved(seen: Seen) -> Seen:
    return replace(seen, starts=[replace(each, pid=2) for each in seen.starts])


def _lost(seen: Seen) -> Seen:
    return replace(seen, starts=[each for each in seen.starts if each.kind != "plain"])


def _one_core(seen: Seen) -> Seen:
    slow = [replace_time(info, BEGIN + timedelta(seconds=60)) for info in seen.infos["compute"]]
    return replace(seen, infos={**seen.infos, "compute": slow})


def replace_time(info: TaskInfo, ended: datetime) -> TaskInfo:
    """Return a state with another end."""
    return TaskInfo(info.key, info.state, attempts=info.attempts, finished_time=ended)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (_late, "lateness"),
        (_lost, "tasks in threads"),
        (_again("behave"), "other tasks"),
        (_again("plain"), "other tasks"),
        (_again("hang"), "starts of"),
        (_again("crash"), "starts of"),
        (_ended("behave", ERRORS["exit"]), "tasks that behave"),
        (_ended("compute", ERRORS["crash"]), "other tasks"),
        (_ended("hang", ERRORS["exit"]), "tasks that hang"),
        (_ended("leak", None), "tasks that leak"),
        (_ended("crash", ("ProcessDied", "by SIGKILL")), "tasks that crash"),
        (_ended("exit", None), "tasks that exit"),
        (_moved, "process of what runs in threads"),
        (_one_core, "s on "),
    ],
)
def test_a_fault_is_found(change: Callable[[Seen], Seen], found: str) -> None:
    """Each by the check that is there for it."""
    assert any(found in what for what in _broken(change(_seen())))


def test_a_task_that_never_ended_is_found() -> None:
    """A computing task without an end."""
    seen = _seen()
    task = next(task for task, _ in tasks_due(BEGIN) if task.kind == "compute")
    open_one = TaskInfo(task.key, TaskState.RUNNING)
    seen = replace(seen, infos={**seen.infos, "compute": [open_one] * COUNTS["compute"]})
    assert len(_broken(seen)) == 2
    assert len([each for each in seen.starts if each.kind == "plain"]) == PLAIN
