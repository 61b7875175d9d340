"""Every refusal in one form: RFC 9457's ``application/problem+json``.

Decides its fields and the status of each error; the text is the error's own.
"""

from http import HTTPStatus
from typing import Any, Self

from msgspec import UNSET, UnsetType

from hourhand.actors.model.values.display import storable_text
from hourhand.actors.model.values.errors import (
    CallerError,
    HourhandError,
    NoSuchSchedule,
    OperatorError,
    SeveralTasks,
    TaskNotFound,
)
from hourhand.scheduler.admin.answers import Answer, KeyText

MEDIA_TYPE = "application/problem+json"
_STATUS_OF: dict[type[HourhandError], int] = {
    TaskNotFound: 404,
    NoSuchSchedule: 404,
    SeveralTasks: 409,
}
"""Statuses of callers' errors that are not 400."""


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
        """Return the problem for an error of the operations."""
        if not isinstance(error, HourhandError):
            return cls(503, "store-unavailable", "the store did not answer in time; try again")
        if isinstance(error, OperatorError):
            # An unavailable log or store may answer the next request.
            return cls(503, error.code, str(error))
        status = _STATUS_OF.get(type(error), 400 if isinstance(error, CallerError) else 500)
        return cls(status, error.code, str(error))

    def details(self) -> "ProblemDetails":
        """Return the body of the answer."""
        return ProblemDetails(
            type=f"urn:hourhand:problem:{self.code}",
            title=HTTPStatus(self.status).phrase,
            status=self.status,
            code=self.code,
            detail=storable_text(self.detail),
            **self.more,
        )


class ProblemDetails(Answer, frozen=True):
    """The reason why a request was refused; ``code`` is stable."""

    type: str
    title: str
    status: int
    code: str
    detail: str
    key: KeyText | UnsetType = UNSET
    id: str | UnsetType = UNSET
    name: str | UnsetType = UNSET
    count: int | UnsetType = UNSET
    """The number of tasks that a filter finds now."""
