"""Callbacks that fail say why, and nothing is told to an endpoint that nobody vouches for."""

import asyncio
import ssl
from typing import Any

import pytest
import trustme

from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.scheduler.configuration.door_settings import TimerSettings
from hourhand.scheduler.services.timers.callbacks import HttpCaller
from hourhand.scheduler.services.timers.executor import CallbackFailed
from tests.builders import NOW_MS
from tests.programs.scheduler.services.timers.test_callbacks import OF, OK, Endpoint, call, run


def test_a_target_that_is_not_allowed_is_named() -> None:
    """With the setting that would allow it."""

    async def ask(caller: HttpCaller, endpoint: Endpoint) -> None:
        with pytest.raises(CallbackFailed, match=r"localhost is not .* timers\.callback_targets"):
            await call(caller, endpoint, "localhost")

    run(OK, ask, callback_targets=("10.0.0.0/8",))


def test_an_answer_that_does_not_come_is_told_of_with_the_time_waited() -> None:
    """In milliseconds, as the setting has it."""

    async def ask(caller: HttpCaller, endpoint: Endpoint) -> None:
        with pytest.raises(CallbackFailed, match="200 ms"):
            await call(caller, endpoint)

    run(None, ask, callback_timeout_ms=200)


def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    """Before anything of the callback is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("localhost").configure_cert(context)

    async def main() -> Endpoint:
        endpoint = Endpoint(OK)
        server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0, ssl=context)
        uri = f"https://localhost:{server.sockets[0].getsockname()[1]}/pop"
        caller = HttpCaller(TimerSettings(), VirtualClock(NOW_MS))
        with pytest.raises(CallbackFailed, match=r"(?i)certificate verify failed"):
            await caller.call(uri, b"secret", 1, OF)
        server.close()
        return endpoint

    assert asyncio.run(main()).requests == []


class ForgetfulNames(asyncio.SelectorEventLoop):
    """Looks up a name as a hostile server of names does: something else each time."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_up = 0

    async def getaddrinfo(self, host: Any, port: Any, **more: Any) -> Any:
        """Return the loopback address that is allowed, and then one that is not."""
        if host == "rebound.example":
            self.looked_up += 1
            host = f"127.0.0.{self.looked_up}"
        return await super().getaddrinfo(host, port, **more)


def test_a_name_that_means_something_else_a_moment_later_leads_nowhere_else() -> None:
    """The address that was judged is the one that is connected to."""
    addresses: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        addresses.append(writer.get_extra_info("sockname")[0])
        await Endpoint(OK).serve(reader, writer)

    async def main() -> None:
        server = await asyncio.start_server(serve, "0.0.0.0", 0)  # noqa: S104 - all of loopback
        uri = f"http://rebound.example:{server.sockets[0].getsockname()[1]}/pop"
        settings = TimerSettings(callback_targets=("127.0.0.1/32",))
        caller = HttpCaller(settings, VirtualClock(NOW_MS))
        await caller.call(uri, b"first", 1, OF)
        with pytest.raises(CallbackFailed, match="not among"):
            await caller.call(uri, b"second", 2, OF)
        server.close()

    with asyncio.Runner(loop_factory=ForgetfulNames) as runner:
        runner.run(main())
        loop: Any = runner.get_loop()

    assert (loop.looked_up, addresses) == (2, ["127.0.0.1"])


def test_a_connection_that_one_name_vouched_for_serves_no_other_name() -> None:
    """Both lead to one address, and the certificate there is for one of them."""
    authority = trustme.CA()
    served, trusted = (
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.create_default_context(),
    )
    authority.issue_cert("localhost").configure_cert(served)
    authority.configure_trust(trusted)

    async def main() -> Endpoint:
        endpoint = Endpoint(OK)
        server = await asyncio.start_server(endpoint.serve, "127.0.0.1", 0, ssl=served)
        port = server.sockets[0].getsockname()[1]
        caller = HttpCaller(TimerSettings(), VirtualClock(NOW_MS), encryption=trusted)
        await caller.call(f"https://localhost:{port}/pop", b"first", 1, OF)
        with pytest.raises(CallbackFailed, match=r"(?i)certificate"):
            await caller.call(f"https://127.0.0.1:{port}/pop", b"second", 2, OF)
        server.close()
        return endpoint

    assert len(asyncio.run(main()).requests) == 1
