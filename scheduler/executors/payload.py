"""Between a function's typed payload and the JSON object of a task's data.

The type is the annotation of the function's first parameter: a pydantic model, a dataclass, a
TypedDict, a msgspec Struct, or a dictionary.  Decides what fits; what does not is refused when it
is scheduled, and is a failed attempt, which names the field, when it is run.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import msgspec
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from actors.model.display import shown
from actors.model.errors import InvalidExecutor, PayloadInvalid
from actors.model.task import Task

_PROBLEMS_MAX = 5


class Payload:
    """The conversion for one type."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation
        is_struct = isinstance(annotation, type) and issubclass(annotation, msgspec.Struct)
        # Below Python 3.12 pydantic reads no TypedDict of the standard library.
        self._by_msgspec = is_struct or is_typeddict(annotation)
        self._adapter: TypeAdapter[Any] | None = None

    def to_data(self, payload: object) -> dict[str, Any]:
        """Return a payload as the data of a task; PayloadInvalid where it does not fit."""
        try:
            if self._by_msgspec:
                known = msgspec.convert(payload, self._annotation, from_attributes=True)
                data = msgspec.to_builtins(known)
            else:
                adapter = self._adapted()
                data = adapter.dump_python(adapter.validate_python(payload), mode="json")
        except (ValidationError, msgspec.ValidationError) as error:
            raise self._invalid(error) from None
        except (PydanticSerializationError, TypeError, ValueError) as error:
            raise PayloadInvalid(f"{self._name} cannot be written as JSON: {error}") from error
        if not isinstance(data, dict):
            raise PayloadInvalid(
                f"a payload is written as a JSON object, {self._name} gave {shown(data)}"
            )
        return data

    def from_data(self, data: dict[str, Any]) -> Any:
        """Return the payload that a task's data holds; PayloadInvalid where it does not fit."""
        try:
            if self._by_msgspec:
                return msgspec.convert(data, self._annotation)
            return self._adapted().validate_python(data)
        except (ValidationError, msgspec.ValidationError) as error:
            raise self._invalid(error) from None

    @property
    def _name(self) -> str:
        return getattr(self._annotation, "__name__", str(self._annotation))

    def _adapted(self) -> TypeAdapter[Any]:
        if self._adapter is None:
            # Built when first used: a module that only defines functions need not wait.
            self._adapter = TypeAdapter(self._annotation)
        return self._adapter

    def _invalid(self, error: ValidationError | msgspec.ValidationError) -> PayloadInvalid:
        if isinstance(error, msgspec.ValidationError):
            return PayloadInvalid(f"the data does not fit {self._name}: {error}")
        problems = [
            f"{'.'.join(map(str, each['loc'])) or self._name}: {each['msg']},"
            f" got {shown(each['input'])}"
            for each in error.errors(include_url=False)[:_PROBLEMS_MAX]
        ]
        return PayloadInvalid(f"the data does not fit {self._name}: {'; '.join(problems)}")


class Signature:
    """What a registered function takes: a payload, the task itself, both, or nothing.

    Raises InvalidExecutor where a function takes anything else.
    """

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        self._name = name
        self._function = function
        self._positions: list[Payload | None] | None = None
        """For each parameter the payload's conversion, None for the task."""
        parameters = list(inspect.signature(function).parameters.values())
        for each in parameters:
            if each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.KEYWORD_ONLY):
                raise InvalidExecutor(
                    f"{name}: the parameter {each.name!r} cannot be filled: a task's function takes"
                    " a payload, the task, or both: def f(payload: Invoice, task: Task)"
                )
        self._parameters = parameters

    def arguments(self, task: Task) -> list[Any]:
        """Return what the function is called with; PayloadInvalid where the data does not fit."""
        return [
            task if payload is None else payload.from_data(task.data)
            for payload in self._resolved()
        ]

    def to_data(self, payload: object) -> dict[str, Any]:
        """Return the data of a task that is scheduled with a payload, None for an empty one."""
        found = next((each for each in self._resolved() if each is not None), None)
        if found is not None:
            return found.to_data(payload)
        if payload is None:
            return {}
        if not (self._parameters and isinstance(payload, dict)):
            raise PayloadInvalid(f"{self._name} takes no such payload, got {shown(payload)}")
        return payload

    def _resolved(self) -> list[Payload | None]:
        """Look the annotations up, which may name what is defined after the function."""
        if self._positions is None:
            try:
                hints = get_type_hints(self._function, include_extras=True)
            except Exception as error:
                raise InvalidExecutor(
                    f"{self._name}: the annotations of its function cannot be read: {error}"
                ) from error
            found = [self._annotation(hints.get(each.name)) for each in self._parameters]
            positions = [None if each is Task else Payload(each) for each in found]
            if sum(each is not None for each in positions) > 1:
                raise InvalidExecutor(
                    f"{self._name}: its function takes more than one payload: put them into one"
                    " model or dataclass"
                )
            self._positions = positions
        return self._positions

    def _annotation(self, hint: Any) -> Any:
        """Return what a parameter takes, from its annotation."""
        return dict[str, Any] if hint is None else hint


class BatchSignature(Signature):
    """What a registered function of a batch takes: a list of payloads, or of tasks.

    Raises InvalidExecutor where it takes anything else.
    """

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        super().__init__(name, function)
        if len(self._parameters) != 1:
            raise InvalidExecutor(
                f"{name}: the function of a batch takes one list: def f(rows: list[Row])"
            )

    def _annotation(self, hint: Any) -> Any:
        if hint is None:
            return dict[str, Any]
        elements = get_args(hint)
        if get_origin(hint) not in (list, Sequence) or len(elements) != 1:
            raise InvalidExecutor(
                f"{self._name}: the function of a batch takes a list of payloads or of tasks, as"
                f" list[Row], got {shown(hint)}"
            )
        return elements[0]
