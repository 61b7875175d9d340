"""P29: the tasks of a group bring one follower, once all of them have ended, however often a node
dies meanwhile.
"""

import json
import random
import sqlite3
import string
from concurrent.futures import Future
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hourhand import Done, RetryPolicy, Task, TaskExecutor, TaskState
from hourhand.actors.model.task.codec import encode_task
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.links import On, with_then
from hourhand.actors.model.values.errors import (
    CallerError,
    InvalidTask,
    StoreUnavailable,
    TaskTooLarge,
)
from hourhand.actors.ports.log import Position
from hourhand.payloads import AesGcm, PayloadCodecs
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.outbox.mover import Mover
from hourhand.scheduler.outbox.ports import OutboxRow
from hourhand.scheduler.outbox.refused import key_of
from hourhand.scheduler.outbox.scheduling import Outbox
from hourhand.scheduler.outbox.sqlite import SqliteOutbox
from hourhand.scheduler.services.system.definition_book import DefinitionBook
from hourhand.scheduler.tasks.appending import TaskAppender
from hourhand.scheduler.tasks.grouping import MEMBERS_MAX, GroupRecords, group_of
from hourhand.scheduler.testing import VirtualScheduler
from hourhand.testing import TaskEnd
from tests.failing_once import fail_once

Told = tuple[TaskEnd, ...]


class Bench:
    """Pages of a report, which are rendered in orders of their own, and what is told of them."""

    def __init__(self, **fields: Any) -> None:
        bench = self
        self.told: list[Told] = []
        self.says: dict[str, object] = {}
        """By ordering id: the value that a page ends with, or an error."""

        class Page(TaskExecutor):
            retry = RetryPolicy(attempts_max=1)

            def execute(self, task: Task) -> Done | None:
                if task.ordering_id == "report":
                    bench.told.append(task.after)
                    return None
                said = bench.says.get(task.ordering_id)
                if isinstance(said, Exception):
                    raise said
                return Done(said)

        self.scheduler = VirtualScheduler(Page, **fields)
        self.client = self.scheduler.client
        self.at = self.scheduler.now + timedelta(minutes=1)
        self.report = Task(ordering_id="report", scheduled_time=self.at, uniqueness_key="7")

    def page(self, number: int) -> Task:
        """Return a member; each is due a minute after the one before."""
        at = self.at + timedelta(minutes=number)
        return Task(ordering_id=f"page-{number}", scheduled_time=at, uniqueness_key="7")

    def group(self, count: int = 3, on: On = "success") -> list[Task]:
        """Schedule a group."""
        pages = [self.page(number) for number in range(count)]
        receipts = self.client.group(pages, then=self.report, on=on).result(0)
        assert [each.key for each in receipts] == [each.key for each in pages]
        return pages

    def records(self, pages: list[Task], on: On = "success") -> GroupRecords:
        """Return what is sent for a group."""
        members = [(each.key, encode_task(each)) for each in pages]
        follower = self.report.key, encode_task(self.report)
        return group_of(members, follower, on, self.scheduler.clock.now_ms())

    def append(self, *records: tuple[TaskKey, bytes]) -> None:
        """Append records as a mover of an outbox does."""
        appender = TaskAppender(MemoryWriter(self.scheduler.broker), 4)
        for key, record in records:
            appender.append_record(key.ordering_id, record).result(0)

    def states(self) -> list[list[str]]:
        """Return the states of all members, for each run of the follower."""
        return [[end.state for end in told] for told in self.told]


