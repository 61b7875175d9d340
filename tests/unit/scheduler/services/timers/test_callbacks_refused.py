"""Callbacks that fail say why, and nothing is told to an endpoint that nobody vouches for."""

import asyncio
import ssl

import pytest
import trustme

from actors.kernel.simulated import VirtualClock
from scheduler.configuration.door_settings import TimerSettings
from scheduler.services.timers.callbacks import HttpCaller
from scheduler.services.timers.executor import CallbackFailed
from tests.builders import NOW_MS
from tests.unit.scheduler.services.timers.test_callbacks import OF, OK, Endpoint, call, run


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
        await caller.close()
        server.close()
        return endpoint

    assert asyncio.run(main()).requests == []
