"""Hostile requests of the timer service: good ones damaged in every way, and ones that never were.

Decides what is asked, as a server hands it to an application: method, path, headers and body in
pieces, whatever a socket may bring.  What should be answered is the door's matter.
"""

import json
import random
from copy import deepcopy
from dataclasses import dataclass
from urllib.parse import quote, quote_from_bytes, unquote

from tests.fuzz import values

NOWHERE = "http://127.0.0.1:9/nobody"
_METHODS = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "X-!#")
_INTEGERS = (0, 1, 10, -1, 2**31, 2**53 + 1, 2**63, -(2**64), 10**30, 10**400)
_ODD: tuple[object, ...] = (
    1.5,
    1.0,
    -0.0,
    True,
    None,
    "10",
    "",
    [],
    {},
    [1],
    {"a": 1},
    float("nan"),
    float("inf"),
)
_URIS = (
    NOWHERE,
    "file:///etc/passwd",
    "http://",
    "http://[::1",
    "http://user:secret@127.0.0.1:9/",
    "http://127.0.0.1:99999/",
    "HTTP://127.0.0.1:9",
    "http://a b",
    "http://\x00",
    "javascript:alert(1)",
    "http://127.0.0.1:9/" + "x" * 5_000,
)
_CRON = ("* * * * *", "0 0 30 2 *", "60 * * * *", "*/0 * * * *", "@daily", "* * * * * * *", "1-5-9")
_ZONES = ("UTC", "Europe/Berlin", "../../etc/passwd", "/etc/localtime", "\0", "Mars/Base", "")
_AT = ("2026-01-01T00:00:00Z", *values.INSTANTS)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request."""

    method: str
    raw_path: bytes
    query: bytes
    headers: tuple[tuple[bytes, bytes], ...]
    pieces: tuple[bytes, ...]
    """Of the body."""
    goes_away: bool
    """True if the client is gone after them, the body being incomplete."""

    @property
    def path(self) -> str:
        """The path as a server decodes it."""
        return unquote(self.raw_path.decode("ascii"))


def hostile_request(rng: random.Random) -> Asked:
    """Return any request but a good one about a timer that exists."""
    method = rng.choice(_METHODS if rng.random() < 0.2 else ("POST", "PUT", "DELETE", "GET"))
    recurring = rng.random() < 0.3
    body = _body(rng, recurring=recurring)
    return Asked(
        method=method,
        raw_path=_path(rng, method, recurring=recurring),
        query=_query(rng),
        headers=_headers(rng, len(body)),
        pieces=_pieces(rng, body),
        goes_away=rng.random() < 0.02,
    )


def _path(rng: random.Random, method: str, *, recurring: bool) -> bytes:
    lot = rng.random()
    if lot < 0.15:
        return b"/" + quote_from_bytes(rng.randbytes(rng.randrange(20)), safe="/%").encode()
    if lot < 0.2:
        odd = ("/", "//", "/timers/../ping", "/ping/", "/metrics", "/openapi.json", "/docs", "/x")
        return rng.choice(odd).encode()
    if recurring:
        name = rng.choice(("nightly", "a b", "..", "x" * 1_001, values.text(rng)))
        end = rng.choice(("", "", "/pause", "/resume", "/trigger", "/delete", "/set", "/a/b"))
        return b"/recurring/" + _quoted(name) + end.encode()
    if method == "POST":
        return rng.choice((b"/timers", b"/timers/", b"/Timers", b"/timers/x"))
    number = f"{rng.getrandbits(64):016x}"
    ids = (f"{number}-2", f"{number}-0", f"{number}-9999", number, f"{number.upper()}-1", "", "-")
    return b"/timers/" + _quoted(rng.choice((*ids, values.text(rng), f"{number}-2/more")))


def _quoted(text: str) -> bytes:
    return quote(text.encode("utf-8", "surrogatepass"), safe="/-.~").encode()


def _query(rng: random.Random) -> bytes:
    if rng.random() < 0.6:
        return b""
    names = ("limit", "after", "tag", "next", "limit", "", "é")
    pairs = [
        f"{quote(rng.choice(names))}=".encode()
        + rng.choice(
            (b"1", b"0", b"-1", b"1e9", b"9" * 400, b"%ff%fe", b"0~", b"7~%00", b"\xd9\xa3")
        )
        for _ in range(rng.randrange(1, 4))
    ]
    return b"&".join(pairs)


def _headers(rng: random.Random, length: int) -> tuple[tuple[bytes, bytes], ...]:
    """Return headers, some there twice or with bytes that are not text."""
    host = rng.choice((b"localhost", b"127.0.0.1:7253", b"[::1]", b"[::1]:7253", b"localhost"))
    found = [(b"host", host), (b"content-length", str(length).encode())]
    known = (b"content-type", b"authorization", b"cookie", b"x-forwarded-for", b"accept-encoding")
    odd = (
        b"",
        b"application/json",
        b"text/xml; charset=utf-99",
        b"\xff\xfe\xfd",
        b"Bearer ",
        b"9" * 9,
        b"Bearer \xe9\xff",
        b"bearer reader",
        b"Basic reader",
        b"Bearer  writer",
        b"a" * 20_000,
    )
    for _ in range(rng.choice((0, 1, 2, 2, 60))):
        found.append((rng.choice(known), rng.choice(odd)))
    rng.shuffle(found)
    return tuple(found)


def _pieces(rng: random.Random, body: bytes) -> tuple[bytes, ...]:
    if rng.random() < 0.8 or not body:
        return (body,)
    size = rng.choice((1, 7, 1_000)) if len(body) < 2_000 else 50_000
    return tuple(body[place : place + size] for place in range(0, len(body), size))


def _body(rng: random.Random, *, recurring: bool) -> bytes:
    lot = rng.random()
    if lot < 0.05:
        odd = (
            b"",
            b"\0",
            b"\xff\xfe",
            b"\xef\xbb\xbf{}",
            b"nan",
            b"{",
            b"[]",
            b'"a"',
            b"0" * 5_000,
        )
        return rng.choice((*odd, rng.randbytes(50), b"x" * 700_001))
    if lot < 0.1:
        depth = rng.choice((10, 600, 1_100, 90_000))
        return rng.choice((b"[" * depth, b'{"timing":' * depth, b"[" * depth + b"]" * depth))
    fields = _recurring(rng) if recurring else _timer(rng)
    for _ in range(rng.randrange(3)):
        _spoil(rng, fields)
    body = json.dumps(fields, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    if rng.random() < 0.1:
        # A name that stands twice, another value each time.
        body = body[:-1] + b',"timing":' + rng.choice((b"0", b"{}", b'{"interval":1e400}')) + b"}"
    if rng.random() < 0.1 and body:
        place = rng.randrange(len(body))
        body = body[:place] + rng.randbytes(2) + body[place + 1 :]
    return body


def _timer(rng: random.Random) -> dict[str, object]:
    tags = [{"type": "A" * n, "count": rng.choice(_INTEGERS)} for n in (1, 16, 17)]
    return {
        # Too late to pop while anybody looks.
        "timing": {"interval": 100_000 + rng.randrange(100), "repeat-for": 300_000},
        "callback": {"http": {"uri": NOWHERE, "opaque": values.text(rng)}},
        "reliability": {"replication-factor": rng.choice((1, 2, 1_000))},
        "statistics": {"tag-info": tags[: rng.randrange(4)]},
    }


def _recurring(rng: random.Random) -> dict[str, object]:
    schedule: dict[str, object] = {"every": 100_000} if rng.random() < 0.5 else {}
    for name, chosen in (
        ("cron", _CRON),
        ("time-zone", _ZONES),
        ("overlap", ("skip", "allow", "never", 5)),
        ("catch-up", _INTEGERS),
        ("jitter", _INTEGERS),
        ("times", (*_INTEGERS, 1.5)),
        ("from", _AT),
        ("until", _AT),
    ):
        if rng.random() < 0.2:
            schedule[name] = rng.choice(chosen)
    http = {"uri": NOWHERE, "opaque": "o"}
    return {"schedule": schedule, "callback": {"http": http}}


def _spoil(rng: random.Random, fields: dict[str, object]) -> None:
    """Put something wrong somewhere, or take something away."""
    here = fields
    while True:
        deeper = [value for value in here.values() if isinstance(value, dict)]
        if not deeper or rng.random() < 0.3:
            break
        here = rng.choice(deeper)
    name = rng.choice([*here, "unknown", "é\u2028"])
    match rng.randrange(5):
        case 0:
            here.pop(name, None)
        case 1:
            here[name] = rng.choice(_INTEGERS)
        case 2:
            here[name] = rng.choice(_URIS)
        case 3:
            here[name] = values.text(rng)
        case _:
            # A copy: what is spoilt next may be inside of it.
            here[name] = deepcopy(rng.choice(_ODD))
