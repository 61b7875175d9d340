"""Connections to endpoints, kept open from one callback to the next.

HTTP itself is h11's: what a request looks like on the wire, where an answer ends, and whether a
connection may be used again.  Decides how long an unused one is kept, and follows nothing.
"""

import asyncio
import ssl
from collections import OrderedDict
from typing import NamedTuple

import h11

IDLE_S = 4.0
"""An endpoint closes what is unused sooner or later; the usual ones after five seconds."""
IDLE_MAX = 200
_READ_BYTES = 65_536


class AnswerTooLong(Exception):
    """An answer has more bytes than are allowed."""


class Endpoint(NamedTuple):
    """Where a connection leads."""

    address: str
    port: int
    server_name: str | None
    """Whose certificate is asked for; None where the connection is not encrypted."""


class _Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._state = h11.Connection(h11.CLIENT)
        self.unused_since_s = 0.0

    async def ask(self, request: h11.Request, body: bytes, answer_bytes_max: int) -> int:
        """Send a request, read the answer to its end, and return its status."""
        state = self._state
        events = (request, h11.Data(data=body), h11.EndOfMessage())
        self._writer.write(b"".join(state.send(event) or b"" for event in events))
        await self._writer.drain()
        status, left_bytes = 0, answer_bytes_max
        while True:
            event = state.next_event()
            if event is h11.NEED_DATA:
                state.receive_data(await self._reader.read(_READ_BYTES))
            elif isinstance(event, h11.Response):
                status = event.status_code
            elif isinstance(event, h11.Data):
                left_bytes -= len(event.data)
                if left_bytes < 0:
                    raise AnswerTooLong
            elif isinstance(event, h11.EndOfMessage):
                return status

    def begin_anew(self) -> bool:
        """Get ready for another request; False where both sides did not agree on that."""
        if self._state.our_state is not h11.DONE or self._state.their_state is not h11.DONE:
            return False
        self._state.start_next_cycle()
        return True

    @property
    def is_open(self) -> bool:
        """Whether the endpoint has not closed it, as far as is known."""
        return not (self._reader.at_eof() or self._writer.is_closing())

    def close(self) -> None:
        """Let go of it at once."""
        self._writer.close()


class Connections:
    """Asks endpoints; used from one event loop."""

    def __init__(self, encryption: ssl.SSLContext) -> None:
        self._encryption = encryption
        self._unused: OrderedDict[_Connection, Endpoint] = OrderedDict()
        """Those unused for longest come first."""

    async def ask(
        self, endpoint: Endpoint, request: h11.Request, body: bytes, answer_bytes_max: int
    ) -> int:
        """Return the status of an answer.

        Raises AnswerTooLong, what h11 raises where the answer is no HTTP, and OSError.
        """
        connection = self._take(endpoint) or await self._open(endpoint)
        try:
            status = await connection.ask(request, body, answer_bytes_max)
        except BaseException:
            # Cancelled too: what is left of the answer would be taken for the next one's.
            connection.close()
            raise
        self._keep(connection, endpoint)
        return status

    def close(self) -> None:
        """Let go of what is unused."""
        for connection in self._unused:
            connection.close()
        self._unused.clear()

    def _take(self, endpoint: Endpoint) -> _Connection | None:
        """Return an unused connection, the one that was used last; None where there is none."""
        self._let_go_of_old()
        for connection, leads_to in reversed(self._unused.items()):
            if leads_to == endpoint:
                del self._unused[connection]
                if connection.is_open:
                    return connection
                connection.close()
                break
        return None

    async def _open(self, endpoint: Endpoint) -> _Connection:
        encryption = None if endpoint.server_name is None else self._encryption
        reader, writer = await asyncio.open_connection(
            endpoint.address,
            endpoint.port,
            ssl=encryption,
            server_hostname=endpoint.server_name,
        )
        return _Connection(reader, writer)

    def _keep(self, connection: _Connection, endpoint: Endpoint) -> None:
        if not connection.begin_anew():
            connection.close()
            return
        connection.unused_since_s = asyncio.get_running_loop().time()
        self._unused[connection] = endpoint
        if len(self._unused) > IDLE_MAX:
            self._unused.popitem(last=False)[0].close()

    def _let_go_of_old(self) -> None:
        before_s = asyncio.get_running_loop().time() - IDLE_S
        while self._unused:
            oldest = next(iter(self._unused))
            if oldest.unused_since_s > before_s:
                break
            del self._unused[oldest]
            oldest.close()
