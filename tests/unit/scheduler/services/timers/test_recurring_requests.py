"""Recurring schedules over HTTP: made, changed, looked at, and calling back."""

from typing import Any

import pytest

from tests.unit.scheduler.services.timers.timers_bench import URI, TimersBench


def a_schedule(**schedule: Any) -> dict[str, Any]:
    """Return a request's body."""
    return {
        "schedule": schedule or {"every": 10},
        "callback": {"http": {"uri": URI, "opaque": "o"}},
    }


def test_a_recurring_schedule_calls_back_each_time_with_its_number() -> None:
    """By interval here; cron is the library's."""
    bench = TimersBench()
    assert bench.http.put("/recurring/n", json=a_schedule()).status_code == 200
    bench.advance(35)

    assert bench.pops == [(10.0, 1), (20.0, 2), (30.0, 3)]
    assert (bench.popped[0].uri, bench.popped[0].body) == (URI, b"o")


def test_a_failed_callback_is_tried_again_and_the_next_one_is_skipped_meanwhile() -> None:
    """Skip is the default; the retry keeps its number, as does what is left out."""
    bench = TimersBench()
    bench.scheduler.callbacks.failures = 6
    bench.http.put("/recurring/n", json=a_schedule())
    bench.advance(35)

    assert bench.pops == [(10.0 + 2 * n, 1) for n in range(7)] + [(30.0, 3)]


def test_a_schedule_is_shown_with_its_next_times() -> None:
    """In its own time zone."""
    bench = TimersBench()
    times = {"time-zone": "Europe/Berlin", "until": "2026-01-04T00:00:00Z"}
    body = a_schedule(cron="30 2 * * *", **times, **{"except-dates": ["2026-01-02"]})
    assert bench.http.put("/recurring/n", json=body).status_code == 200
    bench.scheduler.run_due()

    shown = bench.http.get("/recurring/n", params={"next": "9"}).json()
    assert shown["schedule"]["cron"] == "30 2 * * *"
    assert shown["callback"] == {"http": {"uri": URI, "opaque": "o"}}
    assert shown["next"] == "2026-01-01T01:30:00.000Z"
    assert shown["next-times"] == ["2026-01-01T02:30:00+01:00", "2026-01-03T02:30:00+01:00"]
    assert shown["schedule"]["except-dates"] == ["2026-01-02"]
    listed = bench.http.get("/recurring").json()["recurring"]
    assert [each["name"] for each in listed] == ["n"]


def test_it_is_paused_resumed_triggered_and_deleted() -> None:
    """Each answers once the log has it."""
    bench = TimersBench()
    bench.http.put("/recurring/n", json=a_schedule())
    bench.advance(10)
    assert bench.http.post("/recurring/n/pause").status_code == 200
    bench.advance(10)
    assert bench.http.get("/recurring/n").json()["paused"] is True
    assert bench.http.post("/recurring/n/trigger").status_code == 200
    bench.advance(5)
    assert bench.http.post("/recurring/n/resume").status_code == 200
    bench.advance(5)
    assert bench.http.delete("/recurring/n").status_code == 200
    bench.advance(60)

    assert [at for at, _ in bench.pops] == [10.0, 20.0, 30.0]
    numbers = [number for _, number in bench.pops]
    assert numbers == sorted(set(numbers)), "those that were cancelled keep theirs"
    assert bench.http.get("/recurring/n").status_code == 404
    assert bench.http.get("/recurring").json() == {"recurring": []}


@pytest.mark.parametrize(
    "schedule",
    [
        {"cron": "x"},
        {"every": 0},
        {"every": 1.5},
        {"every": "10"},
        {"every": True},
        {"every": 1, "cron": "* * * * *"},
        {"every": 1, "unknown": 1},
        {"every": 1, "from": 7},
        {"every": 1, "until": "2025-01-01T00:00:00Z"},
        {"every": 10**30},
        {"every": 1, "time-zone": ["UTC"]},
    ],
)
def test_a_bad_schedule_is_400_with_the_reason_as_text(schedule: dict[str, Any]) -> None:
    """And nothing is made of it."""
    bench = TimersBench()
    answer = bench.http.put("/recurring/n", json=a_schedule(**schedule))
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")
    bench.scheduler.run_due()
    assert bench.http.get("/recurring").json() == {"recurring": []}


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"callback":{}}', b"[" * 50_000])
def test_what_is_no_request_is_400(body: bytes) -> None:
    """Whatever it is."""
    assert TimersBench().http.put("/recurring/n", content=body).status_code == 400


def test_an_unknown_change_is_404() -> None:
    """Set and delete are not posts."""
    bench = TimersBench()
    assert bench.http.post("/recurring/n/explode").status_code == 404
    assert bench.http.post("/recurring/n/set").status_code == 404
