"""Converts between a function's typed payload and the JSON object of a task's data.

The type is the annotation of the function's first parameter: a pydantic model, a dataclass, a
TypedDict, a msgspec Struct, or a dictionary. A payload that does not fit, or would arrive with
another value, is refused when it is scheduled; data that does not fit is a failed attempt, which
names the field.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
from pydantic import ValidationError

from hourhand.actors.model.task.task import Task
from hourhand.actors.model.values.display import message_of, shown
from hourhand.actors.model.values.errors import InvalidExecutor, PayloadInvalid
from hourhand.actors.model.values.problem_words import problems_text
from hourhand.scheduler.executors.payload_difference import difference
from hourhand.scheduler.executors.payload_types import payload_type


class Payload:
    """The conversion for one type."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation
        self._type = payload_type(annotation)

    def to_data(self, payload: object) -> dict[str, Any]:
        """Return a payload as the data of a task.

        PayloadInvalid if it does not fit, or would arrive as another value; InvalidExecutor if the
        type is not one of payloads.
        """
        try:
            known = self._type.known(payload)
            return self._arriving(known)
        except (PayloadInvalid, InvalidExecutor):
            raise
        except (ValidationError, msgspec.ValidationError) as error:
            raise self._invalid(error) from None
        except Exception as error:
            # Validators, serializers and comparisons are the caller's code.
            kind = type(error).__name__
            raise PayloadInvalid(
                f"{self._name} cannot be written as JSON: {kind}: {message_of(error)}"
            ) from error

    def from_data(self, data: dict[str, Any]) -> Any:
        """Return the payload in a task's data; PayloadInvalid if it does not fit."""
        try:
            return self._type.read(data)
        except (ValidationError, msgspec.ValidationError) as error:
            told = self._invalid(error)
            raise PayloadInvalid(
                f"{told}: whoever scheduled the task sent it so, or the type has changed since"
            ) from None

    def _arriving(self, known: Any) -> dict[str, Any]:
        """Return the first form of a payload that reads back as the same value."""
        differs: Exception | None = None
        for data in self._type.written(known):
            if data is known and isinstance(data, dict):
                return data
            if not isinstance(data, dict):
                raise PayloadInvalid(
                    f"a payload is written as a JSON object, {self._name} gave {shown(data)}"
                )
            try:
                found = difference(known, self._type.read(data))
            except (ValidationError, msgspec.ValidationError) as error:
                differs = differs or self._invalid(error, "would not fit when it arrives")
                continue
            if found is None:
                return data
            differs = differs or PayloadInvalid(
                f"{self._name} would not arrive as it is: {found}: give the field a type, or a"
                " serializer, of which everything is read again"
            )
        assert differs is not None, "each type has a form"
        raise differs

    @property
    def _name(self) -> str:
        return getattr(self._annotation, "__name__", str(self._annotation))

    def _invalid(
        self, error: ValidationError | msgspec.ValidationError, what: str = "does not fit"
    ) -> PayloadInvalid:
        if isinstance(error, msgspec.ValidationError):
            return PayloadInvalid(f"the data {what} {self._name}: {error}")
        problems = problems_text(error.errors(include_url=False), nowhere=self._name)
        return PayloadInvalid(f"the data {what} {self._name}: {problems}")


_NEVER_OBJECTS = (bool, int, float, complex, str, bytes, list, tuple, set, frozenset)
"""Types without a value that is a JSON object."""


def _written(hint: Any) -> str:
    """Return an annotation as it is written in code."""
    if hint is None:
        return "…"
    return hint.__name__ if isinstance(hint, type) and not get_args(hint) else str(hint)


