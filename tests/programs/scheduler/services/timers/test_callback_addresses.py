"""Callbacks to names of several addresses: each one that is allowed is tried, and no other."""

import asyncio
import contextlib
import ssl
from typing import Any

import pytest
import trustme

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.services.timers.callbacks import HttpCaller
from hourhand.scheduler.services.timers.executor import CallbackFailed
from tests.builders import NOW_MS
from tests.programs.scheduler.services.timers.test_callbacks import OF, OK, Endpoint

NAME = "several.xn--bcher-kva.example"


class SeveralAddresses(asyncio.SelectorEventLoop):
    """Looks up one name as an ``/etc/hosts`` with several lines for it does."""

    def __init__(self, addresses: tuple[str, ...]) -> None:
        super().__init__()
        self._addresses = addresses

    async def getaddrinfo(self, host: Any, port: Any, **more: Any) -> Any:
        """Return the addresses in the order of the lines."""
        if host != NAME:
            return await super().getaddrinfo(host, port, **more)
        found = [
            await super(SeveralAddresses, self).getaddrinfo(each, port, **more)
            for each in self._addresses
        ]
        return [each for one in found for each in one]


def reached(
    addresses: tuple[str, ...],
    listening: tuple[str, ...],
    targets: tuple[str, ...] = ("127.0.0.0/8", "::1/128"),
    tls: tuple[ssl.SSLContext, ssl.SSLContext] | None = None,
) -> list[str]:
    """Call the name back twice; return which of the listening addresses were connected to."""
    connected: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer.get_extra_info("sockname")[0])
        await Endpoint(OK).serve(reader, writer)

    async def main() -> None:
        async with contextlib.AsyncExitStack() as servers:
            port = 0
            served, trusted = (None, None) if tls is None else tls
            for address in listening:
                server = await asyncio.start_server(serve, address, port, ssl=served)
                await servers.enter_async_context(server)
                port = int(server.sockets[0].getsockname()[1])
            settings = TimerSettings(callback_targets=targets)
            caller = HttpCaller(settings, VirtualClock(NOW_MS), encryption=trusted)
            scheme = "http" if tls is None else "https"
            for number in (1, 2):
                await caller.call(f"{scheme}://{NAME}:{port}/pop", b"body", number, OF)
            server.close()

    with asyncio.Runner(loop_factory=lambda: SeveralAddresses(addresses)) as runner:
        runner.run(main())
    return connected


@pytest.mark.parametrize("first", ["::1", "127.0.0.2"])
def test_the_next_address_is_tried_where_nobody_listens_at_the_first(first: str) -> None:
    """`localhost` is ::1 first on most machines, and most servers listen on IPv4 alone."""
    assert reached((first, "127.0.0.1"), ("127.0.0.1",)) == ["127.0.0.1"]


def test_the_next_address_is_judged_by_the_certificate_of_the_name() -> None:
    """What is connected to is an address; who is asked is the name."""
    authority = trustme.CA()
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trusted = ssl.create_default_context()
    authority.issue_cert(NAME).configure_cert(served)
    authority.configure_trust(trusted)

    found = reached(("127.0.0.2", "127.0.0.1"), ("127.0.0.1",), tls=(served, trusted))

    assert found == ["127.0.0.1"]


def test_a_name_may_be_allowed_as_people_write_it() -> None:
    """Also where it has several addresses."""
    found = reached(("127.0.0.2", "127.0.0.1"), ("127.0.0.1",), ("several.bücher.example",))

    assert found == ["127.0.0.1"]


@pytest.mark.parametrize("addresses", [("127.0.0.2", "127.0.0.1"), ("127.0.0.1", "127.0.0.2")])
def test_an_address_that_is_not_allowed_is_never_tried(addresses: tuple[str, ...]) -> None:
    """Though the name has one that is."""
    found = reached(addresses, ("127.0.0.1", "127.0.0.2"), ("127.0.0.1/32",))

    assert found == ["127.0.0.1"]


def test_no_address_of_a_name_is_tried_where_only_those_that_fail_are_allowed() -> None:
    """The one that is not allowed is no way out; the failure is that of the connection."""
    addresses = ("127.0.0.3", "127.0.0.2", "127.0.0.1")

    with pytest.raises(CallbackFailed, match=r"127\.0\.0\.[23]|several"):
        reached(addresses, ("127.0.0.1",), ("127.0.0.2/31",))
