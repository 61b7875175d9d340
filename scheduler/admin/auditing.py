"""The audit log of every write: who, what, when, and its result.

The entry is durable before the act begins, so each act can be traced; if the entry cannot be
written the act is refused. Afterwards an entry with the result replaces it.
"""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Annotated, Any, Self, TypeVar

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from hourhand.actors.model.operations.oversight import AuditEntry, AuditPage, AuditPlace
from hourhand.actors.model.values.display import storable_text
from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.clock import Clock
from hourhand.actors.ports.oversight import OversightStore
from hourhand.scheduler.admin.acting import ActReport
from hourhand.scheduler.admin.answers import Answer, Instant, instant_text
from hourhand.scheduler.runtime.answers import answered

logger = logging.getLogger("hourhand.audit")

UNDER_WAY = "under way"
_numbers = count()
DAY_MS = 86_400_000
_TEXT_CHARS_MAX = 500
_SHOWN_MAX = 20
_DETAIL_BYTES_MAX = 20_000

_T = TypeVar("_T")
_Report = TypeVar("_Report", bound=ActReport)


class ShownEntry(Answer, frozen=True):
    """An act of a user, and its result."""

    time: Instant | None
    id: str
    who: str
    action: str
    target: str
    detail: Annotated[Any, Meta(description="The details of the request, as an object.")]
    result: str

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        """Show an entry."""
        return cls(
            time=instant_text(entry.at_ms),
            id=entry.id,
            who=entry.who,
            action=entry.action,
            target=entry.target,
            detail=msgspec.json.decode(entry.detail or b"{}"),
            result=entry.result,
        )


class AuditEntries(Answer, frozen=True):
    """A page of the audit log, newest first."""

    entries: list[ShownEntry]
    next_before: str | None

    @classmethod
    def of(cls, page: AuditPage) -> Self:
        """Show a page."""
        following = None if page.next_before is None else place_text(page.next_before)
        return cls(entries=[ShownEntry.of(each) for each in page.entries], next_before=following)


class AuditLog:
    """Writes and reads entries."""

    def __init__(self, store: OversightStore, clock: Clock, kept_days: int) -> None:
        self._store = store
        self._clock = clock
        self._kept_ms = kept_days * DAY_MS

    def audited(
        self,
        who: str,
        action: str,
        target: str,
        detail: Mapping[str, object],
        act: Callable[[], tuple[_T, str]],
    ) -> _T:
        """Write an entry, then call ``act``, which returns its result and a few words about it."""
        entry = AuditEntry(
            self._clock.now_ms(),
            # Ids grow, so acts of one process within a millisecond keep their order.
            f"{next(_numbers):012x}{uuid.uuid4().hex[:16]}",
            _cut(who),
            _cut(action),
            _cut(target),
            _encoded(detail),
            UNDER_WAY,
        )
        self._write(entry)
        try:
            result, words = act()
        except Exception as error:
            code = error.code if isinstance(error, HourhandError) else type(error).__name__
            self._finish(entry, f"failed: {code}")
            raise
        self._finish(entry, words)
        return result

    def audited_report(
        self,
        who: str,
        what: tuple[str, str],
        names: Sequence[str],
        reason: str,
        act: Callable[[], _Report],
    ) -> _Report:
        """Do an act on several names and audit it; ``what`` is the act, and a word for many
        targets.
        """
        action, many = what
        target = names[0] if len(names) == 1 else f"{len(names)} {many}"
        detail = {"count": len(names), "names": list(names[:_SHOWN_MAX]), "reason": reason}

        def reported() -> tuple[_Report, str]:
            report = act()
            return report, report.words

        return self.audited(who, action, target, detail, reported)

    def page(self, before: AuditPlace | None, limit: int) -> AuditPage:
        """Return entries, newest first."""
        return answered(self._store.page_audit(before, limit))

    def _write(self, entry: AuditEntry) -> None:
        answered(self._store.append_audit(entry, self._kept_ms))

    def _finish(self, entry: AuditEntry, words: str) -> None:
        done = replace(entry, result=_cut(words))
        logger.info(
            "%s %s %s: %s",
            ascii(done.who),
            done.action,
            ascii(done.target),
            ascii(done.result),
        )
        try:
            self._write(done)
        except (HourhandError, TimeoutError) as error:
            # The act is done; its entry without a result is durable.
            logger.warning("the result of %s could not be written down: %s", done.id, error)


def place_text(place: AuditPlace) -> str:
    """Return a place as text."""
    return f"{place.at_ms}-{place.id}"


def parse_place(text: str) -> AuditPlace:
    """Read what ``place_text`` wrote; raises ValueError for anything else."""
    at_ms, dash, name = text.partition("-")
    if not (dash and at_ms.isascii() and at_ms.isdecimal() and len(at_ms) < 16 and name.isalnum()):
        raise ValueError(f"{text[:80]!r} is not a place in the audit log")
    return AuditPlace(int(at_ms), name[:64])


def _cut(text: str) -> str:
    return storable_text(text)[:_TEXT_CHARS_MAX]


def _encoded(detail: Mapping[str, object]) -> bytes:
    body = msgspec.json.encode(_storable(detail))
    if len(body) <= _DETAIL_BYTES_MAX:
        return body
    return msgspec.json.encode({"leftOut": f"{len(body)} bytes"})


def _storable(value: Any) -> Any:
    if isinstance(value, str):
        return storable_text(value)
    if isinstance(value, Mapping):
        return {storable_text(str(name)): _storable(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(each) for each in value]
    return value
