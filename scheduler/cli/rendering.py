"""The complete answers of ``hourhand.scheduler.admin`` as JSON."""

import json
from enum import StrEnum
from typing import Any

import msgspec

from hourhand.scheduler.admin.answers import Answer


class OutputFormat(StrEnum):
    """The format of printed results."""

    TEXT = "text"
    JSON = "json"


def as_json(value: object) -> str:
    """Return ``value`` as one line of JSON, also if ids hold line breaks."""
    return json.dumps(msgspec.to_builtins(value), separators=(",", ":"))


def facts_of(answer: Answer) -> dict[str, Any]:
    """Return the fields of an answer by their names in JSON."""
    facts: dict[str, Any] = msgspec.to_builtins(answer)
    return facts
