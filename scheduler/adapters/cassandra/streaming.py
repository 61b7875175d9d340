"""Reads very many rows: statements one after the other, and each page by page.

Some statements are requested before their turn, so that the server is never idle. It decides when a
page is requested, and repeats a failed request if the caller's pauses allow it.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

import tenacity

from hourhand.scheduler.adapters.cassandra.faults import PASSING

STREAMED_AHEAD = 4
"""Number of statements that are requested before their turn."""

Tries = Callable[[], Iterator[tenacity.AttemptManager]]


class _Page(NamedTuple):
    """A requested page; ``response`` is None if the request failed at once."""

    position: int
    statement: Any
    paging_state: bytes | None
    response: Any


def streamed(
    session: Any, tries: Tries, statements: Iterable[Any]
) -> Iterator[tuple[int, list[Any]]]:
    """Run statements and yield (position, page of its rows), in order; waits.

    Raises the error of a page's last try.
    """
    left = enumerate(statements)
    asked = deque(_asked(session, *each) for each in islice(left, STREAMED_AHEAD))
    while asked:
        page = asked.popleft()
        rows, paging_state = _answered(session, tries, page)
        if paging_state is not None:
            asked.appendleft(_asked(session, page.position, page.statement, paging_state))
        elif following := next(left, None):
            asked.append(_asked(session, *following))
        if rows:
            yield page.position, rows


def _asked(session: Any, position: int, statement: Any, paging_state: bytes | None = None) -> _Page:
    try:
        response = session.execute_async(statement, paging_state=paging_state)
    except PASSING:
        response = None
    return _Page(position, statement, paging_state, response)


def _answered(session: Any, tries: Tries, page: _Page) -> tuple[list[Any], bytes | None]:
    """Return the rows of a requested page, and the state of paging for the next one."""
    response = page.response
    for attempt in tries():
        with attempt:
            if response is None:
                response = session.execute_async(page.statement, paging_state=page.paging_state)
            awaited, response = response, None
            result = awaited.result()
            return result.current_rows, result.paging_state
    raise AssertionError("the last try returns or raises")
