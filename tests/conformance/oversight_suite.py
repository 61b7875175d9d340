"""The contracts of ``OversightStore`` and ``TallyStore``.

Bound as ``tests.conformance.stores`` describes.  Reports, pauses and the audit log belong to
the whole installation, so these tests begin from whatever others left there.
"""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from hourhand.actors.model.flow.limit_change import LimitChange
from hourhand.actors.model.operations.operator_config import OperatorConfig
from hourhand.actors.model.operations.oversight import (
    AuditEntry,
    AuditPlace,
    Moment,
    NodeReport,
    PartitionReport,
    RunningTask,
    TroubledTask,
)
from hourhand.actors.model.operations.pauses import Pause, PauseScope
from hourhand.actors.model.operations.tally import HourTally
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.values.bucket import HOUR_MS
from hourhand.actors.ports.oversight import REPORT_KEPT_MS
from hourhand.actors.ports.store import Stores
from tests.conformance.store_values import AWKWARD_IDS, HOUR_START_MS, StoreSuite, done, write_time

NOW_MS = HOUR_START_MS
KEPT_MS = 3_650 * 86_400_000
"""Longer than the fixed times of these tests lie in the past of a real server's clock."""


def reported(stores: Stores, node: str) -> NodeReport | None:
    """Return a node's report."""
    found = {each.node: each for each in done(stores.oversight.read_reports())}
    return found.get(node)


def a_report(node: str, report_number: int, reported_ms: int) -> NodeReport:
    """Return a report of a node that has something to say."""
    ran = PartitionReport(3, "running", epoch=2, next_offset=9, lateness=tuple(range(18)))
    ordering_ids = [TaskKey(NOW_MS, each, "u") for each in AWKWARD_IDS]
    return NodeReport(
        node,
        report_number,
        reported_ms,
        version="1.2",
        partitions=(ran, PartitionReport(4, "held", waiting=0, watermark_ms=NOW_MS)),
        running=tuple(RunningTask(str(key), 3, 1) for key in ordering_ids),
        failing=(TroubledTask(str(ordering_ids[0]), 3, NOW_MS, 2, "ValueError"),),
        moments=(Moment(NOW_MS, "assigned", 3, "epoch 2"),),
    )


def entry(partition: int, number: int, at_ms: int = NOW_MS) -> AuditEntry:
    """Return an entry; those of one test have a target of their own."""
    detail = b'{"reason":"late"}'
    return AuditEntry(
        at_ms, f"{partition:09}-{number:03}", "on-call", "drop", f"t{partition}", detail, "applied"
    )


def audited(stores: Stores, partition: int, limit: int) -> list[AuditEntry]:
    """Walk through all pages; return one test's entries."""
    found: list[AuditEntry] = []
    before: AuditPlace | None = None
    while True:
        page = done(stores.oversight.page_audit(before, limit))
        assert len(page.entries) <= limit
        found += [each for each in page.entries if each.target == f"t{partition}"]
        before = page.next_before
        if before is None:
            return found


