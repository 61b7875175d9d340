"""Appending: acknowledged positions, sizes, the dead-letter topic, and what a close leaves."""

import random
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_futures

import pytest

from hourhand.actors.model.task.codec import LogRecord
from hourhand.actors.model.task.partition import partition_of
from hourhand.actors.model.values.errors import HourhandError, TaskTooLarge
from hourhand.actors.ports.log import Position
from hourhand.scheduler.runtime.light_future import LightFuture
from tests.conformance.log_bench import WAIT_S, Bench, LogWorld, append_all, poll_until


class AppendingContract:
    """One or more writers on one topic."""

    def test_partition_count_is_the_topics(self, bench: Callable[..., Bench]) -> None:
        """The number comes from the log, not from the settings."""
        assert bench(3).writer().partition_count() == 3

    def test_positions_grow_within_a_partition(self, bench: Callable[..., Bench]) -> None:
        """Offsets follow the order of the appends."""
        writer = bench(2).writer()
        offsets = append_all(writer, 1, [b"%d" % n for n in range(1_000)])
        assert offsets == sorted(set(offsets))

    def test_writers_on_many_threads_lose_nothing_and_keep_their_order(
        self, bench: Callable[..., Bench]
    ) -> None:
        """Each thread's own records stay in order."""
        made = bench(1)
        writer = made.writer()
        futures: list[Future[Position]] = []

        def append_many(name: int) -> None:
            futures.extend(writer.append(0, b"k", b"%d-%d" % (name, n)) for n in range(300))

        threads = [threading.Thread(target=append_many, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert not wait_futures(futures, timeout=WAIT_S).not_done
        member = made.join("a")
        poll_until(lambda: len(member.records) == 1_200, member)
        for name in range(4):
            prefix = b"%d-" % name
            mine = [v for v in member.values(0) if v is not None and v.startswith(prefix)]
            assert mine == [b"%d-%d" % (name, n) for n in range(300)]

    def test_flush_leaves_nothing_unacknowledged(self, bench: Callable[..., Bench]) -> None:
        """After a flush that returns 0 every future is done."""
        writer = bench(1).writer()
        futures = [writer.append(0, b"k", b"v") for _ in range(100)]
        assert writer.flush(10_000) == 0
        assert not wait_futures(futures, timeout=WAIT_S).not_done

    def test_a_record_too_large_is_refused_and_the_next_one_is_not(
        self, bench: Callable[..., Bench], log_world: LogWorld
    ) -> None:
        """The limit is a limit of one record; its neighbours pass."""
        made = bench(1)
        writer = made.writer()
        refused = writer.append(0, b"k", b"x" * (2 * log_world.record_bytes_max))
        with pytest.raises(TaskTooLarge):
            refused.result(WAIT_S)
        largest = b"x" * (log_world.record_bytes_max - 100)
        append_all(writer, 0, [largest])
        member = made.join("a")
        poll_until(lambda: member.values(0) == [largest], member)

    def test_who_is_named_for_a_record_is_told_of_it(
        self, bench: Callable[..., Bench], log_world: LogWorld
    ) -> None:
        """Where it stands, that it is too large, or that the writer was closed."""
        made = bench(2)
        writer = made.writer()
        told = [LightFuture[Position]() for _ in range(102)]
        for number, each in enumerate(told[:100]):
            writer.append_for(each, 1, b"k", b"%d" % number)
        writer.append_for(told[100], 1, b"k", b"x" * (2 * log_world.record_bytes_max))
        positions = [each.result(WAIT_S) for each in told[:100]]
        assert {position.partition for position in positions} == {1}
        assert positions == sorted(set(positions))
        with pytest.raises(TaskTooLarge):
            told[100].result(WAIT_S)
        member = made.join("a")
        poll_until(lambda: member.values(1) == [b"%d" % number for number in range(100)], member)
        writer.close()
        writer.append_for(told[101], 1, b"k", b"late")
        with pytest.raises(HourhandError):
            told[101].result(WAIT_S)

    def test_a_group_and_single_records_share_the_order_of_their_partition(
        self, bench: Callable[..., Bench]
    ) -> None:
        """Each ordering id's records lie in its own partition, as they were appended."""
        made = bench(3)
        writer = made.writer()
        ids = [f"id-{number}" for number in range(7)]
        group = writer.begin_group()
        for turn in range(60):
            for each in ids:
                if turn % 20:
                    group.append(each, b"%d" % turn)
                else:
                    writer.append(partition_of(each, 3), each.encode(), b"%d" % turn)
        assert group.settle() == {}
        member = made.join("a")
        poll_until(lambda: len(member.records) == 60 * len(ids), member)
        for each in ids:
            mine = [record for record in member.records if record.key == each.encode()]
            assert {record.partition for record in mine} == {partition_of(each, 3)}
            assert [record.value for record in mine] == [b"%d" % turn for turn in range(60)]

    def test_a_group_without_records_is_settled(self, bench: Callable[..., Bench]) -> None:
        """At once; and one that is settled says the same again."""
        writer = bench(1).writer()
        assert writer.begin_group().settle() == {}
        group = writer.begin_group()
        group.append("id", b"v")
        assert (group.settle(), group.settle()) == ({}, {})

    def test_groups_of_many_threads_settle_each_on_its_own(
        self, bench: Callable[..., Bench]
    ) -> None:
        """None waits for another for ever, and nothing is lost."""
        made = bench(2)
        writer = made.writer()
        failures: list[object] = []

        def append_many(name: int) -> None:
            for _ in range(5):
                group = writer.begin_group()
                for number in range(100):
                    group.append(f"{name}", b"%d-%d" % (name, number))
                failures.append(group.settle())

        threads = [threading.Thread(target=append_many, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S)
        assert failures == [{}] * 20
        member = made.join("a")
        poll_until(lambda: len(member.records) == 2_000, member)

    def test_a_record_too_large_in_a_group_leaves_its_neighbours(
        self, bench: Callable[..., Bench], log_world: LogWorld
    ) -> None:
        """It is refused at once, or told by its number."""
        made = bench(1)
        group = made.writer().begin_group()
        group.append("id", b"before")
        number = 1
        failures: dict[int, HourhandError] = {}
        try:
            group.append("id", b"x" * (2 * log_world.record_bytes_max))
        except TaskTooLarge:
            number = 0
        group.append("id", b"after")
        failures.update(group.settle())
        assert [*failures] == [1] * number
        assert all(isinstance(error, TaskTooLarge) for error in failures.values())
        member = made.join("a")
        poll_until(lambda: member.values(0) == [b"before", b"after"], member)

    def test_a_group_of_a_closed_writer_holds_nothing(self, bench: Callable[..., Bench]) -> None:
        """Earlier records are settled, and later ones are refused."""
        writer = bench(1).writer()
        group = writer.begin_group()
        group.append("id", b"v")
        writer.close()
        refused = False
        try:
            group.append("id", b"late")
        except HourhandError:
            refused = True
        assert [*group.settle()] == ([] if refused else [1])

    def test_a_dead_letter_holds_the_record_and_where_it_stood(
        self, bench: Callable[..., Bench]
    ) -> None:
        """Key, value and headers unchanged, four headers added; a record without any works too."""
        made = bench(2)
        record = LogRecord(1, 42, 1_700_000_000_000, b"id", b"\xffnot json", [("mine", b"1")])
        empty = LogRecord(0, 7, 0, None, None)
        writer = made.writer()
        for each in (record, empty):
            writer.dead_letter(each, f"reason {each.offset} ä").result(WAIT_S)
        letters = {each.key: each for each in made.topic.dead_letters(2)}
        letter = letters[b"id"]
        assert letter.value == b"\xffnot json"
        assert letter.headers[0] == ("mine", b"1")
        headers = dict(letter.headers)
        assert headers["hourhandReason"] == "reason 42 ä".encode()
        assert headers["hourhandPartition"] == b"1"
        assert headers["hourhandOffset"] == b"42"
        assert headers["hourhandTopic"]
        assert letters[None].value is None
        assert dict(letters[None].headers)["hourhandOffset"] == b"7"

    def test_the_limit_of_a_batch_counts_headers_as_they_are_compressed(
        self, bench: Callable[..., Bench], log_world: LogWorld
    ) -> None:
        """A record that a producer packs well passes, and so does the next one after a refusal."""
        made = bench(1)
        writer = made.writer()
        size_bytes = 2 * log_world.record_bytes_max
        packed_badly = random.Random(1).randbytes(size_bytes)
        refused = writer.append(0, b"k", b"first", [("h", packed_badly)])
        if log_world.bounds_batches:
            with pytest.raises(TaskTooLarge):
                refused.result(WAIT_S)
        writer.append(0, b"k", b"second", [("h", bytes(size_bytes))]).result(WAIT_S)
        member = made.join("a")
        poll_until(lambda: b"second" in member.values(0), member)
        assert (b"first" in member.values(0)) != log_world.bounds_batches

    def test_a_dead_letter_too_large_still_says_where_its_record_stood(
        self, bench: Callable[..., Bench], log_world: LogWorld
    ) -> None:
        """Whole where there is room, without what has none elsewhere; the next one is whole."""
        made = bench(1)
        writer = made.writer()
        value = random.Random(2).randbytes(2 * log_world.record_bytes_max)
        large = LogRecord(0, 42, 0, b"id", value, [("mine", b"1")])
        small = LogRecord(0, 43, 0, b"id", b"v", [("mine", b"1")])
        for each in (large, small):
            writer.dead_letter(each, "too large").result(WAIT_S)
        letters = {
            dict(each.headers)["hourhandOffset"]: each for each in made.topic.dead_letters(2)
        }
        headers = dict(letters[b"42"].headers)
        assert headers["hourhandReason"] == b"too large"
        assert (letters[b"42"].value == value) != ("hourhandLeftOut" in headers)
        assert ("hourhandLeftOut" in headers) == log_world.bounds_batches
        assert letters[b"43"].value == b"v"

    def test_a_closed_writer_resolves_all_and_takes_nothing(
        self, bench: Callable[..., Bench]
    ) -> None:
        """Nobody waits for a future that no thread will resolve."""
        writer = bench(1).writer()
        futures = [writer.append(0, b"k", b"v") for _ in range(200)]
        writer.close()
        writer.close()
        assert not wait_futures(futures, timeout=WAIT_S).not_done
        assert [each.exception() for each in futures] == [None] * 200
        with pytest.raises(HourhandError):
            writer.append(0, b"k", b"v").result(WAIT_S)
