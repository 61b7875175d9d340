"""The settings' door: environment, file, code and ``--set``, each with what does not belong there.

Decides what is an answer: settings, or SettingsInvalid that names what is wrong.
"""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.configuration.overrides import load_settings
from hourhand.scheduler.configuration.settings import Settings
from tests.fuzz import values

_GROUPS = ("topic", "group", "kafka", "cassandra", "embedded", "client", "tree", "nothing")
_FILES = (
    b"\xff\xfe[topic]",
    b"[topic\n",
    b"[topic]\nname = 5\nname = 6",
    b"topic = 5",
    b"x = " + b"[" * 20_000,
    b"[topic]\npartitions = " + b"9" * 5_000,
    b"[topic]\npartitions = 1979-05-27T07:32:00Z",
    b"[group]\nid = ''",
    b"\0",
    b"\xef\xbb\xbflog = 'kafka'",
    b"",
)
_SECRET = "hunter2-never-shown"


def try_settings(seed: int, count: int, folder: Path) -> int:
    """Read settings ``count`` times; AssertionError where one is refused without a reason."""
    rng = random.Random(f"settings {seed}")
    for number in range(count):
        where = rng.choice((_by_code, _by_environment, _by_file, _by_flag))
        try:
            reason = _refusal(where, rng, folder)
        except Exception as error:
            raise AssertionError(f"settings seed {seed}, number {number}, {where}") from error
        assert reason is None or reason.strip(), "an error without a reason"
        assert reason is None or _SECRET not in reason, "a secret is shown"
    return count


def _refusal(
    where: Callable[[random.Random, Path], None], rng: random.Random, folder: Path
) -> str | None:
    try:
        where(rng, folder)
    except SettingsInvalid as error:
        return str(error)
    return None


def _setting(rng: random.Random) -> tuple[str, str]:
    """Return the group and name of a setting, mostly one that exists."""
    group = rng.choice(_GROUPS)
    field = Settings.model_fields.get(group)
    names: list[str] = list(getattr(field.annotation, "model_fields", {})) if field else []
    return group, rng.choice([*names, "nothing", "", "name.deeper"])


def _by_code(rng: random.Random, _folder: Path) -> None:
    group, name = _setting(rng)
    given: Any = values.value(rng)
    fields: dict[str, Any] = {
        group: rng.choice((given, {name: given}, {"password": _SECRET, name: given}))
    }
    Settings(**fields)


def _by_environment(rng: random.Random, _folder: Path) -> None:
    group, name = _setting(rng)
    given = values.text(rng).replace("\0", "").encode("utf-8", "replace").decode()
    variable = f"HOURHAND_{group}__{name}".upper() if rng.random() < 0.8 else f"HOURHAND_{group}"
    chosen = rng.choice((given, "[" * 20_000, "{", "9" * 5_000, "1e400", "", "null"))
    with _environment(variable.upper(), chosen):
        Settings()


def _by_file(rng: random.Random, folder: Path) -> None:
    path = folder / "hostile.toml"
    data = bytearray(rng.choice(_FILES))
    if data and rng.random() < 0.5:
        data[rng.randrange(len(data))] = rng.randrange(256)
    path.write_bytes(data)
    load_settings(rng.choice((path, path, path, folder, folder / "nowhere.toml")))


def _by_flag(rng: random.Random, _folder: Path) -> None:
    group, name = _setting(rng)
    chosen = rng.choice((values.text(rng), "[" * 20_000, "{}", "5", "null", ""))
    load_settings(None, [f"{group}.{name}={chosen}", rng.choice(("", "=", "topic=1", "log=kafka"))])


@contextmanager
def _environment(name: str, text: str) -> Iterator[None]:
    os.environ[name] = text
    try:
        yield
    finally:
        del os.environ[name]
