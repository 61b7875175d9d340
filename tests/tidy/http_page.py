"""Writes docs/http.md from ``schema/http/admin.json``, which is written from the code."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from tests.tidy.openapi_page import openapi_page

_HEAD = """\
# HTTP

The admin API, as `make docs` reads it from its OpenAPI description, `schema/http/admin.json`. What
it answers, who may ask and what an action does is in [admin](admin.md). The timer service has
[a page of its own](timers.md), with recurring schedules over HTTP; a running one describes itself
under `/openapi.json`. Health and metrics of a node are in [metrics](metrics.md).

Times are RFC 3339. A refusal is `application/problem+json` with a stable `code`. A star marks what
must be given.
"""


def http_page() -> str:
    """Return the page: a section for each path and method."""
    described = json.loads(openapi_page())
    schemas = described["components"]["schemas"]
    lines = [_HEAD]
    for path, methods in sorted(described["paths"].items()):
        for method, operation in sorted(methods.items()):
            lines += [f"## {method.upper()} {path}", "", f"{operation['summary']}.", ""]
            lines += _table("parameter", _parameters(operation, schemas))
            lines += _table("field of the body", _fields(operation, schemas))
            lines += [f"Answers {_answered(operation, schemas)}.", ""]
    lines += ["## Parts of bodies and answers", ""]
    for name in sorted(_named(described["paths"], schemas)):
        lines += [f"### {name}", "", _plain(schemas[name]["description"]), ""]
        lines += _table("field", _properties(schemas[name], schemas))
    return "\n".join(lines).rstrip() + "\n"


def _table(what: str, rows: Iterator[tuple[str, str]]) -> list[str]:
    shown = [f"| {name} | {meaning} |" for name, meaning in rows]
    return [f"| {what} | |", "|---|---|", *shown, ""] if shown else []


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
    for name, each in schema["properties"].items():
        required = name in schema.get("required", [])
        yield _name(name, required=required), _shape(each, each.get("description", ""), schemas)


def _answered(operation: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    (content,) = operation["responses"]["200"]["content"].values()
    return _type(content["schema"], schemas)


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
    if meaning:
        words.append(_plain(meaning))
    return "; ".join(words).replace("|", "\\|")


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
