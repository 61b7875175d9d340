"""The admin API and dashboard as one ASGI application: `hourhand admin`, or part of a user's own.

Decides the address of each part and the answers to errors; each group of paths has a module of its
own.
"""

from collections.abc import Callable
from typing import Any

from fastapi import Depends, FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.model.values.problem_words import problem_text
from hourhand.actors.model.values.public import public
from hourhand.scheduler.admin.access import Access
from hourhand.scheduler.admin.acting_routes import acting_routes
from hourhand.scheduler.admin.asking import refuse_unread_query
from hourhand.scheduler.admin.door_routes import door_routes
from hourhand.scheduler.admin.listing_routes import listing_routes
from hourhand.scheduler.admin.pages import add_pages
from hourhand.scheduler.admin.problems import MEDIA_TYPE, Problem
from hourhand.scheduler.admin.reading_routes import reading_routes
from hourhand.scheduler.admin.service import AdminService
from hourhand.scheduler.admin.stream import stream_routes
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.services.http.typed_routes import TypedApp, encoded
from hourhand.scheduler.wiring import open_installation

PREFIX = "/api/v1"


def build_app(service: AdminService, *, open_to: str = "") -> FastAPI:
    """Build the application over an opened service, whose owner starts and closes it.

    ``open_to`` is for an app that mounts this one behind a login of its own: every request is let
    through, and the audit log uses this name for all of them.
    """
    settings, clock = service.settings.admin, service.clock
    app = TypedApp(
        title="Hourhand admin",
        version="1",
        description="See and operate an installation of Hourhand; see docs/admin.md.",
        openapi_url=f"{PREFIX}/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
        dependencies=[Depends(refuse_unread_query)],
        middleware=[
            Middleware(Access, settings=settings, clock=clock, prefix=PREFIX, open_to=open_to)
        ],
    )
    _add_problems(app)
    app.state.service = service
    made = (
        reading_routes,
        listing_routes,
        acting_routes,
        door_routes,
        stream_routes,
    )
    for router in (make(service) for make in made):
        app.include_typed(router, prefix=PREFIX)
    add_pages(app)
    return app


@public("hourhand.admin")
def create_app(settings: Settings | None = None, *, open_to: str = "") -> FastAPI:
    """Open an installation and return its admin API, to be mounted in an application.

    ``app.state.service.close()`` closes the connections. Raises the errors of ``SchedulerClient``.
    """
    service = AdminService(open_installation(settings or Settings()))
    service.start()
    return build_app(service, open_to=open_to)


def _add_problems(app: FastAPI) -> None:
    def refused(problem: Problem) -> Response:
        return encoded(problem.details(), problem.status, MEDIA_TYPE)

    handlers: dict[type[Exception], Callable[[Any], Response]] = {
        Problem: refused,
        RequestValidationError: lambda error: refused(_invalid(error)),
        HTTPException: _of_framework,
        HourhandError: lambda error: refused(Problem.of(error)),
        TimeoutError: lambda error: refused(Problem.of(error)),
    }
    for kind, respond in handlers.items():
        app.add_exception_handler(kind, _handler(respond))


def _handler(respond: Callable[[Any], Response]) -> Callable[[Request, Exception], Response]:
    def handle(_request: Request, error: Exception) -> Response:
        return respond(error)

    return handle


def _of_framework(error: HTTPException) -> Response:
    """Return the answer to a path or method that is not there, and to a body that is not read."""
    text = f"{error.detail}; see {PREFIX}/openapi.json"
    code = "no-such-path" if error.status_code in {404, 405} else "invalid-request"
    problem = Problem(error.status_code, code, text)
    answer = encoded(problem.details(), problem.status, MEDIA_TYPE)
    # The answer to a wrong method has the header ``Allow``.
    answer.headers.update(error.headers or {})
    return answer


def _invalid(error: RequestValidationError) -> Problem:
    told = []
    for each in error.errors()[:10]:
        # The caller knows the value; it may be a secret, or large.
        told.append(problem_text(each, shows_value=False))
    return Problem(400, "invalid-request", "; ".join(told))
