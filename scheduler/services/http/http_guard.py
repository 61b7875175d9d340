"""The checks of every HTTP service, before a request is read.

Decides who asks, whether a page of another site made the browser ask, and whether the client asks
too often; paths and the form of refusals are the service's.

Permission comes from bearer tokens only: a browser sends cookies by itself, so they never count.
Without tokens only loopback is served, and only under its own names, so that no other name can be
pointed here. Each known user has an allowance; requests of strangers are counted by address and
never use it up.
"""

import hmac
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from pydantic import SecretStr

from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.configuration.door_settings import LOOPBACK

STRANGERS_MAX = 1_000
"""Addresses whose requests are counted; above this number the least recent ones are forgotten."""
JSON = "application/json"
_HOSTS_MAX = 100
"""Hosts whose parsed names are cached: clients use the same few."""
_READING = frozenset({"GET", "HEAD"})
_OWN_SITE = (b"same-origin", b"none")
_OF_A_SITE = 64
"""Bits of an IPv6 address that identify a network."""


class Refusal(NamedTuple):
    """The reason why a request is refused; the code is stable."""

    status: int
    code: str
    detail: str


class Asker(NamedTuple):
    """The client: the name of its token, or None if the path needs no token."""

    who: str | None
    may_act: bool = False


_FROM_LOOPBACK = Asker("loopback", may_act=True)
_TOO_MANY = Refusal(429, "too-many-requests", "too many requests; try again in a second")
_UNKNOWN_HOST = Refusal(
    421, "unknown-host", "without tokens only localhost is served: name tokens, or host_names"
)
_TOKEN_NEEDED = Refusal(401, "token-needed", "a bearer token is needed: Authorization: Bearer …")
_MAY_ONLY_READ = Refusal(403, "token-may-only-read", "this token may read and not act")
_CROSS_SITE = Refusal(403, "cross-site", "a page of another site may not act here")
_NOT_JSON = Refusal(415, "invalid-request", f"the body must be {JSON}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Door:
    """The requirements of an HTTP service."""

    read_tokens: Mapping[str, SecretStr]
    write_tokens: Mapping[str, SecretStr]
    """By name; these tokens may read and write."""
    host_names: Collection[str]
    """Names besides loopback's under which a service without tokens is served."""
    requests_per_s_max: int
    requests_burst: int
    programs_say_json: bool = True
    """True if writes of programs, not only of browsers, must have the type JSON."""
    open_to: str = ""
    """The name of every client: another login has checked them before."""


class TokenBucket:
    """Allows a number of requests a second, and a number at once."""

    def __init__(self, clock: Clock, per_second: int, burst: int) -> None:
        self._clock = clock
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._filled_ms = clock.monotonic_ms()

    def take(self) -> bool:
        """Return True if one more request may be served now."""
        if not self._per_second:
            return True
        now_ms = self._clock.monotonic_ms()
        gained = (now_ms - self._filled_ms) * self._per_second / 1000
        self._tokens, self._filled_ms = min(self._burst, self._tokens + gained), now_ms
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class HttpGuard:
    """Judges the requests of one service; used from one event loop."""

    def __init__(self, door: Door, clock: Clock) -> None:
        self._door = door
        self._clock = clock
        self._readers = {**door.read_tokens, **door.write_tokens}
        self._known: dict[str, TokenBucket] = {}
        self._strangers: OrderedDict[str, TokenBucket] = OrderedDict()

    def judge(self, scope: Mapping[str, Any], *, needs_token: bool = True) -> Asker | Refusal:
        """Judge a request by its ASGI scope; ``needs_token`` is False for a path without data."""
        # The first of several headers with one name counts.
        headers: dict[bytes, bytes] = dict(reversed(scope["headers"]))
        told = self._told(scope["method"], headers) if needs_token else Asker(None)
        if isinstance(told, Asker) and told.who is not None:
            bucket = self._known.get(told.who)
            if bucket is None:
                bucket = self._known[told.who] = self._bucket()
        else:
            bucket = self._bucket_of(scope.get("client"))
        return told if bucket.take() else _TOO_MANY

    def _told(self, method: str, headers: Mapping[bytes, bytes]) -> Asker | Refusal:
        asker = self._asker(headers)
        if isinstance(asker, Refusal) or method in _READING:
            return asker
        if not asker.may_act:
            return _MAY_ONLY_READ
        if _is_of_another_site(headers):
            return _CROSS_SITE
        if not self._door.programs_say_json and not _is_of_a_browser(headers):
            return asker
        kind = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        return asker if kind == JSON.encode() else _NOT_JSON

    def _asker(self, headers: Mapping[bytes, bytes]) -> Asker | Refusal:
        if self._door.open_to:
            return Asker(self._door.open_to, may_act=True)
        if not self._readers:
            host = _host_of(headers.get(b"host", b""))
            if host not in LOOPBACK and host not in self._door.host_names:
                return _UNKNOWN_HOST
            return _FROM_LOOPBACK
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        writer = name_of(authorization, self._door.write_tokens)
        who = name_of(authorization, self._readers) if writer is None else writer
        return _TOKEN_NEEDED if who is None else Asker(who, may_act=writer is not None)

    def _bucket(self) -> TokenBucket:
        return TokenBucket(self._clock, self._door.requests_per_s_max, self._door.requests_burst)

    def _bucket_of(self, client: tuple[str, int] | None) -> TokenBucket:
        """Return the allowance of an address, for all its requests and any claimed identity."""
        address = _network_of(client[0]) if client else ""
        bucket = self._strangers.pop(address, None) or self._bucket()
        self._strangers[address] = bucket
        if len(self._strangers) > STRANGERS_MAX:
            self._strangers.popitem(last=False)
        return bucket


def _is_of_a_browser(headers: Mapping[bytes, bytes]) -> bool:
    """True if a browser sent the request: each browser names the page's origin, or the request's
    site.

    A form on another site's page can send text and forms, but not JSON.
    """
    return any(each == b"origin" or each.startswith(b"sec-fetch-") for each in headers)


def _is_of_another_site(headers: Mapping[bytes, bytes]) -> bool:
    """True if a page from another service made a browser send the request.

    Current browsers name the request's site; older ones name the page's origin in every write. A
    program sends neither.
    """
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site not in _OWN_SITE
    origin = headers.get(b"origin")
    return origin is not None and origin.partition(b"://")[2] != headers.get(b"host")


@lru_cache(maxsize=_HOSTS_MAX)
def _host_of(host: bytes) -> str:
    """Return the name in a ``Host`` header, without a port; empty if there is none."""
    try:
        return urlsplit(f"//{host.decode('latin-1')}").hostname or ""
    except ValueError:
        return ""


def _network_of(address: str) -> str:
    """Return the text under which an address is counted; for IPv6 its whole network."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if not isinstance(parsed, IPv6Address) or parsed.ipv4_mapped is not None:
        return address
    return f"{int(parsed) >> _OF_A_SITE:x}"


def name_of(authorization: str, tokens: Mapping[str, SecretStr]) -> str | None:
    """Return the name of the bearer token in an ``Authorization`` header; None for an unknown one.

    Every token is compared, so that the time of the answer reveals nothing.
    """
    scheme, _, given = authorization.partition(" ")
    found = [
        name
        for name, token in tokens.items()
        if hmac.compare_digest(given.strip().encode(), token.get_secret_value().encode())
    ]
    return found[0] if found and scheme.lower() == "bearer" else None
