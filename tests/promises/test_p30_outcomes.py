"""P30: each closed task is told once its completion is durable, at least once, in order."""

import json
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hourhand import (
    Done,
    Drop,
    Scheduler,
    SchedulerClient,
    Settings,
    Snooze,
    Task,
    TaskExecutor,
)
from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.execution.backoff import RetryPolicy
from hourhand.actors.model.execution.outcome import Outcome
from hourhand.actors.model.operations.events import Event, OutcomeRefused, OutcomesHeld
from hourhand.actors.model.task.codec import Headers
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import Completion, CompletionResult
from hourhand.actors.model.task.task_result import StoredResult
from hourhand.actors.model.values.errors import InvalidTask, LogUnavailable, TaskTooLarge
from hourhand.actors.ports.store import Stores
from hourhand.scheduler.adapters.memory.delivery import Request
from hourhand.scheduler.adapters.memory.stores import MemoryStores, open_memory_stores
from hourhand.scheduler.configuration.door_settings import OutcomeSettings
from hourhand.scheduler.configuration.settings import EmbeddedSettings, TopicSettings
from hourhand.scheduler.services.outcomes.outcome_feed import (
    DOUBT_MS,
    TELLING_MAX,
    WINDOW_ROWS,
    OutcomeFeed,
)
from hourhand.scheduler.services.outcomes.outcome_sinks import TopicSink
from hourhand.scheduler.tasks.outcome_stream import OutcomeInfo
from hourhand.scheduler.testing import VirtualScheduler
from tests.builders import NOW_MS, a_completion, a_key

PATIENCE_S = 60.0
PARTITION, EPOCH = 3, 7
FIRST = EPOCH << 40


class Ends(TaskExecutor):
    """Ends as its data says."""

    retry = RetryPolicy(attempts_max=1, on_exhausted="skip")

    def execute(self, task: Task) -> Outcome | None:
        """Run."""
        match task.data["end"]:
            case "value":
                return Done({"paid": True})
            case "drop":
                return Drop("not wanted")
            case "fail":
                raise ValueError("it fails")
            case "snooze" if not self.snoozed:
                return Snooze(timedelta(seconds=1))
        return None


def a_task(
    end: str,
    of: str = "customer",
    due_in_s: float = 0,
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC),
    **more: Any,
) -> Task:
    """Return a task, by default of the kit's first minute."""
    return Task(
        ordering_id=of,
        scheduled_time=now + timedelta(seconds=due_in_s),
        uniqueness_key=end,
        data={"end": end},
        kind="ends",
        **more,
    )


def test_p30_each_way_a_task_closes_is_told_in_order_of_its_id() -> None:
    """The key that a task was moved away from is told of, too; a waiting task is not."""
    told = _told_of_all_ends()

    results = {each.key.uniqueness_key: each.result for each in told if each.result != "moved"}
    assert results == {
        "value": "success",
        "drop": "dropped",
        "fail": "failure",
        "snooze": "success",
        "well": "success",
        "late": "expired",
        "gone": "cancelled",
        "moved": "success",
    }
    ran = [each for each in told if each.key.ordering_id == "customer" and each.attempts]
    names = [each.key.uniqueness_key for each in ran]
    assert names == ["value", "drop", "fail", "snooze", "well", "moved"]
    assert {each.kind for each in told} == {"ends"}
    assert ran[0].value == {"paid": True}
    (away,) = (each for each in told if each.result == "moved")
    assert away.moved_to == datetime(2026, 1, 1, 0, 20, tzinfo=UTC)
    assert len({each.position for each in told}) == len(told)


def _told_of_all_ends() -> list[OutcomeInfo]:
    with VirtualScheduler(executors={"ends": Ends}) as kit:
        for place, end in enumerate(("value", "drop", "fail", "snooze", "well")):
            kit.schedule_task(a_task(end, due_in_s=place))
        kit.schedule_task(a_task("value"))
        moved = kit.schedule_task(a_task("moved", due_in_s=600)).result()
        expires = timedelta(milliseconds=1)
        kit.schedule_task(a_task("late", of="late", due_in_s=700, expires=expires))
        gone = kit.schedule_task(a_task("gone", due_in_s=900)).result()
        kit.schedule_task(a_task("waits", of="other", due_in_s=9_000))
        kit.client.reschedule_task(moved.key, datetime(2026, 1, 1, 0, 20, tzinfo=UTC))
        kit.client.cancel_task(gone.key)
        kit.advance(minutes=9)
        kit.down_for(minutes=5)
        kit.advance(minutes=30)
        return kit.outcomes()


