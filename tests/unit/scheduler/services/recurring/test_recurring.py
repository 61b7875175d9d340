"""Recurring schedules under a virtual clock: every time once, whatever happens meanwhile."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import tenacity

from hourhand import Hourhand, RetryPolicy, SchedulerClient, Task, TaskExecutor
from hourhand.actors.model.values.errors import InvalidTask, NoSuchSchedule
from hourhand.actors.model.values.instant import format_instant, to_millis
from hourhand.scheduler.adapters.memory.writer import MemoryWriter
from hourhand.scheduler.client.client import ClientPorts
from hourhand.scheduler.services.recurring.state import Change, ChangeRequest, change_task
from hourhand.scheduler.testing import RecordingTelemetry, VirtualScheduler

NOT_JSON: Any = {1, 2}
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


class Slow(TaskExecutor):
    """Fails until its task is ``takes_s`` old, and is tried again each second."""

    retry = RetryPolicy(attempts_max=10_000, wait=tenacity.wait_fixed(1))
    takes_s: float = 0
    clock: VirtualScheduler

    def execute(self, task: Task) -> None:
        """Succeed once enough time has passed."""
        if self.clock.now - task.scheduled_time < timedelta(seconds=self.takes_s):
            raise TimeoutError


class Bench:
    """A scheduler at midnight."""

    def __init__(self, takes_s: float = 0, now: datetime = MIDNIGHT) -> None:
        executor = type("OneTestsSlow", (Slow,), {"takes_s": takes_s})
        self.scheduler = VirtualScheduler(executor, now=now)
        setattr(executor, "clock", self.scheduler)  # noqa: B010 - a class made just now
        self.client = self.scheduler.client

    def advance(self, **units: float) -> None:
        """Let time pass."""
        self.scheduler.advance(timedelta(**units))

    def ports(self) -> ClientPorts:
        """Return what another client of the installation works with."""
        kit = self.scheduler
        return ClientPorts(
            MemoryWriter(kit.broker), lambda: kit.stores, kit.clock, RecordingTelemetry()
        )

    def at(self, seconds: float) -> str:
        """Return a moment as it stands in a uniqueness key."""
        return format_instant(to_millis(MIDNIGHT) + round(seconds * 1000))

    @property
    def ran(self) -> list[str]:
        """The uniqueness keys of what ran, in order."""
        return [
            each.key.uniqueness_key
            for each in self.scheduler.executions
            if each.result == "success" and not each.key.ordering_id.startswith("hourhand:")
        ]

    def expected(self, *seconds: float, name: str = "n") -> list[str]:
        """Return the uniqueness keys of these times."""
        return [f"{name}@{self.at(each)}" for each in seconds]


def test_an_interval_runs_each_time_once_without_drift() -> None:
    """The task has the ordering id and data it was given."""
    bench = Bench()
    bench.client.schedule_recurring(
        "n", every=timedelta(seconds=10), ordering_id="customer-7", data={"a": 1}
    ).result()
    bench.advance(seconds=35)

    assert bench.ran == bench.expected(10, 20, 30)
    keys = [e.key for e in bench.scheduler.executions if e.key.ordering_id == "customer-7"]
    assert [key.scheduled_ms for key in keys] == [
        to_millis(MIDNIGHT) + each for each in (10_000, 20_000, 30_000)
    ]


@pytest.mark.parametrize(
    ("first", "ran"),
    [
        ("2026-03-28", ["28T01:30", "29T01:00", "30T00:30"]),
        ("2026-10-24", ["24T00:30", "25T00:30", "26T01:30"]),
    ],
)
def test_a_cron_expression_runs_through_both_switches(first: str, ran: list[str]) -> None:
    """At half past two in Berlin: a time the clock skips one night, and shows twice another."""
    bench = Bench(now=datetime.fromisoformat(f"{first}T00:00:00Z"))
    bench.client.schedule_recurring("n", cron="30 2 * * *", time_zone="Europe/Berlin").result()
    bench.advance(days=3)

    month = first[:8]
    assert bench.ran == [f"n@{month}{each}:00.000Z" for each in ran]


@pytest.mark.parametrize("every_s", [3, 10])
def test_a_crash_at_any_time_neither_loses_nor_doubles(every_s: int) -> None:
    """Between two occurrences, and at the very moment of one."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(seconds=every_s)).result()
    for _ in range(30):
        bench.advance(seconds=1)
        bench.scheduler.crash()

    assert bench.ran == bench.expected(*range(every_s, 31, every_s))


def test_skip_leaves_out_what_would_overlap() -> None:
    """The default: the next one that finds nothing open runs."""
    bench = Bench(takes_s=60)
    bench.client.schedule_recurring("n", every=timedelta(seconds=40)).result()
    bench.advance(seconds=280)

    assert bench.ran == bench.expected(40, 120, 200)
    found = bench.client.find_recurring("n")
    assert found is not None
    assert (found.state.taken, found.state.skipped) == (4, 3)


