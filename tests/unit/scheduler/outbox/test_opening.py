"""A URL of the outbox's database that cannot be read is refused, and none of it is shown."""

import traceback
from pathlib import Path

import pytest

from hourhand import Settings
from hourhand.actors.kernel.simulated import VirtualClock
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.outbox.opening import migrate_outbox, open_outbox
from tests.unit.scheduler.cli.commands import invoke

UNREADABLE = [
    "postgresql://shop:pl4nted%zz@127.0.0.1:1/shop",
    "postgresql://shop:pl4nted%@127.0.0.1:1/shop",
    "postgresql://shop:pl4nted%00@127.0.0.1:1/shop",
    "postgresql://shop:pl4nted@[::1/shop",
    "postgresql://shop:x@pl4nted@127.0.0.1:1/shop",
    "postgresql://shop:x@y/pl4nted@127.0.0.1:1/shop",
    "postgresql://shop:pl4nted/x@127.0.0.1:1/shop",
    "postgresql://shop:12/pl4nted@127.0.0.1:1/shop",
    "postgresql://shop:pl4nted/[x]@127.0.0.1:1/shop",
    "postgresql://shop:x/y?pl4nted@127.0.0.1:1/shop",
    "postgresql://shop:pl4nted\udce4@127.0.0.1:1/shop",
    "postgresql://127.0.0.1:pl4nted/shop",
    "postgresql://shop@127.0.0.1:1/shop?password=pl4nted%zz",
    "postgresql://shop@127.0.0.1:1/shop?password=x&pl4nted",
    "postgresql+psycopg://shop:pl4nted%zz@127.0.0.1:1/shop",
    "shop:pl4nted@127.0.0.1:1/shop",
    "pl4nted@x://127.0.0.1/shop",
    "sqlite://shop:pl4nted@127.0.0.1/shop",
]
"""Each leads to an error of the driver that quotes the password or a part of it, or did."""
READABLE = [
    "postgresql://shop:p%25%20w%40%2F@127.0.0.1:1/shop",
    "postgresql://shop:p[w]#?'\\:@127.0.0.1:1/shop",
    "postgres://shop@one:1,two:2/shop?application_name=a@b",
    "postgresql+psycopg:///shop?host=/run",
    "postgresql://shop:pw@[::1]:5432/shop",
]


@pytest.mark.parametrize("url", UNREADABLE)
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    """Wherever the password ends, and also in the trace of the error."""
    settings = Settings(outbox={"url": url})

    for opened in (open_outbox, migrate_outbox):
        with pytest.raises(SettingsInvalid, match=r"outbox\.url") as raised:
            opened(settings, VirtualClock())
        assert "nted" not in "".join(traceback.format_exception(raised.value))
        assert raised.value.__context__ is None


@pytest.mark.parametrize("url", READABLE)
def test_a_url_that_the_driver_reads_as_meant_is_taken(url: str) -> None:
    """Nothing is connected before it is needed."""
    open_outbox(Settings(outbox={"url": url}), VirtualClock()).close()


@pytest.mark.parametrize("command", [("outbox",), ("outbox", "status"), ("outbox", "migrate")])
def test_no_command_prints_a_password_of_a_url_that_it_cannot_read(
    tmp_path: Path, command: tuple[str, ...]
) -> None:
    """Nor with the trace of an error."""
    for url in UNREADABLE:
        if not url.isascii():
            continue
        done = invoke(tmp_path, *command, "--url", url, "--debug")
        assert done.exit_code == 3, done.output
        assert "outbox.url" in done.output
        assert "nted" not in done.output
