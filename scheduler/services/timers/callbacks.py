"""Makes callbacks over HTTP: to allowed addresses only, and within a bounded time.

It resolves a host name once for each request, and connects only to allowed addresses among the
results, one after another until one answers, so that a name cannot resolve differently a moment
later. Redirects count as failures, proxies of the environment are not used, cookies are not kept.
"""

import asyncio
import base64
import hashlib
import hmac
import re
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from ssl import SSLContext
from typing import NamedTuple
from urllib.parse import quote

from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.services.timers.executor import CallbackFailed

IDLE_S = 4.0
"""Endpoints close idle connections, the usual ones after five seconds; this client does so
earlier."""
_ANYWHERE = "*"
_SIGNED = "v2"
"""Version of the signature; it covers time, URL, the callback's owner, its number, its body."""
_WRITTEN_AS_SENT = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]*")
_UNSENT_HEADERS = ("Accept", "Accept-Encoding", "User-Agent")
"""Headers that the library would add and no callback needs."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class HttpCaller:
    """Implements ``hourhand.scheduler.services.timers.executor.Caller``; used from one event loop.

    Its connections are closed when that loop ends.
    """

    def __init__(
        self,
        settings: TimerSettings,
        clock: Clock,
        trace: Callable[[], Mapping[str, str]] = dict,
        encryption: SSLContext | None = None,
    ) -> None:
        """``encryption`` holds the trusted certificates: the system's by default."""
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
        """POST a body within ``timers.callback_timeout_ms``; raises CallbackFailed unless answered
        with 200.
        """
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
        target = _parsed(uri)
        url = target.url
        addresses = await self._allowed(url.raw_host or "", url.port)
        headers = {
            "Host": url.raw_authority,
            **target.login,
            "Content-Type": "application/octet-stream",
            "X-Sequence-Number": str(sequence_number),
            **self._signature(uri, body, sequence_number, of),
            **self._trace(),
        }
        left_bytes = self._settings.callback_answer_bytes_max
        session = await self._opened()
        async with session.post(
            # The connector resolves a name with several addresses again, filtered, and tries them
            # as RFC 8305 says.
            _at(url, addresses[0]) if len(addresses) == 1 else url,
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

    async def _allowed(self, host: str, port: int | None) -> list[Address]:
        """Return the allowed addresses of a host; raises CallbackFailed if there are none."""
        found = await _addresses(host, port)
        # In the form that people write: xn--bcher-kva.example is bücher.example.
        name = URL.build(scheme="http", host=host).host or ""
        if _ANYWHERE in self._hosts or name.lower() in self._hosts:
            return found
        found = [each for each in found if any(_is_in(each, network) for network in self._networks)]
        if not found:
            raise CallbackFailed(f"{name} is not among timers.callback_targets")
        return found

    def _signature(self, uri: str, body: bytes, sequence_number: int, of: str) -> dict[str, str]:
        """Return a header that proves the sender, the URL, the callback's owner and the time.

        The signed text begins with the version, so no signature is valid for another version.
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
            self._sessions = _kept_open(self._encryption, _Judged(self._allowed))
            self._session = await anext(self._sessions)
        return self._session


class _Judged(AbstractResolver):
    """Resolves names for the connector, and leaves out the addresses that are not allowed."""

    def __init__(
        self, allowed: Callable[[str, int | None], Coroutine[None, None, list[Address]]]
    ) -> None:
        self._allowed = allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return the allowed addresses of a name."""
        del family
        return [
            ResolveResult(
                hostname=host,
                host=str(address),
                port=port,
                family=socket.AF_INET if address.version == 4 else socket.AF_INET6,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self._allowed(host, port)
        ]

    async def close(self) -> None:
        """Do nothing: it holds no resource."""


async def _kept_open(
    encryption: SSLContext | None, resolver: AbstractResolver
) -> AsyncGenerator[ClientSession, None]:
    """Yield one session: the event loop closes its generators, and this one closes the session."""
    async with ClientSession(
        # Callbacks do not share a limit of connections, so none waits for another.
        connector=TCPConnector(
            limit=0,
            keepalive_timeout=IDLE_S,
            ssl=encryption or True,
            resolver=resolver,
            use_dns_cache=False,
        ),
        cookie_jar=DummyCookieJar(),
        timeout=ClientTimeout(total=None),
        auto_decompress=False,
        skip_auto_headers=_UNSENT_HEADERS,
    ) as session:
        yield session


class _Target(NamedTuple):
    """The URL of a callback, and the header for the login in it, if there is one."""

    url: URL
    login: Mapping[str, str]


@lru_cache(maxsize=10_000)
def _parsed(uri: str) -> _Target:
    """Return a URI without its login, which is sent as Basic authorization (RFC 7617).

    Escapes stay unchanged: the endpoint compares the signed URL with the requested one.
    """
    try:
        url = URL(uri, encoded=_WRITTEN_AS_SENT.fullmatch(uri) is not None)
        bare = url.with_user(None)
    except ValueError:
        # The library's reason may quote the login.
        raise CallbackFailed("the URL of the callback cannot be read") from None
    if url.user is None and url.password is None:
        return _Target(bare, {})
    login = base64.b64encode(f"{url.user or ''}:{url.password or ''}".encode()).decode()
    return _Target(bare, {"Authorization": f"Basic {login}"})


@lru_cache(maxsize=10_000)
def _at(url: URL, address: Address) -> URL:
    """Return the URL with the address instead of the name, so that it is not resolved again."""
    return url.with_host(str(address))


async def _addresses(host: str, port: int | None) -> list[Address]:
    try:
        return [ip_address(host)]
    except ValueError:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    # A scope such as %eth0 belongs to this machine and has no use in a URL.
    return [ip_address(str(each[4][0]).partition("%")[0]) for each in found]


def _is_in(address: Address, network: Network) -> bool:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    actual = address if mapped is None else mapped
    return actual.version == network.version and actual in network
