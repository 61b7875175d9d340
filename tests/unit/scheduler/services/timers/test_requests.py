"""Requests of the timer service: what is refused and how, who may ask, and how much."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.observe.metric_catalogue import TIMER_TAGS_MAX
from tests.pydantic_phrases import PHRASES
from tests.unit.scheduler.services.timers.timers_bench import URI, TimersBench, a_timer

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


@pytest.fixture(scope="module")
def refusing() -> TimersBench:
    """Have one service refuse everything: no timer is made."""
    return TimersBench()


def test_text_that_cannot_be_sent_is_400() -> None:
    """A lone surrogate, which JSON can name: by either way in, and nothing is made of it."""
    bench = TimersBench()
    body = b'{"timing":{"interval":1},"callback":{"http":{"uri":"%b","opaque":"\\ud800"}}}'
    body %= URI.encode()
    for answer in (
        bench.http.post("/timers", content=body),
        bench.http.put("/timers/0123456789abcdef-2", content=body),
    ):
        assert answer.status_code == 400 and answer.text
    bench.advance(100)
    assert bench.pops == []


@pytest.mark.parametrize("what", BAD)
def test_a_bad_request_is_400_with_the_reason_as_text(refusing: TimersBench, what: str) -> None:
    """Never 422, and nothing is made of it."""
    for answer in (
        refusing.post(BAD[what]),
        refusing.http.put("/timers/0123456789abcdef-2", json=BAD[what]),
    ):
        assert answer.status_code == 400
        assert answer.headers["content-type"].startswith("text/plain")
        assert len(answer.text) > 10
    refusing.advance(100)
    assert refusing.pops == []


@pytest.mark.parametrize(
    "uri",
    [
        "http://localhost:99999/",
        "http://localhost:65536/",
        "http://localhost:0/",
        "http://localhost:-1/",
        "http://localhost:http/",
        "http://[::1/",
        "http://",
        "http:///path",
    ],
)
def test_a_url_that_nobody_can_be_called_at_is_refused(refusing: TimersBench, uri: str) -> None:
    """When the timer is made or the schedule declared, not at each of its pops."""
    timer = a_timer()
    timer["callback"]["http"]["uri"] = uri
    schedule = {"schedule": {"every": 10}, "callback": timer["callback"]}

    for answer in (
        refusing.post(timer),
        refusing.http.put("/timers/0123456789abcdef-2", json=timer),
        refusing.http.put("/recurring/n", json=schedule),
    ):
        assert answer.status_code == 400
        assert "callback.http.uri" in answer.text


@pytest.mark.parametrize("port", ["", ":", ":1", ":65535"])
def test_every_port_that_there_is_is_taken(port: str) -> None:
    """Or none, which is the scheme's own."""
    timer = a_timer()
    timer["callback"]["http"]["uri"] = f"http://localhost{port}/"

    assert TimersBench().post(timer).status_code == 200


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff\xfe", b"nan", b"[" * 100_000, b'{"timing":"\\ud800"}', b"x" * 300_000],
)
def test_what_is_no_json_is_400(refusing: TimersBench, body: bytes) -> None:
    """Whatever it is, and with the reason as text."""
    for answer in (
        refusing.http.post("/timers", content=body),
        refusing.http.put("/timers/0123456789abcdef-2", content=body),
    ):
        assert answer.status_code == 400
        assert answer.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("what", BAD)
def test_no_request_is_refused_in_pydantics_words(what: str) -> None:
    """Whoever reads it need not know what the service is written with."""
    answer = TimersBench().post(BAD[what])

    assert answer.status_code == 400
    assert not PHRASES.search(answer.text)


def test_a_refusal_names_the_field_and_what_was_in_it() -> None:
    """The same for both ways in."""
    bench = TimersBench()
    wrong = a_timer(1.5, reliability={"replication-factor": 0})
    wrong["callback"]["http"]["uri"] = "ftp://x"
    reason = (
        "timing.interval: a whole number is needed, got 1.5;"
        " callback.http.uri: a text that matches ^https?:// is needed, got 'ftp://x';"
        " reliability.replication-factor: at least 1 is needed, got 0"
    )
    put = bench.http.put("/timers/0123456789abcdef-2", json=wrong)

    assert bench.post(wrong).text == put.text == reason


def test_a_body_above_the_limit_is_refused_with_the_limit() -> None:
    """At each way in."""
    bench = TimersBench(TimerSettings(requests_per_s_max=0, request_bytes_max=1_000))
    too_long = a_timer(unknown="x" * 1_000)

    for answer in (
        bench.post(too_long),
        bench.http.put("/timers/0123456789abcdef-2", json=too_long),
        bench.http.put("/recurring/n", json=too_long),
    ):
        assert (answer.status_code, answer.text) == (400, "the body is longer than 1000 bytes")


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/timers"), ("PUT", "/timers/0123456789abcdef-2"), ("PUT", "/recurring/n")],
)
def test_p13_a_body_that_is_sent_in_pieces_is_read_no_further_than_its_limit(
    method: str, path: str
) -> None:
    """It is refused with the first byte too many, however much would come behind that."""
    bench = TimersBench(TimerSettings(requests_per_s_max=0, request_bytes_max=1_000))
    sent: list[bytes] = []

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(100):
            sent.append(b"x" * 600)
            yield sent[-1]

    kind = {"Content-Type": "application/json"}
    answer = bench.http.request(method, path, content=pieces(), headers=kind)

    assert (answer.status_code, answer.text) == (400, "the body is longer than 1000 bytes")
    assert len(sent) == 2


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
    assert bench.tags() == {"A": (5, 0)}
    assert 'hourhand_timer_tags_total{tag="A"} 5.0' in bench.http.get("/metrics").text


