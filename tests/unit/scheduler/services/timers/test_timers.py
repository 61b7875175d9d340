"""What the timer service promises of pops: when, how often, and that none is ever lost."""

import re

import pytest

from hourhand.scheduler.configuration.door_settings import TimerSettings
from tests.unit.scheduler.services.timers.timers_bench import URI, TimersBench, a_timer


def test_a_timer_pops_once_by_default() -> None:
    """``repeat-for`` is the interval where it is not given."""
    bench = TimersBench()
    path = bench.made(10)
    assert re.fullmatch(r"/timers/[0-9a-f]{16}-2", path)

    bench.advance(9.999)
    assert bench.pops == []
    bench.advance(100)
    assert bench.pops == [(10.0, 1)]
    assert (bench.popped[0].uri, bench.popped[0].body) == (URI, b"o")


@pytest.mark.parametrize(
    ("interval", "repeat_for", "numbers"),
    [(10, 30, 3), (10, 39, 3), (10, 40, 4), (10, 9, 0), (1, 100, 100), (0, 0, 1), (7, 0, 0)],
)
def test_repeats_are_counted_as_the_seed_does(interval: int, repeat_for: int, numbers: int) -> None:
    """At start plus n intervals, without drift; 0 and 0 pops once, at once."""
    bench = TimersBench()
    bench.made(interval, repeat_for)
    bench.advance(200)

    assert bench.pops == [(float(n * interval), n) for n in range(1, numbers + 1)]


def test_a_failed_callback_is_tried_again_with_its_number() -> None:
    """Two seconds apart; what follows it comes at its own time."""
    bench = TimersBench()
    bench.scheduler.callbacks.failures = 3
    bench.made(10, 20)
    bench.advance(60)

    assert bench.pops == [(10.0, 1), (12.0, 1), (14.0, 1), (16.0, 1), (20.0, 2)]


def test_a_callback_that_never_succeeds_does_not_end_the_timer() -> None:
    """It is given up after so many tries, and the next one comes."""
    bench = TimersBench(TimerSettings(requests_per_s_max=0, callback_tries_max=3))
    bench.scheduler.callbacks.failures = 3
    bench.made(10, 20)
    bench.advance(60)

    assert bench.pops == [(10.0, 1), (12.0, 1), (14.0, 1), (20.0, 2)]


