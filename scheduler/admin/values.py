"""Tasks, receipts and outcomes as JSON values: the one form of API and command line.

Decides field names (those of the log's records, where both have one).  Times are RFC 3339.
"""

import base64
import json
from typing import Any

from actors.model.instant import INSTANT_MAX_MS, INSTANT_MIN_MS, format_instant
from actors.model.status import AttemptRecord, Completion, RecordedOutcome
from scheduler.reading.inspector import TaskListing, TaskView
from scheduler.records.receipt import Receipt

_SHOWN_BYTES_MAX = 10_000


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


def view_value(view: TaskView, *, data: bool = True) -> dict[str, Any]:
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
        if data:
            value["taskData"] = json.loads(view.task.data)
        value["offset"] = view.task.offset
    if view.completion is not None:
        value["completion"] = completion_value(view.completion)
    value["attempts"] = [attempt_value(attempt) for attempt in view.attempts]
    return value


def listing_value(listing: TaskListing, *, data: bool = True) -> dict[str, Any]:
    """Return a page of tasks as a JSON value."""
    return {
        "tasks": [view_value(view, data=data) for view in listing.tasks],
        "nextAfter": None if listing.next_after is None else str(listing.next_after),
    }


def completion_value(completion: Completion) -> dict[str, Any]:
    """Return how a key was closed as a JSON value."""
    value: dict[str, Any] = {
        "result": completion.result.value,
        "offset": completion.offset,
        "attempts": completion.attempts,
        "started": instant_value(completion.started_ms),
        "finished": instant_value(completion.finished_ms),
        "movedTo": instant_value(completion.moved_to_ms),
        "reason": completion.reason,
    }
    return without_none(value)


def attempt_value(attempt: AttemptRecord) -> dict[str, Any]:
    """Return one attempt as a JSON value."""
    value: dict[str, Any] = {
        "attempt": attempt.attempt,
        "result": attempt.result.value,
        "started": instant_value(attempt.started_ms),
        "finished": instant_value(attempt.finished_ms),
        "nextAttempt": instant_value(attempt.next_attempt_ms),
        "errorClass": attempt.error_class,
        "errorMessage": attempt.error_message,
        "errorStack": attempt.error_stack,
        "fence": attempt.fence,
    }
    return without_none(value)


def without_none(value: dict[str, Any]) -> dict[str, Any]:
    """Leave out what has no value."""
    return {name: fact for name, fact in value.items() if fact is not None}


def instant_value(time_ms: int | None) -> str | None:
    """Return a time as text; None for none, and for one beyond every calendar."""
    if time_ms is None or not INSTANT_MIN_MS <= time_ms <= INSTANT_MAX_MS:
        return None
    return format_instant(time_ms)


def bytes_value(value: bytes | None) -> dict[str, Any] | None:
    """Return bytes as a JSON value, cut; those that are no text in base64."""
    if value is None:
        return None
    cut = value[:_SHOWN_BYTES_MAX]
    more = {"bytes": len(value)} if len(cut) < len(value) else {}
    try:
        return {"text": cut.decode(), **more}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(cut).decode(), **more}
