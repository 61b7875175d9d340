"""One connection through the proxy of links: two ends, a pipe each way, and what a fault does.

A way that is cut holds what is sent, as a network does whose packets are sent again, and passes it
on when it is healed.  A half-open connection drops it, for good, and neither end is told that the
other has gone.  It never looks at what it passes on, and decides nothing about who is struck.
"""

import asyncio
import random
import socket
import struct
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, cast

Manner = Literal["cut", "reset", "slow", "lossy", "half-open"]
Way = Literal["to", "from"]
"""Towards the server, and from it."""

HELD_BYTES_MAX = 262_144
"""A pipe that holds more reads its sender no further, as full buffers of a network would."""
_SENT_AGAIN_S = (0.2, 0.4, 0.8, 1.6, 3.2)
"""The time until TCP has sent a lost piece again: after one loss, or several."""
_RESET = 0.001
"""Share of the pieces at which a lossy link is reset."""


@dataclass(slots=True)
class Counts:
    """The effects of a fault; one that reports zeros struck nothing."""

    connections: int = 0
    held: int = 0
    """Pieces that came while their way was cut."""
    dropped: int = 0
    delayed: int = 0
    resets: int = 0


@dataclass(frozen=True, slots=True)
class Blight:
    """A fault of a connection."""

    manner: Manner
    latency_ms: float = 0.0
    bytes_per_s: float = 1e9
    lost: float = 0.02
    """Share of the pieces that a lossy link loses at first."""


class Connection:
    """A client's socket and the server's.

    ``came`` is called with the client's address when it is there, ``ended`` once both have ended.
    """

    def __init__(
        self,
        came: "Callable[[Connection, str, int], None]",
        ended: "Callable[[Connection], None]",
    ) -> None:
        self.client, self.server = End(self), End(self)
        self._came, self._ended = came, ended
        self._pipes: dict[Way, Pipe] = {
            "to": Pipe(self, self.client, self.server),
            "from": Pipe(self, self.server, self.client),
        }
        self.client.out, self.client.into = self._pipes["to"], self._pipes["from"]
        self.server.out, self.server.into = self._pipes["from"], self._pipes["to"]

    def strike(self, blight: Blight, ways: Sequence[Way], counts: Counts) -> None:
        """Let a fault begin."""
        counts.connections += 1
        if blight.manner == "reset":
            counts.resets += 1
            self.reset()
        for way in ways:
            self._pipes[way].strike(blight, counts)

    def heal(self) -> None:
        """Pass on what was held; what was dropped stays so, and what comes on that connection."""
        for pipe in self._pipes.values():
            pipe.heal()

    @property
    def is_forsaken(self) -> bool:
        """True if it is half-open, and its client has not noticed."""
        return not self.client.is_gone and any(pipe.is_dead for pipe in self._pipes.values())

    def reached(self) -> None:
        """Pass on what came while the server was being reached."""
        for pipe in self._pipes.values():
            pipe.open()

    def reset(self) -> None:
        """Tell both ends that the connection is gone."""
        self.client.reset()
        self.server.reset()

    def made(self, end: "End", host: str, port: int) -> None:
        """Have the server reached once the client is there."""
        if end is self.client:
            self._came(self, host, port)

    def lost(self) -> None:
        """Forget it once both ends have gone."""
        if self.client.is_gone and self.server.is_gone:
            self._ended(self)


