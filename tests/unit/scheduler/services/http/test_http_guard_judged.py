"""HttpGuard: who is taken for whom, without an application around it."""

from collections.abc import Mapping

import pytest
from pydantic import SecretStr

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.scheduler.services.http.http_guard import Asker, Door, HttpGuard, Refusal
from tests.builders import NOW_MS

JSON = {b"content-type": b"application/json"}


def guard_of(*, open_to: str = "", token: str = "", burst: int = 1_000) -> HttpGuard:
    """Return the guard of a door with one token, or none."""
    door = Door(
        read_tokens={},
        write_tokens={"ann": SecretStr(token)} if token else {},
        host_names=(),
        requests_per_s_max=1,
        requests_burst=burst,
        open_to=open_to,
    )
    return HttpGuard(door, VirtualClock(NOW_MS))


def judged(
    guard: HttpGuard, headers: Mapping[bytes, bytes], address: str = "10.0.0.1"
) -> Asker | Refusal:
    """Ask for a change."""
    scope = {"method": "POST", "headers": [*headers.items()], "client": (address, 1)}
    return guard.judge(scope)


def test_who_asks_a_door_with_a_login_of_its_own_may_act() -> None:
    """Under the name of that door, whatever the host is called."""
    told = judged(guard_of(open_to="proxy"), {**JSON, b"host": b"ops.example"})

    assert told == Asker("proxy", may_act=True)


@pytest.mark.parametrize(
    "origin", [b"http://evil.example://localhost", b"http://localhost.evil.example", b"null", b""]
)
def test_an_origin_that_only_ends_or_begins_like_the_host_is_another_site(origin: bytes) -> None:
    """It is compared whole."""
    told = judged(guard_of(), {**JSON, b"host": b"localhost", b"origin": origin})

    assert isinstance(told, Refusal) and told.code == "cross-site"


def test_addresses_that_are_no_addresses_are_counted_apart() -> None:
    """A server behind a socket of the file system names its clients as it likes."""
    guard = guard_of(token="t" * 16, burst=1)

    answers = [judged(guard, {}, address) for address in ("unix:a", "unix:b", "unix:a")]

    codes = [told.code for told in answers if isinstance(told, Refusal)]
    assert codes == ["token-needed", "token-needed", "too-many-requests"]