def test_p30_an_embedded_client_goes_on_behind_a_position(tmp_path: Path) -> None:
    """With a client in another process, after a restart, and for as long as is kept."""
    settings = Settings(
        embedded=EmbeddedSettings(folder=tmp_path),
        topic=TopicSettings(partitions=2),
        outcomes=OutcomeSettings(kept_ms=3_600_000),
    )
    with Scheduler(settings, executors={"ends": Ends}) as scheduler:
        scheduler.schedule_task(a_task("value", now=datetime.now(UTC))).result(timeout=PATIENCE_S)
        (first,) = _taken(scheduler, 1)
        assert first.value == {"paid": True}

    with SchedulerClient(settings) as client:
        client.schedule_task(a_task("fail", now=datetime.now(UTC))).result(timeout=PATIENCE_S)
        with Scheduler(settings, executors={"ends": Ends}):
            (second,) = _taken(client, 1, after=first.position)
        assert (second.result, second.key.uniqueness_key) == ("failure", "fail")
        assert list(client.outcomes(after=second.position, timeout=0)) == []
        with pytest.raises(InvalidTask, match="after is -1"):
            next(client.outcomes(after=-1))


def _taken(client: "SchedulerClient | Scheduler", count: int, after: int = 0) -> list[OutcomeInfo]:
    told = client.outcomes(after=after, timeout=PATIENCE_S)
    return [next(told) for _ in range(count)]


class Topic:
    """``MessageWriter`` that refuses what a test says, and keeps the rest."""

    def __init__(self) -> None:
        self.taken: list[tuple[bytes | None, dict[str, Any], dict[str, bytes | None]]] = []
        self.refuses: list[tuple[str, Exception]] = []
        """Uniqueness keys that are refused once, with the error."""
        self.tries = 0

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Headers
    ) -> "Future[None]":
        """Take or refuse."""
        assert topic == "ends"
        assert value is not None
        self.tries += 1
        told, answer = json.loads(value), Future[None]()
        for each in self.refuses:
            if told["uniquenessKey"] == each[0]:
                self.refuses.remove(each)
                answer.set_exception(each[1])
                return answer
        self.taken.append((key, told, dict(headers)))
        answer.set_result(None)
        return answer

    def names(self) -> list[str]:
        """Return the uniqueness keys that were taken, in order."""
        return [told["uniquenessKey"] for _, told, _ in self.taken]

    def close(self) -> None:
        """Nothing is open."""


class Bench:
    """A feed of one process, over a store that may be shared with others."""

    def __init__(self, data: MemoryStores | None = None, topic: Topic | None = None) -> None:
        self.held: list[Request[Any]] = []
        self.holds: tuple[str, ...] = ()
        self.data = data or MemoryStores()
        self.topic = topic or Topic()
        self.clock = VirtualClock(NOW_MS)
        self.events: list[Event] = []
        self.bare = open_memory_stores(self.data, self._deliver)
        sink = TopicSink(self.topic, "ends")
        self.feed = OutcomeFeed(self.bare, sink, self.clock, self, "/hourhand/tasks")
        self.stores: Stores = self.feed.publishing(self.bare)

    def emit(self, event: Event) -> None:
        """Keep an event; this is the telemetry."""
        self.events.append(event)

    def _deliver(self, request: Request[Any]) -> None:
        if request.kind in self.holds:
            self.held.append(request)
        else:
            request()

    def close_task(self, number: int, *keys: str, **fields: Any) -> "Future[None]":
        """Write the completions of keys by the owner's write of a number."""
        completions = [a_closed(each, **fields) for each in keys]
        return self.stores.status.insert_completions(PARTITION, completions, FIRST + number)

    def step(self, epoch: int = EPOCH, after_ms: float = 0) -> list[str]:
        """Do a round some time later; return what the topic has."""
        self.clock.advance(after_ms)
        self.feed.step({PARTITION: epoch})
        return self.topic.names()


def a_closed(unique: str, of: str = "customer", **fields: Any) -> Completion:
    """Return a completion."""
    return a_completion(key=a_key(ordering_id=of, uniqueness_key=unique), **fields)


def test_p30_nothing_is_told_before_it_is_durable_and_later_writes_wait() -> None:
    """In the order of the writes."""
    bench = Bench()
    bench.holds = ("insert_completions",)
    first, second = bench.close_task(1, "a"), bench.close_task(2, "b")
    assert bench.step() == []

    bench.held.pop()()
    assert second.done()
    assert bench.step() == []
    bench.held.pop()()
    assert first.done()

    assert bench.step() == ["a", "b"]
    assert bench.step(after_ms=100_000) == ["a", "b"]
    assert not any(bench.data.outcome_log.values())