@pytest.mark.parametrize("sealed", [False, True])
def test_p29_a_follower_runs_once_all_have_ended_and_finds_how_in_their_order(
    *, sealed: bool
) -> None:
    """Whichever ends first; a move changes nothing of that."""
    payloads = PayloadCodecs(AesGcm({"k": bytes(range(32))})) if sealed else None
    bench = Bench(payloads=payloads)
    bench.says = {f"page-{number}": number for number in range(3)}
    pages = bench.group()
    later = bench.at + timedelta(minutes=9)
    bench.client.reschedule_task(pages[0].key, later).result(0)
    bench.scheduler.advance(minutes=8)
    assert bench.told == []
    bench.scheduler.advance(minutes=8)

    (told,) = bench.told
    moved = pages[0].model_copy(update={"scheduled_time": later}).key
    assert [end.key for end in told] == [moved, pages[1].key, pages[2].key]
    assert [(end.state, end.result) for end in told] == [("success", at) for at in range(3)]
    assert bench.scheduler.result_of(bench.report.key) == "success"


@pytest.mark.parametrize("on", ["success", "any"])
def test_p29_an_end_that_is_not_good_brings_the_follower_of_any_alone(on: On) -> None:
    """A failure, a cancel and a drop; under ``success`` the group waits for a retry that succeeds.

    What a follower was told stays, and it runs once.
    """
    bench = Bench()
    bench.says["page-0"] = ValueError("no paper")
    pages = bench.group(4, on)
    bench.client.cancel_task(pages[1].key).result(0)
    bench.client.drop_task(pages[2].key).result(0)
    bench.scheduler.advance(minutes=9)
    ends = ["failure", "cancelled", "dropped", "success"]
    assert bench.states() == ([ends] if on == "any" else [])

    bench.says.clear()
    for page in (pages[0], pages[2]):
        bench.client.retry_task(page.key).result(0)
    bench.scheduler.advance(minutes=9)
    assert bench.states() == ([ends] if on == "any" else [])


def test_p29_a_member_that_succeeds_by_a_retry_completes_its_group() -> None:
    """As long as it can be retried; a second failure changes nothing."""
    bench = Bench()
    bench.says["page-1"] = ValueError("no paper")
    pages = bench.group()
    bench.scheduler.advance(minutes=9)
    bench.client.retry_task(pages[1].key).result(0)
    bench.scheduler.advance(days=6)
    assert bench.told == []

    bench.says.clear()
    bench.client.retry_task(pages[1].key).result(0)
    bench.scheduler.advance(minutes=1)
    assert bench.states() == [["success"] * 3]


def test_p29_the_same_call_again_is_the_same_group() -> None:
    """As after a crash of the client: before its members were sent, or behind some of their
    ends.
    """
    bench = Bench()
    pages = [bench.page(number) for number in range(3)]
    bench.append(bench.records(pages).request)
    bench.scheduler.advance(seconds=30)
    for _ in range(3):
        bench.group()
        bench.scheduler.advance(seconds=18)
    bench.scheduler.advance(minutes=9)

    assert bench.states() == [["success"] * 3]


@pytest.mark.parametrize("ended", [1, 3])
@pytest.mark.parametrize("on", ["success", "any"])
def test_p29_a_group_counts_what_ended_before_it_was_made(ended: int, on: On) -> None:
    """As from an outbox, whose rows of several ordering ids have no order among them."""
    bench = Bench()
    bench.says["page-0"] = ValueError("no paper")
    records = bench.records([bench.page(number) for number in range(3)], on)
    bench.append(*records.members)
    bench.scheduler.advance(minutes=ended, seconds=30)
    assert bench.told == []

    bench.scheduler.crash()
    bench.append(records.request, records.request)
    bench.scheduler.advance(minutes=9)
    assert bench.states() == ([["failure", "success", "success"]] if on == "any" else [])

    bench.says.clear()
    bench.client.retry_task(bench.page(0).key).result(0)
    bench.scheduler.advance(minutes=9)
    assert [told[1].state for told in bench.told] == ["success"]