class Signature:
    """The parameters of a registered function: a payload, the task itself, both, or none.

    Raises InvalidExecutor for other parameters.
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
        self._check_annotations()

    def _check_annotations(self) -> None:
        """Raise InvalidExecutor for annotations that no task can satisfy.

        Annotations may name objects that are defined later; they are read again at the first use.
        """
        is_function = inspect.isroutine(self._function) or hasattr(self._function, "__wrapped__")
        if not is_function:
            raise InvalidExecutor(
                f"{self._name} decorates {shown(self._function)}, which is not a function: write"
                " a function that calls it, or a class of TaskExecutor with @app.executor"
            )
        try:
            hints = get_type_hints(self._function, include_extras=True)
        except Exception:  # noqa: BLE001 - also of a module that is imported half, in a circle
            # A text is resolved at the function's first use: it may also name ``Task``.
            written = getattr(self._function, "__annotations__", {})
            hints = {
                name: Task if isinstance(hint, str) else hint for name, hint in written.items()
            }
        self._refuse_payloads([(each.name, hints.get(each.name)) for each in self._parameters])

    def _refuse_payloads(self, hints: list[tuple[str, Any]]) -> None:
        """Raise InvalidExecutor for several payloads, and for one that is not an object."""
        payloads = [(name, hint) for name, hint in hints if hint is not Task]
        function = getattr(self._function, "__name__", "f")
        if len(payloads) > 1:
            made = "".join(part.capitalize() for part in function.split("_"))
            fields = "; ".join(f"{name}: {_written(hint)}" for name, hint in payloads)
            raise InvalidExecutor(
                f"{self._name}: its function takes {len(payloads)} payloads, and a task has one:"
                f" put them into one class, `@dataclass class {made}: {fields}`, and take that:"
                f" def {function}(payload: {made})"
            )
        for name, hint in payloads:
            element = self._element_of(hint)
            if (get_origin(element) or element) in _NEVER_OBJECTS:
                raise InvalidExecutor(
                    f"{self._name}: the parameter {name!r} is of the type {_written(hint)}, and the"
                    " data of a task is a JSON object: put it into a class, `@dataclass class"
                    f" Payload: {name}: {_written(hint)}`, and take that"
                )

    def _element_of(self, hint: Any) -> Any:
        """Return the type of one payload."""
        return self._annotation(hint)

    def arguments(self, task: Task) -> list[Any]:
        """Return the arguments for the function; PayloadInvalid if the data does not fit."""
        return [
            task if payload is None else payload.from_data(task.data)
            for payload in self._resolved()
        ]

    def to_data(self, payload: object) -> dict[str, Any]:
        """Return the data of a task for a payload, None for an empty one."""
        found = next((each for each in self._resolved() if each is not None), None)
        if found is not None:
            return found.to_data(payload)
        if payload is None:
            return {}
        if not (self._parameters and isinstance(payload, dict)):
            raise PayloadInvalid(f"{self._name} takes no such payload, got {shown(payload)}")
        return payload

    def _resolved(self) -> list[Payload | None]:
        """Resolve the annotations, which may name objects that are defined after the function."""
        if self._positions is None:
            try:
                hints = get_type_hints(self._function, include_extras=True)
            except Exception as error:
                raise InvalidExecutor(
                    f"{self._name}: the annotations of its function cannot be read: {error}"
                ) from error
            self._refuse_payloads([(each.name, hints.get(each.name)) for each in self._parameters])
            found = [self._annotation(hints.get(each.name)) for each in self._parameters]
            positions = [None if each is Task else Payload(each) for each in found]
            self._positions = positions
        return self._positions

    def _annotation(self, hint: Any) -> Any:
        """Return a parameter's type, from its annotation."""
        return dict[str, Any] if hint is None else hint


class BatchSignature(Signature):
    """The parameter of a registered batch function: a list of payloads, or of tasks.

    Raises InvalidExecutor for other parameters.
    """

    def _refuse_payloads(self, hints: list[tuple[str, Any]]) -> None:
        if len(hints) != 1:
            raise InvalidExecutor(
                f"{self._name}: the function of a batch takes one list: def f(rows: list[Row])"
            )
        super()._refuse_payloads(hints)

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
