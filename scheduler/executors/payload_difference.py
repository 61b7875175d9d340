"""The first difference between a payload and what would arrive of it.

Decides what counts as the same: values that are equal, in objects of the same class with the same
fields.  Never converts anything.
"""

import dataclasses
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec
from pydantic import BaseModel

from actors.model.display import shown

_PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types whose values are the same where they are equal."""


def difference(sent: object, arrived: object, path: str = "") -> str | None:
    """Return where two payloads differ, and what would arrive there; None where they are the same.

    What the caller's own ``__eq__`` raises comes through.
    """
    kind: Any = type(sent)
    if sent is arrived or (kind in _PLAIN and kind is type(arrived) and sent == arrived):
        return None
    if isinstance(sent, dict) and isinstance(arrived, dict):
        for name in {**sent, **arrived}:
            if (name in sent) != (name in arrived):
                return _said(_within(path, name), arrived.get(name, "nothing"))
        return _first(path, sent, sent.values(), [arrived[name] for name in sent])
    for ordered in (list, tuple):
        if isinstance(sent, ordered) and isinstance(arrived, ordered):
            if len(sent) != len(arrived):
                return _said(path, arrived)
            return _first(path, range(len(sent)), sent, arrived)
    fields = _fields(kind)
    if fields is not None:
        if kind is not type(arrived):
            return _said(path, arrived)
        if isinstance(sent, BaseModel):
            fields = (*fields, *(sent.__pydantic_extra__ or ()))
        return _first(path, fields, _values(sent, fields), _values(arrived, fields))
    return None if _equal(sent, arrived) else _said(path, arrived)


def _equal(sent: object, arrived: object) -> bool:
    if isinstance(sent, bool) is not isinstance(arrived, bool):
        return False
    if type(sent) is type(arrived) and type(sent).__eq__ is object.__eq__:
        # Objects of which nothing tells whether they are equal, but what they are made of.
        return difference(getattr(sent, "__dict__", {}), getattr(arrived, "__dict__", {})) is None
    # Two values that are not a number are not equal to themselves.
    return bool(sent == arrived or (sent != sent and arrived != arrived))  # noqa: PLR0124


@lru_cache(maxsize=1_000)
def _fields(kind: Any) -> tuple[str, ...] | None:
    """Return the names of what an object is made of; None for a value that is compared whole."""
    if issubclass(kind, BaseModel):
        return tuple(kind.model_fields)
    if issubclass(kind, msgspec.Struct):
        names: tuple[str, ...] = kind.__struct_fields__
        return names
    if dataclasses.is_dataclass(kind):
        return tuple(each.name for each in dataclasses.fields(kind) if each.init)
    return None


def _values(value: object, fields: Iterable[str]) -> list[object]:
    return [getattr(value, name, None) for name in fields]


def _first(
    path: str, names: Iterable[object], sent: Iterable[object], arrived: Iterable[object]
) -> str | None:
    for name, one, other in zip(names, sent, arrived, strict=True):
        # Most are plain and the same, and a path is only needed where one is not.
        if type(one) in _PLAIN and type(one) is type(other) and one == other:
            continue
        found = difference(one, other, _within(path, name))
        if found is not None:
            return found
    return None


def _within(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _said(path: str, arrived: object) -> str:
    # Not what was sent: it may be what a serializer masks.
    return f"{path[:80] or 'the payload'} would arrive as {shown(arrived)}"
