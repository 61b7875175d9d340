"""Thousands of hostile requests: none is answered with 500, none changes what it may not."""

import json
import random
from typing import Any

import pytest

from tests.unit.scheduler.admin.world import World, due

REQUESTS = 250
"""Of each seed."""
TEXTS = (
    "",
    "\x00",
    "..",
    "%00",
    "%2e%2e%2f",
    "' OR 1=1 --",
    "<script>alert(1)</script>",
    "\ud800",
    "é" * 400,
    "9" * 400,
    "-1",
    "1e999",
    "NaN",
    "null",
    "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999Z",
    "2026-02-30T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "2026-02-09T01:41:12.959Z,a,b",
    "2026-02-09T01:41:12.959Z,%FF,%ED%A0%80",
    "TaskKey(2026-02-09T01:41:12Z,,)",
    "0:0",
    "99999999999999999999:1",
    "1-x",
    "pending",
    "all",
    "0~",
    "3~5:",
    "0123456789abcdef-2",
    "9999-12-31T23:59:59.999Z,hourhand:send:=k,u",
)
NAMES = (
    "key",
    "from",
    "to",
    "limit",
    "after",
    "before",
    "state",
    "orderingId",
    "order",
    "unit",
    "bars",
    "partition",
    "targets",
    "scope",
    "keys",
    "filter",
    "states",
    "expected",
    "dryRun",
    "waitS",
    "places",
    "orderingIds",
    "how",
    "reason",
    "name",
    "names",
    "id",
    "ids",
    "tag",
    "next",
    "limit",
    "limits",
    "rate",
    "perMs",
    "burst",
    "concurrency",
)
PATHS = (
    "task",
    "tasks",
    "attempts",
    "waiting",
    "status",
    "blocked",
    "failing",
    "nodes",
    "settings",
    "partitions",
    "running",
    "history",
    "pauses",
    "ahead",
    "buckets",
    "dead-letters",
    "audit",
    "openapi.json",
    "nothing",
    "task/../status",
    "%00",
    "actions/drop",
    "doors",
    "recurring",
    "limits",
    "recurring/schedule",
    "timers",
    "timers/timer",
    "relay/pending",
    "relay/message",
)
POSTS = (
    "actions/drop",
    "actions/reschedule",
    "actions/unblock",
    "actions/explode",
    "pauses",
    "pauses/resume",
    "dead-letters/replay",
    "task",
    "recurring/pause",
    "recurring/set",
    "limits",
    "limits/reset",
    "timers/delete",
    "relay/cancel",
    "relay/reschedule",
    "relay/drop",
)


def value(rng: random.Random, depth: int = 0) -> Any:
    """Return a JSON value that somebody might send."""
    kind = rng.randrange(9 if depth < 4 else 6)
    if kind < 3:
        return rng.choice(TEXTS)
    if kind == 3:
        return rng.choice((0, -1, 2**63, 2**200, 1e308, True, None))
    if kind < 6:
        return rng.randint(-5, 10_000)
    if kind == 6:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    return {rng.choice(NAMES): value(rng, depth + 1) for _ in range(rng.randrange(6))}


def likely(rng: random.Random) -> Any:
    """Return a body whose form is nearly right."""
    window = {"from": rng.choice(TEXTS), "to": rng.choice(TEXTS), "states": ["pending"]}
    return {
        "keys": [rng.choice(TEXTS) for _ in range(rng.randrange(3))],
        **({"filter": window, "expected": 0} if rng.random() < 0.4 else {}),
        "targets": [{"scope": "ordering", "orderingId": rng.choice(TEXTS)}],
        "places": [rng.choice(TEXTS)],
        "orderingIds": [rng.choice(TEXTS)],
        "names": [rng.choice(TEXTS)],
        "ids": [rng.choice(TEXTS)],
        "limits": [rng.choice((*TEXTS, "mail#1"))],
        "limit": "mail#1",
        "rate": rng.choice((0, -1, 5, 1e308, "7", True, None)),
        "how": "drop",
        "waitS": 0,
    }


def body(rng: random.Random, path: str) -> bytes:
    """Return the bytes of a request."""
    if rng.random() < 0.15:
        return rng.choice((b"", b"{", b"\xff\xfe", b"[" * 5_000, b'{"keys":', b"null", b'"x"'))
    chosen = likely(rng) if rng.random() < 0.6 else value(rng)
    if isinstance(chosen, dict) and rng.random() < 0.7:
        wanted = {
            "pauses": ("targets",),
            "pauses/resume": ("targets",),
            "dead-letters/replay": ("places",),
            "actions/unblock": ("orderingIds", "how", "waitS"),
            "limits": ("limit", "rate"),
            "limits/reset": ("limits",),
            "recurring/pause": ("names", "waitS"),
            "timers/delete": ("ids",),
            "relay/cancel": (rng.choice(("ids", "keys")), "waitS"),
        }.get(path, ("keys", "waitS"))
        chosen = {name: each for name, each in chosen.items() if name in wanted}
    return json.dumps(chosen).encode()


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 8))]
)
def test_no_hostile_request_is_answered_with_500(seed: int) -> None:
    """Every answer is the asked-for one or a problem, and the service goes on."""
    rng = random.Random(seed)
    world = World()
    task = due(600)
    world.schedule(task)
    world.report()
    for _ in range(REQUESTS):
        if rng.random() < 0.5:
            path = rng.choice(PATHS)
            asked = {rng.choice(NAMES): rng.choice(TEXTS) for _ in range(rng.randrange(5))}
            query = {name: text.encode("utf-8", "surrogatepass") for name, text in asked.items()}
            method = rng.choice(("GET", "GET", "GET", "HEAD", "PUT", "DELETE", "OPTIONS"))
            answer = world.http.request(method, f"/{path}", params=query)
        else:
            path = rng.choice(POSTS)
            sent = {"Content-Type": "application/json"}
            answer = world.http.post(f"/{path}", content=body(rng, path), headers=sent)
        assert answer.status_code < 500, (path, answer.status_code, answer.text[:300])
        if answer.status_code >= 400 and answer.request.method != "HEAD":
            assert answer.json()["code"], path

    assert world.get("/task", key=str(task.key))[1]["task"]["state"] == "pending"
