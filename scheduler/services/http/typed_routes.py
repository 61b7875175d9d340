"""Routes that answer with structs: encoded by msgspec, described in OpenAPI from the same types.

Decides how the type of an answer becomes bytes and a schema, which FastAPI does only for pydantic's
models.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from inspect import isclass, iscoroutinefunction, signature
from typing import Any, get_args

import msgspec
from fastapi import APIRouter, FastAPI
from starlette.responses import Response

JSON = "application/json"
_SCHEMA_PLACE = "#/components/schemas/{name}"
_REFUSED = "#/components/responses/Refused"
_NEVER_ANSWERED = "422"
"""FastAPI describes this status for all paths with parameters, but invalid ones are answered with
400."""
_NEVER_SHOWN = ("HTTPValidationError", "ValidationError")


Responses = dict[int | str, dict[str, Any]]


def described(refusals: Mapping[int | str, str]) -> Responses:
    """Return refusals by status, with their descriptions, in the form that routes take."""
    return {status: {"$ref": _REFUSED, "description": words} for status, words in refusals.items()}


class TypedRouter(APIRouter):
    """Paths whose endpoints return a struct, one of several structs, or a response of their own."""

    def __init__(self, refusals: Responses, refused: type, media_type: str, **options: Any) -> None:
        """``refusals`` are answers that every path may give, each with a body of type
        ``refused``.
        """
        super().__init__(**options)
        self.answers: list[type] = [refused]
        """The types of all answers."""
        self.refused = {"description": "A refusal.", **_content(media_type, [refused])}
        self._refusals = refusals

    def add_api_route(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        """Add a path; ``responses`` are its own refusals.

        The class of a response says its content: text, or nothing for the plain ``Response``.
        """
        responses = self._refusals | (options.pop("responses", None) or {})
        answer = signature(endpoint).return_annotation
        if isclass(answer) and issubclass(answer, Response):
            options["response_class"] = answer
        else:
            types = get_args(answer) or (answer,)
            self.answers += types
            responses[200] = _content(JSON, types)
            options["response_model"] = None
            endpoint = _encoding(endpoint)
        super().add_api_route(path, endpoint, responses=responses, **options)


class TypedApp(FastAPI):
    """An application of such paths."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._answers: list[type] = []
        self._refused: dict[str, Any] = {}

    def include_typed(self, router: TypedRouter, prefix: str = "") -> None:
        """Serve the paths of a router."""
        self._answers += router.answers
        self._refused = router.refused
        self.include_router(router, prefix=prefix)

    def openapi(self) -> dict[str, Any]:
        """Return the description."""
        if self.openapi_schema is not None:
            return self.openapi_schema
        described = super().openapi()
        _, answers = msgspec.json.schema_components(self._answers, ref_template=_SCHEMA_PLACE)
        components = described.setdefault("components", {})
        components["responses"] = {"Refused": self._refused}
        schemas = components["schemas"] = answers | components.get("schemas", {})
        for name in _NEVER_SHOWN:
            schemas.pop(name, None)
        for methods in described["paths"].values():
            for operation in methods.values():
                operation["responses"].pop(_NEVER_ANSWERED, None)
        return described


def encoded(answer: object, status: int = 200, media_type: str = JSON) -> Response:
    """Return a response that holds an answer."""
    return Response(msgspec.json.encode(answer), status, media_type=media_type)


def _content(media_type: str, types: Sequence[type]) -> dict[str, Any]:
    return {"content": {media_type: {"schema": _schema(tuple(types))}}}


@cache
def _schema(types: tuple[type, ...]) -> dict[str, Any]:
    """Return a schema for these types; it takes a third of the time to build an application."""
    schemas, _ = msgspec.json.schema_components(types, ref_template=_SCHEMA_PLACE)
    return schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}


def _encoding(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(endpoint)
    def respond(*arguments: Any, **named: Any) -> Response:
        return encoded(endpoint(*arguments, **named))

    @wraps(endpoint)
    async def respond_later(*arguments: Any, **named: Any) -> Response:
        return encoded(await endpoint(*arguments, **named))

    return respond_later if iscoroutinefunction(endpoint) else respond
