"""Makes callbacks over HTTP: only where they are allowed to go, and never for long.

Decides which address a host name means for this one request, and connects to that address and no
other, so that a name cannot mean something else a moment later.  Redirects are failures and not
followed, proxies of the environment are not used, cookies are not kept.
"""

import asyncio
import hashlib
import hmac
import re
import socket
from collections.abc import AsyncGenerator, Callable, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from ssl import SSLContext
from urllib.parse import quote

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from yarl import URL

from actors.ports.clock import Clock
from scheduler.configuration.door_settings import TimerSettings
from scheduler.services.timers.executor import CallbackFailed

IDLE_S = 4.0
"""An endpoint closes what is unused sooner or later; the usual ones after five seconds."""
_ANYWHERE = "*"
_SIGNED = "v2"
"""What a signature covers: time, URL, whose callback it is, its number, its body."""
_WRITTEN_AS_SENT = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]*")
_UNSENT_HEADERS = ("Accept", "Accept-Encoding", "User-Agent")
"""No callback needs what the library would add."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class HttpCaller:
    """Implements ``scheduler.services.timers.executor.Caller``; used from one event loop.

    Its connections are closed when that loop ends.
    """

    def __init__(
        self,
        settings: TimerSettings,
        clock: Clock,
        trace: Callable[[], Mapping[str, str]] = dict,
        encryption: SSLContext | None = None,
    ) -> None:
        """``encryption`` says whose certificates are trusted: the system's by default."""
        self._settings = settings
        self._clock = clock
        self._trace = trace
        self._encryption = encryption
        targets = settings.callback_targets
        self._networks: list[Network] = [ip_network(each) for each in targets if "/" in each]
        self._hosts = {each.lower() for each in targets if "/" not in each}
        self._sessions: AsyncGenerator[ClientSession, None] | None = None
        self._session: ClientSession | None = None

    async def call(self, uri: str, body: bytes, sequence_number: int, of: str) -> None:
        """POST a body within the time allowed; raises CallbackFailed unless answered with 200."""
        try:
            async with asyncio.timeout(self._settings.callback_timeout_ms / 1000):
                status = await self._post(uri, body, sequence_number, of)
        except TimeoutError:
            raise CallbackFailed(
                f"no answer within {self._settings.callback_timeout_ms} ms"
            ) from None
        except CallbackFailed:
            raise
        except Exception as error:  # noqa: BLE001 - any of the libraries below
            raise CallbackFailed(f"{type(error).__name__}: {error}") from None
        if status != 200:
            raise CallbackFailed(f"answered with {status}, not 200")

    async def _post(self, uri: str, body: bytes, sequence_number: int, of: str) -> int:
        url, host = _parsed(uri)
        address = await self._address_of(url)
        headers = {
            "Host": host,
            "Content-Type": "application/octet-stream",
            "X-Sequence-Number": str(sequence_number),
            **self._signature(uri, body, sequence_number, of),
            **self._trace(),
        }
        left_bytes = self._settings.callback_answer_bytes_max
        session = await self._opened()
        async with session.post(
            _at(url, address),
            data=body,
            headers=headers,
            allow_redirects=False,
            server_hostname=url.raw_host,
        ) as answer:
            async for piece in answer.content.iter_any():
                left_bytes -= len(piece)
                if left_bytes < 0:
                    most_bytes = self._settings.callback_answer_bytes_max
                    raise CallbackFailed(f"the answer is longer than {most_bytes} bytes")
            return answer.status

    async def _address_of(self, url: URL) -> str:
        """Return the address to connect to; raises CallbackFailed where none is allowed."""
        host = url.host or ""
        found = await _addresses(url.raw_host or "", url.port)
        named = _ANYWHERE in self._hosts or host.lower() in self._hosts
        for address in found:
            if named or any(_is_in(address, network) for network in self._networks):
                return str(address)
        raise CallbackFailed(f"{host} is not among timers.callback_targets")

    def _signature(self, uri: str, body: bytes, sequence_number: int, of: str) -> dict[str, str]:
        """Return the header that proves who calls back, whom, for what, and when.

        What is signed begins with the version, so that no signature passes for one of another.
        """
        key = self._settings.signing_key
        if key is None:
            return {}
        now_s, name = self._clock.now_ms() // 1000, quote(of)
        signed = f"{_SIGNED}\n{now_s}\n{uri}\n{name}\n{sequence_number}\n".encode() + body
        digest = hmac.new(key.get_secret_value().encode(), signed, hashlib.sha256).hexdigest()
        return {"X-Hourhand-Signature": f"{_SIGNED},t={now_s},of={name},sha256={digest}"}

    async def _opened(self) -> ClientSession:
        if self._session is None:
            self._sessions = _kept_open(self._encryption)
            self._session = await anext(self._sessions)
        return self._session


async def _kept_open(encryption: SSLContext | None) -> AsyncGenerator[ClientSession, None]:
    """Yield one session: the event loop closes its generators, and with this one the session."""
    async with ClientSession(
        # A callback does not wait for another one's connection.
        connector=TCPConnector(limit=0, keepalive_timeout=IDLE_S, ssl=encryption or True),
        cookie_jar=DummyCookieJar(),
        timeout=ClientTimeout(total=None),
        auto_decompress=False,
        skip_auto_headers=_UNSENT_HEADERS,
    ) as session:
        yield session


@lru_cache(maxsize=10_000)
def _parsed(uri: str) -> tuple[URL, str]:
    """Return a URI without who asks, and its ``Host``; most callbacks go to a few of them.

    Escapes stay as they are written: the endpoint compares the signed URL with what it is asked.
    """
    url = URL(uri, encoded=_WRITTEN_AS_SENT.fullmatch(uri) is not None).with_user(None)
    return url, url.raw_authority


@lru_cache(maxsize=10_000)
def _at(url: URL, address: str) -> URL:
    """Return where to connect to: what is an address already is not looked up again."""
    return url.with_host(address)


async def _addresses(host: str, port: int | None) -> list[Address]:
    try:
        return [ip_address(host)]
    except ValueError:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A scope such as %eth0 belongs to this machine and is of no use in a URL.
    return [ip_address(str(each[4][0]).partition("%")[0]) for each in found]


def _is_in(address: Address, network: Network) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    actual = address if mapped is None else mapped
    return actual.version == network.version and actual in network