class OversightSuite(StoreSuite):
    """The contract of every ``OversightStore``."""

    def test_the_report_with_the_higher_beat_stands(self, stores: Stores, partition: int) -> None:
        """Whichever comes first."""
        node = f"node-{partition}"
        for report_number in (2, 3, 1):
            done(
                stores.oversight.save_report(a_report(node, report_number, NOW_MS + report_number))
            )

        assert reported(stores, node) == a_report(node, 3, NOW_MS + 3)
        assert reported(stores, f"{node}-other") is None

    def test_a_report_is_kept_while_its_node_is_remembered(
        self, stores: Stores, partition: int
    ) -> None:
        """Another node's reports, up to that time later, leave it alone."""
        first, other = f"silent-{partition}", f"lively-{partition}"
        done(stores.oversight.save_report(NodeReport(first, 1, NOW_MS)))
        done(stores.oversight.save_report(NodeReport(other, 1, NOW_MS + REPORT_KEPT_MS)))

        assert reported(stores, first) is not None

    def test_of_two_who_change_one_operator_config_one_wins(
        self, stores: Stores, partition: int
    ) -> None:
        """The other is told, and nothing of what it asked happened."""
        config = done(stores.oversight.read_config(OperatorConfig()))
        mine = config.with_pauses([Pause(PauseScope.PARTITION, partition, "", NOW_MS, "me", "why")])
        theirs = config.with_pauses([Pause(PauseScope.PARTITION, partition + 1)])

        assert done(stores.oversight.replace_config(mine)) is True
        assert done(stores.oversight.replace_config(theirs)) is False
        assert done(stores.oversight.read_config(OperatorConfig())) == mine
        assert done(stores.oversight.read_config(mine)) is mine

        lifted = mine.without([(PauseScope.PARTITION, partition, "")])
        assert done(stores.oversight.replace_config(lifted)) is True
        assert done(stores.oversight.read_config(mine)) == lifted

    @pytest.mark.parametrize("ordering_id", [each for each in AWKWARD_IDS if each], ids=ascii)
    def test_any_ordering_id_can_be_paused(
        self,
        stores: Stores,
        reopen: Callable[[], Stores],
        partition: int,
        ordering_id: str,
    ) -> None:
        """And is, after opening again."""
        pause = Pause(PauseScope.ORDERING, partition, ordering_id[:2_000], NOW_MS, "me", "")
        config = done(stores.oversight.read_config(OperatorConfig()))
        assert done(stores.oversight.replace_config(config.with_pauses([pause])))

        again = reopen()
        found = done(again.oversight.read_config(OperatorConfig()))
        assert pause in found.pauses
        assert done(again.oversight.replace_config(found.without([pause.target])))

    def test_a_changed_limit_is_kept_beside_pauses(
        self, stores: Stores, reopen: Callable[[], Stores], partition: int
    ) -> None:
        """Field by field, after opening again."""
        change = LimitChange(f"mail{partition}#1", 0.25, 60_000, 7, 3, NOW_MS, "me", "why")
        pause = Pause(PauseScope.PARTITION, partition)
        config = done(stores.oversight.read_config(OperatorConfig()))
        changed = config.with_pauses([pause])
        assert done(stores.oversight.replace_config(changed))
        assert done(stores.oversight.replace_config(changed.with_limit(change)))

        again = reopen()
        found = done(again.oversight.read_config(changed))
        assert found.change_of(change.limit) == change
        assert pause in found.pauses
        reset = found.without([pause.target]).without_limits([change.limit])
        assert done(again.oversight.replace_config(reset)) is False
        reset = replace(reset, version=found.version + 1)
        assert done(again.oversight.replace_config(reset))

    @pytest.mark.parametrize("limit", [1, 7, 1000])
    def test_the_audit_log_is_read_newest_first(
        self, stores: Stores, partition: int, limit: int
    ) -> None:
        """Each entry once, months apart or of one millisecond, field by field."""
        times = [NOW_MS, NOW_MS, NOW_MS + 1, NOW_MS - 40 * 86_400_000, NOW_MS + 70 * 86_400_000]
        entries = [entry(partition, number, at) for number, at in enumerate(times)]
        for each in entries:
            done(stores.oversight.append_audit(each, KEPT_MS))

        wanted = sorted(entries, key=lambda each: each.place, reverse=True)
        assert audited(stores, partition, limit) == wanted

    def test_what_came_of_it_replaces_an_entry(self, stores: Stores, partition: int) -> None:
        """It is begun before the act, and ended after it."""
        begun = entry(partition, 1)
        done(stores.oversight.append_audit(replace(begun, result="under way"), KEPT_MS))
        done(stores.oversight.append_audit(begun, KEPT_MS))

        assert audited(stores, partition, 100) == [begun]

    def test_an_entry_of_any_text(self, stores: Stores, partition: int) -> None:
        """Names and targets come from outside."""
        for number, text in enumerate(AWKWARD_IDS):
            written = AuditEntry(
                NOW_MS, f"{partition}-{number}", text[:500], text[:500], f"t{partition}", b"", ""
            )
            done(stores.oversight.append_audit(written, KEPT_MS))

        found = {each.who for each in audited(stores, partition, 100)}
        assert found == {text[:500] for text in AWKWARD_IDS}


class TallySuite(StoreSuite):
    """The contract of every ``TallyStore``."""

    def test_counts_are_read_as_they_were_written(self, stores: Stores, partition: int) -> None:
        """Only those of the hours asked for."""
        first = HourTally({0: 5, 59: 2}, 9, {"success": 2})
        second = HourTally({30: 1}, 1, {})
        hours = {NOW_MS: first, NOW_MS + HOUR_MS: second}
        done(stores.tallies.save(partition, hours, 77, write_time(1)))

        found = done(stores.tallies.load(partition, NOW_MS, NOW_MS + 2 * HOUR_MS))
        assert found.counted_offset == 77
        assert found.hours == hours
        part = done(stores.tallies.load(partition, NOW_MS + HOUR_MS, NOW_MS + 2 * HOUR_MS))
        assert part.hours == {NOW_MS + HOUR_MS: second}
        assert part.counted_offset == 77

    def test_nothing_is_counted_where_nothing_was_written(
        self, stores: Stores, partition: int
    ) -> None:
        """As a new partition finds it."""
        found = done(stores.tallies.load(partition, 0, NOW_MS))
        assert (found.counted_offset, dict(found.hours)) == (0, {})

    def test_an_offset_alone_can_be_written(self, stores: Stores, partition: int) -> None:
        """As where nothing but commands was read."""
        done(stores.tallies.save(partition, {}, 5, write_time(1)))
        assert done(stores.tallies.load(partition, 0, NOW_MS)).counted_offset == 5

    def test_a_late_write_of_an_earlier_owner_changes_nothing(
        self, stores: Stores, partition: int
    ) -> None:
        """By write time."""
        newer, older = HourTally({1: 1}), HourTally({2: 2})
        done(stores.tallies.save(partition, {NOW_MS: newer}, 10, write_time(2)))
        done(stores.tallies.save(partition, {NOW_MS: older}, 4, write_time(1, 99)))

        found = done(stores.tallies.load(partition, NOW_MS, NOW_MS + HOUR_MS))
        assert found.hours == {NOW_MS: newer}
        assert found.counted_offset == 10

    def test_old_hours_are_forgotten_and_the_offset_is_not(
        self, stores: Stores, partition: int
    ) -> None:
        """Up to the hour named."""
        hours = {NOW_MS - HOUR_MS: HourTally({1: 1}), NOW_MS: HourTally({2: 2})}
        done(stores.tallies.save(partition, hours, 3, write_time(1)))
        done(stores.tallies.forget(partition, NOW_MS, write_time(1, 2)))

        found = done(stores.tallies.load(partition, NOW_MS - HOUR_MS, NOW_MS + HOUR_MS))
        assert list(found.hours) == [NOW_MS]
        assert found.counted_offset == 3