@pytest.mark.parametrize("sealed", [False, True])
def test_p29_a_group_of_an_outbox_follows_its_transaction(tmp_path: Path, *, sealed: bool) -> None:
    """Nothing of one that was rolled back; rows may be moved in any order, and twice."""
    payloads = PayloadCodecs(AesGcm({"k": bytes(range(32))})) if sealed else None
    bench = Bench(payloads=payloads)
    outbox = Outbox(Settings(), bench.scheduler.clock, payloads=payloads)
    path = tmp_path / "shop.db"
    path.touch()
    table = SqliteOutbox(path, "hourhand_outbox")
    table.migrate()
    pages = [bench.page(number) for number in range(3)]
    with closing(sqlite3.connect(path)) as shop:
        outbox.group(shop, [bench.page(7)], then=bench.report, on="any")
        shop.rollback()
        keys = outbox.group(shop, pages, then=bench.report)
        shop.commit()
        rows = [record for (record,) in shop.execute("SELECT record FROM hourhand_outbox")]
    assert keys == [each.key for each in pages]
    mover = Mover(
        table, MemoryWriter(bench.scheduler.broker), bench.scheduler.clock, rows_max=2, poll_ms=1
    )
    while mover.move():
        bench.scheduler.advance(minutes=1)
    bench.append(*((key_of(OutboxRow(0, row, 0)), row) for row in rows))
    bench.scheduler.advance(minutes=9)

    assert bench.states() == [["success"] * 3]


PIECES: tuple[tuple[type, str, int], ...] = (
    (DefinitionBook, "find", 0),
    (DefinitionBook, "save", 0),
    (DefinitionBook, "save", 1),
    (DefinitionBook, "save", 2),
    (TaskAppender, "append_record", 0),
)
"""Whatever a group of two waits for, and how many of those come before."""


@pytest.mark.parametrize("takes_effect", [False, True])
@pytest.mark.parametrize(("owner", "name", "before"), PIECES)
def test_p29_a_crash_at_any_await_loses_no_follower(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, before: int, *, takes_effect: bool
) -> None:
    """Before and after it was durable; another node goes on."""
    bench = Bench()
    calls = fail_once(monkeypatch, owner, name, before, takes_effect=takes_effect)
    bench.group(2)
    bench.scheduler.run_due()
    for _ in range(4):
        bench.scheduler.crash()
        bench.scheduler.advance(minutes=1)

    assert len(calls) > before
    assert bench.states() == [["success"] * 2]


def test_p29_members_that_end_weeks_late_complete_their_group() -> None:
    """A day after the other, a month later, with nodes that come and go."""
    bench = Bench()
    bench.group(2)
    bench.scheduler.advance(seconds=90)
    bench.scheduler.down_for(days=40)
    bench.scheduler.advance(minutes=5)

    assert bench.states() == [["success"] * 2]