def test_p30_a_dead_process_leaves_what_was_durable_and_nothing_else() -> None:
    """A row whose completion was not written is not told, and not after a second takeover."""
    dead = Bench()
    dead.close_task(1, "a")
    dead.holds = ("insert_completions",)
    dead.close_task(2, "b", "c")
    data = dead.data
    data.completions.insert(PARTITION, a_closed("b").key, a_closed("b"), FIRST + 2)

    heir = Bench(data)
    ended_otherwise = a_closed("c", result=CompletionResult.FAILURE)
    later = (EPOCH + 1) << 40
    heir.stores.status.insert_completions(PARTITION, [ended_otherwise], later + 5)
    second = Bench(data)

    assert second.step(EPOCH + 2) == ["a"]
    second.step(EPOCH + 2, after_ms=DOUBT_MS)
    assert second.step(EPOCH + 2) == ["a", "b", "c"]
    assert [told["result"] for _, told, _ in second.topic.taken] == [
        "success",
        "success",
        "failure",
    ]


def test_p30_a_closed_key_that_was_opened_again_is_told_of_both_times() -> None:
    """The failure was durable before an operator opened it: it is told, also by a later owner."""
    dead = Bench()
    dead.close_task(1, "a", result=CompletionResult.FAILURE)
    dead.close_task(2, "a", result=CompletionResult.REOPENED, offset=9)
    dead.close_task(3, "a", offset=9, attempts=2)

    assert Bench(dead.data).step(EPOCH + 1) == ["a", "a"]


def test_p30_a_row_of_an_earlier_owner_that_comes_late_is_told_if_it_is_durable() -> None:
    """Its process did not know that another owner had come."""
    dead = Bench()
    dead.close_task(1, "a")
    heir = Bench(dead.data)
    assert heir.step(EPOCH + 1) == ["a"]

    dead.close_task(2, "b")
    dead.holds = ("insert_completions",)
    dead.close_task(3, "c")

    assert heir.step(EPOCH + 1) == ["a"]
    assert heir.step(EPOCH + 1, after_ms=61_000) == ["a", "b"]


@pytest.mark.parametrize("owners", [1, 2])
def test_p30_a_late_row_is_not_told_by_a_later_owner_if_it_never_took_effect(owners: int) -> None:
    """Another owner had closed its key, and further ones came before it was seen."""
    late = Bench()
    late.step()
    end_otherwise = a_closed("a", result=CompletionResult.FAILURE)
    for each in range(1, owners + 1):
        heir = Bench(late.data)
        ends = [end_otherwise] if each == 1 else [a_closed(f"of-{each}")]
        heir.stores.status.insert_completions(PARTITION, ends, (EPOCH + each << 40) + 1)
    late.close_task(1, "a")
    late.close_task(2, "b")

    last = Bench(late.data)
    last.step(EPOCH + owners + 1)
    last.step(EPOCH + owners + 1, after_ms=DOUBT_MS)
    last.step(EPOCH + owners + 1)

    told = [(each["uniquenessKey"], each["result"]) for _, each, _ in last.topic.taken]
    others = [(f"of-{each}", "success") for each in range(2, owners + 1)]
    assert told == [("b", "success"), ("a", "failure"), *others]


def test_p30_a_refused_outcome_is_tried_again_and_holds_its_ordering_id_alone() -> None:
    """A record that the topic has is not sent again; completions do not wait."""
    bench = Bench()
    bench.topic.refuses = [("a", LogUnavailable("down"))]
    bench.stores.status.insert_completions(
        PARTITION, [a_closed("a"), a_closed("b"), a_closed("c", of="other")], FIRST + 1
    )
    assert bench.step() == ["c"]
    assert bench.close_task(2, "d").done()
    assert bench.step(after_ms=100) == ["c"]

    assert bench.step(after_ms=1_000) == ["c", "a", "b", "d"]
    (held,) = [each for each in bench.events if isinstance(each, OutcomesHeld)]
    assert held.message == "down"


def test_p30_partitions_take_turns_where_all_have_more_to_tell() -> None:
    """A node tells of a few at once: those that were told of last wait for the others."""
    bench = Bench()
    partitions = range(2 * TELLING_MAX)
    bench.holds = ("load_closed",)
    for each in range(2):
        for partition in partitions:
            closed = [a_closed(f"{each} of {partition}")]
            bench.stores.status.insert_completions(partition, closed, FIRST + each + 1)
        bench.feed.step(dict.fromkeys(partitions, EPOCH))
        while bench.held:
            bench.held.pop(0)()

    assert {name.partition(" of ")[2] for name in bench.topic.names()} == set(map(str, partitions))