def test_buffer_one_lets_one_wait() -> None:
    """It runs when the one before it has ended."""
    bench = Bench(takes_s=25)
    bench.client.schedule_recurring("n", every=timedelta(seconds=10), overlap="buffer_one").result()
    bench.advance(seconds=52)

    assert bench.ran == bench.expected(10, 20)
    found = bench.client.find_recurring("n")
    assert found is not None
    assert found.state.skipped >= 1


def test_allow_gives_each_occurrence_an_ordering_id_of_its_own() -> None:
    """So they run beside each other."""
    bench = Bench(takes_s=25)
    bench.client.schedule_recurring(
        "n", every=timedelta(seconds=10), overlap="allow", ordering_id="o"
    ).result()
    bench.advance(seconds=46)

    assert bench.ran == bench.expected(10, 20)
    started = {e.key.ordering_id for e in bench.scheduler.executions if e.key.ordering_id[0] == "o"}
    assert started == {f"o@{bench.at(each)}" for each in (10, 20, 30, 40)}


def test_what_fell_due_during_an_outage_is_made_up_for_within_the_window() -> None:
    """What is older is not, and the rhythm goes on."""
    bench = Bench()
    bench.client.schedule_recurring(
        "n", every=timedelta(seconds=40), catch_up=timedelta(seconds=100), overlap="allow"
    ).result()
    bench.advance(seconds=48)
    bench.scheduler.stop()
    bench.scheduler.clock.advance(400_000)
    bench.scheduler.restart()
    bench.advance(seconds=40)

    assert bench.ran == bench.expected(40, 360, 400, 440, 480)
    found = bench.client.find_recurring("n")
    assert found is not None
    assert found.state.missed == 1


def test_a_paused_schedule_rests_and_goes_on_where_the_rhythm_is() -> None:
    """Nothing is made up for."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(seconds=10)).result()
    bench.advance(seconds=15)
    bench.client.pause_recurring("n").result()
    bench.advance(seconds=100)
    found = bench.client.find_recurring("n")
    assert found is not None
    assert found.state.paused

    bench.client.resume_recurring("n").result()
    bench.client.resume_recurring("n").result()
    bench.advance(seconds=10)
    assert bench.ran == bench.expected(10, 120)


def test_a_time_that_was_made_is_not_made_again_by_a_resume_asked_before_it() -> None:
    """A pause and its end that come through the log behind a tick: the time would count twice
    against the count, and as an open one in the way of the next.
    """
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(seconds=10), count_max=4).result()
    bench.advance(seconds=12)
    for change, asked_s in ((Change.PAUSE, 8), (Change.RESUME, 9)):
        asked_ms = to_millis(MIDNIGHT) + asked_s * 1000
        task = change_task("n", asked_ms, f"late-{asked_s}", ChangeRequest(change))
        bench.client._append_own(task).result()
    bench.scheduler.drain()

    assert bench.ran == bench.expected(10, 20, 30, 40)


def test_what_ran_before_its_cancel_was_decided_counts() -> None:
    """A pause withdraws tasks that were made ahead; one that runs on time meanwhile is one of the
    count.
    """
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(seconds=1), count_max=10).result()
    bench.advance(seconds=6)
    asked_ms = to_millis(MIDNIGHT) + 2_500
    pause = change_task("n", asked_ms, "late", ChangeRequest(Change.PAUSE))
    bench.client._append_own(pause).result()
    bench.advance(seconds=10)
    assert bench.ran == bench.expected(1, 2, 3, 4, 5, 6)

    bench.client.resume_recurring("n").result()
    bench.scheduler.drain()
    assert len(bench.ran) == 10
    assert bench.client.list_recurring() == []


def test_trigger_runs_it_now_besides_its_times() -> None:
    """Also while it is paused; the rhythm stays."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(seconds=10)).result()
    bench.advance(seconds=13)
    bench.client.trigger_recurring("n").result()
    bench.advance(seconds=9)
    assert bench.ran == [*bench.expected(10), f"n@{bench.at(13)}!", *bench.expected(20)]

    bench.client.pause_recurring("n").result()
    bench.client.trigger_recurring("n").result()
    bench.advance(seconds=60)
    assert bench.ran[3:] == [f"n@{bench.at(22)}!"]


def test_it_ends_by_count_and_by_time() -> None:
    """And leaves nothing behind."""
    bench = Bench()
    bench.client.schedule_recurring("c", every=timedelta(seconds=1), count_max=3).result()
    bench.client.schedule_recurring(
        "t", every=timedelta(seconds=1), ends=MIDNIGHT + timedelta(seconds=3)
    ).result()
    bench.scheduler.drain()

    assert sorted(bench.ran) == sorted(
        bench.expected(1, 2, 3, name="c") + bench.expected(1, 2, name="t")
    )
    assert bench.client.list_recurring() == []


