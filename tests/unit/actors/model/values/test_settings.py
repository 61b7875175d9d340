"""The tree's settings: frozen, ranged, and with a working default."""

from typing import Literal, get_origin

import pytest
from pydantic import BaseModel, ValidationError

from hourhand.actors.model.values.settings import Group, TreeSettings, WindowSettings


def _groups() -> list[type[BaseModel]]:
    groups: list[type[BaseModel]] = []
    for field in TreeSettings.model_fields.values():
        assert isinstance(field.annotation, type)
        assert issubclass(field.annotation, Group)
        groups.append(field.annotation)
    return groups


def test_the_defaults_are_valid() -> None:
    """Reading a default back through validation changes nothing."""
    settings = TreeSettings()

    assert TreeSettings.model_validate(settings.model_dump()) == settings


@pytest.mark.parametrize("group", _groups(), ids=lambda group: group.__name__)
def test_every_setting_is_ranged_and_carries_its_unit(group: type[BaseModel]) -> None:
    """A number without a lower bound is a number nobody thought about."""
    for name, field in group.model_fields.items():
        if field.annotation is bool or get_origin(field.annotation) is Literal:
            continue
        assert any(hasattr(bound, "ge") for bound in field.metadata), name
        assert name.endswith(("_ms", "_max", "_tasks", "workers", "processes", "niceness")), name


def test_settings_cannot_be_changed() -> None:
    """A running node reads them from several threads."""
    settings = WindowSettings()

    with pytest.raises(ValidationError, match="frozen"):
        settings.tick_ms = 5  # type: ignore[misc]


def test_a_value_out_of_range_is_refused_with_the_range() -> None:
    """The message tells the bound and the value."""
    with pytest.raises(ValidationError, match=r"tick_ms[\s\S]*greater than or equal to 1"):
        WindowSettings(tick_ms=0)


def test_an_unknown_setting_is_refused() -> None:
    """A typing error does not silently leave the default in place."""
    with pytest.raises(ValidationError, match="tick"):
        WindowSettings.model_validate({"tick": 5})
