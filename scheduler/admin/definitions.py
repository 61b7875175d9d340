"""Definitions as operators list them, in pages of bounded cost.

Decides how many rows one page may read. The caller's ``keep`` reads the rows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from hourhand.actors.model.task.definition import Definition, DefinitionKind
from hourhand.actors.model.values.errors import InvalidInput
from hourhand.scheduler.runtime.answers import answered
from hourhand.scheduler.services.system.definition_book import DefinitionBook

_ROWS_MAX = 500
_REQUESTS_MAX = 400
"""Most reads of one page: a filter that few of a million rows match does not read them all."""

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Listing(Generic[Kept]):
    """A page of definitions; it may be short, or even empty, while there are more."""

    found: list[Kept]
    next_after: str | None


def list_definitions(
    definitions: DefinitionBook,
    kind: DefinitionKind,
    after: str | None,
    limit: int,
    keep: Callable[[Definition], Kept | None],
) -> Listing[Kept]:
    """Return about ``limit`` results of ``keep``; InvalidInput if ``after`` is not a cursor."""
    found: list[Kept] = []
    for _ in range(_REQUESTS_MAX):
        try:
            page = answered(definitions.page(kind, after, min(limit, _ROWS_MAX)))
        except ValueError as error:
            raise InvalidInput(str(error)) from None
        found += [each for each in map(keep, page.definitions) if each is not None]
        after = page.next_after
        if after is None or len(found) >= limit:
            break
    return Listing(found, after)
