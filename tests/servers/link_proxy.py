"""The program that stands before servers: ``links`` starts it and speaks with it in lines of JSON.

Each connection is known by the process that made it and the server that it is for, so a fault may
strike one node's links and leave the others.  It decides nothing about when.  It ends with its
input.
"""

import asyncio
import contextlib
import ipaddress
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from tests.servers.link_faults import Blight, Connection, Counts, End, Way

_RESET_EACH_S = 0.5
"""Connections are reset again and again while links are."""

Socket = tuple[str, int, str, int]
"""Local address and port, and the other end's, as the client's side sees them."""


@dataclass(frozen=True, slots=True)
class Front:
    """A port of the proxy, and the server behind it."""

    name: str
    host: str
    port: int
    server_host: str
    server_port: int


@dataclass(frozen=True, slots=True)
class Rule:
    """Connections that are struck: of these processes, to these servers, these ways."""

    pids: Sequence[int]
    names: Sequence[str]
    ways: Sequence[Way]


class Proxy:
    """All connections through some fronts, and the fault that some of them have."""

    def __init__(self) -> None:
        self._connections: dict[Connection, tuple[str, Socket]] = {}
        self._struck: set[Connection] = set()
        self._rules: list[Rule] = []
        self._blight: Blight | None = None
        self._counts = Counts()
        self._again: asyncio.TimerHandle | None = None
        self._openings: set[asyncio.Task[None]] = set()

    async def open(self, fronts: Sequence[Front]) -> None:
        """Listen; raises OSError where a port is taken."""
        loop = asyncio.get_running_loop()
        for front in fronts:
            await loop.create_server(partial(self._accept, front), front.host, front.port)

    def _accept(self, front: Front) -> End:
        return Connection(partial(self._came, front), self._ended).client

    def _came(self, front: Front, connection: Connection, host: str, port: int) -> None:
        """Take a new connection, and reach its server."""
        self._connections[connection] = (front.name, (host, port, front.host, front.port))
        if self._blight is not None:
            self._strike({connection: self._connections[connection]})
        opening = asyncio.ensure_future(self._reach(connection, front))
        self._openings.add(opening)
        opening.add_done_callback(self._openings.discard)

    def _ended(self, connection: Connection) -> None:
        """Forget a connection."""
        self._connections.pop(connection, None)
        self._struck.discard(connection)

    @property
    def forsaken(self) -> int:
        """The number of connections that are half-open without their client's knowledge."""
        return sum(connection.is_forsaken for connection in self._connections)

    def strike(self, blight: Blight, rules: Sequence[Rule]) -> Counts:
        """Let a fault begin on what is connected, and on what will be."""
        self._blight, self._rules, self._counts = blight, list(rules), Counts()
        self._strike(self._connections)
        if blight.manner == "reset":
            self._reset_again()
        return self._counts

    def heal(self) -> Counts:
        """Let it end, and tell what it did."""
        self._blight = None
        if self._again is not None:
            self._again.cancel()
        for connection in self._struck:
            connection.heal()
        self._struck.clear()
        return self._counts

    async def _reach(self, connection: Connection, front: Front) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(
                lambda: connection.server, front.server_host, front.server_port
            )
        except OSError:
            connection.reset()
        else:
            connection.reached()

    def _reset_again(self) -> None:
        for connection in tuple(self._struck):
            self._counts.resets += 1
            connection.reset()
        loop = asyncio.get_running_loop()
        self._again = loop.call_later(_RESET_EACH_S, self._reset_again)

    def _strike(self, connections: dict[Connection, tuple[str, Socket]]) -> None:
        assert self._blight is not None
        for rule in self._rules:
            sockets = sockets_of(rule.pids)
            for connection, (name, client) in tuple(connections.items()):
                if name in rule.names and client in sockets:
                    self._struck.add(connection)
                    connection.strike(self._blight, rule.ways, self._counts)


def sockets_of(pids: Sequence[int]) -> set[Socket]:
    """Return the connected sockets of some processes of this machine, as Linux tells them."""
    inodes = set(_inodes(pids))
    found: set[Socket] = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[9] in inodes:
                found.add((*_address(fields[1]), *_address(fields[2])))
    return found


def _inodes(pids: Sequence[int]) -> Iterator[str]:
    for pid in pids:
        # A process may end, and close files, while it is looked at.
        with contextlib.suppress(OSError):
            for descriptor in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    target = str(descriptor.readlink())
                    if target.startswith("socket:["):
                        yield target[8:-1]


def _address(told: str) -> tuple[str, int]:
    host, port = told.split(":")
    # An address of IPv4 is the last word of one of IPv6.
    word = int.from_bytes(bytes.fromhex(host[-8:]), sys.byteorder)
    return str(ipaddress.IPv4Address(word)), int(port, 16)


async def _serve() -> None:
    loop, proxy, reader = asyncio.get_running_loop(), Proxy(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        try:
            answer = await _answer(proxy, json.loads(line))
        except OSError as error:
            answer = {"error": str(error)}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


async def _answer(proxy: Proxy, asked: dict[str, Any]) -> dict[str, Any]:
    match asked["do"]:
        case "open":
            await proxy.open([Front(**each) for each in asked["fronts"]])
            return {}
        case "strike":
            rules = [Rule(**each) for each in asked["rules"]]
            return asdict(proxy.strike(Blight(**asked["blight"]), rules))
        case "heal":
            return asdict(proxy.heal())
        case _:
            return {"forsaken": proxy.forsaken}


if __name__ == "__main__":
    uvloop.run(_serve())
