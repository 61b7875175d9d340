"""Ports whose requests are made again until they are answered: reads of the stores, dead letters.

A read changes nothing, and of two dead letters one is enough, so both may be made as often as one
likes.  Of a write that failed nobody knows whether it had its effect: it fails here as it does
there.  Never decides what may pass.
"""

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from typing import Protocol, cast

import msgspec

from actors.ports.effects import Effects
from actors.ports.log import LogWriter
from actors.ports.store import OwnershipStore, ScheduleStore, StatusStore

Insist = Callable[[Callable[[], "Future[object]"]], "Future[object]"]
"""Makes a request until it is answered, or refused for good."""

_READS = ("load_", "find_", "read_")
"""How the methods of a store begin that change nothing."""


def with_patient_reads(effects: Effects, insist: Insist) -> Effects:
    """Return the same effects, for roles that live no longer than ``insist`` asks."""
    stores = effects.stores
    patient = msgspec.structs.replace(
        stores,
        schedule=cast("ScheduleStore", _Patient(stores.schedule, insist, _READS)),
        status=cast("StatusStore", _Patient(stores.status, insist, _READS)),
        ownership=cast("OwnershipStore", _Patient(stores.ownership, insist, _READS)),
    )
    return replace(effects, stores=patient)


def with_patient_letters(effects: Effects, insist: Insist) -> Effects:
    """Return the same effects, for roles that live no longer than ``insist`` asks."""
    writer = cast("LogWriter", _Patient(effects.writer, insist, ("dead_letter",)))
    return replace(effects, writer=writer)


class _Method(Protocol):
    def __call__(self, *arguments: object) -> "Future[object]": ...


class _Patient:
    """A port some of whose methods insist; each is looked up once."""

    def __init__(self, port: object, insist: Insist, insistent: tuple[str, ...]) -> None:
        self._port = port
        self._insist = insist
        self._insistent = insistent

    def __getattr__(self, name: str) -> _Method:
        method: _Method = getattr(self._port, name)
        found, insist = method, self._insist
        if name.startswith(self._insistent):

            def found(*arguments: object) -> "Future[object]":
                return insist(partial(method, *arguments))

        setattr(self, name, found)
        return found
