"""What the HTTP doors answer is typed: OpenAPI has a schema for it, and the code says it."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

import pytest
from msgspec import UNSET, UnsetType
from msgspec.structs import fields

from hourhand.scheduler.admin.answers import Answer
from tests.tidy.openapi_descriptions import described_admin, described_timers
from tests.tidy.source import report, sources

UNTYPED_MAX = 4
"""Times that ``dict[str, Any]`` may stand in the admin's code: for settings, by their own names."""


def _untyped(described: Mapping[str, Any]) -> Iterator[str]:
    """Yield the answers of 2xx without a schema that says what they are."""
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            for status, answer in operation["responses"].items():
                if not status.startswith("2"):
                    continue
                for kind, content in answer.get("content", {}).items():
                    schema = content.get("schema") or {}
                    if not schema.keys() & {"$ref", "anyOf", "type"} or schema == {
                        "type": "object"
                    }:
                        yield f"{method.upper()} {path} answers {status} {kind} without a schema"


@pytest.mark.parametrize("described", [described_admin, described_timers])
def test_every_answer_has_a_schema(described: Callable[[], dict[str, Any]]) -> None:
    """Whoever writes a client sees what comes."""
    report(_untyped(described()))


def test_an_answer_without_a_schema_is_found() -> None:
    """As they were before they were typed."""
    untyped = {"200": {"content": {"application/json": {"schema": {"type": "object"}}}}}

    assert list(_untyped({"paths": {"/a": {"get": {"responses": untyped}}}}))


def test_a_field_that_may_be_left_out_is_not_required() -> None:
    """Without a default the schema would require it."""
    described_admin()
    left = Answer.__subclasses__()
    while left:
        struct = left.pop()
        left += struct.__subclasses__()
        for field in fields(struct):
            if UnsetType in get_args(field.type):
                assert field.default is UNSET, f"{struct.__name__}.{field.name} needs = UNSET"


def test_the_admin_hands_round_no_dicts_of_anything() -> None:
    """A struct says which fields there are."""
    count = sum(
        source.text.count("dict[str, Any]")
        for source in sources("scheduler")
        if source.name.startswith("scheduler/admin/")
    )

    assert count <= UNTYPED_MAX, f"dict[str, Any] stands {count} times in scheduler/admin"
