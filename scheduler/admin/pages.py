"""The dashboard's files: pages, styles and scripts that ship with the package.

They hold no data, so they need no token; they load data from the API. They refer to no other site,
and the content security policy forbids it.
"""

from pathlib import Path, PurePosixPath

from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FOLDER = Path(__file__).parent / "dashboard"
TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".woff2": "font/woff2",
}
"""Content types are listed here, because machines map endings differently and browsers are told not
to guess."""
POLICY = "; ".join(
    [
        "default-src 'none'",
        *(f"{kind}-src 'self'" for kind in ("script", "style", "font", "connect", "img")),
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ]
)
_ASK_AGAIN = "no-cache"
"""Browsers revalidate each file, so an upgrade shows at once; an unchanged file is answered with
304."""


class _Files(StaticFiles):
    """A folder of the dashboard."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        """Answer with one file, under its right type."""
        response = await super().get_response(path, scope)
        kind = TYPES.get(PurePosixPath(path).suffix)
        if kind is not None:
            response.headers["content-type"] = kind
        response.headers["cache-control"] = _ASK_AGAIN
        return response


def add_pages(app: FastAPI) -> None:
    """Serve the dashboard under the application's root."""

    def file(name: str) -> FileResponse:
        kind = TYPES[PurePosixPath(name).suffix]
        return FileResponse(FOLDER / name, media_type=kind, headers={"cache-control": _ASK_AGAIN})

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    def page() -> FileResponse:
        return file("index.html")

    @app.get("/favicon.svg", include_in_schema=False)
    def icon() -> FileResponse:
        return file("favicon.svg")

    for name in ("css", "js", "vendor"):
        app.mount(f"/{name}", _Files(directory=FOLDER / name), name=name)
