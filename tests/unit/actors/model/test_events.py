"""Events: typed, past tense, and all of them in the union that telemetry handles."""

import inspect
import re
import typing

import msgspec

from actors.model import events, observed
from actors.model.events import Event

_PAST = re.compile(r"(ed|Rebuilt|Stuck|Lost|Shrunk|Held|Began|Split)$")
"""The regular participles, and the irregular ones in use."""


def _classes() -> list[type]:
    return [
        member
        for module in (events, observed)
        for _, member in inspect.getmembers(module, inspect.isclass)
        if member.__module__ == module.__name__
    ]


def test_every_event_is_in_the_union() -> None:
    """An event outside it would be emitted and handled by nobody."""
    assert set(typing.get_args(Event)) == set(_classes())


def test_every_event_is_told_in_the_past_tense() -> None:
    """It has happened; nobody is asked to do anything."""
    for event in _classes():
        assert _PAST.search(event.__name__), event


def test_every_event_is_a_frozen_value() -> None:
    """It crosses threads."""
    for event in _classes():
        assert issubclass(event, msgspec.Struct) and event.__struct_config__.frozen, event
        assert inspect.getdoc(event), event


def test_times_of_events_carry_their_unit() -> None:
    """A duration or an instant is told in milliseconds."""
    for event in _classes():
        for field in msgspec.structs.fields(event):
            if re.search(r"duration|delay|pause|waited|timeout|reached|watermark", field.name):
                assert field.name.endswith("_ms"), (event, field.name)
