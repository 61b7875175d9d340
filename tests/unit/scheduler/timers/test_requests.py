"""Requests of the timer service: what is refused and how, who may ask, and how much."""

from typing import Any

import pytest
from pydantic import SecretStr

from scheduler.door_settings import TimerSettings
from tests.unit.scheduler.timers.timers_bench import URI, TimersBench, a_timer

BAD: dict[str, Any] = {
    "no object": [],
    "no timing": {"callback": {"http": {"uri": URI, "opaque": "o"}}},
    "no interval": {"timing": {}, "callback": {"http": {"uri": URI, "opaque": "o"}}},
    "no callback": {"timing": {"interval": 1}},
    "no http": {"timing": {"interval": 1}, "callback": {}},
    "no uri": {"timing": {"interval": 1}, "callback": {"http": {"opaque": "o"}}},
    "no opaque": {"timing": {"interval": 1}, "callback": {"http": {"uri": URI}}},
    "fraction": a_timer(1.5),
    "whole fraction": a_timer(1.0),
    "boolean": a_timer(True),
    "text": a_timer("10"),
    "negative": a_timer(-1),
    "null": a_timer(None),
    "negative repeat": a_timer(1, -1),
    "zero with repeat": a_timer(0, 10),
    "too far": a_timer(10**12),
    "larger than 64 bits": a_timer(10**30),
    "no replicas": a_timer(1, reliability={"replicas": []}),
    "replication zero": a_timer(1, reliability={"replication-factor": 0}),
    "replication text": a_timer(1, reliability={"replication-factor": "2"}),
    "opaque number": {"timing": {"interval": 1}, "callback": {"http": {"uri": URI, "opaque": 7}}},
    "uri of a file": {
        "timing": {"interval": 1},
        "callback": {"http": {"uri": "file:///etc/passwd", "opaque": "o"}},
    },
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_request_is_400_with_the_reason_as_text(what: str) -> None:
    """Never 422, and nothing is made of it."""
    bench = TimersBench()
    for answer in (
        bench.post(BAD[what]),
        bench.http.put("/timers/0123456789abcdef-2", json=BAD[what]),
    ):
        assert answer.status_code == 400
        assert answer.headers["content-type"].startswith("text/plain")
        assert len(answer.text) > 10
    bench.advance(100)
    assert bench.pops == []


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"nan", b"[" * 100_000, b'{"timing":"\\ud800"}', b"x" * 300_000],
)
def test_what_is_no_json_is_400(body: bytes) -> None:
    """Whatever it is."""
    assert TimersBench().http.post("/timers", content=body).status_code == 400


def test_unknown_fields_are_ignored_and_internal_ones_too() -> None:
    """The seed's own tests send some."""
    bench = TimersBench()
    body = a_timer(10, reliability={"replicas": ["10.0.0.1"], "cluster-view-id": "1"}, unknown=1)
    body["timing"] |= {"repeat_for": 50, "start-time-delta": -5_000, "sequence-number": 7}
    assert bench.post(body).status_code == 200
    bench.advance(100)
    assert bench.pops == [(10.0, 1)]


def test_tags_that_cannot_be_counted_are_left_out() -> None:
    """Repeated ones are summed; the sums are metrics."""
    bench = TimersBench()
    tags = [
        {"type": "A"},
        {"type": "A", "count": 4},
        {"type": "lower"},
        {"type": "B", "count": -1},
        {"type": "C", "count": 1.5},
        {"type": "X" * 17},
        "none",
    ]
    path = bench.made(100, statistics={"tag-info": tags})

    assert bench.http.get(path).json()["statistics"]["tag-info"] == [{"type": "A", "count": 5}]
    assert 'hourhand_timer_tags_total{tag="A"} 5.0' in bench.http.get("/metrics").text


def test_the_replication_factor_is_kept_in_the_id() -> None:
    """The URL and the body must agree."""
    bench = TimersBench()
    path = bench.made(10, reliability={"replication-factor": 5})
    assert path.endswith("-5")
    wrong = bench.http.put(path, json=a_timer(10, reliability={"replication-factor": 3}))
    assert wrong.status_code == 400
    assert bench.http.put(path, json=a_timer(10)).headers["location"] == path


@pytest.mark.parametrize(
    "path", ["/timers/x", "/timers/0123456789abcde-2", "/timers/0123456789abcdef"]
)
def test_a_malformed_id_is_404(path: str) -> None:
    """For every method that takes one."""
    bench = TimersBench()
    for method in ("GET", "PUT", "DELETE"):
        assert bench.http.request(method, path, json=a_timer()).status_code == 404
    assert bench.http.post("/timers/0123456789abcdef-2", json=a_timer()).status_code == 405
    assert bench.http.request("PATCH", "/timers", json=a_timer()).status_code == 405
    assert bench.http.post("/timers/", json=a_timer()).status_code == 200


def test_ping_openapi_and_metrics_answer() -> None:
    """The page describes the requests."""
    bench = TimersBench()
    assert bench.http.get("/ping").status_code == 200
    paths = bench.http.get("/openapi.json").json()["paths"]
    assert set(paths["/timers"]) == {"get", "post"}
    assert set(paths["/timers/{timer_id}"]) == {"get", "put", "delete"}
    assert bench.http.get("/docs").status_code == 200


def test_tokens_have_scopes() -> None:
    """One that may read cannot write; without one nothing but /ping answers."""
    bench = TimersBench(
        TimerSettings(
            requests_per_s_max=0,
            read_tokens=(SecretStr("r"),),
            write_tokens=(SecretStr("w"), SecretStr("é")),
        )
    )
    reader, writer = {"Authorization": "Bearer r"}, {"Authorization": "bearer w"}
    assert bench.http.get("/ping").status_code == 200
    assert bench.post(a_timer()).status_code == 401
    assert bench.post(a_timer(), headers=reader).status_code == 403
    assert bench.post(a_timer(), headers={"Authorization": "Bearer x"}).status_code == 401
    assert bench.post(a_timer(), headers={"Authorization": "Basic w"}).status_code == 401
    path = bench.post(a_timer(), headers=writer).headers["location"]
    assert bench.http.get(path, headers=reader).status_code == 200
    assert bench.http.get("/metrics").status_code == 401
    assert bench.http.delete(path, headers=reader).status_code == 403


def test_too_many_requests_are_503_until_there_is_room_again() -> None:
    """A token bucket: so many at once, so many a second."""
    bench = TimersBench(TimerSettings(requests_per_s_max=10, requests_burst=5))
    answers = [bench.http.get("/ping").status_code for _ in range(7)]
    assert answers == [200] * 5 + [503] * 2

    bench.clock.advance(200)
    assert [bench.http.get("/ping").status_code for _ in range(3)] == [200, 200, 503]


def test_a_log_that_is_away_is_503_and_nothing_is_promised() -> None:
    """The request may be made again."""
    bench = TimersBench()
    broker = bench.scheduler.broker
    broker.refused = set(range(len(broker.partitions)))
    assert bench.post(a_timer()).status_code == 503