@pytest.mark.parametrize("crash_every_s", [1, 10])
def test_a_crash_at_any_time_neither_loses_nor_doubles_a_pop(crash_every_s: int) -> None:
    """Between two pops, and at the moment of one."""
    bench = TimersBench()
    bench.made(5, 100)
    for _ in range(120 // crash_every_s):
        bench.advance(crash_every_s)
        bench.scheduler.crash()

    assert bench.pops == [(5.0 * n, n) for n in range(1, 21)]


def test_what_fell_due_while_no_node_ran_pops_when_one_runs_again() -> None:
    """Every number, in order; then the rhythm goes on."""
    bench = TimersBench()
    bench.made(10, 60)
    bench.advance(15)
    bench.scheduler.stop()
    bench.clock.advance(30_000)
    bench.scheduler.restart()
    bench.advance(60)

    assert [number for _, number in bench.pops] == [1, 2, 3, 4, 5, 6]
    assert bench.pops[4:] == [(50.0, 5), (60.0, 6)]


def test_an_update_begins_anew_at_one() -> None:
    """Under the same id; nothing of the old timer pops any more."""
    bench = TimersBench()
    path = bench.made(10, 100)
    bench.advance(25)
    answer = bench.http.put(path, json=a_timer(20, 40))
    assert (answer.status_code, answer.headers["location"]) == (200, path)
    bench.advance(200)

    assert bench.pops == [(10.0, 1), (20.0, 2), (45.0, 1), (65.0, 2)]


def test_an_unknown_id_is_made_by_put() -> None:
    """Trailing text is ignored."""
    bench = TimersBench()
    answer = bench.http.put("/timers/00000000DEADbeef-3/and/more", json=a_timer(10))
    assert answer.status_code == 200
    assert answer.headers["location"] == "/timers/00000000deadbeef-3"
    bench.advance(10)
    assert bench.pops == [(10.0, 1)]


def test_a_deleted_timer_never_pops() -> None:
    """And deleting what is not there is no error."""
    bench = TimersBench()
    path = bench.made(10, 100)
    bench.advance(15)
    answer = bench.http.delete(path)
    assert (answer.status_code, answer.headers["location"]) == (200, path)
    assert bench.http.get(path).status_code == 404
    bench.advance(100)
    assert bench.pops == [(10.0, 1)]

    gone = bench.http.delete("/timers/0123456789abcdef-2")
    assert (gone.status_code, gone.headers["location"]) == (200, "/timers/0123456789abcdef-2")


class ChangingCaller:
    """Changes the timer from inside its callback."""

    def __init__(self, bench: TimersBench, change: str) -> None:
        self._bench = bench
        self._change = change
        self.path = ""

    async def call(self, uri: str, body: bytes, sequence_number: int, of: str) -> None:
        """Note the callback, and change the timer at its second pop."""
        await self._bench.scheduler.callbacks.call(uri, body, sequence_number, of)
        if sequence_number == 2:
            timer_id = self.path.removeprefix("/timers/").partition("-")[0]
            rule = None
            if self._change == "put":
                found = await self._bench.service.find(timer_id)
                assert found is not None
                rule = found.state.rule
            await self._bench.service.put(timer_id, rule)


@pytest.mark.parametrize(("change", "numbers"), [("put", [1, 2, 1, 2, 1]), ("delete", [1, 2])])
def test_a_timer_may_be_changed_from_inside_its_callback(change: str, numbers: list[int]) -> None:
    """What it was changed to is what follows."""
    bench = TimersBench()
    caller = ChangingCaller(bench, change)
    own = bench.scheduler._system_tasks()
    own.open_caller = lambda: caller
    bench.scheduler._system_tasks = lambda: own  # type: ignore[method-assign]
    bench.scheduler.restart()
    caller.path = bench.made(10, 100)
    bench.advance(55)

    assert [number for _, number in bench.pops] == numbers


def test_a_timer_is_shown_as_it_was_made() -> None:
    """At once, before any node has it, and until it has ended."""
    bench = TimersBench()
    path = bench.made(10, 30, statistics={"tag-info": [{"type": "CALL", "count": 2}]})
    wanted = {
        "id": path.removeprefix("/timers/"),
        "timing": {"interval": 10, "repeat-for": 30},
        "callback": {"http": {"uri": URI, "opaque": "o"}},
        "reliability": {"replication-factor": 2},
        "statistics": {"tag-info": [{"type": "CALL", "count": 2}]},
        "next-pop": {"sequence-number": 1, "time": "2026-01-01T00:00:10.000Z"},
    }
    assert bench.http.get(path).json() == wanted

    bench.advance(15)
    shown = bench.http.get(path).json()
    assert shown["next-pop"] == {"sequence-number": 2, "time": "2026-01-01T00:00:20.000Z"}
    bench.advance(20)
    assert bench.http.get(path).status_code == 404


def test_timers_are_listed_by_tag_page_by_page() -> None:
    """Each once."""
    bench = TimersBench()
    tagged = {bench.made(100, statistics={"tag-info": [{"type": "A"}]}) for _ in range(25)}
    for _ in range(10):
        bench.made(100)
    bench.scheduler.run_due()

    found: list[str] = []
    after: str | None = None
    while True:
        query = {"tag": "A", "limit": "7"} | ({} if after is None else {"after": after})
        page = bench.http.get("/timers", params=query).json()
        found += [f"/timers/{each['id']}" for each in page["timers"]]
        after = page["next-after"]
        if after is None:
            break
    assert sorted(found) == sorted(tagged)
    assert len(bench.http.get("/timers", params={"limit": "1000"}).json()["timers"]) == 35
