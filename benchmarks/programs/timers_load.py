"""Makes timers over HTTP on open connections, and takes their callbacks, as told.

``create`` makes far timers as fast as they are acknowledged.  ``pops`` makes timers that pop at a
steady rate and notes when each callback comes: lateness is that less start and intervals, the
start being what the service itself tells of the timer.  It is judged from when all of them are
made, as making them is another measure's business.  HTTP is written by hand here: a client library
would be busier than what is measured.
"""

import asyncio
import json
import math
from typing import Any

from benchmarks.figures import quantile
from benchmarks.program import tell, told, wait_for_command
from benchmarks.records import wall_s
from hourhand.actors.model.values.instant import parse_instant

_CONNECTIONS = 64
_INTERVAL_S = 2
_FAR_S = 86_400
_SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
_IDLE_S = 30.0
_TIMEOUT_S = 60.0

Answer = tuple[int, dict[str, str], bytes]


class Connection:
    """One connection to the service, for one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def ask(self, method: str, path: str, body: bytes = b"") -> Answer:
        """Return status, headers and body."""
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        self._writer.write(head.encode() + body)
        async with asyncio.timeout(_TIMEOUT_S):
            status, headers = await read_head(self._reader)
            content = await self._reader.readexactly(int(headers.get("content-length", "0")))
        return int(status.split()[1]), headers, content

    def close(self) -> None:
        """Let go of it."""
        self._writer.close()


async def read_head(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    """Read the first line and the headers of a request or an answer."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines[1:] if line)
    return lines[0], {name.lower(): value.strip() for name, _, value in pairs}


class Sink:
    """Takes callbacks and answers each with 200."""

    def __init__(self) -> None:
        self.pops: list[tuple[int, int, float]] = []
        """Timer, sequence number, and when it came."""
        self.distinct: set[tuple[int, int]] = set()
        """The same without those that came again, which stand for none that is missing."""

    async def open(self) -> int:
        """Listen on a free port and return it."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1_000)
        self._server = server
        return int(server.sockets[0].getsockname()[1])

    def note(self, timer: int, number: int, came_s: float) -> None:
        """Take note of a callback."""
        self.pops.append((timer, number, came_s))
        self.distinct.add((timer, number))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                _, headers = await read_head(reader)
                came_s = wall_s()
                body = await reader.readexactly(int(headers["content-length"]))
                self.note(int(body), int(headers["x-sequence-number"]), came_s)
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


async def main() -> None:
    """Get ready, wait for the word, and do what is told."""
    spec = told()
    sink = Sink()
    uri = f"http://127.0.0.1:{await sink.open()}/pop"
    connections = [
        Connection(*await asyncio.open_connection("127.0.0.1", spec["port"]))
        for _ in range(_CONNECTIONS)
    ]
    tell("ready")
    if await asyncio.to_thread(wait_for_command, "go"):
        if spec["kind"] == "create":
            await _create(connections, uri, spec["count"])
        else:
            await _pop(connections, sink, uri, spec)
    for connection in connections:
        connection.close()


def _timer(uri: str, number: int, interval_s: int, repeat_s: int) -> bytes:
    timing = {"interval": interval_s, "repeat-for": repeat_s}
    http = {"uri": uri, "opaque": str(number)}
    return json.dumps({"timing": timing, "callback": {"http": http}}).encode()


async def _create(connections: list[Connection], uri: str, count: int) -> None:
    numbers = iter(range(count))

    async def work(connection: Connection) -> None:
        for number in numbers:
            body = _timer(uri, number, _FAR_S, _FAR_S)
            status, _, content = await connection.ask("POST", "/timers", body)
            if status != 200:
                raise RuntimeError(f"a creation was answered with {status}: {content!r}")

    began_s = wall_s()
    await asyncio.gather(*map(work, connections))
    tell("done", began_s=began_s, ended_s=wall_s())


async def _pop(connections: list[Connection], sink: Sink, uri: str, spec: dict[str, Any]) -> None:
    timers, seconds = spec["rate"] * _INTERVAL_S, spec["seconds"]
    # They are made in as much time as is judged then, and go on for an interval longer.
    times = math.ceil(2 * seconds / _INTERVAL_S) + 1
    starts_ms: dict[int, int] = {}
    began_s = wall_s()

    async def make(number: int) -> None:
        await asyncio.sleep(max(0.0, began_s + number * seconds / timers - wall_s()))
        connection = connections[number % len(connections)]
        async with locks[number % len(connections)]:
            body = _timer(uri, number, _INTERVAL_S, times * _INTERVAL_S)
            status, headers, _ = await connection.ask("POST", "/timers", body)
            if status != 200:
                raise RuntimeError(f"a creation was answered with {status}")
            _, _, shown = await connection.ask("GET", headers["location"])
            following = json.loads(shown)["next-pop"]
            due_ms = parse_instant(following["time"])
            starts_ms[number] = due_ms - following["sequence-number"] * _INTERVAL_S * 1000

    locks = [asyncio.Lock() for _ in connections]
    await asyncio.gather(*map(make, range(timers)))
    made_ms = wall_s() * 1000
    wanted, last_s = timers * times, wall_s()
    reached = -1
    while len(sink.distinct) < wanted and wall_s() < last_s + _IDLE_S:
        if len(sink.distinct) != reached:
            reached, last_s = len(sink.distinct), wall_s()
        await asyncio.sleep(0.1)
    tell("done", **_counted(sink, starts_ms, wanted, (made_ms, made_ms + seconds * 1000)))


def _counted(
    sink: Sink, starts_ms: dict[int, int], wanted: int, judged_ms: tuple[float, float]
) -> dict[str, Any]:
    """Return what came, and how late of it what was due between two times."""
    due_and_late_ms = [
        (due_ms, came_s * 1000 - due_ms)
        for timer, number, came_s in sink.pops
        for due_ms in [starts_ms[timer] + number * _INTERVAL_S * 1000]
    ]
    first_ms, last_ms = judged_ms
    late_ms = sorted(late for due, late in due_and_late_ms if first_ms <= due < last_ms)
    return {
        "pops": wanted,
        "missing": wanted - len(sink.distinct),
        "doubled": len(sink.pops) - len(sink.distinct),
        "early": sum(late < 0 for _, late in due_and_late_ms),
        "per_s": len(late_ms) * 1000 / (last_ms - first_ms),
        **{name: quantile(late_ms, share) for name, share in _SHARES.items()},
    }


if __name__ == "__main__":
    asyncio.run(main())
