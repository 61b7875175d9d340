"""The options of a Spark read or write, and the settings that follow from them.

Options travel through Spark's plans and logs, so secrets are refused here: an option names a
settings file, which every worker reads for itself, and that may name a password file.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.configuration.overrides import nested_values, place_of
from hourhand.scheduler.configuration.settings import CONFIG_VARIABLE, Settings
from hourhand.scheduler.ports.bulk import BulkTable

STATES = "states"
"""A computed table: every key with the state that its rows make up together."""
TABLES = (*(table.value for table in BulkTable), STATES)
BUCKETS_PER_TASK_MAX = 100_000

_OWN = (
    "table",
    "columns",
    "config",
    "metrics",
    "bucketspertask",
    "rowspersecond",
    "rowsperbatch",
    "stored",
)


class Options(NamedTuple):
    """The options of one read or write, after validation."""

    table: str = BulkTable.TASKS.value
    columns: tuple[str, ...] | None = None
    """Columns to read; None for all."""
    config: str | None = None
    """Absolute path of the settings file; None for the one that the environment names, if any."""
    overrides: tuple[tuple[str, str], ...] = ()
    """Settings by dotted name, none of them secret."""
    metrics: str | None = None
    """Folder in which each task of a read or write leaves its counts."""
    buckets_per_task: int | None = None
    rows_per_second: float | None = None
    """Limit for each task that writes."""
    rows_per_batch: int | None = None
    """Most events of one batch of a stream."""
    stored: bool = False
    """True if column ``data`` is the text of rows as in the store, not the data in it."""

    def settings(self) -> Settings:
        """Return the settings; raises SettingsInvalid."""
        return Settings(config_file=self.config, **nested_values(self.overrides, "option"))

    def with_settings(self, changed: Mapping[str, str]) -> "Options":
        """Return the options with some settings changed; raises SettingsInvalid."""
        for name in changed:
            _refuse_secret(name)
        named = {**dict(self.overrides), **{name.lower(): v for name, v in changed.items()}}
        return self._replace(overrides=tuple(sorted(named.items())))

    def as_mapping(self) -> dict[str, str]:
        """Return the options in the form of ``spark.read.options``."""
        named = {
            "table": self.table,
            "columns": None if self.columns is None else ",".join(self.columns),
            "config": self.config,
            "metrics": self.metrics,
            "bucketsPerTask": self.buckets_per_task,
            "rowsPerSecond": self.rows_per_second,
            "rowsPerBatch": self.rows_per_batch,
            "stored": "true" if self.stored else None,
        }
        given = {name: str(value) for name, value in named.items() if value is not None}
        return {**given, **dict(self.overrides)}


def parse_options(options: Mapping[str, str]) -> Options:
    """Validate the options of a read or write; raises SettingsInvalid that names the wrong one."""
    own = {name.lower(): text for name, text in options.items() if name.lower() in _OWN}
    others = {name: text for name, text in options.items() if name.lower() not in _OWN}
    table = own.get("table", BulkTable.TASKS.value)
    if table not in TABLES:
        raise SettingsInvalid(f"option table: {shown(table)} is not one of {', '.join(TABLES)}")
    columns = own.get("columns")
    config = own.get("config") or os.environ.get(CONFIG_VARIABLE)
    for name in others:
        _refuse_secret(name)
    return Options(
        table=table,
        columns=None if columns is None else tuple(map(str.strip, columns.split(","))),
        config=None if config is None else str(Path(config).resolve()),
        overrides=tuple(sorted((name.lower(), text) for name, text in others.items())),
        metrics=own.get("metrics"),
        buckets_per_task=_number(own, "bucketspertask", int, 1, BUCKETS_PER_TASK_MAX),
        rows_per_second=_number(own, "rowspersecond", float, 0.001, 1e9),
        rows_per_batch=_number(own, "rowsperbatch", int, 1, 1_000_000_000),
        stored=_flag(own, "stored"),
    )


def _number(own: Mapping[str, str], name: str, kind: type, lowest: float, highest: float) -> Any:
    if name not in own:
        return None
    try:
        value = kind(own[name])
    except ValueError:
        value = None
    if value is None or not lowest <= value <= highest:
        raise SettingsInvalid(
            f"option {name}: {shown(own[name])} is not a number from {lowest:g} to {highest:g}"
        )
    return value


def _flag(own: Mapping[str, str], name: str) -> bool:
    text = own.get(name, "false").lower()
    if text not in {"true", "false"}:
        raise SettingsInvalid(f"option {name}: {shown(own[name])} is neither true nor false")
    return text == "true"


def _refuse_secret(name: str) -> None:
    if "SecretStr" in str(place_of(name.lower(), "option").annotation):
        raise SettingsInvalid(
            f"option {name} is a secret, which would stand in Spark's plans and logs: keep it in"
            " the settings file that option config names, or in a password file"
        )
