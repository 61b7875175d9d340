"""Converts one type between payloads and JSON, by the library that defines the type.

Decides how a type is written and read; the caller checks that both fit.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, get_args, get_origin, is_typeddict

import msgspec
from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError

from hourhand.actors.model.task.codec import encode_object
from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import InvalidExecutor

_ANYTHING: tuple[Any, ...] = (Any, object)


class PayloadType(Protocol):
    """One type."""

    def known(self, payload: object) -> Any:
        """Return a caller's payload as a value of the type; raises the library's error."""

    def written(self, known: Any) -> Iterator[object]:
        """Yield forms of JSON values, the preferred one first."""

    def read(self, data: dict[str, Any]) -> Any:
        """Return the value that such a form stands for; raises the library's error."""


def payload_type(annotation: Any) -> PayloadType:
    """Return the conversion for an annotation."""
    if _is_plain_dict(annotation):
        return _PlainDict()
    is_struct = isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)
    # Below Python 3.12 pydantic reads no TypedDict of the standard library.
    if is_struct or is_typeddict(annotation):
        return _Msgspec(annotation)
    return _Pydantic(annotation)


def _is_plain_dict(annotation: Any) -> bool:
    if annotation is dict:
        return True
    arguments = get_args(annotation)
    return get_origin(annotation) is dict and arguments[0] is str and arguments[1] in _ANYTHING


class _PlainDict:
    """A dictionary of any JSON values, which ``Task`` validates."""

    def known(self, payload: object) -> Any:
        if not isinstance(payload, Mapping):
            raise TypeError(f"a dictionary is needed, not {type(payload).__name__}")
        return payload if type(payload) is dict else dict(payload)

    def written(self, known: Any) -> Iterator[object]:
        yield known

    def read(self, data: dict[str, Any]) -> Any:
        return data


class _Msgspec:
    """A Struct or TypedDict."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    def known(self, payload: object) -> Any:
        converted = msgspec.convert(payload, self._annotation, from_attributes=True)
        # A value of the type itself is compared unchanged: the conversion would drop fields of a
        # subclass, and unknown keys of a TypedDict.
        is_given = isinstance(payload, msgspec.Struct) or is_typeddict(self._annotation)
        return payload if is_given else converted

    def written(self, known: Any) -> Iterator[object]:
        yield msgspec.to_builtins(
            msgspec.convert(known, self._annotation, from_attributes=True), str_keys=True
        )

    def read(self, data: dict[str, Any]) -> Any:
        return msgspec.convert(data, self._annotation)


class _Pydantic:
    """A model, a dataclass, or another type that pydantic knows."""

    def __init__(self, annotation: Any) -> None:
        # Built at the first use: a module that only defines functions need not wait.
        self._annotation = annotation
        self._adapter: TypeAdapter[Any] | None = None

    def known(self, payload: object) -> Any:
        return self._adapted().validate_python(payload, by_alias=True, by_name=True)

    def written(self, known: Any) -> Iterator[object]:
        # By name, because every field can be read by it; by alias where a name is another field's
        # alias.
        for by_alias in (False, True):
            yield self._adapted().dump_python(
                known, mode="json", by_alias=by_alias, round_trip=True, warnings="none"
            )

    def read(self, data: dict[str, Any]) -> Any:
        # As JSON, in which a strict model takes a text for a time.
        return self._adapted().validate_json(encode_object(data), by_alias=True, by_name=True)

    def _adapted(self) -> TypeAdapter[Any]:
        if self._adapter is None:
            try:
                self._adapter = TypeAdapter(self._annotation)
            except PydanticSchemaGenerationError:
                raise InvalidExecutor(
                    f"{shown(self._annotation)} is not a type of payloads: write it as a dataclass,"
                    " a pydantic model, a TypedDict or a msgspec Struct, with fields that are of"
                    " such types or of JSON's"
                ) from None
        return self._adapter
