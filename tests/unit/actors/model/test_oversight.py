"""Audit entries sort by their places."""

from actors.model.oversight import AuditEntry, AuditPlace


def test_entries_of_one_millisecond_are_in_the_order_of_their_ids() -> None:
    """As pages need it."""
    entry = AuditEntry(5, "b", "ann", "drop", "key", b"{}", "applied")

    assert AuditPlace(5, "a") < entry.place < AuditPlace(5, "c") < AuditPlace(6, "")
