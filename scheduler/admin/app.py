"""The admin API and dashboard as one ASGI application: `hourhand admin`, or part of a user's own.

Decides what stands where; every path lives with others of its kind.
"""

from fastapi import Depends, FastAPI
from starlette.middleware import Middleware

from scheduler.admin.access import Access
from scheduler.admin.acting_routes import acting_routes
from scheduler.admin.asking import refuse_unread_query
from scheduler.admin.door_routes import door_routes
from scheduler.admin.pages import add_pages
from scheduler.admin.problems import add_problems
from scheduler.admin.reading_routes import reading_routes
from scheduler.admin.service import AdminService
from scheduler.admin.stream import stream_routes
from scheduler.configuration.settings import Settings

PREFIX = "/api/v1"


def build_app(service: AdminService, *, open_to: str = "") -> FastAPI:
    """Build the application over an opened service, whose owner starts and closes it.

    ``open_to`` is for an app that mounts this one behind a login of its own: every request is
    then let through, and the audit log calls whoever made it by that name.
    """
    settings, clock = service.settings.admin, service.clock
    app = FastAPI(
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
    add_problems(app)
    app.state.service = service
    made = (reading_routes, acting_routes, door_routes, stream_routes)
    for router in (make(service) for make in made):
        app.include_router(router, prefix=PREFIX)
    add_pages(app)
    return app


def create_app(settings: Settings | None = None, *, open_to: str = "") -> FastAPI:
    """Open an installation and return its admin API, to be mounted in an app of one's own.

    ``app.state.service.close()`` lets go of the connections.  Raises what ``SchedulerClient``
    raises.
    """
    service = AdminService(settings or Settings())
    service.start()
    return build_app(service, open_to=open_to)