def test_p29_no_member_is_in_the_log_before_its_group_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call fails if the log takes no group, and nothing was sent."""
    bench = Bench()
    refused = Future[Position]()
    sent: list[str] = []

    def append_for(_own: object, asked: Any, _partition: int, key: bytes, _value: bytes) -> None:
        sent.append(key.decode())
        refused.add_done_callback(lambda done: asked.set_exception(done.exception()))

    monkeypatch.setattr(MemoryWriter, "append_for", append_for)
    grouped = bench.client.group([bench.page(0)], then=bench.report)
    (name,) = sent
    assert name.startswith("hourhand:group:") and not grouped.done()
    refused.set_exception(StoreUnavailable("the broker died here"))

    assert isinstance(grouped.exception(0), StoreUnavailable)
    assert sent == [name]


def test_p29_results_are_told_up_to_a_bound() -> None:
    """The rest comes without; so does all of it where the log takes no more."""
    bench = Bench()
    bench.says = {f"page-{number}": "x" * 60_000 for number in range(6)}
    bench.group(6)
    bench.scheduler.advance(minutes=9)
    (told,) = bench.told
    assert [end.result is not None for end in told] == [True] * 4 + [False] * 2

    small = Bench()
    awkward = "".join(random.Random(7).choices(string.ascii_letters, k=60_000))
    small.says = {f"page-{number}": awkward[number:] for number in range(3)}
    small.scheduler.broker.batch_bytes_max = 100_000
    small.group()
    small.scheduler.advance(minutes=9)
    (told,) = small.told
    assert [end.result for end in told] == [None] * 3


def test_a_group_that_cannot_be_is_refused_before_anything_is_sent() -> None:
    """Too many, none, one of them twice, its own follower, a wrong condition, too much text."""
    bench = Bench()
    page, group, report = bench.page(0), bench.client.group, bench.report
    many = [page.model_copy(update={"uniqueness_key": str(n)}) for n in range(MEMBERS_MAX + 1)]
    long = [page.model_copy(update={"uniqueness_key": f"{n}{'y' * 3_000}"}) for n in range(400)]
    wrong: Any = "sometimes"
    nothing: Any = None
    refusals: list[tuple[Future[Any], type[CallerError], str]] = [
        (group(many, then=report), InvalidTask, "at most 500"),
        (group([], then=report), InvalidTask, "at least"),
        (group([page, bench.page(1), page], then=report), InvalidTask, "twice"),
        (group([page], then=page), InvalidTask, "follow itself"),
        (group([page], then=report, on=wrong), InvalidTask, "on is"),
        (group(page, then=report), InvalidTask, "got a Task"),  # type: ignore[arg-type]
        (group(nothing, then=report), InvalidTask, "as in a list, got None"),
        (group(long, then=report), TaskTooLarge, "record_bytes_max"),
    ]
    for refused, error, says in refusals:
        failure = refused.exception(0)
        assert isinstance(failure, error) and says in str(failure)
    assert not any(each.end_offset for each in bench.scheduler.broker.partitions)


def test_what_another_producer_reports_to_a_group_spoils_nothing() -> None:
    """Reports of no group, with a wrong number, or without an end: each is closed."""
    bench = Bench()
    ids = "hourhand:group:00"
    writer = TaskAppender(MemoryWriter(bench.scheduler.broker), 4)
    made = Task.model_construct(
        ordering_id=ids,
        scheduled_time=bench.scheduler.now,
        uniqueness_key="1",
        data={"group": "made", "members": 1, "follower": "{}", "on": "any"},
    )
    keys: list[TaskKey] = []
    for number, data in enumerate(({"group": "ended", "member": 0}, {"group": 1}, {})):
        task = made.model_copy(update={"uniqueness_key": str(number), "data": data})
        writer.append(task).result(0)
        keys.append(task.key)
    writer.append(made.model_copy(update={"uniqueness_key": "9"})).result(0)
    report = made.model_copy(
        update={"uniqueness_key": "10", "data": {"group": "ended", "member": 7}}
    )
    record = with_then(encode_task(bench.page(0)), encode_task(report), "any")
    writer.append_record("page-0", record).result(0)
    bench.scheduler.advance(minutes=3)

    assert {bench.scheduler.result_of(key) for key in keys} == {"dropped"}
    assert bench.told == []


@pytest.mark.parametrize(
    "other",
    [
        {"members": 0},
        {"members": -1},
        {"members": 10**30},
        {"members": MEMBERS_MAX + 1},
        {"follower": "nonsense"},
        {"follower": "{}"},
        {"follower": '{"orderingId":"report","uniquenessKey":"7","command":"cancel"}'},
    ],
)
def test_a_request_for_a_group_that_no_client_sends_is_dropped(other: dict[str, object]) -> None:
    """It leaves no row, and is not tried for ever."""
    bench = Bench()
    pages = [bench.page(0)]
    key, record = bench.records(pages).request
    sent = json.loads(record)
    sent["taskData"].update(other)
    bench.append((key, json.dumps(sent).encode()), *bench.records(pages).members)
    bench.scheduler.advance(minutes=5)

    assert bench.client.find_task(key).state is TaskState.DROPPED
    assert bench.told == []
