"""The answers of ``scheduler.admin`` as JSON, which leaves nothing out."""

import json
from enum import StrEnum
from typing import Any

import msgspec

from scheduler.admin.answers import Answer


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
