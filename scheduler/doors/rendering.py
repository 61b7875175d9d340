"""Tasks, receipts and outcomes as JSON values and as text.

Decides field names (those of the log's records, where both have one) and columns.  Times are
RFC 3339, and JSON never holds what the text leaves out by accident.
"""

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

from actors.model.instant import format_instant
from actors.model.status import AttemptRecord, Completion, RecordedOutcome
from scheduler.client import Receipt
from scheduler.inspector import TaskListing, TaskView


class OutputFormat(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


def as_json(value: object) -> str:
    """Return ``value`` as one line of JSON, whatever its ids hold."""
    return json.dumps(value, separators=(",", ":"))


def receipt_value(receipt: Receipt) -> dict[str, Any]:
    """Return a receipt's JSON value."""
    return {
        "key": str(receipt.key),
        "partition": receipt.partition,
        "offset": receipt.offset,
    }


def outcome_value(outcome: RecordedOutcome | None) -> dict[str, Any]:
    """Return an outcome's JSON value; ``undecided`` where there is none yet."""
    if outcome is None:
        return {"outcome": "undecided"}
    value = {"outcome": outcome.outcome.value, "key": str(outcome.key)}
    if outcome.new_key is not None:
        value["newKey"] = str(outcome.new_key)
    return value


def view_value(view: TaskView) -> dict[str, Any]:
    """Return everything known of a task as a JSON value."""
    value: dict[str, Any] = {
        "key": str(view.key),
        "orderingId": view.key.ordering_id,
        "scheduledTime": format_instant(view.key.scheduled_ms),
        "uniquenessKey": view.key.uniqueness_key,
        "partition": view.partition,
        "state": view.state.value,
    }
    if view.task is not None:
        value["taskData"] = json.loads(view.task.data)
        value["offset"] = view.task.offset
    if view.completion is not None:
        value["completion"] = _completion_value(view.completion)
    value["attempts"] = [_attempt_value(attempt) for attempt in view.attempts]
    return value


def listing_value(listing: TaskListing) -> dict[str, Any]:
    """Return a page of tasks as a JSON value."""
    return {
        "tasks": [view_value(view) for view in listing.tasks],
        "nextAfter": None if listing.next_after is None else str(listing.next_after),
    }


def view_lines(view: TaskView) -> Iterator[str]:
    """Yield a task as text, one fact a line, attempts last."""
    value = view_value(view)
    attempts = value.pop("attempts")
    completion = value.pop("completion", {})
    if "taskData" in value:
        value["taskData"] = as_json(value["taskData"])
    facts = {**value, **{f"completion.{name}": fact for name, fact in completion.items()}}
    width = max(map(len, facts))
    for name, fact in facts.items():
        yield f"{name:<{width}}  {_one_line(fact)}"
    for attempt in attempts:
        stack = attempt.pop("errorStack", None)
        shown = "  ".join(f"{name}={_one_line(fact)}" for name, fact in attempt.items())
        yield f"attempt  {shown}"
        if stack:
            yield from (f"    {line}" for line in stack.splitlines())


def listing_lines(listing: TaskListing) -> Iterator[str]:
    """Yield a page of tasks as text, one task a line, under a heading."""
    yield f"{'STATE':<10} {'ATTEMPTS':>8} {'PARTITION':>9}  KEY"
    for view in listing.tasks:
        attempts = max(
            [view.completion.attempts if view.completion else 0]
            + [attempt.attempt for attempt in view.attempts]
        )
        yield f"{view.state.value:<10} {attempts:>8} {view.partition:>9}  {view.key}"


def _completion_value(completion: Completion) -> dict[str, Any]:
    value: dict[str, Any] = {
        "result": completion.result.value,
        "offset": completion.offset,
        "attempts": completion.attempts,
        "started": _instant(completion.started_ms),
        "finished": _instant(completion.finished_ms),
        "movedTo": _instant(completion.moved_to_ms),
        "reason": completion.reason,
    }
    return _without_none(value)


def _attempt_value(attempt: AttemptRecord) -> dict[str, Any]:
    value: dict[str, Any] = {
        "attempt": attempt.attempt,
        "result": attempt.result.value,
        "started": _instant(attempt.started_ms),
        "finished": _instant(attempt.finished_ms),
        "nextAttempt": _instant(attempt.next_attempt_ms),
        "errorClass": attempt.error_class,
        "errorMessage": attempt.error_message,
        "errorStack": attempt.error_stack,
        "fence": attempt.fence,
    }
    return _without_none(value)


def _without_none(value: dict[str, Any]) -> dict[str, Any]:
    return {name: fact for name, fact in value.items() if fact is not None}


def _instant(time_ms: int | None) -> str | None:
    return None if time_ms is None else format_instant(time_ms)


def _one_line(fact: object) -> str:
    """Return text that cannot move a terminal's cursor or pass for another line."""
    text = str(fact)
    return text if text.isprintable() else as_json(text)