def test_p30_what_is_too_large_is_told_without_its_value() -> None:
    """And what even then is refused is reported, and holds nothing up."""
    bench = Bench()
    large = TaskTooLarge("too large")
    bench.topic.refuses = [("a", large), ("b", large), ("b", large)]
    bench.close_task(1, "a", "b", "c", reason="a long one")

    assert bench.step() == ["a", "c"]
    (_, told, headers), (_, whole, _) = bench.topic.taken
    assert (told["leftOut"], told.get("reason"), whole["reason"]) == (
        "too_large",
        None,
        "a long one",
    )
    assert headers["ce_type"] == b"hourhand.task.success"
    refused = [each for each in bench.events if isinstance(each, OutcomeRefused)]
    assert [each.key.uniqueness_key for each in refused] == ["b"]
    assert bench.step(after_ms=100_000) == ["a", "c"]


def test_p30_a_value_stays_as_it_is_stored() -> None:
    """Sealed or not; one whose time is over is missing, and the record says so."""
    bench = Bench()
    texts = {"a": b'{"value":[1]}', "b": b'{"hourhand.sealed":"x"}', "c": b""}
    results = [
        StoredResult(a_closed(each).key, 1, NOW_MS, NOW_MS + 9, text)
        for each, text in texts.items()
    ]
    bench.stores.results.insert_results(PARTITION, results, FIRST + 1)
    bench.close_task(2, *texts, "d")

    assert bench.step() == ["a", "b", "c", "d"]
    told = [each for _, each, _ in bench.topic.taken]
    assert [each.get("returned") for each in told] == [
        {"value": [1]},
        {"hourhand.sealed": "x"},
        None,
        None,
    ]
    assert [each.get("leftOut") for each in told] == [None, None, "expired", None]


def test_p30_a_backlog_is_told_in_windows_and_a_large_write_in_pieces() -> None:
    """However long nothing was taken: it waits in the store."""
    bench = Bench()
    for number in range(3 * WINDOW_ROWS):
        bench.close_task(1 + number, f"{number:04d}")
    many = [a_closed(f"m{number:03d}", of="x" * 30_000) for number in range(40)]
    bench.stores.status.insert_completions(PARTITION, many, FIRST + 1_000)
    assert len({place for place in bench.data.outcome_log[PARTITION] if place[0] > FIRST + 999}) > 3

    for _ in range(5):
        bench.step()

    names = bench.topic.names()
    assert names == sorted(names[: 3 * WINDOW_ROWS]) + [f"m{number:03d}" for number in range(40)]


def test_p30_a_failed_write_is_looked_at_before_the_next_one() -> None:
    """It may have had its effect, or not."""
    bench = Bench()
    bench.holds = ("insert_completions",)
    lost, landed = bench.close_task(1, "a", "l"), bench.close_task(2, "b")
    for request in bench.held:
        request.fail(LogUnavailable("nobody knows"))
    bench.data.completions.insert(PARTITION, a_closed("b").key, a_closed("b"), FIRST + 2)
    assert lost.exception()
    assert landed.exception()
    bench.holds = ()
    assert bench.step() == []

    bench.close_task(3, "c")
    assert bench.step() == []
    bench.data.completions.insert(PARTITION, a_closed("l").key, a_closed("l"), FIRST + 1)
    bench.step(after_ms=DOUBT_MS)

    assert bench.step() == ["l", "b", "c"]


def test_p30_an_end_in_doubt_is_looked_at_before_its_key_is_written_over() -> None:
    """Its write failed for the node, and had its effect."""
    bench = Bench()
    bench.holds = ("insert_completions",)
    lost = bench.close_task(1, "a", result=CompletionResult.FAILURE)
    bench.held.pop().fail(LogUnavailable("nobody knows"))
    failed = a_closed("a", result=CompletionResult.FAILURE)
    bench.data.completions.insert(PARTITION, failed.key, failed, FIRST + 1)
    assert lost.exception()
    bench.holds = ()

    bench.close_task(2, "a", result=CompletionResult.REOPENED, offset=9)
    bench.step()
    bench.step(after_ms=DOUBT_MS)

    assert bench.step() == ["a"]


def test_p30_hourhands_own_tasks_are_not_told() -> None:
    """They are no business of a reader's."""
    bench = Bench()
    own = a_completion(key=TaskKey(NOW_MS, "hourhand:recurring:x", "tick"))

    bench.stores.status.insert_completions(PARTITION, [own], FIRST + 1)

    assert bench.step() == []
    assert not bench.data.outcome_log