@pytest.mark.parametrize("statistics", [None, "none", 7, [], {"tag-info": {}}, {"tag-info": "A"}])
def test_statistics_never_refuse_a_timer(statistics: object) -> None:
    """A timer matters more than how it is counted."""
    bench = TimersBench()
    path = bench.made(100, statistics=statistics)

    assert bench.http.put(path, json=a_timer(10, statistics=statistics)).status_code == 200
    assert "statistics" not in bench.http.get(path).json()


def tagged(**counts: int) -> dict[str, Any]:
    """Return statistics with these tags."""
    return {"tag-info": [{"type": tag, "count": count} for tag, count in counts.items()]}


def test_an_update_counts_the_difference_of_its_tags() -> None:
    """What a timer had and keeps is not counted again."""
    bench = TimersBench()
    path = bench.made(100, statistics=tagged(A=5, B=1))
    bench.http.put(path, json=a_timer(100, statistics=tagged(A=5, B=1)))
    assert bench.tags() == {"A": (5, 0), "B": (1, 0)}

    bench.http.put(path, json=a_timer(100, statistics=tagged(A=7, C=2)))
    bench.advance(1)
    assert bench.tags() == {"A": (7, 0), "B": (1, 1), "C": (2, 0)}

    bench.http.put(path, json=a_timer(100, statistics=tagged(A=4)))
    assert bench.tags() == {"A": (7, 3), "B": (1, 1), "C": (2, 2)}


def test_what_ends_takes_its_tags_along() -> None:
    """By a deletion, by its last pop, or because it never pops."""
    bench = TimersBench()
    deleted = bench.made(100, statistics=tagged(A=5))
    bench.made(10, 20, statistics=tagged(B=1))
    bench.made(10, 5, statistics=tagged(C=1))
    for _ in range(2):
        bench.http.delete(deleted)
    bench.advance(10)
    assert bench.tags() == {"A": (5, 5), "B": (1, 0)}

    bench.advance(10)
    assert bench.tags() == {"A": (5, 5), "B": (1, 1)}


def test_two_hundred_requests_make_no_more_labels_than_are_allowed() -> None:
    """What comes later is counted as one."""
    bench = TimersBench()
    alphabet = "ABCDEFGHIJ"
    for number in range(20):
        tags = [
            f"{alphabet[number // 10]}{alphabet[number % 10]}{a}{b}"
            for a in alphabet
            for b in alphabet
        ]
        bench.made(100, statistics=tagged(**dict.fromkeys(tags, 1)))

    counted = bench.tags()
    assert len(counted) == TIMER_TAGS_MAX + 1
    assert sum(added for added, _ in counted.values()) == 2_000


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
def test_a_malformed_id_is_404(refusing: TimersBench, path: str) -> None:
    """For every method that takes one."""
    for method in ("GET", "PUT", "DELETE"):
        assert refusing.http.request(method, path, json=a_timer()).status_code == 404
    assert refusing.http.post("/timers/0123456789abcdef-2", json=a_timer()).status_code == 405
    assert refusing.http.request("PATCH", "/timers", json=a_timer()).status_code == 405


def test_a_trailing_slash_changes_nothing() -> None:
    """Whatever the method."""
    bench = TimersBench()
    for path in ("/timers", "/timers/"):
        assert bench.http.post(path, json=a_timer()).status_code == 200
        assert len(bench.http.get(path, params={"limit": "2"}).json()["timers"]) > 0
        for method in ("PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"):
            assert bench.http.request(method, path).status_code == 405


def test_ping_openapi_and_metrics_answer() -> None:
    """The page describes the requests."""
    bench = TimersBench()
    assert bench.http.get("/ping").status_code == 200
    paths = bench.http.get("/openapi.json").json()["paths"]
    assert set(paths["/timers"]) == {"get", "post"}
    assert set(paths["/timers/{timer_id}"]) == {"get", "put", "delete"}
    body = paths["/timers"]["post"]["requestBody"]["content"]["application/json"]
    assert body == {"schema": {"$ref": "#/components/schemas/TimerRequest"}}
    answered = {
        status for path in paths.values() for one in path.values() for status in one["responses"]
    }
    assert answered == {"200", "4XX", "503"}


def test_tokens_have_scopes() -> None:
    """One that may read cannot write; without one nothing but /ping answers."""
    bench = TimersBench(
        TimerSettings(
            requests_per_s_max=0,
            read_tokens=(SecretStr("r" * 16),),
            write_tokens=(SecretStr("w" * 16), SecretStr("v" * 16)),
        )
    )
    reader, writer = (
        {"Authorization": f"Bearer {'r' * 16}"},
        {"Authorization": f"bearer {'w' * 16}"},
    )
    assert bench.http.get("/ping").status_code == 200
    assert bench.post(a_timer()).status_code == 401
    assert bench.post(a_timer(), headers=reader).status_code == 403
    assert bench.post(a_timer(), headers={"Authorization": f"Bearer {'x' * 16}"}).status_code == 401
    assert bench.post(a_timer(), headers={"Authorization": f"Basic {'w' * 16}"}).status_code == 401
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
