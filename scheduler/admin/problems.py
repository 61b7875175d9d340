"""Every refusal in one form: RFC 9457's ``application/problem+json``.

Decides which error has which status; the text is the error's own.
"""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from actors.model.errors import CallerError, HourhandError, OperatorError
from scheduler.admin.refusals import Problem

MEDIA_TYPE = "application/problem+json"


def answer(refused: Problem) -> Response:
    """Return a refusal as an answer."""
    return problem(refused.status, refused.code, refused.detail, **refused.more)


def problem(status: int, code: str, detail: str, **more: Any) -> JSONResponse:
    """Return an answer that says what is wrong."""
    content = {
        "type": f"urn:hourhand:problem:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "code": code,
        "detail": detail,
        **more,
    }
    return JSONResponse(content, status, media_type=MEDIA_TYPE)


def add_problems(app: FastAPI) -> None:
    """Answer every error in that form."""
    handlers: dict[type[Exception], Callable[[Any], Response]] = {
        Problem: answer,
        RequestValidationError: _invalid,
        HTTPException: lambda error: problem(
            error.status_code, "no-such-path", f"{error.detail}; see /api/v1/openapi.json"
        ),
        HourhandError: _failed,
        TimeoutError: lambda _error: problem(
            503, "store-unavailable", "the store did not answer in time; try again"
        ),
    }
    for kind, respond in handlers.items():
        app.add_exception_handler(kind, _handler(respond))


def _handler(respond: Callable[[Any], Response]) -> Callable[[Request, Exception], Response]:
    def handle(_request: Request, error: Exception) -> Response:
        return respond(error)

    return handle


def _failed(error: HourhandError) -> Response:
    if isinstance(error, OperatorError):
        # A log or store that is away may be back at the next try.
        return problem(503, error.code, str(error))
    return problem(400 if isinstance(error, CallerError) else 500, error.code, str(error))


def _invalid(error: RequestValidationError) -> Response:
    told = []
    for each in error.errors()[:10]:
        where = ".".join(str(part)[:80] for part in each["loc"])
        told.append(f"{where}: {each['msg']}")
    return problem(400, "invalid-request", "; ".join(told))
