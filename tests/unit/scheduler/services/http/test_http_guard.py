"""What every HTTP door asks of a request: a whole token, from no page of others, not too often."""

import json
from collections.abc import Callable

import httpx
import pytest
from pydantic import SecretStr, ValidationError

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.scheduler.configuration.door_settings import AdminSettings, TimerSettings
from hourhand.scheduler.services.http.http_guard import (
    STRANGERS_MAX,
    Door,
    HttpGuard,
    Refusal,
    TokenBucket,
    name_of,
)
from tests.builders import NOW_MS
from tests.unit.scheduler.admin.world import World
from tests.unit.scheduler.services.timers.timers_bench import TimersBench, a_timer

PAUSE = b'{"targets":[{"scope":"all"}]}'
TIMER = json.dumps(a_timer()).encode()
READ, WRITE = "0123456789abcdef", "fedcba9876543210"
ALMOST = {
    "first character": WRITE[:1],
    "all but the last": WRITE[:-1],
    "all but the first": WRITE[1:],
    "one more behind": WRITE + "0",
    "one more in front": "0" + WRITE,
    "upper case": WRITE.upper(),
    "both tokens": f"{READ} {WRITE}",
    "nothing": "",
}

HEADERS = {
    f"Bearer {READ}": (200, 403),
    f"bearer {WRITE}": (200, 200),
    f"BEARER   {WRITE}": (200, 200),
    f"Basic {WRITE}": (401, 401),
    WRITE: (401, 401),
}

Ask = Callable[[str], tuple[int, int]]


def _admin() -> Ask:
    """Return what looks and acts with a header's value, and says how that was answered."""
    http = World(read_tokens={"eve": READ}, write_tokens={"ann": WRITE}).http
    pause = {"targets": [{"scope": "all"}]}

    def ask(authorization: str) -> tuple[int, int]:
        headers = {"Authorization": authorization}
        looking = http.get("/status", headers=headers)
        return looking.status_code, http.post("/pauses", json=pause, headers=headers).status_code

    return ask


def _timers() -> Ask:
    """Return the same for the other door."""
    read, write = (SecretStr(READ),), (SecretStr(WRITE),)
    bench = TimersBench(TimerSettings(read_tokens=read, write_tokens=write))

    def ask(authorization: str) -> tuple[int, int]:
        headers = {"Authorization": authorization}
        looking = bench.http.get("/metrics", headers=headers)
        return looking.status_code, bench.post(a_timer(), headers=headers).status_code

    return ask


DOORS = {"admin": _admin, "timers": _timers}


@pytest.mark.parametrize("door", DOORS)
def test_a_token_is_taken_whole_or_not_at_all(door: str) -> None:
    """A part of one, or one with something beside it, opens no door."""
    ask = DOORS[door]()

    answers = {what: ask(f"Bearer {token}") for what, token in ALMOST.items()}

    assert answers == dict.fromkeys(ALMOST, (401, 401))


@pytest.mark.parametrize("door", DOORS)
def test_every_door_reads_the_same_header(door: str) -> None:
    """The scheme in whatever case, and no other scheme."""
    ask = DOORS[door]()

    assert {header: ask(header) for header in HEADERS} == HEADERS


Act = Callable[[dict[str, str]], httpx.Response]


@pytest.fixture(scope="module")
def open_doors() -> dict[str, Act]:
    """Return what acts with some headers, by door; none of them asks who it is."""
    admin, timers = World().http, TimersBench().http
    return {
        "admin": lambda headers: admin.post("/pauses", content=PAUSE, headers=headers),
        "timers": lambda headers: timers.post("/timers", content=TIMER, headers=headers),
    }


