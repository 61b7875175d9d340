"""Settings given as text, each under its dotted name: ``--set``, and the options of Spark.

Decides the setting that a name means and the parsing of its text. ``Settings`` validates the
values, as it does values from code.
"""

import difflib
import json
import re
import types
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import BaseModel

from hourhand.actors.model.values.display import shown
from hourhand.actors.model.values.errors import SettingsInvalid
from hourhand.scheduler.configuration.settings import Settings, is_file


class SettingPlace(NamedTuple):
    """The place of a dotted name among the settings."""

    groups: tuple[str, ...]
    name: str
    annotation: Any
    entry: str | None
    """Key of one entry if the setting is a mapping; it may also contain dots."""


def load_settings(config_file: Path | None = None, overrides: Sequence[str] = ()) -> Settings:
    """Return the settings of ``name=value`` overrides, environment and file, in that order.

    ``config_file`` is read instead of the file that the environment names. Raises SettingsInvalid.
    """
    pairs = []
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals:
            # The text after the name may be a secret, also behind another sign than ``=``.
            named = re.match(r"[\w.]*", override)
            known = named[0] if named else ""
            raise SettingsInvalid(f"--set {known!r}…: expected name=value, as group.id=blue")
        pairs.append((name.strip(), text))
    if config_file is not None and not is_file(config_file):
        raise SettingsInvalid(f"--config {shown(str(config_file))}: there is no such file")
    return Settings(config_file=config_file, **nested_values(pairs, "--set"))


def nested_values(overrides: Iterable[tuple[str, str]], given_as: str) -> dict[str, Any]:
    """Return the values of dotted names in the form that ``Settings`` takes; the last of a name
    counts.

    ``given_as`` precedes a name in an error, as in ``--set group.id``.
    """
    values: dict[str, Any] = {}
    for name, text in overrides:
        place = place_of(name, given_as)
        group = values
        for each in place.groups:
            group = group.setdefault(each, {})
        if place.entry is None:
            group[place.name] = _read(f"{given_as} {name}", place.annotation, text)
            continue
        mapping = group.setdefault(place.name, {})
        if not isinstance(mapping, dict):
            raise SettingsInvalid(
                f"{given_as} {name}: {place.name} was set before, and not to a mapping"
            )
        mapping[place.entry] = text
    return values


def place_of(name: str, given_as: str) -> SettingPlace:
    """Return the place of a dotted name; raises SettingsInvalid if there is no such setting."""
    model: type[BaseModel] = Settings
    groups: list[str] = []
    rest = name
    while True:
        part, dot, rest = rest.partition(".")
        if part not in model.model_fields:
            raise SettingsInvalid(f"{given_as} {name}: no such setting{_suggestion(name)}")
        annotation = model.model_fields[part].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            break
        if not dot:
            raise SettingsInvalid(f"{given_as} {name} is a group: name a setting of it")
        groups.append(part)
        model = annotation
    if dot and get_origin(annotation) is not dict:
        group = name.removesuffix(f".{rest}")
        raise SettingsInvalid(f"{given_as} {name}: {group} is not a group")
    return SettingPlace(tuple(groups), part, annotation, rest if dot else None)


def _read(given: str, annotation: Any, text: str) -> Any:
    """Read a list or mapping as JSON and ``null`` as None; pydantic reads the rest."""
    if text == "null" and types.NoneType in get_args(annotation):
        return None
    if get_origin(annotation) is tuple and not text.startswith("["):
        return [part.strip() for part in text.split(",")]
    if get_origin(annotation) in (dict, tuple):
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise SettingsInvalid(f"{given}: this is not JSON: {error}") from None
    return text


def _suggestion(name: str) -> str:
    close = difflib.get_close_matches(name, _names("", Settings), n=1)
    return f"; did you mean {close[0]}?" if close else "; `hourhand settings` lists all"


def _names(prefix: str, model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _names(f"{prefix}{name}.", field.annotation)
        else:
            yield f"{prefix}{name}"
