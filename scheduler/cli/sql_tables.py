"""The tables for questions in SQL: of the live store, and of an export.

Decides their names and columns. The live ones are a copy of the tasks due within a window, made for
each question; they should be small, because each row of the window is read.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.links import group_id_of
from hourhand.actors.model.task.sealed import MEMBER as SEALED
from hourhand.actors.model.task.task import StoredTask
from hourhand.actors.model.values.errors import InvalidInput
from hourhand.actors.model.values.instant import format_instant, to_millis
from hourhand.scheduler.cli.sql_database import QueriedTable, ReadOnlyDatabase
from hourhand.scheduler.client.client import SchedulerClient
from hourhand.scheduler.tasks.task_info import TaskInfo

EXPORTED = ("tasks", "statuses", "attempts", "definitions", "outcomes", "owners", "log")

_KEY = {"scheduled_time": "TIMESTAMPTZ", "ordering_id": "VARCHAR", "uniqueness_key": "VARCHAR"}
_TASKS = QueriedTable(
    "tasks",
    {
        **_KEY,
        "kind": "VARCHAR",
        "priority": "INTEGER",
        "expires": "TIMESTAMPTZ",
        "state": "VARCHAR",
        "data": "JSON",
        "attempts": "INTEGER",
        "finished": "TIMESTAMPTZ",
        "moved_to": "TIMESTAMPTZ",
        "reason": "VARCHAR",
        "result": "JSON",
        "snoozed": "INTEGER",
        "follower": "VARCHAR",
        "group_id": "VARCHAR",
        "after": "JSON",
    },
)
_ATTEMPTS = QueriedTable(
    "attempts",
    {
        **_KEY,
        "attempt": "INTEGER",
        "result": "VARCHAR",
        "started": "TIMESTAMPTZ",
        "finished": "TIMESTAMPTZ",
        "next_attempt": "TIMESTAMPTZ",
        "error_class": "VARCHAR",
        "error_message": "VARCHAR",
        "snoozed": "INTEGER",
    },
)
_COMPLETIONS = "SELECT * FROM tasks WHERE finished IS NOT NULL"


_ANY_KEY = TaskKey(0, "any", "")


def fill_live(
    database: ReadOnlyDatabase,
    client: SchedulerClient,
    start: datetime,
    end: datetime,
    rows_max: int,
) -> None:
    """Copy the tasks due in ``start`` <= time < ``end``, and their attempts.

    Raises InvalidInput if there are more than ``rows_max``, and StoreUnavailable.
    """
    # Without a filter for states, closed tasks are listed as well as open ones.
    found = client.list_tasks(scheduled_from=start, scheduled_before=end, results=True)
    tasks = list(islice(found, rows_max + 1))
    if len(tasks) > rows_max:
        at = format_instant(to_millis(tasks[-1].key.scheduled_time))
        raise InvalidInput(
            f"the window holds more than {rows_max} tasks, those until {at} among them: narrow it"
            " with --from and --to, raise --rows-max, or ask an export"
        )
    database.fill(_TASKS, [_task_row(task) for task in tasks])
    database.fill(_ATTEMPTS, list(_attempt_rows(tasks)))
    database.show("completions", _COMPLETIONS)


def show_export(database: ReadOnlyDatabase, folder: Path) -> None:
    """Make a view of each table of an export; InvalidInput if the folder is not an export."""
    tables = [name for name in EXPORTED if any((folder / name).glob("*.parquet"))]
    if not (folder / "manifest").exists() or not tables:
        raise InvalidInput(
            f"{folder} holds no complete export: there is no manifest in it; run `hourhand pipeline"
            " export` to its end"
        )
    for name, (read, kind) in _READ.items():
        database.define(f"hourhand_{name}", _of_text(read), ["VARCHAR"], kind)
    database.define("hourhand_expires_ms", _expires_ms, ["VARCHAR", "BIGINT"], "BIGINT")
    for name in tables:
        files = folder / name / "*.parquet"
        there = database.columns_of_files(files)
        further = {
            each: value
            for each, (value, sources) in _FURTHER.get(name, {}).items()
            if each not in there and sources <= there
        }
        database.show_files(name, files, further)


def _task_row(task: TaskInfo) -> tuple[Any, ...]:
    return (
        *_key_of(task),
        task.kind,
        task.priority,
        task.expires_time,
        task.state.value,
        _data_text(task),
        len(task.attempts),
        task.finished_time,
        None if task.moved_to is None else task.moved_to.scheduled_time,
        task.reason,
        _result_text(task),
        task.attempts[-1].snoozed if task.attempts else 0,
        None if task.then is None else str(task.then),
        group_id_of(task.then),
        _after_text(task),
    )


def _data_text(task: TaskInfo) -> str | None:
    """Return data as in an export; for sealed data its codecs, under the same name."""
    if task.sealed is not None:
        return json.dumps({SEALED: task.sealed})
    return None if task.data is None else json.dumps(task.data)


def _result_text(task: TaskInfo) -> str | None:
    """Return the value that a task ended with; of a sealed one its codecs, as of data."""
    if task.result_sealed is not None:
        return json.dumps({SEALED: task.result_sealed})
    return None if task.result is None else json.dumps(task.result)


def _after_text(task: TaskInfo) -> str | None:
    """Return how the tasks before it ended; each has its result where it is itself."""
    if not task.after:
        return None
    ends = [
        {
            "key": str(end.key),
            "state": end.state,
            "finished": format_instant(end.finished_ms),
            "attempts": end.attempts,
            "reason": end.reason,
        }
        for end in task.after
    ]
    return json.dumps(ends)


def _of_text(read: Callable[[StoredTask], Any]) -> Callable[[str | None], Any]:
    """Return a function that reads something of the text of a row."""

    def of_text(text: str | None) -> Any:
        return None if text is None else read(StoredTask(_ANY_KEY, text.encode(), 0))

    return of_text


def _expires_ms(text: str | None, scheduled_ms: int) -> int | None:
    expiry = None if text is None else StoredTask(_ANY_KEY, text.encode(), 0).expiry
    return None if expiry is None else expiry.instant_ms(scheduled_ms)


def _follower_of(task: StoredTask) -> str | None:
    return None if task.links is None or task.links.follower is None else str(task.links.follower)


def _group_id_of(task: StoredTask) -> str | None:
    return None if task.links is None else group_id_of(task.links.follower)


def _attempt_rows(tasks: Iterable[TaskInfo]) -> Iterable[tuple[Any, ...]]:
    for task in tasks:
        for each in task.attempts:
            yield (
                *_key_of(task),
                each.attempt,
                each.result.value,
                each.started_time,
                each.finished_time,
                each.next_attempt_time,
                each.error_class,
                each.error_message,
                each.snoozed,
            )


def _key_of(task: TaskInfo) -> tuple[datetime, str, str]:
    return task.key.scheduled_time, task.key.ordering_id, task.key.uniqueness_key


_READ: Mapping[str, tuple[Callable[[StoredTask], Any], str]] = {
    "kind": (lambda task: task.kind, "VARCHAR"),
    "priority": (lambda task: task.priority, "INTEGER"),
    "follower": (_follower_of, "VARCHAR"),
    "group_id": (_group_id_of, "VARCHAR"),
}
_SNOOZED_TIMES = "coalesce(TRY_CAST(error_message AS INTEGER), 0)"
_OF_DATA = frozenset({"data"})
_FURTHER: Mapping[str, Mapping[str, tuple[str, frozenset[str]]]] = {
    "tasks": {
        **{name: (f"hourhand_{name}(data)", _OF_DATA) for name in _READ},
        "expires": (
            "make_timestamptz(hourhand_expires_ms(data, epoch_ms(scheduled_time)) * 1000)",
            _OF_DATA | {"scheduled_time"},
        ),
    },
    "statuses": {
        "state": (
            "CASE WHEN result = 'dropped' AND for_good THEN 'expired' ELSE result END",
            frozenset({"result", "for_good"}),
        )
    },
    "attempts": {
        "snoozed": (
            f"CASE WHEN error_class = 'hourhand.snoozed' THEN {_SNOOZED_TIMES} ELSE 0 END",
            frozenset({"error_class", "error_message"}),
        )
    },
}
"""The columns that an export's tables have besides those in its files, and what they are made of:
a question that does not name them reads nothing more."""
