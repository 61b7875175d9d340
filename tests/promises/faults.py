"""What the network can do to a request: fail it, lose its answer, or keep it.

One ``Faults`` stands between a node (or a group of them) and the memory adapters; it decides
nothing by itself, a test says which requests suffer.
"""

from collections.abc import Callable
from typing import Any

from hourhand.actors.model.values.errors import StoreUnavailable
from hourhand.scheduler.adapters.memory.delivery import Request

WRITES = frozenset(
    {
        "insert_tasks",
        "insert_completions",
        "insert_attempts",
        "insert_outcome",
        "save_watermark",
        "delete_tasks",
        "delete_statuses",
    }
)
"""Requests that change what is stored."""

Chosen = Callable[[Request[Any]], bool]


def _never(_request: Request[Any]) -> bool:
    return False


class Faults:
    """A ``Deliver`` that serves at once, except for what it is told to fail or to keep."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        """Kinds of all requests, in order."""
        self.kept: list[Request[Any]] = []
        self.fails: Chosen = _never
        """Failed without any effect."""
        self.loses: Chosen = _never
        """Takes effect, and the answer is lost."""
        self.keeps: Chosen = _never
        """Kept until ``release``."""

    def __call__(self, request: Request[Any]) -> None:
        """Serve, fail or keep a request."""
        self.seen.append(request.kind)
        if self.fails(request):
            request.fail(StoreUnavailable(f"{request.kind} was not served"))
        elif self.loses(request):
            request.apply()
            request.fail(StoreUnavailable(f"the answer to {request.kind} was lost"))
        elif self.keeps(request):
            self.kept.append(request)
        else:
            request()

    def release(self) -> None:
        """Serve what was kept, in order, and keep nothing more."""
        self.keeps = _never
        kept, self.kept = self.kept, []
        for request in kept:
            request()

    def heal(self) -> None:
        """Serve everything from now on."""
        self.fails = self.loses = _never
        self.release()


def the_nth(number: int, *kinds: str) -> Chosen:
    """Choose the ``number``-th request (from 1) of these kinds, or of all kinds."""
    left = number

    def chosen(request: Request[Any]) -> bool:
        nonlocal left
        if kinds and request.kind not in kinds:
            return False
        left -= 1
        return left == 0

    return chosen


def every(*kinds: str) -> Chosen:
    """Choose all requests of these kinds."""
    return lambda request: request.kind in kinds
