"""Writes docs/http.md from the admin API's OpenAPI description, as the code has it."""

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from tests.tidy.openapi_descriptions import described_admin

_HEAD = """\
# HTTP

The paths of the admin API with their parameters. `GET /api/v1/openapi.json` also has the fields of
each answer; `make docs` writes this page from it. [Admin](admin.md) says who may ask and how an
action is confirmed. The [timer service](timers.md) has its own `/openapi.json`.

Times are RFC 3339, keys have their text form. A refusal is `application/problem+json` with a
stable `code`. A star marks a required value. These mean the same on each path:
"""
_SHARED = {
    "dryRun": "true for a preview that changes nothing",
    "expected": "the number of the preview; another number by now is refused",
    "reason": "text for the audit log",
    "waitS": "seconds to wait for the outcomes, 0 to 30; 5 without",
    "limit": "the most entries of a page",
    "state": "one or more states, as in `hourhand list --state` ([commands](cli.md))",
    "states": "the same",
    "after": "the `nextAfter` of the page before; of attempts a number",
    "data": "true to show data, too",
    "system": "true to list Hourhand's own tasks; those of an `orderingId` are always listed",
}
"""Fields with one meaning on every path, of which a path repeats only the name."""
_PLAIN = {
    "any",
    "`FollowerBody`",
    "list of string (date)",
    "list of string (delivery-key)",
    "list of string (task-key)",
    "list of string (task-name)",
    "string (cron)",
    "string (date-time)",
    "string (task-key)",
    "string (time-zone)",
    "boolean; default false",
    "integer",
    "list of string",
    "number",
    "object",
    "string",
}
"""Types of values that their name explains."""
_TOLD_FORMATS = {"date-time", "task-key"}
"""Formats that the head explains."""


def http_page() -> str:
    """Return the page: a section for each path and method, then the parts of bodies."""
    described = described_admin()
    schemas = described["components"]["schemas"]
    lines = [_HEAD, *(f"- `{name}`: {meaning}" for name, meaning in _SHARED.items()), ""]
    bodies = []
    for path, methods in sorted(described["paths"].items()):
        for method, operation in sorted(methods.items()):
            lines += [f"## {method.upper()} {path}", "", f"{operation['summary']}.", ""]
            lines += _listed(chain(_parameters(operation, schemas), _fields(operation, schemas)))
            bodies.append(operation.get("requestBody", {}))
    lines += ["## Parts of bodies", ""]
    for name in sorted(_named(bodies, schemas) - _bodies(bodies)):
        lines += [f"### {name}", "", _plain(schemas[name]["description"]), ""]
        lines += _listed(_properties(schemas[name], schemas))
    return "\n".join(lines).rstrip() + "\n"


def _listed(rows: Iterator[tuple[str, str]]) -> list[str]:
    """Return a list of what belongs to a path or part, and a line of those that need no word."""
    every = [*rows]
    plain = [name for name, meaning in every if meaning in _PLAIN or name.strip("` *") in _SHARED]
    own = [f"- {name}: {meaning}" for name, meaning in every if name not in plain]
    if plain:
        own.append(f"- {', '.join(plain)}")
    return [*own, ""] if own else []


def _parameters(
    operation: Mapping[str, Any], schemas: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    for each in operation.get("parameters", []):
        yield (
            _name(each["name"], required=each.get("required", False)),
            _shape(each["schema"], each.get("description", ""), schemas),
        )


def _fields(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        yield from _properties(schemas[_referred(content["schema"])], schemas)


def _properties(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, each in sorted(schema["properties"].items()):
        required = name in schema.get("required", [])
        yield _name(name, required=required), _shape(each, each.get("description", ""), schemas)


def _bodies(bodies: list[Any]) -> set[str]:
    """Return the objects that are a whole body, whose fields stand at its path."""
    return {
        _referred(content["schema"])
        for body in bodies
        for content in body.get("content", {}).values()
    }


def _named(paths: object, schemas: Mapping[str, Any]) -> set[str]:
    """Return the objects that the paths refer to, and those that these refer to."""
    found: set[str] = set()
    left = [paths]
    while left:
        names = {name for name in _references(left.pop()) if "properties" in schemas.get(name, ())}
        left += [schemas[name] for name in names - found]
        found |= names
    return found


def _references(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for name, each in value.items():
            if name == "$ref":
                yield str(each).rpartition("/")[2]
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def _name(name: str, *, required: bool) -> str:
    return f"`{name}`{' *' if required else ''}"


def _referred(schema: Mapping[str, Any]) -> str:
    return str(schema["$ref"]).rpartition("/")[2]


def _shape(schema: Mapping[str, Any], meaning: str, schemas: Mapping[str, Any]) -> str:
    """Return type, bounds, default and meaning of a value, in words."""
    words = [_type(schema, schemas)]
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        words.append(f"{low:g} to {high:g}")
    if schema.get("default") not in (None, "", []):
        words.append(f"default {json.dumps(schema['default'])}")
    if meaning and schema.get("format") not in _TOLD_FORMATS:
        words.append(_plain(meaning))
    return "; ".join(words)


def _plain(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")


def _type(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    if "anyOf" in schema:
        kinds = [each for each in schema["anyOf"] if each.get("type") != "null"]
        return " or ".join(_type(each, schemas) for each in kinds)
    if "$ref" in schema:
        referred = schemas[_referred(schema)]
        return f"`{_referred(schema)}`" if "properties" in referred else _type(referred, schemas)
    if "enum" in schema:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items') or {}, schemas)}"
    kind = str(schema.get("const", schema.get("type", "any")))
    return f"{kind} ({schema['format']})" if "format" in schema else kind
