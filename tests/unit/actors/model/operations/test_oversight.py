"""Audit entries sort by their places; a report has one form in JSON, whichever version wrote it."""

import logging
from typing import Any

import msgspec
import pytest

from hourhand.actors.model.operations.oversight import (
    LATENESS_MS,
    AuditEntry,
    AuditPlace,
    Moment,
    NodeReport,
    PartitionReport,
    RunningTask,
    TroubledTask,
    all_judge_occurrences,
    all_read_segments,
    decode_reports,
    encode_report,
)

REPORT = NodeReport(
    node="node-1",
    report_number=7,
    reported_ms=9_000,
    version="1.0",
    started_ms=1_000,
    lease_left_ms=8_000,
    partitions=(PartitionReport(3, "running", epoch=2, next_offset=40, watermark_ms=5),),
    running_count=1,
    running=(RunningTask("1 a b", 3, 1),),
    blocked_count=1,
    blocked=(TroubledTask("1 a b", 3, 8_000, 2, "ValueError"),),
    moments=(Moment(1_000, "assigned", 3, "epoch 2"),),
)
BODY: dict[str, Any] = {
    "node": "node-1",
    "version": "1.0",
    "startedMs": 1_000,
    "address": None,
    "leaseLeftMs": 8_000,
    "leaseByLock": False,
    "pausesVersion": 0,
    "treeFailures": 0,
    "partitions": [
        {
            "partition": 3,
            "stage": "running",
            "epoch": 2,
            "nextOffset": 40,
            "paused": False,
            "pausedIds": 0,
            "started": 0,
            "failed": 0,
            "lateness": [0] * (len(LATENESS_MS) + 1),
            "waiting": None,
            "executing": None,
            "loaded_until_ms": None,
            "watermark_ms": 5,
            "stragglers": 0,
            "held": 0,
            "overdue_ms": 0,
            "assigned_ms": None,
            "catch_up_ms": None,
        }
    ],
    "runningCount": 1,
    "running": [{"key": "1 a b", "partition": 3, "attempt": 1}],
    "blockedCount": 1,
    "blocked": [
        {"key": "1 a b", "partition": 3, "sinceMs": 8_000, "attempts": 2, "error": "ValueError"}
    ],
    "failingCount": 0,
    "failing": [],
    "moments": [{"at_ms": 1_000, "what": "assigned", "partition": 3, "detail": "epoch 2"}],
}
"""As version 1.0 writes it; nodes of two versions report side by side during an upgrade."""


def test_entries_of_one_millisecond_are_in_the_order_of_their_ids() -> None:
    """As pages need it."""
    entry = AuditEntry(5, "b", "ann", "drop", "key", b"{}", "applied")

    assert AuditPlace(5, "a") < entry.place < AuditPlace(5, "c") < AuditPlace(6, "")


def test_a_report_of_the_version_before_is_read() -> None:
    """It has no number and no time of its own: the row has them."""
    assert decode_reports([("node-1", 7, 9_000, msgspec.json.encode(BODY))]) == (REPORT,)


def test_the_version_before_finds_every_field_it_reads() -> None:
    """And ignores what it does not know."""
    written = msgspec.json.decode(encode_report(REPORT))

    assert _as_before(written, BODY) == BODY


def _as_before(written: object, before: object) -> object:
    """Return of what is written the part that a report of before has."""
    if isinstance(written, dict) and isinstance(before, dict):
        return {name: _as_before(written[name], before[name]) for name in before}
    if isinstance(written, list) and isinstance(before, list):
        return list(map(_as_before, written, before))
    return written


def test_a_report_that_cannot_be_read_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    """One of a later version may have another form."""
    caplog.set_level(logging.DEBUG, "hourhand.report")
    rows = [("a", 1, 2, b"\xff"), ("b", 1, 2, b"[]"), ("c", 3, 4, b'{"node": "c", "new": 1}')]

    assert decode_reports(rows) == (NodeReport("c", 3, 4),)
    assert [each.getMessage() for each in caplog.records] == [
        f"the report of {node} cannot be read" for node in ("a", "b")
    ]


def test_a_report_is_told_by_the_columns_of_its_row() -> None:
    """Not by what its body says of node, number and time."""
    assert decode_reports([("d", 3, 4, encode_report(REPORT))])[0].node == "d"


def test_all_read_segments_where_each_report_says_so() -> None:
    """None at all says nothing, nor does one of an old version or one that cannot be read."""
    new = encode_report(msgspec.structs.replace(REPORT, reads_segments=True))
    old = msgspec.json.encode(BODY)

    assert all_read_segments([new, new])
    assert not all_read_segments([])
    for silent in (old, encode_report(REPORT), b"{", b"[]", b'{"readsSegments": 1}'):
        assert not all_read_segments([silent, new])
        assert not all_read_segments([new, silent])


def test_all_judge_occurrences_where_each_report_says_so() -> None:
    """A node of an earlier version says nothing of it, and no report is no answer."""
    old, new = REPORT, msgspec.structs.replace(REPORT, judges_occurrences=True)

    assert all_judge_occurrences([new, new])
    assert not all_judge_occurrences([])
    assert not all_judge_occurrences([new, old])
