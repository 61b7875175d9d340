"""Chooses the database that ``outbox.url`` names, and opens its table.

Decides only that; drivers are imported here when they are needed.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.actors.ports.clock import Clock
from hourhand.scheduler.configuration.optional_dependencies import required_by
from hourhand.scheduler.configuration.settings import Settings
from hourhand.scheduler.outbox.ports import OutboxTable
from hourhand.scheduler.outbox.sqlite import SqliteOutbox
from hourhand.scheduler.outbox.table import Dialect

if TYPE_CHECKING:
    from hourhand.scheduler.outbox.postgres import PostgresOutbox

_SCHEME = re.compile("[a-z][a-z0-9+]{0,19}", re.ASCII | re.IGNORECASE)
_SQLITE = "sqlite:///"
_POSTGRESQL = ("postgresql://", "postgres://")


def open_outbox(settings: Settings, clock: Clock) -> OutboxTable:
    """Open the table that ``outbox.url`` names, for one mover."""
    if _dialect(settings) is Dialect.SQLITE:
        return SqliteOutbox(_path(settings), settings.outbox.table)
    return _postgres(settings, clock)


def migrate_outbox(settings: Settings, clock: Clock) -> list[str]:
    """Bring the table that ``outbox.url`` names to the newest version; return the changes."""
    table = (
        SqliteOutbox(_path(settings), settings.outbox.table)
        if _dialect(settings) is Dialect.SQLITE
        else _postgres(settings, clock)
    )
    try:
        return table.migrate()
    finally:
        table.close()


def _postgres(settings: Settings, clock: Clock) -> "PostgresOutbox":
    with required_by("an outbox in PostgreSQL"):
        from hourhand.scheduler.outbox.postgres import PostgresOutbox
    delivery_ms = settings.kafka.delivery_timeout_ms
    return PostgresOutbox(_url(settings), settings.outbox.table, clock, delivery_ms)


def _dialect(settings: Settings) -> Dialect:
    return Dialect.SQLITE if _url(settings).startswith(_SQLITE) else Dialect.POSTGRESQL


def _path(settings: Settings) -> Path:
    return Path(unquote(_url(settings).removeprefix(_SQLITE)))


def _url(settings: Settings) -> str:
    given = settings.outbox.url
    if given is None:
        raise SettingsInvalid(
            "outbox.url is not set: name the database that your tasks are written into, as"
            " postgresql://user@host/shop or sqlite:///shop.db"
        )
    url = given.get_secret_value()
    # SQLAlchemy's form also names the driver.
    scheme, separator, rest = url.partition("://")
    url = f"{scheme.partition('+')[0]}{separator}{rest}"
    if not url.startswith((_SQLITE, *_POSTGRESQL)):
        # A URL without its scheme starts with a user and a password.
        known = separator and _SCHEME.fullmatch(scheme)
        raise SettingsInvalid(
            "outbox.url begins with postgresql:// or sqlite:///, and this one with"
            f" {scheme + separator!r}"
            if known
            else "outbox.url must begin with postgresql:// or sqlite:///"
        )
    return url
