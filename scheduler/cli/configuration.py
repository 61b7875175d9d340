"""Settings as the command line takes and shows them.

Decides how ``--set group.id=foo`` and ``--config file.toml`` reach ``Settings``, which then
judges every value, and which values are never shown.
"""

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_origin

from pydantic import BaseModel

from actors.model.errors import SettingsInvalid
from scheduler.admin.masking import masked
from scheduler.configuration.assignments import config_file, read_value
from scheduler.configuration.settings import Settings


def load_settings(config: Path | None = None, assignments: Sequence[str] = ()) -> Settings:
    """Return the settings of ``name=value`` assignments, environment and file, in that order.

    ``config`` is read instead of the file that the environment names.  Raises SettingsInvalid.
    """
    values: dict[str, Any] = {}
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals:
            # What follows the name may be a secret, written with another sign between them.
            named = re.match(r"[\w.]*", assignment)
            shown = named[0] if named else ""
            raise SettingsInvalid(f"--set {shown!r}…: expected name=value, as group.id=blue")
        _assign(values, name.strip(), text)
    with config_file(config):
        return Settings(**values)


def _assign(values: dict[str, Any], name: str, text: str) -> None:
    """Put one value where its dotted name says; a mapping's own keys may hold dots too."""
    model: type[BaseModel] = Settings
    rest = name
    while True:
        part, dot, rest = rest.partition(".")
        if part not in model.model_fields:
            raise SettingsInvalid(f"--set {name}: no such setting{_suggestion(name)}")
        annotation = model.model_fields[part].annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            if not dot:
                raise SettingsInvalid(f"--set {name} is a group: name a setting of it")
            model, values = annotation, values.setdefault(part, {})
            continue
        if not dot:
            values[part] = read_value(f"--set {name}", annotation, text)
        elif get_origin(annotation) is dict:
            mapping = values.setdefault(part, {})
            if not isinstance(mapping, dict):
                raise SettingsInvalid(f"--set {name}: {part} was set to no mapping before")
            mapping[rest] = text
        else:
            raise SettingsInvalid(f"--set {name}: {name.removesuffix('.' + rest)} is no group")
        return


def _suggestion(name: str) -> str:
    known = [known for known, _ in flattened(Settings.model_construct())]
    close = difflib.get_close_matches(name, known, n=1)
    return f"; did you mean {close[0]}?" if close else "; `hourhand settings` lists all"


def flattened(settings: Settings) -> Iterator[tuple[str, Any]]:
    """Yield every setting's dotted name, as ``--set`` takes it, and its masked value."""
    yield from _leaves("", masked(settings))


def _leaves(prefix: str, values: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from _leaves(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", value
