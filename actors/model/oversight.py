"""What nodes report of themselves, and what is written down of what operators did.

Values only: who reports what is decided by the node, what is written down by the admin API.
"""

import msgspec


class NodeReport(msgspec.Struct, frozen=True):
    """One node's latest word about itself."""

    node: str
    """Names one process: a node that starts again has another."""
    beat: int
    """Grows with each report; the higher one stands."""
    reported_ms: int
    body: bytes
    """Figures as JSON, whose fields are the reporter's."""


class AuditEntry(msgspec.Struct, frozen=True):
    """One write that was asked for, whoever asked, and what came of it."""

    at_ms: int
    id: str
    """Unique; entries of one millisecond are in its order."""
    who: str
    action: str
    target: str
    detail: bytes
    """What was asked, as JSON."""
    result: str

    @property
    def place(self) -> "AuditPlace":
        """Where it stands in the log."""
        return AuditPlace(self.at_ms, self.id)


class AuditPlace(msgspec.Struct, frozen=True, order=True):
    """A place in the audit log."""

    at_ms: int
    id: str


class AuditPage(msgspec.Struct, frozen=True):
    """Entries, newest first."""

    entries: tuple[AuditEntry, ...]
    next_before: AuditPlace | None
    """Pass it as ``before`` for the next page; None where there is none."""