FORM_TYPES = ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x")
OWN_PAGES: tuple[dict[str, str], ...] = (
    {"Origin": "http://localhost"},
    {"Sec-Fetch-Site": "same-origin"},
    {"Sec-Fetch-Site": "none"},
    {"Sec-Fetch-Mode": "navigate"},
    {"Sec-Fetch-Dest": "document"},
    {"Sec-Fetch-User": "?1"},
)
"""What a browser says of a request, though none of it is of another site's page."""


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        *[({"Content-Type": kind, **browser}, 415) for kind in FORM_TYPES for browser in OWN_PAGES],
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost.evil.example"}, 403),
        ({"Origin": "http://localhost:8080"}, 403),
        ({"Host": "evil.example"}, 421),
        ({"Host": "localhost.evil.example"}, 421),
        ({"Host": "127.0.0.1.evil.example"}, 421),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Origin": "http://localhost"}, 200),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_a_page_of_another_site_cannot_act(
    open_doors: dict[str, Act], door: str, headers: dict[str, str], status: int
) -> None:
    """Not by a form, not by a script, not by a name that was made to point here."""
    asked = {"Content-Type": "application/json", **headers}

    assert open_doors[door](asked).status_code == status


def test_clients_of_the_seed_are_taken_as_they_are() -> None:
    """They send JSON under its type with every method, or text without a type."""
    http = TimersBench().http
    made = http.post("/timers", content=TIMER)
    path = made.headers["location"]

    assert made.status_code == 200
    assert http.put(path, content=TIMER).status_code == 200
    assert http.delete(path, headers={"Content-Type": "application/json"}).status_code == 200
    assert http.delete(path).status_code == 200


@pytest.mark.parametrize("kind", [*FORM_TYPES, "application/octet-stream", "", "?"])
def test_a_program_may_call_its_json_what_it_likes(kind: str) -> None:
    """The seed looks at no type, and `curl -d` says that it sends a form."""
    http, headers = TimersBench().http, {"Content-Type": kind}
    made = http.post("/timers", content=TIMER, headers=headers)
    path = made.headers["location"]

    assert made.status_code == 200
    assert http.put(path, content=TIMER, headers=headers).status_code == 200
    schedule = b'{"schedule":{"every":10},' + TIMER[TIMER.index(b'"callback"') :]
    assert http.put("/recurring/n", content=schedule, headers=headers).status_code == 200
    assert http.post("/recurring/n/pause", headers=headers).status_code == 200
    assert http.delete(path, headers=headers).status_code == 200
    assert http.post("/timers", content=b"a=b", headers=headers).status_code == 400


@pytest.mark.parametrize("kind", FORM_TYPES)
def test_the_admin_api_takes_json_alone(open_doors: dict[str, Act], kind: str) -> None:
    """Nothing was built for it before it was there."""
    assert open_doors["admin"]({"Content-Type": kind}).status_code == 415


def test_a_name_of_the_settings_is_served_without_tokens() -> None:
    """As the admin's is: a proxy may have one."""
    bench = TimersBench(TimerSettings(host_names=("timers.example",)))
    asked = {"Host": "timers.example:7253"}

    assert bench.post(a_timer(), headers=asked).status_code == 200


def test_nothing_is_loaded_from_elsewhere() -> None:
    """No page of a framework that fetches its scripts from somebody's network."""
    bench = TimersBench()

    assert [bench.http.get(path).status_code for path in ("/docs", "/redoc")] == [404, 404]


@pytest.mark.parametrize("token", ["", "short", "é" * 20, "${TOKEN}"])
def test_a_token_that_can_be_guessed_is_refused_at_start(token: str) -> None:
    """By every door, with what to do about it; an unset variable of a template is empty."""
    for scope in ("read_tokens", "write_tokens"):
        with pytest.raises(ValidationError, match="openssl rand"):
            TimerSettings.model_validate({scope: [token]})
        with pytest.raises(ValidationError, match="openssl rand"):
            AdminSettings.model_validate({scope: {"ann": token}})


