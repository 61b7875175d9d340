"""Hardships of a log: foreign records, lost stretches, odd commits, wrong partitions."""

from collections.abc import Callable

import pytest

from hourhand.actors.model.values.errors import HourhandError
from hourhand.actors.ports.log import StartPosition
from tests.conformance.log_bench import WAIT_S, Bench, LogWorld, append_all, poll_for, poll_until

QUIET_S = 0.5
"""Long enough for a record that must not be delivered to arrive."""


class HardshipContract:
    """One member at a time, and a log that others write to and cut."""

    def test_records_of_other_producers_arrive_as_they_are(
        self, bench: Callable[..., Bench]
    ) -> None:
        """Without key, value or both, with headers nobody knows: judging them is not the log's."""
        made = bench(1)
        headers = [("traceparent", b"\xff\xfe\x00"), ("", b""), ("none", None), ("a" * 300, b"1")]
        foreign: list[tuple[bytes | None, bytes | None]] = [
            (None, None),
            (None, b""),
            (b"", None),
            (b"", b""),
            (b"\xff", b"\x00"),
            (None, b"{}"),
        ]
        for key, value in foreign:
            made.topic.append_foreign(0, key, value, headers)
        append_all(made.writer(), 0, [b"last"])
        member = made.join("a")
        poll_until(lambda: len(member.records) == 7, member)
        assert [(each.key, each.value) for each in member.records[:-1]] == foreign
        assert all(list(each.headers) == headers for each in member.records[:-1])
        assert member.values(0)[-1] == b"last"
        assert member.reached[0] == member.starts[0].end_offset

    def test_large_records_one_after_another(
        self, bench: Callable[..., Bench], log_world: LogWorld
    ) -> None:
        """As large as they may be, small ones between them, all in order."""
        made = bench(1)
        size = log_world.record_bytes_max - 200
        values = [
            b"%d" % number if number % 3 else b"%d" % (number % 10) * size for number in range(15)
        ]
        append_all(made.writer(), 0, values)
        member = made.join("a")
        poll_until(lambda: len(member.records) == len(values), member)
        assert member.values(0) == values

    def test_the_last_commit_counts_also_a_lower_one(self, bench: Callable[..., Bench]) -> None:
        """Going back reads records again, which is allowed; going on would lose them."""
        made = bench(1)
        offsets = append_all(made.writer(), 0, [b"%d" % n for n in range(10)])
        first = made.join("a")
        poll_until(lambda: len(first.records) == 10, first)
        for commit in (7, 9, 4):
            first.log.commit({0: offsets[commit]})
        first.reached[0] = offsets[2]
        made.leave(first)
        second = made.join("b")
        poll_until(lambda: len(second.records) == 8, second)
        assert second.starts[0].next_offset == offsets[2]

    def test_a_commit_of_nothing_or_of_a_foreign_partition_changes_nothing(
        self, bench: Callable[..., Bench]
    ) -> None:
        """Neither is an error, and both leave what was committed."""
        made = bench(2)
        offsets = append_all(made.writer(), 0, [b"a", b"b", b"c"])
        first = made.join("a")
        first.log.commit({})
        first.log.commit({0: 1})
        poll_until(lambda: len(first.records) == 3 and len(first.starts) == 2, first)
        first.log.commit({0: offsets[1]})
        first.log.commit({})
        first.log.commit({57: 3})
        poll_for(QUIET_S, first)
        first.reached[0] = offsets[1]
        made.leave(first)
        second = made.join("b")
        poll_until(lambda: second.values(0) == [b"b", b"c"], second)
        assert second.starts[0].next_offset == offsets[1]

    @pytest.mark.parametrize("partition", [-1, 2, 99])
    def test_a_partition_that_is_not_there_is_refused(
        self, bench: Callable[..., Bench], partition: int
    ) -> None:
        """By writer and reader, and neither is worse for it; nothing lands elsewhere."""
        made = bench(2)
        writer = made.writer()
        with pytest.raises((ValueError, HourhandError)):
            writer.append(partition, b"key", b"lost").result(WAIT_S)
        member = made.join("a")
        poll_until(lambda: len(member.starts) == 2, member)
        with pytest.raises((ValueError, HourhandError)):
            member.log.start(partition, None)
        append_all(writer, 0, [b"a"])
        append_all(writer, 1, [b"b"])
        member.commit()
        poll_until(lambda: len(member.records) == 2, member)
        poll_for(QUIET_S, member)
        assert (member.values(0), member.values(1)) == ([b"a"], [b"b"])

    def test_a_log_cut_above_what_was_committed_begins_at_its_first_record(
        self, bench: Callable[..., Bench]
    ) -> None:
        """Retention took unread records: what is still there is read, all of it, once."""
        made = bench(1)
        writer = made.writer()
        offsets = append_all(writer, 0, [b"%d" % n for n in range(10)])
        first = made.join("a")
        poll_until(lambda: len(first.records) == 10, first)
        first.reached[0] = offsets[2]
        made.leave(first)
        made.topic.trim(0, offsets[6])
        append_all(writer, 0, [b"new"])
        second = made.join("b")
        poll_until(lambda: len(second.records) == 5, second)
        assert second.starts[0].next_offset == offsets[6]
        assert second.values(0) == [b"6", b"7", b"8", b"9", b"new"]
        assert second.reached[0] == second.starts[0].end_offset

    def test_a_log_cut_under_its_reader_loses_nothing_that_is_there(
        self, bench: Callable[..., Bench]
    ) -> None:
        """A reader sent to a place that is gone goes on with the first record there is."""
        made = bench(1)
        writer = made.writer()
        offsets = append_all(writer, 0, [b"%d" % n for n in range(10)])
        member = made.join("a")
        poll_until(lambda: len(member.records) == 10, member)
        made.topic.trim(0, offsets[7])
        member.records.clear()
        member.log.seek(0, offsets[1])
        append_all(writer, 0, [b"new"])
        poll_until(lambda: len(member.records) >= 4, member)
        poll_for(QUIET_S, member)
        assert member.values(0) == [b"7", b"8", b"9", b"new"]

    def test_a_log_of_which_nothing_is_left(
        self, bench: Callable[..., Bench], log_world: LogWorld
    ) -> None:
        """Reading begins at its end, whatever was committed or stored; offsets go on from there."""
        if not log_world.loses_last_records:
            pytest.skip(
                "the last records of this log are never removed: without them it is damaged"
            )
        made = bench(1)
        writer = made.writer()
        offsets = append_all(writer, 0, [b"a", b"b", b"c"])
        end = offsets[-1] + 1
        made.topic.trim(0, end)
        member = made.join("a")
        member.stored = {0: offsets[1]}
        poll_until(lambda: 0 in member.starts, member)
        assert member.starts[0] == StartPosition(end, end, member.starts[0].topic_id)
        assert append_all(writer, 0, [b"d"]) == [end]
        poll_until(lambda: member.values(0) == [b"d"], member)

    def test_offsets_go_on_after_everything_was_closed(self, bench: Callable[..., Bench]) -> None:
        """No offset is given twice, and what was committed is not read again."""
        made = bench(1)
        offsets: list[int] = []
        for round_number in range(3):
            writer = made.writer()
            offsets += append_all(writer, 0, [b"%d" % round_number] * 3)
            writer.close()
            member = made.join(f"member {round_number}")
            poll_until(lambda: len(member.records) == 3, member)  # noqa: B023
            poll_for(QUIET_S, member)
            assert member.values(0) == [b"%d" % round_number] * 3
            made.leave(member)
        assert offsets == sorted(set(offsets))