def test_a_deleted_schedule_never_runs_again() -> None:
    """Unless it is recreated."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(seconds=10)).result()
    bench.advance(seconds=15)
    bench.client.delete_recurring("n").result()
    bench.client.trigger_recurring("n").result()
    bench.advance(seconds=100)
    assert bench.ran == bench.expected(10)
    assert bench.client.find_recurring("n") is None

    bench.client.schedule_recurring("n", every=timedelta(seconds=10)).result()
    bench.advance(seconds=10)
    assert bench.ran == bench.expected(10, 125)


def test_a_schedule_that_is_replaced_runs_by_the_new_rule_only() -> None:
    """Its old times are closed unrun."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(seconds=10)).result()
    bench.advance(seconds=5)
    bench.client.schedule_recurring("n", every=timedelta(seconds=7)).result()
    bench.advance(seconds=20)

    assert bench.ran == bench.expected(12, 19)


def test_jitter_delays_each_occurrence_within_its_window() -> None:
    """Never before its time."""
    bench = Bench()
    bench.client.schedule_recurring(
        "n", every=timedelta(seconds=60), jitter=timedelta(seconds=30)
    ).result()
    bench.advance(minutes=20)

    keys = [e.key for e in bench.scheduler.executions if e.key.ordering_id == "n"]
    late = [key.scheduled_ms - to_millis(MIDNIGHT) - 60_000 * n for n, key in enumerate(keys, 1)]
    assert len(set(late)) > 10
    assert all(0 <= each <= 30_000 for each in late)


def test_schedules_are_listed_by_name() -> None:
    """With what is due next."""
    bench = Bench()
    for name in ("b", "a", "ü,:%"):
        bench.client.schedule_recurring(name, every=timedelta(seconds=10)).result()
    bench.scheduler.run_due()

    found = bench.client.list_recurring()
    assert [(each.name, each.next_ms) for each in found] == [
        (name, to_millis(MIDNIGHT) + 10_000) for name in ("a", "b", "ü,:%")
    ]


def test_what_can_be_no_schedule_is_refused_at_once() -> None:
    """Through the future, like every refusal."""
    client = Bench().client
    refused = [
        client.schedule_recurring("n", cron="x"),
        client.schedule_recurring("", cron="* * * * *"),
        client.schedule_recurring("n", every=timedelta(seconds=1), ends=MIDNIGHT),
        client.schedule_recurring("n", every=timedelta(seconds=1), data={"a": NOT_JSON}),
        client.pause_recurring(""),
    ]

    assert [type(each.exception()) for each in refused] == [InvalidTask] * 5


@pytest.mark.parametrize("change", ["pause", "resume", "trigger", "delete"])
def test_a_schedule_that_is_not_there_is_refused(change: str) -> None:
    """And nothing is sent; neither is one that was deleted before this client came."""
    bench = Bench()
    bench.client.schedule_recurring("gone", every=timedelta(seconds=10)).result()
    bench.client.delete_recurring("gone").result()
    bench.scheduler.run_due()
    other = SchedulerClient(bench.scheduler.settings, bench.ports())

    for name in ("nope", "gone"):
        error = getattr(other, f"{change}_recurring")(name).exception()
        assert isinstance(error, NoSuchSchedule)
        assert f"no recurring schedule {name!r}, or no node has it yet" in str(error)


def test_a_schedule_can_be_changed_right_after_it_was_set() -> None:
    """Before a node has it."""
    bench = Bench()
    bench.client.schedule_recurring("n", every=timedelta(seconds=10)).result()
    bench.client.pause_recurring("n").result()

    bench.advance(seconds=60)

    assert bench.ran == []


def test_a_long_rest_leaves_nothing_open_forever() -> None:
    """Completions are swept after two weeks; what was swept had ended."""
    bench = Bench()
    bench.client.schedule_recurring("n", cron="0 0 1 * *").result()
    bench.advance(days=95)

    assert len(bench.ran) == 3


def test_each_task_has_the_kind_of_its_schedule() -> None:
    """So that an installation without a default executor can have recurring schedules."""
    app, seen = Hourhand(), []

    @app.task("report")
    def report(region: dict[str, str]) -> None:
        seen.append(region)

    with VirtualScheduler(executors=app) as scheduler:
        scheduler.client.schedule_recurring(
            "nightly", every=timedelta(hours=1), kind="report", data={"region": "north"}
        ).result()
        scheduler.advance(hours=2, minutes=1)

    assert seen == [{"region": "north"}] * 2


def test_a_schedule_is_refused_where_its_kind_cannot_be_one() -> None:
    """As a task is."""
    with VirtualScheduler(executors=Hourhand()) as scheduler, pytest.raises(InvalidTask):
        scheduler.client.schedule_recurring("n", every=timedelta(hours=1), kind="a b").result()
