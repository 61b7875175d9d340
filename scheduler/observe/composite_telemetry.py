"""One telemetry made of several, each shielded from the others.

Decides who is handed what; a telemetry that fails is told at DEBUG, and never to the emitter.
"""

import logging
from collections.abc import Callable, Sequence

from actors.model.display import log_raised
from actors.model.events import Event
from actors.ports.telemetry import Telemetry
from scheduler.process.user_code import is_interrupt


class CompositeTelemetry:
    """Hands every event to several telemetries.

    Who takes the events of a class is found when the first of them comes.
    """

    def __init__(self, *parts: Telemetry) -> None:
        self.parts: list[Telemetry] = []
        for part in parts:
            # Those of one within are asked directly: a frame less for each event.
            self.parts += part.parts if isinstance(part, CompositeTelemetry) else [part]
        self._takers = _Takers(self.parts)

    def emit(self, event: Event) -> None:
        """Hand the event on."""
        for take in self._takers[event.__class__]:
            try:
                take(event)
            except BaseException as error:  # noqa: BLE001 - as for finding it
                _note(error)


def _note(error: BaseException) -> None:
    if is_interrupt(error):
        raise error
    log_raised(logging.getLogger("hourhand"), "a telemetry raised", level=logging.DEBUG)


class _Takers(dict[type, tuple[Callable[[Event], None], ...]]):
    """Class of an event to what takes it, in the order of the telemetries."""

    def __init__(self, parts: Sequence[Telemetry]) -> None:
        super().__init__()
        self.parts = parts

    def __missing__(self, kind: type[Event]) -> tuple[Callable[[Event], None], ...]:
        found = [_taker(part, kind) for part in self.parts]
        return self.setdefault(kind, tuple(take for take in found if take is not None))


def _taker(part: Telemetry, kind: type[Event]) -> Callable[[Event], None] | None:
    try:
        select = getattr(part, "taker", None)
        return part.emit if select is None else select(kind)
    except BaseException as error:  # noqa: BLE001 - a telemetry may be anybody's
        _note(error)
        return None
