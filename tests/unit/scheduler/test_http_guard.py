"""What every HTTP door asks of a request: a whole token, and not too often."""

from collections.abc import Callable

import pytest
from pydantic import SecretStr

from actors.kernel.simulated import VirtualClock
from scheduler.door_settings import TimerSettings
from scheduler.http_guard import TokenBucket, is_among, name_of
from tests.builders import NOW_MS
from tests.unit.scheduler.admin.world import World
from tests.unit.scheduler.timers.timers_bench import TimersBench, a_timer

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


def test_a_token_names_whose_it_is() -> None:
    """And nobody where no token is known."""
    tokens = {"eve": SecretStr(READ), "ann": SecretStr(WRITE)}

    assert name_of(f"Bearer {READ}", tokens) == "eve"
    assert name_of(f"Bearer {WRITE}", tokens) == "ann"
    assert name_of(f"Bearer {WRITE}", {}) is None
    assert is_among(f"Bearer {WRITE}", tokens.values())
    assert not is_among(f"Bearer {WRITE}", [SecretStr(READ)])


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
