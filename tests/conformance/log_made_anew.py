"""A topic that is deleted and made again, with the same name: nothing of it is skipped."""

from collections.abc import Callable

import pytest

from tests.conformance.log_bench import Bench, LogWorld, append_all, poll_until


class MadeAnewContract:
    """Offsets begin at 0 again, and what group and store had noted is another topic's."""

    @pytest.fixture
    def anew(self, bench: Callable[..., Bench], log_world: LogWorld) -> Bench:
        """Return a topic of two partitions that may be recreated."""
        if not log_world.topics_have_ids:
            pytest.skip("the topic of this log cannot be deleted alone")
        return bench(2)

    @pytest.mark.parametrize("new", [3, 15])
    def test_it_is_read_from_its_beginning_though_a_store_and_the_group_noted_more(
        self, anew: Bench, new: int
    ) -> None:
        """True if it is shorter or longer than what was noted, and each time again."""
        noted: dict[int, int] = {}
        topic_id = ""
        values: list[bytes] = []
        for turn in range(3):
            if turn:
                anew.topic.make_anew()
            values = [b"%d-%d" % (turn, number) for number in range(new if turn else 10)]
            append_all(anew.writer(), 0, values)
            member = anew.join(f"member {turn}")
            member.stored, member.stored_topic_id = noted, topic_id
            poll_until(lambda: len(member.values(0)) == len(values), member)  # noqa: B023

            assert member.values(0) == values
            assert member.starts[0].topic_id != topic_id
            assert member.starts[0].next_offset >= noted.get(0, 0)
            assert all(each.offset >= noted.get(0, 0) for each in member.records)
            noted = {each: member.next_offset(each) for each in member.starts}
            topic_id = member.starts[0].topic_id
            anew.leave(member)
        again = anew.join("again")
        again.stored, again.stored_topic_id = noted, topic_id
        poll_until(lambda: len(again.starts) == 2, again)
        assert again.starts[0].next_offset == noted[0] == again.starts[0].end_offset

    def test_a_member_that_reads_begins_anew_and_commits_nothing_of_the_old_one(
        self, anew: Bench
    ) -> None:
        """All partitions are given up and assigned again; its successor begins where it stood."""
        append_all(anew.writer(), 0, [b"old-%d" % number for number in range(10)])
        member = anew.join("a")
        poll_until(lambda: len(member.values(0)) == 10, member, committing=True)
        old = {each: member.next_offset(each) for each in member.starts}
        old_id = member.starts[0].topic_id
        values = [b"new-%d" % number for number in range(15)]

        anew.topic.make_anew()
        append_all(anew.writer(), 0, values)
        member.stored, member.stored_topic_id = old, old_id
        poll_until(lambda: _began_anew(anew, member.name), member, committing=True)
        member.records.clear()
        poll_until(lambda: len(member.values(0)) == 15, member, committing=True)

        assert member.values(0) == values
        assert member.starts[0].topic_id != old_id
        assert all(each.offset >= old[0] for each in member.records)
        stored = {each: member.next_offset(each) for each in member.starts}
        topic_id = member.starts[0].topic_id
        anew.leave(member)
        successor = anew.join("b")
        successor.stored, successor.stored_topic_id = stored, topic_id
        poll_until(lambda: len(successor.starts) == 2, successor)
        assert successor.starts[0].next_offset == stored[0]


def _began_anew(bench: Bench, name: str) -> bool:
    given_up = [f"{name} revoking [0, 1]" in bench.history, f"{name} lost [0, 1]" in bench.history]
    return any(given_up) and bench.history.count(f"{name} assigned [0, 1]") == 2
