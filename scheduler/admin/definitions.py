"""Definitions as operators list them: read in bounded pages, whatever lies between them.

Decides how much one page may read.  What a row says is its kind's matter.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from actors.model.definition import Definition, DefinitionKind
from actors.model.errors import InvalidInput
from scheduler.futures.answers import answered
from scheduler.services.definition_book import DefinitionBook

_ROWS_MAX = 500
_REQUESTS_MAX = 400
"""Reads of one page: what few of a million rows have is not looked for in all of them."""

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Listing(Generic[Kept]):
    """Some of a kind; fewer than asked for, even none, come while there are more."""

    found: list[Kept]
    next_after: str | None


def list_definitions(
    definitions: DefinitionBook,
    kind: DefinitionKind,
    after: str | None,
    limit: int,
    keep: Callable[[Definition], Kept | None],
) -> Listing[Kept]:
    """Return about ``limit`` of what ``keep`` makes of rows; InvalidInput for no cursor."""
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