def test_an_empty_signing_key_is_refused_at_start() -> None:
    """Everybody would have it."""
    with pytest.raises(ValidationError, match="signing_key"):
        TimerSettings.model_validate({"signing_key": ""})


def a_guard(clock: VirtualClock, burst: int) -> HttpGuard:
    """Return one with two operators, and one more request a second for each."""
    tokens = {"ann": SecretStr(WRITE), "eve": SecretStr(READ)}
    door = Door(
        read_tokens={},
        write_tokens=tokens,
        host_names=(),
        requests_per_s_max=1,
        requests_burst=burst,
    )
    return HttpGuard(door, clock)


def judged(guard: HttpGuard, address: str, token: str = "", **more: bool) -> int:
    """Ask from an address; return 200 or the status of the refusal."""
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
    scope = {"method": "GET", "headers": headers, "client": (address, 1)}
    told = guard.judge(scope, **more)
    return told.status if isinstance(told, Refusal) else 200


def test_strangers_never_use_up_an_operators_allowance() -> None:
    """Nor does one operator another's, from whatever address they ask."""
    clock = VirtualClock(NOW_MS)
    guard = a_guard(clock, burst=3)
    failed = [judged(guard, "10.0.0.1", token) for token in ("", "x" * 16, "", "", "")]
    pages = [judged(guard, "10.0.0.2", needs_token=False) for _ in range(4)]
    assert failed == [401, 401, 401, 429, 429]
    assert pages == [200, 200, 200, 429]

    assert [judged(guard, "10.0.0.1", WRITE) for _ in range(4)] == [200, 200, 200, 429]
    assert judged(guard, "10.0.0.1", READ) == 200
    clock.advance(1_000)
    assert [judged(guard, "10.0.0.1") for _ in range(2)] == [401, 429]


def test_failures_are_counted_by_address() -> None:
    """A network of IPv6 is one: whoever has an address has all of them."""
    guard = a_guard(VirtualClock(NOW_MS), burst=1)

    assert [judged(guard, "10.0.0.1"), judged(guard, "10.0.0.2")] == [401, 401]
    assert [judged(guard, "2001:db8::1"), judged(guard, "2001:db8::2")] == [401, 429]
    assert judged(guard, "2001:db8:0:1::1") == 401
    assert [judged(guard, "::ffff:10.0.0.9"), judged(guard, "::ffff:10.0.0.8")] == [401, 401]


def test_so_many_addresses_are_remembered_and_no_more() -> None:
    """However many ask."""
    guard = a_guard(VirtualClock(NOW_MS), burst=1)
    for number in range(STRANGERS_MAX + 10):
        judged(guard, f"10.0.{number // 256}.{number % 256}")

    assert len(guard._strangers) == STRANGERS_MAX


def test_a_token_names_whose_it_is() -> None:
    """And nobody where no token is known."""
    tokens = {"eve": SecretStr(READ), "ann": SecretStr(WRITE)}

    assert name_of(f"Bearer {READ}", tokens) == "eve"
    assert name_of(f"Bearer {WRITE}", tokens) == "ann"
    assert name_of(f"Bearer {WRITE}", {}) is None
    assert name_of(f"Bearer {WRITE}", {"eve": SecretStr(READ)}) is None


def test_a_bucket_takes_its_burst_and_then_so_many_a_second() -> None:
    """A long pause fills it up to the burst and no further."""
    clock = VirtualClock(NOW_MS)
    bucket = TokenBucket(clock, per_second=2, burst=3)
    taken = []
    for pause_ms in (0, 499, 1, 500, 3_600_000):
        clock.advance(pause_ms)
        taken.append([bucket.take() for _ in range(5)].count(True))

    assert taken == [3, 0, 1, 1, 3]


def test_a_bucket_without_a_rate_takes_everything() -> None:
    """More than its burst, and at one moment."""
    bucket = TokenBucket(VirtualClock(NOW_MS), per_second=0, burst=1)

    assert all(bucket.take() for _ in range(100))
