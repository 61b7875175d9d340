"""Finds the first difference between a payload and its value after the transfer.

Two values are the same if they are equal, in objects of the same class with the same fields. It
never converts anything.
"""

import dataclasses
from collections.abc import Iterable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, TypeGuard

import msgspec
from pydantic import BaseModel

from hourhand.actors.model.values.display import shown

_PLAIN = frozenset({str, int, float, bool, type(None)})
"""Types whose equal values are the same."""


def difference(sent: object, arrived: object, path: str = "") -> str | None:
    """Return the place of the first difference, and the value that would arrive; None without one.

    Raises the errors of the caller's own ``__eq__``.
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
        # Objects without an equality of their own are compared by their parts.
        return difference(getattr(sent, "__dict__", {}), getattr(arrived, "__dict__", {})) is None
    if _is_aware(sent) and _is_aware(arrived):
        # A time at which clocks change equals no time of another zone, so instants are compared.
        return sent - arrived == timedelta(0)
    # Two values that are not a number are not equal to themselves.
    return bool(sent == arrived or (sent != sent and arrived != arrived))  # noqa: PLR0124


def _is_aware(value: object) -> TypeGuard[datetime]:
    return isinstance(value, datetime) and value.utcoffset() is not None


@lru_cache(maxsize=1_000)
def _fields(kind: Any) -> tuple[str, ...] | None:
    """Return the names of an object's parts; None for a value that is compared whole."""
    if issubclass(kind, BaseModel):
        return tuple(kind.model_fields)
    if issubclass(kind, msgspec.Struct):
        names: tuple[str, ...] = kind.__struct_fields__
        return names
    if dataclasses.is_dataclass(kind):
        # A field that is neither given nor compared is one of the object's own, such as a cache.
        return tuple(each.name for each in dataclasses.fields(kind) if each.init or each.compare)
    return None


def _values(value: object, fields: Iterable[str]) -> list[object]:
    return [getattr(value, name, None) for name in fields]


def _first(
    path: str, names: Iterable[object], sent: Iterable[object], arrived: Iterable[object]
) -> str | None:
    for name, one, other in zip(names, sent, arrived, strict=True):
        # Most values are plain and the same; only a difference needs a path.
        if type(one) in _PLAIN and type(one) is type(other) and one == other:
            continue
        found = difference(one, other, _within(path, name))
        if found is not None:
            return found
    return None


def _within(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _said(path: str, arrived: object) -> str:
    # The sent value is not shown: a serializer may mask it.
    return f"{path[:80] or 'the payload'} would arrive as {shown(arrived)}"
