"""Every refusal in one form: RFC 9457's ``application/problem+json``.

Decides what it says and which error has which status; the text is the error's own.
"""

from http import HTTPStatus
from typing import Any, Self

from msgspec import UNSET, UnsetType

from actors.model.display import storable_text
from actors.model.errors import (
    CallerError,
    HourhandError,
    NoSuchSchedule,
    OperatorError,
    SeveralTasks,
    TaskNotFound,
)
from scheduler.admin.answers import Answer, KeyText

MEDIA_TYPE = "application/problem+json"
_STATUS_OF: dict[type[HourhandError], int] = {
    TaskNotFound: 404,
    NoSuchSchedule: 404,
    SeveralTasks: 409,
}
"""Of what a request cannot be done for, where it is not simply 400."""


class Problem(Exception):
    """A request that cannot be done as it was made, over HTTP or on the command line."""

    def __init__(self, status: int, code: str, detail: str, **more: Any) -> None:
        """``more`` are fields of ``ProblemDetails``."""
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.more = more

    @classmethod
    def of(cls, error: HourhandError | TimeoutError) -> Self:
        """Return what an error of the operations means to whoever asked."""
        if not isinstance(error, HourhandError):
            return cls(503, "store-unavailable", "the store did not answer in time; try again")
        if isinstance(error, OperatorError):
            # A log or store that is away may be back at the next try.
            return cls(503, error.code, str(error))
        status = _STATUS_OF.get(type(error), 400 if isinstance(error, CallerError) else 500)
        return cls(status, error.code, str(error))

    def details(self) -> "ProblemDetails":
        """Return what is answered."""
        return ProblemDetails(
            type=f"urn:hourhand:problem:{self.code}",
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            code=self.code,
            detail=storable_text(self.detail),
            **self.more,
        )


class ProblemDetails(Answer, frozen=True):
    """Why a request was refused; ``code`` is stable."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    key: KeyText | UnsetType = UNSET
    id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    count: int | UnsetType = UNSET
    """How many tasks a filter finds now."""
