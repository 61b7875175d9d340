"""The answers of ``scheduler.admin`` as text and as JSON.

Decides columns.  JSON never holds what the text leaves out by accident.
"""

import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from scheduler.admin.answers import Answer, ShownTask
from scheduler.reading.inspector import TaskListing, TaskView


class OutputFormat(StrEnum):
    """How results are printed."""

    TEXT = "text"
    JSON = "json"


def as_json(value: object) -> str:
    """Return ``value`` as one line of JSON, whatever its ids hold."""
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":"))


def facts_of(answer: Answer) -> dict[str, Any]:
    """Return the fields of an answer by their names in JSON."""
    facts: dict[str, Any] = msgspec.to_builtins(answer)
    return facts


def view_lines(view: TaskView) -> Iterator[str]:
    """Yield a task as text, one fact a line, attempts last."""
    value = facts_of(ShownTask.of(view))
    attempts = value.pop("attempts")
    completion = value.pop("completion", {})
    if "taskData" in value:
        value["taskData"] = as_json(value["taskData"])
    yield from fact_lines(
        {**value, **{f"completion.{name}": fact for name, fact in completion.items()}}
    )
    for attempt in attempts:
        stack = attempt.pop("errorStack", None)
        shown = "  ".join(f"{name}={_one_line(fact)}" for name, fact in attempt.items())
        yield f"attempt  {shown}"
        if stack:
            yield from (f"    {line}" for line in stack.splitlines())


def fact_lines(facts: Mapping[str, object]) -> Iterator[str]:
    """Yield facts as text, one a line, names in a column of their own."""
    width = max(map(len, facts))
    for name, fact in facts.items():
        yield f"{name:<{width}}  {_one_line(fact)}"


def listing_lines(listing: TaskListing) -> Iterator[str]:
    """Yield a page of tasks as text, one task a line, under a heading."""
    yield f"{'STATE':<10} {'ATTEMPTS':>8} {'PARTITION':>9}  KEY"
    for view in listing.tasks:
        attempts = max(
            [view.completion.attempts if view.completion else 0]
            + [attempt.attempt for attempt in view.attempts]
        )
        yield f"{view.state.value:<10} {attempts:>8} {view.partition:>9}  {view.key}"


def _one_line(fact: object) -> str:
    """Return text that cannot move a terminal's cursor or pass for another line."""
    text = fact if isinstance(fact, str) else as_json(fact)
    return text if text.isprintable() else as_json(text)
