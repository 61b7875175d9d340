"""Makes callbacks over HTTP: only where they are allowed to go, and never for long.

Decides which address a host name means for this one request, and connects to that address and no
other, so that a name cannot mean something else a moment later.  Redirects are failures and not
followed, proxies of the environment are not used.
"""

import asyncio
import hashlib
import hmac
import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import httpx

from scheduler.door_settings import TimerSettings
from scheduler.timers.executor import CallbackFailed

_ANYWHERE = "*"
_CONNECTIONS_MAX = 1_000

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class HttpCaller:
    """Implements ``scheduler.timers.executor.Caller``; used from one event loop."""

    def __init__(self, settings: TimerSettings) -> None:
        self._settings = settings
        targets = settings.callback_targets
        self._networks: list[Network] = [ip_network(each) for each in targets if "/" in each]
        self._hosts = {each.lower() for each in targets if "/" not in each}
        self._client: httpx.AsyncClient | None = None

    async def call(self, uri: str, body: bytes, sequence_number: int) -> None:
        """POST a body within the time allowed; raises CallbackFailed unless answered with 200."""
        try:
            async with asyncio.timeout(self._settings.callback_timeout_ms / 1000):
                status = await self._post(uri, body, sequence_number)
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

    async def close(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _post(self, uri: str, body: bytes, sequence_number: int) -> int:
        url = httpx.URL(uri)
        address = await self._address_of(url)
        headers = {
            "Host": url.netloc.decode("ascii"),
            "Content-Type": "application/octet-stream",
            "X-Sequence-Number": str(sequence_number),
            **self._signature(body, sequence_number),
        }
        request = self._opened().build_request(
            "POST",
            url.copy_with(host=address, username=None, password=None),
            content=body,
            headers=headers,
            extensions={"sni_hostname": url.host},
        )
        response = await self._opened().send(request, stream=True)
        try:
            await self._read(response)
        finally:
            await response.aclose()
        return response.status_code

    async def _read(self, response: httpx.Response) -> None:
        """Read the answer, so that the connection can be used again; but no more than allowed."""
        left_bytes = self._settings.callback_answer_bytes_max
        async for piece in response.aiter_raw():
            left_bytes -= len(piece)
            if left_bytes < 0:
                raise CallbackFailed(
                    f"the answer is longer than {self._settings.callback_answer_bytes_max} bytes"
                )

    async def _address_of(self, url: httpx.URL) -> str:
        """Return the address to connect to; raises CallbackFailed where none is allowed."""
        host = url.host
        found = await _addresses(host, url.port or (443 if url.scheme == "https" else 80))
        named = _ANYWHERE in self._hosts or host.lower() in self._hosts
        for address in found:
            if named or any(_is_in(address, network) for network in self._networks):
                return str(address)
        raise CallbackFailed(f"{host} is not among timers.callback_targets")

    def _signature(self, body: bytes, sequence_number: int) -> dict[str, str]:
        key = self._settings.signing_key
        if key is None:
            return {}
        signed = b"%d\n%b" % (sequence_number, body)
        digest = hmac.new(key.get_secret_value().encode(), signed, hashlib.sha256).hexdigest()
        return {"X-Hourhand-Signature": f"sha256={digest}"}

    def _opened(self) -> httpx.AsyncClient:
        if self._client is None:
            limits = httpx.Limits(max_connections=_CONNECTIONS_MAX, max_keepalive_connections=200)
            timeout_s = self._settings.callback_timeout_ms / 1000
            self._client = httpx.AsyncClient(
                follow_redirects=False, trust_env=False, timeout=timeout_s, limits=limits
            )
        return self._client


async def _addresses(host: str, port: int) -> list[Address]:
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
