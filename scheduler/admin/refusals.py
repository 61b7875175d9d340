"""A request that cannot be done as it was made, over HTTP or on the command line."""

from typing import Any


class Problem(Exception):
    """Says what is wrong, with the status that HTTP has for it."""

    def __init__(self, status: int, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.more = more