class Pipe:
    """One way of a connection: what one end sends, until the other end is given it."""

    def __init__(self, connection: Connection, source: "End", target: "End") -> None:
        self._connection = connection
        self._source, self._target = source, target
        self._waiting: deque[tuple[float, bytes | None]] = deque()
        self._waiting_bytes = 0
        self._free_s = 0.0
        """The time at which all that came before has left."""
        self._timer: asyncio.TimerHandle | None = None
        self._blight: Blight | None = None
        self._counts = Counts()
        self._is_open = False
        self.is_dead = False

    def strike(self, blight: Blight, counts: Counts) -> None:
        """Let a fault begin."""
        self._blight, self._counts = blight, counts
        self.is_dead |= blight.manner == "half-open"

    def heal(self) -> None:
        """Let it end."""
        self._blight = None
        self._flush()

    def open(self) -> None:
        """Pass on what waits for the target to be there."""
        self._is_open = True
        self._flush()

    def take(self, piece: bytes | None) -> None:
        """Take what came from the source; None: it has ended."""
        if self.is_dead:
            self._counts.dropped += 1
        elif self._is_open and self._blight is None and not self._waiting:
            self._target.give(piece)
        else:
            self._waiting.append((self._leaves_s(piece), piece))
            self._waiting_bytes += len(piece or b"")
            if self._waiting_bytes > HELD_BYTES_MAX:
                self._source.stop("held")
            self._flush()

    def _leaves_s(self, piece: bytes | None) -> float:
        """Return when a piece may be passed on, by the loop's clock."""
        now_s, blight = asyncio.get_running_loop().time(), self._blight
        if blight is None:
            return now_s
        if blight.manner == "slow":
            self._counts.delayed += 1
            self._free_s = max(now_s, self._free_s) + len(piece or b"") / blight.bytes_per_s
            return self._free_s + blight.latency_ms / 1000
        if blight.manner == "lossy":
            self._free_s = max(self._free_s, now_s + self._sent_again_s(blight.lost))
            return self._free_s
        self._counts.held += 1
        return now_s

    def _sent_again_s(self, lost: float) -> float:
        if random.random() < _RESET:
            self._counts.resets += 1
            self._connection.reset()
        if random.random() >= lost:
            return 0.0
        self._counts.delayed += 1
        return random.choice(_SENT_AGAIN_S)

    def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        loop = asyncio.get_running_loop()
        is_cut = self._blight is not None and self._blight.manner == "cut"
        while self._waiting and self._is_open and not is_cut:
            leaves_s, piece = self._waiting[0]
            if self._blight is not None and leaves_s > loop.time():
                self._timer = loop.call_at(leaves_s, self._flush)
                break
            self._waiting.popleft()
            self._waiting_bytes -= len(piece or b"")
            self._target.give(piece)
        if self._waiting_bytes <= HELD_BYTES_MAX:
            self._source.go_on("held")


class End(asyncio.Protocol):
    """A socket of the proxy, and what it sends and is given."""

    out: Pipe
    into: Pipe

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._transport: asyncio.Transport | None = None
        self._stops: set[str] = set()
        self.is_gone = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read."""
        # Those of uvloop have another base.
        self._transport = cast("asyncio.Transport", transport)
        if self.is_gone:
            self._transport.abort()
        self._connection.made(self, *transport.get_extra_info("peername")[:2])

    def data_received(self, data: bytes) -> None:
        """Let the pipe have it."""
        self.out.take(data)

    def connection_lost(self, _: Exception | None) -> None:
        """Let the pipe tell the other end, if it may."""
        self.is_gone = True
        self.out.take(None)
        self._connection.lost()

    def pause_writing(self) -> None:
        """Read the other end no further until this one takes more."""
        self._other().stop("full")

    def resume_writing(self) -> None:
        """Read on."""
        self._other().go_on("full")

    def give(self, piece: bytes | None) -> None:
        """Send a piece; None: end."""
        if self._transport is None or self.is_gone:
            return
        if piece is None:
            self._transport.close()
        else:
            self._transport.write(piece)

    def reset(self) -> None:
        """End as a machine does that knows nothing of the connection."""
        if self._transport is None:
            self.is_gone = True
        elif not self.is_gone:
            raw = self._transport.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()

    def stop(self, why: str) -> None:
        """Read no further, for one reason more."""
        if not self._stops and self._transport is not None and not self.is_gone:
            self._transport.pause_reading()
        self._stops.add(why)

    def go_on(self, why: str) -> None:
        """Read on, where no other reason is left."""
        if why in self._stops:
            self._stops.remove(why)
            if not self._stops and self._transport is not None and not self.is_gone:
                self._transport.resume_reading()

    def _other(self) -> "End":
        both = (self._connection.client, self._connection.server)
        return both[1] if self is both[0] else both[0]
