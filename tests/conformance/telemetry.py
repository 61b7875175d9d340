"""The contract of every telemetry; bind it by a ``telemetry`` fixture in ``TelemetryContract``."""

import threading
import typing

from msgspec.structs import fields as fields_of

from hourhand.actors.model.operations import events
from hourhand.actors.model.operations.events import AttemptFinished, Event
from hourhand.actors.model.task.codec import CommandKind
from hourhand.actors.model.task.key import TaskKey
from hourhand.actors.model.task.status import AttemptResult, CommandOutcome, CompletionResult
from hourhand.actors.ports.telemetry import Telemetry


class Unshowable(Exception):
    """An error whose text and notes are code that raises."""

    def __str__(self) -> str:
        """Raise what ``except Exception`` does not catch."""
        raise SystemExit(3)

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        """Raise where a trace is made."""
        raise RuntimeError("no notes")


_SAMPLES: dict[object, object] = {
    int: 3,
    tuple[int, ...]: (1, 2),
    float: 1.5,
    str: "text with\nlines and {braces} %s",
    bool: True,
    str | None: None,
    int | None: 7,
    TaskKey | None: None,
    BaseException: Unshowable(),
    TaskKey: TaskKey(1_770_601_272_959, "an id, with ünïcode", ""),
    AttemptResult: AttemptResult.FAILURE,
    CompletionResult: CompletionResult.SUCCESS,
    CommandKind: CommandKind.CANCEL,
    CommandOutcome: CommandOutcome.APPLIED,
}
_SAMPLES[tuple[AttemptFinished, ...]] = (
    AttemptFinished(3, TaskKey(1_770_601_272_959, "an id", ""), 1, AttemptResult.SUCCESS, 5, 9),
)


def one_of_each() -> list[Event]:
    """Return an event of every class there is."""
    made = []
    for kind in typing.get_args(events.Event):
        hints = typing.get_type_hints(kind)
        fields = {field.name: _SAMPLES[hints[field.name]] for field in fields_of(kind)}
        made.append(kind(**fields))
    return made


class TelemetryContract:
    """The contract of ``hourhand.actors.ports.telemetry.Telemetry``."""

    def test_every_event_is_taken(self, telemetry: Telemetry) -> None:
        """None raises, whatever text it carries."""
        for event in one_of_each():
            telemetry.emit(event)

    def test_events_come_from_any_thread(self, telemetry: Telemetry) -> None:
        """Workers, drivers and the dispatcher all report."""
        failures: list[BaseException] = []

        def report() -> None:
            try:
                for event in one_of_each() * 20:
                    telemetry.emit(event)
            except BaseException as error:  # noqa: BLE001 - carried to the test's own thread
                failures.append(error)

        threads = [threading.Thread(target=report) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)

        assert not failures
